//! Packing: the sources of a product's operands.
//!
//! A product does not know its operands' layout. It asks a [`Pack`] for one panel at a time, which
//! gathers, converts or computes the elements. [`Gather`] handles elements that lie in an array at
//! affine addresses.

use super::kernel::Layout;
use super::window::{Frame, Window};
use crate::cpu::vector::number::Bits;
use crate::cpu::vector::{self, copy_short};
use std::ops::Range;

/// The destination of a panel's elements: `data[outer * outer_stride + k * k_stride]`. One of the
/// strides is 1.
pub struct Panel<'a, T> {
    /// The panel's memory.
    pub data: &'a mut [T],
    /// The elements between neighbours on the outer axis (rows of the left operand, columns of the
    /// right).
    pub outer_stride: usize,
    /// The elements between neighbours on the reduction axis.
    pub k_stride: usize,
}

/// A part of an operand with constant strides in memory: its element (outer, k) is
/// `data[outer * outer_stride + k * k_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T> {
    /// The memory from the first element on. It may reach further than the last element.
    pub data: &'a [T],
    /// The elements between neighbours on the outer axis.
    pub outer_stride: usize,
    /// The elements between neighbours on the reduction axis.
    pub k_stride: usize,
}

/// One operand of a product: for each batch a matrix, outer axis × reduction axis.
pub trait Pack<T>: Sync {
    /// Returns the layout in which panels are filled fastest. Panels of the right operand have
    /// contiguous columns in any case.
    fn layout(&self) -> Layout;

    /// Returns how many terms of k to pack before the next panel of the right operand: few, so that
    /// neighbouring panels share the elements in the cache, or all.
    fn k_step(&self) -> usize {
        16
    }

    /// Writes the elements of `outer` × `ks` to the panel, with the first of each range at its
    /// start.
    fn pack(&self, batch: usize, outer: Range<usize>, ks: Range<usize>, panel: Panel<T>);

    /// Returns the operand as a window, if that is better than packing.
    fn window(&self) -> Option<&Window> {
        None
    }

    /// Copies the contents of a box of that window.
    fn fill(&self, _frame: &Frame, _to: &mut [T]) {}

    /// Returns the elements of `outer` × `ks` in memory, if they lie there with constant strides.
    fn view(&self, _batch: usize, _outer: Range<usize>, _ks: Range<usize>) -> Option<View<'_, T>> {
        None
    }
}

/// The terms that one axis adds to an element's offset and to the guards' values, for each index.
#[derive(Clone, Debug)]
pub struct Axis {
    offsets: Vec<isize>,
    /// The terms of the guards: `guards[g][i]`.
    guards: Vec<Vec<isize>>,
    /// The least term of each guard.
    least: Vec<isize>,
    /// For each index, the number of indices from there on (itself included) that are evenly
    /// spaced, in the offset and in every guard.
    runs: Vec<u32>,
    /// The same, in the offset alone.
    even: Vec<u32>,
}

/// For each index, returns the number of indices from there on (itself included) that are evenly
/// spaced in all of `tables`.
pub fn runs<'a>(length: usize, tables: impl Iterator<Item = &'a Vec<isize>> + Clone) -> Vec<u32> {
    let mut runs = vec![1; length];
    for i in (0..length.saturating_sub(1)).rev() {
        let even = |table: &Vec<isize>| table[i + 2] - table[i + 1] == table[i + 1] - table[i];
        runs[i] = if i + 2 < length && tables.clone().all(even) { runs[i + 1] + 1 } else { 2 };
    }
    runs
}

impl Axis {
    /// Creates an axis of `offsets`, in elements. `guards` holds a table of the same length for
    /// each guard of the operand.
    pub fn new(offsets: Vec<isize>, guards: Vec<Vec<isize>>) -> Self {
        let least = guards.iter().map(|guard| guard.iter().copied().min().unwrap_or(0)).collect();
        let even = runs(offsets.len(), [&offsets].into_iter());
        let runs = runs(offsets.len(), [&offsets].into_iter().chain(&guards));
        Self { offsets, guards, least, runs, even }
    }

    /// Creates an axis of `length` indices, `stride` elements apart, of an operand without guards.
    pub fn strided(length: usize, stride: isize) -> Self {
        Self::new((0..length as isize).map(|i| i * stride).collect(), Vec::new())
    }

    /// Returns the axis with its indices in another order.
    pub fn reordered(&self, order: &[usize]) -> Self {
        let of = |table: &Vec<isize>| order.iter().map(|&i| table[i]).collect();
        Self::new(of(&self.offsets), self.guards.iter().map(of).collect())
    }

    /// Returns the number of indices.
    pub fn count(&self) -> usize {
        self.offsets.len()
    }

    /// Returns the elements from an index to the next, or 0 at the end.
    fn step(&self, i: usize) -> isize {
        step(&self.offsets, i)
    }
}

/// Returns the difference between an entry of a table and the next, or 0 at the end.
fn step(table: &[isize], i: usize) -> isize {
    table.get(i + 1).map_or(0, |next| next - table[i])
}

/// The places of an operand that lies in an array. Element (b, o, k) has the number
/// `batch[b] + outer[o] + k[k]` by the axes' offsets, or is 0 if for any guard the sum of the axes'
/// terms is negative. All axes have the same number of guards.
#[derive(Clone, Debug)]
pub struct Places {
    /// The offsets of the batches.
    pub batch: Axis,
    /// The offsets of the rows, or columns.
    pub outer: Axis,
    /// The offsets of the terms.
    pub k: Axis,
    /// For each loop around the product, the change of the number and of each guard per step. Empty
    /// if nothing changes.
    pub loops: Vec<Vec<isize>>,
    /// The places as a window, and the number of the element at which its coordinates are all 0.
    pub window: Option<(Window, isize)>,
}

impl Places {
    /// Returns the number of an element.
    pub fn offset(&self, batch: usize, outer: usize, k: usize) -> usize {
        (self.batch.offsets[batch] + self.outer.offsets[outer] + self.k.offsets[k]) as usize
    }

    /// Creates places outside of any loop.
    pub fn new(batch: Axis, outer: Axis, k: Axis) -> Self {
        Self { batch, outer, k, loops: Vec::new(), window: None }
    }

    /// Returns the places with the terms in another order.
    pub fn reordered(&self, order: &[usize]) -> Self {
        let window =
            self.window.as_ref().map(|(window, origin)| (window.reordered(order), *origin));
        Self { k: self.k.reordered(order), window, ..self.clone() }
    }

    /// Returns whether they are the same at every step of the loops around the product.
    pub fn is_steady(&self) -> bool {
        self.loops.iter().flatten().all(|coefficient| *coefficient == 0)
    }

    /// Creates the places of a matrix without guards: outer axis × reduction axis, each (length,
    /// stride).
    pub fn matrix(outer: (usize, isize), k: (usize, isize)) -> Self {
        Self::new(Axis::strided(1, 0), Axis::strided(outer.0, outer.1), Axis::strided(k.0, k.1))
    }
}

/// An operand that lies in an array.
pub struct Gather<'a, T> {
    data: &'a [T],
    /// Added to the number of an element to give its index in `data`.
    shift: isize,
    /// Added to each guard.
    guard_shifts: Vec<isize>,
    places: &'a Places,
}

impl<'a, T> Gather<'a, T> {
    /// Creates an operand in `data`, which starts with element number `first`, at these steps of
    /// the loops. If an element that the guards allow lies outside of `data`, packing panics.
    pub fn new(data: &'a [T], first: usize, places: &'a Places, steps: &[usize]) -> Self {
        let shift = |of: &Vec<isize>| {
            of.iter().zip(steps).map(|(coefficient, step)| coefficient * *step as isize).sum()
        };
        let mut shifts: Vec<isize> = places.loops.iter().map(shift).collect();
        shifts.resize(1 + places.batch.guards.len(), 0);
        Self { data, shift: shifts[0] - first as isize, guard_shifts: shifts.split_off(1), places }
    }

    /// Returns the index in `data` that the axes' offsets are added to.
    fn base(&self, batch: usize) -> isize {
        self.places.batch.offsets[batch] + self.shift
    }

    /// Writes a panel whose elements along the axis `inner` are contiguous in the array and have
    /// no guards. Each axis has a range and the panel's stride. Lines that are contiguous in the
    /// panel, too, are copied. If the panel has those of the other axis side by side, evenly spaced
    /// in the array, and elements are words, rows and columns are exchanged in registers. Otherwise
    /// returns false, having written nothing.
    fn pack_contiguous(
        &self,
        batch: usize,
        (inner, range, stride): (&Axis, Range<usize>, usize),
        (other, others, other_stride): (&Axis, Range<usize>, usize),
        to: &mut [T],
    ) -> bool
    where
        T: Bits,
    {
        let (length, count) = (range.len(), others.len());
        let base = self.base(batch) + inner.offsets[range.start];
        if stride == 1 {
            // The stride from a single line to the next says nothing.
            let lines = to.chunks_mut(other_stride.max(length));
            for (offset, to) in other.offsets[others].iter().zip(lines) {
                let start = (base + offset) as usize;
                copy_short(&self.data[start..start + length], &mut to[..length]);
            }
            return true;
        }
        let is_even = other.runs.get(others.start).is_some_and(|&run| run as usize >= count);
        let Ok(step) = usize::try_from(other.step(others.start)) else { return false };
        if stride != count || !is_even || size_of::<T>() != size_of::<i32>() {
            return false;
        }
        let from = (base + other.offsets[others.start]) as usize;
        let to = &mut to[..length * count];
        // As words: each further type would be compiled on its own.
        let (data, to) = (bytemuck::cast_slice(self.data), bytemuck::cast_slice_mut(to));
        vector::exchange::<i32>(data, from, step, count, to);
        true
    }
}

impl<T: Bits + Sync> Pack<T> for Gather<'_, T> {
    fn layout(&self) -> Layout {
        // The layout with the longer run of contiguous elements is better.
        let neighbours = |axis: &Axis| if axis.step(0) == 1 { axis.runs[0] } else { 1 };
        let (outer, k) = (neighbours(&self.places.outer), neighbours(&self.places.k));
        if outer > k && k < 64 { Layout::RowContiguous } else { Layout::KContiguous }
    }

    fn pack(&self, batch: usize, outer: Range<usize>, ks: Range<usize>, panel: Panel<T>) {
        // The source is read along its unit stride. If that is across the panel, the panel is
        // written in blocks that stay in L1.
        let Places { outer: outer_axis, k: k_axis, batch: batch_axis, .. } = self.places;
        let along_k =
            self.layout() == Layout::KContiguous && (k_axis.step(0) == 1 || panel.k_stride == 1);
        let (inner, inner_range, inner_stride, other, other_range, other_stride) = if along_k {
            (k_axis, ks, panel.k_stride, outer_axis, outer, panel.outer_stride)
        } else {
            (outer_axis, outer, panel.outer_stride, k_axis, ks, panel.k_stride)
        };
        let first = inner_range.start;
        let length = inner_range.len();
        let whole = inner.step(first) == 1 && inner.runs[first] as usize >= length;
        let is_done = batch_axis.guards.is_empty() && whole && {
            let inner = (inner, inner_range.clone(), inner_stride);
            self.pack_contiguous(
                batch,
                inner,
                (other, other_range.clone(), other_stride),
                panel.data,
            )
        };
        if is_done {
            return;
        }
        let block = if inner_stride == 1 { length.max(1) } else { 32 };
        for start in inner_range.clone().step_by(block) {
            let end = inner_range.end.min(start + block);
            for o in other_range.clone() {
                let base = self.base(batch) + other.offsets[o];
                let row = &mut panel.data[(o - other_range.start) * other_stride..];
                let value = |g: usize| {
                    batch_axis.guards[g][batch] + other.guards[g][o] + self.guard_shifts[g]
                };
                let mut at = start;
                if inner.least.iter().enumerate().all(|(g, least)| value(g) + least >= 0) {
                    while at < end {
                        let n = (inner.even[at] as usize).min(end - at);
                        let to = &mut row[(at - first) * inner_stride..];
                        let from = (base + inner.offsets[at]) as usize;
                        copy_run(self.data, from, inner.step(at), to, inner_stride, n);
                        at += n;
                    }
                    continue;
                }
                while at < end {
                    let n = (inner.runs[at] as usize).min(end - at);
                    let to = &mut row[(at - first) * inner_stride..][..(n - 1) * inner_stride + 1];
                    // The part of the run that every guard allows.
                    let mut part = 0..n as isize;
                    for (g, terms) in inner.guards.iter().enumerate() {
                        part = where_not_negative(part, value(g) + terms[at], step(terms, at));
                    }
                    let part = part.start as usize..part.end as usize;
                    if part.len() < n {
                        to.iter_mut().step_by(inner_stride).for_each(|x| *x = T::default());
                    }
                    if !part.is_empty() {
                        let offset =
                            base + inner.offsets[at] + part.start as isize * inner.step(at);
                        let to = &mut to[part.start * inner_stride..];
                        copy_run(
                            self.data,
                            offset as usize,
                            inner.step(at),
                            to,
                            inner_stride,
                            part.len(),
                        );
                    }
                    at += n;
                }
            }
        }
    }

    fn window(&self) -> Option<&Window> {
        self.places.window.as_ref().map(|(window, _)| window)
    }

    fn fill(&self, frame: &Frame, to: &mut [T]) {
        let origin = self.places.window.as_ref().map_or(0, |(_, origin)| *origin);
        frame.fill(self.data, origin + self.shift, to);
    }

    fn view(&self, batch: usize, outer: Range<usize>, ks: Range<usize>) -> Option<View<'_, T>> {
        let Places { outer: outer_axis, k, batch: batch_axis, .. } = self.places;
        let even = |axis: &Axis, range: &Range<usize>| {
            let run = axis.runs.get(range.start).map_or(0, |run| *run as usize);
            // The stride of a single index does not matter.
            let stride = if range.len() < 2 { 1 } else { axis.step(range.start) };
            (run >= range.len()).then(|| usize::try_from(stride).ok()).flatten()
        };
        if !batch_axis.guards.is_empty() || outer.is_empty() || ks.is_empty() {
            return None;
        }
        let (outer_stride, k_stride) = (even(outer_axis, &outer)?, even(k, &ks)?);
        let start = self.base(batch) + outer_axis.offsets[outer.start] + k.offsets[ks.start];
        Some(View { data: self.data.get(usize::try_from(start).ok()?..)?, outer_stride, k_stride })
    }
}

/// Returns the part of `range` where `value + i * step >= 0`.
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
