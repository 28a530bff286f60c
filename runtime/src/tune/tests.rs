use std::sync::Arc;
use std::time::Duration;

use tile_compiler::dtype::DType;
use tile_compiler::interpret;
use tile_compiler::nest::Nest;
use tile_compiler::pipeline::{self, Options};
use tile_compiler::plan::{Plan, Work};
use tile_compiler::profile::{Profile, Rates};
use tile_compiler::schedule::{Choice, Key, candidates};
use tile_compiler::tensor::{Tensor, TensorType};

use super::arena::Arena;
use super::*;
use crate::Model;
use crate::backend::block_on;
use crate::store::Store;
#[cfg(feature = "wgpu")]
use crate::wgpu::{Gpu, Kept, lock};

/// Programs with the shapes of their inputs: every template, every kind of epilogue, and difficult
/// cases for error bounds.
const PROGRAMS: [(&str, &[(&str, &str)]); 9] = [
    (
        "function f(A[M, K], B[K, N], C[N]) -> (Y) { P[i, j: M, N] = +(A[i, k] * B[k, j]); Y = relu(P + C); }",
        &[("A", "37x40"), ("B", "40x29"), ("C", "29")],
    ),
    ("function f(X[N, M]) -> (Y) { Y = builtin_softmax(X, N, M); }", &[("X", "13x70")]),
    (
        "function f(X[N, M]) -> (Y) { S[i: N] = +(X[i, j] * X[i, j]); Y = sqrt(S + 1.0) / log(S + 2.0); }",
        &[("X", "5x301")],
    ),
    ("function f(X[N, M]) -> (Y, Z) { Y[i: N] = >(exp(X[i, j])); Z = sqrt(X); }", &[("X", "9x65")]),
    (
        "function f(T[V, D], I[B]) -> (Y) { Y = 2.0 * gather(T, I); }",
        &[("T", "50x12"), ("I", "i32:31")],
    ),
    (
        "function f(X[H, W, C], K[3, 3, C, D]) -> (Y) { Y[y, x, d: H, W, D] = +(X[y + j - 1, x + i - 1, c] * K[j, i, c, d]); }",
        &[("X", "9x8x5"), ("K", "3x3x5x7")],
    ),
    ("function f(X[N, M]) -> (Y) { Y[i: N] = argmax(X[i, j]); }", &[("X", "7x40")]),
    (
        "function f(X[N], Y[N]) -> (Z, W) { Z = (X + Y) / (X - Y); W = X < Y ? X : Y * 3; }",
        &[("X", "i32:77"), ("Y", "i32:77")],
    ),
    ("model f(X[N, T, C]) -> (Y) { Y = X |> LSTM(4); }", &[("X", "2x5x3")]),
];

fn plan(program: &str, shapes: &[(&str, &str)], profile: &Profile) -> Plan {
    let model = Model::compile(program)
        .unwrap_or_else(|error| panic!("{program}: {}", error.render("", false)));
    let device = Device::cpu();
    let mut builder = model.on(&device);
    for (name, shape) in shapes {
        let (dtype, sizes) = shape.split_once(':').unwrap_or(("f32", shape));
        let shape: Vec<usize> = sizes.split('x').map(|size| size.parse().unwrap()).collect();
        builder = builder.input(*name, TensorType::new(DType::parse(dtype).unwrap(), shape));
    }
    let mut graph = builder
        .network()
        .unwrap_or_else(|error| panic!("{program}: {}", error.render("", false)))
        .graph;
    pipeline::optimise(&mut graph);
    pipeline::plan_with(&graph, profile, &Options::default()).unwrap()
}

fn nests(plan: &Plan) -> impl Iterator<Item = &Nest> {
    plan.routines.iter().filter_map(|routine| match &routine.work {
        Work::Nest(nest) => Some(&**nest),
        _ => None,
    })
}

/// Launches cost nothing here, so that long reductions are divided.
fn profile() -> Profile {
    Profile { rates: Rates { launch: 0.0, ..Rates::GPU }, ..Profile::generic() }
}

#[test]
fn what_is_right_passes() {
    for (program, shapes) in PROGRAMS {
        let plan = plan(program, shapes, &profile());
        for nest in nests(&plan) {
            let all = candidates(nest, &profile());
            // A few schedules of each list, as different as possible.
            for schedule in all.iter().step_by(all.len().div_ceil(4)).chain(all.last()) {
                let mut arena = Arena::new(Device::check(profile()), nest).unwrap();
                let mut contender = arena.compile(schedule).unwrap().unwrap();
                assert_eq!(arena.check(&mut contender).unwrap(), Ok(()), "{schedule}\n{nest}");
            }
        }
    }
}

/// Runs the kernel of a changed nest, with the same operands, in place of the nest's own.
fn wrong(nest: &Nest, change: impl Fn(&mut Nest)) -> Result<(), String> {
    let mut other = nest.clone();
    change(&mut other);
    let device = Device::check(profile());
    let mut impostor = Arena::new(device.clone(), &other).unwrap();
    let schedule = candidates(&other, &profile()).swap_remove(0);
    let mut contender = impostor.compile(&schedule).unwrap().unwrap();
    Arena::new(device, nest).unwrap().check(&mut contender).unwrap()
}

#[test]
fn what_is_wrong_does_not() {
    let (program, shapes) = PROGRAMS[0];
    let product = plan(program, shapes, &profile());
    let product = nests(&product).next().unwrap();
    assert_eq!(wrong(product, |_| {}), Ok(()));
    // One term of each sum is missing; all places of a column have the values of another.
    let missing = |nest: &mut Nest| {
        let axis = nest.reduction().start;
        nest.axes[axis].extent -= 1;
    };
    let said = wrong(product, missing).unwrap_err();
    assert!(said.starts_with("element ") && said.contains(" of output 0 is "), "{said}");
    // Sums of functions, which are not exact.
    let (program, shapes) =
        ("function f(X[N, M]) -> (Y) { Y[i: N] = +(sigmoid(X[i, j])); }", &[("X", "6x200")]);
    let sum = plan(program, shapes, &Profile::generic());
    let sum = nests(&sum).next().unwrap();
    assert_eq!(wrong(sum, |_| {}), Ok(()));
    assert!(wrong(sum, missing).unwrap_err().contains(" (± "));
    // If every value is NaN, nothing can be checked.
    let nothing =
        plan("function f(X[N]) -> (Y) { Y = sqrt(0.0 - X * X); }", &[("X", "20")], &profile());
    let said = wrong(nests(&nothing).next().unwrap(), |_| {}).unwrap_err();
    assert_eq!(
        said,
        "it cannot be checked: the reference has no finite values for what it was given"
    );
}

#[test]
fn tables_are_used_where_they_suit() {
    for (program, shapes) in PROGRAMS {
        let default = plan(program, shapes, &profile());
        let model = Model::compile(program).unwrap();
        let device = Device::cpu();
        let builder = shapes.iter().fold(model.on(&device), |builder, (name, shape)| {
            let (dtype, sizes) = shape.split_once(':').unwrap_or(("f32", shape));
            let shape: Vec<usize> = sizes.split('x').map(|size| size.parse().unwrap()).collect();
            builder.input(*name, TensorType::new(DType::parse(dtype).unwrap(), shape))
        });
        let mut graph = builder.network().unwrap().graph;
        let given = graph.inputs.iter().chain(&graph.weights).zip(0..).map(|(&id, seed)| {
            let node = graph.node(id);
            let value = |i: usize| {
                tile_compiler::dtype::Scalar::from_i64(
                    node.ty.dtype,
                    ((i * 5 + seed) % 7) as i64 - 3,
                )
            };
            let values =
                Tensor::from_scalars(node.ty.clone(), (0..node.ty.elements()).map(value)).unwrap();
            (node.op.given_name().unwrap().to_owned(), values)
        });
        let given: Vec<(String, Tensor)> = given.collect();
        let expected = interpret::run(&graph, &given).unwrap();
        pipeline::optimise(&mut graph);
        let last = |nest: &Nest| candidates(nest, &profile()).pop().unwrap();
        let tuned = Arc::new(nests(&default).map(|nest| (Key::of(nest), last(nest))).collect());
        let plan =
            pipeline::plan_with(&graph, &profile(), &Options { tuned, ..Options::default() })
                .unwrap();
        for routine in plan.routines.iter().filter(|routine| routine.schedule.is_some()) {
            assert_eq!(routine.choice, Choice::Tuned, "{routine}");
        }
        let device = Device::check(profile());
        let mut executable = block_on(device.0.compile(plan, &mut Store::default())).unwrap();
        for (number, (_, tensor)) in given.iter().enumerate() {
            block_on(executable.set(number, tensor)).unwrap();
        }
        let outputs = block_on(executable.run(&[])).unwrap();
        for ((name, expected), output) in expected.iter().zip(outputs) {
            for (x, y) in expected.to_f64s().into_iter().zip(output.to_f64s()) {
                let near = (x - y).abs() <= 1e-4 * x.abs().max(1.0) || x.is_nan() && y.is_nan();
                assert!(near, "{name}: {y} instead of {x} in {program}");
            }
        }
        // Unsuitable schedules are not used.
        let other = "pointwise workgroup 3 width 2".parse::<Schedule>().unwrap();
        let tuned = Arc::new(nests(&default).map(|nest| (Key::of(nest), other.clone())).collect());
        let unsuited =
            pipeline::plan_with(&graph, &profile(), &Options { tuned, ..Options::default() })
                .unwrap();
        for (routine, usual) in unsuited.routines.iter().zip(&default.routines) {
            assert_eq!(routine.schedule, usual.schedule);
            assert_eq!(
                routine.choice,
                if usual.schedule.is_some() { Choice::Unsuited } else { Choice::Predicted }
            );
        }
    }
}

#[test]
fn what_has_nothing_to_tune() {
    let model = Model::compile("function f(X[N]) -> (Y) { Y = 2.0 * X; }").unwrap();
    for device in [Device::cpu(), Device::reference(), Device::check(Profile::generic())] {
        assert!(device.tuning().unwrap_err().contains(" has nothing to tune: "));
        let tuning =
            model.on(&device).dim("N", 3).tune(Tune::within(Duration::from_secs(1))).unwrap();
        assert_eq!(tuning, Tuning { finished: true, ..Tuning::default() });
        assert!(matches!(
            model.on(&device).tune(Tune::within(Duration::from_secs(1))),
            Err(Error::Program { .. })
        ));
    }
}

/// Returns an adapter of this machine, without earlier results of tuning.
#[cfg(feature = "wgpu")]
fn adapter() -> Option<Device> {
    let device = Device::wgpu(0).ok()?;
    if let Some(gpu) = Gpu::of(&device) {
        *lock(&gpu.tuned) = Kept::default();
    }
    Some(device)
}

#[cfg(feature = "wgpu")]
#[test]
fn adapters_are_tuned() {
    let Some(device) = adapter() else { return };
    let source = "function f(A[M, K], B[K, N]) -> (Y) { P[i, j: M, N] = >(A[i, k] * B[k, j]); Y = builtin_softmax(P, M, N); }";
    let sizes = [("M", 50), ("K", 3), ("N", 41)];
    let (tuning, again, seen) = tuned(&device, source, &sizes, Duration::from_secs(60));
    assert_eq!((tuning.kernels.len(), tuning.finished), (2, true));
    assert!(seen > 2);
    assert!(tuning.kernels.iter().all(|kernel| kernel.measured > 1 && !kernel.known), "{tuning:?}");
    // Known kernels are not measured again.
    assert!(again.kernels.iter().all(|kernel| kernel.known && kernel.finished), "{again:?}");
    assert_eq!(again.kernels.len(), 2);
    // A search that is cut short.
    let source = "function f(A[M, K], B[K, N]) -> (Y) { Y[i, j: M, N] = +(A[i, k] * B[k, j]); }";
    tuned(&device, source, &[("M", 50), ("K", 33), ("N", 41)], Duration::from_secs(2));
    assert!(device.warnings().is_empty());
}

/// Tunes a program and checks that it computes the same. Returns the results of a first and of a
/// second tuning, and the number of calls of `watch`.
#[cfg(feature = "wgpu")]
fn tuned(
    device: &Device,
    source: &str,
    sizes: &[(&str, usize)],
    budget: Duration,
) -> (Tuning, Tuning, usize) {
    let model = Model::compile(source).unwrap();
    let built =
        || sizes.iter().fold(model.on(device), |builder, (name, size)| builder.dim(*name, *size));
    let run = |session: &mut crate::Session| {
        let types: Vec<(String, TensorType)> =
            session.inputs().map(|(name, ty)| (name.to_owned(), ty.clone())).collect();
        let given = types.into_iter().map(|(name, ty)| {
            let values: Vec<f32> =
                (0..ty.elements()).map(|i| (i * 7 % 11) as f32 / 8.0 - 0.5).collect();
            (name, Tensor::from_f32(ty.shape, &values).unwrap())
        });
        session.run(given.collect::<Vec<_>>()).unwrap().remove("Y").unwrap().to_f64s()
    };
    let before = run(&mut built().build().unwrap());
    let mut seen = 0;
    let watch = |progress: &Progress| {
        seen += 1;
        assert!(progress.number < progress.kernels && progress.ratio <= 1.0);
        ControlFlow::Continue(())
    };
    let tuning = built().tune(Tune::within(budget).watch(watch)).unwrap();
    assert_eq!((&tuning.wrong, &tuning.file), (&vec![], &None));
    for kernel in &tuning.kernels {
        assert!(
            kernel.tuned.seconds > 0.0 && kernel.tuned.seconds <= kernel.default.seconds,
            "{kernel:?}"
        );
        assert!(kernel.measured <= kernel.candidates, "{kernel:?}");
    }
    let mut session = built().build().unwrap();
    for routine in session.plan().unwrap().routines.iter().filter(|_| tuning.finished) {
        assert_eq!(routine.choice, Choice::Tuned);
    }
    let after = run(&mut session);
    assert!(before.iter().zip(&after).all(|(x, y)| (x - y).abs() <= 1e-5), "{before:?}\n{after:?}");
    (tuning, built().tune(Tune::within(budget)).unwrap(), seen)
}

#[cfg(feature = "wgpu")]
#[test]
fn it_ends_when_it_is_told() {
    let Some(device) = adapter() else { return };
    let model = Model::compile("function f(X[N]) -> (Y) { Y = exp(X) + 1.0; }").unwrap();
    let stop = Tune::within(Duration::from_secs(100)).watch(|_| ControlFlow::Break(()));
    let tuning = model.on(&device).dim("N", 1000).tune(stop).unwrap();
    assert!(!tuning.finished && tuning.kernels.is_empty());
    assert!(device.tuned().is_empty());
}
