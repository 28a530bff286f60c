//! [`Gpu`]: an open wgpu device, and the conversion of its reports to errors.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tile_compiler::profile::{MatrixUnit, Profile};
use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, BufferView, CommandEncoder, CommandEncoderDescriptor,
    Device, ErrorFilter, MapMode, PollType, Queue, SubmissionIndex,
};

use super::adapter;
use super::pipeline_cache::Compiled;
use crate::backend::block_on;
use crate::error::{Error, Source};
#[cfg(not(target_family = "wasm"))]
use {super::kept::Kept, crate::cache};

/// An open device with its queue.
pub struct Gpu {
    pub name: String,
    pub device: Device,
    pub queue: Queue,
    pub profile: Profile,
    /// Sentences about the features removed from the profile because they gave wrong results.
    pub refuted: Vec<String>,
    /// The driver's compiled pipelines, shared by all sessions.
    pub compiled: Compiled,
    /// The tuned schedules of this device.
    #[cfg(not(target_family = "wasm"))]
    pub tuned: Mutex<Kept>,
    /// Whether the device belongs to an app, which may destroy it without notice.
    is_shared: bool,
    /// The reason for the device's loss, once it is lost.
    lost: Arc<Mutex<Option<String>>>,
    /// The number of submissions.
    #[cfg(test)]
    pub submissions: std::sync::atomic::AtomicUsize,
    /// The number of waits for a submission.
    #[cfg(test)]
    pub waits: std::sync::atomic::AtomicUsize,
}

impl Gpu {
    /// Makes a device of our own, with these matrix units.
    pub fn own(name: String, device: Device, queue: Queue, matrices: Vec<MatrixUnit>) -> Gpu {
        let compiled = Compiled::load(&device);
        let shared = Gpu::shared(name, device, queue);
        let gpu = Gpu {
            compiled,
            profile: Profile { matrices, ..shared.profile },
            is_shared: false,
            ..shared
        };
        let lost = gpu.lost.clone();
        gpu.device.set_device_lost_callback(move |_, reason| {
            lock(&lost).get_or_insert(reason);
        });
        // All calls that can fail are inside error scopes. Work of wgpu outside them, such as
        // freeing, must not panic.
        gpu.device.on_uncaptured_error(Arc::new(|_| {}));
        gpu
    }

    /// Makes a device from one of an app. The app's callbacks stay in place.
    pub fn shared(name: String, device: Device, queue: Queue) -> Gpu {
        let profile = adapter::profile(&device.adapter_info(), &device.limits(), device.features());
        let compiled = quietly(&device, || Compiled::new(&device));
        Gpu {
            name,
            #[cfg(not(target_family = "wasm"))]
            tuned: Mutex::new(tuned(&device, &profile)),
            device,
            queue,
            profile,
            refuted: Vec::new(),
            compiled,
            is_shared: true,
            lost: Arc::default(),
            #[cfg(test)]
            submissions: Default::default(),
            #[cfg(test)]
            waits: Default::default(),
        }
    }

    /// Returns the adapter's name.
    pub fn adapter(&self) -> String {
        self.device.adapter_info().name
    }

    /// Returns warnings that do not concern results.
    pub fn warnings(&self) -> Vec<String> {
        #[cfg(not(target_family = "wasm"))]
        let warnings = [self.compiled.warnings(), lock(&self.tuned).warnings.clone()].concat();
        #[cfg(target_family = "wasm")]
        let warnings = self.compiled.warnings();
        warnings
    }

    /// Calls `f`, and returns the first error that the device reports for it. `doing` completes
    /// "failed".
    pub async fn scoped<T>(
        &self,
        doing: &str,
        f: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.check_lost()?;
        let (value, reports) = in_scopes(&self.device, f);
        self.check_lost()?;
        for report in reports {
            if let Some(error) = report.await {
                return Err(self.or_lost(self.error(doing, error)));
            }
        }
        value
    }

    /// Does the same in calls that do not wait. In a browser the device reports its errors to the
    /// app.
    pub fn scoped_now<T>(
        &self,
        doing: &str,
        f: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        #[cfg(not(target_family = "wasm"))]
        return block_on(self.scoped(doing, f));
        #[cfg(target_family = "wasm")]
        {
            let _ = doing;
            self.check_lost()?;
            f()
        }
    }

    fn error(&self, doing: &str, error: wgpu::Error) -> Error {
        let (device, doing) = (self.name.clone(), doing.to_owned());
        match error {
            wgpu::Error::OutOfMemory { .. } => Error::OutOfMemory { device, what: doing },
            error => Error::Device { device, doing, source: source(error) },
        }
    }

    fn check_lost(&self) -> Result<(), Error> {
        match &*lock(&self.lost) {
            Some(reason) => {
                Err(Error::DeviceLost { device: self.name.clone(), reason: reason.clone() })
            }
            None => Ok(()),
        }
    }

    /// Returns the error of a lost device, or else `error`.
    fn or_lost(&self, error: Error) -> Error {
        self.check_alive().err().unwrap_or(error)
    }

    /// Checks that the device is not lost, in calls without another way to find out: a device that
    /// an app has destroyed accepts commands and ignores them. After a loss, all uses of the device
    /// return the same error.
    pub fn check_alive(&self) -> Result<(), Error> {
        self.check_lost()?;
        if self.is_shared && is_destroyed(&self.device) {
            let adapter = self.adapter();
            self.lose(format!(
                "`{adapter}` was destroyed or reset; open it again, and build new sessions on it"
            ));
        }
        self.check_lost()
    }

    fn lose(&self, reason: String) {
        lock(&self.lost).get_or_insert(reason);
    }

    /// Waits for `submission`, so that the callbacks of mappings run. In a browser its event loop
    /// runs them later.
    pub fn wait(&self, submission: SubmissionIndex) -> Result<(), Error> {
        #[cfg(test)]
        self.waits.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let poll = PollType::Wait { submission_index: Some(submission), timeout: None };
        // wgpu panics if the device is lost during the wait.
        let waited = catch_unwind(AssertUnwindSafe(|| self.device.poll(poll)));
        if waited.is_err() {
            self.lose("it failed while it was waited for".into());
        }
        self.check_lost()?;
        match waited {
            Ok(Err(error)) => Err(self.or_lost(Error::Device {
                device: self.name.clone(),
                doing: "while it was waited for".into(),
                source: Box::new(error),
            })),
            _ => Ok(()),
        }
    }

    /// Starts to map a buffer for reading.
    pub fn map(&self, buffer: &Buffer) -> Mapping {
        quietly(&self.device, || Mapping::start(buffer))
    }

    /// Returns the content of a mapped buffer when `mapping` is complete.
    pub async fn read(&self, buffer: &Buffer, mapping: &mut Mapping) -> Result<BufferView, Error> {
        let mapped = match mapping.await {
            Ok(()) => buffer.get_mapped_range(..).map_err(Source::from),
            Err(error) => Err(error.into()),
        };
        self.check_lost()?;
        let (device, doing) = (self.name.clone(), "to hand over a result".to_owned());
        mapped.map_err(|source| self.or_lost(Error::Device { device, doing, source }))
    }
}

impl Gpu {
    /// Submits commands to the device, as one submission.
    pub fn submit(&self, commands: CommandEncoder) -> SubmissionIndex {
        #[cfg(test)]
        self.submissions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.queue.submit([commands.finish()])
    }

    /// Makes a buffer that the host can map for reading. Call it inside [`Gpu::scoped`].
    pub fn mappable(&self, bytes: u64) -> Buffer {
        self.device.create_buffer(&BufferDescriptor {
            label: None,
            size: aligned(bytes),
            usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    }

    /// Returns `size` bytes of a buffer from `offset` on, after all previous submissions.
    pub async fn download(
        &self,
        buffer: &Buffer,
        offset: u64,
        size: u64,
    ) -> Result<BufferView, Error> {
        let copy = || {
            let target = self.mappable(size);
            let mut encoder =
                self.device.create_command_encoder(&CommandEncoderDescriptor::default());
            encoder.copy_buffer_to_buffer(buffer, offset, &target, 0, size);
            Ok((self.submit(encoder), target))
        };
        let (submission, target) = self.scoped("to read a weight", copy).await?;
        let mut mapping = self.map(&target);
        self.wait(submission)?;
        self.read(&target, &mut mapping).await
    }
}

/// Returns an error of wgpu as a cause.
#[cfg(not(target_family = "wasm"))]
fn source(error: wgpu::Error) -> Source {
    error.into()
}

/// Returns the text of an error of wgpu, which in a browser belongs to its thread.
#[cfg(target_family = "wasm")]
fn source(error: wgpu::Error) -> Source {
    error.to_string().into()
}

/// Opens the tuned schedules of this adapter with its driver, the profile, and this version.
#[cfg(not(target_family = "wasm"))]
fn tuned(device: &Device, profile: &Profile) -> Kept {
    let info = device.adapter_info();
    let of_profile = format!("{profile:?}");
    // Devices with other limits, such as an app's, have separate files.
    let name = format!(
        "tuned-{:x}-{:x}-{:016x}",
        info.vendor,
        info.device,
        cache::hash(of_profile.as_bytes())
    );
    Kept::open(&name, &[adapter_key(device), of_profile].join(", "))
}

/// Identifies the adapter, its driver, and this version.
pub fn adapter_key(device: &Device) -> String {
    let info = device.adapter_info();
    let of_version = format!("tilec {}", env!("CARGO_PKG_VERSION"));
    [&info.name, info.backend.to_str(), &info.driver, &info.driver_info, &of_version].join(", ")
}

/// Rounds bytes up to the 4-byte unit of buffer copies.
pub fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT)
}

/// Calls `f` inside error scopes of all kinds, and returns their reports. An error outside any
/// scope panics if an app's device has no error handler.
fn in_scopes<T>(
    device: &Device,
    f: impl FnOnce() -> T,
) -> (T, Vec<impl Future<Output = Option<wgpu::Error>>>) {
    let scopes = [ErrorFilter::Validation, ErrorFilter::Internal, ErrorFilter::OutOfMemory]
        .map(|filter| device.push_error_scope(filter));
    let value = f();
    // The innermost scope comes first. After a lack of memory, later uses are reported as
    // validation errors, too.
    let mut reports = Vec::new();
    for scope in scopes.into_iter().rev() {
        reports.push(scope.pop());
    }
    (value, reports)
}

/// Calls `f` and drops its error reports. The caller detects errors in another way.
fn quietly<T>(device: &Device, f: impl FnOnce() -> T) -> T {
    in_scopes(device, f).0
}

/// Returns whether the device fails to create buffers without reporting an error.
#[cfg(not(target_family = "wasm"))]
fn is_destroyed(device: &Device) -> bool {
    let usage = BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC;
    let descriptor = BufferDescriptor { label: None, size: 4, usage, mapped_at_creation: true };
    let create = || device.create_buffer(&descriptor).get_mapped_range(..).is_err();
    let (failed, reports) = in_scopes(device, create);
    failed && reports.into_iter().all(|report| block_on(report).is_none())
}

/// In a browser reading from a lost device reports the loss.
#[cfg(target_family = "wasm")]
fn is_destroyed(_: &Device) -> bool {
    false
}

/// A buffer that is mapped for reading, until this is dropped. It stays mapped if it has not been
/// read: another thread may be mapping it just then, and nobody may use it again.
pub struct Mapped {
    gpu: Arc<Gpu>,
    buffer: Buffer,
    mapping: Option<Mapping>,
}

impl Mapped {
    pub fn start(gpu: &Arc<Gpu>, buffer: &Buffer) -> Mapped {
        let (gpu, buffer) = (gpu.clone(), buffer.clone());
        let mapping = Some(gpu.map(&buffer));
        Mapped { gpu, buffer, mapping }
    }

    /// Returns the content when the mapping is complete.
    pub async fn read(&mut self) -> Result<BufferView, Error> {
        let missing = || Error::internal("a result is read twice");
        let mapping = self.mapping.as_mut().ok_or_else(missing)?;
        let view = self.gpu.read(&self.buffer, mapping).await;
        self.mapping = None;
        view
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.mapping.is_none() {
            quietly(&self.gpu.device, || self.buffer.unmap());
        }
    }
}

type MapResult = Result<(), wgpu::BufferAsyncError>;

/// A pending mapping of a buffer for reading.
pub struct Mapping(Arc<Mutex<(Option<MapResult>, Option<Waker>)>>);

impl Mapping {
    fn start(buffer: &Buffer) -> Mapping {
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

/// Locks a mutex, even one that a panicking thread has poisoned.
pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
