//! Models trained in turn: small generative adversarial networks, against PyTorch. The values are
//! from golden/trained/in_turn.py.

use tile_runtime::train::{Callback, ColumnRole, Progress};

use super::*;

/// Returns a network that generates points of 3 numbers from 2 of noise. `end` is the generator's
/// last part, `noise` its input, and `settings` those of the discriminator's block.
fn adversaries(end: &str, noise: &str, settings: &str) -> String {
    format!(
        "layer Generator()(Noise[N, 2]) -> (Point) {{
             Point = Noise
                 |> Dense(4, activation = tanh, kernel_initializer = numbers, name = hidden)
                 |> Dense(3, use_bias = false, kernel_initializer = numbers, name = drawn) {end};
         }}
         layer Discriminator()(Point[N, 3]) -> (Logit) {{
             Logit = Point
                 |> Dense(4, activation = tanh, kernel_initializer = numbers, name = judge)
                 |> Dense(1, kernel_initializer = numbers, name = verdict);
         }}
         function of_data(Logit) -> (L) {{ L = softplus(-Logit); }}
         function of_generator(Logit) -> (L) {{ L = softplus(Logit); }}
         model Discriminate(Point[N, 3], Noise[N, 2]) -> (Real, Fake) {{
             generator = Generator();
             discriminator = Discriminator();
             Real = discriminator(Point);
             Fake = discriminator(generator({noise}));
         }}
         model Generate(Noise[N, 2]) -> (Fake) {{
             generator = Generator();
             discriminator = Discriminator();
             Fake = discriminator(generator({noise}));
         }}
         train Discriminate {{
             loss = [of_data, of_generator];
             trained = \"discriminator\";
             batch_size = 4;
             {settings}
         }}
         train Generate {{
             loss = of_data;
             trained = \"generator\";
             optimizer = Adam(0.01, beta_1 = 0.5, epsilon = 1e-12);
             shuffle = false;
         }}"
    )
}

const ADAM: &str = "optimizer = Adam(0.02, beta_1 = 0.5, epsilon = 1e-12);";
const TWO_STEPS: &str = "optimizer = SGD(0.1, momentum = 0.5); steps = 2;";
/// Noise that differs from step to step.
const RANDOM: &str = "Noise + random_normal()([N, 2])";

/// Returns points, and noise in a column of its own.
fn points() -> Arrays {
    Arrays::default()
        .with(ColumnRole::Input, Some("Noise"), numbers(&[12, 2]))
        .and_then(|data| data.with(ColumnRole::Input, Some("Point"), numbers(&[12, 3])))
        .unwrap()
}

/// Returns all weights by path.
fn all(trainer: &mut Trainer) -> Vec<(String, Tensor)> {
    trainer.weights().unwrap()
}

fn golden(case: &str, name: &str) -> Vec<f64> {
    let prefix = format!("{case} {name} ");
    let all = text("trained/in_turn.txt");
    let line = all.lines().find_map(|line| line.strip_prefix(&prefix));
    let line = line.unwrap_or_else(|| panic!("no {prefix}"));
    line.split(' ').map(|value| value.parse().unwrap()).collect()
}

/// Each model's step sees the weights that the one before has left.
#[test]
fn adversaries_learn_as_in_pytorch() {
    let parts = [
        ("generator.hidden.Kernel", "hidden"),
        ("generator.hidden.Bias", "hidden_bias"),
        ("generator.drawn.Kernel", "drawn"),
        ("discriminator.judge.Kernel", "judge"),
        ("discriminator.judge.Bias", "judge_bias"),
        ("discriminator.verdict.Kernel", "verdict"),
    ];
    let normalization = [
        ("generator.norm.Gamma", "gamma"),
        ("generator.norm.Beta", "beta"),
        ("generator.norm.MovingMean", "mean"),
    ];
    let normalized = adversaries("|> BatchNormalization(name = norm)", "Noise", TWO_STEPS);
    let cases = [
        ("dense", adversaries("", "Noise", ADAM), &[][..]),
        ("normalized", normalized, &normalization),
    ];
    for device in devices() {
        for (case, source, more) in &cases {
            let mut trainer = fitted(source, &device, &points(), 1);
            for (path, name) in parts.iter().chain(*more) {
                let what = format!("{case} {path} on {}", device.name());
                check(&what, &weight(&mut trainer, path), &golden(case, name), 1e-5);
            }
            let loss = |model: &str| trainer.history()[0].get(&format!("{model}.loss")).unwrap();
            let losses = [loss("Discriminate"), loss("Generate")];
            check(case, &losses, &golden(case, "losses"), 1e-5);
        }
    }
}

/// Stops after this number of batches.
struct StopAfter(usize);

impl Callback for StopAfter {
    fn step(&mut self, state: &mut Progress) -> Result<(), Error> {
        self.0 -= 1;
        state.stop = self.0 == 0;
        Ok(())
    }
}

#[test]
fn a_resumed_run_of_several_models_is_the_run_that_never_stopped() {
    let ends = "|> BatchNormalization() |> Dropout(0.5)";
    let source = adversaries(ends, RANDOM, &format!("{TWO_STEPS} metrics = [[mean_of], []];"));
    let source = format!("function mean_of(Logit) -> (M) {{ M = Logit; }}\n{source}");
    let path = file("in_turn");
    for device in devices() {
        let mut whole = fitted(&source, &device, &points(), 4);
        // Three steps make an epoch: once the run stops at the end of one, and once within one.
        for stop in [6, 8] {
            let mut first = trainer(&source, &device);
            first.fit(&points(), Fit::epochs(4).callback(StopAfter(stop))).unwrap();
            first.save(&path).unwrap();
            let mut second = trainer(&source, &device);
            second.resume(&path).unwrap();
            second.fit(&points(), Fit::epochs(4)).unwrap();
            assert_eq!(all(&mut whole), all(&mut second), "{} after {stop}", device.name());
            let results = |trainer: &Trainer| trainer.history()[3].training.clone();
            assert_eq!(results(&whole), results(&second), "{} after {stop}", device.name());
        }
    }
    let mut last = trainer(&source, &Device::cpu());
    last.load(&path).unwrap();
    last.evaluate(&points(), 4).unwrap();
    let names: Vec<_> =
        trainer(&source, &Device::cpu()).in_turn().into_iter().map(str::to_owned).collect();
    assert_eq!(names, ["Discriminate", "Generate"]);
    // One of the models runs with the weights of both, and is trained alone.
    let model = Model::compile(&format!("{COMMON}{source}")).unwrap();
    let cpu = Device::cpu();
    let mut session = model.on(&cpu).entry("Generate").input("Noise", [1, 2]).build().unwrap();
    session.load(&path).unwrap();
    let mut alone = model.trainer(&cpu).entry("Generate").build().unwrap();
    alone.load(&path).unwrap();
    let noise = Arrays::default().with(ColumnRole::Input, None, numbers(&[12, 2])).unwrap();
    let history = alone.fit(&noise, Fit::epochs(1).batch_size(4)).unwrap();
    assert!(history[0].get("loss").is_some_and(f64::is_finite), "{history:?}");
    let [kept, changed] = ["discriminator.judge.Kernel", "generator.hidden.Kernel"];
    assert_eq!(weight(&mut alone, kept), weight(&mut last, kept));
    assert_ne!(weight(&mut alone, changed), weight(&mut last, changed));
    std::fs::remove_file(&path).unwrap();
}

/// A model without inputs takes its number of samples from the data. Each step has its own noise.
#[test]
fn a_model_without_inputs_is_trained() {
    let source = "
        function square(X) -> (Y) { Y = X * X; }
        model Sum(Point[N, 3]) -> (L) { param A[] = zeros; L = square(A - sum(Point)); }
        model Count(batch_size = 7)() -> (L) {
            state Samples[] = zeros;
            state Last[] = zeros;
            state Repeated[] = zeros;
            param B[] = ones;
            X = random_uniform()([batch_size, 2]);
            update Samples = Samples + batch_size;
            Noise = sum(X);
            update Last = Noise;
            update Repeated = Repeated + (Noise == Last ? 1.0 : 0.0);
            L = square(B - mean(X));
        }
        function itself(L) -> (M) { M = L; }
        train Count { loss = itself; optimizer = SGD(0.01); batch_size = 5; steps = 2; }
        train Sum { loss = itself; optimizer = SGD(0.01); }";
    for device in devices() {
        let mut trainer = trainer(source, &device);
        let data = Arrays::default().with(ColumnRole::Input, None, numbers(&[12, 3])).unwrap();
        let history = trainer.fit(&data, Fit::epochs(2)).unwrap();
        assert_eq!(weight(&mut trainer, "Samples"), [48.0], "{}", device.name());
        assert_eq!(weight(&mut trainer, "Repeated"), [0.0], "{}", device.name());
        assert!(history[1].get("Count.loss") < history[0].get("Count.loss"), "{history:?}");
        let results = trainer.evaluate(&data, 4).unwrap();
        let names: Vec<&str> = results.iter().map(|(name, _)| name.as_str()).collect();
        // The order is that of the blocks.
        assert_eq!(names, ["Count.loss", "Sum.loss"]);
    }
}

/// A step that fails changes no weight of any model, nor do the steps after it.
#[test]
fn a_failed_step_stops_all_models() {
    let source = adversaries("", RANDOM, TWO_STEPS);
    let mut values = numbers(&[12, 3]).to_f64s();
    values[3 * 9] = f64::NAN;
    let values: Vec<f32> = values.into_iter().map(|value| value as f32).collect();
    let spoilt = Arrays::default()
        .with(ColumnRole::Input, None, Tensor::from_f32([12, 3], &values).unwrap())
        .and_then(|data| data.with(ColumnRole::Input, None, numbers(&[12, 2])))
        .unwrap();
    for device in devices() {
        let mut failed = trainer(&source, &device);
        let error = failed.fit(&spoilt, Fit::epochs(1)).unwrap_err();
        let Error::Program { diagnostics, .. } = &error else { panic!("{error}") };
        let expected = "the loss of `Discriminate` is NaN in step 3 of training";
        assert_eq!(diagnostics[0].message, expected, "{}", device.name());
        let mut stopped = trainer(&source, &device);
        stopped.fit(&points(), Fit::epochs(1).callback(StopAfter(2))).unwrap();
        for trainer in [&mut failed, &mut stopped] {
            trainer.fit(&points(), Fit::epochs(2)).unwrap();
        }
        assert_eq!(all(&mut failed), all(&mut stopped), "{}", device.name());
    }
}

/// Each loss has its own weights, under its model's name.
#[test]
fn weights_of_losses_are_kept_apart() {
    let block = |model: &str, sizes: &str| {
        format!(
            "loss Of{model}()(Predicted) -> (L) {{ param Shift[{sizes}] = ones; D = Predicted - Shift; L = D * D; }}
             model {model}(X[N, 2]) -> (Y) {{ dense = Dense(2); Y = dense(X); }}
             train {model} {{ loss = Of{model}(); optimizer = SGD(0.1); }}"
        )
    };
    let source = format!("{}\n{}", block("First", ""), block("Second", "2"));
    let data = Arrays::default().with(ColumnRole::Input, None, numbers(&[8, 2])).unwrap();
    let path = file("in_turn_losses");
    let mut trainer = fitted(&source, &Device::cpu(), &data, 1);
    let paths: Vec<String> = all(&mut trainer).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["dense.Kernel", "dense.Bias", "loss.First.Shift", "loss.Second.Shift"]);
    // One model is evaluated with the file of both.
    trainer.save(&path).unwrap();
    let model = Model::compile(&format!("{COMMON}{source}")).unwrap();
    let mut alone = model.trainer(&Device::cpu()).entry("Second").build().unwrap();
    alone.load(&path).unwrap();
    let both = trainer.evaluate(&data, 8).unwrap();
    assert_eq!(alone.evaluate(&data, 8).unwrap()[0].1, both[1].1);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn models_that_do_not_fit_together_are_refused() {
    let models = |body: &str, first: &str, second: &str| {
        format!(
            "model First(X[N, 4]) -> (Y) {{ part = Dense(3); Y = part(X); }}
             model Second(X[N, 4]) -> (Y) {{ {body} }}
             train First {{ loss = mse; optimizer = SGD(0.1); {first} }}
             train Second {{ loss = mse; optimizer = SGD(0.1); {second} }}"
        )
    };
    let error = |source: String| {
        let model = Model::compile(&source).unwrap();
        let trained = model
            .trainer(&Device::cpu())
            .build()
            .and_then(|mut trainer| trainer.fit(&data(&[8, 4], &[8, 3]), Fit::epochs(1)));
        let Err(Error::Program { diagnostics, .. }) = trained else { panic!("{trained:?}") };
        let labels = diagnostics[0].labels.iter();
        let places = labels
            .map(|label| source[label.span.start as usize..label.span.end as usize].to_owned());
        let places: Vec<String> = places.collect();
        (diagnostics[0].code, diagnostics[0].message.clone(), places.join(" and "))
    };
    let (code, message, places) =
        error(models("part = Dense(5); Y = part(X) |> Dense(3);", "", ""));
    assert_eq!((code, &*places), ("E0230", "part and part"), "{message}");
    let expected =
        "`part.Kernel` is a param f32[4, 3] in `First`, and a param f32[4, 5] in `Second`";
    assert!(message.starts_with(expected), "{message}");
    let part = "part = Dense(3); Y = part(X);";
    let (code, message, places) = error(models(part, "epochs = 2;", "epochs = 3;"));
    assert_eq!((code, &*places), ("E0240", "3 and 2"), "{message}");
    let (code, message, _) = error(models(part, "", "trained = \"prat\";"));
    assert_eq!(code, "E0240");
    assert_eq!(message, "cannot train `prat`: there is no such layer or weight");
}
