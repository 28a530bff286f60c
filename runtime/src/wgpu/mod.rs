//! The wgpu device: any GPU that Vulkan, Metal, DirectX 12 or a browser reaches.
//!
//! Everything that may wait is `async`, so that it runs in a browser too, where `pipeline` does without threads and
//! `pipeline_cache` without files; nothing else here uses them.
//! Whatever the device reports, by error scope, callback or panic, becomes an [`Error`].

mod adapter;
#[cfg(not(target_family = "wasm"))]
mod clock;
mod executable;
mod gpu;
mod pipeline;
mod pipeline_cache;
#[cfg(not(target_family = "wasm"))]
mod trace;

pub use adapter::{list, open};
pub use executable::{GpuExecutable, GpuWatched};
pub use gpu::{Gpu, lock};
