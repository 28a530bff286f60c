//! A small classifier of points, with its samples: the tests of `train`, `evaluate` and `predict`
//! share it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tilec::{Run, empty_folder, tilec};

pub const PROGRAM: &str = "
model Inside(Point[N, 2]) -> (Logits) {
    Logits = Point |> Dense(8, activation = tanh) |> Dense(2);
}

train Inside {
    loss = SparseCategoricalCrossentropy(from_logits = true);
    optimizer = Adam(0.01);
    metrics = [SparseCategoricalAccuracy(name = accuracy)];
    batch_size = 10;
    epochs = 4;
}";

/// A folder with the program and 60 points.
pub struct Points {
    pub folder: PathBuf,
}

impl Points {
    pub fn new(name: &str) -> Points {
        let folder = empty_folder(name);
        fs::write(folder.join("points.tile"), PROGRAM).unwrap();
        Points::write(&folder.join("points.csv"), 60);
        Points { folder }
    }

    /// Writes a table of points, with 1 for those in a circle.
    pub fn write(file: &Path, count: usize) {
        let point = |n: usize| {
            let (x, y) = ((n * 37 % 101) as f64 / 50.0 - 1.0, (n * 61 % 97) as f64 / 48.0 - 1.0);
            format!("{x},{y},{}\n", i32::from(x * x + y * y < 0.6))
        };
        fs::write(file, format!("x,y,inside\n{}", (0..count).map(point).collect::<String>()))
            .unwrap();
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Splits a command line into words; a word that begins with `@` is a file in the folder.
    pub fn words(&self, line: &str) -> Vec<String> {
        let file = |word: &str| {
            word.strip_prefix('@').map_or_else(|| word.to_owned(), |name| self.path(name))
        };
        line.split_whitespace().map(file).collect()
    }

    /// Runs a command on the program.
    pub fn run(&self, command: &str, options: &str) -> Run {
        tilec(self.words(&format!("{command} @points.tile {options}")))
    }
}
