//! Tests of devices that an app destroys at random moments. Each later use returns the same error,
//! which names the device. A newly opened device continues bit for bit. `TILE_LOST_ROUNDS` is the
//! number of devices destroyed in each test.
#![cfg(all(feature = "train", feature = "wgpu"))]

mod adapter;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tile_runtime::train::{Arrays, Callback, Checkpoint, Fit, Progress, Trainer};
use tile_runtime::{Device, Error, Model, Session, Tensor};

const PROGRAM: &str = "
model Network(X[N, 24]) -> (Y) { Y = X |> Dense(64, activation = tanh) |> Dense(8); }

train Network { loss = mse; optimizer = Adam(0.01); batch_size = 8; seed = 3; }
";

fn rounds() -> u32 {
    std::env::var("TILE_LOST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(8)
}

/// Opens an app's own device on the first adapter. Returns `None` if there is no adapter.
fn open() -> Option<(wgpu::Device, Device)> {
    let (device, _, tile) = adapter::open(|_| ())?;
    Some((device, tile))
}

/// A generator of pseudo-random numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound.max(1)
    }
}

fn values(shape: [usize; 2]) -> Tensor {
    let value = |i: usize| ((i * 7919 + 13) % 101) as f32 / 50.0 - 1.0;
    Tensor::from_f32(shape, &(0..shape[0] * shape[1]).map(value).collect::<Vec<_>>()).unwrap()
}

fn session(device: &Device) -> Result<Session, Error> {
    let model = Model::compile(PROGRAM).unwrap();
    let mut session = model.on(device).input("X", [16, 24]).build()?;
    session.initialise(1)?;
    session.set("X", &values([16, 24]))?;
    Ok(session)
}

fn run(session: &mut Session) -> Result<Tensor, Error> {
    session.run([("X", values([16, 24]))]).map(|outputs| outputs.into_iter().next().unwrap().1)
}

/// Returns the text of an error, which must be that of a lost device.
#[track_caller]
fn lost<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(error @ Error::DeviceLost { .. }) => {
            let text = error.to_string();
            assert!(text.starts_with("wgpu was lost: "), "{text}");
            text
        }
        other => panic!("a lost device gave {other:?}"),
    }
}

#[test]
fn a_run_on_a_device_that_is_destroyed_says_so() {
    let Some((_, device)) = open() else { return println!("note: there is no adapter") };
    let mut first = session(&device).unwrap();
    let expected = run(&mut first).unwrap();
    let started = Instant::now();
    run(&mut first).unwrap();
    let duration = started.elapsed().as_micros() as u64;
    let mut numbers = Numbers(5);
    for round in 0..rounds() {
        let (raw, device) = open().unwrap();
        if round % 8 == 0 {
            raw.destroy();
            assert_eq!(lost(session(&device).map(drop)), lost(session(&device).map(drop)));
            continue;
        }
        let mut session = session(&device).unwrap();
        let wait =
            Duration::from_micros(if round % 8 == 1 { 0 } else { numbers.below(4 * duration) });
        let destroyer = thread::spawn(move || {
            thread::sleep(wait);
            raw.destroy();
        });
        let error = loop {
            match run(&mut session) {
                Ok(outputs) => assert_eq!(outputs, expected),
                error => break lost(error),
            }
        };
        destroyer.join().unwrap();
        assert_eq!(lost(run(&mut session)), error);
        assert_eq!(lost(session.execute()), error);
        assert_eq!(lost(session.read()), error);
        assert_eq!(lost(session.set("X", &values([16, 24]))), error);
        assert_eq!(lost(self::session(&device).map(drop)), error);
    }
    assert_eq!(run(&mut first).unwrap(), expected);
}

fn trainer(device: &Device) -> Trainer {
    Model::compile(PROGRAM).unwrap().trainer(device).build().unwrap()
}

fn data() -> Arrays {
    Arrays::new(values([64, 24]), values([64, 8])).unwrap()
}

/// Destroys a device before a step.
struct DestroyAt(u64, Option<wgpu::Device>);

impl Callback for DestroyAt {
    fn step(&mut self, _: &mut Progress) -> Result<(), Error> {
        if self.0 == 0
            && let Some(device) = self.1.take()
        {
            device.destroy();
        }
        self.0 = self.0.saturating_sub(1);
        Ok(())
    }
}

/// An empty folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let folder = std::env::temp_dir().join(format!("tilec-lost-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn training_goes_on_where_a_destroyed_device_has_saved_it() {
    const EPOCHS: usize = 6;
    let Some((_, device)) = open() else { return println!("note: there is no adapter") };
    let folder = Folder::new();
    let (whole, part) = (folder.0.join("whole.safetensors"), folder.0.join("part.safetensors"));
    let fit = |path: &PathBuf| Fit::epochs(EPOCHS).callback(Checkpoint::last(path));
    let started = Instant::now();
    trainer(&device).fit(&data(), fit(&whole)).unwrap();
    let duration = started.elapsed().as_micros() as u64;
    let expected = std::fs::read(&whole).unwrap();
    let mut numbers = Numbers(7);
    for round in 0..rounds() {
        let _ = std::fs::remove_file(&part);
        let (raw, device) = open().unwrap();
        let mut trainer = trainer(&device);
        // Destroyed at a step in even rounds, and at any time in odd rounds.
        let (steps, wait) =
            (numbers.below(8 * EPOCHS as u64), Duration::from_micros(numbers.below(duration)));
        let result = match round % 2 {
            0 => trainer.fit(&data(), fit(&part).callback(DestroyAt(steps, Some(raw)))),
            _ => thread::scope(|scope| {
                scope.spawn(move || {
                    thread::sleep(wait);
                    raw.destroy();
                });
                trainer.fit(&data(), fit(&part))
            }),
        };
        // Training may have finished before.
        if result.is_err() || !part.exists() {
            let error = lost(result);
            // One epoch more, because all may be done if the last checkpoint failed.
            let more = Fit::epochs(EPOCHS + 1).callback(Checkpoint::last(&part));
            assert_eq!(lost(trainer.fit(&data(), more)), error);
            // Nothing is on the device before the first step.
            let none = folder.0.join("none.npz");
            match trainer.save(&none) {
                Ok(()) => std::fs::remove_file(none).unwrap(),
                save => assert_eq!(lost(save), error),
            }
            assert_eq!(lost(trainer.evaluate(&data(), 8)), error);
        }
        let (_, again) = open().unwrap();
        let mut trainer = self::trainer(&again);
        if part.exists() {
            trainer.resume(&part).unwrap();
        }
        trainer.fit(&data(), fit(&part)).unwrap();
        trainer.save(&part).unwrap();
        assert!(std::fs::read(&part).unwrap() == expected, "round {round}");
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2);
    }
}
