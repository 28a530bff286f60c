//! Cases to measure: programs with sizes. The bundled ones have the sizes in which other tensor
//! runtimes are measured, too.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time for which a program runs.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The time before the measurement.
    pub warm_up: Duration,
    pub measured: Duration,
}

/// A place in a sweep over sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub size: usize,
    /// The name of the sizes in a chart.
    pub axis: String,
    /// Whether a chart has a logarithmic scale of sizes.
    pub log: bool,
}

/// A program with sizes.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of the bundled workload, or the path of the file.
    pub workload: String,
    /// The path in errors, relative to which the program imports.
    pub path: PathBuf,
    /// The program. `None` for a file that is read later.
    pub text: Option<&'static str>,
    /// Named sizes of the inputs.
    pub dims: Vec<(String, usize)>,
    /// A remark for the report: `inference`, `training`, or nothing.
    pub remark: &'static str,
    /// The place of this case in a sweep.
    pub point: Option<Point>,
    pub budget: Budget,
    /// The samples, if the `train` block is measured.
    pub training: Option<Samples>,
}

/// The samples for training steps.
#[derive(Clone, Debug)]
pub enum Samples {
    /// Random digits for so many steps of the case's only size.
    Digits { steps: usize },
    /// The user's, of a folder or file, in batches of this size, or of the program's.
    User { data: PathBuf, batch: Option<usize> },
}

/// The values of WHAT other than files.
pub const NAMES: [&str; 13] = [
    "matmul",
    "mobilenet",
    "resnet50",
    "vgg19",
    "transformer-encoder",
    "mnist-mlp",
    "mnist-cnn",
    "scale",
    "elementwise",
    "softmax",
    "layernorm",
    CPU_VS_GPU,
    ALL,
];

/// The workload that runs on two devices.
pub const CPU_VS_GPU: &str = "cpu-vs-gpu";

/// The workload that runs several ones that keep a GPU busy.
pub const ALL: &str = "all";

/// The names of the workloads that sweep over a size.
pub const SWEEPS: [&str; 2] = ["matmul", CPU_VS_GPU];

/// Budgets for a single case, and for each of many.
const LONG: Budget = Budget { warm_up: Duration::from_secs(1), measured: Duration::from_secs(4) };
const SHORT: Budget =
    Budget { warm_up: Duration::from_millis(500), measured: Duration::from_millis(1500) };

/// Numbers of rows in the sweeps over matrices of [`COLUMNS`] columns, and sizes of square
/// matrices.
const ROWS: [usize; 6] = [16, 64, 256, 1024, 4096, 16384];
const COLUMNS: usize = 1024;
const SQUARES: [usize; 6] = [64, 128, 256, 512, 1024, 2048];
/// Sizes for [`ALL`]: a matrix product of some milliseconds, and arrays larger than the caches that
/// every adapter can bind.
const LARGE_SQUARE: usize = 4096;
const LARGE: [(&str, usize); 2] = [("N", 8192), ("C", 4096)];

/// Returns the cases of a bundled workload.
pub fn bundled(name: &str) -> Option<Vec<Case>> {
    let rows = |rows: usize| [("N", rows), ("C", COLUMNS)];
    let one = |file, text, dims: &[(&str, usize)]| vec![case(name, file, text, dims, LONG)];
    let image = [("N", 1), ("H", 224), ("W", 224)];
    let inference_and_training = |file, text, batch, steps| {
        let case = case(name, file, text, &[("N", batch)], LONG);
        let training =
            Case { remark: "training", training: Some(Samples::Digits { steps }), ..case.clone() };
        vec![Case { remark: "inference", ..case }, training]
    };
    Some(match name {
        "matmul" => SQUARES[2..].iter().map(|&n| matmul(n)).collect(),
        "mobilenet" => one("mobilenet.tile", MOBILENET, &image),
        "resnet50" => one("resnet50.tile", RESNET50, &image),
        "vgg19" => one("vgg19.tile", VGG19, &image),
        "transformer-encoder" => {
            one("transformer_encoder.tile", TRANSFORMER_ENCODER, &[("N", 1), ("T", 1024)])
        }
        "mnist-mlp" => inference_and_training("mnist_mlp.tile", MNIST_MLP, 32, 100),
        "mnist-cnn" => inference_and_training("mnist_cnn.tile", MNIST_CNN, 128, 4),
        "scale" => one("scale.tile", SCALE, &rows(4096)),
        "elementwise" => one("elementwise.tile", ELEMENTWISE, &rows(4096)),
        "softmax" => one("softmax.tile", SOFTMAX, &rows(4096)),
        "layernorm" => one("gelu_layer_norm.tile", GELU_LAYER_NORM, &rows(4096)),
        CPU_VS_GPU => {
            let sweep = |name: &'static str, file: &'static str, text: &'static str| {
                ROWS.into_iter().map(move |n| Case {
                    point: bundled_point(n, "rows"),
                    ..case(name, file, text, &rows(n), SHORT)
                })
            };
            let elementwise = sweep("elementwise", "elementwise.tile", ELEMENTWISE);
            let softmax = sweep("softmax", "softmax.tile", SOFTMAX);
            SQUARES.into_iter().map(matmul).chain(elementwise).chain(softmax).collect()
        }
        ALL => {
            let large = |name, file, text| case(name, file, text, &LARGE, SHORT);
            let arrays = [
                large("scale", "scale.tile", SCALE),
                large("elementwise", "elementwise.tile", ELEMENTWISE),
                large("softmax", "softmax.tile", SOFTMAX),
                large("layernorm", "gelu_layer_norm.tile", GELU_LAYER_NORM),
            ];
            let networks = ["mobilenet", "resnet50", "transformer-encoder"]
                .into_iter()
                .filter_map(bundled)
                .flatten();
            std::iter::once(Case { point: None, ..matmul(LARGE_SQUARE) })
                .chain(arrays)
                .chain(networks)
                .collect()
        }
        _ => return None,
    })
}

/// Returns the case of a file. The command line gives its sizes, and samples if its `train` block
/// is meant.
pub fn file(path: &Path, training: Option<Samples>) -> Case {
    let (workload, path) = (path.display().to_string(), path.to_path_buf());
    Case {
        workload,
        path,
        text: None,
        dims: Vec::new(),
        remark: if training.is_some() { "training" } else { "" },
        point: None,
        budget: LONG,
        training,
    }
}

/// Returns a point of a bundled sweep, whose sizes are powers of 2.
fn bundled_point(size: usize, axis: &str) -> Option<Point> {
    Some(Point { size, axis: axis.into(), log: true })
}

fn matmul(n: usize) -> Case {
    let dims = [("M", n), ("K", n), ("N", n)];
    Case {
        point: bundled_point(n, "N of N x N"),
        ..case("matmul", "matmul.tile", MATMUL, &dims, SHORT)
    }
}

fn case(
    workload: &str,
    path: &str,
    text: &'static str,
    dims: &[(&str, usize)],
    budget: Budget,
) -> Case {
    let dims = dims.iter().map(|(name, size)| (name.to_string(), *size)).collect();
    let (workload, path, text) = (workload.into(), path.into(), Some(text));
    Case { workload, path, text, dims, remark: "", point: None, budget, training: None }
}

const MATMUL: &str = include_str!("../../examples/matmul.tile");
const SOFTMAX: &str = include_str!("../../examples/softmax.tile");
const SCALE: &str = "function scale(X[N, C]) -> (Y) { Y = 2.0 * X; }";
const ELEMENTWISE: &str = include_str!("elementwise.tile");
const GELU_LAYER_NORM: &str = include_str!("gelu_layer_norm.tile");
const MOBILENET: &str = include_str!("../../examples/models/mobilenet.tile");
const RESNET50: &str = include_str!("../../examples/models/resnet50.tile");
const VGG19: &str = include_str!("../../examples/models/vgg19.tile");
const TRANSFORMER_ENCODER: &str = include_str!("../../examples/models/transformer_encoder.tile");
const MNIST_MLP: &str = include_str!("../../examples/models/mnist_mlp.tile");
const MNIST_CNN: &str = include_str!("../../examples/models/mnist_cnn.tile");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_cases() {
        for name in NAMES {
            let cases = bundled(name).unwrap();
            let inferring = cases.iter().filter(|case| case.training.is_none()).count();
            assert_eq!(inferring > 1, SWEEPS.contains(&name) || name == ALL, "{name}");
            assert!(
                cases.iter().all(|case| case.point.is_some() == SWEEPS.contains(&name)),
                "{name}"
            );
        }
        assert!(bundled("matmull").is_none());
    }
}
