//! Loads of a chunk: in place if the elements are contiguous, else into a register.

use super::{At, Machine};
use crate::cpu::loops::walk::{Piece, Walker, where_at_least_zero};
use crate::cpu::memory::{Output, elements, scratch};
use crate::cpu::vector;
use crate::cpu::vector::number::{Bits, Number, typed};
use crate::cpu::vector::strip::{ChunkPointer, Code};
use std::ops::Range;
use tile_compiler::dtype::DType;
use tile_compiler::native::{Lines, Reader, TapeStep};
use tile_compiler::scalar::Value;

/// The elements that a load reads for a chunk.
#[derive(Clone, Copy)]
struct Source<'a, T> {
    reader: &'a Reader,
    data: &'a [T],
    /// The position in the tensor of the first element of `data`.
    first: i64,
    /// Whether every condition holds all over the chunk.
    whole: bool,
    /// The offset, with the conditions unless `whole`.
    lines: &'a Lines,
}

impl<T> Source<'_, T> {
    /// Returns the part of a piece in which every condition holds.
    #[inline]
    fn part(&self, piece: &Piece) -> Range<usize> {
        piece.where_at_least_zero(1, &self.lines.steps)
    }
}

impl Machine<'_> {
    /// Returns the position of a chunk's first element, if the lines have all of it in one piece.
    fn one_piece(&mut self, lines: &Lines, start: usize, length: usize) -> Option<usize> {
        let mut place = None;
        if lines.run - start % lines.run >= length {
            self.walker.walk(&self.tape.space, lines, start, length, |piece| {
                place = Some(piece.values[0] as usize)
            });
        }
        place
    }

    /// Reads a chunk of an operand that an output overwrites. It is read at the places that are
    /// written, as [`tile_compiler::nest::Nest::may_overwrite`] checks.
    fn load_own<T: Bits>(
        &mut self,
        reader: &Reader,
        output: &Output,
        start: usize,
        value: Value,
        out: &mut [T],
    ) -> usize {
        let lines = &reader.offset;
        if reader.in_place
            && lines.steps[0] == 1
            && let Some(first) = self.one_piece(lines, start, out.len())
        {
            let first = (first - output.first) * size_of::<T>();
            let place =
                ChunkPointer::elements(output.bytes.part(&(first..first + size_of_val(out))));
            if self.tape.longest_chain.is_some() && size_of::<T>() == size_of::<f32>() {
                let next = ChunkPointer::elements(place.start.wrapping_add(size_of_val(out)));
                self.ahead.push((Code::Fetch, next));
            }
            self.at[value] = At::Own(place);
            return out.len();
        }
        let step = if lines.steps[0] == 1 { usize::MAX } else { 1 };
        self.walker.walk(&self.tape.space, lines, start, out.len(), |piece| {
            for (number, out) in out[piece.at..][..piece.length].chunks_mut(step).enumerate() {
                let at = (piece.values[0] + number as i64 * lines.steps[0]) as usize - output.first;
                // SAFETY: only this thread computes these places, by the contract of
                // `Operand::overwritten`, and it writes each of them after it has read it.
                let own = unsafe {
                    output.bytes.slice(at * size_of::<T>()..(at + out.len()) * size_of::<T>())
                };
                out.copy_from_slice(elements(own));
            }
        });
        out.len()
    }

    /// Reads a chunk: in place if its elements are contiguous, else into `out`. Returns the number
    /// of elements read: 1 if they are all the same.
    pub(super) fn load<T: Bits>(
        &mut self,
        reader: &Reader,
        start: usize,
        value: Value,
        out: &mut [T],
    ) -> usize {
        let operand = self.operands[reader.operand];
        if let Some(output) = operand.over() {
            return self.load_own(reader, output, start, value, out);
        }
        let whole = self.walker.all_hold(&self.tape.space, &reader.conditions, start, out.len());
        let lines = if whole { &reader.offset } else { &reader.guarded };
        let source = Source {
            reader,
            data: elements(operand.bytes),
            first: operand.first as i64,
            whole,
            lines,
        };
        if reader.dynamic.is_empty() {
            self.load_affine(source, start, value, out)
        } else {
            self.load_dynamic(source, start, value, out)
        }
    }

    /// Reads a chunk of i64s as words. Returns the number of elements read, as [`Machine::load`].
    pub(super) fn load_saturated(
        &mut self,
        reader: &Reader,
        start: usize,
        step: &TapeStep,
        out: &mut [i32],
    ) -> usize {
        let (value, length) = (step.value, self.length);
        // As bits, for which there are loops already.
        scratch::with(length, |long: &mut [u64]| {
            let place = std::mem::replace(&mut self.at[value], At::Register(step.register));
            let made = self.load(reader, start, value, long);
            if matches!(self.at[value], At::Register(_)) {
                vector::saturate(bytemuck::cast_slice(&long[..made]), &mut out[..made]);
            } else {
                let long = bytemuck::cast_slice(self.value::<u64>(value));
                vector::saturate(long, &mut out[..length]);
            }
            self.at[value] = place;
            made
        })
    }

    /// Reads a chunk whose addresses are known in advance.
    #[inline]
    fn load_affine<T: Bits>(
        &mut self,
        source: Source<T>,
        start: usize,
        value: Value,
        out: &mut [T],
    ) -> usize {
        let Source { data, first, whole, lines, .. } = source;
        let (space, length, step) = (&self.tape.space, out.len(), lines.steps[0]);
        if whole
            && matches!(step, 0 | 1)
            && let Some(place) = self.one_piece(lines, start, length)
        {
            return self.load_piece(source, place, value, out);
        }
        let row = length / self.rows;
        if self.rows > 1 && step == 0 && lines.run.is_multiple_of(row) && whole {
            // Several pieces are rows, one of each element.
            let most = if lines.run == row { usize::MAX } else { 1 };
            self.walker.walk_tables(space, lines, start, length, most, |piece, pieces| {
                let out = &mut out[piece.at / row..][..pieces * piece.length / row];
                let step = if pieces > 1 { lines.beside[0] } else { 0 };
                vector::gather_strided(data, piece.values[0] - first, step, out);
            });
            return self.rows;
        }
        if whole {
            self.walker.walk_tables(space, lines, start, length, usize::MAX, |piece, pieces| {
                let out = &mut out[piece.at..][..pieces * piece.length];
                vector::gather_table(
                    data,
                    piece.values[0] - first,
                    [lines.beside[0], step],
                    piece.length,
                    out,
                );
            });
            return length;
        }
        self.load_guarded(source, start, out);
        length
    }

    /// Reads a chunk of which some elements do not count, and are 0.
    fn load_guarded<T: Bits>(&mut self, source: Source<T>, start: usize, out: &mut [T]) {
        let Source { data, first, lines, .. } = source;
        let (space, length, step) = (&self.tape.space, out.len(), lines.steps[0]);
        // Conditions that are the same all over each piece hold for some pieces, one after another.
        let most = if lines.steps[1..].iter().all(|step| *step == 0) { usize::MAX } else { 1 };
        self.walker.walk_tables(space, lines, start, length, most, |piece, pieces| {
            let out = &mut out[piece.at..][..pieces * piece.length];
            let (part, columns, steps) = if pieces > 1 {
                let conditions = piece.values[1..].iter().zip(&lines.beside[1..]);
                let hold = conditions.fold(0..pieces as i64, |hold, (value, beside)| {
                    where_at_least_zero(hold, *value, *beside)
                });
                let end = hold.end.clamp(0, pieces as i64) as usize;
                let begin = hold.start.clamp(0, end as i64) as usize;
                (begin..end, piece.length, [lines.beside[0], step])
            } else {
                (source.part(&piece), 1, [step, 1])
            };
            let elements = part.start * columns..part.end * columns;
            out[..elements.start].fill(T::default());
            out[elements.end..].fill(T::default());
            if !part.is_empty() {
                let from = piece.values[0] + part.start as i64 * steps[0] - first;
                match columns {
                    1 => vector::gather_strided(data, from, steps[0], &mut out[elements]),
                    _ => vector::gather_table(data, from, steps, columns, &mut out[elements]),
                }
            }
        });
    }

    /// Reads a chunk that is one element, or contiguous from element `place` on.
    fn load_piece<T: Bits>(
        &mut self,
        source: Source<T>,
        place: usize,
        value: Value,
        out: &mut [T],
    ) -> usize {
        let Source { data, first, lines, .. } = source;
        let (local, length) = (place - first as usize, out.len());
        if lines.steps[0] == 0 {
            out[0] = data[local];
            return 1;
        }
        let next =
            data.get(local + length..(local + 2 * length).min(data.len())).unwrap_or_default();
        // The longest chain prefetches as it goes. Before other loops, prefetches of a whole chunk
        // take longer than the processor's own.
        if self.tape.longest_chain.is_some()
            && next.len() == length
            && size_of::<T>() == size_of::<f32>()
        {
            self.ahead.push((Code::Fetch, ChunkPointer::elements(next.as_ptr().cast_mut().cast())));
        }
        self.at[value] = At::Operand(source.reader.operand, place);
        length
    }

    /// Reads a chunk whose addresses other values decide, too.
    fn load_dynamic<T: Bits>(
        &mut self,
        source: Source<T>,
        start: usize,
        value: Value,
        out: &mut [T],
    ) -> usize {
        let Source { reader, data, first, whole, lines } = source;
        let (length, step) = (out.len(), lines.steps[0]);
        // Indices that are the same all over the chunk shift all addresses.
        let is_uniform = |(index, ..): &&(Value, DType, i64)| self.is_uniform(*index);
        let move_of = |(index, dtype, stride): &(Value, DType, i64)| {
            typed!(*dtype, D => self.value::<D>(*index)[0].to_i64()) * stride
        };
        let moved: i64 = reader.dynamic.iter().filter(is_uniform).map(move_of).sum();
        let indices: Vec<_> =
            reader.dynamic.iter().filter(|dynamic| !is_uniform(dynamic)).collect();
        if indices.is_empty()
            && whole
            && step == 1
            && let Some(place) = self.one_piece(lines, start, length)
        {
            let place = place as i64 + moved;
            let local = usize::try_from(place - first).unwrap_or(usize::MAX);
            if local.checked_add(length).is_some_and(|end| end <= data.len()) {
                self.at[value] = At::Operand(reader.operand, place as usize);
                return length;
            }
        }
        let row = length / self.rows;
        let of_rows = |(index, ..): &&(Value, DType, i64)| {
            matches!(self.at[*index], At::OfRows(_)) || self.repeats(*index, row)
        };
        let has_rows = self.rows > 1 && lines.run.is_multiple_of(row);
        if whole && has_rows && indices.iter().all(of_rows) {
            self.load_rows(source, start, moved - first, &indices, out);
            return length;
        }
        indices.iter().for_each(|(index, ..)| self.widen(*index, length));
        let mut walker = std::mem::replace(&mut self.walker, Walker::new(0));
        let mut moves = std::mem::take(&mut self.moves);
        let moved = moved - first;
        if let [(index, DType::I32, 1)] = indices[..] {
            self.gather(source, start, moved, self.value::<i32>(*index), &mut walker, out);
        } else {
            moves.clear();
            moves.resize(length, 0);
            for (index, dtype, stride) in indices {
                typed!(*dtype, D => vector::add_moves(self.value::<D>(*index), *stride, &mut moves));
            }
            self.gather(source, start, moved, &moves, &mut walker, out);
        }
        (self.walker, self.moves) = (walker, moves);
        length
    }

    /// Reads a chunk whose elements move by `moved` elements, and each by its own of `moves`.
    fn gather<T: Bits, M: Number>(
        &self,
        source: Source<T>,
        start: usize,
        moved: i64,
        moves: &[M],
        walker: &mut Walker,
        out: &mut [T],
    ) {
        let step = source.lines.steps[0];
        walker.walk(&self.tape.space, source.lines, start, out.len(), |piece| {
            let part = source.part(&piece);
            let (out, moves) =
                (&mut out[piece.at..][..piece.length], &moves[piece.at..][part.clone()]);
            if part.len() < out.len() {
                out.fill(T::default());
            }
            let from = (piece.values[0] + part.start as i64 * step).wrapping_add(moved);
            vector::gather_moved(source.data, from, step, moves, &mut out[part]);
        });
    }

    /// Returns whether a value is the same in each row of this length.
    fn repeats(&self, value: Value, row: usize) -> bool {
        let mut steady = self.tape.steady.iter();
        let is_steady = matches!(self.at[value], At::Steady(..));
        is_steady && steady.any(|(step, period)| step.value == value && row.is_multiple_of(*period))
    }

    /// Reads a chunk of whole rows. Run-time indices move all of them by `moved` elements, each by
    /// its own `indices`, and the elements of each by those of `indices` that repeat.
    fn load_rows<T: Bits>(
        &mut self,
        source: Source<T>,
        start: usize,
        moved: i64,
        indices: &[&(Value, DType, i64)],
        out: &mut [T],
    ) {
        let row = out.len() / self.rows;
        let (columns, of_rows): (Vec<_>, Vec<_>) =
            indices.iter().copied().partition(|&&(index, ..)| self.repeats(index, row));
        let mut walker = std::mem::replace(&mut self.walker, Walker::new(0));
        let mut moves = std::mem::take(&mut self.moves);
        moves.clear();
        moves.resize(self.rows, moved);
        for (index, dtype, stride) in of_rows {
            typed!(dtype, D => vector::add_moves(self.distinct::<D>(index), stride, &mut moves));
        }
        if let [(index, DType::I32, 1)] = columns[..] {
            let columns = &self.value::<i32>(index)[..row];
            self.gather_rows(source, start, &moves, columns, &mut walker, out);
        } else {
            moves.resize(self.rows + if columns.is_empty() { 0 } else { row }, 0);
            let (of_rows, of_columns) = moves.split_at_mut(self.rows);
            for (index, dtype, stride) in columns {
                typed!(dtype, D => vector::add_moves(self.value::<D>(index), stride, of_columns));
            }
            self.gather_rows(source, start, of_rows, of_columns, &mut walker, out);
        }
        (self.walker, self.moves) = (walker, moves);
    }

    /// Reads a chunk of whole rows, which move by their `moves`, and their elements by `columns`.
    fn gather_rows<T: Bits, C: Number>(
        &self,
        source: Source<T>,
        start: usize,
        moves: &[i64],
        columns: &[C],
        walker: &mut Walker,
        out: &mut [T],
    ) {
        let Source { data, lines, .. } = source;
        let (length, row) = (out.len(), out.len() / self.rows);
        let (step, is_row) = (lines.steps[0], lines.run == row);
        let between = if is_row { lines.beside[0] } else { step.wrapping_mul(row as i64) };
        let most = if is_row { usize::MAX } else { 1 };
        walker.walk_tables(&self.tape.space, lines, start, length, most, |piece, pieces| {
            let out = &mut out[piece.at..][..pieces * piece.length];
            let moves = &moves[piece.at / row..][..out.len() / row];
            vector::gather_rows(data, piece.values[0], [between, step], moves, columns, out);
        });
    }
}
