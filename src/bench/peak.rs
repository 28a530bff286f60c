//! The peak speeds of a device, measured in the same process as the workloads compared with them.
//!
//! The cpu device runs native loops on all threads: multiply-adds on vector registers, and a triad.
//! A GPU runs the same as Tile programs: a chain of multiply-adds for each of many elements, and a
//! triad.

use std::time::Instant;

use tile_runtime::{Device, Error, Model, Tensor, TensorType, cpu};

/// The peak speeds of a device.
#[derive(Clone, Copy, Debug)]
pub struct Peak {
    /// Operations on f32 a second. A multiply-add is two.
    pub flops: f64,
    /// Bytes of memory read and written a second. The triad `A = B + 3 C` on arrays larger than the
    /// caches moves three arrays.
    pub bandwidth: f64,
}

impl Peak {
    /// Returns the least seconds for these operations and bytes.
    pub fn least(&self, flops: u64, bytes: u64) -> f64 {
        (flops as f64 / self.flops).max(bytes as f64 / self.bandwidth)
    }
}

/// Multiply-adds for each element in [`CHAIN`].
const LINKS: usize = 256;
const CHAIN: &str =
    "function chain(X[N]) -> (Y) { Y = X; for i in range(256) { Y = Y * 0.999 + 0.001; } }";
const TRIAD: &str = "function triad(B[N], C[N]) -> (A) { A = B + 3.0 * C; }";

/// The number of runs. The fastest counts.
const RUNS: usize = 5;
/// The least seconds of a run. A shorter one measures mostly the time to start it.
const LEAST: f64 = 4e-3;

/// Measures the device. `None` for devices not built for speed.
pub fn peak(device: &Device) -> Result<Option<Peak>, Error> {
    match device.name() {
        "cpu" => Ok(Some(Peak { flops: cpu::peak::flops(), bandwidth: cpu::peak::bandwidth() })),
        "reference" | "check" => Ok(None),
        _ => {
            let (elements, seconds) = fastest(device, CHAIN, &["X"])?;
            let flops = elements as f64 * 2.0 * LINKS as f64 / seconds;
            let (elements, seconds) = fastest(device, TRIAD, &["B", "C"])?;
            Ok(Some(Peak {
                flops,
                bandwidth: elements as f64 * 3.0 * size_of::<f32>() as f64 / seconds,
            }))
        }
    }
}

/// Returns a number of elements and the fastest seconds of a run on them. The number grows until a
/// run takes [`LEAST`], or up to the device's limit.
fn fastest(device: &Device, program: &str, inputs: &[&str]) -> Result<(usize, f64), Error> {
    let model = Model::compile(program)?;
    let profile = device.profile();
    let most = profile.max_binding_bytes.min(profile.max_buffer_bytes) / size_of::<f32>() as u64;
    let mut elements = 1 << 24;
    loop {
        let mut session = model.on(device).dim("N", elements).build()?;
        for input in inputs {
            let ones = Tensor::from_bytes(
                TensorType::new(tile_runtime::DType::F32, [elements]),
                1f32.to_le_bytes().repeat(elements),
            );
            session
                .set(input, &ones.ok_or_else(|| Error::internal("a tensor of another size"))?)?;
        }
        session.execute()?;
        let mut fastest = f64::INFINITY;
        for _ in 0..RUNS {
            let started = Instant::now();
            session.execute()?;
            fastest = fastest.min(started.elapsed().as_secs_f64());
        }
        let more = elements * 4;
        if fastest >= LEAST || more as u64 > most {
            return Ok((elements, fastest));
        }
        elements = more;
    }
}
