//! Packing: where the operands of a product come from.
//!
//! A product never sees its operands' layout. It asks a [`Pack`] for one panel at a time, which gathers, converts and computes
//! whatever the elements are; [`Gather`] is the one for elements that lie in an array at affine places.

use super::kernel::Layout;
use std::ops::Range;

/// Where a panel's elements go: `data[outer * outer_stride + k * k_stride]`, one of the strides being 1.
pub struct Panel<'a, T> {
    /// The panel's memory.
    pub data: &'a mut [T],
    /// Elements between neighbours on the outer axis (rows of the left operand, columns of the right).
    pub outer_stride: usize,
    /// Elements between neighbours on the reduction axis.
    pub k_stride: usize,
}

/// One operand of a product: for each batch a matrix, outer axis × reduction axis.
pub trait Pack<T>: Sync {
    /// The layout that panels are filled in fastest. (The right operand's panels are row contiguous all the same.)
    fn layout(&self) -> Layout;

    /// How many terms of k to pack at a time before going on to the next panel of the right operand: few, so that
    /// neighbouring panels share what was read; or all.
    fn k_step(&self) -> usize {
        16
    }

    /// Writes the elements of `outer` × `ks` to the panel, the first of each range at its start.
    fn pack(&self, batch: usize, outer: Range<usize>, ks: Range<usize>, panel: Panel<T>);
}

/// What one axis adds to an element's offset and to the guards' values, index by index.
#[derive(Clone, Debug)]
pub struct Axis {
    offsets: Vec<isize>,
    /// `guards[g][i]`
    guards: Vec<Vec<isize>>,
    /// How many indices from `i` on (itself included) are evenly spaced, in the offset and in every guard.
    runs: Vec<u32>,
}

impl Axis {
    /// An axis of `offsets`, in elements; `guards` holds a table as long for each guard of the operand.
    pub fn new(offsets: Vec<isize>, guards: Vec<Vec<isize>>) -> Self {
        let mut runs = vec![1; offsets.len()];
        let even = |table: &Vec<isize>, i: usize| table[i + 2] - table[i + 1] == table[i + 1] - table[i];
        for i in (0..offsets.len().saturating_sub(1)).rev() {
            let extends = i + 2 < offsets.len() && even(&offsets, i) && guards.iter().all(|guard| even(guard, i));
            runs[i] = if extends { runs[i + 1] + 1 } else { 2 };
        }
        Self { offsets, guards, runs }
    }

    /// `length` indices, `stride` elements apart, of an operand without guards.
    pub fn strided(length: usize, stride: isize) -> Self {
        Self::new((0..length as isize).map(|i| i * stride).collect(), Vec::new())
    }

    /// Elements from an index to the next, 0 at the end.
    fn step(&self, i: usize) -> isize {
        step(&self.offsets, i)
    }
}

/// From an entry of a table to the next, 0 at the end.
fn step(table: &[isize], i: usize) -> isize {
    table.get(i + 1).map_or(0, |next| next - table[i])
}

/// An operand that lies in an array: element (b, o, k) is `data[batch[b] + outer[o] + k[k]]` by the axes' offsets,
/// or 0 where for any guard the sum of the axes' terms is negative.
pub struct Gather<'a, T> {
    data: &'a [T],
    batch: Axis,
    outer: Axis,
    k: Axis,
}

impl<'a, T> Gather<'a, T> {
    /// An operand in `data`; the axes have as many guards. Every element that the guards allow must lie inside, or packing will panic.
    pub fn new(data: &'a [T], batch: Axis, outer: Axis, k: Axis) -> Self {
        Self { data, batch, outer, k }
    }

    /// A matrix without guards: outer axis × reduction axis, each (length, stride).
    pub fn matrix(data: &'a [T], outer: (usize, isize), k: (usize, isize)) -> Self {
        Self::new(data, Axis::strided(1, 0), Axis::strided(outer.0, outer.1), Axis::strided(k.0, k.1))
    }
}

impl<T: Copy + Default + Sync> Pack<T> for Gather<'_, T> {
    fn layout(&self) -> Layout {
        // The longer the run of neighbours, the better.
        let neighbours = |axis: &Axis| if axis.step(0) == 1 { axis.runs[0] } else { 1 };
        let (outer, k) = (neighbours(&self.outer), neighbours(&self.k));
        if outer > k && k < 64 { Layout::RowContiguous } else { Layout::KContiguous }
    }

    fn pack(&self, batch: usize, outer: Range<usize>, ks: Range<usize>, panel: Panel<T>) {
        // The source is read along its unit stride; the panel is written in blocks that stay in L1 if that is across it.
        let along_k = self.layout() == Layout::KContiguous && (self.k.step(0) == 1 || panel.k_stride == 1);
        let (inner, inner_range, inner_stride, other, other_range, other_stride) = if along_k {
            (&self.k, ks, panel.k_stride, &self.outer, outer, panel.outer_stride)
        } else {
            (&self.outer, outer, panel.outer_stride, &self.k, ks, panel.k_stride)
        };
        let first = inner_range.start;
        let length = inner_range.len();
        let whole = inner.step(first) == 1 && inner.runs[first] as usize >= length;
        if self.batch.guards.is_empty() && inner_stride == 1 && whole {
            let base = self.batch.offsets[batch] + inner.offsets[first];
            for (offset, to) in other.offsets[other_range].iter().zip(panel.data.chunks_mut(other_stride)) {
                let start = (base + offset) as usize;
                copy_short(&self.data[start..start + length], &mut to[..length]);
            }
            return;
        }
        let block = if inner_stride == 1 { length.max(1) } else { 32 };
        for start in inner_range.clone().step_by(block) {
            let end = inner_range.end.min(start + block);
            for o in other_range.clone() {
                let base = self.batch.offsets[batch] + other.offsets[o];
                let row = &mut panel.data[(o - other_range.start) * other_stride..];
                let mut at = start;
                while at < end {
                    let n = (inner.runs[at] as usize).min(end - at);
                    let to = &mut row[(at - first) * inner_stride..][..(n - 1) * inner_stride + 1];
                    // The part of the run that every guard allows.
                    let mut part = 0..n as isize;
                    for (g, terms) in inner.guards.iter().enumerate() {
                        let value = self.batch.guards[g][batch] + other.guards[g][o] + terms[at];
                        part = where_not_negative(part, value, step(terms, at));
                    }
                    let part = part.start as usize..part.end as usize;
                    if part.len() < n {
                        to.iter_mut().step_by(inner_stride).for_each(|x| *x = T::default());
                    }
                    if !part.is_empty() {
                        let offset = base + inner.offsets[at] + part.start as isize * inner.step(at);
                        let to = &mut to[part.start * inner_stride..];
                        copy_run(self.data, offset as usize, inner.step(at), to, inner_stride, part.len());
                    }
                    at += n;
                }
            }
        }
    }
}

/// The part of `range` where `value + i * step >= 0`.
fn where_not_negative(range: Range<isize>, value: isize, step: isize) -> Range<isize> {
    let Range { start, end } = range;
    let (start, end) = match step {
        0 if value >= 0 => (start, end),
        0 => (start, start),
        1.. => (start.max(-value.div_euclid(step)), end),
        _ => (start, end.min(value.div_euclid(-step) + 1)),
    };
    start.min(range.end)..end.max(start.min(range.end))
}

/// Copies `n` elements, `step` apart in `data` and `stride` apart in `to`.
fn copy_run<T: Copy>(data: &[T], start: usize, step: isize, to: &mut [T], stride: usize, n: usize) {
    if step == 1 && stride == 1 {
        copy_short(&data[start..start + n], &mut to[..n]);
    } else if step == 1 {
        for (x, to) in data[start..start + n].iter().zip(to.iter_mut().step_by(stride)) {
            *to = *x;
        }
    } else {
        for (i, to) in to.iter_mut().step_by(stride).take(n).enumerate() {
            *to = data[start.wrapping_add_signed(i as isize * step)];
        }
    }
}

/// Copies `from` to `to`, of one length: in line, since most runs are as short as a panel is wide.
#[inline]
fn copy_short<T: Copy>(from: &[T], to: &mut [T]) {
    /// In pieces of `P`, the last of which ends where the slices do, overlapping the one before.
    #[inline(always)]
    fn pieces<T: Copy, const P: usize>(from: &[T], to: &mut [T]) {
        for (to, from) in to.as_chunks_mut::<P>().0.iter_mut().zip(from.as_chunks::<P>().0) {
            *to = *from;
        }
        if let (Some(to), Some(from)) = (to.last_chunk_mut::<P>(), from.last_chunk::<P>()) {
            *to = *from;
        }
    }
    match from.len() {
        16..=64 => pieces::<T, 16>(from, to),
        4..=15 => pieces::<T, 4>(from, to),
        _ => to.copy_from_slice(from),
    }
}
