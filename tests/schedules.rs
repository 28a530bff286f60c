//! Every schedule computes the same: random sums of products and reductions, each kernel under a
//! schedule drawn from its candidates, run by the kernel checker and held to the reference
//! interpreter.

use proptest::prelude::*;
use tile_compiler::dense::Dense;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::emit;
use tile_compiler::graph::Graph;
use tile_compiler::interpret;
use tile_compiler::kernel::Shared;
use tile_compiler::lower::{Binding, Bindings, lower};
use tile_compiler::passes::narrow;
use tile_compiler::pipeline;
use tile_compiler::plan::{BufferId, Content, Plan, Work};
use tile_compiler::profile::{MatrixUnit, Profile, Rates};
use tile_compiler::schedule::{Schedule, candidates, kernel};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::check::{self, Options};

/// Sizes around those of tiles, and odd ones.
const SIZES: [usize; 14] = [1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 36, 64, 70];

/// Matrix sizes and types that devices multiply in one operation.
const MATRICES: [(u32, DType); 4] =
    [(8, DType::F16), (8, DType::F32), (16, DType::F16), (16, DType::F32)];

/// Epilogues of the sum `P`, which has rank 2 and `ROWS` rows: `B` is as long as its last axis, and
/// `R` has its shape. The last ones have row statistics.
const EPILOGUES: [&str; 9] = [
    "Y = P;",
    "Y = relu(P + B);",
    "Y = P * 2.0 + R;",
    "Y = max(P, R) - R;",
    "Y = P + R; Z = P * B;",
    "T[i, 0: ROWS, 1] = >(P[i, j]); Y = P - T;",
    "Q = P + B; T[i, 0: ROWS, 1] = >(Q[i, j]); D = T - Q; S[i, 0: ROWS, 1] = +(D[i, j]); Y = D + S;",
    "T[i, 0: ROWS, 1] = <(P[i, j]); D = P - T; Y[i, 0: ROWS, 1] = +(D[i, j]);",
    "Z = P + R; S[i, 0: ROWS, 1] = +(Z[i, j]); Y = Z * 3.0 - S;",
];

/// A program with the shapes of its inputs.
#[derive(Clone, Debug)]
struct Case {
    source: String,
    shapes: Vec<(&'static str, Vec<usize>)>,
    /// The choice among the candidates, for each kernel in turn.
    picks: Vec<usize>,
    /// Whether launches are free, so that reductions are divided.
    divides: bool,
    /// The subgroup size; 1 means no subgroup operations.
    subgroup_size: u32,
    /// The matrix size and type, if matrix units are used where possible; with f16, factors are
    /// rounded.
    matrices: Option<(u32, DType)>,
}

fn case() -> impl Strategy<Value = Case> {
    let sizes = prop::collection::vec(prop::sample::select(SIZES.as_slice()), 4);
    let picks = prop::collection::vec(any::<usize>(), 4);
    let subgroups = prop::sample::select([1, 4, 8, 16, 32, 64, 128].as_slice());
    let kinds = (0..KINDS, prop::sample::select(EPILOGUES.as_slice()));
    let matrices = prop::option::of(prop::sample::select(MATRICES.as_slice()));
    (kinds, sizes, picks, any::<bool>(), subgroups, matrices).prop_map(
        |((kind, epilogue), sizes, picks, divides, subgroup_size, matrices)| {
            let [m, n, k, b] = sizes[..] else { unreachable!() };
            let (sum, shapes, output) = program(kind, m, n, k, b);
            let epilogue = if output.len() == 2 { epilogue } else { "Y = P;" };
            let epilogue = epilogue.replace("ROWS", &output[0].to_string());
            let names: Vec<&str> = shapes.iter().map(|(name, _)| *name).collect();
            let mut shapes = shapes.clone();
            let mut inputs = names.join(", ");
            if epilogue.contains('B') {
                inputs.push_str(", B");
                shapes.push(("B", vec![output[1]]));
            }
            if epilogue.contains('R') {
                inputs.push_str(", R");
                shapes.push(("R", output));
            }
            let outputs = if epilogue.contains('Z') { "Y, Z" } else { "Y" };
            let source = format!("function f({inputs}) -> ({outputs}) {{ {sum} {epilogue} }}");
            Case { source, shapes, picks, divides, subgroup_size, matrices }
        },
    )
}

const KINDS: usize = 14;
/// The kind that is a convolution with a window of 3 x 3 at stride 1.
const CONVOLUTION: usize = 7;

type Shapes = Vec<(&'static str, Vec<usize>)>;

/// Returns a sum, the shapes of its operands, and its own.
fn program(kind: usize, m: usize, n: usize, k: usize, b: usize) -> (String, Shapes, Vec<usize>) {
    let batch = b.min(3);
    let (left, right) = (("X", vec![m, k]), ("W", vec![k, n]));
    let of = |indices: &str, sizes: Vec<usize>, shapes: Shapes| {
        let list: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let (output, sum) = indices.split_once('=').expect("an equation");
        (format!("P[{output}: {}] = {sum};", list.join(", ")), shapes, sizes)
    };
    match kind {
        0 => of("i, j = +(X[i, k] * W[k, j])", vec![m, n], vec![left, right]),
        1 => of("i, j = +(X[i, k] * W[j, k])", vec![m, n], vec![left, ("W", vec![n, k])]),
        2 => of("i, j = +(X[k, i] * W[k, j])", vec![m, n], vec![("X", vec![k, m]), right]),
        3 => of(
            "i, j = +(X[k, i] * W[j, k])",
            vec![m, n],
            vec![("X", vec![k, m]), ("W", vec![n, k])],
        ),
        // Operations fused into a factor, and one operand twice.
        4 => of("i, j = +(relu(X[i, k]) * (W[k, j] + 1.0))", vec![m, n], vec![left, right]),
        5 => of("i, j = +(X[i, k] * X[j, k])", vec![m, m], vec![left]),
        6 => of(
            "b, i, j = +(X[b, i, k] * W[b, k, j])",
            vec![batch, m, n],
            vec![("X", vec![batch, m, k]), ("W", vec![batch, k, n])],
        ),
        // Convolutions with padding and with strides.
        CONVOLUTION => of(
            "y, x, o = +(X[y + u - 1, x + v - 1, c] * W[u, v, c, o])",
            vec![m.min(9), b.min(9), n],
            vec![("X", vec![m.min(9), b.min(9), k.min(16)]), ("W", vec![3, 3, k.min(16), n])],
        ),
        8 => of(
            "y, o = +(X[2 * y + u, c] * W[u, c, o])",
            vec![m, n],
            vec![("X", vec![2 * m + 2, k.min(17)]), ("W", vec![3, k.min(17), n])],
        ),
        // Few rows with a long sum, along columns and along rows.
        9 => of(
            "i, j = +(X[i, k] * W[k, j])",
            vec![b.min(5), n],
            vec![("X", vec![b.min(5), 37 * k]), ("W", vec![37 * k, n])],
        ),
        10 => of(
            "i, j = +(X[i, k] * W[j, k])",
            vec![b.min(5), n],
            vec![("X", vec![b.min(5), 36 * k]), ("W", vec![n, 36 * k])],
        ),
        // The factors in the other order.
        11 => of("i, j = +(W[k, j] * X[i, k])", vec![m, n], vec![left, right]),
        12 => of("i, j = >(X[k, i, j])", vec![m.min(5), n], vec![("X", vec![40 * k, m.min(5), n])]),
        // A product of a product, which is one kernel if there are enough rows and points.
        _ => {
            let (sum, shapes, output) = of(
                "b, i, j = +(A[b, i, s] * V[b, s, j])",
                vec![batch, m, n],
                vec![("X", vec![batch, m, 9]), ("W", vec![batch, k, 9]), ("V", vec![batch, k, n])],
            );
            let scores = format!(
                "S[b, i, s: {batch}, {m}, {k}] = +(X[b, i, d] * W[b, s, d]); A = relu(S - 3.0);"
            );
            (format!("{scores} {sum}"), shapes, output)
        }
    }
}

/// Returns small whole numbers, so that sums are exact in any order.
fn tensor(ty: &TensorType, seed: usize) -> Tensor {
    let value =
        |at: usize| Scalar::from_f64(ty.dtype, ((at * 7 + seed * 3 + at / 11) % 5) as f64 - 2.0);
    Tensor::from_scalars(ty.clone(), (0..ty.elements()).map(value)).unwrap()
}

fn graph(case: &Case) -> Graph {
    let checked = tile_lang::check(&case.source);
    let program = checked.program.unwrap_or_else(|| panic!("{:?}", checked.diagnostics));
    let mut bindings = Bindings::default();
    for (name, shape) in &case.shapes {
        let ty = TensorType::new(DType::F32, shape.as_slice());
        bindings.inputs.insert((*name).to_owned(), Binding::Tensor(ty));
    }
    let mut graph =
        lower(&program, None, &bindings).unwrap_or_else(|errors| panic!("{errors:?}")).graph;
    if let Some((_, DType::F16)) = case.matrices {
        narrow(&mut graph, DType::F16);
    }
    pipeline::optimise(&mut graph);
    graph
}

fn given(graph: &Graph, case: &Case) -> Vec<(String, Tensor)> {
    let all = graph.inputs.iter().zip(&case.shapes).enumerate();
    all.map(|(number, (&id, (name, _)))| ((*name).to_owned(), tensor(&graph.node(id).ty, number)))
        .collect()
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let graph = graph(case);
    let given = given(&graph, case);
    let expected = interpret::run(&graph, &given).unwrap();
    // Transforms of a convolution round, whatever the numbers are; `runtime/tests/filtered.rs` has
    // these.
    let subgroups = case.subgroup_size > 1;
    let mut profile = Profile { subgroups, exact: true, ..Profile::generic() };
    if let Some((size, factors)) = case.matrices {
        let unit = MatrixUnit { size, factors, subgroup: case.subgroup_size };
        profile = Profile { f16: true, max_shared_bytes: 32768, matrices: vec![unit], ..profile };
    }
    if case.divides {
        profile.rates = Rates { launch: 0.0, ..profile.rates };
    }
    let mut plan = pipeline::plan(&graph, &profile).unwrap();
    let chosen = schedule(&mut plan, case)?;
    for kernel in plan.routines.iter().filter_map(|routine| routine.kernel.as_ref()) {
        let bytes =
            |shared: &Shared| shared.length * shared.ty.lanes as usize * shared.ty.dtype.size();
        let bytes: usize = kernel.shared.iter().map(bytes).sum();
        prop_assert!(
            bytes <= profile.max_shared_bytes as usize,
            "{bytes} bytes of workgroup memory under {chosen:?}"
        );
    }
    let outputs =
        run(&plan, &given, case.subgroup_size).map_err(|error| format!("{chosen:?}: {error}"));
    let outputs = outputs.map_err(TestCaseError::fail)?;
    for ((name, expected), output) in expected.iter().zip(&outputs) {
        prop_assert_eq!(&expected.to_f64s(), output, "{} under {:?}", name, &chosen);
    }
    Ok(())
}

/// Draws a schedule for each nest of a plan from its candidates, and returns them.
fn schedule(plan: &mut Plan, case: &Case) -> Result<Vec<String>, TestCaseError> {
    let profile = plan.profile.clone();
    let mut chosen = Vec::new();
    for (routine, pick) in plan.routines.iter_mut().zip(case.picks.iter().cycle()) {
        let Work::Nest(nest) = &routine.work else { continue };
        let mut all = candidates(nest, &profile);
        if case.matrices.is_some()
            && all.iter().any(|schedule| matches!(schedule, Schedule::Matrices(_)))
        {
            all.retain(|schedule| matches!(schedule, Schedule::Matrices(_)));
        }
        let schedule = all[pick % all.len()].clone();
        // Tuning stores a schedule as text.
        prop_assert_eq!(schedule.to_string().parse(), Ok(schedule.clone()));
        routine.kernel = kernel(nest, &schedule, &profile)
            .unwrap_or_else(|error| panic!("{schedule}: {error}\n{nest}"));
        chosen.push(schedule.to_string());
    }
    Ok(chosen)
}

/// Returns the outputs of a plan of f32 tensors, run by the kernel checker.
fn run(
    plan: &Plan,
    given: &[(String, Tensor)],
    subgroup_size: u32,
) -> Result<Vec<Vec<f64>>, String> {
    let bytes =
        |tensor: &Tensor| tensor.to_f64s().iter().flat_map(|&x| (x as f32).to_le_bytes()).collect();
    let contents = plan.buffers.iter().map(|buffer| match &buffer.content {
        Content::Constant(tensor) => bytes(tensor),
        _ => vec![0; buffer.bytes() as usize],
    });
    let mut memory: Dense<BufferId, Vec<u8>> = contents.collect();
    for (port, (_, tensor)) in plan.inputs.iter().zip(given) {
        memory[port.buffer] = bytes(tensor);
    }
    plan.launches(|launch| {
        let routine = &plan.routines[launch.step.routine];
        let kernel = routine.kernel.as_ref().expect("a shader's");
        let module = emit::module(kernel).map_err(|error| error.to_string())?;
        let bound = routine.bound(launch.operands, launch.outputs);
        let mut buffers: Vec<Vec<u8>> = bound.iter().map(|&id| memory[id].clone()).collect();
        let undefined = (launch.operands.len() as u32..bound.len() as u32).collect();
        let options = Options { subgroup_size, undefined, ..Options::default() };
        let unwritten = check::run(&module, &kernel.name, kernel.grid, &mut buffers, &options);
        let unwritten = unwritten.map_err(|fault| format!("{fault}\n{kernel}"))?;
        if let Some(part) = unwritten.first() {
            return Err(format!("{part}\n{kernel}"));
        }
        bound.into_iter().zip(buffers).for_each(|(id, bytes)| memory[id] = bytes);
        Ok(())
    })?;
    let values = |bytes: &[u8]| {
        let words =
            bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().expect("four")));
        words.map(f64::from).collect()
    };
    Ok(plan.outputs.iter().map(|port| values(&memory[port.buffer])).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_schedules_compute_the_same(case in case()) {
        check(&case)?;
    }

    #[test]
    fn all_schedules_filter_convolutions(mut case in case(), sizes in prop::array::uniform4(1usize..=9)) {
        let [m, n, channels, filters] = sizes;
        let (sum, shapes, _) = program(CONVOLUTION, m, 4 * filters, 4 * channels, n);
        case = Case { source: format!("function f(X, W) -> (P) {{ {sum} }}"), shapes, matrices: None, ..case };
        let graph = graph(&case);
        // Multiplications are so slow that fewer of them are always faster.
        let rates = Rates { flops: 1e9, memory: 1e15, cache: 1e15, launch: 0.0, ..Rates::GPU };
        let mut plan = pipeline::plan(&graph, &Profile { rates, ..Profile::generic() }).unwrap();
        let chosen = schedule(&mut plan, &case)?;
        let given = given(&graph, &case);
        let outputs =
            run(&plan, &given, case.subgroup_size).map_err(TestCaseError::fail)?;
        let expected = interpret::run(&graph, &given).unwrap();
        for ((_, expected), output) in expected.iter().zip(&outputs) {
            for (expected, output) in expected.to_f64s().into_iter().zip(output) {
                prop_assert!((expected - output).abs() < 1e-3, "{} is not {} under {:?}", output, expected, &chosen);
            }
        }
    }
}
