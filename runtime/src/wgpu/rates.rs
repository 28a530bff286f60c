//! Measured rates of a GPU, which rank schedules instead of those of its family's usual card.
//!
//! A device of our own is measured once for its driver and this version, in about half a second,
//! if the user's cache folder can keep the result: multiply-adds of many invocations, a copy that
//! is larger than most caches, and launches that each wait for the one before. Software adapters
//! are not measured: their speed depends on what else runs.

use std::time::Instant;

use tile_compiler::profile::Rates;
use wgpu::DeviceType;

use super::gpu::{Gpu, adapter_key};
use super::trial::Trial;
use crate::cache::CacheFile;
use crate::error::Error;

/// The least seconds of a run, so that its start counts little, and the most launches.
const LEAST: f64 = 3e-3;
const MOST: usize = 1 << 9;
/// The runs that are compared, and the most seconds of all. A device that was idle raises its clock
/// first.
const RUNS: usize = 4;
const LONGEST: f64 = 0.15;
/// The gain of some runs over those before at which the clock still rises.
const RISING: f64 = 0.97;

/// Workgroups of 256 invocations that multiply and add, and the multiply-adds of a turn.
const WORKGROUPS: usize = 4096;
const CHAINS: usize = 8;
/// Turns of their loop: the fewest, and a bound. A launch waits for the one before, so that it must
/// have much work.
const FEWEST_TURNS: usize = 16;
const MANY_TURNS: usize = 4096;
/// The least seconds of such a launch.
const LEAST_LAUNCH: f64 = 1e-3;
/// Elements of the copy: 128 MiB, in vectors of 4.
const COPIED: usize = 1 << 23;

/// A measured rate may differ by this factor from the typical one. A larger difference is a
/// misunderstanding of the driver.
const PLAUSIBLE: f64 = 16.0;
/// Operations a second that differ by less than this factor are those of a card with as many cores.
const OF_CLOCK: f64 = 1.4;

/// The rates that are measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// f32 operations a second. A multiply-add is two.
    flops: f64,
    /// Bytes a second that a copy reads and writes.
    memory: f64,
    /// Seconds of a launch.
    launch: f64,
}

/// Gives the device's profile the rates that this or an earlier process has measured. `measures`
/// allows measuring them now if there are none. An error leaves the rates as they are: nothing but
/// the choice of schedules depends on them.
pub async fn apply(gpu: &mut Gpu, measures: bool) {
    let info = gpu.device.adapter_info();
    if matches!(info.device_type, DeviceType::Cpu | DeviceType::Other) {
        return;
    }
    let name = format!("rates-{:x}-{:x}", info.vendor, info.device);
    let Some(mut file) = CacheFile::new(&name, &adapter_key(&gpu.device)) else { return };
    let known = file.read().ok().flatten();
    let known = known.and_then(|content| Measured::parse(&String::from_utf8_lossy(&content)));
    let measured = match known {
        Some(known) => Some(known),
        None if measures => measure(gpu).await.ok(),
        None => None,
    };
    if let Some(measured) = measured {
        // If writing fails, the next process measures again.
        let _ = file.write(measured.text().as_bytes());
        gpu.profile.rates = measured.rates(&gpu.profile.rates);
    }
}

impl Measured {
    fn text(&self) -> String {
        format!("flops {:e}\nmemory {:e}\nlaunch {:e}\n", self.flops, self.memory, self.launch)
    }

    fn parse(text: &str) -> Option<Measured> {
        let mut lines = text.lines();
        let mut number = |name: &str| {
            let (found, number) = lines.next()?.split_once(' ')?;
            number.parse().ok().filter(|_| found == name)
        };
        Some(Measured {
            flops: number("flops")?,
            memory: number("memory")?,
            launch: number("launch")?,
        })
    }

    /// Returns `typical` rates with those that were measured. A card with many more or fewer
    /// operations a second has more or fewer cores, and its cache is as much faster or slower.
    fn rates(&self, typical: &Rates) -> Rates {
        let bounded = |measured: f64, typical: f64| {
            let is_plausible = measured.is_finite() && measured > 0.0;
            let measured = if is_plausible { measured } else { typical };
            measured.clamp(typical / PLAUSIBLE, typical * PLAUSIBLE)
        };
        let flops = bounded(self.flops, typical.flops);
        let scale = flops / typical.flops;
        let is_of_clock = (1.0 / OF_CLOCK..=OF_CLOCK).contains(&scale);
        let scale = if is_of_clock { 1.0 } else { scale };
        Rates {
            flops,
            cores: (f64::from(typical.cores) * scale).round().max(1.0) as u32,
            cache: typical.cache * scale,
            memory: bounded(self.memory, typical.memory),
            launch: bounded(self.launch, typical.launch),
            ..*typical
        }
    }
}

/// Measures a device.
async fn measure(gpu: &Gpu) -> Result<Measured, Error> {
    let bytes = (2 * 4 * size_of::<f32>() * COPIED) as f64;
    let memory = bytes / seconds(gpu, &copy(), &[]).await?;
    Ok(Measured { flops: flops(gpu).await?, memory, launch: seconds(gpu, LAUNCH, &[]).await? })
}

/// Measures multiply-adds, with as many turns as make a launch long.
async fn flops(gpu: &Gpu) -> Result<f64, Error> {
    let one = vec![1f32.to_le_bytes().repeat(256)];
    let mut turns = FEWEST_TURNS;
    loop {
        let seconds = seconds(gpu, &arithmetic(turns), &one).await?;
        if seconds >= LEAST_LAUNCH || turns >= MANY_TURNS {
            return Ok((2 * 256 * WORKGROUPS * turns * CHAINS) as f64 / seconds);
        }
        turns *= 8;
    }
}

/// Returns the seconds of a kernel's launch among many: those of the fastest run.
async fn seconds(gpu: &Gpu, kernel: &str, inputs: &[Vec<u8>]) -> Result<f64, Error> {
    let trial = Trial::new(gpu, kernel, inputs).await?;
    let begun = Instant::now();
    let (mut times, mut fastest) = (1, f64::INFINITY);
    loop {
        let before = fastest;
        for _ in 0..RUNS {
            let started = Instant::now();
            let submission = trial.launch(gpu, times).await?;
            gpu.wait(submission)?;
            let seconds = started.elapsed().as_secs_f64();
            fastest = fastest.min(seconds / times as f64);
            if seconds < LEAST && times < MOST {
                times *= 2;
            }
        }
        if fastest >= RISING * before || begun.elapsed().as_secs_f64() > LONGEST {
            return Ok(fastest);
        }
    }
}

/// Returns a kernel of independent chains of multiply-adds.
fn arithmetic(turns: usize) -> String {
    let chains = |line: &dyn Fn(usize) -> String| (0..CHAINS).map(line).collect::<String>();
    let declared = chains(&|n| format!("    var x{n} = x[local.x] + {n}.0;\n"));
    let turn = chains(&|n| format!("        x{n} = fma(x{n}, 0.999, 0.001);\n"));
    let sum: Vec<String> = (0..CHAINS).map(|n| format!("x{n}")).collect();
    format!(
        "kernel rate_of_arithmetic workgroup(256, 1, 1) grid({WORKGROUPS}, 1, 1) {{
    read x: f32[256];
    write y: f32[{all}];
{declared}    for turn in 0..{turns} step 1 {{
{turn}    }}
    y[workgroup.x * 256 + local.x] = {sum};
}}
",
        all = 256 * WORKGROUPS,
        sum = sum.join(" + "),
    )
}

fn copy() -> String {
    format!(
        "kernel rate_of_memory workgroup(256, 1, 1) grid({groups}, 1, 1) {{
    read x: f32x4[{COPIED}];
    write y: f32x4[{COPIED}];
    y[workgroup.x * 256 + local.x] = x[workgroup.x * 256 + local.x];
}}
",
        groups = COPIED / 256,
    )
}

/// A kernel that does little, and waits for the one before.
const LAUNCH: &str = "kernel rate_of_launches workgroup(64, 1, 1) grid(1, 1, 1) {
    update x: f32[64];
    x[local.x] = x[local.x] + 1.0;
}
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::backend::block_on;

    #[test]
    fn rates_are_measured() {
        let device = Device::named("wgpu:0");
        let Some(gpu) = device.as_ref().ok().and_then(Gpu::of) else {
            println!("note: there is no adapter");
            return;
        };
        let measured = block_on(measure(gpu)).unwrap();
        println!("{}: {measured:?}", gpu.adapter());
        let Measured { flops, memory, launch } = measured;
        assert!([flops, memory, launch].iter().all(|rate| rate.is_finite() && *rate > 0.0));
        assert_eq!(Measured::parse(&measured.text()), Some(measured));
    }

    #[test]
    fn implausible_rates_are_bounded() {
        let typical = Rates::GPU;
        let half = Measured { flops: 6e12, memory: 2e11, launch: 1e-5 };
        let rates = half.rates(&typical);
        assert_eq!((rates.flops, rates.memory, rates.launch), (6e12, 2e11, 1e-5));
        assert_eq!((rates.cores, rates.cache), (typical.cores / 2, typical.cache / 2.0));
        let lower = Measured { flops: 0.9 * typical.flops, ..half };
        assert_eq!(lower.rates(&typical).cores, typical.cores);
        let wrong = Measured { flops: f64::NAN, memory: 1e30, launch: 0.0 };
        let rates = wrong.rates(&typical);
        assert_eq!((rates.flops, rates.launch), (typical.flops, typical.launch));
        assert_eq!(rates.memory, typical.memory * PLAUSIBLE);
        for text in ["", "flops 1", "flops 1\nmemory x\nlaunch 2", "memory 1\nflops 1\nlaunch 2"] {
            assert_eq!(Measured::parse(text), None, "{text}");
        }
    }
}
