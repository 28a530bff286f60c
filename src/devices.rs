//! `tilec devices`: lists the devices of this machine.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde::Serialize;
use tile_runtime::{Device, DeviceInfo, Error};

use crate::json;
use crate::setup::saved;
use crate::terminal::{Failure, Terminal, print};

/// The device that a command runs on.
#[derive(clap::Args)]
pub struct DeviceOptions {
    /// The device to run on: cpu, wgpu, wgpu:N [default: TILE_DEVICE, else that of `tilec setup`,
    /// else the best real GPU, else cpu]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Compute convolutions by direct sums, without Winograd's algorithm, and sums of dequantized
    /// integers in floats
    #[arg(long)]
    exact: bool,
}

impl DeviceOptions {
    /// Opens the device: see [`open`].
    pub fn open(&self, terminal: &Terminal) -> Result<Device, Error> {
        open(self.device.as_deref(), self.exact, terminal)
    }
}

#[derive(clap::Args)]
pub struct Devices {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Opens the device `name`, else that of `TILE_DEVICE`, else that of `tilec setup`, else the best
/// one, and prints its warnings. `exact` asks for exact arithmetic.
pub fn open(name: Option<&str>, exact: bool, terminal: &Terminal) -> Result<Device, Error> {
    let device = match name.map(str::to_owned).or_else(of_environment) {
        Some(name) => Device::named(&name)?,
        None => match saved(terminal) {
            Some(name) => Device::named(&name).inspect_err(|_| {
                terminal.note(&format!(
                    "`{name}` was chosen by `tilec setup`, which can choose another"
                ));
            })?,
            None => Device::best()?,
        },
    };
    terminal.warn_of(&device);
    device.refuted_features().iter().for_each(|sentence| terminal.detail(sentence));
    let device = if exact { device.exact() } else { device };
    Ok(match terminal.progress_bar("compile kernels {bar:24.green/dim} {pos}/{len}") {
        Some(bar) => device.on_compile(compiling(bar)),
        None => device,
    })
}

/// Returns a function that shows on a progress bar how many kernels are compiled, if it takes long.
fn compiling(bar: ProgressBar) -> impl Fn(usize, usize) {
    /// The time after which the bar appears.
    const LONG: Duration = Duration::from_millis(300);
    let state = Mutex::new((Instant::now(), false));
    move |compiled, all| {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let (began, is_shown) = &mut *state;
        if compiled == 0 {
            *began = Instant::now();
        } else if compiled < all && began.elapsed() > LONG {
            if !std::mem::replace(is_shown, true) {
                bar.reset();
                bar.set_length(all as u64);
            }
            bar.set_position(bar.position().max(compiled as u64));
        } else if compiled >= all && std::mem::replace(is_shown, false) {
            bar.finish_and_clear();
        }
    }
}

fn of_environment() -> Option<String> {
    std::env::var("TILE_DEVICE").ok().filter(|name| !name.is_empty())
}

/// Lists every device. A star marks the default one.
pub fn devices(arguments: &Devices, terminal: &Terminal) -> Result<(), Failure> {
    let mut devices = Device::list();
    let chosen = of_environment().or_else(|| saved(terminal));
    // `wgpu` is the best GPU, and so the default already if there is one.
    if let Some(chosen) = chosen.filter(|chosen| chosen != "wgpu") {
        devices.iter_mut().for_each(|device| device.default = device.name == chosen);
    }
    let text = if arguments.json {
        json::line(&devices.iter().map(described).collect::<Vec<_>>())
    } else {
        devices.iter().map(line).collect()
    };
    print(text.as_bytes())
}

fn line(device: &DeviceInfo) -> String {
    let star = if device.default { '*' } else { ' ' };
    let memory = device.memory.map(|bytes| format!(", {} MiB", bytes >> 20)).unwrap_or_default();
    let profile = &device.profile;
    let mut text = format!(
        "{star} {:<8}{} ({}, {}{memory})\n",
        device.name, device.adapter, device.backend, device.kind
    );
    if profile.max_invocations > 1 {
        let binding = profile.max_binding_bytes >> 20;
        let shared = profile.max_shared_bytes >> 10;
        text += &format!(
            "          {} invocations a workgroup, {shared} KiB of workgroup memory, {binding} MiB a binding\n",
            profile.max_invocations
        );
    }
    if !device.features.is_empty() {
        text += &format!("          {}\n", device.features.join(", "));
    }
    text
}

/// The JSON object of a device.
#[derive(Serialize)]
struct Described<'a> {
    name: &'a str,
    adapter: &'a str,
    backend: &'a str,
    kind: &'a str,
    default: bool,
    memory: Option<u64>,
    features: &'a [&'static str],
    limits: Limits,
}

#[derive(Serialize)]
struct Limits {
    max_invocations: u32,
    max_shared_bytes: u32,
    max_buffers: u32,
    max_binding_bytes: u64,
    max_buffer_bytes: u64,
}

fn described(device: &DeviceInfo) -> Described<'_> {
    let DeviceInfo { name, adapter, backend, kind, memory, features, profile, default, .. } =
        device;
    let limits = Limits {
        max_invocations: profile.max_invocations,
        max_shared_bytes: profile.max_shared_bytes,
        max_buffers: profile.max_buffers,
        max_binding_bytes: profile.max_binding_bytes,
        max_buffer_bytes: profile.max_buffer_bytes,
    };
    Described { name, adapter, backend, kind, default: *default, memory: *memory, features, limits }
}
