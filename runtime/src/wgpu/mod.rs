//! The wgpu device: a GPU by Vulkan, Metal, DirectX 12 or a browser.
//!
//! All functions that may wait are `async`, so that they also run in a browser. There, `pipeline`
//! works without threads, `pipeline_cache` without files, and `rates` is left out. Nothing else
//! here needs threads or files.
//!
//! All reports of the device, by error scope, callback or panic, become an [`Error`].

#[expect(
    unsafe_code,
    reason = "foreign boundary: Vulkan handles, and features that wgpu calls experimental"
)]
mod adapter;
mod backend;
#[cfg(not(target_family = "wasm"))]
mod clock;
mod confirm;
mod executable;
mod external;
mod gpu;
#[cfg(not(target_family = "wasm"))]
mod kept;
mod launches;
#[expect(unsafe_code, reason = "foreign boundary: shaders without the driver's checks")]
mod pipeline;
#[expect(unsafe_code, reason = "foreign boundary: data for the driver's cache")]
mod pipeline_cache;
#[cfg(not(target_family = "wasm"))]
mod rates;
mod resource;
#[cfg(test)]
mod tests;
#[cfg(not(target_family = "wasm"))]
mod trace;
mod trial;
mod watched;

pub use adapter::{check_adapter, list, matrix_units, open};
pub use backend::WgpuBackend;
pub use confirm::confirm;
pub use executable::GpuExecutable;
pub use gpu::Gpu;
#[cfg(not(target_family = "wasm"))]
pub use rates::apply as apply_rates;
pub use resource::Resource;
#[cfg(test)]
pub use {gpu::lock, kept::Kept};
