//! "Did you mean" suggestions: the known word nearest to an unknown one.

/// The maximum length, in characters, of a word that gets a suggestion.
const LONGEST: usize = 128;
/// The maximum number of character pairs compared for one suggestion. A word that would need more
/// gets none.
const MOST_PAIRS: usize = 1 << 20;

/// The number of errors of one check that may have a suggestion. Fewer are shown.
pub(crate) const SUGGESTIONS: usize = 100;

/// Returns `did you mean …?` for the nearest candidate. Candidates that differ only in case always
/// qualify. Others may differ from `word` in one letter of three, at most 3.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    if word.len() > 4 * LONGEST {
        return None;
    }
    let letters: Vec<char> = word.chars().collect();
    if letters.len() > LONGEST {
        return None;
    }
    let limit = (letters.len() / 3).min(3);
    let lower = |a: char, b: char| a.eq_ignore_ascii_case(&b);
    let mut pairs = 0;
    let mut nearest: Option<(usize, usize, &str)> = None;
    for candidate in candidates {
        if candidate == word || candidate.len().abs_diff(word.len()) > 4 * limit {
            continue;
        }
        let other: Vec<char> = candidate.chars().collect();
        pairs += other.len() * (2 * limit + 1);
        let Some(edits) = distance(&letters, &other, limit, lower) else { continue };
        pairs += other.len() * letters.len();
        if pairs > MOST_PAIRS {
            return None;
        }
        // If two candidates differ only in case, the one in the case of the word wins.
        let exact = distance(&letters, &other, LONGEST, |a, b| a == b).unwrap_or(LONGEST);
        let found = (edits, exact, candidate);
        nearest = Some(nearest.map_or(found, |nearest| nearest.min(found)));
    }
    let (.., candidate) = nearest.filter(|_| pairs <= MOST_PAIRS)?;
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

/// Returns the edit distance of two words, or `None` if it exceeds `limit`. An edit is an
/// insertion, a removal, a replacement or a swap of neighbours. Only the band within `limit` of the
/// diagonal is computed.
fn distance(a: &[char], b: &[char], limit: usize, same: impl Fn(char, char) -> bool) -> Option<usize> {
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let far = limit + 1;
    let mut before_last = vec![far; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).map(|edits| edits.min(far)).collect();
    let mut row = vec![far; b.len() + 1];
    for i in 1..=a.len() {
        row.fill(far);
        row[0] = i.min(far);
        for j in i.saturating_sub(limit).max(1)..=b.len().min(i + limit) {
            let replaced = last[j - 1] + usize::from(!same(a[i - 1], b[j - 1]));
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1).min(far);
            if i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]) {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        std::mem::swap(&mut before_last, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    last.last().copied().filter(|edits| *edits <= limit)
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
        assert_eq!(did_you_mean("Weights", known), None);
    }

    #[test]
    fn long_words_and_many_candidates_have_no_suggestion() {
        let long = "a".repeat(LONGEST + 1);
        assert_eq!(did_you_mean(&long, [long.replacen('a', "b", 1).as_str()]), None);
        let many: Vec<String> = (0..1 << 16).map(|number| format!("name{number:05}")).collect();
        assert_eq!(did_you_mean("name0000x", many.iter().map(String::as_str)), None);
    }

    #[test]
    fn a_band_gives_the_distance_within_its_limit() {
        let word = |text: &str| text.chars().collect::<Vec<_>>();
        for (a, b, edits) in [("kitten", "sitting", 3), ("ab", "ba", 1), ("", "abc", 3), ("flaw", "lawn", 2)] {
            for limit in 0..5 {
                let found = distance(&word(a), &word(b), limit, |a, b| a == b);
                assert_eq!(found, Some(edits).filter(|edits| *edits <= limit), "{a} {b} {limit}");
            }
        }
    }
}
