//! Kernels for each family of GPUs: they keep the family's limits, fill its subgroups, and compute
//! what the reference does, by the kernel checker.

use tile_compiler::profile::{Execution, Profile};
use tile_compiler::schedule::Schedule;
use tile_runtime::{Device, Model, Tensor};

/// A program, with its inputs and their axes among the sizes `N`, `K`, `M` and `D`.
type Sample = (&'static str, &'static [(&'static str, &'static [usize])]);

const SAMPLES: [Sample; 7] = [
    (
        "function f(X[N, K], W[K, M], B[M]) -> (Y) { Z[n, m: N, M] = +(X[n, k] * W[k, m]); Y = relu(Z + B); }",
        &[("X", &[0, 1]), ("W", &[1, 2]), ("B", &[2])],
    ),
    ("function f(X[N, K]) -> (Y) { Y = softmax(X); }", &[("X", &[0, 1])]),
    ("function f(X[N, K]) -> (Y) { Y[k: K] = +(X[n, k]); }", &[("X", &[0, 1])]),
    (
        "function f(X[N, K, M]) -> (Y) { Y[n, k: N, K] = >(X[n, k, m]); }",
        &[("X", &[0, 1, 2])],
    ),
    (
        "function f(Q[N, K], A[M, K], V[M, K]) -> (Y) {
            S[n, m: N, M] = +(Q[n, k] * A[m, k]); P = softmax(S); Y[n, k: N, K] = +(P[n, m] * V[m, k]);
        }",
        &[("Q", &[0, 1]), ("A", &[2, 1]), ("V", &[2, 1])],
    ),
    // Scores that are sums over two axes, and sums over two axes of points.
    (
        "function f(Q[N, K, D], A[K, M, D], V[M, K]) -> (Y) {
            S[n, m: N, M] = +(Q[n, h, d] * A[h, m, d]); P = softmax(S / 64);
            Y[n, k: N, K] = +(P[n, m] * V[m, k]);
        }",
        &[("Q", &[0, 1, 3]), ("A", &[1, 2, 3]), ("V", &[2, 1])],
    ),
    (
        "function f(Q[N, K], A[M, D, K], V[D, M, K]) -> (Y) {
            S[n, m, l: N, M, D] = +(Q[n, k] * A[m, l, k]); P = exp(S / 512) / 512;
            Y[n, k: N, K] = +(P[n, m, l] * V[l, m, k]);
        }",
        &[("Q", &[0, 1]), ("A", &[2, 3, 1]), ("V", &[3, 2, 1])],
    ),
];

fn gpus() -> impl Iterator<Item = Profile> {
    Profile::fixed_names()
        .filter_map(Profile::fixed)
        .filter(|profile| profile.execution == Execution::Shader)
}

/// Returns small whole numbers, so that sums are exact in any order.
fn tensor(shape: &[usize], seed: usize) -> Tensor {
    let count = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|at| ((at * 7 + seed * 3) % 5) as f32 - 2.0).collect();
    Tensor::from_f32(shape, &values).unwrap()
}

/// Returns the values of `Y` of a sample on a device.
fn run((source, inputs): &Sample, sizes: [usize; 4], device: &Device) -> Vec<f64> {
    let model = Model::compile(source).unwrap_or_else(|error| panic!("{error}"));
    let given: Vec<(&str, Tensor)> = inputs
        .iter()
        .enumerate()
        .map(|(seed, &(name, axes))| {
            (name, tensor(&axes.iter().map(|&axis| sizes[axis]).collect::<Vec<_>>(), seed))
        })
        .collect();
    let mut builder = model.on(device);
    for (name, tensor) in &given {
        builder = builder.input(*name, tensor.ty().clone());
    }
    let mut session = builder.build().unwrap_or_else(|error| panic!("{source}: {error}"));
    let mut outputs = session.run(given).unwrap_or_else(|error| panic!("{source}: {error}"));
    outputs.remove("Y").unwrap().to_f64s()
}

#[test]
fn families_compute_what_the_reference_does() {
    let reference = Device::reference();
    for sizes in [[1, 1, 1, 1], [7, 5, 3, 2], [67, 131, 37, 16], [128, 16, 97, 24]] {
        for sample in &SAMPLES {
            let expected = run(sample, sizes, &reference);
            for profile in gpus() {
                let name = profile.name.clone();
                let values = run(sample, sizes, &Device::check(profile));
                assert_eq!(values.len(), expected.len());
                for (value, expected) in values.iter().zip(&expected) {
                    let error = (value - expected).abs();
                    assert!(
                        error <= 1e-5 * expected.abs().max(1.0),
                        "{name} {sizes:?}: {}",
                        sample.0
                    );
                }
            }
        }
    }
}

/// Returns the plan of a network of convolutions, whose sizes leave remainders, for a profile.
fn network(profile: &Profile) -> tile_compiler::plan::Plan {
    let source = "model Net(X[N, 57, 55, 61]) -> (Y) {
        Y = X |> Conv2D(67, 3, activation = relu) |> Conv2D(128, 1) |> MaxPooling2D(2)
            |> Conv2D(33, 5, strides = 2) |> Flatten() |> Dense(64) |> LayerNormalization();
    }";
    let model = Model::compile(source).unwrap_or_else(|error| panic!("{error}"));
    model.on_target(profile.name.as_str()).dim("N", 2).plan().unwrap()
}

/// The kernels keep all limits, and those of products fill subgroups: on GCN a workgroup of 32
/// invocations would take as long as one of 64.
#[test]
fn kernels_keep_the_limits_of_their_family() {
    for profile in gpus() {
        let plan = network(&profile);
        let mut products = 0;
        for routine in &plan.routines {
            let Some(kernel) = &routine.kernel else { continue };
            let what = format!("{} of {}", kernel.name, profile.name);
            let invocations = kernel.workgroup.iter().product::<u32>();
            assert!(invocations <= profile.max_invocations, "{what}");
            let sizes = kernel.workgroup.iter().zip(profile.max_workgroup);
            assert!(sizes.into_iter().all(|(&size, most)| size <= most), "{what}");
            assert!(kernel.grid.iter().all(|&size| size <= profile.max_grid), "{what}");
            assert!(kernel.buffers.len() <= profile.max_buffers as usize, "{what}");
            let shared = kernel.shared.iter().map(|shared| {
                shared.length * usize::from(shared.ty.lanes) * shared.ty.dtype.size()
            });
            assert!(shared.sum::<usize>() <= profile.max_shared_bytes as usize, "{what}");
            if let Some(Schedule::Contraction(_) | Schedule::Matrices(_)) = &routine.schedule {
                products += 1;
                assert!(invocations >= profile.rates.core.subgroup, "{what}");
            }
        }
        assert!(products >= 3, "{}: {products} products", profile.name);
    }
}
