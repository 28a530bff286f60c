//! Checks that entries fit the weights that they fill.

use std::collections::{HashMap, HashSet};

use tile_compiler::tensor::TensorType;
use tile_lang::did_you_mean;

use super::options::LoadOptions;

/// Returns whether an entry serves only training and evaluation: training state or a weight of a
/// loss. Such an entry is ignored if the model has no weight of this name.
pub fn is_of_training(path: &str) -> bool {
    let first = path.split(['.', '[']).next().unwrap_or_default();
    let number = first.strip_prefix("loss").map(|rest| rest.strip_prefix('_').unwrap_or(rest));
    first == "train"
        || number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether an entry is the counter that PyTorch writes beside the statistics of each batch
/// normalization.
pub fn is_counter(name: &str) -> bool {
    name.rsplit('.').next() == Some("num_batches_tracked")
}

/// Returns the entries of a file that no weight takes.
///
/// # Errors
/// Returns a text with the weights that are missing or have another shape or type, and the entries
/// that the program lacks, except PyTorch's counters, unless the options permit them.
pub fn unused(
    expected: &[(String, TensorType)],
    found: &[(String, TensorType)],
    options: &LoadOptions,
) -> Result<Vec<String>, String> {
    let (mut lines, mut unknown, mut unused) = (Vec::new(), Vec::new(), Vec::new());
    let mut has_misfit = false;
    let by_name: HashMap<&str, &TensorType> =
        found.iter().rev().map(|(name, ty)| (name.as_str(), ty)).collect();
    const SHOWN: usize = 12;
    let paths_in_order = || expected.iter().map(|(path, _)| path.as_str());
    let paths: HashSet<&str> = expected.iter().map(|(path, _)| path.as_str()).collect();
    for (path, ty) in expected {
        match by_name.get(path.as_str()) {
            None if options.partial => {}
            None => lines.push(format!("`{path}`, {ty}, is missing")),
            Some(found) if !fits(ty, found) => {
                has_misfit = true;
                lines.push(format!("`{path}` must be {ty}, and is {found}"));
            }
            Some(_) => {}
        }
    }
    let is_missing = !lines.is_empty();
    for (name, ty) in found {
        if paths.contains(name.as_str()) {
            continue;
        }
        unused.push(name.clone());
        // If weights are missing, an extra entry may be one of them under another name, so it is
        // shown.
        if is_counter(name) || (options.allow_extra && !is_missing) {
            continue;
        }
        // Only the shown entries need a suggestion.
        let is_shown = unknown.len() < SHOWN;
        let guess = did_you_mean(name, paths_in_order().filter(|_| is_shown));
        let guess = guess.map_or(String::new(), |guess| format!("; {guess}"));
        unknown.push(format!("`{name}`, {ty}, is no weight of the program{guess}"));
    }
    let has_extra_alone = lines.is_empty() && !unknown.is_empty();
    let lacks_alone = is_missing && !has_misfit && unknown.is_empty();
    for lines in [&mut lines, &mut unknown] {
        let more = lines.len().saturating_sub(SHOWN);
        lines.truncate(SHOWN);
        if more > 0 {
            lines.push(format!("and {more} more like these"));
        }
    }
    lines.extend(unknown);
    if lacks_alone {
        lines.push("help: pass `--partial` to initialise what the file lacks".into());
    }
    if has_extra_alone {
        lines.push("help: pass `--allow-extra` to leave out what the program does not have".into());
    }
    if lines.is_empty() { Ok(unused) } else { Err(lines.join("\n  ")) }
}

/// Returns whether a weight can take an entry. Float types are converted to each other.
fn fits(expected: &TensorType, found: &TensorType) -> bool {
    expected.shape == found.shape
        && (expected.dtype == found.dtype || (expected.dtype.is_float() && found.dtype.is_float()))
}
