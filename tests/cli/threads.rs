//! The number of threads: training gives the same weights, bit for bit, with any, and running sums
//! the same sums; what is no number is refused.

use std::fs::{self, File};
use std::process::Command;

use tile_runtime::data::npy;
use tile_runtime::{DType, Scalar, Tensor, TensorType};

use crate::tilec::{empty_folder, program, tilec_with};

#[test]
fn training_does_not_depend_on_the_number_of_threads() {
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
    let train = |threads: &str| {
        let weights = saved.join(format!("of_{threads}.safetensors"));
        let output = Command::new(env!("CARGO_BIN_EXE_tilec"))
            .args(["train".as_ref(), file.as_os_str(), "--data".as_ref(), folder.as_os_str()])
            .args(["--device", "cpu", "--epochs", "2", "--seed", "7", "--save"])
            .arg(&weights)
            .env("TILE_THREADS", threads)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(weights).unwrap()
    };
    let one = train("1");
    // More than most machines of these tests have, and those of this machine.
    for threads in ["7", ""] {
        assert!(one == train(threads), "{threads} threads");
    }
}

/// Sums of f64 depend on their order. The lines are longer than what is taken at once.
#[test]
fn running_sums_do_not_depend_on_the_number_of_threads() {
    let source =
        "function f(X[B, N]) -> (Y) { Y[b, n: B, N] = +(as_float(X[b, k], 64)), n - k < N; }";
    let file = program("running_sums", source);
    let folder = empty_folder("running_sums_data");
    let value = |n: usize| ((n * 7919 + 13) % 1013) as f32 / 101.0 - 5.0;
    let x = Tensor::from_f32([33, 2047], &(0..33 * 2047).map(value).collect::<Vec<_>>()).unwrap();
    let input = folder.join("x.npy");
    npy::write(&x, File::create(&input).unwrap()).unwrap();
    let sums = |threads: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_tilec"))
            .args(["run".as_ref(), file.as_os_str()])
            .args(["--device", "cpu", "--input", &format!("X={}", input.display())])
            .arg("--output-dir")
            .arg(folder.join(threads))
            .env("TILE_THREADS", threads)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(folder.join(threads).join("Y.npy")).unwrap()
    };
    let one = sums("1");
    for threads in ["2", "5"] {
        assert!(one == sums(threads), "{threads} threads");
    }
}

#[test]
fn a_number_of_threads_that_is_none_is_refused() {
    for threads in ["0", "two", "-1", "100000"] {
        let softmax = ["run", "examples/softmax.tile", "--shape", "X=2x3", "--random", "1"];
        let run = tilec_with(&[("TILE_THREADS", threads)], softmax);
        let expected = format!(
            "there is no device `cpu`: expected a number of threads from 1 to 1024 in TILE_THREADS, found `{threads}`"
        );
        // The code of a device that cannot be used.
        assert_eq!(run.code, 3, "{}", run.err);
        assert!(run.err.contains(&expected), "{}", run.err);
    }
}
