//! `einsum("ab,bc->ac", A, B)`: one contraction from an equation, with NumPy's semantics.
//!
//! A letter is an index variable. Its axes must agree in size, except that a size of 1 broadcasts.
//! Letters that the output does not name are summed over. `...` stands for any number of axes,
//! which are aligned at the last one and broadcast as in elementwise operations. Without `->`, the
//! output has `...`, then the letters that occur once, in alphabetical order.

use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::expression::{Lowered, Spans, Target};
use super::form::{Form, fixed};
use super::tensors::Tensors;
use super::value::Value;
use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::{Aggregation, NodeId};
use crate::scalar::{self, BinaryOp};
use crate::tensor::{TensorType, broadcast};

/// One axis of an operand or of the output.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Axis {
    Letter(char),
    /// The axes that `...` stands for.
    Ellipsis,
}

pub(super) fn einsum<'p>(
    tensors: &mut Tensors,
    arguments: &[Value<'p, NodeId>],
    spans: &Spans,
) -> Lowered<Value<'p, NodeId>> {
    let Some((Value::Symbol(equation), operands)) = arguments.split_first() else {
        let message = "`einsum` takes an equation first, as in `einsum(\"ab,bc->ac\", A, B)`";
        return Err(Diagnostic::error("E0234", spans.argument(0), message));
    };
    let (terms, output) = read(equation, spans.argument(0))?;
    // A single list argument stands for its items.
    let (operands, is_list) = match operands {
        [Value::List(items)] => (&**items, true),
        operands => (operands, false),
    };
    let span = |number: usize| spans.argument(if is_list { 1 } else { number + 1 });
    if terms.len() != operands.len() {
        let message = format!(
            "this equation is of {} tensors, and {} are given",
            terms.len(),
            operands.len()
        );
        return Err(Diagnostic::error("E0234", spans.argument(0), message));
    }
    let mut nodes = Vec::with_capacity(operands.len());
    for (number, operand) in operands.iter().enumerate() {
        nodes.push(tensors.element(operand.clone(), span(number))?);
    }
    let dtype = nodes.iter().map(|node| tensors.dtype(*node)).reduce(|a, b| a.meet(b));
    let Some(dtype) = dtype else {
        return Err(Diagnostic::error(
            "E0234",
            spans.argument(0),
            "this equation is of no tensors",
        ));
    };

    let mut letters: Vec<(char, usize)> = Vec::new();
    let mut elided: Vec<Vec<usize>> = Vec::new();
    for (number, (term, node)) in terms.iter().zip(&nodes).enumerate() {
        let shape = tensors.shape(*node);
        elided.push(sizes(term, &shape, &mut letters, span(number))?);
    }
    let common = broadcast(elided.iter().map(Vec::as_slice)).ok_or_else(|| {
        let message = format!("the sizes {elided:?} that `...` stands for do not broadcast");
        Diagnostic::error("E0215", spans.argument(0), message)
    })?;

    let mut sum = Sum::new(letters, common);
    sum.form.contraction.body.results =
        sum.product(tensors, &terms, &nodes, &elided, dtype).into_iter().collect();
    let shape = sum.shape(&output, spans.argument(0))?;
    tensors
        .add(sum.form.op(), TensorType::new(dtype, shape), &nodes, spans.call)
        .map(Value::Element)
}

/// The contraction under construction.
struct Sum {
    form: Form,
    /// The letters with their sizes, and the variable of each.
    letters: Vec<(char, usize)>,
    variables: Vec<Affine>,
    /// The sizes of the axes that `...` stands for, and the variable of each.
    common: Vec<usize>,
    leading: Vec<Affine>,
}

impl Sum {
    fn new(letters: Vec<(char, usize)>, common: Vec<usize>) -> Sum {
        let mut form = Form::new(Aggregation::Sum);
        let leading = form.variables("axis", &common);
        let sizes: Vec<usize> = letters.iter().map(|(_, size)| *size).collect();
        let variables = form.variables("", &sizes);
        for (range, (letter, _)) in
            form.contraction.indices[common.len()..].iter_mut().zip(&letters)
        {
            range.name = letter.to_string();
        }
        Sum { form, letters, variables, common, leading }
    }

    /// Returns the number of a letter.
    fn number(&self, letter: char) -> Option<usize> {
        self.letters.iter().position(|(known, _)| *known == letter)
    }

    /// Returns the product of the operands in `dtype`, or `None` if there are none.
    fn product(
        &mut self,
        tensors: &Tensors,
        terms: &[Vec<Axis>],
        nodes: &[NodeId],
        elided: &[Vec<usize>],
        dtype: DType,
    ) -> Option<scalar::Value> {
        let mut product = None;
        for (number, (term, elided)) in terms.iter().zip(elided).enumerate() {
            let mut index: Vec<&Affine> = Vec::new();
            for axis in term {
                match axis {
                    Axis::Letter(letter) => {
                        index.extend(self.number(*letter).map(|at| &self.variables[at]))
                    }
                    Axis::Ellipsis => {
                        index.extend(&self.leading[self.common.len() - elided.len()..])
                    }
                }
            }
            let shape = tensors.shape(nodes[number]);
            // An axis of size 1 broadcasts: it is always read at 0.
            let first = Affine::constant(0);
            let index = index
                .into_iter()
                .zip(shape)
                .map(|(variable, size)| fixed(if size == 1 { &first } else { variable }));
            self.form.access(number, index);
            let value = self.form.leaf(number, tensors.dtype(nodes[number]));
            let body = &mut self.form.contraction.body;
            let value = body.cast(value, dtype);
            product =
                Some(product.map_or(value, |product| body.binary(BinaryOp::Mul, product, value)));
        }
        product
    }

    /// Sets the axes of the result, and returns their sizes.
    fn shape(&mut self, output: &[Axis], span: Span) -> Lowered<Vec<usize>> {
        let mut shape = Vec::new();
        for axis in output {
            match axis {
                Axis::Ellipsis => {
                    shape.extend(&self.common);
                    self.form.contraction.output.extend(self.leading.iter().cloned());
                }
                Axis::Letter(letter) => {
                    let Some(at) = self.number(*letter) else {
                        let message =
                            format!("`{letter}` is an axis of the result, and of no tensor");
                        return Err(Diagnostic::error("E0234", span, message));
                    };
                    shape.push(self.letters[at].1);
                    self.form.contraction.output.push(self.variables[at].clone());
                }
            }
        }
        if !output.contains(&Axis::Ellipsis) && !self.common.is_empty() {
            let message = "`...` stands for axes that the result does not have";
            return Err(
                Diagnostic::error("E0234", span, message).help("write `...` after `->`, too")
            );
        }
        Ok(shape)
    }
}

/// Parses an equation into the axes of each operand and of the output.
fn read(equation: &str, span: Span) -> Lowered<(Vec<Vec<Axis>>, Vec<Axis>)> {
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation, None),
    };
    let terms = left.split(',').map(|text| term(text, span)).collect::<Lowered<Vec<_>>>()?;
    let output = match right {
        Some(text) => term(text, span)?,
        None => {
            let all: Vec<Axis> = terms.iter().flatten().copied().collect();
            let once = |axis: &&Axis| all.iter().filter(|other| other == axis).count() == 1;
            let mut letters: Vec<char> = Vec::new();
            letters.extend(all.iter().filter(once).filter_map(|axis| match axis {
                Axis::Letter(letter) => Some(*letter),
                Axis::Ellipsis => None,
            }));
            letters.sort_unstable();
            let ellipsis = all.contains(&Axis::Ellipsis).then_some(Axis::Ellipsis);
            ellipsis.into_iter().chain(letters.into_iter().map(Axis::Letter)).collect()
        }
    };
    if let Some(twice) = output.iter().enumerate().find(|(at, axis)| output[..*at].contains(axis)) {
        let message = format!("the result has {} twice", name(*twice.1));
        return Err(Diagnostic::error("E0234", span, message));
    }
    Ok((terms, output))
}

fn name(axis: Axis) -> String {
    match axis {
        Axis::Letter(letter) => format!("`{letter}`"),
        Axis::Ellipsis => "`...`".to_owned(),
    }
}

/// Parses the axes of one term.
fn term(text: &str, span: Span) -> Lowered<Vec<Axis>> {
    let mut axes = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("...") {
            if axes.contains(&Axis::Ellipsis) {
                return Err(Diagnostic::error(
                    "E0234",
                    span,
                    format!("`...` stands twice in `{text}`"),
                ));
            }
            axes.push(Axis::Ellipsis);
            rest = after;
            continue;
        }
        if !first.is_ascii_alphabetic() && first != ' ' {
            let message = format!("`{first}` cannot stand in an equation");
            return Err(Diagnostic::error("E0234", span, message)
                .help("it names axes with letters, as in `ab,bc->ac` or `...a,ab->...b`"));
        }
        if first != ' ' {
            axes.push(Axis::Letter(first));
        }
        rest = &rest[1..];
    }
    Ok(axes)
}

/// Records the sizes of a term's letters in `letters`, and returns the sizes that `...` stands for.
fn sizes(
    term: &[Axis],
    shape: &[usize],
    letters: &mut Vec<(char, usize)>,
    span: Span,
) -> Lowered<Vec<usize>> {
    let ellipsis = term.iter().position(|axis| *axis == Axis::Ellipsis);
    let named = term.len() - usize::from(ellipsis.is_some());
    if shape.len() < named || (shape.len() > named && ellipsis.is_none()) {
        let least = if ellipsis.is_some() { "at least " } else { "" };
        let message = format!(
            "the equation names {least}{named} axes here, and the tensor has the shape {shape:?}"
        );
        return Err(Diagnostic::error("E0212", span, message));
    }
    let start = ellipsis.unwrap_or(shape.len());
    let elided = shape.len() - named;
    let sizes = shape[..start].iter().chain(&shape[start + elided..]);
    let mut own: Vec<(char, usize)> = Vec::new();
    for (axis, &size) in term.iter().filter(|axis| **axis != Axis::Ellipsis).zip(sizes) {
        let Axis::Letter(letter) = axis else { continue };
        let differs = |before: usize| {
            let message = format!("`{letter}` is {size} here, but {before} before");
            Diagnostic::error("E0213", span, message).help(format!("the shape here is {shape:?}"))
        };
        // The axes of a diagonal, within one operand, do not broadcast.
        match own.iter().find(|(known, _)| known == letter) {
            Some((_, before)) if *before != size => return Err(differs(*before)),
            Some(_) => continue,
            None => own.push((*letter, size)),
        }
        match letters.iter_mut().find(|(known, _)| known == letter) {
            Some((_, before)) if *before != size && *before != 1 && size != 1 => {
                return Err(differs(*before));
            }
            Some((_, before)) if *before == 1 => *before = size,
            Some(_) => {}
            None => letters.push((*letter, size)),
        }
    }
    Ok(shape[start..start + elided].to_vec())
}
