//! Builds the nest of one fused group. Starting at the roots, it follows the elements that a place
//! needs through inlined nodes down to tensors in memory, and collects one scalar program.
//!
//! [`crate::fusion`] chooses the nodes to inline; any choice gives a correct nest. An
//! elementwise node becomes instructions. A contraction without reduction axes (a copy, slice,
//! transpose or padding) becomes loads at other addresses, executed only where its guards hold. The
//! group's own contraction becomes the body.

use crate::affine::Affine;
use crate::graph::{Access, Aggregation, Graph, NodeId, Op};
use crate::scalar::{Program, Value};

use super::builder::{Builder, accumulator_type, widened};
use super::gather::{Gather, gather_node};
use super::name::kernel_name;
use super::{Axis, Inner, Leaf, Members, Nest, NestError, Output, Window};

/// Returns the nest that computes `members` within `loops` of the plan, and the node of each
/// operand. Other nodes are loaded if `memory` returns a window for them, and inlined otherwise.
pub fn build(
    graph: &Graph,
    members: Members,
    memory: &dyn Fn(NodeId) -> Option<Window>,
    loops: &[Axis],
) -> Result<(Nest, Vec<NodeId>), NestError> {
    // Whoever plans the graph looks at the budget.
    graph.budget.check().map_err(|_| NestError::Internal("the budget is exceeded"))?;
    let mut builder = Builder::new(graph, &members, memory)?;
    let aggregated = builder.aggregated(loops)?;
    let mut epilogue = Program::default();
    let (outputs, of_rows) = builder.outputs(&mut epilogue, members.roots)?;
    let inner = builder
        .sums
        .iter_mut()
        .map(|sum| Inner { axes: sum.axes.clone(), body: std::mem::take(&mut sum.body) });
    let inner: Vec<Inner> = inner.collect();
    let overflow = builder.overflow();
    let nest = Nest {
        name: kernel_name(graph, &builder.roots, builder.contraction, &builder.computed),
        free: builder.free,
        rows: of_rows.unwrap_or(builder.rows),
        loops: loops.len(),
        axes: builder.axes,
        derived: builder.derived,
        guards: aggregated.guards,
        operands: builder.operands.iter().map(|(_, tensor)| tensor.clone()).collect(),
        in_bytes: Vec::new(),
        aggregation: aggregated.aggregation,
        position: aggregated.position,
        rank: aggregated.rank,
        body: builder.of_body.map(|(body, _)| body).unwrap_or_default(),
        inner,
        epilogue,
        outputs,
    };
    let nest = super::attention::postponed(nest);
    let operands = builder.operands.into_iter().map(|(id, _)| id).collect();
    let nest = super::split::split(nest).and_then(super::simplify::simplify);
    Ok((nest.ok_or(overflow)?, operands))
}

/// The aggregation of a nest; see the fields of [`Nest`].
#[derive(Default)]
struct Aggregated {
    aggregation: Option<Aggregation>,
    guards: Vec<Affine>,
    position: Option<Affine>,
    rank: Option<Affine>,
}

impl Builder<'_> {
    /// Adds the axes of the reduction, of the inner sums and of the loops, and builds the body.
    fn aggregated(&mut self, loops: &[Axis]) -> Result<Aggregated, NestError> {
        let gathered = match self.contraction {
            Some(id) => {
                let op = self.contraction_op(id)?;
                Some((id, op, gather_node(self.graph, id, op).ok_or_else(|| self.overflow())?))
            }
            None => None,
        };
        self.axes.extend(gathered.iter().flat_map(|(_, _, form)| form.reduction.iter().cloned()));
        let reduction = self.free..self.axes.len();
        for &id in self.inner {
            let sum = self.inner_sum(id)?;
            self.sums.push(sum);
        }
        self.first_loop = self.axes.len();
        self.axes.extend(loops.iter().cloned());
        let later = self.axes.len() - reduction.end;
        let Some((id, op, form)) = gathered else { return Ok(Aggregated::default()) };
        self.empty = form.empty;
        self.guarded = !form.empty && !always_written(&form, self.graph.shape(id));
        let form = form.with_axes(reduction.end, later).ok_or_else(|| self.overflow())?;
        self.derived = form.derived;
        if form.empty {
            return Ok(Aggregated::default());
        }
        let mut body = Program::default();
        let (value, valid) = self.body(&mut body, id, op, &form.indices, &[])?;
        let dtype = accumulator_type(op.aggregation, body.dtype(value));
        let value = widened(&mut body, op, value, dtype);
        body.results = [Some(value), valid].into_iter().flatten().collect();
        self.guarded |= valid.is_some() || op.rank.is_some();
        let position = match op.aggregation {
            Aggregation::ArgMax | Aggregation::ArgMin => {
                Some(op.position(&form.indices).ok_or_else(|| self.overflow())?)
            }
            _ => None,
        };
        self.of_body = Some((body, std::mem::take(&mut self.memo)));
        let rank = op.rank.map(|rank| form.indices[rank].clone());
        let (aggregation, guards) = (Some(op.aggregation), form.guards);
        Ok(Aggregated { aggregation, guards, position, rank })
    }

    /// Builds the epilogue, whose results are the elements that each root writes to each of its
    /// windows. Returns the outputs, and the number of row axes if a root has one element a row.
    fn outputs(
        &mut self,
        epilogue: &mut Program<Leaf>,
        roots: &[(NodeId, Vec<Window>)],
    ) -> Result<(Vec<Output>, Option<usize>), NestError> {
        let mut written: Vec<Vec<(Output, Value)>> = vec![Vec::new(); roots.len()];
        let mut of_rows = None;
        // Statistics over points go last: their readers determine the index of each one.
        let (of_points, others): (Vec<usize>, Vec<usize>) =
            (0..roots.len()).partition(|&root| self.is_of_points(roots[root].0));
        for number in others.into_iter().chain(of_points) {
            let (root, windows) = &roots[number];
            let place = match self.point_of_statistic(*root) {
                Some(point) => {
                    let last = point.iter().flat_map(|index| index.variables()).max();
                    of_rows = of_rows.max(Some(last.map_or(0, |last| last + 1)));
                    point
                }
                None => self.place(*root)?,
            };
            let result = self.element(epilogue, *root, &place, &[])?;
            let place = self.row_major(*root, &place)?;
            for window in windows {
                let position = self.position_of(window, &place)?;
                written[number]
                    .push((Output { ty: window.tensor.clone(), position, over: None }, result));
            }
        }
        let outputs: Vec<Output>;
        (outputs, epilogue.results) = written.into_iter().flatten().unzip();
        Ok((outputs, of_rows))
    }
}

/// Returns whether a contraction has no reduction axes. Each place then reads at most one point, so
/// the contraction can be inlined.
pub(crate) fn is_view(graph: &Graph, id: NodeId) -> bool {
    let Op::Contraction(op) = &graph.node(id).op else { return false };
    !matches!(op.aggregation, Aggregation::ArgMax | Aggregation::ArgMin)
        && op.accesses.iter().all(Access::is_fixed)
        && op.body.results.len() == 1
        && gather_node(graph, id, op)
            .is_some_and(|g| g.reduction.iter().all(|axis| axis.extent == 1))
}

/// Returns whether some point certainly counts at every place. It tries the ends and the middle of
/// every reduction axis.
fn always_written(form: &Gather, shape: &[usize]) -> bool {
    if form.guards.is_empty() {
        return true;
    }
    if form.reduction.len() > 5 {
        return false;
    }
    (0..3usize.pow(form.reduction.len() as u32)).any(|choice| {
        let point = form.reduction.iter().enumerate().map(|(axis, a)| {
            let last = a.extent as i64 - 1;
            [last / 2, 0, last][choice / 3usize.pow(axis as u32) % 3]
        });
        let mut bounds: Vec<(i64, i64)> = shape.iter().map(|&e| (0, e as i64 - 1)).collect();
        bounds.extend(point.map(|p| (p, p)));
        for derived in &form.derived {
            let Some((low, high)) = derived.numerator.bounds(&bounds) else { return false };
            bounds
                .push((low.div_euclid(derived.denominator), high.div_euclid(derived.denominator)));
        }
        form.guards.iter().all(|g| g.bounds(&bounds).is_some_and(|(low, _)| low >= 0))
    })
}
