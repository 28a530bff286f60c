//! "Did you mean" suggestions: the known word nearest to an unknown one.

use strsim::osa_distance;

/// The maximum length, in characters, of a word that gets a suggestion.
const LONGEST: usize = 128;
/// The maximum number of character pairs compared for one suggestion. A word that would need more
/// gets none.
const MOST_PAIRS: usize = 1 << 20;

/// The number of errors of one check that may have a suggestion. Fewer are shown.
pub(crate) const SUGGESTIONS: usize = 100;

/// Returns `did you mean …?` for the nearest candidate. Candidates that differ only in case always
/// qualify, and so does the layer `Conv2D` for `Conv`. Others may differ from `word` in one letter
/// of three, at most 3.
pub fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    if word.len() > 4 * LONGEST {
        return None;
    }
    let length = word.chars().count();
    if length > LONGEST {
        return None;
    }
    let limit = (length / 3).min(3);
    let lower = word.to_ascii_lowercase();
    let mut pairs = 0;
    let mut nearest: Option<(usize, usize, &str)> = None;
    for candidate in candidates {
        let short = candidate.strip_suffix("2D");
        if short.is_some_and(|short| length > 2 && short.eq_ignore_ascii_case(word)) {
            nearest = Some(nearest.map_or((0, 2, candidate), |near| near.min((0, 2, candidate))));
            continue;
        }
        if candidate == word || candidate.len().abs_diff(word.len()) > 4 * limit {
            continue;
        }
        let other = candidate.chars().count();
        // The distance is at least the difference in length.
        if other.abs_diff(length) > limit {
            continue;
        }
        pairs += 2 * other * length;
        if pairs > MOST_PAIRS {
            return None;
        }
        let edits = osa_distance(&lower, &candidate.to_ascii_lowercase());
        if edits <= limit {
            // If two candidates differ only in case, the one in the case of the word wins.
            let found = (edits, osa_distance(word, candidate), candidate);
            nearest = Some(nearest.map_or(found, |nearest| nearest.min(found)));
        }
    }
    let (.., candidate) = nearest?;
    Some(format!("did you mean `{candidate}`?"))
}

/// Returns the first names as a list, at most 8, and the number of the others.
pub fn listed(names: &[impl AsRef<str>]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_within_a_third_of_its_letters() {
        let known = ["Kernel", "Bias", "exp", "erf", "A"];
        assert_eq!(did_you_mean("Kernle", known).as_deref(), Some("did you mean `Kernel`?"));
        assert_eq!(did_you_mean("epx", known).as_deref(), Some("did you mean `exp`?"));
        assert_eq!(did_you_mean("a", known).as_deref(), Some("did you mean `A`?"));
        assert_eq!(did_you_mean("rleu", ["ReLU", "relu"]).as_deref(), Some("did you mean `relu`?"));
        assert_eq!(did_you_mean("KERNLE", known).as_deref(), Some("did you mean `Kernel`?"));
        assert_eq!(did_you_mean("b", known), None);
        let layers = ["Conv1D", "Conv2D", "Conv3D", "cov"];
        assert_eq!(did_you_mean("Conv", layers).as_deref(), Some("did you mean `Conv2D`?"));
        assert_eq!(did_you_mean("conv", layers).as_deref(), Some("did you mean `Conv2D`?"));
        assert_eq!(did_you_mean("Weights", known), None);
    }

    #[test]
    fn long_words_and_many_candidates_have_no_suggestion() {
        let long = "a".repeat(LONGEST + 1);
        assert_eq!(did_you_mean(&long, [long.replacen('a', "b", 1).as_str()]), None);
        let many: Vec<String> = (0..1 << 16).map(|number| format!("name{number:05}")).collect();
        assert_eq!(did_you_mean("name0000x", many.iter().map(String::as_str)), None);
    }
}
