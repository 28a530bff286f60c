//! Measures the cpu device's matrix product against the `gemm` crate's, in one run:
//! `cargo run --release --example gemm_bench [FILTER]`.
//! Every line is the best of interleaved runs, in GFLOP/s, on all processors that the process may
//! use (`taskset -c 0` for one).

use std::time::Instant;
use tile_runtime::cpu::gemm::{Axis, Gather, Places, Rows, Size, gemm};

/// The best time of each of two functions, run in turn.
fn best_of(mut one: impl FnMut(), mut other: impl FnMut()) -> (f64, f64) {
    let mut best = (f64::INFINITY, f64::INFINITY);
    let start = Instant::now();
    let mut reps = 0;
    while reps < 5 || (start.elapsed().as_secs_f64() < 1.5 && reps < 2000) {
        let t = Instant::now();
        one();
        best.0 = best.0.min(t.elapsed().as_secs_f64());
        let t = Instant::now();
        other();
        best.1 = best.1.min(t.elapsed().as_secs_f64());
        reps += 1;
    }
    best
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i % 17) as f32 * 0.1 - 0.8).collect()
}

/// The `gemm` crate on `threads` threads.
fn peer(m: usize, n: usize, k: usize, a: &[f32], b: &[f32], c: &mut [f32], threads: usize) {
    let parallelism =
        if threads == 1 { ::gemm::Parallelism::None } else { ::gemm::Parallelism::Rayon(threads) };
    assert!(a.len() == m * k && b.len() == k * n && c.len() == m * n);
    #[expect(unsafe_code, reason = "the peer's interface")]
    // SAFETY: the three matrices are row-major of just these sizes.
    unsafe {
        let (n_, k_) = (n as isize, k as isize);
        ::gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n_,
            false,
            a.as_ptr(),
            1,
            k_,
            b.as_ptr(),
            1,
            n_,
            0.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

fn line(name: &str, threads: usize, flops: f64, (ours, theirs): (f64, f64)) {
    let (ours, theirs) = (flops / ours * 1e-9, flops / theirs * 1e-9);
    println!(
        "{name:28} {threads} threads  ours {ours:7.1}  gemm {theirs:7.1}  ratio {:.2}",
        ours / theirs
    );
}

fn matmul(m: usize, n: usize, k: usize, threads: usize) {
    let (a, b, mut c, mut d) = (numbers(m * k), numbers(k * n), vec![0.0; m * n], vec![0.0; m * n]);
    let (left, right) =
        (Places::matrix((m, k as isize), (k, 1)), Places::matrix((n, 1), (k, n as isize)));
    let (left, right) = (Gather::new(&a, 0, &left, &[]), Gather::new(&b, 0, &right, &[]));
    let size = Size::usual(1, m, n, k, 4);
    let run = || {
        // SAFETY: rows follow each other, and there is one product of one batch.
        let store = unsafe { Rows::new(&mut c, 0, n) };
        gemm(size, &left, &right, &store);
    };
    let times = best_of(run, || peer(m, n, k, &a, &b, &mut d, threads));
    let error = c.iter().zip(&d).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
    assert!(error < 1e-2, "the two differ by {error}");
    line(&format!("matmul {m}x{n}x{k}"), threads, 2.0 * (m * n * k) as f64, times);
}

/// A 3×3 convolution, stride 1, padding 1, channels last, against the 1024³ product.
fn conv2d(size: usize, inputs: usize, outputs: usize, threads: usize) {
    let (image, weights) = (numbers(size * size * inputs), numbers(9 * inputs * outputs));
    let (m, n, k) = (size * size, outputs, 9 * inputs);
    let mut c = vec![0.0; m * n];
    let (a, b, mut d) = (numbers(1 << 20), numbers(1 << 20), vec![0.0; 1 << 20]);
    let run = || {
        let split = |i: usize, by: usize| ((i / by) as isize, (i % by) as isize);
        let offset = |y: isize, x: isize| (y * size as isize + x) * inputs as isize;
        let pixels: Vec<_> = (0..m).map(|i| split(i, size)).collect();
        let taps: Vec<_> = (0..k).map(|i| (split(i / inputs, 3), (i % inputs) as isize)).collect();
        // The guards 0 <= y, 0 <= x, y < size, x < size.
        let inside = |places: &[(isize, isize)]| -> Vec<Vec<isize>> {
            let guard = |of: fn(&(isize, isize)) -> isize| places.iter().map(of).collect();
            vec![guard(|p| p.0), guard(|p| p.1), guard(|p| -p.0), guard(|p| -p.1)]
        };
        let rows = Axis::new(pixels.iter().map(|(y, x)| offset(*y, *x)).collect(), inside(&pixels));
        let terms = Axis::new(
            taps.iter().map(|((y, x), c)| offset(y - 1, x - 1) + c).collect(),
            inside(&taps.iter().map(|t| (t.0.0 - 1, t.0.1 - 1)).collect::<Vec<_>>()),
        );
        let last = vec![size as isize - 1];
        let none = Axis::new(vec![0], vec![vec![0], vec![0], last.clone(), last]);
        let left = Places::new(none, rows, terms);
        let right = Places::matrix((n, 1), (k, n as isize));
        let (left, right) =
            (Gather::new(&image, 0, &left, &[]), Gather::new(&weights, 0, &right, &[]));
        // SAFETY: rows follow each other, and there is one product of one batch.
        let store = unsafe { Rows::new(&mut c, 0, n) };
        gemm(Size::usual(1, m, n, k, 4), &left, &right, &store);
    };
    let (ours, theirs) = best_of(run, || peer(1024, 1024, 1024, &a, &b, &mut d, threads));
    let flops = 2.0 * (m * n * k) as f64;
    // The peer's time, scaled to as many operations.
    line(
        &format!("conv2d {size}² {inputs}→{outputs}"),
        threads,
        flops,
        (ours, theirs * flops / 2f64.powi(31)),
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let threads = std::thread::available_parallelism()?.get();
    let sizes =
        [(1024, 1024, 1024), (256, 256, 256), (512, 512, 512), (2048, 2048, 2048), (64, 64, 64)];
    let shapes = [
        (16, 1000, 1000),
        (4096, 64, 64),
        (64, 4096, 512),
        (64, 64, 20000),
        (3136, 128, 1152),
        (8, 8, 8),
    ];
    for (m, n, k) in sizes.into_iter().chain(shapes).filter(|s| format!("{s:?}").contains(&filter))
    {
        matmul(m, n, k, threads);
    }
    if "conv2d".contains(&filter) {
        conv2d(56, 128, 128, threads);
        conv2d(14, 256, 256, threads);
    }
    Ok(())
}
