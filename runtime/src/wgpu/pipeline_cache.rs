//! [`Compiled`]: the driver's pipeline cache, shared by all sessions of a device, and kept between
//! processes in a file of the user's cache folder where there are files.

use wgpu::{Device, Features, PipelineCache, PipelineCacheDescriptor};

#[cfg(not(target_family = "wasm"))]
use {super::gpu::adapter_key, super::gpu::lock, crate::cache::CacheFile, std::sync::Mutex};

/// The most bytes of a file that is reused. A larger one is started afresh, because drivers never
/// evict kernels.
#[cfg(not(target_family = "wasm"))]
const MOST: usize = 64 << 20;

/// The pipeline cache of a device, see the module documentation.
pub struct Compiled {
    cache: Option<PipelineCache>,
    #[cfg(not(target_family = "wasm"))]
    file: Option<Mutex<CacheFile>>,
    /// Problems with the file. Results do not depend on it.
    #[cfg(not(target_family = "wasm"))]
    warnings: Mutex<Vec<String>>,
}

impl Compiled {
    /// Makes an empty cache, if the device supports caches.
    pub fn new(device: &Device) -> Compiled {
        // SAFETY: no data is given.
        unsafe { Compiled::of(device, None) }
    }

    /// # Safety
    /// `data` must come from a cache of the same adapter, driver and version.
    unsafe fn of(device: &Device, data: Option<&[u8]>) -> Compiled {
        let descriptor = PipelineCacheDescriptor { label: None, data, fallback: true };
        let is_there = device.features().contains(Features::PIPELINE_CACHE);
        Compiled {
            // SAFETY: the caller guarantees the origin of `data`.
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
    pub fn load(device: &Device) -> Compiled {
        Compiled::new(device)
    }

    pub fn keep(&self) {}

    pub fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(not(target_family = "wasm"))]
impl Compiled {
    /// Makes a cache with the pipelines that other processes compiled for this adapter, its driver
    /// and this version.
    pub fn load(device: &Device) -> Compiled {
        let info = device.adapter_info();
        let name = format!("pipelines-{:x}-{:x}", info.vendor, info.device);
        let file = CacheFile::new(&name, &adapter_key(device))
            .filter(|_| device.features().contains(Features::PIPELINE_CACHE));
        let Some(mut file) = file else { return Compiled::new(device) };
        let (data, warning) = match file.read() {
            Ok(data) => (data.filter(|data| data.len() <= MOST), None),
            Err(warning) => (None, Some(warning)),
        };
        // SAFETY: `file.read` has checked that the file is complete and belongs to this adapter,
        // driver and version. Only `keep` writes such files.
        let compiled = unsafe { Compiled::of(device, data.as_deref()) };
        Compiled {
            file: Some(Mutex::new(file)),
            warnings: Mutex::new(warning.into_iter().collect()),
            ..compiled
        }
    }

    /// Writes new content of the cache to the file.
    pub fn keep(&self) {
        if let (Some(cache), Some(file)) = (&self.cache, &self.file)
            && let Some(data) = cache.get_data()
            && let Err(warning) = lock(file).write(&data)
        {
            lock(&self.warnings).push(warning);
        }
    }

    /// Returns the problems with the file.
    pub fn warnings(&self) -> Vec<String> {
        lock(&self.warnings).clone()
    }
}
