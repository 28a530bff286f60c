//! Converts names in the source to names of weights and kernels.

/// Converts a name to snake case as Keras names the first instance of a class: `MaxPooling2D`
/// becomes `max_pooling2d`, and `RMSNormalization` becomes `rms_normalization`. Characters other
/// than letters and digits become `_`.
pub fn snake_case(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let mut words = String::new();
    for (position, &c) in characters.iter().enumerate() {
        let before = position.checked_sub(1).map(|before| characters[before]);
        let after_small = before.is_some_and(|before| before.is_ascii_lowercase());
        let begins_word = before
            .is_some_and(|before| before.is_ascii_uppercase() || before.is_ascii_digit())
            && characters.get(position + 1).is_some_and(|next| next.is_ascii_lowercase());
        if c.is_ascii_uppercase() && (after_small || begins_word) {
            words.push('_');
        }
        words.push(if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' });
    }
    words.trim_end_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_keras_has_them() {
        let classes = [
            "Dense",
            "MultiHeadAttention",
            "Conv2D",
            "LSTM",
            "RMSNormalization",
            "Conv2DTranspose",
            "F1Score",
        ];
        let names = [
            "dense",
            "multi_head_attention",
            "conv2d",
            "lstm",
            "rms_normalization",
            "conv2d_transpose",
            "f1_score",
        ];
        assert_eq!(classes.map(snake_case), names);
    }
}
