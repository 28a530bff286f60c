//! Runs that a single-threaded executor awaits: its timers go on, and a run can be dropped midway.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tile_runtime::{Device, Error, Model, Session, Tensor};

const TICK: Duration = Duration::from_millis(1);
/// The time for which runs are awaited.
const LONG: Duration = Duration::from_millis(500);
/// The share of ticks that a timer must keep.
const KEPT: f64 = 0.8;
/// Other programs may take the processors for a while.
const ATTEMPTS: usize = 5;

fn devices() -> Vec<Device> {
    ["cpu", "wgpu:0"].iter().filter_map(|name| Device::named(name).ok()).collect()
}

fn values(shape: [usize; 2]) -> Tensor {
    let value = |i: usize| ((i * 7919 + 13) % 101) as f32 / 50.0 - 1.0;
    Tensor::from_f32(shape, &(0..shape[0] * shape[1]).map(value).collect::<Vec<_>>()).unwrap()
}

/// Returns a session whose runs take long, and its input.
fn long(device: &Device) -> (Session, Tensor) {
    let size = if device.name() == "cpu" { 1536 } else { 512 };
    let program =
        "function f(X[N, N]) -> (Z) { Y[i, j: N, N] = +(X[i, k] * X[k, j]); Z = Y * 0.01; }";
    let model = Model::compile(program).unwrap();
    let mut session = model.on(device).input("X", [size, size]).build().unwrap();
    let x = values([size, size]);
    session.run([("X", &x)]).unwrap();
    (session, x)
}

async fn run_long(session: &mut Session, x: &Tensor) -> Result<(), Error> {
    let started = Instant::now();
    while started.elapsed() < LONG {
        session.run_async([("X", x)]).await?;
    }
    Ok(())
}

/// Checks the share of ticks that a timer keeps. `ticks` returns the ticks during a future, and the
/// time that it took.
fn check(name: &str, ticks: impl Fn(&mut Session, &Tensor) -> (u32, Duration)) {
    for device in devices() {
        let (mut session, x) = long(&device);
        let mut best: f64 = 0.0;
        for _ in 0..ATTEMPTS {
            let (ticks, time) = ticks(&mut session, &x);
            best = best.max(f64::from(ticks) / (time.as_secs_f64() / TICK.as_secs_f64()));
            if best >= KEPT {
                break;
            }
        }
        println!(
            "{name}, {}: a timer of 1 ms keeps {:.0}% of its ticks",
            device.name(),
            best * 100.0
        );
        assert!(best >= KEPT, "{name}, {}: {best}", device.name());
    }
}

#[test]
fn timers_go_on_under_tokio() {
    check("tokio", |session, x| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut timer = tokio::time::interval(TICK);
            timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            let (started, mut ticks) = (Instant::now(), 0);
            let mut run = pin!(run_long(session, x));
            loop {
                tokio::select! {
                    biased;
                    result = &mut run => break result.unwrap(),
                    _ = timer.tick() => ticks += 1,
                }
            }
            (ticks, started.elapsed())
        })
    });
}

#[test]
fn timers_go_on_under_smol() {
    check("smol", |session, x| {
        smol::block_on(async {
            let (started, mut ticks) = (Instant::now(), 0);
            let count = async {
                let mut timer = smol::Timer::interval(TICK);
                loop {
                    smol::stream::StreamExt::next(&mut timer).await;
                    ticks += 1;
                }
            };
            smol::future::or(async { run_long(session, x).await.unwrap() }, count).await;
            (ticks, started.elapsed())
        })
    });
}

/// Wakes a thread.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn timers_go_on_under_an_executor_by_hand() {
    check("by hand", |session, x| {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut run = pin!(run_long(session, x));
        let (started, mut next, mut ticks) = (Instant::now(), TICK, 0);
        loop {
            if let Poll::Ready(result) = run.as_mut().poll(&mut context) {
                result.unwrap();
                return (ticks, started.elapsed());
            }
            // A loop as that of a window: it polls after an event or a tick.
            while started.elapsed() < next {
                std::thread::park_timeout(next.saturating_sub(started.elapsed()));
            }
            ticks += 1;
            next = next.max(started.elapsed().saturating_sub(TICK)) + TICK;
        }
    });
}

#[test]
fn a_session_is_right_after_runs_that_were_dropped() {
    let program =
        "model m(X[N, 24]) -> (Y) { Y = X |> Dense(48, activation = relu) |> Dense(24); }";
    for device in devices() {
        let model = Model::compile(program).unwrap();
        let mut session = model.on(&device).input("X", [16, 24]).build().unwrap();
        session.initialise(3).unwrap();
        let (x, other) = (values([16, 24]), Tensor::from_f32([16, 24], &[0.5; 384]).unwrap());
        let expected = session.run([("X", &x)]).unwrap();
        let different = session.run([("X", &other)]).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut finished = 0;
        for round in 0..1000 {
            {
                let mut run = pin!(session.run_async([("X", &other)]));
                for _ in 0..round % 4 {
                    if let Poll::Ready(outputs) = run.as_mut().poll(&mut context) {
                        assert_eq!(outputs.unwrap(), different);
                        finished += 1;
                        break;
                    }
                    std::thread::yield_now();
                }
            }
            match round % 50 {
                0 => assert_eq!(session.run([("X", &x)]).unwrap(), expected),
                25 => {
                    let run = session.run_async([("X", &x)]);
                    assert_eq!(pollster::block_on(run).unwrap(), expected);
                }
                _ => {}
            }
        }
        assert_eq!(session.run([("X", &x)]).unwrap(), expected);
        println!("{}: {} of 1000 runs were dropped midway", device.name(), 1000 - finished);
        assert!(finished < 900);
    }
}
