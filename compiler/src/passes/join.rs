//! Joins products of one tensor with several weights into one product with the concatenated
//! weights.
//!
//! Example: an attention's queries, keys and values, `Q = X · A + a`, `K = X · B + b`,
//! `V = X · C + c`, become slices of `X · [A B C] + [a b c]`: one kernel instead of three, which
//! reads X once and keeps a large device busy. `[A B C]` depends on weights alone, so that it is
//! computed once, and slices are views. If the product is then reshaped, possibly after scaling,
//! the slice has the new shape.
//!
//! Why it is sound: a column of a product is a sum of the same terms, whatever other columns there
//! are. Weights that runs change are left alone, because the concatenation would have to be
//! recomputed in each run.

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::{
    Access, Aggregation, Contraction, ContractionLeaf, Graph, IndexRange, NodeId, NodeMap, Op,
};
use crate::scalar::{BinaryOp, Inst, Program, Value};
use crate::tensor::TensorType;

/// Joins products of one tensor with weights.
pub fn join(graph: &mut Graph) {
    let mut all: Vec<Vec<Projection>> = Vec::new();
    let mut of_tensor: NodeMap<Vec<usize>> = NodeMap::new();
    for id in graph.topological() {
        let Some(product) = Projection::of(graph, id) else { continue };
        let known = of_tensor.slot(product.tensor).get_or_insert_default();
        match known.iter().find(|&&number| all[number][0].fits(&product)) {
            Some(&number) => all[number].push(product),
            None => {
                known.push(all.len());
                all.push(vec![product]);
            }
        }
    }
    all.iter().filter(|products| products.len() > 1).for_each(|products| joined(graph, products));
}

/// `node[rows, columns] = +(tensor[index] * weight[terms, columns])`
struct Projection {
    product: NodeId,
    /// The product, or its sum with the bias.
    node: NodeId,
    tensor: NodeId,
    /// The tensor's index in terms of row variables, which are numbered first, and term variables.
    index: Vec<Affine>,
    rows: Vec<usize>,
    terms: Vec<usize>,
    columns: Vec<usize>,
    weight: NodeId,
    /// A weight that is added to each row.
    bias: Option<NodeId>,
}

impl Projection {
    fn of(graph: &Graph, id: NodeId) -> Option<Projection> {
        let Op::Contraction(op) = &graph.node(id).op else { return None };
        let operands = graph.operands(id);
        let is_sum = op.aggregation == Aggregation::Sum && !op.default && op.constraints.is_empty();
        let is_plain = is_sum && operands.len() == 2 && op.accesses.len() == 2;
        let result = op.body.results[0];
        let leaf = |value: Value| match op.body.insts[value].0 {
            Inst::Leaf(ContractionLeaf::Access(access)) => Some(access),
            _ => None,
        };
        let Inst::Binary(BinaryOp::Mul, a, b) = op.body.insts[result].0 else { return None };
        let (a, b) = (leaf(a)?, leaf(b)?);
        let has_extras = op.body.results.len() > 1 || graph.dtype(id) != DType::F32;
        if !is_plain || has_extras || !op.accesses.iter().all(Access::is_fixed) {
            return None;
        }
        let operand = |access: usize| operands[op.accesses[access].operand];
        let (x, w) = [(a, b), (b, a)].into_iter().find(|&(_, w)| is_kept(graph, operand(w)))?;
        let variables = |forms: &mut dyn Iterator<Item = &Affine>| {
            forms.map(Affine::as_variable).collect::<Option<Vec<_>>>()
        };
        let output = variables(&mut op.output.iter())?;
        let of_weight = variables(&mut op.accesses[w].index.iter().map(|i| &i.affine))?;
        let of_tensor = |v: &usize| op.accesses[x].mentions(*v);
        let columns: Vec<usize> =
            output.iter().copied().filter(|v| of_weight.contains(v)).collect();
        let (rows, last) = output.split_at(output.len() - columns.len());
        let terms = of_weight.strip_suffix(&columns[..])?;
        let is_whole =
            |v: &usize, size: usize| op.indices[*v].low == 0 && op.indices[*v].high == size as i64;
        let fits = last == columns
            && !columns.iter().any(of_tensor)
            && !columns.is_empty()
            && (0..op.indices.len()).all(|v| {
                rows.iter().chain(&columns).chain(terms).filter(|&&other| other == v).count() == 1
            })
            && output.iter().zip(graph.shape(id)).all(|(v, &size)| is_whole(v, size))
            && of_weight.iter().zip(graph.shape(operand(w))).all(|(v, &size)| is_whole(v, size));
        if !fits {
            return None;
        }
        // Numbers the variables of rows and terms. Columns have no number.
        let order: Vec<usize> = rows.iter().chain(terms).copied().collect();
        let number = |v: usize| order.iter().position(|&other| other == v).unwrap_or(order.len());
        let index = op.accesses[x]
            .index
            .iter()
            .map(|i| i.affine.map_variables(number))
            .collect::<Option<Vec<_>>>()?;
        let sizes = |variables: &[usize]| {
            variables.iter().map(|&v| op.indices[v].high as usize).collect::<Vec<usize>>()
        };
        let (rows, terms, columns) = (sizes(rows), sizes(terms), sizes(&columns));
        let mut product = Projection {
            product: id,
            node: id,
            tensor: operand(x),
            index,
            rows,
            terms,
            columns,
            weight: operand(w),
            bias: None,
        };
        product.take_bias(graph);
        Some(product)
    }

    /// Extends the product by a bias, if nothing else reads the product.
    fn take_bias(&mut self, graph: &Graph) {
        let [user] = graph.users(self.node)[..] else { return };
        let operands = graph.operands(user);
        let is_sum =
            matches!(graph.node(user).op, Op::Binary(BinaryOp::Add)) && !graph.is_output(self.node);
        let bias = operands.iter().copied().find(|&other| other != self.node);
        let of_columns =
            |bias: &NodeId| graph.shape(*bias) == self.columns && is_kept(graph, *bias);
        if let Some(bias) = bias.filter(|bias| {
            is_sum && of_columns(bias) && graph.shape(user) == graph.shape(self.node)
        }) {
            (self.node, self.bias) = (user, Some(bias));
        }
    }

    /// Returns whether another product sums the same terms of the same tensor.
    fn fits(&self, other: &Projection) -> bool {
        (&self.index, &self.rows, &self.terms) == (&other.index, &other.rows, &other.terms)
    }

    fn width(&self) -> usize {
        self.columns.iter().product()
    }
}

/// Returns whether a node is a weight that no run changes.
fn is_kept(graph: &Graph, id: NodeId) -> bool {
    matches!(&graph.node(id).op, Op::Weight(path) if graph.outputs.iter().all(|(name, _)| name != path))
}

/// Replaces several products by slices of a joint one.
fn joined(graph: &mut Graph, products: &[Projection]) {
    let Projection { index, rows, terms, .. } = &products[0];
    // The tensor may itself have been joined before: look up its current node.
    let operands = graph.operands(products[0].product);
    let Some(tensor) = operands.iter().copied().find(|&operand| operand != products[0].weight)
    else {
        return;
    };
    let widths: Vec<usize> = products.iter().map(Projection::width).collect();
    let width: usize = widths.iter().sum();
    let with_bias = products.iter().all(|product| product.bias.is_some());
    let weights: Vec<NodeId> = products.iter().map(|product| product.weight).collect();
    let weight = side_by_side(graph, &weights, terms, &widths);

    let (before, count) = (rows.len(), rows.len() + terms.len());
    let mut body = Program::default();
    let factors =
        [0, 1].map(|access| body.push(Inst::Leaf(ContractionLeaf::Access(access)), DType::F32));
    body.results = vec![body.binary(BinaryOp::Mul, factors[0], factors[1])];
    let extents = [&rows[..], terms, &[width]].concat();
    let columns = Affine::var(count);
    let op = Contraction {
        aggregation: Aggregation::Sum,
        rank: None,
        indices: IndexRange::all(&extents),
        output: (0..before).map(Affine::var).chain([columns.clone()]).collect(),
        accesses: vec![
            Access::fixed(0, index.clone()),
            Access::fixed(1, (before..count).map(Affine::var).chain([columns]).collect()),
        ],
        constraints: Vec::new(),
        body,
        default: false,
    };
    let shape = [&rows[..], &[width]].concat();
    let ty = TensorType::new(DType::F32, shape.as_slice());
    let mut whole = graph.add(Op::Contraction(Box::new(op)), ty.clone(), &[tensor, weight]);
    if with_bias {
        let biases: Vec<NodeId> = products.iter().filter_map(|product| product.bias).collect();
        let bias = side_by_side(graph, &biases, &[], &widths);
        whole = graph.add(Op::Binary(BinaryOp::Add), ty, &[whole, bias]);
    }
    for (id, name) in [(weight, "JointWeight"), (whole, "Joint")] {
        graph.node_mut(id).origin = graph.node(products[0].product).origin.clone();
        graph.node_mut(id).name = Some(name.into());
    }
    let mut first = 0;
    for product in products {
        let old = if with_bias { product.node } else { product.product };
        // If a chain of scalar operations leads to a reshape, the slice has the reshaped form
        // already.
        let (chain, reshape) = reshaped(graph, old, rows, product.width());
        match reshape {
            Some((reshape, columns)) => {
                let mut value = slice(graph, whole, rows, &columns, first);
                for id in chain {
                    let is_constant =
                        |operand: &NodeId| matches!(graph.node(*operand).op, Op::Constant(_));
                    let mut operands = graph.operands(id).to_vec();
                    operands
                        .iter_mut()
                        .filter(|operand| !is_constant(operand))
                        .for_each(|operand| *operand = value);
                    let ty = TensorType::new(graph.dtype(id), graph.shape(value));
                    let node = graph.node(id).clone();
                    value = graph.add(node.op, ty, &operands);
                    graph.node_mut(value).origin = node.origin;
                    graph.node_mut(value).name = node.name;
                }
                graph.stand_in(reshape, value);
            }
            None => {
                let value = slice(graph, whole, rows, &product.columns, first);
                graph.stand_in(old, value);
            }
        }
        first += product.width();
    }
}

/// Follows the only readers of a node through operations with scalars to a reshape that splits only
/// its columns. Returns these operations, the reshape, and the sizes of the new column axes.
fn reshaped(
    graph: &Graph,
    from: NodeId,
    rows: &[usize],
    width: usize,
) -> (Vec<NodeId>, Option<(NodeId, Vec<usize>)>) {
    let mut chain = Vec::new();
    let mut id = from;
    loop {
        let none = (Vec::new(), None);
        let [user] = graph.users(id)[..] else { return none };
        if graph.is_output(id) {
            return none;
        }
        let others = graph.operands(user).iter().filter(|&&operand| operand != id);
        match &graph.node(user).op {
            Op::Unary(_) => chain.push(user),
            Op::Binary(_)
                if others.clone().all(|&other| matches!(graph.node(other).op, Op::Constant(_))) =>
            {
                chain.push(user)
            }
            Op::Reshape => {
                let columns = graph
                    .shape(user)
                    .strip_prefix(rows)
                    .filter(|c| c.iter().product::<usize>() == width);
                return match columns {
                    Some(columns) => (chain, Some((user, columns.to_vec()))),
                    None => none,
                };
            }
            _ => return none,
        }
        id = user;
    }
}

/// Concatenates tensors of shape `[terms, …]` along their flattened columns.
fn side_by_side(graph: &mut Graph, parts: &[NodeId], terms: &[usize], widths: &[usize]) -> NodeId {
    let shape = [terms, &[widths.iter().sum()]].concat();
    let ty = TensorType::new(DType::F32, shape.as_slice());
    let (mut whole, mut first) = (None, 0);
    for (&part, &width) in parts.iter().zip(widths) {
        let own = [terms, &[width]].concat();
        let part = if graph.shape(part) == own {
            part
        } else {
            graph.add(Op::Reshape, TensorType::new(DType::F32, own.as_slice()), &[part])
        };
        let mut output: Vec<Affine> = (0..own.len()).map(Affine::var).collect();
        let index = output.clone();
        let last = terms.len();
        output[last] = Affine::new([(last, 1)], first as i64).unwrap_or_default();
        let op = Contraction::of_tensor(Aggregation::Assign, DType::F32, &own, output, index);
        let op = Op::Contraction(Box::new(Contraction { default: whole.is_some(), ..op }));
        let operands: Vec<NodeId> = [part].into_iter().chain(whole).collect();
        whole = Some(graph.add(op, ty.clone(), &operands));
        first += width;
    }
    whole.unwrap_or(parts[0])
}

/// Returns columns of `whole`, from `first` on, with the shape `[rows, columns]`.
fn slice(
    graph: &mut Graph,
    whole: NodeId,
    rows: &[usize],
    columns: &[usize],
    first: usize,
) -> NodeId {
    let shape = [rows, columns].concat();
    let strides = TensorType::new(DType::F32, columns).strides();
    let terms =
        strides.iter().enumerate().map(|(axis, &stride)| (rows.len() + axis, stride as i64));
    let column = Affine::new(terms, first as i64).unwrap_or_default();
    let index = (0..rows.len()).map(Affine::var).chain([column]).collect();
    let place = (0..shape.len()).map(Affine::var).collect();
    let op = Contraction::of_tensor(Aggregation::Assign, DType::F32, &shape, place, index);
    graph.add(
        Op::Contraction(Box::new(op)),
        TensorType::new(DType::F32, shape.as_slice()),
        &[whole],
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::super::{dead, join};

    #[test]
    fn products_of_one_tensor_become_one() {
        insta::assert_snapshot!(after(&[join, dead], "\
graph f(%0) -> (Q = %8, K = %10)
%0 = input X : f32[4, 3]
%1 = weight A : f32[3, 6]
%2 = weight a : f32[6]
%3 = weight B : f32[3, 2, 2]
%4 = weight b : f32[2, 2]
%5 = contract sum [n, u] (n: 0..4, u: 0..6, k: 0..3) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[4, 6]
%6 = add %5 %2 : f32[4, 6]
%11 = constant 0.5 : f32[]
%7 = mul %6 %11 : f32[4, 6]
%8 = reshape %7 : f32[4, 2, 3]  # Q
%9 = contract sum [n, h, d] (k: 0..3, n: 0..4, h: 0..2, d: 0..2) { v0 = %3[k, h, d]; v1 = %0[n, k]; v2 = mul v1 v0; yield v2 } : f32[4, 2, 2]
%10 = add %9 %4 : f32[4, 2, 2]  # K
"), @r"
        graph f(%0) -> (Q = %15, K = %16)
        %0 = input X : f32[4, 3]
        %1 = weight A : f32[3, 6]
        %2 = weight a : f32[6]
        %3 = weight B : f32[3, 2, 2]
        %4 = weight b : f32[2, 2]
        %5 = constant 0.5 : f32[]
        %6 = contract assign [i0, i1] (i0: 0..3, i1: 0..6) { v0 = %1[i0, i1]; yield v0 } : f32[3, 10]
        %7 = reshape %3 : f32[3, 4]
        %8 = contract assign [i0, i1 + 6] (i0: 0..3, i1: 0..4) default %6 { v0 = %7[i0, i1]; yield v0 } : f32[3, 10]  # JointWeight
        %9 = contract sum [i0, i2] (i0: 0..4, i1: 0..3, i2: 0..10) { v0 = %0[i0, i1]; v1 = %8[i1, i2]; v2 = mul v0 v1; yield v2 } : f32[4, 10]
        %10 = contract assign [i0] (i0: 0..6) { v0 = %2[i0]; yield v0 } : f32[10]
        %11 = reshape %4 : f32[4]
        %12 = contract assign [i0 + 6] (i0: 0..4) default %10 { v0 = %11[i0]; yield v0 } : f32[10]
        %13 = add %9 %12 : f32[4, 10]  # Joint
        %14 = contract assign [i0, i1, i2] (i0: 0..4, i1: 0..2, i2: 0..3) { v0 = %13[i0, 3*i1 + i2]; yield v0 } : f32[4, 2, 3]
        %15 = mul %14 %5 : f32[4, 2, 3]  # Q
        %16 = contract assign [i0, i1, i2] (i0: 0..4, i1: 0..2, i2: 0..2) { v0 = %13[i0, 2*i1 + i2 + 6]; yield v0 } : f32[4, 2, 2]  # K
        ");
    }

    /// Sums under a constraint, or over other terms, are different products.
    #[test]
    fn products_of_other_terms_are_left_alone() {
        for other in [
            "[n, u] (n: 0..4, u: 0..6, k: 0..3) where n - k >= 0",
            "[n, u] (n: 0..4, u: 0..6, k: 1..3)",
        ] {
            let graph = format!("\
graph f(%0) -> (Q = %3, K = %4)
%0 = input X : f32[4, 3]
%1 = weight A : f32[3, 6]
%2 = weight B : f32[3, 6]
%3 = contract sum [n, u] (n: 0..4, u: 0..6, k: 0..3) {{ v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 }} : f32[4, 6]
%4 = contract sum {other} {{ v0 = %0[n, k]; v1 = %2[k, u]; v2 = mul v0 v1; yield v2 }} : f32[4, 6]
");
            assert_eq!(after(&[join, dead], &graph), after(&[], &graph));
        }
    }

    /// The concatenation of weights that a run changes would have to be recomputed each time.
    #[test]
    fn weights_that_change_are_left_alone() {
        let graph = "\
graph f(%0) -> (Q = %3, K = %4, A = %5)
%0 = input X : f32[4, 3]
%1 = weight A : f32[3, 6]
%2 = weight B : f32[3, 6]
%3 = contract sum [n, u] (n: 0..4, u: 0..6, k: 0..3) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[4, 6]
%4 = contract sum [n, u] (n: 0..4, u: 0..6, k: 0..3) { v0 = %0[n, k]; v1 = %2[k, u]; v2 = mul v0 v1; yield v2 } : f32[4, 6]
%5 = neg %1 : f32[3, 6]
";
        assert_eq!(after(&[join, dead], graph), after(&[], graph));
    }
}
