//! The memory that training takes does not grow, and neither does its plan.

use tile_runtime::train::{Arrays, Fit, Trainer};
use tile_runtime::{DType, Device, Model, Tensor, TensorType};

const PROGRAM: &str = "
model Line(X[N, 1]) -> (Y) { Y = X |> Dense(1); }

train Line { loss = MeanSquaredError(); optimizer = SGD(momentum = 0.5); batch_size = 4; seed = 3; }

model Network(X[N, 3]) -> (Y) {
    Y = X |> Dense(8, activation = tanh) |> BatchNormalization() |> Dropout(0.25) |> Dense(2);
}

train Network {
    loss = MeanSquaredError();
    optimizer = SGD(0.02, momentum = 0.5);
    metrics = [MeanAbsoluteError()];
    batch_size = 8;
    seed = 5;
}
";

fn trainer(entry: &str) -> Trainer {
    Model::compile(PROGRAM).unwrap().trainer(&Device::cpu()).entry(entry).build().unwrap()
}

/// Returns the bytes of memory that this process uses, if the system reports them.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()? * 1024)
}

/// Runs `training_memory`, which measures, in its own process, since tests run concurrently.
#[test]
fn memory_does_not_grow() {
    let program = std::env::current_exe().unwrap();
    let status = std::process::Command::new(program)
        .args(["--ignored", "--exact", "training_memory"])
        .status()
        .unwrap();
    assert!(status.success());
}

/// 10,000 steps of one shape, then batches of 100 shapes twice: the second round keeps nothing more
/// than the first.
#[test]
#[ignore = "run by `memory_does_not_grow`"]
fn training_memory() {
    /// Memory that allocators and the system's bookkeeping may take.
    const SLACK: usize = 8 << 20;
    if resident().is_none() {
        return;
    }
    let mut network = trainer("Network");
    let value = |n: usize| ((n * 7919 + 13) % 101) as f32 / 50.0 - 1.0;
    let column = |samples: usize, width: usize| {
        let values: Vec<f32> = (0..samples * width).map(value).collect();
        Tensor::from_f32([samples, width], &values).unwrap()
    };
    let some = Arrays::new(column(800, 3), column(800, 2)).unwrap();
    network.fit(&some, Fit::epochs(10)).unwrap();
    let before = resident().unwrap();
    network.fit(&some, Fit::epochs(110)).unwrap();
    let grown = resident().unwrap().saturating_sub(before);
    assert!(grown < SLACK, "{grown} bytes more after 10,000 steps");
    let mut line = trainer("Line");
    let mut shapes = |epochs: usize| {
        for samples in 1..=100 {
            let data = Arrays::new(column(samples, 1), column(samples, 1)).unwrap();
            line.fit(&data, Fit::epochs(epochs + samples).batch_size(samples)).unwrap();
        }
        resident().unwrap()
    };
    let (first, second) = (shapes(0), shapes(100));
    assert!(second < first + SLACK, "{} bytes more after 100 shapes again", second - first);
}

/// The compiled step of a loop does not depend on its length: the launches, kernels and buffers are
/// the same.
#[test]
fn the_plan_of_a_recurrent_layer_does_not_depend_on_its_length() {
    use tile_compiler::lower::{Bindings, Targets, train};
    use tile_compiler::profile::Profile;
    let source = "model Lstm(X[N, T, 8]) -> (Y) { Y = X |> LSTM(16) |> Dense(1); }
        train Lstm { loss = MeanSquaredError(); optimizer = Adam(); }";
    let model = Model::compile(source).unwrap();
    let sizes = |length: usize| {
        let mut bindings = Bindings { training: true, ..Bindings::default() };
        bindings.sizes = [("N".to_owned(), 4), ("T".to_owned(), length)].into();
        let mut targets = Targets::default();
        targets.types.insert("Y".to_owned(), TensorType::new(DType::F32, [4, 1]));
        let mut graph = train(model.program(), None, &bindings, &targets).unwrap().graph;
        tile_compiler::pipeline::optimise(&mut graph);
        [Profile::generic(), Device::cpu().profile()].map(|profile| {
            let plan = tile_compiler::pipeline::plan(&graph, &profile).unwrap();
            let loops: Vec<usize> = plan.loops.iter().map(|around| around.steps.len()).collect();
            (plan.routines.len(), plan.steps.len(), plan.buffers.len(), loops)
        })
    };
    let short = sizes(200);
    assert_eq!(short, sizes(2000));
    assert!(short.iter().all(|(.., loops)| loops.len() == 2), "{short:?}");
}
