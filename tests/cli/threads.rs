//! Training gives the same weights, bit for bit, on one thread and on all.

use std::fs::{self, File};
use std::process::Command;

use tile_runtime::data::npy;
use tile_runtime::{DType, Scalar, Tensor, TensorType};

use crate::tilec::{empty_folder, program};

#[test]
fn training_does_not_depend_on_the_number_of_threads() {
    // With one processor there is one thread.
    if !Command::new("taskset")
        .args(["-c", "0", "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("note: taskset is missing");
        return;
    }
    let source = "
        model Net(X[N, 12, 12, 1]) -> (Y) {
            Y = X |> Conv2D(8, 3, activation = relu) |> MaxPooling2D(2) |> BatchNormalization() |> Dropout(0.2)
                |> Flatten() |> Dense(64, activation = relu) |> Dense(10);
        }
        train Net {
            loss = SparseCategoricalCrossentropy(from_logits = true);
            optimizer = Adam();
            metrics = [SparseCategoricalAccuracy()];
        }";
    let file = program("threads", source);
    let (folder, saved) = (empty_folder("threads_data"), empty_folder("threads_weights"));
    let value = |n: usize| ((n * 7919 + 13) % 101) as f32 / 50.0 - 1.0;
    let x =
        Tensor::from_f32([200, 12, 12, 1], &(0..200 * 144).map(value).collect::<Vec<_>>()).unwrap();
    let labels = (0..200).map(|n| Scalar::from_i64(DType::I32, n * n % 10));
    let y = Tensor::from_scalars(TensorType::new(DType::I32, [200]), labels.collect::<Vec<_>>())
        .unwrap();
    for (name, tensor) in [("x.npy", x), ("y.npy", y)] {
        npy::write(&tensor, File::create(folder.join(name)).unwrap()).unwrap();
    }
    let train = |name: &str, wrap: &[&str]| {
        let weights = saved.join(name);
        let words: Vec<&str> = wrap.iter().copied().chain([env!("CARGO_BIN_EXE_tilec")]).collect();
        let output = Command::new(words[0])
            .args(&words[1..])
            .args(["train".as_ref(), file.as_os_str(), "--data".as_ref(), folder.as_os_str()])
            .args(["--device", "cpu", "--epochs", "2", "--seed", "7", "--save"])
            .arg(&weights)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(weights).unwrap()
    };
    assert!(train("one.safetensors", &["taskset", "-c", "0"]) == train("all.safetensors", &[]));
}
