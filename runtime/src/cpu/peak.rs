//! The processor's peak rates, measured: the yardstick for the speed of programs.

use std::hint::black_box;
use std::time::Instant;

use super::threads::count::threads;
use super::vector::level::{self, Level, level};
#[cfg(target_arch = "aarch64")]
use super::vector::register::F32x4;
#[cfg(target_arch = "x86_64")]
use super::vector::register::{F32x8, F32x16};
use super::vector::register::{Portable, Vector};
#[cfg(target_arch = "x86_64")]
use super::vector::{Avx2, Avx512};

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

/// A function that runs [`body`] for a number of iterations, with the widest registers of this
/// processor.
type Chains = Box<dyn Fn(usize) -> f32 + Sync>;

/// Returns the chains, and the lanes of one register.
fn chains() -> (Chains, usize) {
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(proof) => {
            level::avx512! {
                fn run(proof: Avx512, turns: usize) -> f32 {
                    body::<F32x16>(proof, turns)
                }
            }
            // SAFETY: the proof says that the processor has the function's features.
            (Box::new(move |turns| unsafe { run(proof, turns) }), F32x16::LANES)
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(proof) => {
            level::avx2! {
                fn run(proof: Avx2, turns: usize) -> f32 {
                    body::<F32x8>(proof, turns)
                }
            }
            // SAFETY: the proof says that the processor has the function's features.
            (Box::new(move |turns| unsafe { run(proof, turns) }), F32x8::LANES)
        }
        #[cfg(target_arch = "aarch64")]
        Level::Neon(proof) => (Box::new(move |turns| body::<F32x4>(proof, turns)), F32x4::LANES),
        Level::Baseline => {
            (Box::new(|turns| body::<Portable<f32, 4>>((), turns)), Portable::<f32, 4>::LANES)
        }
    }
}

/// Runs `turns` iterations of [`CHAINS`] multiply-adds, each of which depends on its result in the
/// iteration before.
#[inline(always)]
fn body<V: Vector<Scalar = f32>>(proof: V::Proof, turns: usize) -> f32 {
    // Values that the compiler cannot see and that keep the sums finite: each chain converges to 1.
    let (factor, term) = (V::splat(proof, black_box(0.999)), V::splat(proof, black_box(0.001)));
    let mut sums = [V::splat(proof, 0.5); CHAINS];
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
    // SAFETY: `numbers` has room for one register.
    unsafe { total.store(numbers.as_mut_ptr()) };
    numbers.iter().sum()
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
