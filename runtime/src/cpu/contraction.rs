//! Nests that are a sum of products of two operands, run by the packed matrix product of [`super::gemm`].
//!
//! Which axes are rows, columns, batch and terms of the sum, [`Roles`] says; a convolution is such a product whose left
//! operand is gathered. A factor that is a single load is packed straight from its operand by tables of offsets; any other is
//! computed while packing. Guards become zeros in the packed operands. The epilogue runs on finished tiles.

use super::gemm::{Axis, Float, Gather, Layout, Pack, Panel, Size, Store, Tile, gemm};
use super::loops::Job;
use super::memory::elements;
use super::number::{Bool, Number};
use super::space::{Guards, Space, origin};
use super::tape::{ACCUMULATOR, CHUNK, Machine, Tape, WRITTEN};
use std::ops::Range;
use std::sync::Mutex;
use tile_compiler::affine::Affine;
use tile_compiler::dtype::DType;
use tile_compiler::nest::{Leaf, Load, Nest, Roles};
use tile_compiler::scalar::{Inst, Value};

/// Fewer multiply-adds than this, or fewer rows, are left to the vector loops, which need no packing.
const LEAST_WORK: usize = 4096;
const LEAST_ROWS: usize = 4;

/// Runs the job if it is such a product and worth packing for.
pub fn run(job: &Job) -> bool {
    match (oriented(job.nest), job.nest.accumulator()) {
        (Some(roles), Some(DType::F32)) => product::<f32>(job, &roles),
        (Some(roles), Some(DType::F64)) => product::<f64>(job, &roles),
        _ => return false,
    }
    true
}

/// The nest's roles with the last free axis a column, so that places follow each other along columns.
fn oriented(nest: &Nest) -> Option<Roles> {
    let mut roles = nest.roles()?;
    let last = nest.free.checked_sub(1)?;
    if roles.rows.contains(&last) {
        std::mem::swap(&mut roles.rows, &mut roles.columns);
        std::mem::swap(&mut roles.left, &mut roles.right);
        std::mem::swap(&mut roles.left_guards, &mut roles.right_guards);
    }
    let work = nest.places().saturating_mul(nest.reduction_points());
    (roles.columns.contains(&last) && size(nest, &roles.rows) >= LEAST_ROWS && work >= LEAST_WORK).then_some(roles)
}

/// Number of points of some axes.
fn size(nest: &Nest, axes: &[usize]) -> usize {
    axes.iter().map(|&a| nest.axes[a].extent).product()
}

/// The variable is one of `axes`, or derived from such alone. Those of the loops around the nest are constants.
fn depends_only_on(nest: &Nest, variable: usize, axes: &[usize]) -> bool {
    match variable.checked_sub(nest.axes.len()) {
        None => axes.contains(&variable) || nest.loops().contains(&variable),
        Some(number) => nest.derived[number].numerator.variables().all(|v| depends_only_on(nest, v, axes)),
    }
}

/// Sets the variables of `axes` to those of a point, in row-major order.
fn locate(nest: &Nest, axes: &[usize], mut position: usize, point: &mut [i64]) {
    for &axis in axes.iter().rev() {
        let extent = nest.axes[axis].extent;
        point[axis] = (position % extent) as i64;
        position /= extent;
    }
}

fn product<T: Float + Number>(job: &Job, roles: &Roles) {
    let nest = job.nest;
    let size = Size {
        batch: size(nest, &roles.batch),
        m: size(nest, &roles.rows),
        n: size(nest, &roles.columns),
        k: nest.reduction_points(),
    };
    let left = Operand::<T>::new(job, [&roles.batch, &roles.rows, &roles.reduction], roles.left, &roles.left_guards);
    let right =
        Operand::<T>::new(job, [&roles.batch, &roles.columns, &roles.reduction], roles.right, &roles.right_guards);
    let free: Vec<usize> = (0..nest.free).collect();
    let places = |axes: &[usize]| -> Vec<usize> {
        let mut point = vec![0; nest.axes.len()];
        let place = |position| {
            locate(nest, axes, position, &mut point);
            free.iter().fold(0, |place, &a| place * nest.axes[a].extent + point[a] as usize)
        };
        (0..self::size(nest, axes)).map(place).collect()
    };
    let epilogue = Epilogue {
        job,
        batch: places(&roles.batch),
        rows: places(&roles.rows),
        columns: places(&roles.columns),
        idle: Mutex::new(Vec::new()),
    };
    gemm(size, &left, &right, &epilogue);
}

/// How one operand is packed.
enum Operand<'a, T> {
    Gathered(Gather<'a, T>),
    Computed(Computed<'a>),
}

impl<'a, T: Float + Number> Operand<'a, T> {
    /// The operand whose elements are `value` of the body, 0 where a guard fails. `axes` are its batch, outer and reduction axes.
    fn new(job: &'a Job, axes: [&[usize]; 3], value: Value, guards: &[Affine]) -> Self {
        let nest = job.nest;
        if let Inst::Leaf(Leaf::Load(load)) = &nest.body.insts[value].0
            && let Some(gather) = gathered(job, axes, load, guards)
        {
            return Operand::Gathered(gather);
        }
        let space = Space::new(nest, nest.reduction());
        let tape = Tape::new(nest, &nest.body, &[value], space, guards);
        let [batch, outer, _] = axes.map(<[usize]>::to_vec);
        let guards = Guards::new(nest, Space::new(nest, nest.reduction()), guards);
        Operand::Computed(Computed { job, tape, guards, batch, outer })
    }
}

impl<T: Float + Number> Pack<T> for Operand<'_, T> {
    fn layout(&self) -> Layout {
        match self {
            Operand::Gathered(gather) => gather.layout(),
            Operand::Computed(_) => Layout::KContiguous,
        }
    }

    fn k_step(&self) -> usize {
        match self {
            Operand::Gathered(gather) => gather.k_step(),
            Operand::Computed(_) => usize::MAX,
        }
    }

    fn pack(&self, batch: usize, outer: Range<usize>, ks: Range<usize>, panel: Panel<T>) {
        match self {
            Operand::Gathered(gather) => gather.pack(batch, outer, ks, panel),
            Operand::Computed(computed) => computed.pack(batch, outer, ks, panel),
        }
    }
}

/// A load as tables of offsets, if each of its expressions is a sum of terms of the batch, the outer and the reduction axes.
fn gathered<'a, T: Number>(
    job: &'a Job,
    groups: [&[usize]; 3],
    load: &Load,
    guards: &[Affine],
) -> Option<Gather<'a, T>> {
    let nest = job.nest;
    let expressions: Vec<&Affine> =
        [&load.offset].into_iter().chain(&load.when).chain(guards.iter().filter(|g| !load.when.contains(g))).collect();
    let within = |variable: usize, axes: &[usize]| depends_only_on(nest, variable, axes);
    let separable = |affine: &Affine| affine.variables().all(|v| groups.iter().any(|group| within(v, group)));
    if !load.dynamic.is_empty() || !expressions.iter().all(|e| separable(e)) {
        return None;
    }
    let axis = |number: usize| -> Axis {
        let group = groups[number];
        // Of a derived variable of constants alone, which belongs to every group, the first takes charge; so with constants.
        let mine = |v: usize| groups.iter().position(|g| within(v, g)) == Some(number);
        let terms: Vec<Vec<(usize, i64)>> =
            expressions.iter().map(|e| e.terms().iter().copied().filter(|(v, _)| mine(*v)).collect()).collect();
        let mut tables = vec![Vec::with_capacity(size(nest, group)); expressions.len()];
        let mut point = origin(nest, job.steps);
        for position in 0..size(nest, group) {
            locate(nest, group, position, &mut point);
            for (derived, d) in nest.derived.iter().enumerate() {
                let terms = d.numerator.terms().iter();
                let numerator =
                    terms.fold(d.numerator.offset(), |sum, (v, c)| sum.wrapping_add(c.wrapping_mul(point[*v])));
                point[nest.axes.len() + derived] = numerator.div_euclid(d.denominator);
            }
            for ((table, terms), expression) in tables.iter_mut().zip(&terms).zip(&expressions) {
                let constant = if number == 0 { expression.offset() } else { 0 };
                table.push(terms.iter().fold(constant, |sum, (v, c)| sum + c * point[*v]) as isize);
            }
        }
        let mut tables = tables.into_iter();
        Axis::new(tables.next().unwrap_or_default(), tables.collect())
    };
    let data = elements(job.operands[load.operand]);
    Some(Gather::new(data, axis(0), axis(1), axis(2)))
}

/// An operand that its program computes, along the reduction.
struct Computed<'a> {
    job: &'a Job<'a>,
    tape: Tape<'a>,
    /// Where they fail, an element is 0.
    guards: Guards,
    batch: Vec<usize>,
    outer: Vec<usize>,
}

impl Computed<'_> {
    fn pack<T: Number>(&self, batch: usize, outer: Range<usize>, ks: Range<usize>, panel: Panel<T>) {
        let nest = self.job.nest;
        let mut machine = Machine::new(&self.tape, self.job);
        let mut counts = [Bool(0); CHUNK];
        locate(nest, &self.batch, batch, &mut machine.walker.point);
        for (row, o) in outer.enumerate() {
            locate(nest, &self.outer, o, &mut machine.walker.point);
            for start in ks.clone().step_by(CHUNK) {
                let chunk = start..ks.end.min(start + CHUNK);
                machine.run(chunk.start, chunk.len());
                let all = self.guards.hold(&mut machine.walker, &chunk, &mut counts);
                let values = machine.value::<T>(self.tape.results[0]);
                let to = &mut panel.data[row * panel.outer_stride + (start - ks.start) * panel.k_stride..];
                let to = to.iter_mut().step_by(panel.k_stride).zip(values);
                if all {
                    to.for_each(|(to, x)| *to = *x);
                } else {
                    to.zip(&counts).for_each(|((to, x), c)| *to = if c.0 != 0 { *x } else { T::default() });
                }
            }
        }
    }
}

/// Runs the nest's epilogue on finished tiles.
struct Epilogue<'a> {
    job: &'a Job<'a>,
    /// What each batch, row and column adds to the place.
    batch: Vec<usize>,
    rows: Vec<usize>,
    columns: Vec<usize>,
    /// Machines that no thread is using.
    idle: Mutex<Vec<Machine<'a, 'a>>>,
}

impl<T: Float + Number> Store<T> for Epilogue<'_> {
    fn store(&self, tile: Tile<T>) {
        let mut machine = self.take();
        machine.given(WRITTEN).fill(1u8);
        // Consecutive places, across rows too, are finished together.
        let (mut start, mut length) = (0, 0);
        for (row, sums) in tile.iter() {
            let mut done = 0;
            while done < sums.len() {
                let columns = &self.columns[tile.columns.start + done..tile.columns.end];
                let run = columns.windows(2).take_while(|pair| pair[1] == pair[0] + 1).count() + 1;
                let place = self.batch[tile.batch] + self.rows[row] + columns[0];
                if place != start + length || length + run > CHUNK {
                    self.finish(&mut machine, start..start + length);
                    (start, length) = (place, 0);
                }
                machine.given::<T>(ACCUMULATOR)[length..length + run].copy_from_slice(&sums[done..done + run]);
                length += run;
                done += run;
            }
        }
        self.finish(&mut machine, start..start + length);
        self.give(machine);
    }
}

impl<'a> Epilogue<'a> {
    fn take(&self) -> Machine<'a, 'a> {
        let idle = self.idle.lock().ok().and_then(|mut idle| idle.pop());
        idle.unwrap_or_else(|| Machine::new(&self.job.epilogue, self.job))
    }

    fn give(&self, machine: Machine<'a, 'a>) {
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(machine);
        }
    }

    fn finish(&self, machine: &mut Machine, places: Range<usize>) {
        if !places.is_empty() {
            self.job.finish(machine, places);
        }
    }
}
