//! Ten sessions of different models in one process on one device: runs do not grow memory, and
//! sessions free theirs.

mod counting;

use counting::counts;
use tile_runtime::{Device, Model, Session, Tensor};

/// Returns the bytes that are allocated now.
fn allocated_now() -> isize {
    let (allocated, freed) = counts();
    allocated as isize - freed as isize
}

const SHAPE: [usize; 2] = [48, 64];
const ELEMENTS: usize = SHAPE[0] * SHAPE[1];

/// Returns ten models of f32[48, 64].
fn models() -> Vec<Model> {
    let bodies = [
        "Y = X + 1;",
        "Y = X |> Dense(64, activation = relu) |> Dense(16);",
        "Y = softmax(X);",
        "Y[i, j: N, N] = +(X[i, k] * X[j, k]);",
        "Y[i: N] = >(X[i, j]);",
        "Y = X |> LayerNormalization() |> Dense(32);",
        "Y = tanh(X) * sigmoid(X);",
        "Y[j, i: 64, N] = =(X[i, j]);",
        "Y[i, j: N, 64] = +(X[i, k]), j - k < 64;",
        "Y = (X |> Dense(8) |> Dense(64)) + X;",
    ];
    let model =
        |body: &&str| match Model::compile(&format!("model m(X[N, 64]) -> (Y) {{ {body} }}")) {
            Ok(model) => model,
            Err(error) => panic!("{}", error.render(body, false)),
        };
    bodies.iter().map(model).collect()
}

/// Returns the bytes of the process in memory, where the system says it.
fn resident() -> Option<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split(' ').nth(1)?.parse::<usize>().ok()? * 4096)
}

fn sessions(device: &Device) -> Vec<Session> {
    let build = |model: Model| {
        let mut session = model.on(device).input("X", SHAPE).build().unwrap();
        session.initialise(1).unwrap();
        session
    };
    models().into_iter().map(build).collect()
}

/// Runs all sessions in turn, `rounds` times.
fn run(sessions: &mut [Session], rounds: usize, expected: &[Tensor], x: &Tensor) {
    for _ in 0..rounds {
        for (session, expected) in sessions.iter_mut().zip(expected) {
            assert!(session.run([("X", x)]).unwrap().remove("Y").unwrap() == *expected);
        }
    }
}

/// Runs ten sessions `rounds` times each.
fn soak(device: &Device, rounds: usize) {
    let x: Vec<f32> = (0..ELEMENTS).map(|i| ((i * 7919) % 101) as f32 / 101.0).collect();
    let x = Tensor::from_f32(SHAPE, &x).unwrap();
    // Memory that a process takes once comes first.
    drop(sessions(device));
    let before = allocated_now();
    let mut sessions = sessions(device);
    let first = |session: &mut Session| session.run([("X", &x)]).unwrap().remove("Y").unwrap();
    let expected: Vec<Tensor> = sessions.iter_mut().map(first).collect();
    run(&mut sessions, rounds / 10, &expected, &x);
    let (live, bytes) = (allocated_now(), resident());
    run(&mut sessions, rounds - rounds / 10, &expected, &x);
    let (live, bytes) = (allocated_now() - live, resident().zip(bytes));
    let grown = bytes.map_or(0, |(now, before)| now as isize - before as isize);
    drop(expected);
    drop(sessions);
    let left = allocated_now() - before;
    println!(
        "{}: {} runs grow {live} bytes of the heap and {grown} of the process; {left} are left",
        device.name(),
        10 * rounds
    );
    // Caches of threads and drivers, which do not grow with the number of runs.
    assert!(live < 64 << 10 && grown < 8 << 20 && left < 256 << 10);
}

#[test]
fn ten_sessions_do_not_grow() {
    // Fewer on a software adapter, where 10,000 runs take long.
    let rounds = std::env::var("TILE_SOAK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    soak(&Device::cpu(), rounds.unwrap_or(1000));
    match Device::named("wgpu:0") {
        Ok(device) => soak(&device, rounds.unwrap_or(100)),
        Err(_) => println!("note: there is no adapter"),
    }
}
