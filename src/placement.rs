//! The steps of a plan with their devices, and amounts in words.

use tile_compiler::plan::Plan;
use tile_runtime::Device;

use crate::terminal::Terminal;

/// Prints where and how each step of a plan runs, with `--verbose` only.
pub fn detail(plan: Option<&Plan>, device: &Device, terminal: &Terminal) {
    let Some(plan) = plan.filter(|_| terminal.verbose) else { return };
    terminal.detail(&format!(
        "{} of {} on {} ({}):",
        bytes(plan.memory()),
        plan.name,
        device.name(),
        device.adapter()
    ));
    plan.placement().for_each(|line| terminal.detail(&format!("  {}: {line}", device.name())));
}

/// Formats `16.23 MB`, in units of 1,024, as Keras does.
pub fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    let mut units = ["B", "KB", "MB", "GB", "TB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while size >= 1024.0
        && let Some(next) = units.next()
    {
        (size, unit) = (size / 1024.0, next);
    }
    format!("{size:.2} {unit}")
}

/// Formats `1,234,567`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups =
        digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::{bytes, grouped};

    #[test]
    fn numbers() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 1023, 1024, 1 << 40].map(bytes),
            ["0.00 B", "1023.00 B", "1.00 KB", "1.00 TB"]
        );
    }
}
