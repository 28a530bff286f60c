//! The files that give a program its weights, and the parts of the program that they fill.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::name_map::NameMap;

/// A file of weights, or a part of one, and the part of the program that it fills.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeightsSource {
    /// The file.
    pub file: PathBuf,
    /// The path of the entries in the file to load, such as `encoder`. `None` loads all.
    pub part: Option<String>,
    /// The path of the instance in the program to fill, such as `base`. `None` fills the program.
    pub target: Option<String>,
}

impl WeightsSource {
    /// Creates a source that fills the whole program from a whole file.
    pub fn new(file: impl Into<PathBuf>) -> WeightsSource {
        WeightsSource { file: file.into(), part: None, target: None }
    }

    /// Fills the instance at this path of the program, such as `base` or `blocks[3].attention`.
    pub fn target(mut self, path: impl Into<String>) -> WeightsSource {
        self.target = Some(path.into());
        self
    }

    /// Loads only the entries at this path of the file.
    pub fn part(mut self, path: impl Into<String>) -> WeightsSource {
        self.part = Some(path.into());
        self
    }

    /// Parses `FILE`, `PATH=FILE`, `FILE#PART` or `PATH=FILE#PART`.
    ///
    /// - A text that names an existing file is that file.
    /// - The text before the first `=` is a path only if it has the characters of one: letters,
    ///   digits, `_`, `.`, `[` and `]`. So `./lr=0.1.npz` is a file.
    /// - The text after the last `#` is a part only if the whole is not an existing file.
    pub fn parse(text: &OsStr) -> WeightsSource {
        let Some(text) = text.to_str().filter(|text| !Path::new(text).exists()) else {
            return WeightsSource::new(text);
        };
        let is_path = |path: &str| {
            let is_part = |c: char| c.is_alphanumeric() || "_.[]".contains(c);
            path.starts_with(|c: char| c.is_alphabetic() || c == '_') && path.chars().all(is_part)
        };
        let (target, file) = match text.split_once('=') {
            Some((path, file)) if is_path(path) => (Some(path.to_owned()), file),
            _ => (None, text),
        };
        let split =
            file.rsplit_once('#').filter(|(file, part)| !file.is_empty() && !part.is_empty());
        let (file, part) = match split {
            Some((name, part)) if !Path::new(file).exists() => (name, Some(part.to_owned())),
            _ => (file, None),
        };
        WeightsSource { file: file.into(), part, target }
    }
}

/// How [`crate::Session::load_with`] and [`crate::train::Trainer::load_with`] load weights.
///
/// ```
/// use tile_runtime::weights::{LoadOptions, WeightsSource};
///
/// let base = WeightsSource::new("imagenet.safetensors").part("encoder").target("base");
/// let options = LoadOptions::new([base]).partial(true);
/// assert_eq!(options.sources[0].target.as_deref(), Some("base"));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The files. A weight is filled by the source with the longest target that contains it.
    pub sources: Vec<WeightsSource>,
    /// Permits entries that no weight takes. In a Keras file these are whole layers.
    pub allow_extra: bool,
    /// Permits weights that the files lack, in a Keras file whole layers. They keep their values,
    /// or are initialised later.
    pub partial: bool,
    /// The weights of entries with other names.
    pub names: NameMap,
}

impl LoadOptions {
    /// Loads these sources completely.
    pub fn new(sources: impl IntoIterator<Item = WeightsSource>) -> LoadOptions {
        LoadOptions { sources: sources.into_iter().collect(), ..LoadOptions::default() }
    }

    /// Loads a whole file into the whole program.
    pub fn file(file: impl Into<PathBuf>) -> LoadOptions {
        LoadOptions::new([WeightsSource::new(file)])
    }

    /// Permits entries that no weight takes.
    pub fn allow_extra(mut self, allow: bool) -> LoadOptions {
        self.allow_extra = allow;
        self
    }

    /// Permits weights that the files lack.
    pub fn partial(mut self, partial: bool) -> LoadOptions {
        self.partial = partial;
        self
    }

    /// Gives entries the weights of a map.
    pub fn names(mut self, names: NameMap) -> LoadOptions {
        self.names = names;
        self
    }

    /// Returns whether entries have the names of weights, unless a file has a format with other
    /// names.
    pub(crate) fn is_plain(&self) -> bool {
        let is_whole = |source: &WeightsSource| source.part.is_none() && source.target.is_none();
        self.names.is_empty() && self.sources.iter().all(is_whole)
    }
}

/// The entries and weights without a counterpart after loading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadReport {
    /// The entries that no weight takes, by file.
    pub unused: Vec<(PathBuf, Vec<String>)>,
    /// The paths of the program's weights that no file filled.
    pub missing: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_parsed() {
        let parse = |text: &str| WeightsSource::parse(text.as_ref());
        let whole = |file: &str| WeightsSource::new(file);
        assert_eq!(parse("w.npz"), whole("w.npz"));
        assert_eq!(parse("base=w.npz"), whole("w.npz").target("base"));
        assert_eq!(
            parse("blocks[3].a=w.npz#x.y"),
            whole("w.npz").target("blocks[3].a").part("x.y")
        );
        assert_eq!(parse("./lr=1/w.npz"), whole("./lr=1/w.npz"));
        assert_eq!(parse(r"C:\w=1.npz#a"), whole(r"C:\w=1.npz").part("a"));
        assert_eq!(parse("a=b=c.npz"), whole("b=c.npz").target("a"));
        assert_eq!(parse("w.npz#"), whole("w.npz#"));
        assert_eq!(parse("=w.npz"), whole("=w.npz"));
        let folder =
            std::env::temp_dir().join(format!("tilec-test-{}-sources", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a#b=c.npz");
        std::fs::write(&file, "").unwrap();
        assert_eq!(WeightsSource::parse(file.as_ref()), WeightsSource::new(&file));
        let text = format!("base={}", file.display());
        assert_eq!(WeightsSource::parse(text.as_ref()), WeightsSource::new(&file).target("base"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
