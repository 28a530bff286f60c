//! Weights of samples and of classes in losses and metrics. Logits are 0, so each class of C has
//! the loss ln C, and expected values follow from the weights alone.

use tile_runtime::train::{Arrays, ColumnRole, Dataset, Fit, Reading, Trainer};
use tile_runtime::{DType, Device, Model, Scalar, Tensor, TensorType};

/// Sample weights in files: with logits of 0 each sample has the loss ln 2, and the weights of the
/// four samples sum to 6.
#[test]
fn samples_have_their_weights_from_files() {
    let folder = std::env::temp_dir().join(format!("tilec-sample-weights-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let table = folder.join("samples.csv");
    std::fs::write(&table, "a,y,sample_weight\n1,0,2\n3,1,0\n1,0,1\n2,1,3\n").unwrap();
    let source = "model Net(X[N, 1]) -> (Y) { Y = X |> Dense(2, kernel_initializer = zeros); }
        train Net { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = SGD(); }";
    let mut trainer = Model::compile(source).unwrap().trainer(&Device::cpu()).build().unwrap();
    let samples = tile_runtime::data::folder::open(&table).unwrap().train;
    let loss = trainer.evaluate(&*samples, 4).unwrap()[0].1.number().unwrap();
    assert!((loss - 6.0 / 4.0 * 2f64.ln()).abs() < 1e-6, "{loss}");
    // Sample weight and class weight are multiplied: 3 for class 0 makes 2 * 3 + 0 + 1 * 3 + 3.
    let history = trainer.fit(&*samples, Fit::epochs(1).class_weight(0, 3.0)).unwrap();
    assert!((history[0].get("loss").unwrap() - 12.0 / 4.0 * 2f64.ln()).abs() < 1e-6, "{history:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A model whose logits are 0 for two classes at each step of a sequence or pixel of a map.
const EVEN: &str = "
    model Even(X) -> (Y) { Y = X |> Dense(2, kernel_initializer = zeros); }
    train Even {
        loss = SparseCategoricalCrossentropy(from_logits = true);
        optimizer = SGD();
        metrics = [sparse_categorical_accuracy];
        weighted_metrics = [sparse_categorical_accuracy, MeanIoU(2, sparse_y_pred = false)];
    }";

fn even() -> Trainer {
    Model::compile(EVEN).unwrap().trainer(&Device::cpu()).build().unwrap()
}

/// Returns two samples with these classes at the parts of the given shape.
fn samples(shape: &[usize], classes: &[i32]) -> Arrays {
    let all: Vec<usize> = [2].into_iter().chain(shape.iter().copied()).collect();
    let x: Vec<usize> = all.iter().copied().chain([1]).collect();
    let y = Tensor::from_scalars(
        TensorType::new(DType::I32, all),
        classes.iter().map(|&class| Scalar::i32(class)),
    );
    Arrays::new(Tensor::from_f32(x, &vec![1.0; classes.len()]).unwrap(), y.unwrap()).unwrap()
}

fn number(results: &[(String, Reading)], name: &str) -> f64 {
    results.iter().find(|(other, _)| other == name).unwrap().1.number().unwrap()
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "{found}, and expected {expected}");
}

/// A weight for each step of a sequence, and for each pixel of a map.
#[test]
fn parts_of_samples_have_weights() {
    for shape in [&[3][..], &[3, 1]] {
        let all: Vec<usize> = [2].into_iter().chain(shape.iter().copied()).collect();
        let weights = Tensor::from_f32(all, &[1.0, 2.0, 0.0, 0.5, 0.0, 4.0]).unwrap();
        let data =
            samples(shape, &[0, 1, 1, 0, 0, 1]).with(ColumnRole::Weight, None, weights).unwrap();
        let results = even().evaluate(&data, 2).unwrap();
        close(number(&results, "loss"), 7.5 / 6.0 * 2f64.ln());
        // Equal logits are counted as class 0.
        close(number(&results, "sparse_categorical_accuracy"), 3.0 / 6.0);
        close(number(&results, "weighted_sparse_categorical_accuracy"), 1.5 / 7.5);
        // Class 0: 1.5 of 7.5 in both, and class 1: none.
        close(number(&results, "mean_io_u"), (1.5 / 7.5 + 0.0) / 2.0);
    }
}

#[test]
fn weights_of_another_shape_are_refused() {
    let weights = Tensor::from_f32([2, 4], &[1.0; 8]).unwrap();
    let data = samples(&[3], &[0; 6]).with(ColumnRole::Weight, None, weights).unwrap();
    let error = even().evaluate(&data, 2).unwrap_err().to_string();
    assert!(error.contains("the weights of the samples have the shape [2, 4]"), "{error}");
}

/// In a map of classes, each element has the weight of its class, times that of the sample.
#[test]
fn classes_of_maps_have_weights() {
    let loss = |data: &dyn Dataset| {
        let history = even().fit(data, Fit::epochs(1).class_weight(1, 3.0)).unwrap();
        history[0].get("loss").unwrap()
    };
    let map = || samples(&[2, 2], &[0, 1, 1, 0, 0, 0, 0, 1]);
    close(loss(&map()), (5.0 + 3.0 * 3.0) / 8.0 * 2f64.ln());
    let weights = Tensor::from_f32([2], &[1.0, 2.0]).unwrap();
    close(
        loss(&map().with(ColumnRole::Weight, None, weights).unwrap()),
        (2.0 + 6.0 + 2.0 * 6.0) / 8.0 * 2f64.ln(),
    );
    let weights = Tensor::from_f32([2, 2, 3], &[1.0; 12]).unwrap();
    let data = map().with(ColumnRole::Weight, None, weights).unwrap();
    let error = even().fit(&data, Fit::epochs(1).class_weight(1, 3.0)).unwrap_err().to_string();
    assert!(
        error.contains("a sample has weights of the shape [2, 3], and its classes have [2, 2]"),
        "{error}"
    );
}
