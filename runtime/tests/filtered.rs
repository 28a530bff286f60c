//! Convolutions by Winograd's minimal filtering on GPUs: on images of any size and layout, with any
//! padding, with new weights, and in training, results are those of direct sums.
#![cfg(all(feature = "compile", feature = "check"))]

use proptest::prelude::*;
use tile_compiler::plan::Step;
use tile_compiler::profile::{Profile, Rates};
use tile_runtime::{Device, Model, Tensor};

/// A device whose multiplications are so slow that fewer of them are always faster.
fn slow(exact: bool) -> Device {
    let rates = Rates { flops: 1e9, memory: 1e15, cache: 1e15, launch: 0.0, ..Rates::GPU };
    let device = Device::check(Profile { rates, ..Profile::generic() });
    if exact { device.exact() } else { device }
}

/// A convolution `Y = relu(X * K + B) + R`.
#[derive(Clone, Debug)]
struct Case {
    images: usize,
    image: [usize; 2],
    channels: usize,
    filters: usize,
    taps: usize,
    padding: usize,
    /// True if channels are before lines and pixels.
    channels_first: bool,
    /// True if taps run against pixels, as in the gradient of a convolution.
    reversed: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let channels = prop::sample::select(vec![8usize, 9, 16, 21]);
    let filters = prop::sample::select(vec![8usize, 11, 16, 24]);
    let taps = prop::sample::select(vec![3usize, 5]);
    let sizes = (1..=2usize, prop::array::uniform2(1..=13usize), channels, filters);
    (sizes, taps, 0..=3usize, any::<[bool; 2]>()).prop_map(
        |((images, image, channels, filters), taps, padding, [channels_first, reversed])| Case {
            images,
            image: image.map(|side| side.max(taps)),
            channels,
            filters,
            taps,
            padding,
            channels_first,
            reversed,
        },
    )
}

impl Case {
    fn sides(&self) -> [usize; 2] {
        self.image.map(|side| side + 2 * self.padding + 1 - self.taps)
    }

    /// Returns the program and the shapes of `X`, `K`, `B` and `R`.
    fn program(&self) -> (String, [Vec<usize>; 4]) {
        let Case { images, image: [h, w], channels, filters, taps, padding, .. } = *self;
        let [oh, ow] = self.sides();
        let tap = |name: &str| match self.reversed {
            true => format!("{} - {name}", taps - 1),
            false => name.to_owned(),
        };
        let at = |pixel: &str, name: &str| format!("{pixel} + {} - {padding}", tap(name));
        let (y, x) = (at("y", "i"), at("x", "j"));
        let (header, read, place, sizes, bias, shapes) = match self.channels_first {
            true => (
                "X[N, C, H, W], K[F, C, I, J], B[F, 1, 1]",
                format!("X[n, c, {y}, {x}] * K[f, c, i, j]"),
                "n, f, y, x",
                format!("N, F, {oh}, {ow}"),
                vec![filters, 1, 1],
                [
                    vec![images, channels, h, w],
                    vec![filters, channels, taps, taps],
                    vec![images, filters, oh, ow],
                ],
            ),
            false => (
                "X[N, H, W, C], K[I, J, C, F], B[F]",
                format!("X[n, {y}, {x}, c] * K[i, j, c, f]"),
                "n, y, x, f",
                format!("N, {oh}, {ow}, F"),
                vec![filters],
                [
                    vec![images, h, w, channels],
                    vec![taps, taps, channels, filters],
                    vec![images, oh, ow, filters],
                ],
            ),
        };
        let [x, k, r] = shapes;
        let source = format!(
            "function f({header}, R) -> (Y) {{ S[{place} : {sizes}] = +({read}); Y = relu(S + B) + R; }}"
        );
        (source, [x, k, bias, r])
    }
}

/// Returns numbers from -1 to 1 with no pattern.
fn numbers(shape: &[usize], seed: u32) -> Tensor {
    let count: usize = shape.iter().product();
    let number = |at: usize| {
        let mixed = (at as u32 ^ seed.rotate_left(16)).wrapping_mul(0x9e37_79b1);
        let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x85eb_ca6b);
        (mixed >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let values: Vec<f32> = (0..count).map(number).collect();
    Tensor::from_f32(shape, &values).unwrap()
}

/// Runs the program on a device. Returns its only output, and whether it has kernels of minimal
/// filtering.
fn run(device: &Device, model: &Model, inputs: &[(&str, Tensor)]) -> (Vec<f64>, bool) {
    let mut builder = model.on(device);
    for (name, value) in inputs {
        builder = builder.input(*name, value.ty().clone());
    }
    let mut session = builder.build().unwrap();
    let filters = session.plan().unwrap().uses_winograd();
    let outputs = session.run(inputs.iter().map(|(name, value)| (*name, value))).unwrap();
    (outputs.get("Y").unwrap().to_f64s(), filters)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn results_are_those_of_direct_sums(case in case(), seed in any::<u32>()) {
        let (source, shapes) = case.program();
        let model = Model::compile(&source).unwrap();
        let tensors = |seeds: [u32; 4]| -> Vec<(&str, Tensor)> {
            let pairs = ["X", "K", "B", "R"].into_iter().zip(&shapes).zip(seeds);
            pairs.map(|((name, shape), seed)| (name, numbers(shape, seed))).collect()
        };
        let inputs = tensors([seed, seed ^ 1, seed ^ 2, seed ^ 3]);
        let (direct, _) = run(&Device::cpu().exact(), &model, &inputs);
        let (found, is_filtered) = run(&slow(false), &model, &inputs);
        let is_large = |&side: &usize| side >= 6;
        if case.channels.min(case.filters) >= 16 && case.sides().iter().all(is_large) {
            prop_assert!(is_filtered, "direct sums for {case:?}");
        }
        prop_assert!(!run(&slow(true), &model, &inputs).1, "an exact device filters {case:?}");
        // Sums are of up to so many products of numbers below 1; transforms lose a few more bits.
        let terms = (case.channels * case.taps * case.taps) as f64;
        for (number, (found, direct)) in found.iter().zip(&direct).enumerate() {
            let error = (found - direct).abs();
            prop_assert!(error <= 64.0 * f64::from(f32::EPSILON) * terms.sqrt(), "{number} of {case:?}: {found} is not {direct}");
        }
    }
}

/// Two convolutions, the first with a normalization.
const NETWORK: &str = "
    model Net(X[N, 9, 10, 8]) -> (Y) {
        A = relu(X |> Conv2D(16, 3, padding = \"same\") |> BatchNormalization());
        Y = (A |> Conv2D(12, 5)) |> Flatten() |> Dense(3);
    }";

#[test]
fn kernels_are_transformed_again_when_they_are_set() {
    let model = Model::compile(NETWORK).unwrap();
    let [mut filtered, mut direct] = [slow(false), Device::cpu().exact()].map(|device| {
        let mut session = model.on(&device).dim("N", 2).build().unwrap();
        session.initialise(7).unwrap();
        session
    });
    let plan = filtered.plan().unwrap();
    assert!(plan.uses_winograd());
    // The kernels' transforms are not repeated in each run.
    let is_kernel = |step: &Step| plan.routines[step.routine].name.ends_with("_kernel");
    assert_eq!(plan.prelude.iter().filter(|step| is_kernel(step)).count(), 2);
    assert!(!plan.steps.iter().any(is_kernel));
    let paths: Vec<String> = filtered.weights().map(|(path, _)| path.to_owned()).collect();
    let image = numbers(&[2, 9, 10, 8], 3);
    for path in std::iter::once(None).chain(paths.iter().map(Some)) {
        if let Some(path) = path {
            let shape = filtered.get(path).unwrap().shape().to_vec();
            // A variance is not negative.
            let values = numbers(&shape, 11).to_f64s().into_iter().map(|x| x.abs() as f32 / 8.0);
            let weight = Tensor::from_f32(shape, &values.collect::<Vec<f32>>()).unwrap();
            filtered.set(path, &weight).unwrap();
            direct.set(path, &weight).unwrap();
        }
        let [found, expected] = [&mut filtered, &mut direct].map(|session| {
            let outputs = session.run([("X", &image)]).unwrap();
            outputs.get("Y").unwrap().to_f64s()
        });
        let magnitude = expected.iter().fold(0.0, |most, x| x.abs().max(most));
        for (found, expected) in found.iter().zip(&expected) {
            assert!(
                (found - expected).abs() <= 1e-5 * magnitude,
                "{path:?}: {found} is not {expected}"
            );
        }
    }
}

#[test]
#[cfg(feature = "train")]
fn networks_learn_as_by_direct_sums() {
    use tile_runtime::train::{Arrays, Fit};
    let source = format!(
        "{NETWORK}
        train Net {{ loss = mse; optimizer = SGD(0.01); batch_size = 4; seed = 3; }}"
    );
    let model = Model::compile(&source).unwrap();
    let data = Arrays::new(numbers(&[8, 9, 10, 8], 5), numbers(&[8, 3], 6)).unwrap();
    let [filtered, direct] = [slow(false), slow(true)].map(|device| {
        let mut trainer = model.trainer(&device).build().unwrap();
        trainer.fit(&data, Fit::epochs(2)).unwrap();
        assert_eq!(trainer.plan().unwrap().uses_winograd(), !device.profile().exact);
        trainer.weights().unwrap()
    });
    for ((path, filtered), (_, direct)) in filtered.iter().zip(&direct) {
        for (filtered, direct) in filtered.to_f64s().into_iter().zip(direct.to_f64s()) {
            assert!(
                (filtered - direct).abs() <= 1e-4 * (1.0 + direct.abs()),
                "{path}: {filtered} is not {direct}"
            );
        }
    }
}
