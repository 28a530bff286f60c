//! A run of a nest: its buffers, and the epilogue with which every implementation ends.

use super::machine::{Machine, Sink};
use super::runner::Runner;
use crate::cpu::memory::{Launch, Output, Shared, elements, elements_mut, scratch};
use crate::cpu::threads::idle::Idle;
use crate::cpu::threads::pool;
use crate::cpu::vector;
use crate::cpu::vector::number::{Bits, Number, sized};
use crate::cpu::vector::strip::{self, ChunkPointer};
use std::ops::Range;
use tile_compiler::native::{CHUNK, Fused, Lines, NativeProgram, Position, Space, WRITTEN};
use tile_compiler::scalar::Value;

/// The most operations counted for one element. However long the program is, a piece has at least
/// 512 points.
const LONGEST: usize = GRAIN / 512;

/// The least work of a piece, in operations: some microseconds of one thread.
const GRAIN: usize = 1 << 15;

/// One run of a nest.
pub struct Job<'a> {
    pub program: &'a NativeProgram,
    pub epilogue: &'a Runner,
    pub launch: Launch<'a>,
    outputs: &'a [Output<'a>],
}

impl<'a> Job<'a> {
    /// Creates a run that writes `outputs`. `epilogue` is that of the program.
    ///
    /// # Safety
    /// - No two places may share a position of an output.
    /// - While the job runs, nobody else may access these positions, and no two outputs may share
    ///   memory.
    /// - The job runs once.
    pub unsafe fn new(
        program: &'a NativeProgram,
        epilogue: &'a Runner,
        launch: Launch<'a>,
        outputs: &'a [Output<'a>],
    ) -> Self {
        Self { program, epilogue, launch, outputs }
    }

    /// Creates a thread's machine for the epilogue.
    pub fn finisher(&self) -> Machine<'a> {
        self.epilogue.machine(self.launch)
    }

    /// Returns the part of an output, as a range of bytes, that holds the elements of consecutive
    /// places. `None` if they are not contiguous there.
    fn part(
        &self,
        output: usize,
        places: Range<usize>,
        size: usize,
    ) -> Option<(&'a Shared<'a, u8>, Range<usize>)> {
        let Position::InOrder(shift) = &self.program.outputs[output].position else { return None };
        let Output { bytes, first } = &self.outputs[output];
        let loops = self.program.variables.loops;
        let steps = self.launch.steps;
        let shift = shift
            .terms()
            .iter()
            .fold(shift.offset(), |sum, (v, c)| sum + c * steps[v - loops] as i64);
        let at = |place: usize| {
            place.wrapping_add_signed(shift as isize).wrapping_sub(*first).wrapping_mul(size)
        };
        Some((bytes, at(places.start)..at(places.end)))
    }

    /// Runs the epilogue for a chunk of places and stores the results. The values that the epilogue
    /// is given must already be in `epilogue`.
    ///
    /// # Safety
    /// - Each place must be finished by one thread only.
    pub unsafe fn finish(&self, epilogue: &mut Machine, places: Range<usize>) {
        let part = |output: usize, result: Value| {
            self.part(output, places.clone(), self.epilogue.dtype(result).size())
        };
        epilogue.clear_sinks();
        for (output, &result) in self.epilogue.results.iter().enumerate() {
            if self.epilogue.direct[output]
                && let Some((bytes, range)) = part(output, result)
            {
                let is_read = self.program.outputs[output].over.is_some();
                let place = ChunkPointer::elements(bytes.part(&range));
                let sink = Sink { output, value: result, place, bytes: range.len(), is_read };
                // SAFETY: `part` checks that the range lies in the output. Each place is finished
                // by one thread only, which clears the sinks before the next chunk.
                unsafe { epilogue.add_sink(sink) };
            }
        }
        epilogue.run_into_sinks(places.start, places.len());
        for (output, &result) in self.epilogue.results.iter().enumerate() {
            if epilogue.is_in_sink(output) {
                continue;
            }
            match part(output, result) {
                Some((bytes, range)) => {
                    // SAFETY: each place is finished by one thread only, so no other part in use
                    // shares these elements. The result is not in its sink, so `epilogue.bytes` is
                    // other memory.
                    unsafe { bytes.slice(range) }.copy_from_slice(epilogue.bytes(result))
                }
                // SAFETY: each place is finished by one thread only.
                None => unsafe { self.scatter(epilogue, output, places.clone()) },
            }
        }
    }

    /// Stores the results of a chunk of places at their positions in an output.
    ///
    /// # Safety
    /// - Each place must be finished by one thread only.
    unsafe fn scatter(&self, epilogue: &mut Machine, output: usize, places: Range<usize>) {
        let lines = match &self.program.outputs[output].position {
            Position::InOrder(_) => return,
            Position::Lines(lines) => lines,
            Position::Rows(lines, rows) => {
                // SAFETY: the contract is the same.
                return unsafe { self.scatter_rows(epilogue, output, lines, rows, places) };
            }
        };
        let Output { bytes, first } = &self.outputs[output];
        let result = self.epilogue.results[output];
        let mut walker = epilogue.walker.clone();
        sized!(self.epilogue.dtype(result), T => {
            let values: &[T] = elements(epilogue.bytes(result));
            let (space, most) = (&self.epilogue.space, usize::MAX);
            let steps = [lines.beside[0], lines.steps[0]];
            walker.walk_tables(space, lines, places.start, places.len(), most, |piece, pieces| {
                let values = &values[piece.at..][..pieces * piece.length];
                let start = piece.values[0] - *first as i64;
                // SAFETY: each place is finished by one thread only, and no two places share a
                // position, so no other part in use shares these elements.
                unsafe { store_table(bytes, start, steps, piece.length, values) };
            });
        });
    }

    /// Stores one result for each row of a chunk.
    ///
    /// # Safety
    /// - Each place must be finished by one thread only.
    unsafe fn scatter_rows(
        &self,
        epilogue: &mut Machine,
        output: usize,
        lines: &Lines,
        rows: &Space,
        places: Range<usize>,
    ) {
        let Output { bytes, first } = &self.outputs[output];
        let result = self.epilogue.results[output];
        let (size, length) =
            (self.epilogue.dtype(result).size(), self.epilogue.row_length.unwrap_or(1));
        let mut walker = epilogue.walker.clone();
        let (values, step) = epilogue.bytes_of_rows(result, length);
        walker.walk(rows, lines, places.start / length, places.len() / length, |piece| {
            for row in 0..piece.length {
                let at = piece.values[0] + row as i64 * lines.steps[0] - *first as i64;
                let Ok(at) = usize::try_from(at) else { return };
                // SAFETY: threads get whole rows, and no two rows share a position, so no other
                // part in use shares this element.
                let to = unsafe { bytes.slice(at * size..(at + 1) * size) };
                to.copy_from_slice(&values[(piece.at + row) * step * size..][..size]);
            }
        });
    }

    /// Runs the epilogue on the accumulated values of consecutive places and stores the results. At
    /// least one point must have counted at each place.
    ///
    /// # Safety
    /// - Each place must be finished by one thread only.
    pub unsafe fn complete<T: Number>(&self, epilogue: &mut Machine, place: usize, values: &[T]) {
        let longest = if self.epilogue.fused.is_some() { CHUNK } else { self.epilogue.longest };
        for (start, values) in (place..).step_by(longest).zip(values.chunks(longest)) {
            let part = || self.part(0, start..start + values.len(), size_of::<T>());
            match self.epilogue.fused.as_ref().and_then(|fused| Some((fused, part()?))) {
                Some((fused, (bytes, range))) => {
                    // SAFETY: each place is finished by one thread only, so no other part in use
                    // shares these elements.
                    let out = unsafe { bytes.slice(range) };
                    epilogue.run_fused(
                        fused,
                        start,
                        elements(bytemuck::cast_slice(values)),
                        elements_mut(out),
                    );
                }
                None => {
                    // SAFETY: `values` are borrowed until the chunk is finished, and later chunks
                    // are given others. Each place is finished by one thread only.
                    unsafe {
                        epilogue.lend(values);
                        self.finish(epilogue, start..start + values.len());
                    }
                }
            }
        }
    }

    /// Returns a pointer to the elements of consecutive places, if the accumulated values are
    /// stored unchanged: contiguous, in one output, without an epilogue. Nobody else uses that
    /// memory if each place is computed by one thread only.
    pub fn direct<T>(&self, places: Range<usize>) -> Option<*mut T> {
        let is_plain = self.outputs.len() == 1 && self.epilogue.is_accumulator();
        let (bytes, range) = self.memory::<T>(places).filter(|_| is_plain)?;
        Some(bytes.part(&range).cast())
    }

    /// Returns the first output's bytes for consecutive places, with elements as large as a `T`, if
    /// they are contiguous and do not overwrite an operand: a place that is computed twice would
    /// read it changed.
    fn memory<T>(&self, places: Range<usize>) -> Option<(&'a Shared<'a, u8>, Range<usize>)> {
        let is_alone = self.program.outputs[0].over.is_none();
        let (bytes, range) = self.part(0, places, size_of::<T>())?;
        let start = bytes.start().wrapping_add(range.start).cast::<T>();
        let fits = range.start <= range.end && range.end <= bytes.len();
        (is_alone && fits && start.is_aligned()).then_some((bytes, range))
    }

    /// Returns whether the epilogue asks at which places any point counted.
    pub fn tracks_written(&self) -> bool {
        self.epilogue.given.iter().any(|(_, register)| *register == WRITTEN)
    }

    /// Returns the fused epilogue and a pointer to the output's element of place 0, for an
    /// implementation that applies the epilogue itself. The elements are contiguous, and nobody
    /// else uses them if each place is computed by one thread only. `None` if the output overwrites
    /// an operand.
    pub fn fused(&self) -> Option<(&'a Fused, *mut f32)> {
        let fused = self.epilogue.fused.as_ref()?;
        let (bytes, range) = self.memory::<f32>(0..self.program.places())?;
        Some((fused, bytes.part(&range).cast()))
    }

    /// Returns memory where the accumulated values of all places may wait for the epilogue: the
    /// first output, if its elements are as large as a `T`. `None` if the epilogue should run at
    /// once: it has the fused form, changes nothing, or needs whole rows.
    pub fn waiting<T>(&self) -> Option<Waiting<'a>> {
        let epilogue = self.epilogue;
        let size = epilogue.dtype(*epilogue.results.first()?).size();
        let runs_at_once =
            epilogue.fused.is_some() || epilogue.row_length.is_some() || epilogue.is_accumulator();
        let memory = self.memory::<T>(0..self.program.places());
        let (bytes, range) = memory.filter(|_| size == size_of::<T>() && !runs_at_once)?;
        Some(Waiting { bytes, start: range.start })
    }

    /// Runs the epilogue at all places, on the values that wait in the first output. At least one
    /// point must have counted at each place.
    ///
    /// # Safety
    /// - The values of all places must wait there, and nobody else may access them.
    pub unsafe fn complete_waiting<T: Number>(&self, waiting: Waiting) {
        let places = self.program.places();
        let worker = || (self.finisher(), vec![T::default(); CHUNK]);
        let work = (self.epilogue.operations + 1).min(LONGEST) * CHUNK;
        parallel(0..places.div_ceil(CHUNK), work, worker, |(machine, values), chunks| {
            for chunk in chunks {
                let some = chunk * CHUNK..places.min((chunk + 1) * CHUNK);
                let values = &mut values[..some.len()];
                // SAFETY: `parallel` gives each chunk to one thread. The copies are other memory
                // than the output.
                unsafe {
                    values.copy_from_slice(waiting.places(some.clone()));
                    self.complete(machine, some.start, values);
                }
            }
        });
    }

    /// Runs a nest without aggregation at some places.
    pub fn pointwise(&self, places: Range<usize>) {
        // Threads get whole rows, if chunks are, and whole exchanges, if there are enough.
        let unit = self.epilogue.unit();
        let divides = self.epilogue.row_length.is_none() && places.len() / unit < pool::threads();
        let unit = if divides { 1 } else { unit };
        // A long program takes long to set up, so its pieces keep a minimum number of points.
        let work = (self.epilogue.operations + 1).min(LONGEST);
        let machine = || self.streamer();
        parallel(0..places.len().div_ceil(unit), work * unit, machine, |machine, units| {
            let [start, end] = [units.start, units.end].map(|number| places.start + number * unit);
            // SAFETY: `parallel` gives each place to one thread.
            unsafe { self.stream(machine, start..end.min(places.end)) };
        });
    }

    /// Creates a thread's machine for [`Job::stream`].
    pub fn streamer(&self) -> Machine<'a> {
        let mut machine = self.finisher();
        machine.past = self.program.bypass;
        machine
    }

    /// Computes some places of a nest without aggregation: whole rows, if the tape has rows.
    ///
    /// # Safety
    /// - Each place must be computed by one thread only.
    pub unsafe fn stream(&self, machine: &mut Machine, places: Range<usize>) {
        // SAFETY: the contract is the same.
        self.epilogue.chunks(places).for_each(|chunk| unsafe { self.finish(machine, chunk) });
        if machine.past {
            strip::fence();
        }
    }
}

/// Memory with one element for each place.
#[derive(Clone, Copy)]
pub struct Waiting<'a> {
    bytes: &'a Shared<'a, u8>,
    /// The byte at which the element of place 0 starts.
    start: usize,
}

impl<'a> Waiting<'a> {
    fn range<T>(&self, places: &Range<usize>) -> Range<usize> {
        self.start + places.start * size_of::<T>()..self.start + places.end * size_of::<T>()
    }

    /// Returns a pointer to the first element of consecutive places. Panics if there are none for
    /// all of these places.
    pub fn start<T>(&self, places: Range<usize>) -> *mut T {
        self.bytes.part(&self.range::<T>(&places)).cast()
    }

    /// Returns the elements of consecutive places.
    ///
    /// # Safety
    /// - Nobody else may use them meanwhile.
    pub unsafe fn places<T: bytemuck::Pod>(&self, places: Range<usize>) -> &'a mut [T] {
        // SAFETY: the contract is the same.
        elements_mut(unsafe { self.bytes.slice(self.range::<T>(&places)) })
    }
}

/// Stores `values[i * columns + j]` as element `start + i * steps[0] + j * steps[1]`.
///
/// # Safety
/// - The elements must be all different, and nobody else may access them meanwhile.
unsafe fn store_table<T: Bits>(
    to: &Shared<u8>,
    start: i64,
    steps: [i64; 2],
    columns: usize,
    values: &[T],
) {
    let part = |at: i64, count: usize| {
        let at = usize::try_from(at).expect("a place within the output") * size_of::<T>();
        // SAFETY: the caller guarantees that the elements are this call's own. Each is borrowed
        // once.
        elements_mut::<T>(unsafe { to.slice(at..at + count * size_of::<T>()) })
    };
    let rows = values.len() / columns;
    if steps[1] == 1 && columns > 1 {
        for (i, values) in values.chunks_exact(columns).enumerate() {
            vector::copy_short(values, part(start + i as i64 * steps[0], columns));
        }
    } else if steps[0] == 1 && rows > 1 && columns > 1 {
        // Rows and columns are exchanged in registers.
        scratch::with(values.len(), |lines: &mut [T]| {
            vector::gather_table(values, 0, [1, columns as i64], rows, lines);
            for (j, line) in lines.chunks_exact(rows).enumerate() {
                vector::copy_short(line, part(start + j as i64 * steps[1], rows));
            }
        });
    } else {
        for (i, values) in values.chunks_exact(columns).enumerate() {
            for (j, value) in values.iter().enumerate() {
                part(start + i as i64 * steps[0] + j as i64 * steps[1], 1)[0] = *value;
            }
        }
    }
}

/// Calls `f` with ranges that make up `range`, with a worker made by `new` that serves several
/// ranges in turn. Several threads are used if the work, `work` operations for each element, is
/// worth it.
pub fn parallel<W: Send>(
    range: Range<usize>,
    work: usize,
    new: impl Fn() -> W + Sync,
    f: impl Fn(&mut W, Range<usize>) + Sync,
) {
    let total = range.len();
    let threads = pool::threads();
    // Many pieces, since threads are not equally fast.
    let pieces = (threads * 16).min(total.saturating_mul(work) / GRAIN).min(total);
    if threads == 1 || pieces < 2 {
        return f(&mut new(), range);
    }
    let idle = Idle::new();
    let size = total.div_ceil(pieces);
    let size = if size > CHUNK { size.next_multiple_of(CHUNK) } else { size };
    pool::run(total.div_ceil(size), |piece| {
        let start = range.start + piece * size;
        let mut worker = idle.take(&new);
        f(&mut worker, start..range.end.min(start + size));
        idle.give(worker);
    });
}
