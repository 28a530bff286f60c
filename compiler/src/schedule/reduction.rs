//! The reduction template: several invocations compute a place. Each aggregates a slice of the
//! reduction points, for one place, a vector of adjacent places, or a few places that share
//! operands. A tree then combines the slices.
//!
//! Column sums, row sums, matrix-vector products and full reductions all use this template. They
//! differ in the direction along which consecutive invocations are adjacent: that in which memory
//! is contiguous.
//!
//! If the device has subgroups and a whole workgroup computes one place, each subgroup combines its
//! invocations first, whatever its size, and passes one value through workgroup memory.

use crate::dtype::DType;
use crate::kernel::{Builder, Builtin, Expr, Kernel, Type};
use crate::nest::Nest;
use crate::profile::Profile;
use crate::scalar::Value;

use super::accumulate::{Accumulator, Term};
use super::point::{Point, declare};
use super::values::{Unsupported, Values, compute_type};
use super::{Along, ScheduleError, Slicing, grid, group, lanes};

/// The size of the smallest subgroups.
const LEAST_SUBGROUP: u32 = 4;

/// The most steps that an invocation reads together.
const STEPS_TOGETHER: usize = 8;
/// The most values of an operand in these steps, for their registers.
const VALUES_TOGETHER: usize = 16;
/// The most instructions of a body in these steps, for the size of the code.
const CODE_TOGETHER: usize = 128;

/// Splits the free axes into those that an invocation computes together, which are the `rows` rows
/// or columns of a product, and the others.
pub(super) fn divided(nest: &Nest, rows: u32) -> Option<(Vec<usize>, Vec<usize>)> {
    if rows == 1 {
        return Some((Vec::new(), (0..nest.free).collect()));
    }
    let roles = nest.roles()?;
    let together =
        [roles.rows, roles.columns].into_iter().find(|axes| nest.points(axes) == rows as usize)?;
    let others = (0..nest.free).filter(|axis| !together.contains(axis)).collect();
    Some((together, others))
}

/// Returns the lanes of the buffers under a slicing. `None` if vectors do not suit the nest.
pub(super) fn vectors(nest: &Nest, s: &Slicing) -> Option<Vec<u8>> {
    let (_, others) = divided(nest, s.rows)?;
    match (s.width, s.along) {
        (1, _) => Some(vec![1; nest.operands.len() + nest.outputs.len()]),
        (width, Along::Places) => lanes::of_places(nest, *others.last()?, width),
        (width, Along::Points) => lanes::of_points(nest, width),
    }
}

/// Writes the kernel of a sliced reduction.
pub(super) fn reduction(
    nest: &Nest,
    profile: &Profile,
    s: &Slicing,
) -> Result<Kernel, ScheduleError> {
    let unsuited = ScheduleError::Internal("a slicing that does not suit the nest");
    let (together, others) = divided(nest, s.rows).ok_or(unsuited.clone())?;
    let across = if s.along == Along::Places { s.width } else { 1 };
    let groups = nest.places() / s.rows as usize / across as usize;
    let grid = grid(groups.div_ceil(s.places as usize), profile)?;
    let workgroup = s.places * s.slices;
    let mut builder = Builder::new(&nest.name, [workgroup, 1, 1], grid);
    let b = &mut builder;
    let buffers = declare(nest, profile, b, vectors(nest, s).ok_or(unsuited)?)?;

    let lane = b.let_("lane", Expr::local(0));
    let (place, slice) = match s.along {
        Along::Places => (lane.clone().remainder(s.places), lane.clone().quotient(s.places)),
        Along::Points => (lane.clone().quotient(s.slices), lane.clone().remainder(s.slices)),
    };
    let slice = b.let_("slice", slice);
    let group = b.let_("group", group(grid) * s.places as i32 + place);
    let all = grid[0] as usize * grid[1] as usize * s.places as usize == groups;
    let inside = if all { true.into() } else { group.clone().lt(groups as i32) };
    let inside = b.let_("inside", inside);

    let mut first = Point::new(nest, profile, &buffers);
    first.set_position(b, &others, &(group * across as i32));
    let conditions = nest.body_loads().flat_map(|load| &load.when).chain(&nest.guards);
    first.prepare(b, &nest.body_loads().collect::<Vec<_>>(), conditions);
    let rows: Vec<Point> = (0..s.rows as i32)
        .map(|row| {
            let mut at = first.clone();
            at.set_position(b, &together, &row.into());
            match (s.along, others.last()) {
                (Along::Places, Some(&axis)) => at.vector(axis, s.width),
                _ => at,
            }
        })
        .collect();
    let accumulators = rows.iter().map(|at| {
        let inner = if s.along == Along::Points { along_points(at, s.width) } else { at.clone() };
        let accumulator = Accumulator::declare(b, &inner)?;
        accumulator.ok_or(ScheduleError::Internal("a reduction without an aggregation"))
    });
    let mut accumulators = accumulators.collect::<Result<Vec<Accumulator>, ScheduleError>>()?;
    b.if_(inside.clone(), |b| points(b, nest, s, &slice, &first, &rows, &accumulators))?;

    if s.along == Along::Points && s.width > 1 {
        for (accumulator, at) in accumulators.iter_mut().zip(&rows) {
            *accumulator = accumulator.joined(b, at, s.width)?;
        }
    }
    combine(b, s, [&lane, &slice], &rows, &accumulators)?;
    let writes = if s.slices > 1 { slice.equals(0).and(inside) } else { inside };
    b.if_(writes, |b| -> Result<(), ScheduleError> {
        for (at, accumulator) in rows.iter().zip(&accumulators) {
            let (value, written) = accumulator.read();
            let results = at.program(b, &nest.epilogue, Some((&value, &written)))?;
            let place = b.let_("place", at.affine(&nest.place()));
            at.store(b, &place, results);
        }
        Ok(())
    })?;
    Ok(builder.finish()?)
}

/// Combines the slices of each place in the first of the invocations that share it.
fn combine(
    b: &mut Builder,
    s: &Slicing,
    [lane, slice]: [&Expr; 2],
    rows: &[Point],
    accumulators: &[Accumulator],
) -> Result<(), ScheduleError> {
    if s.slices == 1 {
        return Ok(());
    }
    let workgroup = s.places * s.slices;
    let collects =
        rows.iter().zip(accumulators).all(|(at, accumulator)| accumulator.collects(at).is_some());
    if rows.iter().all(|at| at.profile.subgroups) && s.places == 1 && collects {
        return rows
            .iter()
            .zip(accumulators)
            .try_for_each(|(at, accumulator)| collect(b, at, accumulator, workgroup));
    }
    let trees = accumulators
        .iter()
        .zip(rows)
        .map(|(accumulator, at)| Tree::declare(b, at, accumulator, workgroup));
    let trees = trees.collect::<Result<Vec<Tree>, Unsupported>>()?;
    let step = if s.along == Along::Places { s.places } else { 1 };
    let mut half = s.slices;
    while half >= 1 {
        // The upper half writes what the lower half reads.
        if half < s.slices {
            b.if_(slice.clone().lt(half as i32), |b| -> Result<(), ScheduleError> {
                for ((tree, at), accumulator) in trees.iter().zip(rows).zip(accumulators) {
                    let (value, written, position) =
                        tree.load(b, at, lane.clone() + (half * step) as i32);
                    accumulator.merge(b, at, value, written, position)?;
                }
                Ok(())
            })?;
        }
        if half > 1 {
            let writes = slice.clone().ge((half / 2) as i32).and(slice.clone().lt(half as i32));
            b.if_(writes, |b| {
                let each = trees.iter().zip(rows).zip(accumulators);
                each.for_each(|((tree, at), accumulator)| tree.store(b, at, lane, accumulator));
            });
            b.barrier();
        }
        half /= 2;
    }
    Ok(())
}

/// Combines the values of a workgroup in its first invocation: each subgroup combines its own, then
/// the first invocation combines those of the subgroups, in order.
fn collect(
    b: &mut Builder,
    at: &Point,
    accumulator: &Accumulator,
    workgroup: u32,
) -> Result<(), ScheduleError> {
    let Some(op) = accumulator.collects(at) else { return Ok(()) };
    let own = b.collect("collected", op, &accumulator.value);
    b.assign(&accumulator.value, own);
    let tree = Tree::declare(b, at, accumulator, workgroup.div_ceil(LEAST_SUBGROUP))?;
    let [subgroup, lane, count] =
        [Builtin::Subgroup, Builtin::SubgroupLane, Builtin::Subgroups].map(Expr::Builtin);
    b.if_(lane.equals(0), |b| tree.store(b, at, &subgroup, accumulator));
    b.barrier();
    b.if_(Expr::local(0).equals(0), |b| {
        b.for_("subgroup_step", 1, count, 1, |b, number| -> Result<(), ScheduleError> {
            let (value, written, position) = tree.load(b, at, number);
            Ok(accumulator.merge(b, at, value, written, position)?)
        })
    })
}

fn along_points<'a>(at: &Point<'a>, width: u8) -> Point<'a> {
    match at.nest.reduction().last() {
        Some(axis) => at.clone().vector(axis, width),
        None => at.clone(),
    }
}

/// Aggregates the points of a slice, for each of the rows computed together.
fn points<'n>(
    b: &mut Builder,
    nest: &Nest,
    s: &Slicing,
    slice: &Expr,
    first: &Point<'n>,
    rows: &[Point<'n>],
    accumulators: &[Accumulator],
) -> Result<(), ScheduleError> {
    let axes: Vec<usize> = nest.reduction().collect();
    let deep = if s.along == Along::Points { s.width as usize } else { 1 };
    let steps = nest.reduction_points() / deep;
    // An operand that all rows share is read once.
    let shared: Vec<Value> = match (s.rows, divided(nest, s.rows)) {
        (1, _) | (_, None) => Vec::new(),
        (_, Some((together, _))) => {
            let depend = nest.dependencies(&nest.body);
            let is_shared = |value: &Value| !together.iter().any(|&axis| depend[*value][axis]);
            nest.roles()
                .into_iter()
                .flat_map(|roles| [roles.left, roles.right])
                .filter(is_shared)
                .collect()
        }
    };
    let turn = Turn { s, axes: &axes, shared: &shared, first, rows, accumulators };
    let (whole, each) = (whole_turns(nest, s, steps), s.slices * steps_together(nest, s));
    if whole > 0 {
        b.for_("step", slice, whole as i32, each, |b, step| {
            let steps = (0..each).step_by(s.slices as usize);
            turn.write(b, &steps.map(|at| step.clone() + at as i32).collect::<Vec<Expr>>())
        })?;
    }
    if whole == steps {
        return Ok(());
    }
    // The rest after whole turns is read step by step.
    b.for_("step", slice.clone() + whole as i32, steps as i32, s.slices, |b, step| {
        turn.write(b, &[step])
    })
}

/// Returns the steps in turns of several, which all invocations have.
fn whole_turns(nest: &Nest, s: &Slicing, steps: usize) -> usize {
    let together = steps_together(nest, s);
    let all = (s.slices * together) as usize;
    if together > 1 { steps / all * all } else { 0 }
}

/// A turn of an invocation's loop over its steps.
struct Turn<'t, 'n> {
    s: &'t Slicing,
    /// The reduction axes.
    axes: &'t [usize],
    /// The values that all rows share.
    shared: &'t [Value],
    /// The point before the axes of the rows and of the reduction are set.
    first: &'t Point<'n>,
    rows: &'t [Point<'n>],
    accumulators: &'t [Accumulator],
}

impl<'n> Turn<'_, 'n> {
    /// Writes the reads of these steps, and then their aggregation.
    fn write(&self, b: &mut Builder, steps: &[Expr]) -> Result<(), ScheduleError> {
        let points = steps.iter().map(|step| self.point(b, step));
        let points = points.collect::<Result<Vec<Point>, ScheduleError>>()?;
        let free = 0..self.first.nest.free;
        let own: Vec<usize> = free.filter(|&axis| self.first.variables[axis].is_none()).collect();
        for (row, accumulator) in self.rows.iter().zip(self.accumulators) {
            let mut points = points.clone();
            points.iter_mut().for_each(|at| at.share(b, row, &own));
            if let [at] = &points[..] {
                accumulator.add(b, at)?;
                continue;
            }
            let terms = points.iter().map(|at| Term::of(b, at));
            let terms = terms.collect::<Result<Vec<Term>, Unsupported>>()?;
            for (at, term) in points.iter().zip(terms) {
                accumulator.add_term(b, at, term)?;
            }
        }
        Ok(())
    }

    /// Returns the point of a step, with the values that all rows share.
    fn point(&self, b: &mut Builder, step: &Expr) -> Result<Point<'n>, ScheduleError> {
        let Turn { s, axes, shared, first, rows, .. } = self;
        let deep = if s.along == Along::Points { s.width as i32 } else { 1 };
        let mut at = (*first).clone();
        at.set_position(b, axes, &(step.clone() * deep));
        let mut at = match s.along {
            Along::Points => along_points(&at, s.width),
            Along::Places => at.vector(rows[0].along, rows[0].lanes),
        };
        // With guards the address may be out of bounds, so each row reads it under its guard.
        if at.nest.guards.is_empty() {
            let values = at.values(b, &at.nest.body, shared, None)?;
            shared.iter().for_each(|&value| at.known[value] = Some(values[value].clone()));
        }
        Ok(at)
    }
}

/// Returns how many steps of an invocation read memory before the first of them is aggregated: an
/// invocation waits for all these answers together. Guarded reads are branches, which wait for one
/// at a time.
pub(super) fn steps_together(nest: &Nest, s: &Slicing) -> u32 {
    let deep = if s.along == Along::Points { s.width as usize } else { 1 };
    let steps = nest.reduction_points() / deep / s.slices as usize;
    let is_guarded = !nest.guards.is_empty() || nest.body_loads().any(|load| !load.when.is_empty());
    let code = nest.body.insts.len() * s.rows as usize;
    let most =
        (VALUES_TOGETHER / (s.width as usize * s.rows as usize)).min(CODE_TOGETHER / code.max(1));
    match most.min(steps).min(STEPS_TOGETHER) {
        0 | 1 => 1,
        _ if is_guarded => 1,
        steps => 1 << steps.ilog2(),
    }
}

/// The arrays in workgroup memory that hold the accumulator of each invocation. Booleans are stored
/// as u32.
struct Tree {
    dtype: DType,
    values: usize,
    written: Option<usize>,
    positions: Option<usize>,
}

impl Tree {
    fn declare(
        b: &mut Builder,
        at: &Point,
        acc: &Accumulator,
        length: u32,
    ) -> Result<Tree, Unsupported> {
        let (dtype, length) = (at.nest.accumulator().unwrap_or(DType::F32), length as usize);
        let compute = compute_type(dtype, at.profile)
            .ok_or_else(|| Unsupported { what: format!("values of type {dtype}") })?;
        let stored = if compute == DType::Bool { DType::U32 } else { compute };
        let of = |dtype| Type::vector(dtype, at.lanes);
        let values = b.shared("partial", of(stored), length);
        let written =
            acc.written.is_some().then(|| b.shared("partial_written", of(DType::U32), length));
        let positions =
            acc.position.is_some().then(|| b.shared("partial_position", of(DType::I32), length));
        Ok(Tree { dtype, values, written, positions })
    }

    fn store(&self, b: &mut Builder, at: &Point, index: &Expr, acc: &Accumulator) {
        let value = Values { b, profile: at.profile, lanes: at.lanes }
            .stored(self.dtype, acc.value.clone());
        b.store_shared(self.values, index, value);
        if let (Some(array), Some(written)) = (self.written, &acc.written) {
            b.store_shared(array, index, written.clone().cast(DType::U32));
        }
        if let (Some(array), Some(position)) = (self.positions, &acc.position) {
            b.store_shared(array, index, position);
        }
    }

    fn load(&self, b: &mut Builder, at: &Point, index: Expr) -> (Expr, Option<Expr>, Option<Expr>) {
        let index = b.let_("from", index);
        let values = Values { b, profile: at.profile, lanes: at.lanes };
        let value = values.loaded(self.dtype, Expr::load_shared(self.values, &index));
        let written =
            self.written.map(|a| values.loaded(DType::Bool, Expr::load_shared(a, &index)));
        let positions = self.positions.map(|a| Expr::load_shared(a, &index));
        (b.let_("other", value), written.map(|w| b.let_("other_written", w)), positions)
    }
}
