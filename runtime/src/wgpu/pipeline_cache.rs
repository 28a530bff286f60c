//! [`Compiled`]: what the driver has compiled, for all sessions of a device, and from one process to the next in a file of the
//! user's cache folder, where there are files.

use wgpu::{Device, Features, PipelineCache, PipelineCacheDescriptor};

#[cfg(not(target_family = "wasm"))]
use {super::gpu::adapter_key, super::gpu::lock, crate::cache::CacheFile, std::sync::Mutex};

/// Bytes of content with which a file is begun anew: drivers never forget kernels that nobody needs any more.
#[cfg(not(target_family = "wasm"))]
const MOST: usize = 64 << 20;

/// See the module's head.
pub struct Compiled {
    cache: Option<PipelineCache>,
    #[cfg(not(target_family = "wasm"))]
    file: Option<Mutex<CacheFile>>,
    /// What went wrong with the file; results do not depend on it.
    #[cfg(not(target_family = "wasm"))]
    warnings: Mutex<Vec<String>>,
}

impl Compiled {
    /// What this process compiles, as far as the device has a cache.
    pub fn new(device: &Device) -> Compiled {
        // SAFETY: there is no data.
        unsafe { Compiled::of(device, None) }
    }

    /// # Safety
    /// Data must be what a cache of the same adapter, driver and version gave.
    unsafe fn of(device: &Device, data: Option<&[u8]>) -> Compiled {
        let descriptor = PipelineCacheDescriptor { label: None, data, fallback: true };
        let is_there = device.features().contains(Features::PIPELINE_CACHE);
        Compiled {
            // SAFETY: by the caller's promise.
            cache: is_there.then(|| unsafe { device.create_pipeline_cache(&descriptor) }),
            #[cfg(not(target_family = "wasm"))]
            file: None,
            #[cfg(not(target_family = "wasm"))]
            warnings: Mutex::default(),
        }
    }

    pub fn cache(&self) -> Option<&PipelineCache> {
        self.cache.as_ref()
    }
}

#[cfg(target_family = "wasm")]
impl Compiled {
    pub fn kept(device: &Device) -> Compiled {
        Compiled::new(device)
    }

    pub fn keep(&self) {}

    pub fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(not(target_family = "wasm"))]
impl Compiled {
    /// The same with what other processes compiled for this adapter, its driver and this version.
    pub fn kept(device: &Device) -> Compiled {
        let info = device.adapter_info();
        let name = format!("pipelines-{:x}-{:x}", info.vendor, info.device);
        let file = CacheFile::new(&name, &adapter_key(device))
            .filter(|_| device.features().contains(Features::PIPELINE_CACHE));
        let Some(mut file) = file else { return Compiled::new(device) };
        let (data, warning) = match file.read() {
            Ok(data) => (data.filter(|data| data.len() <= MOST), None),
            Err(warning) => (None, Some(warning)),
        };
        // SAFETY: the file says that it is of this adapter, driver and version, and is whole; only `keep` writes such files.
        let compiled = unsafe { Compiled::of(device, data.as_deref()) };
        Compiled { file: Some(Mutex::new(file)), warnings: Mutex::new(warning.into_iter().collect()), ..compiled }
    }

    /// Writes to the file what is not in it yet.
    pub fn keep(&self) {
        if let (Some(cache), Some(file)) = (&self.cache, &self.file)
            && let Some(data) = cache.get_data()
            && let Err(warning) = lock(file).write(&data)
        {
            lock(&self.warnings).push(warning);
        }
    }

    /// What went wrong with the file.
    pub fn warnings(&self) -> Vec<String> {
        lock(&self.warnings).clone()
    }
}
