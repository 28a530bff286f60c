//! Measures Tile programs on the cpu device beside the machine's peaks:
//! `cargo run --release --example nest_bench [FILTER]`.
//!
//! Every line is the best of interleaved runs on all threads: for each step its time; then, for the
//! whole, the bytes of inputs and outputs (each counted once) per second beside those of a parallel
//! copy.

use std::error::Error;
use std::time::Instant;
use tile_compiler::dense::Dense;
use tile_compiler::lower::{Bindings, lower};
use tile_compiler::nest::Nest;
use tile_compiler::pipeline;
use tile_compiler::plan::{BufferId, Content, Work};
use tile_compiler::profile::Profile;
use tile_runtime::cpu;

/// A name, a program, and the sizes for which it is measured.
type Case = (&'static str, &'static str, &'static [(&'static str, usize)]);

const PROGRAMS: [Case; 10] = [
    ("copy", "function f(X[N]) -> (Y) { Y = X * 2.0; }", &[("N", 16 << 20)]),
    (
        "chain of 6",
        "function f(X[N], B[N]) -> (Y) { Y = relu(X * 0.5 + B) * 1.5 - abs(B); }",
        &[("N", 16 << 20)],
    ),
    (
        "gelu",
        "function f(X[N]) -> (Y) { Y = 0.5 * X * (1.0 + erf(X * 0.70710678)); }",
        &[("N", 16 << 20)],
    ),
    ("tanh", "function f(X[N]) -> (Y) { Y = tanh(X); }", &[("N", 16 << 20)]),
    (
        "bias and relu",
        "function f(X[N, C], B[C]) -> (Y) { Y = relu(X + B); }",
        &[("N", 1 << 16), ("C", 128)],
    ),
    (
        "softmax",
        "function f(X[N, C]) -> (Y) { M[n, 0: N, 1] = >(X[n, c]); E = exp(X - M); S[n, 0: N, 1] = +(E[n, c]); Y = E / S; }",
        &[("N", 8192), ("C", 1024)],
    ),
    ("sum", "function f(X[N]) -> (Y) { Y[] = +(X[i]); }", &[("N", 16 << 20)]),
    (
        "column sums",
        "function f(X[N, C]) -> (Y) { Y[c: C] = +(X[n, c]); }",
        &[("N", 8192), ("C", 1024)],
    ),
    (
        "max pool 2x2",
        "function f(X[N, H, W, C]) -> (Y) { Y[n, y, x, c: N, H / 2, W / 2, C] = >(X[n, 2*y + i, 2*x + j, c]), i < 2, j < 2; }",
        &[("N", 8), ("H", 112), ("W", 112), ("C", 64)],
    ),
    (
        "depthwise 3x3",
        "function f(X[N, H, W, C], K[I, J, C]) -> (Y) { Y[n, y, x, c: N, H, W, C] = +(X[n, y + i - 1, x + j - 1, c] * K[i, j, c]); }",
        &[("N", 8), ("H", 56), ("W", 56), ("C", 128), ("I", 3), ("J", 3)],
    ),
];

const PRODUCTS: [Case; 4] = [
    (
        "matmul 1024",
        "function f(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
        &[("M", 1024), ("N", 1024), ("K", 1024)],
    ),
    (
        "dense: relu(A Bt + bias)",
        "function f(A[M, K], B[N, K], D[N]) -> (E) { C[i, j: M, N] = +(A[i, k] * B[j, k]); E = relu(C + D); }",
        &[("M", 1024), ("N", 1024), ("K", 1024)],
    ),
    (
        "conv 3x3 128 NHWC",
        "function f(X[N, H, W, C], K[I, J, C, D]) -> (Y) {
            Y[n, y, x, d: N, H, W, D] = +(X[n, y + i - 1, x + j - 1, c] * K[i, j, c, d]); }",
        &[("N", 1), ("H", 56), ("W", 56), ("C", 128), ("D", 128), ("I", 3), ("J", 3)],
    ),
    (
        "conv 3x3 128 NCHW",
        "function f(X[N, C, H, W], K[D, C, I, J]) -> (Y) {
            Y[n, d, y, x: N, D, H, W] = +(X[n, c, y + i - 1, x + j - 1] * K[d, c, i, j]); }",
        &[("N", 1), ("H", 56), ("W", 56), ("C", 128), ("D", 128), ("I", 3), ("J", 3)],
    ),
];

/// Memory for so many bytes, aligned, of floats near 0.75.
fn memory(bytes: u64) -> Vec<f64> {
    vec![f64::from_bits(0x3f20_0000_3f40_0000); bytes.div_ceil(8) as usize]
}

#[expect(unsafe_code, reason = "floats as bytes")]
fn as_bytes(words: &mut [f64]) -> &mut [u8] {
    // SAFETY: any bytes are floats, and floats are bytes.
    unsafe { words.align_to_mut().1 }
}

fn measure(
    name: &str,
    source: &str,
    sizes: &[(&str, usize)],
    product: bool,
) -> Result<(), Box<dyn Error>> {
    let program = tile_lang::check(source).program.ok_or("the program is wrong")?;
    let sizes = sizes.iter().map(|(name, size)| (name.to_string(), *size)).collect();
    let mut graph = lower(&program, None, &Bindings { sizes, ..Bindings::default() })
        .map_err(|e| format!("{e:?}"))?
        .graph;
    pipeline::optimise(&mut graph);
    let plan = pipeline::plan(&graph, &Profile::cpu())?;
    let mut buffers: Dense<BufferId, Vec<f64>> =
        plan.buffers.iter().map(|b| memory(b.bytes())).collect();
    let lasting = plan.buffers.iter().filter(|b| !matches!(b.content, Content::Temporary { .. }));
    let moved: u64 = lasting.map(|b| b.bytes()).sum();
    let (from, mut to) = (memory(64 << 20), memory(64 << 20));
    let mut best = vec![f64::INFINITY; plan.steps.len()];
    let (mut whole, mut copy) = (f64::INFINITY, f64::INFINITY);
    let mut operations = 0;
    for _ in 0..30 {
        let begin = Instant::now();
        for (step, best) in plan.steps.iter().zip(&mut best) {
            let Work::Nest(nest) = &plan.routines[step.routine].work else {
                return Err("a step is no nest".into());
            };
            let nest: &Nest = nest;
            operations = 2 * nest.places() * nest.reduction_points();
            let mut output = std::mem::take(&mut buffers[step.outputs[0]]);
            let mut inputs: Vec<Vec<f64>> = Vec::new();
            step.operands.iter().for_each(|&id| inputs.push(std::mem::take(&mut buffers[id])));
            let operands: Vec<&[u8]> = inputs.iter_mut().map(|words| &*as_bytes(words)).collect();
            let start = Instant::now();
            // SAFETY: the nest is one of a plan, which verifies it.
            unsafe { cpu::run(nest, &[], &operands, &mut [as_bytes(&mut output)]) }?;
            *best = best.min(start.elapsed().as_secs_f64());
            buffers[step.outputs[0]] = output;
            step.operands.iter().zip(inputs).for_each(|(&id, words)| buffers[id] = words);
        }
        whole = whole.min(begin.elapsed().as_secs_f64());
        let start = Instant::now();
        std::thread::scope(|scope| {
            let part =
                to.len().div_ceil(std::thread::available_parallelism().map_or(1, |n| n.get()));
            for (to, from) in to.chunks_mut(part).zip(from.chunks(part)) {
                scope.spawn(|| to.copy_from_slice(from));
            }
        });
        copy = copy.min(start.elapsed().as_secs_f64());
    }
    let steps: Vec<String> = best.iter().map(|t| format!("{:.2}", t * 1e3)).collect();
    print!("{name:26} {:8.2} ms ({})", whole * 1e3, steps.join(" + "));
    if product {
        println!("  {:.1} GFLOP/s", operations as f64 / whole * 1e-9);
    } else {
        let (ours, copy) = (moved as f64 / whole * 1e-9, (128u64 << 20) as f64 / copy * 1e-9);
        println!("  {ours:.1} GB/s, copy {copy:.1} GB/s, ratio {:.2}", ours / copy);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let filter = std::env::args().nth(1).unwrap_or_default();
    for (programs, product) in [(&PROGRAMS[..], false), (&PRODUCTS[..], true)] {
        for (name, source, sizes) in programs.iter().filter(|p| p.0.contains(&filter)) {
            measure(name, source, sizes, product)?;
        }
    }
    Ok(())
}
