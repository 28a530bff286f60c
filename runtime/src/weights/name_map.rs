//! Maps the names in a file of weights to the paths of a program.
//!
//! A map is a text with a line for each pair: `encoder.layer.*.weight = blocks[*].Kernel`. A `#` at
//! the start of a line or after a space begins a comment. The text that `*` matches on the left,
//! without `.` and `/`, replaces `*` on the right. If several lines match a name, the first wins.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use tile_lang::did_you_mean;

use super::{WeightsError, caused, error};
use crate::files::{open_file, read_file};

/// The maximum number of lines that are applied to each name of a file.
const MOST_PATTERNS: usize = 1000;

/// A map from names in a file to paths of the program.
///
/// ```
/// use tile_runtime::weights::NameMap;
///
/// let map = NameMap::parse("names.txt", "layers.0.weight = dense.Kernel\n")?;
/// assert!(!map.is_empty());
/// assert!(NameMap::parse("names.txt", "no equals sign").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameMap {
    file: PathBuf,
    pairs: Vec<Pair>,
}

/// A line of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    line: usize,
    name: String,
    path: String,
}

impl NameMap {
    /// Reads a map from a text file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or a line is no pair, with its number.
    pub fn open(file: impl AsRef<Path>) -> Result<NameMap, WeightsError> {
        let file = file.as_ref();
        let opened = open_file(file).map_err(|e| caused(file, e))?;
        let (bytes, _) = read_file(opened, None).map_err(|e| caused(file, e))?;
        let text = String::from_utf8(bytes).map_err(|_| error(file, "expected text in UTF-8"))?;
        NameMap::parse(file, &text)
    }

    /// Parses the text of a map. `file` is its name in error messages.
    ///
    /// # Errors
    /// Fails if a line is no pair, or a name has two lines.
    pub fn parse(file: impl Into<PathBuf>, text: &str) -> Result<NameMap, WeightsError> {
        let file = file.into();
        let mut pairs: Vec<Pair> = Vec::new();
        for (line, text) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
            let failed = |what: String| error(&file, format!("line {line}: {what}"));
            let comment = text.find(" #").unwrap_or(text.len());
            let text = text[..comment].trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let pair = text.split_once('=').map(|(name, path)| (name.trim(), path.trim()));
            let Some((name, path)) =
                pair.filter(|(name, path)| !name.is_empty() && !path.is_empty())
            else {
                return Err(failed(format!(
                    "expected `NAME IN THE FILE = NAME IN THE PROGRAM`, found `{text}`"
                )));
            };
            let stars = |text: &str| text.matches('*').count();
            if stars(name) > 1 || stars(path) != stars(name) {
                return Err(failed(format!(
                    "expected one `*` on both sides, or none, found `{text}`"
                )));
            }
            pairs.push(Pair { line, name: name.to_owned(), path: path.to_owned() });
        }
        let mut sorted: Vec<&Pair> = pairs.iter().collect();
        sorted.sort_by_key(|pair| (&pair.name, pair.line));
        if let Some(two) = sorted.windows(2).find(|two| two[0].name == two[1].name) {
            let what = format!(
                "line {}: `{}` is already in line {}",
                two[1].line, two[1].name, two[0].line
            );
            return Err(error(&file, what));
        }
        if pairs.iter().filter(|pair| pair.name.contains('*')).count() > MOST_PATTERNS {
            return Err(error(&file, format!("expected at most {MOST_PATTERNS} lines with `*`")));
        }
        Ok(NameMap { file, pairs })
    }

    /// Returns whether the file has no lines.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the program's path for the entry of each name, or `None` for an entry that the map
    /// leaves alone.
    ///
    /// # Errors
    /// Fails if a line names an entry or a weight that does not exist, with the nearest name.
    pub(super) fn apply(
        &self,
        names: &[&str],
        weights: &[&str],
    ) -> Result<Vec<Option<String>>, WeightsError> {
        let (exact, patterns): (Vec<&Pair>, Vec<&Pair>) =
            self.pairs.iter().partition(|pair| !pair.name.contains('*'));
        let exact: HashMap<&str, &Pair> =
            exact.into_iter().map(|pair| (pair.name.as_str(), pair)).collect();
        let known: HashSet<&str> = weights.iter().copied().collect();
        let mut used = HashSet::new();
        let mut paths = Vec::with_capacity(names.len());
        for &name in names {
            let found = exact.get(name).map(|pair| (*pair, pair.path.clone())).or_else(|| {
                let mut matches =
                    patterns.iter().filter_map(|pair| Some((*pair, pair.matched(name)?)));
                matches.next()
            });
            let Some((pair, path)) = found else {
                paths.push(None);
                continue;
            };
            used.insert(pair.line);
            if !known.contains(path.as_str()) {
                return Err(self.unknown(pair, "program", &path, weights));
            }
            paths.push(Some(path));
        }
        match self.pairs.iter().find(|pair| !used.contains(&pair.line)) {
            Some(pair) => Err(self.unknown(pair, "file", &pair.name, names)),
            None => Ok(paths),
        }
    }

    fn unknown(&self, pair: &Pair, place: &str, name: &str, known: &[&str]) -> WeightsError {
        let guess = did_you_mean(name, known.iter().copied())
            .map_or(String::new(), |guess| format!("; {guess}"));
        error(&self.file, format!("line {}: the {place} has no `{name}`{guess}", pair.line))
    }
}

impl Pair {
    /// Returns the path for a name that this pattern matches.
    fn matched(&self, name: &str) -> Option<String> {
        let (start, end) = self.name.split_once('*')?;
        let star = name.strip_prefix(start)?.strip_suffix(end)?;
        (!star.is_empty() && !star.contains(['.', '/'])).then(|| self.path.replace('*', star))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<NameMap, String> {
        NameMap::parse("names.txt", text).map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_mapped() {
        let map = parse("# names\r\n\nfc.weight = head.Kernel # last\nlayers.*.w = blocks[*].W\n")
            .unwrap();
        let paths = map
            .apply(&["fc.weight", "layers.10.w", "rest"], &["head.Kernel", "blocks[10].W"])
            .unwrap();
        assert_eq!(paths, [Some("head.Kernel".to_owned()), Some("blocks[10].W".to_owned()), None]);
    }

    #[test]
    fn faults_have_their_line() {
        let faults = [
            ("a = b\nc", "line 2: expected `NAME IN THE FILE = NAME IN THE PROGRAM`, found `c`"),
            ("= b", "line 1: expected `NAME IN THE FILE = NAME IN THE PROGRAM`, found `= b`"),
            ("a.* = b", "line 1: expected one `*` on both sides, or none, found `a.* = b`"),
            ("a = b\n\na = c", "line 3: `a` is already in line 1"),
        ];
        for (text, what) in faults {
            assert_eq!(parse(text).unwrap_err(), format!("names.txt: {what}"));
        }
        let apply = |text: &str| {
            parse(text).unwrap().apply(&["fc.weight"], &["head.Kernel"]).unwrap_err().to_string()
        };
        assert_eq!(
            apply("\nfc.wieght = head.Kernel"),
            "names.txt: line 2: the file has no `fc.wieght`; did you mean `fc.weight`?"
        );
        assert_eq!(
            apply("fc.weight = head.Kernal"),
            "names.txt: line 1: the program has no `head.Kernal`; did you mean `head.Kernel`?"
        );
    }
}
