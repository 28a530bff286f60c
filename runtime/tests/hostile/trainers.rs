//! Training with nonsensical values, and with apps that panic.

use super::*;

fn line(samples: usize) -> Arrays {
    let x: Vec<f32> = (0..samples).map(|n| n as f32 / 5.0 - 1.0).collect();
    let x = Tensor::from_f32([samples, 1], &x).unwrap();
    Arrays::new(x.clone(), x).unwrap()
}

fn trainer() -> Trainer {
    Model::compile(PROGRAM).unwrap().trainer(&Device::cpu()).entry("Line").build().unwrap()
}

#[test]
fn datasets() {
    for tensor in small() {
        calm(&format!("{tensor:?}"), || {
            let arrays = Arrays::new(tensor.clone(), tensor.clone());
            let Ok(arrays) = arrays else { return };
            for samples in [&[][..], &[0], &[0, 0, 0], &[usize::MAX], &[1 << 45]] {
                let _ = arrays.batch(samples);
                let _ = Part::new(&arrays, vec![usize::MAX, 0]).batch(samples);
            }
            let _ = arrays.clone().with(ColumnRole::Weight, Some(""), tensor.clone());
            let _ = as_model_takes(
                Model::compile(PROGRAM).as_ref().unwrap(),
                Some("Line"),
                &Default::default(),
                &mut [("X".to_owned(), tensor.clone())].into_iter().collect(),
            );
            let _ = trainer().fit(&arrays, Fit::epochs(1));
            let _ = trainer().evaluate(&arrays, 1);
            let _ = trainer().predict(&arrays, usize::MAX);
        });
    }
}

#[test]
fn trainers() {
    let model = Model::compile(PROGRAM).unwrap();
    for name in NAMES {
        let build = || model.trainer(&Device::cpu()).entry("Line");
        calm(name, || _ = model.trainer(&Device::cpu()).entry(name).build());
        calm(name, || {
            let mut trainer = build()
                .set(name, Setting::Float(f64::NAN))
                .freeze(name)
                .dim(name, usize::MAX)
                .build()?;
            trainer.fit(&line(4), Fit::epochs(1))
        });
    }
    for fraction in NUMBERS {
        let _ = calm("fraction", || Validation::kept_back(fraction, 10));
        let fit = || Fit::epochs(1).validation(Validation::Fraction(fraction));
        calm("fraction", || _ = trainer().fit(&line(4), fit()));
    }
    for size in SIZES {
        calm("batch", || _ = trainer().fit(&line(4), Fit::epochs(1).batch_size(size)));
        calm("batch", || _ = trainer().evaluate(&line(4), size));
        calm("batch", || _ = trainer().predict(&line(4), size));
        calm("batch", || _ = trainer().into_session(&line(4), size));
    }
    calm("weights", || {
        _ = trainer().fit(&line(4), Fit::epochs(1).class_weight(i64::MIN, f32::NAN))
    });
    calm("no samples", || _ = trainer().fit(&Arrays::default(), Fit::epochs(usize::MAX)));
    calm("before", || {
        let mut trainer = trainer();
        trainer.seed(u64::MAX);
        let _ = (
            trainer.weights(),
            trainer.history().len(),
            trainer.settings(),
            trainer.load_report().clone(),
        );
    });
    for path in paths() {
        calm(&format!("{path:?}"), || _ = trainer().load(&path));
        calm(&format!("{path:?}"), || {
            _ = trainer().load_with(&LoadOptions::file(&path).allow_extra(true).partial(true))
        });
        calm(&format!("{path:?}"), || _ = trainer().resume(&path));
        calm(&format!("{path:?}"), || _ = Log::new(path.join("none/log.jsonl"), true));
        let save = Checkpoint::best(path.join("none/x.npz"), Monitor::of(""));
        calm(&format!("{path:?}"), || _ = trainer().fit(&line(4), Fit::epochs(1).callback(save)));
    }
    for number in NUMBERS {
        let monitor = || Monitor { least_change: number, ..Monitor::of("loss") };
        let fit = Fit::epochs(3).callback(EarlyStopping::new(monitor(), 0));
        let fit = fit.callback(ReduceOnPlateau::new(monitor(), number, 0));
        calm("callbacks", || _ = trainer().fit(&line(4), fit));
    }
}

/// A callback that panics after some steps.
struct Panics(usize);

impl Callback for Panics {
    fn step(&mut self, state: &mut Progress) -> Result<(), Error> {
        assert!(state.step < self.0, "a panic of the app");
        Ok(())
    }
}

/// Data that panic once, at the batch with this sample.
struct Fragile(Arrays, std::sync::atomic::AtomicBool);

impl Dataset for Fragile {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn columns(&self) -> Vec<tile_runtime::train::Column> {
        self.0.columns()
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        let has_broken =
            samples.contains(&7) && !self.1.swap(true, std::sync::atomic::Ordering::Relaxed);
        assert!(!has_broken, "a panic of the app");
        self.0.batch(samples)
    }
}

fn weights_of(trainer: &mut Trainer) -> Vec<(String, Tensor)> {
    trainer.weights().unwrap()
}

/// Steps of training are limited by the model's limits, and by the trainer's own.
#[test]
fn limits_of_trainers() {
    let error = |trainer: TrainerBuilder, samples| {
        let mut trainer = trainer.entry("Line").build().unwrap();
        trainer.fit(&line(samples), Fit::epochs(1).batch_size(samples)).unwrap_err().to_string()
    };
    let none = Limits { seconds: 0.0, ..Limits::default() };
    let few = Limits { bytes: 1_000_000, ..Limits::default() };
    let model = Model::compile(PROGRAM).unwrap();
    let trainer = || model.trainer(&Device::cpu());
    let idle = error(trainer().limits(none), 4);
    assert!(idle.contains("more work than the limit of 0 seconds"), "{idle}");
    let large = error(trainer().limits(few), 500_000);
    assert!(large.contains("the limit is 1000000 bytes"), "{large}");
    // The limits outlive a load of weights.
    let file = folder("limits").join("line.safetensors");
    let mut whole = trainer().entry("Line").build().unwrap();
    whole.fit(&line(4), Fit::epochs(1)).unwrap();
    whole.save(&file).unwrap();
    let mut loaded = trainer().limits(few).entry("Line").build().unwrap();
    loaded.load(&file).unwrap();
    let error_after =
        loaded.fit(&line(500_000), Fit::epochs(1).batch_size(500_000)).unwrap_err().to_string();
    assert!(error_after.contains("the limit is 1000000 bytes"), "{error_after}");
    let scarce = Limits { seconds: 0.001, ..Limits::default() };
    let imports = Imports::of(Path::new("p.tile"));
    let model =
        Model::compile_within("p.tile", PROGRAM, &|path| imports.load(path), scarce).unwrap();
    let inherited = error(model.trainer(&Device::cpu()), 4);
    assert!(inherited.contains("more work than the limit of 0.001 seconds"), "{inherited}");
}

/// A panic in a callback or in the data leaves the trainer unchanged. Training then continues bit
/// for bit, and a saved file is whole.
#[test]
fn a_panic_of_the_app() {
    let fit = || Fit::epochs(3).batch_size(2).shuffle(true);
    let mut whole = trainer();
    let expected: Vec<Epoch> = whole.fit(&line(10), fit()).unwrap();
    let losses = |epochs: &[Epoch]| {
        epochs.iter().map(|epoch| epoch.get("loss").unwrap().to_bits()).collect::<Vec<_>>()
    };
    let path = folder("panics").join("w.safetensors");

    let mut broken = trainer();
    let saving = fit().callback(Checkpoint::last(&path)).callback(Panics(3));
    let panicked = catch_unwind(AssertUnwindSafe(|| broken.fit(&line(10), saving)));
    assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"a panic of the app"));
    broken.save(&path).unwrap();
    broken.fit(&line(10), fit()).unwrap();
    assert_eq!(losses(broken.history()), losses(&expected));
    assert_eq!(weights_of(&mut broken), weights_of(&mut whole));

    let mut resumed = trainer();
    resumed.resume(&path).unwrap();
    resumed.fit(&line(10), fit()).unwrap();
    assert_eq!(weights_of(&mut resumed), weights_of(&mut whole));

    let mut fragile = trainer();
    let data = Fragile(line(10), Default::default());
    let panicked = catch_unwind(AssertUnwindSafe(|| fragile.fit(&data, fit())));
    assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"a panic of the app"));
    fragile.fit(&data, fit()).unwrap();
    assert_eq!(weights_of(&mut fragile), weights_of(&mut whole));
}

/// A session of a graph cannot be trained.
#[test]
fn sessions_of_graphs() {
    let graph = tile_compiler::graph::Graph::default();
    for name in ["cpu", "reference", "check"] {
        let device = Device::named(name).unwrap();
        calm(name, || {
            let Ok(mut session) = Session::of_graph(graph.clone(), &device) else { return };
            let _ = (session.execute(), session.read(), session.initialise(0), session.seed(1, 1));
            let _ = session.fit(&line(4), Fit::epochs(1));
        });
    }
}
