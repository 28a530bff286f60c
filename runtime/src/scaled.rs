//! f32 weights as 8-bit integers with scales: a weight is its integer times its scale. Scales have
//! as many axes as the weight, and one element along those on which they do not depend. See
//! `compiler/src/passes/weights.rs`.

use tile_compiler::tensor::with_room;

/// The greatest integer. The least is its negative, so that both signs have the same range.
const MOST: f32 = 127.0;

/// Returns the integers and the scales of a weight with this shape, whose elements are
/// little-endian f32. The scale is the least with which the greatest element is in range. It is NaN
/// if an element is NaN or infinite, and with it the whole column. `None` if the shapes do not fit,
/// or there is no memory.
pub fn quantized(bytes: &[u8], shape: &[usize], scales: &[usize]) -> Option<(Vec<u8>, Vec<u8>)> {
    let elements: &[[u8; 4]] = bytes.as_chunks().0;
    let rows = Rows::new(elements.len(), shape, scales)?;
    let mut greatest = with_room(rows.scales)?;
    greatest.resize(rows.scales, 0.0f32);
    rows.for_each(|row, scales| {
        for (element, scale) in elements[row].iter().zip(scales) {
            let size = f32::from_le_bytes(*element).abs();
            let most = &mut greatest[scale];
            // `max` would ignore a NaN.
            let is_finite = size.is_finite() && !most.is_nan();
            *most = if is_finite { most.max(size) } else { f32::NAN };
        }
    });
    for scale in &mut greatest {
        *scale /= MOST;
    }
    let mut values: Vec<u8> = with_room(elements.len())?;
    rows.for_each(|row, scales| {
        values.extend(elements[row].iter().zip(scales).map(|(element, scale)| {
            let steps = f32::from_le_bytes(*element) / greatest[scale];
            // 0 / 0, and a quotient of two subnormal numbers, may be anything; a cast of NaN is 0.
            (steps.round_ties_even().clamp(-MOST, MOST) as i8).to_le_bytes()[0]
        }));
    });
    Some((values, greatest.iter().flat_map(|scale| scale.to_le_bytes()).collect()))
}

/// Returns the elements of the weight with these integers and scales as little-endian f32. `None`
/// as for [`quantized`].
pub fn widened(
    values: &[u8],
    scale_bytes: &[u8],
    shape: &[usize],
    scales: &[usize],
) -> Option<Vec<u8>> {
    let rows = Rows::new(values.len(), shape, scales)?;
    let scale_values: &[[u8; 4]] = scale_bytes.as_chunks().0;
    if scale_values.len() != rows.scales {
        return None;
    }
    let mut bytes = with_room(values.len().checked_mul(4)?)?;
    rows.for_each(|row, scales| {
        for (value, scale) in values[row].iter().zip(scales) {
            let value = f32::from(i8::from_le_bytes([*value]));
            bytes.extend((value * f32::from_le_bytes(scale_values[scale])).to_le_bytes());
        }
    });
    Some(bytes)
}

/// The rows of a weight along its last axis.
struct Rows {
    /// The size of each axis but the last, and the distance from one scale to the next along it.
    outer: Vec<(usize, usize)>,
    /// The same for the last axis.
    inner: (usize, usize),
    /// The number of scales.
    scales: usize,
}

impl Rows {
    /// Returns the rows of a weight with this many elements. `None` if the shapes do not fit.
    fn new(elements: usize, shape: &[usize], scales: &[usize]) -> Option<Rows> {
        let fits = |(&size, &own): (&usize, &usize)| own == 1 || own == size;
        let count = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size));
        if shape.len() != scales.len()
            || count != Some(elements)
            || !shape.iter().zip(scales).all(fits)
        {
            return None;
        }
        let mut stride = 1;
        let mut axes: Vec<(usize, usize)> = Vec::with_capacity(shape.len());
        for (&size, &own) in shape.iter().zip(scales).rev() {
            axes.push((size, if own == 1 { 0 } else { stride }));
            stride *= own;
        }
        axes.reverse();
        let inner = axes.pop().unwrap_or((1, 0));
        Some(Rows { outer: axes, inner, scales: stride })
    }

    /// Calls `f` with the elements of each row, and the numbers of their scales.
    fn for_each(&self, mut f: impl FnMut(std::ops::Range<usize>, Scales)) {
        let (length, stride) = self.inner;
        let count: usize = self.outer.iter().map(|(size, _)| size).product();
        let mut at = vec![0; self.outer.len()];
        let mut scale = 0;
        for row in 0..count {
            f(row * length..(row + 1) * length, Scales { next: scale, stride });
            for (position, &(size, stride)) in at.iter_mut().zip(&self.outer).rev() {
                *position += 1;
                scale += stride;
                if *position < size {
                    break;
                }
                scale -= size * stride;
                *position = 0;
            }
        }
    }
}

/// The numbers of the scales of a row's elements, without end.
struct Scales {
    next: usize,
    stride: usize,
}

impl Iterator for Scales {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let next = self.next;
        self.next += self.stride;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }

    #[test]
    fn each_column_has_its_scale() {
        let weight = [1.0, -254.0, 0.0, -0.5, 127.0, 0.0];
        let (values, scales) = quantized(&bytes(&weight), &[2, 3], &[1, 3]).unwrap();
        let values: Vec<i8> = values.iter().map(|b| *b as i8).collect();
        // -0.5 is half of 127 steps: 63.5, to the even neighbour.
        assert_eq!(values, [127, -127, 0, -64, 64, 0]);
        assert_eq!(floats(&scales), [1.0 / 127.0, 2.0, 0.0]);
    }

    #[test]
    fn scales_of_outer_axes_follow_their_rows() {
        let weight: Vec<f32> = (0..24).map(|n| (n * 127 - 1000) as f32).collect();
        let (values, scales) = quantized(&bytes(&weight), &[2, 3, 4], &[2, 1, 4]).unwrap();
        let wide = floats(&widened(&values, &scales, &[2, 3, 4], &[2, 1, 4]).unwrap());
        for (number, (wide, weight)) in wide.iter().zip(&weight).enumerate() {
            let scale = floats(&scales)[number / 12 * 4 + number % 4];
            assert!((wide - weight).abs() <= 0.501 * scale, "{wide} for {weight}");
        }
        // The weight that is read back has the same integers.
        assert_eq!(quantized(&bytes(&wide), &[2, 3, 4], &[2, 1, 4]).unwrap().0, values);
    }

    #[test]
    fn what_is_not_finite_stays_visible() {
        let weight = [1.0, f32::INFINITY, 2.0, 3.0];
        let (values, scales) = quantized(&bytes(&weight), &[2, 2], &[1, 2]).unwrap();
        let wide = floats(&widened(&values, &scales, &[2, 2], &[1, 2]).unwrap());
        assert!(wide[1].is_nan() && wide[3].is_nan());
        assert_eq!(wide[2], 2.0);
    }

    #[test]
    fn other_shapes_are_refused() {
        assert_eq!(quantized(&bytes(&[1.0; 6]), &[2, 3], &[1, 2]), None);
        assert_eq!(quantized(&bytes(&[1.0; 6]), &[2, 3], &[3]), None);
        assert_eq!(widened(&[0; 5], &bytes(&[1.0; 3]), &[2, 3], &[1, 3]), None);
        assert!(quantized(&[], &[0, 3], &[1, 3]).unwrap().0.is_empty());
    }
}
