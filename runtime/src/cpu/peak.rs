//! The processor's peak rates, measured: the yardstick for the speed of programs.

use std::hint::black_box;
use std::time::Instant;

use super::vector::register::{Portable, Vector};

/// Independent multiply-add chains: enough to hide the latency of the instruction on any processor,
/// few enough for its registers.
const CHAINS: usize = 12;
/// Iterations of a run, which takes some milliseconds.
const TURNS: usize = 1 << 20;
/// Elements of each array of the triad: more than the caches of all but a few servers hold.
const ELEMENTS: usize = 1 << 24;
/// Number of runs. The fastest one counts.
const RUNS: usize = 8;

/// Measures the f32 operations per second of all threads together. A multiply-add on registers
/// counts as two operations.
pub fn flops() -> f64 {
    let (run, lanes) = chains();
    let mut counts = vec![0.0; threads()];
    let fastest = fastest(&mut counts, |sum: &mut f32| *sum += black_box(run(TURNS)));
    (2 * lanes * CHAINS * TURNS * counts.len()) as f64 / fastest
}

/// Measures the bytes per second that all threads together read and write, with STREAM's triad
/// `a = b + 3 c`, which moves three arrays.
pub fn bandwidth() -> f64 {
    let (mut a, b, c) = (vec![0f32; ELEMENTS], vec![1f32; ELEMENTS], vec![2f32; ELEMENTS]);
    let part = ELEMENTS.div_ceil(threads());
    let mut parts: Vec<_> = a.chunks_mut(part).zip(b.chunks(part).zip(c.chunks(part))).collect();
    let fastest = fastest(&mut parts, |(a, (b, c))| {
        for ((a, b), c) in a.iter_mut().zip(*b).zip(*c) {
            *a = b + 3.0 * c;
        }
    });
    black_box(a);
    (3 * size_of::<f32>() * ELEMENTS) as f64 / fastest
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Returns the seconds of the fastest of [`RUNS`] runs. In each run, every part is processed by its
/// own thread.
fn fastest<P: Send>(parts: &mut [P], work: impl Fn(&mut P) + Sync) -> f64 {
    let mut fastest = f64::INFINITY;
    for _ in 0..RUNS {
        let started = Instant::now();
        std::thread::scope(|scope| {
            for part in parts.iter_mut() {
                scope.spawn(|| work(part));
            }
        });
        fastest = fastest.min(started.elapsed().as_secs_f64());
    }
    fastest
}

/// A function that runs [`body`] for a number of iterations, in one instruction set.
type Chains = fn(usize) -> f32;

/// Returns the chains for the widest registers of this processor, and the lanes of one register.
fn chains() -> (Chains, usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m256, __m512};

        #[target_feature(enable = "avx512f")]
        fn avx512(turns: usize) -> f32 {
            // SAFETY: this function enables the vector's instructions.
            unsafe { body::<__m512>(turns) }
        }
        #[target_feature(enable = "avx2,fma")]
        fn avx2(turns: usize) -> f32 {
            // SAFETY: this function enables the vector's instructions.
            unsafe { body::<__m256>(turns) }
        }
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was detected just above.
            return (|turns| unsafe { avx512(turns) }, __m512::LANES);
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the features were detected just above.
            return (|turns| unsafe { avx2(turns) }, __m256::LANES);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        use std::arch::aarch64::float32x4_t;
        // SAFETY: the feature was detected just above; every target of this architecture with a
        // standard library has it.
        return (|turns| unsafe { body::<float32x4_t>(turns) }, float32x4_t::LANES);
    }
    // SAFETY: these registers need no special instructions.
    (|turns| unsafe { body::<Portable<f32, 4>>(turns) }, Portable::<f32, 4>::LANES)
}

/// Runs `turns` iterations of [`CHAINS`] multiply-adds, each of which depends on its result in the
/// iteration before.
///
/// # Safety
/// The processor must have the vector's instructions.
#[inline(always)]
unsafe fn body<V: Vector<Scalar = f32>>(turns: usize) -> f32 {
    // Values that the compiler cannot see and that keep the sums finite: each chain converges to 1.
    let (factor, term) = (black_box(0.999), black_box(0.001));
    // SAFETY: the caller guarantees that the processor has the vector's instructions. `numbers` has
    // room for one register.
    unsafe {
        let (factor, term) = (V::splat(factor), V::splat(term));
        let mut sums = [V::splat(0.5); CHAINS];
        for _ in 0..turns {
            for sum in &mut sums {
                *sum = term.fma(*sum, factor);
            }
        }
        let mut total = sums[0];
        for sum in &sums[1..] {
            total = total.add(*sum);
        }
        let mut numbers = vec![0.0; V::LANES];
        total.store(numbers.as_mut_ptr());
        numbers.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The timed loop really computes the chains: after many iterations each has converged to 1.
    #[test]
    fn chains_are_worked_through() {
        let (run, lanes) = chains();
        let sum = run(20_000);
        assert!((sum / (lanes * CHAINS) as f32 - 1.0).abs() < 1e-3, "{sum}");
        assert_eq!(run(0), (lanes * CHAINS) as f32 * 0.5);
    }
}
