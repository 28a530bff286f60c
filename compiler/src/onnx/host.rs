//! Operators whose results have a value-dependent length. The host computes them, on tensors with
//! known values.
//!
//! Results equal those of ONNX Runtime, including the order of ties.

use std::cmp::Ordering;

use crate::dtype::{DType, Scalar};
use crate::tensor::{Tensor, TensorType};

fn integers(
    shape: impl Into<Vec<usize>>,
    values: impl IntoIterator<Item = usize>,
) -> Result<Tensor, String> {
    let mut tensor = Tensor::zeros(TensorType::new(DType::I64, shape))
        .ok_or_else(|| "its result is larger than any memory".to_owned())?;
    let elements = tensor.bytes_mut().as_chunks_mut::<{ size_of::<i64>() }>().0;
    elements.iter_mut().zip(values).for_each(|(to, value)| *to = (value as i64).to_le_bytes());
    Ok(tensor)
}

/// Returns the positions of non-zero elements, with a row for each axis.
pub fn non_zero(tensor: &Tensor) -> Result<Vec<Tensor>, String> {
    let places = true_places(tensor);
    let rows = tensor.shape().iter().zip(tensor.ty().strides());
    let rows = rows.flat_map(|(&size, stride)| {
        // The outermost and the innermost axis need one division less.
        let is_outermost = size * stride == tensor.ty().elements();
        places.iter().map(move |&place| {
            let at = if stride == 1 { place } else { place / stride };
            if is_outermost { at } else { at % size }
        })
    });
    Ok(vec![integers([tensor.shape().len(), places.len()], rows)?])
}

/// Returns the positions of the elements that are true, or other than 0.
fn true_places(tensor: &Tensor) -> Vec<usize> {
    let elements = tensor.ty().elements();
    if tensor.dtype() != DType::Bool {
        return (0..elements).filter(|&place| tensor.get(place).is_true()).collect();
    }
    // Every place is written, and the next one overwrites it unless it is true.
    let is_true = |x: &u8| *x != 0;
    let all = tensor.bytes().iter().copied().filter(is_true).count();
    let (mut places, mut count) = (vec![0; all + 1], 0);
    for (place, x) in tensor.bytes().iter().enumerate() {
        places[count] = place;
        count += usize::from(is_true(x));
    }
    places.truncate(all);
    places
}

/// Returns the positions below `size` where the condition is true.
pub fn taken(condition: &Tensor, size: usize) -> Result<Vec<Tensor>, String> {
    if condition.shape().len() != 1 {
        return Err(format!("expected a condition of one axis, found {}", condition.ty()));
    }
    let count = condition.shape()[0].min(size);
    let places: Vec<usize> = (0..count).filter(|&place| condition.get(place).is_true()).collect();
    Ok(vec![integers([places.len()], places)?])
}

/// Returns the unique slices along an axis, or the unique elements without one, as four tensors:
/// the unique slices, the first position of each, the number of the unique slice for each slice,
/// and the counts. They are sorted, or in the order of first occurrence.
pub fn unique(tensor: &Tensor, axis: Option<i64>, sorted: bool) -> Result<Vec<Tensor>, String> {
    let mut shape = match axis {
        Some(_) => tensor.shape().to_vec(),
        None => vec![tensor.ty().elements()],
    };
    let axis = axis.map_or(Some(0), |axis| {
        usize::try_from(if axis < 0 { axis + shape.len() as i64 } else { axis }).ok()
    });
    let axis = axis.filter(|&axis| axis < shape.len());
    let axis = axis.ok_or_else(|| format!("its input {} has no such axis", tensor.ty()))?;
    let (outer, count, inner) = (
        shape[..axis].iter().product::<usize>(),
        shape[axis],
        shape[axis + 1..].iter().product::<usize>(),
    );
    let place =
        |part: usize, number: usize| (number / inner * count + part) * inner + number % inner;
    let key = |part: usize| -> Vec<i128> {
        (0..outer * inner).map(|n| order(tensor.get(place(part, n)))).collect()
    };
    let keys: Vec<Vec<i128>> = (0..count).map(key).collect();

    // Groups equal slices, each group with its first one first.
    let mut parts: Vec<usize> = (0..count).collect();
    parts.sort_by(|&a, &b| keys[a].cmp(&keys[b]));
    let mut groups: Vec<&[usize]> = parts.chunk_by(|&a, &b| keys[a] == keys[b]).collect();
    if !sorted {
        groups.sort_by_key(|group| group[0]);
    }
    let mut inverse = vec![0; count];
    for (number, group) in groups.iter().enumerate() {
        group.iter().for_each(|&part| inverse[part] = number);
    }
    shape[axis] = groups.len();
    let (groups_inner, mut scalars) = (groups.len() * inner, Vec::new());
    for number in 0..outer * groups_inner {
        let (before, within) = (number / groups_inner.max(1), number % groups_inner.max(1));
        scalars.push(
            tensor.get((before * count + groups[within / inner][0]) * inner + within % inner),
        );
    }
    let values = Tensor::from_scalars(TensorType::new(tensor.dtype(), shape), scalars);
    Ok(vec![
        values.ok_or("its result is larger than any memory")?,
        integers([groups.len()], groups.iter().map(|group| group[0]))?,
        integers([count], inverse)?,
        integers([groups.len()], groups.iter().map(|group| group.len()))?,
    ])
}

/// Maps a scalar to an order-preserving integer. All NaNs are equal, and the greatest.
fn order(scalar: Scalar) -> i128 {
    if !scalar.dtype.is_float() {
        return if scalar.dtype == DType::U64 {
            scalar.bits().into()
        } else {
            scalar.to_i64().into()
        };
    }
    let value = scalar.to_f64();
    let bits = i128::from(value.abs().to_bits());
    match value.partial_cmp(&0.0) {
        None => i128::MAX,
        Some(Ordering::Less) => -bits,
        Some(_) => bits,
    }
}

/// A box by its lowest and highest coordinates.
#[derive(Clone, Copy)]
struct Area {
    low: [f32; 2],
    high: [f32; 2],
}

impl Area {
    /// Makes a box from `[y1, x1, y2, x2]`, opposite corners in any order, or from `[x_center,
    /// y_center, width, height]`.
    fn new([a, b, c, d]: [f32; 4], is_centered: bool) -> Area {
        match is_centered {
            true => Area { low: [a - c / 2.0, b - d / 2.0], high: [a + c / 2.0, b + d / 2.0] },
            false => Area { low: [b.min(d), a.min(c)], high: [b.max(d), a.max(c)] },
        }
    }

    fn size(&self) -> f32 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }

    /// Returns whether the intersection over union with one of these boxes exceeds `share`.
    fn overlaps(&self, others: &[Lanes], share: f32) -> bool {
        let size = self.size();
        let overlaps = |others: &Lanes, lane: usize| {
            let low = [0, 1].map(|axis| self.low[axis].max(others.low[axis][lane]));
            let high = [0, 1].map(|axis| self.high[axis].min(others.high[axis][lane]));
            let common = Area { low, high }.size();
            let is_apart = (high[0] <= low[0]) | (high[1] <= low[1]) | (common <= 0.0);
            let other = others.size[lane];
            let either = size + other - common;
            !is_apart & (size > 0.0) & (other > 0.0) & (either > 0.0) & (common / either > share)
        };
        // Without branches within the lanes, they are computed at once.
        others.iter().any(|others| (0..LANES).fold(false, |any, lane| any | overlaps(others, lane)))
    }
}

/// The number of boxes that are compared at once.
const LANES: usize = 8;

/// Boxes by coordinate. The rest of them is empty, and overlaps nothing.
#[derive(Clone, Copy, Default)]
struct Lanes {
    low: [[f32; LANES]; 2],
    high: [[f32; LANES]; 2],
    size: [f32; LANES],
}

impl Lanes {
    fn set(&mut self, lane: usize, area: &Area) {
        for axis in [0, 1] {
            (self.low[axis][lane], self.high[axis][lane]) = (area.low[axis], area.high[axis]);
        }
        self.size[lane] = area.size();
    }
}

/// Returns the boxes to keep as rows `[batch, class, box]`: for each class those with the highest
/// scores that do not overlap a box kept before. `limits` are the most boxes of a class, the
/// intersection over union above which boxes overlap, and the score that a box must exceed.
pub fn non_max_suppression(
    boxes: &Tensor,
    scores: &Tensor,
    limits: [Option<Scalar>; 3],
    is_centered: bool,
) -> Result<Vec<Tensor>, String> {
    let (&[batches, count, 4], &[score_batches, classes, score_count]) =
        (boxes.shape(), scores.shape())
    else {
        return Err(format!(
            "expected boxes [n, b, 4] and scores [n, c, b], found {} and {}",
            boxes.ty(),
            scores.ty()
        ));
    };
    if (batches, count) != (score_batches, score_count) {
        return Err(format!("its boxes are {}, and its scores {}", boxes.ty(), scores.ty()));
    }
    let [most, share, least] = limits;
    let most = usize::try_from(most.map_or(0, Scalar::to_i64)).unwrap_or(0);
    let share = share.map_or(0.0, |share| share.to_f64() as f32);
    if !(0.0..=1.0).contains(&share) {
        return Err(format!("expected an iou_threshold from 0 to 1, found {share}"));
    }
    let least = least.map(|least| least.to_f64() as f32);
    let [boxes, scores] = [boxes, scores].map(|tensor| -> Vec<f32> {
        tensor.scalars().map(|scalar| scalar.to_f64() as f32).collect()
    });
    let corners = boxes.as_chunks::<4>().0;
    let mut kept = Vec::new();
    for batch in 0..if most == 0 { 0 } else { batches } {
        let corners = &corners[batch * count..][..count];
        let areas: Vec<Area> =
            corners.iter().map(|corners| Area::new(*corners, is_centered)).collect();
        for class in 0..classes {
            let scores = scores[(batch * classes + class) * count..][..count].iter().copied();
            let mut open: Vec<(usize, f32)> = scores
                .enumerate()
                .filter(|(_, score)| least.is_none_or(|least| *score > least))
                .collect();
            // Zeros of either sign are equal.
            open.sort_by(|(_, a), (_, b)| (b + 0.0).total_cmp(&(a + 0.0)));
            let (mut selected, mut number) = (Vec::new(), 0);
            for (b, _) in open {
                if number == most {
                    break;
                }
                if areas[b].overlaps(&selected, share) {
                    continue;
                }
                if number.is_multiple_of(LANES) {
                    selected.push(Lanes::default());
                }
                selected[number / LANES].set(number % LANES, &areas[b]);
                number += 1;
                kept.extend([batch, class, b]);
            }
        }
    }
    Ok(vec![integers([kept.len() / 3, 3], kept)?])
}
