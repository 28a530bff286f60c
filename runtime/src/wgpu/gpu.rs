//! [`Gpu`]: an open wgpu device, and the way from what it reports to our errors.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tile_compiler::profile::{MatrixUnit, Profile};
use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, BufferView, CommandEncoder, CommandEncoderDescriptor, Device, ErrorFilter,
    MapMode, PollType, Queue, SubmissionIndex,
};

use super::adapter;
use super::pipeline_cache::Compiled;
use crate::error::Error;
#[cfg(not(target_family = "wasm"))]
use crate::{cache, tune::Kept};

/// An open device with its queue.
pub struct Gpu {
    pub name: String,
    pub device: Device,
    pub queue: Queue,
    pub profile: Profile,
    /// What the driver has compiled, for all sessions.
    pub compiled: Compiled,
    /// The schedules that were tuned for it.
    #[cfg(not(target_family = "wasm"))]
    pub tuned: Mutex<Kept>,
    /// Why the device was lost, once it is.
    lost: Arc<Mutex<Option<String>>>,
    /// How often commands were handed over.
    #[cfg(test)]
    pub submissions: std::sync::atomic::AtomicUsize,
}

impl Gpu {
    /// A device that nobody else uses, which multiplies these matrices.
    pub fn own(name: String, device: Device, queue: Queue, matrices: Vec<MatrixUnit>) -> Gpu {
        let compiled = Compiled::kept(&device);
        let shared = Gpu::shared(name, device, queue);
        let gpu = Gpu { compiled, profile: Profile { matrices, ..shared.profile }, ..shared };
        let lost = gpu.lost.clone();
        gpu.device.set_device_lost_callback(move |_, reason| *lock(&lost) = Some(reason));
        // Every call that can fail is within an error scope; what wgpu does between them, such as freeing, must not panic.
        gpu.device.on_uncaptured_error(Arc::new(|_| {}));
        gpu
    }

    /// A device that an app brings, and on which its own callbacks stay.
    pub fn shared(name: String, device: Device, queue: Queue) -> Gpu {
        let profile = adapter::profile(&device.adapter_info(), &device.limits(), device.features());
        let compiled = Compiled::new(&device);
        Gpu {
            name,
            #[cfg(not(target_family = "wasm"))]
            tuned: Mutex::new(tuned(&device, &profile)),
            device,
            queue,
            profile,
            compiled,
            lost: Arc::default(),
            #[cfg(test)]
            submissions: Default::default(),
        }
    }

    /// What a user may want to know although it changes no result.
    pub fn warnings(&self) -> Vec<String> {
        #[cfg(not(target_family = "wasm"))]
        let warnings = [self.compiled.warnings(), lock(&self.tuned).warnings.clone()].concat();
        #[cfg(target_family = "wasm")]
        let warnings = self.compiled.warnings();
        warnings
    }

    /// Calls `f`, and gives the first error that the device reports for what it did. `doing` completes "failed".
    pub async fn scoped<T>(&self, doing: &str, f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let scopes = [ErrorFilter::Validation, ErrorFilter::Internal, ErrorFilter::OutOfMemory]
            .map(|filter| self.device.push_error_scope(filter));
        let value = f();
        // Innermost first. What follows from a lack of memory is reported too, but as invalid use.
        let mut reports = Vec::new();
        for scope in scopes.into_iter().rev() {
            reports.push(scope.pop());
        }
        self.check_lost()?;
        for report in reports {
            if let Some(error) = report.await {
                return Err(self.error(doing, error));
            }
        }
        value
    }

    fn error(&self, doing: &str, error: wgpu::Error) -> Error {
        let (device, doing) = (self.name.clone(), doing.to_owned());
        match error {
            wgpu::Error::OutOfMemory { .. } => Error::OutOfMemory { device, what: doing },
            error => Error::Device { device, doing, source: error.to_string().into() },
        }
    }

    fn check_lost(&self) -> Result<(), Error> {
        match &*lock(&self.lost) {
            Some(reason) => Err(Error::DeviceLost { device: self.name.clone(), reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Waits for `submission`, so that the callbacks of maps are called. In a browser its event loop does, later.
    pub fn wait(&self, submission: SubmissionIndex) -> Result<(), Error> {
        let poll = PollType::Wait { submission_index: Some(submission), timeout: None };
        // wgpu panics where the device is lost while it waits.
        let waited = catch_unwind(AssertUnwindSafe(|| self.device.poll(poll)));
        self.check_lost()?;
        match waited {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Error::Device {
                device: self.name.clone(),
                doing: "while it was waited for".into(),
                source: Box::new(error),
            }),
            Err(_) => {
                Err(Error::DeviceLost { device: self.name.clone(), reason: "it failed while it was waited for".into() })
            }
        }
    }

    /// What a mapped buffer holds, once `mapping` is done.
    pub async fn read(&self, buffer: &Buffer, mapping: Mapping) -> Result<BufferView, Error> {
        let mapped = match mapping.await {
            Ok(()) => buffer.get_mapped_range(..).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        self.check_lost()?;
        let (device, doing) = (self.name.clone(), "to hand over a result".to_owned());
        mapped.map_err(|error| Error::Device { device, doing, source: error.into() })
    }
}

impl Gpu {
    /// Hands over commands to the device: one submission.
    pub fn submit(&self, commands: CommandEncoder) -> SubmissionIndex {
        #[cfg(test)]
        self.submissions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.queue.submit([commands.finish()])
    }

    /// A buffer that the host can read.
    pub fn mappable(&self, bytes: u64) -> Buffer {
        self.device.create_buffer(&BufferDescriptor {
            label: None,
            size: aligned(bytes),
            usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    }

    /// What is in a buffer, after all that was submitted before.
    pub async fn download(&self, buffer: &Buffer) -> Result<BufferView, Error> {
        let target = self.mappable(buffer.size());
        let copy = || {
            let mut encoder = self.device.create_command_encoder(&CommandEncoderDescriptor::default());
            encoder.copy_buffer_to_buffer(buffer, 0, &target, 0, target.size());
            Ok(self.submit(encoder))
        };
        let submission = self.scoped("to read a weight", copy).await?;
        let mapping = Mapping::start(&target);
        self.wait(submission)?;
        self.read(&target, mapping).await
    }
}

/// What was tuned for this adapter with its driver, this profile, and this version.
#[cfg(not(target_family = "wasm"))]
fn tuned(device: &Device, profile: &Profile) -> Kept {
    let info = device.adapter_info();
    let of_profile = format!("{profile:?}");
    // Devices of other limits, such as an app's own, have files of their own.
    let name = format!("tuned-{:x}-{:x}-{:016x}", info.vendor, info.device, cache::hash(of_profile.as_bytes()));
    Kept::open(&name, &[adapter_key(device), of_profile].join(", "))
}

/// The adapter with its driver, and this version.
#[cfg(not(target_family = "wasm"))]
pub fn adapter_key(device: &Device) -> String {
    let info = device.adapter_info();
    let of_version = format!("tilec {}", env!("CARGO_PKG_VERSION"));
    [&info.name, info.backend.to_str(), &info.driver, &info.driver_info, &of_version].join(", ")
}

/// Device memory comes in units of 4 bytes.
pub fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT)
}

type MapResult = Result<(), wgpu::BufferAsyncError>;

/// A buffer on its way to being mapped for reading.
pub struct Mapping(Arc<Mutex<(Option<MapResult>, Option<Waker>)>>);

impl Mapping {
    pub fn start(buffer: &Buffer) -> Mapping {
        let state = Arc::new(Mutex::new((None, None::<Waker>)));
        let mapping = Mapping(state.clone());
        buffer.map_async(MapMode::Read, .., move |result| {
            let mut state = lock(&state);
            state.0 = Some(result);
            if let Some(waker) = state.1.take() {
                waker.wake();
            }
        });
        mapping
    }
}

impl Future for Mapping {
    type Output = MapResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<MapResult> {
        let mut state = lock(&self.0);
        match state.0.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.1 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The content, also where a thread panicked while it held the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
