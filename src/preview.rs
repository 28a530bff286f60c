//! Previews of tensors for `tilec run`: whole if small, else the ends of each axis, as in NumPy.

use std::fmt::Write;

use tile_compiler::tensor::Tensor;

/// The most elements of a tensor shown whole. Empty tensors are shortened, too: an axis may be
/// long.
const WHOLE: usize = 200;
/// The number of positions shown at each end of a shortened axis.
const EDGE: usize = 3;

/// Formats `C f32[2, 3]` and the values, one line for each innermost row, with aligned columns.
pub fn preview(name: &str, tensor: &Tensor) -> String {
    let shape = tensor.shape();
    let shortened = !(1..=WHOLE).contains(&tensor.ty().elements());
    let places = |size: usize| -> Vec<Option<usize>> {
        if shortened && size > 2 * EDGE {
            (0..EDGE).map(Some).chain([None]).chain((size - EDGE..size).map(Some)).collect()
        } else {
            (0..size).map(Some).collect()
        }
    };
    let axes: Vec<Vec<Option<usize>>> = shape.iter().map(|&size| places(size)).collect();
    let strides = tensor.ty().strides();
    let mut cells = Vec::new();
    collect(tensor, &axes, &strides, 0, &mut cells);
    let width = cells.iter().map(String::len).max().unwrap_or(0);

    let mut text = format!("{name} {}\n", tensor.ty());
    let mut cells = cells.into_iter();
    write(&mut text, &axes, 0, width, &mut cells);
    text.push('\n');
    text
}

/// Collects the texts of the shown values, in order.
fn collect(
    tensor: &Tensor,
    axes: &[Vec<Option<usize>>],
    strides: &[usize],
    at: usize,
    cells: &mut Vec<String>,
) {
    match axes.split_first() {
        None => cells.push(value(tensor, at)),
        Some((places, inner)) => {
            for place in places.iter().flatten() {
                collect(tensor, inner, &strides[1..], at + place * strides[0], cells);
            }
        }
    }
}

/// Formats a value, floats to six significant digits. `--output-dir` writes all bits.
fn value(tensor: &Tensor, at: usize) -> String {
    let scalar = tensor.get(at);
    if !scalar.dtype.is_float() {
        return scalar.to_string();
    }
    let value = scalar.to_f64();
    let magnitude = value.abs();
    if value == 0.0 || !value.is_finite() {
        format!("{value}")
    } else if (1e-4..1e6).contains(&magnitude) {
        let decimals = (5 - magnitude.log10().floor() as i32).max(0) as usize;
        let text = format!("{value:.decimals$}");
        let short = if decimals > 0 { text.trim_end_matches('0') } else { &text };
        if short.ends_with('.') { format!("{short}0") } else { short.to_string() }
    } else {
        format!("{value:.5e}")
    }
}

fn write(
    text: &mut String,
    axes: &[Vec<Option<usize>>],
    depth: usize,
    width: usize,
    cells: &mut impl Iterator<Item = String>,
) {
    let Some((places, inner)) = axes.split_first() else {
        let _ = write!(text, "{:>width$}", cells.next().unwrap_or_default());
        return;
    };
    text.push('[');
    for (position, place) in places.iter().enumerate() {
        if position > 0 && inner.is_empty() {
            text.push(' ');
        } else if position > 0 {
            // Separates blocks by a blank line, and one more for each enclosing axis.
            text.push_str(&"\n".repeat(inner.len()));
            text.push_str(&" ".repeat(depth + 1));
        }
        match place {
            Some(_) => write(text, inner, depth + 1, width, cells),
            None => text.push_str("..."),
        }
    }
    text.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tensors_are_whole() {
        let tensor =
            Tensor::from_f32([2, 2, 2], &[0.0, 1.0, -2.5, 1234567.0, 0.1, 1e-7, f32::NAN, 7.0])
                .unwrap();
        insta::assert_snapshot!(preview("X", &tensor), @"
        X f32[2, 2, 2]
        [[[         0        1.0]
          [      -2.5  1.23457e6]]

         [[       0.1 1.00000e-7]
          [       NaN        7.0]]]
        ");
        insta::assert_snapshot!(preview("S", &Tensor::from_f32([], &[2.0]).unwrap()), @"
        S f32[]
        2.0
        ");
        insta::assert_snapshot!(preview("E", &Tensor::from_f32([2, 0], &[]).unwrap()), @"
        E f32[2, 0]
        [[]
         []]
        ");
    }

    #[test]
    fn large_tensors_show_their_ends() {
        let values: Vec<f32> = (0..400).map(|v| v as f32).collect();
        insta::assert_snapshot!(preview("X", &Tensor::from_f32([4, 100], &values).unwrap()), @"
        X f32[4, 100]
        [[    0   1.0   2.0 ...  97.0  98.0  99.0]
         [100.0 101.0 102.0 ... 197.0 198.0 199.0]
         [200.0 201.0 202.0 ... 297.0 298.0 299.0]
         [300.0 301.0 302.0 ... 397.0 398.0 399.0]]
        ");
    }

    #[test]
    fn long_axes_of_nothing_are_shortened() {
        let tensor = Tensor::from_f32([100_000, 0], &[]).unwrap();
        insta::assert_snapshot!(preview("Y", &tensor), @"
        Y f32[100000, 0]
        [[]
         []
         []
         ...
         []
         []
         []]
        ");
    }
}
