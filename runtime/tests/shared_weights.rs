//! Sessions of one model for several batch sizes: they share the memory of their weights, and each
//! is right after another has changed its own.

mod counting;

use std::sync::Mutex;

use counting::counts;
use tile_runtime::{Device, Model, Session, Tensor};

/// Held by each test, so that no other is counted.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns the bytes that are allocated now.
fn allocated_now() -> isize {
    let (allocated, freed) = counts();
    allocated as isize - freed as isize
}

fn values(rows: usize, columns: usize) -> Tensor {
    let value = |i: usize| ((i * 7919 + 13) % 101) as f32 / 50.0 - 1.0;
    Tensor::from_f32([rows, columns], &(0..rows * columns).map(value).collect::<Vec<_>>()).unwrap()
}

fn run(session: &mut Session, x: &Tensor) -> Vec<f64> {
    session.run([("X", x)]).unwrap().remove("Y").unwrap().to_f64s()
}

#[test]
fn weights_are_there_once() {
    let _alone = ALONE.lock();
    const WIDTH: usize = 2048;
    let program = "model m(X[N, 2048]) -> (Y) { Y = X |> Dense(2048) |> Dense(2048); }";
    let model = Model::compile(program).unwrap();
    let device = Device::cpu();
    for sizes in [[1, 4, 16], [1, 8, 32], [2, 8, 24]] {
        let weights = 2 * 4 * (WIDTH * WIDTH + WIDTH);
        let before = allocated_now();
        let mut first = model.on(&device).input("X", [sizes[0], WIDTH]).build().unwrap();
        first.initialise(1).unwrap();
        run(&mut first, &values(sizes[0], WIDTH));
        let alone = allocated_now() - before;
        let others: Vec<Session> = sizes[1..]
            .iter()
            .map(|&size| {
                let builder = model.on(&device).input("X", [size, WIDTH]);
                let mut session = builder.weights_of(&first).build().unwrap();
                run(&mut session, &values(size, WIDTH));
                session
            })
            .collect();
        let all = allocated_now() - before;
        let share = |bytes: isize| bytes as f64 / weights as f64;
        println!(
            "batches of {sizes:?}: one session has {:.2} times its weights, three {:.2}",
            share(alone),
            share(all)
        );
        drop((first, others));
        assert!(share(all) < LIMIT);
    }
}

/// The most memory of three sessions, of that of their weights.
const LIMIT: f64 = 1.15;

#[test]
fn a_session_changes_only_its_own_weights() {
    let _alone = ALONE.lock();
    let program = "model m(X[N, 24]) -> (Y) { Y = X |> Dense(48, activation = relu) |> BatchNormalization() |> Dense(24); }";
    let model = Model::compile(program).unwrap();
    let sizes = [1, 8, 32];
    for name in ["cpu", "wgpu:0", "reference", "check"] {
        let Ok(device) = Device::named(name) else { continue };
        let build = |size: usize| model.on(&device).input("X", [size, 24]);
        let alone = |size: usize, seed: u64| {
            let mut session = build(size).build().unwrap();
            session.initialise(seed).unwrap();
            run(&mut session, &values(size, 24))
        };
        let mut first = build(1).build().unwrap();
        first.initialise(1).unwrap();
        let mut all = vec![first];
        for &size in &sizes[1..] {
            all.push(build(size).weights_of(&all[0]).build().unwrap());
        }
        let check = |all: &mut [Session], seeds: [u64; 3]| {
            for ((session, &size), seed) in all.iter_mut().zip(&sizes).zip(seeds) {
                assert_eq!(run(session, &values(size, 24)), alone(size, seed), "{name} {size}");
            }
        };
        check(&mut all, [1, 1, 1]);
        let mut other = build(1).build().unwrap();
        for (number, seeds) in [(1, [1, 5, 1]), (0, [5, 5, 1]), (2, [5, 5, 5])] {
            other.initialise(5).unwrap();
            let paths: Vec<String> = other.weights().map(|(path, _)| path.to_owned()).collect();
            for path in paths {
                all[number].set(&path, &other.get(&path).unwrap()).unwrap();
            }
            check(&mut all, seeds);
        }
        // The first may go before the others.
        all.remove(0);
        assert_eq!(run(&mut all[0], &values(8, 24)), alone(8, 5), "{name}");
    }
}
