//! `tilec setup`: chooses the default device, as `plaidml-setup` did.
//!
//! The choice is a line in a file of the user's folder for settings. `--device` and `TILE_DEVICE`
//! take precedence over it.

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use etcetera::base_strategy::{BaseStrategy, choose_native_strategy};
use tile_runtime::{Device, DeviceInfo, Error, Model, Tensor, reason_of_reading};

use crate::bench::report::time;
use crate::terminal::{Failure, Terminal, print, tell, write_file};

#[derive(clap::Args)]
pub struct Setup {
    /// Save this device without asking: cpu, wgpu, wgpu:N
    #[arg(long, value_name = "NAME", conflicts_with = "show")]
    device: Option<String>,
    /// Print the saved device and the file that says so
    #[arg(long)]
    show: bool,
}

/// Tries the devices of this machine with a small product, asks for one, and saves it.
pub fn setup(arguments: &Setup, terminal: &Terminal) -> Result<(), Failure> {
    let file = file()?;
    if arguments.show {
        return print(
            match saved(terminal) {
                Some(name) => format!("{name}, by {}\n", file.display()),
                None => {
                    format!("no device is saved; `tilec setup` would write {}\n", file.display())
                }
            }
            .as_bytes(),
        );
    }
    let name = match &arguments.device {
        Some(name) => {
            let device = Device::named(name).map_err(|error| terminal.failure(&error, &file))?;
            match try_product(&device) {
                Ok(median) => print(line(name, &device.adapter(), &Ok(median)).as_bytes())?,
                Err(why) => {
                    return Err(Failure::machine(format!("`{name}` {why}; nothing was saved")));
                }
            }
            name.clone()
        }
        None if std::io::stdin().is_terminal() => match ask(&Device::list())? {
            Some(name) => name,
            None => return Err(Failure::usage("no device was chosen; nothing was saved")),
        },
        None => {
            let what = "standard input is not a terminal: `tilec setup --device NAME` saves a device without asking";
            return Err(Failure::usage(what));
        }
    };
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(|error| Failure::writing(folder, &error))?;
    }
    write_file(&file, format!("{name}\n"))?;
    terminal.note(&format!("`{name}` is the default device from now on, by {}", file.display()));
    if std::env::var_os("TILE_DEVICE").is_some_and(|name| !name.is_empty()) {
        terminal.note("the variable TILE_DEVICE takes precedence over it");
    }
    Ok(())
}

/// Returns the name of the saved device, if there is one.
pub fn saved(terminal: &Terminal) -> Option<String> {
    let file = file().ok()?;
    match std::fs::read_to_string(&file) {
        Ok(text) => Some(text.trim().to_owned()).filter(|name| !name.is_empty()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            terminal.note_once(&format!(
                "the device of `tilec setup` is not used: {}: {}",
                file.display(),
                reason_of_reading(&file, &error)
            ));
            None
        }
    }
}

/// Returns the file of the saved device.
fn file() -> Result<PathBuf, Failure> {
    let folders = choose_native_strategy().map_err(|_| {
        Failure::machine("the folder for settings is unknown: the user has no home")
    })?;
    Ok(folders.config_dir().join("tilec").join("device"))
}

/// Tries each device, and asks until the answer is one that works. `None` at the end of the input.
fn ask(devices: &[DeviceInfo]) -> Result<Option<String>, Failure> {
    let mut works = Vec::new();
    for (number, device) in devices.iter().enumerate() {
        let outcome = Device::named(&device.name)
            .map_err(|error| error.to_string())
            .and_then(|d| try_product(&d));
        print(
            format!("{:>3}. {}", number + 1, line(&device.name, &device.adapter, &outcome))
                .as_bytes(),
        )?;
        works.push(outcome.is_ok());
    }
    let default = devices.iter().position(|device| device.default).unwrap_or(0);
    let mut answers = std::io::stdin().lock();
    loop {
        tell(&format!("The default device [{}]: ", default + 1));
        let mut text = String::new();
        match answers.read_line(&mut text) {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) => {}
        }
        match choice(text.trim(), devices, default) {
            Some(chosen) if works[chosen] => return Ok(Some(devices[chosen].name.clone())),
            Some(_) => tell("This device does not work.\n"),
            None => {
                tell(&format!("A number from 1 to {}, or a name, is expected.\n", devices.len()))
            }
        }
    }
}

/// Returns the number of the device that an answer names, or `default` for an empty answer.
fn choice(answer: &str, devices: &[DeviceInfo], default: usize) -> Option<usize> {
    if answer.is_empty() {
        return Some(default);
    }
    let number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let named = || devices.iter().position(|device| device.name == answer);
    number.filter(|number| *number < devices.len()).or_else(named)
}

/// Formats the outcome on a device.
fn line(name: &str, adapter: &str, outcome: &Result<Duration, String>) -> String {
    let outcome = match outcome {
        Ok(median) => {
            format!("works, {} for a product of {SIZE} x {SIZE}", time(median.as_secs_f64()))
        }
        Err(why) => why.clone(),
    };
    format!("{name:<8} {adapter}: {outcome}\n")
}

/// The size of the matrices, and the number of timed products.
const SIZE: usize = 256;
const RUNS: usize = 15;
const PRODUCT: &str =
    "function product(A[N, N], B[N, N]) -> (C) { C[i, j: N, N] = +(A[i, k] * B[k, j]); }";

/// Computes a product on the device, and returns the median time.
///
/// # Errors
/// A sentence without subject: the reason why the device is of no use.
fn try_product(device: &Device) -> Result<Duration, String> {
    // Whole numbers, whose sums are exact.
    let a = |i: usize, k: usize| ((i * 7 + k * 3) % 11) as f32 - 5.0;
    let b = |k: usize, j: usize| ((k * 5 + j * 2) % 13) as f32 - 6.0;
    let matrix = |element: &dyn Fn(usize, usize) -> f32| {
        let elements: Vec<f32> = (0..SIZE * SIZE).map(|at| element(at / SIZE, at % SIZE)).collect();
        Tensor::from_f32([SIZE, SIZE], &elements)
    };
    let sum = |i: usize, j: usize| (0..SIZE).map(|k| a(i, k) * b(k, j)).sum();
    let (Some(left), Some(right), Some(expected)) = (matrix(&a), matrix(&b), matrix(&sum)) else {
        return Err("cannot be tried: there is no memory".into());
    };
    let failed = |error: Error| format!("does not work: {error}");
    let mut session = Model::compile(PRODUCT)
        .and_then(|model| model.on(device).dim("N", SIZE).build())
        .map_err(failed)?;
    session
        .set("A", &left)
        .and_then(|()| session.set("B", &right))
        .and_then(|()| session.execute())
        .map_err(failed)?;
    if session.read().and_then(|mut outputs| outputs.remove("C")).map_err(failed)? != expected {
        return Err("computes wrong results".into());
    }
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let started = Instant::now();
        session.execute().map_err(failed)?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    Ok(times[RUNS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_works() {
        let cpu = Device::cpu();
        let outcome = try_product(&cpu);
        assert!(outcome.is_ok(), "{outcome:?}");
        assert!(line("cpu", "a processor", &outcome).starts_with("cpu      a processor: works, "));
    }

    #[test]
    fn answers() {
        let devices = Device::list();
        let last = devices.len();
        let choose = |answer: &str| choice(answer, &devices, last - 1);
        assert_eq!(choose(""), Some(last - 1));
        assert_eq!((choose("1"), choose("cpu")), (Some(0), Some(0)));
        assert_eq!(
            (choose("0"), choose(&(last + 1).to_string()), choose("gpu")),
            (None, None, None)
        );
    }
}
