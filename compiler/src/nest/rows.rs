//! Row statistics: contractions that aggregate over the columns of a row, within the nest that
//! reads the row.
//!
//! Example: with X: f32[8, 128, 512] and the means of its rows, M: f32[8, 128, 1], the places are
//! [8, 128, 512], and the first two axes are the row axes. M is read at the row, [i0, i1, 0], and
//! its reduction index is the column.

use crate::affine::Affine;
use crate::graph::{Access, Contraction, Graph, NodeId, Op};
use crate::scalar::{Inst, Program, Value};

use super::builder::Builder;
use super::gather::{Gather, gather_node};
use super::{Leaf, NestError, Window};

/// Returns the shape of the places of a nest with statistics and the number of row axes, or `None`
/// if the statistics do not share them.
pub(super) fn space(
    graph: &Graph,
    roots: &[(NodeId, Vec<Window>)],
    contraction: Option<NodeId>,
    statistics: &[NodeId],
) -> Option<(Vec<usize>, usize)> {
    let form = |&id: &NodeId| Some((graph.shape(id), extents(&row_form(graph, id)?)));
    let (rows, columns) = form(statistics.first()?)?;
    // The shape of the aggregation, or of a root with all places, shows the axes of the columns.
    let elements = rows.iter().product::<usize>().checked_mul(columns.iter().product())?;
    let full = contraction
        .into_iter()
        .chain(roots.iter().map(|(root, _)| *root))
        .map(|id| graph.shape(id))
        .find(|shape| shape.iter().product::<usize>() == elements);
    let shape = full.map_or_else(|| [rows, &columns].concat(), <[usize]>::to_vec);
    let divides = |at: usize| {
        let same = |other: &NodeId| {
            form(other).is_some_and(|(rows, columns)| {
                is_of_rows(rows, &shape[..at]) && without_ones(&shape[at..]) == columns
            })
        };
        statistics.iter().all(same)
    };
    let at = (0..=shape.len()).find(|&at| divides(at))?;
    Some((shape, at))
}

/// Returns whether a value of `shape` has one element for each of `rows`.
fn is_of_rows(shape: &[usize], rows: &[usize]) -> bool {
    shape.len() >= rows.len()
        && shape[..rows.len()] == *rows
        && shape[rows.len()..].iter().all(|&size| size == 1)
}

fn extents(form: &Gather) -> Vec<usize> {
    without_ones(&form.reduction.iter().map(|axis| axis.extent).collect::<Vec<_>>())
}

fn without_ones(sizes: &[usize]) -> Vec<usize> {
    sizes.iter().copied().filter(|&size| size != 1).collect()
}

/// Returns the gather form of a contraction that may be a statistic: each place aggregates a box.
pub(crate) fn row_form(graph: &Graph, id: NodeId) -> Option<Gather> {
    let Op::Contraction(op) = &graph.node(id).op else { return None };
    op.aggregation.operation()?;
    box_form(graph, id, op)
}

/// Returns the gather form of a contraction in which each place aggregates one value over all
/// points of a box.
pub(super) fn box_form(graph: &Graph, id: NodeId, op: &Contraction) -> Option<Gather> {
    if !op.accesses.iter().all(Access::is_fixed) || op.default || op.body.results.len() != 1 {
        return None;
    }
    let form = gather_node(graph, id, op)?;
    (!form.empty && form.guards.is_empty() && form.derived.is_empty()).then_some(form)
}

impl<'a> Builder<'a> {
    /// Returns the index of a node's element at the nest's place: the place itself, or its row.
    pub fn place(&self, id: NodeId) -> Result<Vec<Affine>, NestError> {
        let shape = self.graph.shape(id);
        let sizes: Vec<usize> = self.axes[..self.free].iter().map(|axis| axis.extent).collect();
        if *shape == sizes {
            return Ok((0..sizes.len()).map(Affine::var).collect());
        }
        if is_of_rows(shape, &sizes[..self.rows]) {
            let coordinate = |axis: usize| {
                if axis < self.rows { Affine::var(axis) } else { Affine::constant(0) }
            };
            return Ok((0..shape.len()).map(coordinate).collect());
        }
        Err(NestError::Internal("a root has neither the places' shape nor the rows'"))
    }

    /// Returns whether `index` is the index of a node's element at the nest's place.
    pub fn is_place(&self, id: NodeId, index: &[Affine]) -> bool {
        let zero = Affine::constant(0);
        let is_single = |axis: usize| self.axes.get(axis).is_none_or(|a| a.extent == 1);
        let same =
            |(axis, (a, b)): (usize, (&Affine, &Affine))| a == b || (*a == zero && is_single(axis));
        self.place(id).is_ok_and(|place| index.iter().zip(&place).enumerate().all(same))
    }

    /// Returns the statistic of the row that contains the nest's place.
    pub fn statistic(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
    ) -> Result<Value, NestError> {
        let form =
            row_form(self.graph, id).ok_or(NestError::Internal("a statistic of something else"))?;
        let mut columns = (self.rows..self.free).filter(|&axis| self.axes[axis].extent != 1);
        let mut values = self.place(id)?;
        for axis in &form.reduction {
            let column = if axis.extent == 1 { None } else { columns.next() };
            values.push(column.map_or(Affine::constant(0), Affine::var));
        }
        let statistic = self.aggregate(program, id, &form, &values)?;
        Ok(program.cast(statistic, self.graph.dtype(id)))
    }

    /// Returns the statistic of a contraction's terms, where `values` are the values of the
    /// variables of its gather form.
    pub fn aggregate(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        form: &Gather,
        values: &[Affine],
    ) -> Result<Value, NestError> {
        let value = self.term(program, id, form, values)?;
        let aggregation = self.contraction_op(id)?.aggregation;
        Ok(program.push(Inst::Leaf(Leaf::Statistic(aggregation, value)), program.dtype(value)))
    }
}
