//! Loads of elements that are not contiguous.

use super::level::vectorised;
use super::number::{Bits, Number};

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "an instruction of a vector unit")]
mod instruction;

vectorised! {
    /// Gathers `out[i] = data[start + i * step]`.
    pub fn gather_strided<T: Bits>(data: &[T], start: i64, step: i64, out: &mut [T]) {
        /// Takes the first of every `N` elements, which the compiler turns into shuffles of
        /// registers.
        #[inline(always)]
        fn first_of<T: Bits, const N: usize>(data: &[T], out: &mut [T]) {
            let (groups, rest) = data.as_chunks::<N>();
            for (out, group) in out.iter_mut().zip(groups) {
                *out = group[0];
            }
            // The last group may be incomplete.
            if let Some(last) = out.get_mut(groups.len()) {
                *last = rest[0];
            }
        }
        match step {
            0 => out.fill(data[start as usize]),
            1 => out.copy_from_slice(&data[start as usize..][..out.len()]),
            2 => first_of::<T, 2>(&data[start as usize..], out),
            3 => first_of::<T, 3>(&data[start as usize..], out),
            4 => first_of::<T, 4>(&data[start as usize..], out),
            5.. => {
                let from = data[start as usize..].iter().step_by(step as usize);
                for (out, from) in out.iter_mut().zip(from) {
                    *out = *from;
                }
            }
            _ => {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = data[(start + i as i64 * step) as usize];
                }
            }
        }
    }
}

vectorised! {
    /// Gathers `out[i] = data[start + i * step + moves[i]]`, or 0 if there is no such element.
    pub fn gather_moved<T: Bits, M: Number>(data: &[T], start: i64, step: i64, moves: &[M], out: &mut [T]) {
        let (Some(first), Some(last)) = (moves.first(), moves.last()) else { return };
        // Run-time indices may have any value. An address that wraps is not in the data.
        let begin = start.wrapping_add(first.to_i64());
        let ends = [begin, begin.wrapping_add(step * (out.len() as i64 - 1))];
        let is_within = ends.iter().all(|end| (0..data.len() as i64).contains(end));
        if first == last && is_within && moves.iter().all(|by| by == first) {
            return gather_strided(data, ends[0], step, out);
        }
        #[cfg(target_arch = "x86_64")]
        if instruction::gather(data, start, step, moves, out) {
            return;
        }
        for (i, (out, by)) in out.iter_mut().zip(moves).enumerate() {
            // A negative address becomes greater than any length.
            let from = start.wrapping_add(i as i64 * step).wrapping_add(by.to_i64());
            *out = data.get(from as usize).copied().unwrap_or_default();
        }
    }
}

vectorised! {
    /// Adds to each of `moves` its index, in steps of `stride`. Sums wrap.
    pub fn add_moves<T: Number>(indices: &[T], stride: i64, moves: &mut [i64]) {
        if stride == 1 {
            for (to, index) in moves.iter_mut().zip(indices) {
                *to = to.wrapping_add(index.to_i64());
            }
            return;
        }
        for (to, index) in moves.iter_mut().zip(indices) {
            *to = to.wrapping_add(index.to_i64().wrapping_mul(stride));
        }
    }
}

vectorised! {
    /// Gathers the rows `out[i][j] = data[start + i * steps[0] + moves[i] + j * steps[1]]`, or 0 if
    /// there is no such element. There are as many rows as moves. If there are `columns`, the
    /// position moves by `columns[j]`, too.
    pub fn gather_rows<T: Bits, C: Number>(
        data: &[T],
        start: i64,
        steps: [i64; 2],
        moves: &[i64],
        columns: &[C],
        out: &mut [T],
    ) {
        /// Copies rows of `N` elements, which fit into few registers.
        #[inline(always)]
        fn short<T: Bits, const N: usize>(data: &[T], start: i64, steps: [i64; 2], moves: &[i64], out: &mut [T]) {
            let (rows, _) = out.as_chunks_mut::<N>();
            for (i, (out, by)) in rows.iter_mut().zip(moves).enumerate() {
                let from = start.wrapping_add(i as i64 * steps[0]).wrapping_add(*by);
                match data.get(from as usize..).and_then(|data| data.first_chunk::<N>()) {
                    Some(row) => *out = *row,
                    None => one(data, from, 1, out),
                }
            }
        }
        /// Gathers one row, element by element.
        #[inline(always)]
        fn one<T: Bits>(data: &[T], from: i64, step: i64, out: &mut [T]) {
            for (j, out) in out.iter_mut().enumerate() {
                // A negative address becomes greater than any length.
                *out = data.get(from.wrapping_add(j as i64 * step) as usize).copied().unwrap_or_default();
            }
        }
        let row = out.len() / moves.len().max(1);
        match (steps[1], row) {
            _ if !columns.is_empty() => {}
            (1, 2) => return short::<T, 2>(data, start, steps, moves, out),
            (1, 4) => return short::<T, 4>(data, start, steps, moves, out),
            (1, 8) => return short::<T, 8>(data, start, steps, moves, out),
            (1, 16) => return short::<T, 16>(data, start, steps, moves, out),
            _ => {}
        }
        for (i, (out, by)) in out.chunks_exact_mut(row.max(1)).zip(moves).enumerate() {
            let from = start.wrapping_add(i as i64 * steps[0]).wrapping_add(*by);
            match data.get(from as usize..).and_then(|data| data.get(..row)) {
                _ if !columns.is_empty() => gather_moved(data, from, steps[1], columns, out),
                Some(row) if steps[1] == 1 => out.copy_from_slice(row),
                _ => one(data, from, steps[1], out),
            }
        }
    }
}

vectorised! {
    /// Gathers `out[i * columns + j] = data[start + i + j * step]`, in whole rows. A few columns
    /// are read at a time: caches hold only few lines whose distance is a power of 2.
    pub fn exchange<T: Bits>(data: &[T], start: usize, step: usize, columns: usize, out: &mut [T]) {
        /// Gathers `N` columns from `j` on.
        #[inline(always)]
        fn some<T: Bits, const N: usize>(data: &[T], start: usize, step: usize, j: usize, columns: usize, out: &mut [T]) {
            let rows = out.len() / columns;
            let from: [&[T]; N] = std::array::from_fn(|k| &data[start + (j + k) * step..][..rows]);
            for (i, out) in out.chunks_exact_mut(columns).enumerate() {
                out[j..][..N].copy_from_slice(&std::array::from_fn::<T, N, _>(|k| from[k][i]));
            }
        }
        #[cfg(target_arch = "x86_64")]
        let mut j = instruction::exchange(data, start, step, columns, out);
        #[cfg(not(target_arch = "x86_64"))]
        let mut j = 0;
        for width in [8, 4, 2, 1] {
            while columns - j >= width {
                match width {
                    8 => some::<T, 8>(data, start, step, j, columns, out),
                    4 => some::<T, 4>(data, start, step, j, columns, out),
                    2 => some::<T, 2>(data, start, step, j, columns, out),
                    _ => some::<T, 1>(data, start, step, j, columns, out),
                }
                j += width;
            }
        }
    }
}

vectorised! {
    /// Gathers `out[i * columns + j] = data[start + i * steps[0] + j * steps[1]]`.
    pub fn gather_table<T: Bits>(data: &[T], start: i64, steps: [i64; 2], columns: usize, out: &mut [T]) {
        /// Gathers few columns that are contiguous in the source, as where two axes are exchanged.
        #[inline(always)]
        fn transpose<T: Bits, const N: usize>(data: &[T], start: usize, step: usize, out: &mut [T]) {
            let (rows, _) = out.as_chunks_mut::<N>();
            let columns: [&[T]; N] = std::array::from_fn(|j| &data[start + j * step..][..rows.len()]);
            for (i, out) in rows.iter_mut().enumerate() {
                *out = std::array::from_fn(|j| columns[j][i]);
            }
        }
        if steps[0] == 1 && steps[1] >= 0 {
            let (start, step) = (start as usize, steps[1] as usize);
            match columns {
                2 => return transpose::<T, 2>(data, start, step, out),
                3 => return transpose::<T, 3>(data, start, step, out),
                4 => return transpose::<T, 4>(data, start, step, out),
                5 => return transpose::<T, 5>(data, start, step, out),
                6 => return transpose::<T, 6>(data, start, step, out),
                7 => return transpose::<T, 7>(data, start, step, out),
                8 => return transpose::<T, 8>(data, start, step, out),
                _ if out.len() > columns => return exchange(data, start, step, columns, out),
                _ => {}
            }
        }
        for (i, out) in out.chunks_mut(columns).enumerate() {
            gather_strided(data, start + i as i64 * steps[0], steps[1], out);
        }
    }
}

/// Copies `from` to `to`, which has the same length. Inlined, since most runs are short.
#[inline]
pub fn copy_short<T: Copy>(from: &[T], to: &mut [T]) {
    /// Copies in pieces of `P`. The last piece ends with the slices and may overlap the one before.
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

#[cfg(test)]
mod tests;
