//! Properties of what the image layers draw at random. golden/layers holds what they compute from
//! it to Keras.
//!
//! Each program computes, in training, a property that must hold for every image. Numbers are held
//! to the moments of their distributions, within about five deviations; the seed is fixed.

mod common;

use std::collections::HashSet;

use common::golden::render;
use tile_compiler::tensor::Tensor;
use tile_runtime::train::{Arrays, Fit};
use tile_runtime::{DType, Device, Model, Scalar};

/// Runs the body of a model in training, and returns its outputs. Reference and cpu must agree, up
/// to rounding.
fn run<const N: usize>(body: &str, outputs: [&str; N]) -> [Vec<f64>; N] {
    let source = format!("model M() -> ({}) {{\n{body}\n}}", outputs.join(", "));
    let model = Model::compile(&source).unwrap_or_else(|error| panic!("{}", render(&error)));
    let on = |device: &Device| {
        let session = model.on(device).training(true).build();
        let mut session = session.unwrap_or_else(|error| panic!("{}", render(&error)));
        session.seed(7, 0).unwrap();
        let found =
            session.run::<&str, Tensor>([]).unwrap_or_else(|error| panic!("{}", render(&error)));
        outputs.map(|name| found.get(name).unwrap().to_f64s())
    };
    let (reference, cpu) = (on(&Device::reference()), on(&Device::cpu()));
    for (a, b) in reference.iter().flatten().zip(cpu.iter().flatten()) {
        assert!((a - b).abs() <= 1e-3 * a.abs().max(1.0), "{a} on the reference, {b} on the cpu");
    }
    reference
}

/// Returns the mean and the variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count)
}

#[test]
fn flips() {
    for (mode, mirrored) in [
        ("horizontal", "Images[n, y, 3 - x, c]"),
        ("vertical", "Images[n, 2 - y, x, c]"),
        ("horizontal_and_vertical", "Images[n, 2 - y, 3 - x, c]"),
    ] {
        let [same, flipped] = run(
            &format!(
                "Images = uniform_values([64, 3, 4, 2], 1);
                 Y = Images |> RandomFlip({mode});
                 Mirrored[n, y, x, c: 64, 3, 4, 2] = =({mirrored});
                 Same = amax([1, 2, 3])(abs(Y - Images));
                 Flipped = amax([1, 2, 3])(abs(Y - Mirrored));"
            ),
            ["Same", "Flipped"],
        );
        assert!(
            same.iter().zip(&flipped).all(|(same, flipped)| (*same == 0.0) != (*flipped == 0.0)),
            "{mode}"
        );
        let count = same.iter().filter(|same| **same == 0.0).count();
        assert!((12..52).contains(&count), "{mode}: {count}");
    }
}

#[test]
fn crops() {
    // Each pixel encodes its position.
    let places: HashSet<(i64, i64)> = (0..40)
        .map(|seed| {
            let [y] = run(
                &format!(
                    "Images = 10.0 * index([2, 5, 6, 1], 1) + index([2, 5, 6, 1], 2);
                     Y = Images |> RandomCrop(3, 4, seed = {});",
                    2 * seed
                ),
                ["Y"],
            );
            let first = y[0] as i64;
            for (number, value) in y.iter().enumerate() {
                let (row, column) = (number % 12 / 4, number % 4);
                assert_eq!(*value as i64, first + 10 * row as i64 + column as i64);
            }
            (first / 10, first % 10)
        })
        .collect();
    assert!(
        places.iter().all(|(top, left)| (0..=2).contains(top) && (0..=2).contains(left)),
        "{places:?}"
    );
    assert!(places.len() >= 7, "{places:?}");
}

#[test]
fn brightness_and_shear() {
    let [bright, sheared] = run(
        "Gray = fill([400, 1, 1, 1], 100.0);
         Bright = Gray |> RandomBrightness([-0.1, 0.3]);
         Ramp = fill([400, 9, 9, 1], 0.0) + index([1, 9, 9, 1], 2);
         Y = Ramp |> RandomShear(x_factor = [0.25, 0.25], fill_mode = nearest);
         Sheared[n: 400] = =(Y[n, 4, 4, 0]);",
        ["Bright", "Sheared"],
    );
    let (mean, variance) = moments(&bright);
    assert!(bright.iter().all(|value| (74.4..=176.6).contains(value)));
    assert!(
        (mean - 125.5).abs() < 7.4 && (variance / (102f64.powi(2) / 12.0) - 1.0).abs() < 0.25,
        "{mean} {variance}"
    );
    // Row 4 comes from a column to the left or to the right.
    assert!(sheared.iter().all(|value| [3.0, 5.0].contains(value)), "{sheared:?}");
    assert!((150..250).contains(&sheared.iter().filter(|value| **value == 5.0).count()));
}

#[test]
fn chances() {
    // Each layer changes ones to zeros.
    let [inverted, gray, erased, area] = run(
        "Ones = fill([600, 8, 8, 3], 1.0);
         Changed = Ones |> RandomInvert([0.3, 0.3], [0, 1]);
         Inverted[n: 600] = =(Changed[n, 0, 0, 0]);
         Colored = Ones * (index([1, 1, 1, 3], 3) == 0 ? 1.0 : 0.0);
         Less = Colored |> RandomGrayscale(0.3);
         Gray[n: 600] = =(Less[n, 0, 0, 1]);
         Holes = Ones |> RandomErasing([0.3, 0.3], [0.25, 0.25], fill_value = 0);
         Area = sum([1, 2, 3])(1 - Holes);
         Erased = Area > 0 ? 0.0 : 1.0;",
        ["Inverted", "Gray", "Erased", "Area"],
    );
    for (what, count) in [
        ("inverted", inverted.iter().filter(|value| **value == 0.0).count()),
        ("gray", gray.iter().filter(|value| **value > 0.2).count()),
        ("erased", erased.iter().filter(|value| **value == 0.0).count()),
    ] {
        assert!((124..236).contains(&count), "{count} of 600 are {what}");
    }
    // A quarter of the image, in three channels.
    assert!(area.iter().all(|area| [0.0, 48.0].contains(area)), "{area:?}");
}

#[test]
fn beta_distribution() {
    for alpha in [0.2f64, 1.0, 3.0] {
        let [values] = run(&format!("Values = beta_values([2000], {alpha:?}, none);"), ["Values"]);
        let (mean, variance) = moments(&values);
        assert!(values.iter().all(|value| (0.0..=1.0).contains(value)));
        let expected = 0.25 / (2.0 * alpha + 1.0);
        assert!((mean - 0.5).abs() < 5.0 * (expected / 2000.0).sqrt(), "{alpha}: mean {mean}");
        assert!(
            (variance / expected - 1.0).abs() < 0.13,
            "{alpha}: variance {variance}, not {expected}"
        );
    }
}

#[test]
fn mixtures() {
    // Image n is 1 in channel n, else 0.
    let images = "Images = fill([8, 6, 6, 1], 1.0) * (index([8, 1, 1, 8], 0) == index([8, 1, 1, 8], 3) ? 1.0 : 0.0);";
    let [order, mixed, cut] = run(
        &format!(
            "{images}
             Order = shuffled(100, none);
             Y = Images |> MixUp(2.0);
             Mixed[n, c: 8, 8] = =(Y[n, 3, 3, c]);
             Cut = Images |> CutMix();"
        ),
        ["Order", "Mixed", "Cut"],
    );
    let mut sorted = order.clone();
    sorted.sort_by(f64::total_cmp);
    assert_eq!(sorted, (0..100).map(f64::from).collect::<Vec<_>>());
    assert_ne!(sorted, order);
    for (number, row) in mixed.chunks(8).enumerate() {
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-5, "{row:?}");
        assert!(
            row.iter().enumerate().filter(|(c, value)| *c != number && **value > 0.0).count() <= 1,
            "{row:?}"
        );
    }
    for (number, image) in cut.chunks(6 * 6 * 8).enumerate() {
        let from: Vec<usize> = image
            .chunks(8)
            .map(|pixel| pixel.iter().position(|value| *value == 1.0).unwrap())
            .collect();
        let others: HashSet<usize> = from.iter().copied().filter(|n| *n != number).collect();
        assert!(others.len() <= 1, "{from:?}");
        // Pixels of the other image form a box.
        let inside = |place: &usize| from[*place] != number;
        let (rows, columns): (HashSet<usize>, HashSet<usize>) =
            (0..36).filter(inside).map(|place| (place / 6, place % 6)).unzip();
        assert_eq!((0..36).filter(inside).count(), rows.len() * columns.len());
    }
}

#[test]
fn elastic_transform() {
    // The displacement of each pixel, away from the edges.
    let [across, along] = run(
        "Ramp = fill([24, 32, 32, 2], 0.0)
             + (index([1, 32, 32, 2], 3) == 0 ? index([1, 32, 32, 2], 1) : index([1, 32, 32, 2], 2));
         Y = Ramp |> RandomElasticTransform([1.0, 1.0], [1.0, 1.0]);
         Across[n, y, x: 24, 16, 16] = =(Y[n, y + 8, x + 8, 0] - Ramp[n, y + 8, x + 8, 0]);
         Along[n, y, x: 24, 16, 16] = =(Y[n, y + 8, x + 8, 1] - Ramp[n, y + 8, x + 8, 1]);",
        ["Across", "Along"],
    );
    // Noise of deviation 1.6, blurred with a normal distribution of the same deviation along both
    // axes, times 3.2.
    let weights: Vec<f64> =
        (-4..=4).map(|place| (-0.5 * (f64::from(place) / 1.6).powi(2)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let expected = 3.2 * 1.6 * weights.iter().map(|weight| (weight / sum).powi(2)).sum::<f64>();
    for moves in [&across, &along] {
        let (mean, variance) = moments(moves);
        assert!(mean.abs() < 0.2 * expected, "{mean}");
        assert!(
            (variance.sqrt() / expected - 1.0).abs() < 0.12,
            "{} and {expected}",
            variance.sqrt()
        );
    }
    let product: f64 =
        across.iter().zip(&along).map(|(a, b)| a * b).sum::<f64>() / across.len() as f64;
    assert!(product.abs() < 0.2 * expected * expected, "{product}");
}

#[test]
fn perspective() {
    // Each coordinate is multiplied by a number from 0.75 to 1.25: the corner at (0, 0) stays, and
    // the opposite one moves.
    let [first, last] = run(
        "Ramp = fill([300, 5, 5, 1], 0.0) + (index([1, 5, 5, 1], 1) + index([1, 5, 5, 1], 2));
         Y = Ramp |> RandomPerspective([1.0, 1.0], 0.5, fill_value = -1000.0);
         First[n: 300] = =(Y[n, 0, 0, 0]);
         Last[n: 300] = =(Y[n, 4, 4, 0]);",
        ["First", "Last"],
    );
    assert!(first.iter().all(|value| value.abs() < 1e-4));
    let inside = last.iter().filter(|value| **value > 5.0).count();
    // The corner moves outwards in both directions for about a quarter of the images.
    assert!((40..110).contains(&inside), "{inside}");
}

#[test]
fn chosen_layers() {
    // With factors of 0 there are six different results.
    let layers = [
        "Images",
        "Images |> RandomSharpness([0, 0])",
        "Images |> Solarization([0, 0], [0, 0])",
        "Images |> RandomPosterization([1, 1])",
        "Images |> AutoContrast()",
        "Images |> Equalization()",
    ];
    let candidates = layers.join(", ");
    let mut seen = HashSet::new();
    for seed in 0..24 {
        let [distances] = run(
            &format!(
                "Images = 30 + 100 * uniform_values([1, 4, 5, 3], 3);
                 Y = Images |> RandAugment(num_ops = 1, factor = [0.0, 0.0], seed = {});
                 Far = [];
                 for Z in [{candidates}] {{ Far = Far + [reshape(amax()(abs(Y - Z)), 1)]; }}
                 Distances = Concatenate(0)(Far);",
                50 * seed
            ),
            ["Distances"],
        );
        let nearest = distances.iter().position(|distance| *distance < 1e-3);
        seen.insert(nearest.unwrap_or_else(|| panic!("{distances:?}")));
    }
    assert!(seen.len() >= 4, "{seen:?}");
}

#[test]
fn augmented_mixtures() {
    let [least, most, change] = run(
        "Images = 255 * uniform_values([2, 5, 6, 3], 3);
         Y = Images |> AugMix(num_chains = 2, chain_depth = 2);
         Least = amin()(Y);
         Most = amax()(Y);
         Change = amax([1, 2, 3])(abs(Y - Images));",
        ["Least", "Most", "Change"],
    );
    assert!(least[0] >= 0.0 && most[0] <= 255.0);
    assert!(change.iter().any(|change| *change > 1.0), "{change:?}");
}

/// Labels are mixed with the same weights as images: the channels of each image are its one-hot
/// label.
#[test]
fn labels_are_mixed_as_images_are() {
    let images = |size: usize| {
        format!(
            "Label = as_float(index([16, 3], 0) - index([16, 3], 0) / 3 * 3 == index([16, 3], 1), 32);
             Images = fill([16, {size}, {size}, 3], 1.0) * reshape(Label, [16, 1, 1, 3]);"
        )
    };
    let [difference, moved] = run(
        &format!(
            "{} Y, L = [Images, Label] |> MixUp(0.4);
             Difference = amax()(abs(Y - reshape(L, [16, 1, 1, 3])));
             Moved = mean()(abs(L - Label));",
            images(4)
        ),
        ["Difference", "Moved"],
    );
    assert!(difference[0] < 1e-6 && moved[0] > 0.02, "{difference:?} {moved:?}");
    // A side of the box is off by less than a pixel.
    let [difference, moved, of_pixels] = run(
        &format!(
            "{} Y, L = [Images, Label] |> CutMix();
             Difference = amax()(abs(mean([1, 2])(Y) - L));
             Moved = mean()(abs(L - Label));
             A, B = [Images, Images] |> CutMix(seed = 1);
             OfPixels = amax()(abs(A - B));",
            images(64)
        ),
        ["Difference", "Moved", "OfPixels"],
    );
    assert!(
        difference[0] < 2.5 / 64.0 && moved[0] > 0.02 && of_pixels[0] == 0.0,
        "{difference:?} {moved:?} {of_pixels:?}"
    );
}

/// Targets are augmented with the inputs in a training step; in an evaluation neither is.
#[test]
fn targets_are_augmented_in_training() {
    let source = |augment: &str| {
        format!(
            "model Same(Image[N, 4, 4, 3]) -> (P) {{
                 param Shift[3] = zeros;
                 P = (Image |> GlobalAveragePooling2D()) + Shift;
             }}
             function sureness(Predicted, Target) -> (S) {{ S = amax(-1)(Target); }}
             train Same {{
                 augment = {augment};
                 loss = mae; optimizer = SGD(0.0); metrics = [sureness]; batch_size = 8; epochs = 2;
             }}"
        )
    };
    let classes: Vec<f32> =
        (0..24).flat_map(|n| (0..3).map(move |c| f32::from(u8::from(n % 3 == c)))).collect();
    let pixels: Vec<f32> = classes.chunks(3).flat_map(|label| label.repeat(16)).collect();
    let images = Tensor::from_f32([24, 4, 4, 3], &pixels).unwrap();
    let numbers = Tensor::from_scalars(
        tile_compiler::tensor::TensorType::new(DType::I32, [24]),
        (0..24).map(|n| Scalar::i32(n % 3)).collect::<Vec<_>>(),
    )
    .unwrap();
    let data = Arrays::new(images, numbers).unwrap();
    for device in [Device::reference(), Device::cpu()] {
        let model =
            Model::compile(&source("[one_hot_labels(3), RandomFlip(horizontal), MixUp(0.4)]"));
        let model = model.unwrap_or_else(|error| panic!("{}", render(&error)));
        let mut trainer = model.trainer(&device).build().unwrap();
        let history =
            trainer.fit(&data, Fit::default()).unwrap_or_else(|error| panic!("{}", render(&error)));
        for epoch in &history {
            assert!(epoch.get("loss").unwrap() < 1e-6, "{epoch:?}");
            assert!(epoch.get("sureness").unwrap() < 0.97, "{epoch:?}");
        }
        let found = trainer.evaluate(&data, 8).unwrap();
        assert!(found[0].1.values()[0] < 1e-6 && found[1].1.values()[0] == 1.0, "{found:?}");
    }
    let model = Model::compile(&source("MixUp()")).unwrap();
    let mut trainer = model.trainer(&Device::cpu()).build().unwrap();
    let error = render(&trainer.fit(&data, Fit::default()).unwrap_err());
    assert!(error.contains("found i32") && error.contains("one_hot_labels"), "{error}");
}
