//! Layers that adapt to the data.

use super::*;

/// Returns a network that is normalised by statistics of the data.
fn normalised(layers: &str) -> String {
    format!(
        "model M(X) -> (Y) {{ {layers} Y = sum(range(1, rank(Z)))(Z) |> Scale(); }}
         layer Scale()(X) -> (Y) {{ param W[] = ones; Y = X * W; }}
         train M {{ loss = mse; optimizer = SGD(0.01); batch_size = 4; }}"
    )
}

#[test]
fn layers_adapt_to_the_data_as_in_keras() {
    let moved = |shape: &[usize]| {
        let values: Vec<f32> =
            numbers(shape).to_f64s().iter().map(|value| 3.0 * *value as f32 + 5.0).collect();
        Tensor::from_f32(shape.to_vec(), &values).unwrap()
    };
    let samples = Arrays::new(moved(&[11, 2, 3]), numbers(&[11])).unwrap();
    for device in devices() {
        for (case, axis) in [("last", "-1"), ("none", "none"), ("two", "[1, 2]"), ("first", "1")] {
            let source = normalised(&format!("norm = Normalization(axis = {axis}); Z = norm(X);"));
            let mut trainer = fitted(&source, &device, &samples, 2);
            for (path, name) in [("norm.Mean", "mean"), ("norm.Variance", "variance")] {
                let what = format!("{case} {path} on {}", device.name());
                check(
                    &what,
                    &weight(&mut trainer, path),
                    &golden(&format!("normalization_{case}"), name),
                    2e-6,
                );
            }
        }
        let samples = Arrays::new(moved(&[11, 3]), numbers(&[11])).unwrap();
        let chain = "Z = X |> Normalization(name = a) |> Activation(relu) |> Normalization(none, name = b);";
        let mut trainer = fitted(&normalised(chain), &device, &samples, 1);
        for (path, name) in [("b.Mean", "mean"), ("b.Variance", "variance")] {
            check(path, &weight(&mut trainer, path), &golden("normalization_chain", name), 1e-5);
        }
    }
}

/// Statistics are computed once, from the training samples, and not if weights are given or frozen.
#[test]
fn layers_adapt_once() {
    let source = normalised("norm = Normalization(); Z = norm(X);");
    let (samples, others) = (data(&[10, 3], &[10]), data(&[4, 3], &[4]));
    let mut trainer = fitted(&source, &Device::cpu(), &samples, 1);
    let mean = weight(&mut trainer, "norm.Mean");
    let of = |rows: usize| -> Vec<f64> {
        let all = numbers(&[rows, 3]).to_f64s();
        (0..3).map(|c| (0..rows).map(|n| all[3 * n + c]).sum::<f64>() / rows as f64).collect()
    };
    check("mean", &mean, &of(10), 1e-6);
    trainer.fit(&others, Fit::epochs(2)).unwrap();
    assert_eq!(weight(&mut trainer, "norm.Mean"), mean);
    let path = file("adapted");
    trainer.save(&path).unwrap();
    let mut loaded = self::trainer(&source, &Device::cpu());
    loaded.load(&path).unwrap();
    loaded.fit(&others, Fit::epochs(1)).unwrap();
    assert_eq!(weight(&mut loaded, "norm.Mean"), mean);
    let mut resumed = self::trainer(&source, &Device::cpu());
    resumed.resume(&path).unwrap();
    resumed.fit(&others, Fit::epochs(3)).unwrap();
    assert_eq!(weight(&mut resumed, "norm.Mean"), mean);
    std::fs::remove_file(&path).unwrap();
    let validated =
        Fit::epochs(1).validation(tile_runtime::train::Validation::Fraction(0.6)).shuffle(false);
    let mut part = self::trainer(&source, &Device::cpu());
    part.fit(&samples, validated).unwrap();
    check("part", &weight(&mut part, "norm.Mean"), &of(4), 1e-6);
    let frozen = source.replace("SGD(0.01);", "SGD(0.01); frozen = \"norm\";");
    assert_eq!(weight(&mut fitted(&frozen, &Device::cpu(), &samples, 1), "norm.Mean"), [0.0; 3]);
    // A session's first call adapts; only its data count.
    let model = Model::compile(&format!("{COMMON}{source}")).unwrap();
    let mut session = model.on(&Device::cpu()).input("X", [10, 3]).build().unwrap();
    session.fit(&samples, Fit::epochs(1)).unwrap();
    check("session", &session.get("norm.Mean").unwrap().to_f64s(), &of(10), 1e-6);
    session.fit(&others, Fit::epochs(1)).unwrap();
    check("session again", &session.get("norm.Mean").unwrap().to_f64s(), &of(10), 1e-6);
    // Without data, normalization returns its input.
    let untouched = Model::compile("model M(X) -> (Y) { Y = X |> Normalization(); }").unwrap();
    let mut session = untouched.on(&Device::cpu()).input("X", [10, 3]).build().unwrap();
    session.initialise(0).unwrap();
    assert_eq!(
        *session.run([("X", &numbers(&[10, 3]))]).unwrap().get("Y").unwrap(),
        numbers(&[10, 3])
    );
    let error =
        Model::compile(&normalised("norm = Normalization(mean = 1.0); Z = norm(X);")).unwrap();
    let error =
        error.trainer(&Device::cpu()).build().unwrap().fit(&samples, Fit::epochs(1)).unwrap_err();
    assert!(error.to_string().contains("are given together"), "{error}");
    let twice = normalised("norm = Normalization(); Z = norm(X) + norm(2 * X);");
    let error = self::trainer(&twice, &Device::cpu())
        .fit(&samples, Fit::epochs(1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("`norm` is applied twice"), "{error}");
}

/// Bin boundaries are quantiles of the data. Data larger than one batch are summarised from batch
/// to batch.
#[test]
fn bins_are_those_of_keras() {
    let source = |options: &str| {
        let source =
            normalised(&format!("bins = Discretization({options}); Z = as_float(bins(X), 32);"));
        source.replace("SGD(0.01)", "SGD(0.0001)")
    };
    for (samples, bins, options) in
        [(33, 4, ""), (330, 3, ""), (330, 7, ", epsilon = 0.1"), (990, 49, ""), (5, 9, "")]
    {
        let values: Vec<f32> = numbers(&[samples])
            .to_f64s()
            .iter()
            .zip(0..)
            .map(|(x, n)| (x * x + 0.01 * f64::from(n)) as f32)
            .collect();
        let data =
            Arrays::new(Tensor::from_f32([samples, 1], &values).unwrap(), numbers(&[samples]))
                .unwrap();
        for device in devices() {
            let mut found = weight(
                &mut fitted(&source(&format!("num_bins = {bins}{options}")), &device, &data, 1),
                "bins.Boundaries",
            );
            // There are fewer numbers than bins.
            found.retain(|boundary| *boundary < 1e30);
            let expected = golden(&format!("discretization_{samples}_{bins}"), "boundaries");
            check(&format!("{bins} of {samples} on {}", device.name()), &found, &expected, 2e-5);
        }
    }
    let values: Vec<f32> = (0..40000u32).map(|n| (n * 7919 % 20011) as f32).collect();
    let data =
        Arrays::new(Tensor::from_f32([40000, 1], &values).unwrap(), numbers(&[40000])).unwrap();
    let source = source("num_bins = 5").replace("batch_size = 4", "batch_size = 10000");
    let found = weight(&mut fitted(&source, &Device::cpu(), &data, 1), "bins.Boundaries");
    check("batches", &found, &golden("discretization_batches", "boundaries"), 1e-4);
}
