//! The wgpu device: any GPU that Vulkan, Metal, DirectX 12 or a browser reaches.
//!
//! Nothing here uses threads or files, and everything that may wait is `async`, so that it runs in a browser too.
//! Whatever the device reports, by error scope, callback or panic, becomes an [`Error`].

mod adapter;
mod executable;
mod gpu;

pub use adapter::{list, open};
pub use executable::{GpuExecutable, GpuWatched};
pub use gpu::Gpu;
