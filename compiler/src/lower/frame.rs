//! The position of evaluation in the tree of layers, from which weights get their paths.
//!
//! Invariant: within one application of a layer, no two instances get the same path, and a repeated
//! application assigns the same paths again. A path thus depends only on the program's text, and an
//! instance that is applied twice finds its weights.

use std::collections::{HashMap, HashSet};

/// One application of a layer, or the entry.
#[derive(Default)]
pub(super) struct Frame {
    /// The path of the layer; empty for the entry.
    pub path: String,
    taken: HashSet<String>,
    /// The next number to try as a suffix, for each name with its loop indices.
    numbers: HashMap<String, usize>,
    /// The indices of the enclosing loop iterations.
    pub loops: Vec<usize>,
    /// The number of random tensors made so far.
    random: u32,
}

impl Frame {
    pub fn new(path: String) -> Frame {
        Frame { path, ..Frame::default() }
    }

    /// Creates the frame of a layer whose earlier applications have made `random` random tensors.
    pub fn drawing(path: String, random: u32) -> Frame {
        Frame { path, random, ..Frame::default() }
    }

    /// Returns the number of random tensors made so far.
    pub fn drawn(&self) -> u32 {
        self.random
    }

    /// Returns the path of a part of this layer.
    pub fn join(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Returns a path that is not yet taken: `conv`, or `conv[2]` in a loop, or `conv_1` if the
    /// name is taken. A `given` name is used without loop indices if it is free.
    pub fn place(&mut self, name: &str, given: bool) -> String {
        let loops: String = self.loops.iter().map(|number| format!("[{number}]")).collect();
        let plain = format!("{name}{loops}");
        let next = self.numbers.get(&plain).copied().unwrap_or(0);
        let numbered = |n: usize| if n == 0 { plain.clone() } else { format!("{name}_{n}{loops}") };
        let (free, next) = match given && !self.taken.contains(name) {
            true => (name.to_owned(), next),
            false => {
                let free =
                    (next..).find(|n| !self.taken.contains(&numbered(*n))).unwrap_or_default();
                (numbered(free), free + 1)
            }
        };
        self.numbers.insert(plain, next);
        self.taken.insert(free.clone());
        self.join(&free)
    }

    /// Returns a number for a random tensor: the 31-bit FNV-1a hash of the path and a count. It
    /// differs between the tensors of a model, except for hash collisions, and is the same in every
    /// compilation.
    pub fn stream(&mut self) -> u32 {
        let text = format!("{}#{}", self.path, self.random);
        self.random += 1;
        let hash = text
            .bytes()
            .fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        hash & 0x7fff_ffff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_once() {
        let mut frame = Frame::new("block".into());
        assert_eq!(frame.place("conv", false), "block.conv");
        assert_eq!(frame.place("conv", false), "block.conv_1");
        frame.loops.push(2);
        assert_eq!(frame.place("conv", false), "block.conv[2]");
        assert_eq!(frame.place("conv", false), "block.conv_1[2]");
        assert_eq!(frame.place("head", true), "block.head");
        assert_eq!(frame.place("head", true), "block.head[2]");
    }
}
