//! Where in the tree of layers evaluation is, which gives weights their paths.
//!
//! Always true: within one application of a layer no two instances get one path, and applying the layer again gives the
//! same ones. So a path is a function of the program's text, and an instance that is applied twice finds its weights.

use std::collections::HashSet;

/// One application of a layer, or the entry.
#[derive(Default)]
pub(super) struct Frame {
    /// Empty for the entry.
    pub path: String,
    taken: HashSet<String>,
    /// The numbers of the iterations that evaluation is in.
    pub loops: Vec<usize>,
    /// How many random tensors were made.
    random: u32,
}

impl Frame {
    pub fn new(path: String) -> Frame {
        Frame { path, ..Frame::default() }
    }

    /// The path of a part of this layer.
    pub fn join(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// A path that nothing has yet, after a name: `conv`, in a loop `conv[2]`; where that is taken `conv_1`. A name that
    /// was `given` for this place alone stands as it is.
    pub fn place(&mut self, name: &str, given: bool) -> String {
        let loops: String = self.loops.iter().map(|number| format!("[{number}]")).collect();
        let candidates = (0..).map(|n| if n == 0 { format!("{name}{loops}") } else { format!("{name}_{n}{loops}") });
        let mut candidates = given.then(|| name.to_owned()).into_iter().chain(candidates);
        let free = candidates.find(|candidate| !self.taken.contains(candidate)).unwrap_or_default();
        self.taken.insert(free.clone());
        self.join(&free)
    }

    /// A number for a random tensor, different for each tensor of a model (but for collisions of a 31-bit hash), and
    /// the same at every compilation. FNV-1a of the path and a count.
    pub fn stream(&mut self) -> u32 {
        let text = format!("{}#{}", self.path, self.random);
        self.random += 1;
        let hash = text.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
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
