//! Mistakes of beginners, each with its message. `mistakes/messages.snap` has all messages in full:
//! it is for reading. The tables state what a message must say whatever its form.

mod commands;
mod files;
mod habits;
mod meanings;
mod names;
mod shapes;
mod syntax;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::points::Points;
use crate::tilec::empty_folder;

/// A program as a beginner means it. Most mistakes are edits of it.
const NET: &str = "\
model Net(Point[N, 2]) -> (Y) {
    Y = Point
        |> Dense(8, activation = relu)
        |> Dense(2, activation = softmax);
}

train Net {
    loss = SparseCategoricalCrossentropy();
    optimizer = Adam(0.01);
    metrics = [SparseCategoricalAccuracy()];
    batch_size = 8;
    epochs = 3;
}
";

/// The program of a mistake.
enum Program {
    /// The valid program.
    Net,
    /// The valid program with one text replaced by another.
    Edit(&'static str, &'static str),
    Text(&'static str),
}
use Program::{Edit, Net, Text};

/// A mistake: its name, the program in `net.tile`, the command, and what the message must contain.
type Mistake = (&'static str, Program, &'static str, &'static [&'static str]);

/// Returns the exit code of `tilec COMMAND` in the folder, and everything that it printed.
fn run(folder: &Path, command: &str) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tilec"))
        .args(command.split_whitespace())
        .current_dir(folder)
        .env("TILE_DEVICE", "cpu")
        .env("TILE_CACHE", "")
        .output()
        .expect("tilec starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("tilec prints UTF-8");
    (output.status.code().unwrap_or(-1), text(output.stdout) + &text(output.stderr))
}

/// Removes losses and the name of the hardware, which differ between processors.
fn stable(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines().filter(|line| !line.starts_with("note: on cpu (")) {
        let losses = line
            .split_once("(the loss was ")
            .and_then(|(start, rest)| Some((start, rest.split_once(" before)")?.1)));
        let line = losses.map_or_else(
            || line.to_owned(),
            |(start, end)| format!("{start}(the loss was … before){end}"),
        );
        lines += &format!("{}\n", line.trim_end());
    }
    lines
}

#[test]
fn every_mistake_has_a_message_that_helps() {
    let folder = empty_folder("mistakes");
    files::write(&folder);
    Points::write(&folder.join("points.csv"), 40);
    fs::write(folder.join("net.tile"), NET).unwrap();
    let (code, said) = run(&folder, "train net.tile --data points.csv --save net.safetensors");
    assert_eq!(code, 0, "{said}");
    let tables = [
        syntax::MISTAKES,
        habits::MISTAKES,
        names::MISTAKES,
        shapes::MISTAKES,
        meanings::MISTAKES,
        files::MISTAKES,
        commands::MISTAKES,
    ];
    let (mut all, mut wrong) = (String::new(), Vec::new());
    for (name, program, command, says) in tables.into_iter().flatten() {
        let program = match program {
            Net => NET.to_owned(),
            Edit(from, to) => {
                assert!(NET.contains(from), "{name}: `{from}` is not in the program");
                NET.replacen(from, to, 1)
            }
            Text(text) => (*text).to_owned(),
        };
        fs::write(folder.join("net.tile"), program).unwrap();
        let (code, said) = run(&folder, command);
        let missing: Vec<_> = says.iter().filter(|text| !said.contains(**text)).collect();
        let is_reported = [1, 2, 3].contains(&code) || code == 0 && said.contains("Warning");
        // The line to change is the user's.
        let is_users = !said.lines().any(|line| line.trim_start().starts_with("╭─[ std/"));
        if !is_reported || !is_users || !missing.is_empty() {
            wrong.push(format!("{name}: exit code {code}, without {missing:?}\n{said}"));
        }
        all += &format!("## {name}\n$ tilec {command}\n{}\n", stable(&said));
    }
    assert!(tables.map(<[_]>::len).iter().sum::<usize>() >= 75);
    insta::with_settings!({ snapshot_path => "mistakes", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("messages", all);
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
