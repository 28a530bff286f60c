//! Modules that several integration tests share.

#![allow(dead_code, reason = "each test uses its part")]

use std::sync::LazyLock;

use tile_runtime::Device;

pub mod generate;
pub mod golden;
pub mod tools;

/// The adapters that wgpu finds here.
pub static ADAPTERS: LazyLock<Vec<Device>> = LazyLock::new(|| {
    let adapters = Device::list().into_iter().filter(|info| info.name.starts_with("wgpu"));
    let adapters: Vec<Device> =
        adapters.filter_map(|info| Device::named(&info.name).ok()).collect();
    if adapters.is_empty() {
        eprintln!("note: there is no wgpu adapter here, so that wgpu is not tested");
    }
    adapters
});
