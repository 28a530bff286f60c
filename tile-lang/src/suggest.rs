//! "Did you mean": the known word that is nearest to a wrong one.

/// `did you mean …?` for the candidate that differs from `word` in case only, or in one letter of three, if there is one.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let letters = word.to_ascii_lowercase();
    let limit = (word.chars().count() / 3).min(3);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != word)
        // Of two that differ in case from each other, that in the case of the word.
        .map(|candidate| (distance(&letters, &candidate.to_ascii_lowercase()), distance(word, candidate), candidate))
        .filter(|(edits, ..)| *edits <= limit)
        .min()
        .map(|(.., candidate)| format!("did you mean `{candidate}`?"))
}

/// The number of insertions, removals, replacements and swaps of neighbours between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
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
        assert_eq!(did_you_mean("b", known), None);
        assert_eq!(did_you_mean("Weights", known), None);
    }
}
