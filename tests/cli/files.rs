//! Files of `tilec`: imports below the program's folder, outputs that are whole or not there, paths
//! of any bytes.
#![cfg(unix)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use insta::assert_snapshot;

use crate::tilec::{Run, empty_folder, tilec};

const NETWORK: &str = "
model M(X[N, 3]) -> (Y) { Y = X |> Dense(4, activation = tanh) |> Dense(1); }
train M { loss = mse; optimizer = Adam(0.01); batch_size = 4; epochs = 3; }
";

/// A folder with a network and samples for it.
fn network(folder: PathBuf) -> PathBuf {
    fs::write(folder.join("m.tile"), NETWORK).unwrap();
    let rows: String = (0..12).map(|n| format!("{n},{},{},{}\n", n % 3, n % 5, n % 2)).collect();
    fs::write(folder.join("d.csv"), format!("a,b,c,y\n{rows}")).unwrap();
    folder
}

/// Words of a command line; what begins with `@` is in the folder.
fn words(folder: &Path, line: &str) -> Vec<OsString> {
    let word = |word: &str| match word.split_once('@') {
        Some((before, name)) => {
            let mut word = OsString::from(before);
            word.push(folder.join(name));
            word
        }
        None => word.into(),
    };
    line.split_whitespace().map(word).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn imports_from_outside_are_not_read() {
    let folder = empty_folder("imports_outside");
    let main = folder.join("program/main.tile");
    fs::create_dir(folder.join("program")).unwrap();
    fs::write(folder.join("secret.tile"), "function f(X) -> (Y) { this is secret\n").unwrap();
    symlink("../secret.tile", folder.join("program/link.tile")).unwrap();
    assert!(Command::new("mkfifo").arg(folder.join("program/fifo")).status().unwrap().success());
    let check = |import: &str, options: &[&str]| {
        fs::write(&main, format!("import \"{import}\";\nfunction g(X[N]) -> (Y) {{ Y = X; }}\n"))
            .unwrap();
        let run = tilec(["check", main.to_str().unwrap()].iter().chain(options));
        (run.code, run.err.replace(folder.to_str().unwrap(), "DIR"))
    };
    let (code, said) = check("../secret.tile", &[]);
    assert_eq!(code, 1);
    assert_snapshot!(said, @r#"
    [E0135] Error: cannot import `DIR/secret.tile`: it is outside of the program's folder
       ╭─[ DIR/program/main.tile:1:1 ]
       │
     1 │ import "../secret.tile";
       │ ────────────┬───────────
       │             ╰───────────── here
       │
       │ Help: pass `--allow-import DIR` to allow imports from below another folder
    ───╯
    "#);
    for import in ["link.tile", "/etc/passwd", "/dev/zero", "/etc/none", "../none.tile"] {
        let (code, said) = check(import, &[]);
        assert!(
            code == 1
                && said.contains("[E0135]")
                && said.contains("is outside of the program's folder"),
            "{said}"
        );
        assert!(!said.contains("root:") && !said.contains("this is secret"), "{said}");
    }
    let (code, said) = check("fifo", &[]);
    assert!(code == 1 && said.contains("it is no regular file"), "{said}");
    let allowed = ["--allow-import", folder.to_str().unwrap()];
    assert!(check("../secret.tile", &allowed).1.contains("this is secret"));
    fs::write(folder.join("secret.tile"), "function f(X) -> (Y) { Y = X; }\n").unwrap();
    assert_eq!(check("link.tile", &allowed), (0, String::new()));
}

#[test]
fn names_of_files_are_any_bytes() {
    let name = OsStr::from_bytes(b"\xff\xfe");
    let base = empty_folder("any_bytes");
    let folder = base.join(name);
    fs::create_dir(&folder).unwrap();
    network(folder.clone());
    let path = |end: &str| {
        let mut name = name.to_owned();
        name.push(end);
        folder.join(name)
    };
    for (from, to) in [("m.tile", ".tile"), ("d.csv", ".csv")] {
        fs::rename(folder.join(from), path(to)).unwrap();
    }
    fs::write(folder.join("half.tile"), "function half(X) -> (Y) { Y = X / 2; }").unwrap();
    let text = fs::read_to_string(path(".tile")).unwrap().replace("Dense(1)", "Dense(1) |> half");
    fs::write(path(".tile"), format!("import \"half.tile\";{text}")).unwrap();
    let equals = |option: &str, path: PathBuf| {
        let mut word = OsString::from(option);
        word.push(path);
        word
    };
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let option = |name: &str, path: PathBuf| vec![name.into(), path.into_os_string()];
    let run = |words: &[Vec<OsString>]| tilec(words.concat()).ok();
    let program = path(".tile").into_os_string();
    run(&[words(&["check"]), vec![program.clone()]]);
    run(&[words(&["fmt"]), vec![program.clone()]]);
    run(&[vec![program.clone()], words(&["--emit", "msl"]), option("-o", path(".emitted"))]);
    assert!(names(&path(".emitted")).iter().all(|name| name.ends_with(".metal")));
    let train = [
        vec!["train".into(), program.clone()],
        option("--data", path(".csv")),
        option("--validation", path(".csv")),
        option("--save", path(".safetensors")),
        option("--save-best", path(".npz")),
        option("--log", path(".jsonl")),
        option("--plot", path(".svg")),
    ];
    run(&train);
    run(&[train.concat(), words(&["--epochs", "4"]), option("--resume", path(".safetensors"))]);
    let data = base.join(OsStr::from_bytes(b"\xfd"));
    fs::create_dir(&data).unwrap();
    fs::copy(path(".csv"), data.join(OsStr::from_bytes(b"\xfc.csv"))).unwrap();
    run(&[words(&["train", "--epochs", "1"]), vec![program.clone()], option("--data", data)]);
    assert_eq!(fs::read_to_string(path(".jsonl")).unwrap().lines().count(), 4);
    let outputs = [
        words(&["run", "--shape", "X=2x3", "--random", "1"]),
        vec![program.clone()],
        option("--weights", path(".npz")),
        option("--output-dir", path(".outputs")),
    ];
    run(&outputs);
    let output = vec!["--output".into(), equals("Y=", path("y.npy"))];
    run(&[outputs.concat(), output]);
    assert_eq!(fs::read(path(".outputs").join("Y.npy")).unwrap(), fs::read(path("y.npy")).unwrap());
    fs::write(path("f.tile"), "function f(X[N, K]) -> (Y) { Y = X + X; }").unwrap();
    let doubled =
        vec!["run".into(), path("f.tile").into(), "--input".into(), equals("X=", path("y.npy"))];
    assert!(run(&[doubled]).text().contains("f32[2, 1]"));
    let bench = words(&["bench", "--iterations", "1", "--json", "--shape", "X=2x3"]);
    run(&[bench, vec![path("f.tile").into()], option("--trace", path(".json"))]);
    fs::copy("tests/golden/onnx/attention.onnx", path(".onnx")).unwrap();
    run(&[words(&["import"]), vec![path(".onnx").into()], option("-o", path(".imported.tile"))]);
    run(&[words(&["summary"]), vec![path(".onnx").into()]]);
    assert!(names(&folder).iter().all(|name| !name.contains(".part")), "{:?}", names(&folder));
}

/// Runs `tilec` with a limit on the size of the files that it writes, in blocks of 512 bytes.
fn limited(blocks: u32, arguments: &[OsString]) -> Run {
    let line = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).arg(env!("CARGO_BIN_EXE_tilec")).args(arguments);
    let output = command.env("TILE_DEVICE", "cpu").env("TILE_CACHE", "").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    Run {
        code: output.status.code().unwrap_or_else(|| panic!("a signal ended it: {err}")),
        out: output.stdout,
        err,
    }
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let folder = network(empty_folder("full_disk"));
    let saved =
        "train @m.tile --data @d.csv --save @w.safetensors --save-best @w.npz --log @log.jsonl -q";
    tilec(words(&folder, saved)).ok();
    let before = names(&folder);
    let files = ["w.safetensors", "w.npz", "log.jsonl"].map(|name| folder.join(name));
    let contents = files.each_ref().map(|file| fs::read(file).unwrap());
    let larger = "function f(X[N]) -> (Y) { Y = X + 1; }";
    fs::write(folder.join("f.tile"), larger).unwrap();
    for line in [
        "train @m.tile --data @d.csv --save @w.safetensors -q",
        "train @m.tile --data @d.csv --save @w.npz -q",
        "run @f.tile --shape X=1000 --random 1 --output Y=@y.npy",
        "run @f.tile --shape X=1000 --random 1 --output-dir @.",
        "run @f.tile --shape X=1000x100x3 --random 1 --output Y=@y.png",
        "@m.tile --emit msl --dim N=64 -o @out",
    ] {
        if line.contains("y.png") {
            fs::write(folder.join("f.tile"), "function f(X[H, W, C]) -> (Y) { Y = X * 255; }")
                .unwrap();
        }
        let run = limited(1, &words(&folder, line));
        let said = &run.err;
        assert!(
            run.code == 3 && said.contains("cannot write") && !said.contains("ZipWriter"),
            "{line}: {said}"
        );
        assert!(said.lines().count() == 1, "{line}: {said}");
    }
    fs::remove_file(folder.join("f.tile")).unwrap();
    fs::remove_dir_all(folder.join("out")).unwrap();
    assert_eq!(names(&folder), before);
    assert_eq!(files.map(|file| fs::read(file).unwrap()), contents);
    // A log has the lines for which there was room.
    let run =
        limited(1, &words(&folder, "train @m.tile --data @d.csv --epochs 100 --log @log.jsonl -q"));
    assert!(run.code == 3 && run.err.contains("cannot write"), "{}", run.err);
    let log = fs::read_to_string(folder.join("log.jsonl")).unwrap();
    assert!(log.ends_with("}\n") && log.len() <= 512 && log.lines().count() > 3, "{log}");
}

fn spawn(arguments: &[OsString]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilec"));
    command.args(arguments).env("TILE_CACHE", "").stderr(Stdio::piped()).spawn().unwrap()
}

/// Ends a process at once, as a crash does, when the file is there.
fn kill_after(mut child: Child, file: &Path) {
    while !file.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_crash_leaves_whole_files_to_go_on_with() {
    let folder = network(empty_folder("crash"));
    let options = "train @m.tile --data @d.csv --device cpu -q --save @w.npz --save-best @best.npz --log @log.jsonl";
    kill_after(
        spawn(&words(&folder, &format!("{options} --epochs 1000000"))),
        &folder.join("w.npz"),
    );
    // A process that is killed while it replaces a file leaves at most that file's unfinished copy.
    let (unfinished, files): (Vec<String>, Vec<String>) =
        names(&folder).into_iter().partition(|name| name.ends_with(".part"));
    assert!(unfinished.len() <= 1, "{unfinished:?}");
    assert_eq!(files, ["best.npz", "d.csv", "log.jsonl", "m.tile", "w.npz"]);
    let log = || fs::read_to_string(folder.join("log.jsonl")).unwrap();
    // As if the process had been killed before it wrote the last line.
    fs::write(folder.join("log.jsonl"), log().lines().take(1).collect::<String>() + "\n{\"epo")
        .unwrap();
    let epochs = |name: &str| format!("{options} --epochs 200").replace("@log", name);
    let resumed = format!("{} --resume @w.npz", epochs("@log"));
    tilec(words(&folder, &resumed)).ok();
    assert_eq!(names(&folder), files);
    let whole = epochs("@whole").replace("@w.npz", "@whole.npz").replace("@best", "@whole_best");
    tilec(words(&folder, &whole)).ok();
    for (one, other) in [("w.npz", "whole.npz"), ("best.npz", "whole_best.npz")] {
        assert!(
            fs::read(folder.join(one)).unwrap() == fs::read(folder.join(other)).unwrap(),
            "{one}"
        );
    }
    let numbers: Vec<String> =
        log().lines().map(|line| line[..line.find(',').unwrap()].to_owned()).collect();
    let expected: Vec<String> = (1..=200).map(|number| format!("{{\"epoch\":{number}")).collect();
    assert_eq!(numbers, expected);
}

/// Pipes and devices are written where they are.
#[test]
fn a_pipe_takes_an_output() {
    let folder = network(empty_folder("pipes"));
    fs::write(folder.join("f.tile"), "function f(X[N]) -> (Y) { Y = X + 1; }").unwrap();
    assert!(Command::new("mkfifo").arg(folder.join("y.npy")).status().unwrap().success());
    let reader =
        Command::new("cat").arg(folder.join("y.npy")).stdout(Stdio::piped()).spawn().unwrap();
    tilec(words(&folder, "run @f.tile --shape X=3 --random 1 --output Y=@y.npy")).ok();
    let read = reader.wait_with_output().unwrap().stdout;
    assert!(read.starts_with(b"\x93NUMPY") && read.len() == 128 + 12, "{}", read.len());
    symlink("/dev/full", folder.join("full.npy")).unwrap();
    let run = tilec(words(&folder, "run @f.tile --shape X=3 --random 1 --output Y=@full.npy"));
    assert!(run.code == 3 && run.err.contains("No space left on device"), "{}", run.err);
}
