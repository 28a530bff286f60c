//! [`Tuned`]: a table of measured schedules, keyed by nest. It is plain data: the compiler neither
//! measures nor stores it.
//!
//! Invariant: a schedule is used only for a nest that has it as a candidate. So a table can make a
//! plan slower, but not wrong.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use super::{Schedule, candidates, choose};
use crate::nest::Nest;
use crate::profile::Profile;

/// The key of a nest: a hash of its text form without names. Nests with equal keys get the same
/// schedule, if it suits them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u64);

impl Key {
    /// Returns the key of a nest.
    pub fn of(nest: &Nest) -> Key {
        let mut nest = nest.anonymous();
        // Gives axes distinct names, so that the text form tells them apart.
        nest.axes
            .iter_mut()
            .enumerate()
            .for_each(|(number, axis)| axis.name = format!("a{number}"));
        // FNV-1a, which is the same in every version of Rust.
        let step =
            |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Key(nest.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, step))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Key, String> {
        let number = u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16);
        number
            .map(Key)
            .ok_or_else(|| format!("`{text}` is not the key of a kernel, 16 hexadecimal digits"))
    }
}

/// A table of schedules that take precedence over the first choice of the cost model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuned(HashMap<Key, Schedule>);

/// The origin of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first choice of the cost model.
    #[default]
    Predicted,
    /// The table's schedule: the fastest of those measured.
    Tuned,
    /// The first choice of the cost model, because the table's schedule does not suit the nest.
    Unsuited,
}

impl Tuned {
    /// Returns the schedule for nests with this key.
    pub fn get(&self, key: Key) -> Option<&Schedule> {
        self.0.get(&key)
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the schedule of `nest`: the table's if it has one that suits, else the first choice
    /// of the cost model.
    pub(crate) fn choose(&self, nest: &Nest, profile: &Profile) -> (Schedule, Choice) {
        let tuned = if self.is_empty() { None } else { self.get(Key::of(nest)) };
        match tuned {
            None => (choose(nest, profile), Choice::Predicted),
            Some(tuned) if candidates(nest, profile).contains(tuned) => {
                (tuned.clone(), Choice::Tuned)
            }
            Some(_) => (choose(nest, profile), Choice::Unsuited),
        }
    }
}

impl FromIterator<(Key, Schedule)> for Tuned {
    fn from_iter<T: IntoIterator<Item = (Key, Schedule)>>(entries: T) -> Tuned {
        Tuned(entries.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::pipeline;
    use crate::plan::Work;

    fn key(names: [&str; 3], size: usize, operation: &str) -> Key {
        let [x, i, j] = names;
        let text = format!(
            "graph model(%0) -> (Y = %1)\n%0 = input {x} : f32[8, {size}]\n%1 = contract {operation} [{i}] ({i}: 0..8, {j}: 0..{size}) \
             {{ v0 = %0[{i}, {j}]; yield v0 }} : f32[8]\n"
        );
        let plan = pipeline::plan(&Graph::parse(&text).unwrap(), &Profile::generic()).unwrap();
        let Some(Work::Nest(nest)) = plan.routines.iter().next().map(|routine| &routine.work)
        else {
            panic!("a nest")
        };
        Key::of(nest)
    }

    #[test]
    fn keys_are_those_of_what_is_computed() {
        let one = key(["X", "i", "j"], 16, "sum");
        assert_eq!(one, key(["Input", "row", "column"], 16, "sum"));
        assert_ne!(one, key(["X", "i", "j"], 17, "sum"));
        assert_ne!(one, key(["X", "i", "j"], 16, "max"));
        assert_eq!(one.to_string().parse(), Ok(one));
        assert!("xyz".parse::<Key>().is_err() && "12".parse::<Key>().is_err());
    }
}
