//! `tilec train` on a few points: files and messages, interruption and resumption, and errors
//! before training.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::points::{PROGRAM, Points};
use crate::tilec::{Run, program, tilec};

/// The points, trained on from the command line.
struct Case(Points);

impl Case {
    fn new(name: &str) -> Case {
        Case(Points::new(name))
    }

    fn words(&self, options: &str) -> Vec<String> {
        self.0.words(&format!("train @points.tile --data @points.csv {options}"))
    }

    fn train(&self, options: &str) -> Run {
        tilec(self.words(options))
    }

    /// Returns the predictions for some points by the weights in a file.
    fn weights(&self, name: &str) -> String {
        let (file, weights) = (self.0.path("points.tile"), self.0.path(name));
        let words =
            ["run", &file, "--dim", "N=5", "--random", "1", "--weights", &weights, "--json"];
        tilec(words).ok().text().to_owned()
    }

    fn lines(&self, name: &str) -> usize {
        fs::read_to_string(self.0.folder.join(name)).unwrap().lines().count()
    }
}

#[test]
fn a_run_that_is_resumed_by_file_is_the_run_that_never_stopped() {
    let case = Case::new("train_resume");
    case.train("--validation 0.2 --save @whole.npz --save-best @best.npz --log @whole.jsonl --plot @whole.svg").ok();
    let first =
        case.train("--validation 0.2 --save @part.npz --save-best @part_best.npz --epochs 2 --log @part.jsonl").ok();
    assert!(first.err.contains("48 samples of f32[2] to train, 12 to validate"), "{}", first.err);
    assert!(
        first.err.contains("Epoch 2/2 5/5 ") && first.err.contains(" - val_accuracy: "),
        "{}",
        first.err
    );
    let rest = "--validation 0.2 --resume @part.npz --save @part.npz --save-best @part_best.npz";
    case.train(&format!("{rest} --log @part.jsonl --plot @part.svg")).ok();
    assert_eq!(case.weights("whole.npz"), case.weights("part.npz"));
    assert_eq!(case.weights("best.npz"), case.weights("part_best.npz"));
    assert_eq!(case.lines("part.jsonl"), 4);
    // The picture has all epochs.
    let svg = |name: &str| fs::read_to_string(case.0.folder.join(name)).unwrap();
    assert_eq!(svg("whole.svg"), svg("part.svg"));
    // If no epoch is left, a message says so, and written files stay.
    let done = case.train(&format!("{rest} --log @part.jsonl --plot @part.svg")).ok();
    assert!(done.err.contains("nothing was trained: of 4 epochs 4 are made"), "{}", done.err);
    assert_eq!((case.lines("part.jsonl"), svg("part.svg")), (4, svg("whole.svg")));
}

#[test]
fn logs() {
    let case = Case::new("train_logs");
    case.train("--epochs 2 --log @log.csv").ok();
    let table = fs::read_to_string(case.0.folder.join("log.csv")).unwrap();
    assert_eq!(table.lines().next(), Some("epoch,loss,accuracy,seconds"));
    assert_eq!(table.lines().count(), 3);
    // A run of no epochs keeps existing files.
    case.train("--epochs 0 --log @log.csv").ok();
    assert_eq!(fs::read_to_string(case.0.folder.join("log.csv")).unwrap(), table);
}

#[test]
fn patience() {
    let case = Case::new("train_patience");
    fs::write(case.0.folder.join("points.tile"), PROGRAM.replace("Adam(0.01)", "SGD(lr = 0.0)"))
        .unwrap();
    let run = case.train("--epochs 9 --patience 2 --validation 0.2").ok();
    assert!(
        run.err.contains(
            "stopped after epoch 3: no smaller val_loss for 2 epochs; the best was epoch 1"
        ),
        "{}",
        run.err
    );
    // Without validation samples, the loss is watched.
    let run = case.train("--epochs 9 --patience 2 --validation 0").ok();
    assert!(run.err.contains("no smaller loss for 2 epochs"), "{}", run.err);
}

#[test]
fn watched_results() {
    let case = Case::new("train_watched");
    let run = case
        .train("--epochs 9 --patience 2 --monitor accuracy --min-delta 2 --save-best @best.npz")
        .ok();
    let stopped = "stopped after epoch 3: no larger accuracy for 2 epochs";
    assert!(run.err.contains(stopped) && run.err.contains("best weights in"), "{}", run.err);
    let run = case.train("--epochs 9 --patience 1 --monitor loss --mode max").ok();
    assert!(run.err.contains("no larger loss for 1 epochs; the best was epoch 1"), "{}", run.err);
    let reduced = "--epochs 4 --reduce-rate 0.5 --reduce-after 2 --monitor loss --min-delta 1e9";
    let run = case.train(&format!("{reduced} --save @whole.npz")).ok();
    assert_eq!(
        run.err.matches("the learning rate is now 5.000e-1 of the program's").count(),
        1,
        "{}",
        run.err
    );
    // The rate and the count of epochs are resumed.
    case.train(&format!("{reduced} --epochs 3 --save @part.npz").replacen("--epochs 4 ", "", 1))
        .ok();
    case.train(&format!("{reduced} --resume @part.npz --save @part.npz")).ok();
    assert_eq!(case.weights("whole.npz"), case.weights("part.npz"));
    for (options, code, said) in [
        ("--patience 2 --monitor acuracy", 1, "did you mean `accuracy`?"),
        (
            "--patience 2 --monitor val_loss",
            1,
            "unknown result `val_loss` to watch: there are loss, accuracy",
        ),
        ("--reduce-rate 2", 2, "above 0 and below 1"),
        ("--patience 1 --min-delta -1", 2, "at least 0"),
        ("--monitor loss", 2, "nothing uses `--monitor`"),
    ] {
        let run = case.train(options);
        assert_eq!(run.code, code, "{options}: {}", run.err);
        assert!(
            run.err.contains(said) && !run.err.contains("Epoch 1/4 5/5"),
            "{options}: {}",
            run.err
        );
    }
}

#[test]
fn what_cannot_be_written_is_refused_before_training() {
    let case = Case::new("train_paths");
    for (options, code, said) in [
        ("--save @none/x.npz", 1, "cannot write"),
        ("--save-best @x.h5", 2, "ends in .safetensors or .npz or .weights.h5"),
        ("--save @noext", 2, "ends in .safetensors or .npz or .weights.h5"),
        ("--plot @none/x.svg", 1, "cannot write"),
        ("--plot @x.png", 2, "ends in .svg"),
        ("--log @none/x.jsonl", 1, "cannot write"),
        ("--validation 1.5", 2, "at least 0, and below 1"),
        ("--shape Point=3x2", 2, "the data say the shapes"),
        ("--log @points.csv", 2, "is read, and would be written over"),
        ("--weights @w.npz --log @w.npz", 2, "is read, and would be written over"),
        ("--resume @w.npz --log @w.npz", 2, "is read, and would be written over"),
        ("--plot @x.svg --log @x.svg", 2, "would be written twice"),
        ("--dim K=2 --dim K=3", 2, "is given twice"),
    ] {
        let run = case.train(options);
        assert_eq!(run.code, code, "{options}: {}", run.err);
        assert!(run.err.contains(said) && !run.err.contains("Epoch"), "{options}: {}", run.err);
    }
}

#[test]
fn folders_with_several_files_are_refused() {
    let case = Case::new("train_folders");
    fs::create_dir(case.0.folder.join("both")).unwrap();
    for file in ["train.csv", "test.csv"] {
        Points::write(&case.0.folder.join("both").join(file), 20);
    }
    let words =
        ["train", &case.0.path("points.tile"), "--data", &case.0.path("both")].map(str::to_owned);
    let run = tilec(words);
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains("it has test.csv and train.csv: say which, by its path"),
        "{}",
        run.err
    );
}

/// Training continues after standard error is closed, and its weights are saved.
#[test]
#[cfg(unix)]
fn a_closed_standard_error_ends_nothing() {
    let case = Case::new("train_closed");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tilec"))
        .args(case.words("--device cpu --save @weights.npz --epochs 3"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert!(child.wait().unwrap().success());
    case.train("--save @whole.npz --epochs 3").ok();
    assert_eq!(case.weights("weights.npz"), case.weights("whole.npz"));
}

/// Without `--entry`, the model with a `train` block is trained, and warnings of the others are not
/// printed. Metrics of one name are numbered, as in Keras.
#[test]
fn the_model_with_a_block_is_trained() {
    let case = Case::new("train_entry");
    let block = PROGRAM.replace(
        "[SparseCategoricalAccuracy(name = accuracy)]",
        "[SparseCategoricalAccuracy(name = accuracy), SparseCategoricalAccuracy(name = accuracy)]",
    );
    let other = "model Other(X[N, 3]) -> (Y) { Unused = X; Y = X; }";
    fs::write(case.0.folder.join("points.tile"), format!("{block}\n{other}")).unwrap();
    let run = case.train("--epochs 1 --log @log.csv --save @w.safetensors").ok();
    assert!(!run.err.contains("Unused"), "{}", run.err);
    let table = fs::read_to_string(case.0.folder.join("log.csv")).unwrap();
    assert_eq!(table.lines().next(), Some("epoch,loss,accuracy,accuracy_1,seconds"));
    for command in [
        "evaluate @points.tile --data @points.csv --weights",
        "predict @points.tile @points.csv --weights",
    ] {
        tilec(case.0.words(&format!("{command} @w.safetensors"))).ok();
    }
    let file = case.0.path("points.tile");
    assert!(tilec(["check", &file]).ok().err.contains("unused value `Unused`"));
    assert!(
        tilec(["run", &file, "--dim", "N=1", "--random", "1"])
            .ok()
            .err
            .contains("unused value `Unused`")
    );
    let named = ["run", &file, "--dim", "N=1", "--random", "1", "--entry", "Inside"];
    assert!(!tilec(named).ok().err.contains("Unused"));
}

/// Ctrl-C saves, and ends with exit code 130. A resumed run equals one that never stopped.
#[test]
#[cfg(unix)]
fn interrupted() {
    let case = Case::new("train_interrupted");
    let options =
        "--device cpu --validation 0.2 --epochs 1000000 --save @part.npz --log @log.jsonl";
    let mut child = Command::new(env!("CARGO_BIN_EXE_tilec"))
        .args(case.words(options))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while fs::read_to_string(case.0.folder.join("log.jsonl")).map_or(0, |log| log.lines().count())
        < 2
    {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let stop = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(stop.success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("stopped; `--resume"), "{said}");
    let epochs = case.lines("log.jsonl") + 2;
    case.train(&format!("--validation 0.2 --resume @part.npz --save @part.npz --epochs {epochs}"))
        .ok();
    case.train(&format!("--validation 0.2 --save @whole.npz --epochs {epochs}")).ok();
    assert_eq!(case.weights("whole.npz"), case.weights("part.npz"));
}

/// A model with a `train` block gets the types that it was trained on, whatever the type in the
/// file.
#[test]
fn run_sees_what_train_saw() {
    let file = program(
        "train_bytes",
        "model Half(X[N, 3]) -> (Y) { Y = X / 2; } train Half { loss = MeanSquaredError(); optimizer = SGD(); }",
    );
    let plain = program("run_bytes", "function f(X[N, 3]) -> (Y) { Y = X / 2; }");
    let array = file.with_file_name("x.npy");
    let bytes = tile_runtime::Tensor::from_bytes(
        tile_runtime::TensorType::new(tile_runtime::DType::U8, [1, 3]),
        vec![1, 2, 3],
    );
    tile_runtime::data::npy::write(&bytes.unwrap(), fs::File::create(&array).unwrap()).unwrap();
    let run = |file: &Path| {
        let input = format!("X={}", array.display());
        tilec(["run", &file.display().to_string(), "--input", &input, "--json"])
            .ok()
            .text()
            .to_owned()
    };
    assert!(run(&file).contains("\"values\":[0.5,1"), "{}", run(&file));
    assert!(run(&plain).contains("\"values\":[0,1,1]"), "{}", run(&plain));
}
