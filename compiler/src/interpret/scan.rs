//! Executes scans step by step.

use super::{Error, blank, copy, run};
use crate::graph::{NodeId, Op, Scan};
use crate::tensor::{Tensor, TensorType};

/// Returns every result of a scan.
pub(super) fn results(scan: &Scan, operands: &[&Tensor]) -> Result<Vec<Tensor>, Error> {
    let body = &scan.body;
    let ty = |id: NodeId| &body.node(id).ty;
    let name = |id: NodeId| match &body.node(id).op {
        Op::Input(name) => name.as_str(),
        _ => "",
    };
    let (sequences, rest) = operands.split_at(scan.sequences.len());
    let mut inputs: Vec<(&str, Tensor)> = Vec::with_capacity(operands.len());
    for &id in &body.inputs[..sequences.len()] {
        inputs.push((name(id), blank(ty(id))?));
    }
    for (&id, tensor) in body.inputs[sequences.len()..].iter().zip(rest) {
        inputs.push((name(id), copy(tensor, ty(id))?));
    }
    let mut yielded: Vec<Tensor> =
        scan.results().skip(scan.carries).map(|ty| blank(&ty)).collect::<Result<_, _>>()?;
    for step in 0..scan.length {
        for ((slice, whole), &axis) in inputs.iter_mut().zip(sequences).zip(&scan.sequences) {
            pieces(whole.ty(), axis, step, |outside, inside| {
                slice.1.bytes_mut()[inside].copy_from_slice(&whole.bytes()[outside]);
            });
        }
        let mut values = run(body, &inputs)?.into_iter().map(|(_, tensor)| tensor);
        for (carry, next) in
            inputs[sequences.len()..].iter_mut().zip(values.by_ref().take(scan.carries))
        {
            carry.1 = next;
        }
        for ((stack, value), &axis) in yielded.iter_mut().zip(values).zip(&scan.yields) {
            pieces(&stack.ty().clone(), axis, step, |outside, inside| {
                stack.bytes_mut()[outside].copy_from_slice(&value.bytes()[inside]);
            });
        }
    }
    let last =
        inputs.into_iter().skip(sequences.len()).take(scan.carries).map(|(_, tensor)| tensor);
    Ok(last.chain(yielded).collect())
}

type Bytes = std::ops::Range<usize>;

/// Calls `f` for each contiguous piece of slice number `step`, with its byte ranges in the tensor
/// and in the slice.
fn pieces(whole: &TensorType, axis: usize, step: usize, mut f: impl FnMut(Bytes, Bytes)) {
    let outer: usize = whole.shape[..axis].iter().product();
    let length = whole.shape[axis + 1..].iter().product::<usize>() * whole.dtype.size();
    for piece in 0..outer {
        let start = (piece * whole.shape[axis] + step) * length;
        f(start..start + length, piece * length..(piece + 1) * length);
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::Graph;
    use crate::interpret::run;
    use crate::tensor::Tensor;

    fn f32s(shape: &[usize], values: &[f32]) -> Tensor {
        Tensor::from_f32(shape, values).unwrap()
    }

    /// h = tanh(x W + h U); the states are stacked along the middle axis of [batch, time, unit].
    #[test]
    fn a_recurrent_layer() {
        let graph = Graph::parse("\
graph rnn(%0, %1, %2, %3) -> (Last = %5, All = %6)
%0 = input X : f32[2, 3, 2]
%1 = input H : f32[2, 2]
%2 = input W : f32[2, 2]
%3 = input U : f32[2, 2]
%4 = scan 3 sequences (%0 along 1) carries (%1) captures (%2, %3) yields (along 1) {
    graph step(%0, %1, %2, %3) -> (H = %7, All = %7)
    %0 = input x : f32[2, 2]
    %1 = input h : f32[2, 2]
    %2 = input w : f32[2, 2]
    %3 = input u : f32[2, 2]
    %4 = contract sum [b, o] (b: 0..2, o: 0..2, k: 0..2) { v0 = %0[b, k]; v1 = %2[k, o]; v2 = mul v0 v1; yield v2 } : f32[2, 2]
    %5 = contract sum [b, o] (b: 0..2, o: 0..2, k: 0..2) { v0 = %1[b, k]; v1 = %3[k, o]; v2 = mul v0 v1; yield v2 } : f32[2, 2]
    %6 = add %4 %5 : f32[2, 2]
    %7 = tanh %6 : f32[2, 2]
} : f32[2, 2]
%5 = result 0 %4 : f32[2, 2]
%6 = result 1 %4 : f32[2, 3, 2]
").unwrap();
        let inputs = [
            (
                "X",
                f32s(
                    &[2, 3, 2],
                    &[0.5, -1.0, 0.25, 0.75, -0.5, 1.5, 1.0, 0.0, -0.25, 0.5, 2.0, -1.5],
                ),
            ),
            ("H", f32s(&[2, 2], &[0.1, -0.2, 0.3, 0.4])),
            ("W", f32s(&[2, 2], &[0.5, -0.25, 1.0, 0.75])),
            ("U", f32s(&[2, 2], &[-0.5, 0.25, 0.125, 1.0])),
        ];
        let results = run(&graph, &inputs).unwrap();
        // Computed in f64 by the loop `h = np.tanh(X[:, t] @ W + h @ U)`.
        let golden: [&[f64]; 2] = [
            &[0.66067954, 0.77335839, -0.48162193, -0.73302114],
            &[
                -0.6777821,
                -0.78180636,
                0.80623093,
                -0.42292751,
                0.66067954,
                0.77335839,
                0.37994896,
                0.22127848,
                0.20953537,
                0.63739015,
                -0.48162193,
                -0.73302114,
            ],
        ];
        for ((name, tensor), golden) in results.iter().zip(golden) {
            assert_eq!(tensor.to_f64s().len(), golden.len());
            let near = tensor.to_f64s().iter().zip(golden).all(|(x, y)| (x - y).abs() < 1e-6);
            assert!(near, "{name} = {tensor:?}");
        }
    }

    /// Computes `cumsum` and the final sum of integers, from a start value.
    #[test]
    fn a_cumulative_sum_of_any_length() {
        let of = |values: &[f32]| {
            let n = values.len();
            let graph = Graph::parse(&format!(
                "\
graph sum(%0, %1) -> (Last = %3, All = %4)
%0 = input X : f32[{n}]
%1 = input Start : f32[]
%2 = scan {n} sequences (%0 along 0) carries (%1) captures () yields (along 0) {{
    graph step(%0, %1) -> (H = %2, All = %2)
    %0 = input x : f32[]
    %1 = input h : f32[]
    %2 = add %0 %1 : f32[]
}} : f32[]
%3 = result 0 %2 : f32[]
%4 = result 1 %2 : f32[{n}]
"
            ))
            .unwrap();
            let results =
                run(&graph, &[("X", f32s(&[n], values)), ("Start", f32s(&[], &[10.0]))]).unwrap();
            results.into_iter().map(|(_, tensor)| tensor.to_f64s()).collect::<Vec<_>>()
        };
        // numpy.cumsum([1, 2, -4, 8]) + 10
        assert_eq!(of(&[1.0, 2.0, -4.0, 8.0]), [vec![17.0], vec![11.0, 13.0, 9.0, 17.0]]);
        assert_eq!(of(&[3.0]), [vec![13.0], vec![13.0]]);
        assert_eq!(of(&[]), [vec![10.0], vec![]]);
    }
}
