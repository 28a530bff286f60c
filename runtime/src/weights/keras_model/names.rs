//! The names of tensors, layers and models in a program, from those in Keras.

use std::collections::{HashMap, HashSet};

use super::super::keras::label;
use super::config::Layer;
use super::options;

/// Names that are given once.
#[derive(Default)]
pub struct Names {
    pub given: HashSet<String>,
    /// The next number to try after each name.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// Returns a name that is free: `name`, or `name` with a number.
    pub fn free(&mut self, name: &str) -> String {
        let number = self.numbers.entry(name.to_owned()).or_insert(1);
        loop {
            let found = if *number == 1 { name.to_owned() } else { format!("{name}{number}") };
            *number += 1;
            if !options::is_taken(&found) && self.given.insert(found.clone()) {
                return found;
            }
        }
    }
}

/// The names that Keras gives models.
pub const MODELS: [&str; 3] = ["sequential", "functional", "model"];

/// Returns whether Keras made a name, of `base` and a number.
pub fn is_numbered(name: &str, base: &str) -> bool {
    let is_number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix(base).is_some_and(|rest| is_number(rest.trim_start_matches('_')))
}

/// Returns the name that a user gave a layer, without characters that a path cannot have.
pub fn given_name(layer: &Layer) -> Option<String> {
    let is_automatic = match layer.network {
        Some(_) => MODELS.iter().any(|base| is_numbered(&layer.name, base)),
        None => is_numbered(&layer.name, &label(&layer.class)),
    };
    let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = layer.name.chars().map(clean).collect();
    let start = if name.starts_with(|c: char| c.is_ascii_alphabetic()) { "" } else { "x" };
    (!is_automatic && !name.is_empty()).then(|| format!("{start}{name}"))
}
