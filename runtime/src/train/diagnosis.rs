//! Diagnosis of failed steps: finds the first tensor with a NaN or an infinity.

use tile_compiler::dtype::Scalar;
use tile_compiler::graph::{Graph, NodeId, Op};
use tile_compiler::lower::Network;
use tile_compiler::passes::dead;
use tile_compiler::pipeline::Options;
use tile_compiler::scalar::{BinaryOp, UnaryOp};
use tile_compiler::tensor::Tensor;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::program::training_graph;
use super::trainer::{Begun, Trainer};
use crate::backend::block_on;
use crate::builder;
use crate::device::Device;
use crate::error::Error;
use crate::session::Session;
use crate::store::Store;

/// The first loss of training and those of the last steps.
#[derive(Default)]
pub struct Losses(Vec<f64>);

impl Losses {
    /// The most losses that are kept.
    const MOST: usize = 8;

    pub fn push(&mut self, loss: f64) {
        if self.0.len() == Losses::MOST {
            self.0.remove(1);
        }
        self.0.push(loss);
    }

    /// Returns whether the loss has grown, so that the learning rate is probably too high.
    pub fn have_grown(&self) -> bool {
        matches!((self.0.first(), self.0.last()), (Some(first), Some(last)) if last.abs() > 2.0 * first.abs())
    }

    /// Returns the likely cause if the next loss is not finite, with the losses before. `None` for
    /// the first step.
    pub fn cause(&self) -> Option<String> {
        self.0.first()?;
        let shown: Vec<String> = self.0.iter().map(|loss| short(*loss)).collect();
        let probably = if self.have_grown() { "is probably" } else { "may be" };
        let shown = shown.join(", ");
        Some(format!(
            "the learning rate {probably} too high (the loss was {shown} before): try a tenth of it, or \
             `gradients = clip_by_global_norm(1.0);`"
        ))
    }
}

/// Formats a number with 4 digits: `0.6931`, `1.234e12`.
fn short(number: f64) -> String {
    match number.abs() {
        0.001..1e5 => format!("{number:.4}"),
        _ => format!("{number:.3e}"),
    }
}

impl Trainer {
    /// Returns the error for a step whose loss is not finite. No weight has changed since before
    /// it: see [`Network::FAILED`].
    pub(super) fn went_bad(&mut self, begun: &Begun, loss: f64) -> Error {
        let of_model = self.in_turn().get(begun.program).map(|model| format!(" of `{model}`"));
        let of_model = of_model.unwrap_or_default();
        let message =
            format!("the loss{of_model} is {loss} in step {} of training", begun.number + 1);
        let cause = self.losses[begun.program].cause();
        match self.first_bad(begun) {
            Ok(Some(bad)) => {
                let span = bad.span.unwrap_or_default();
                let optimizer = self.programs[begun.program]
                    .place_of_setting("optimizer")
                    .filter(|_| self.losses[begun.program].have_grown());
                let mut error = Diagnostic::error("E0250", optimizer.unwrap_or(span), message);
                error = match self.steps.weights().iter().any(|weight| weight.path == bad.name) {
                    true => error
                        .saying(format!("`{}` had {} before this step", bad.name, bad.what))
                        .help("the gradient of an earlier step, whose loss was finite, was not"),
                    false => {
                        let reason =
                            bad.reason.map_or(String::new(), |reason| format!(": {reason}"));
                        let first =
                            format!("`{}` is the first tensor with {}{reason}", bad.name, bad.what);
                        if optimizer.is_some() {
                            error.also(span, first)
                        } else {
                            error.saying(first)
                        }
                    }
                };
                error = match cause {
                    Some(cause) => error.help(cause),
                    None => error,
                };
                self.programs[begun.program].faulty(vec![error])
            }
            Err(error) => error,
            // In another order of computation every tensor is finite.
            Ok(None) => {
                let cause = cause.map(|cause| format!("; {cause}")).unwrap_or_default();
                let what = "no tensor of the step is NaN or infinite where it is taken up again";
                Error::data(format!("{message}; {what}{cause}"))
            }
        }
    }

    /// Repeats a failed step to find its first bad tensor. Training may continue without the step.
    fn first_bad(&mut self, begun: &Begun) -> Result<Option<Bad>, Error> {
        let going = Tensor::from_f32([], &[0.0]);
        let step = self.prepared(begun)?;
        going.map_or(Ok(()), |going| step.session.set(Network::FAILED, &going))?;
        let Trainer { programs, steps, .. } = self;
        let program = &programs[begun.program];
        let graph = training_graph(programs, begun.program, &begun.columns, begun.samples)?;
        match steps.last() {
            Some(step) => first_bad(graph, &program.device, program.model.sources(), &|name| {
                step.session.get(name)
            }),
            None => Ok(None),
        }
    }
}

/// A tensor with a NaN or an infinity.
struct Bad {
    name: String,
    /// The source of the tensor in the program.
    span: Option<Span>,
    /// `NaN`, or `inf` if no tensor has a NaN.
    what: &'static str,
    /// Why the operation gives that, where it is known.
    reason: Option<&'static str>,
}

/// Returns the first tensor of a graph, in the order of computation, with a NaN, or if there is
/// none, with an infinity. `value` returns the values of inputs and weights.
fn first_bad(
    mut graph: Graph,
    device: &Device,
    sources: &tile_lang::Sources,
    value: &dyn Fn(&str) -> Result<Tensor, Error>,
) -> Result<Option<Bad>, Error> {
    dead(&mut graph);
    let order = graph.topological();
    let is_computed = |id: &NodeId| {
        let node = graph.node(*id);
        let is_known = matches!(node.op, Op::Constant(_) | Op::Elements(_) | Op::Index { .. });
        !is_known && node.ty.dtype.is_float() && !matches!(node.op, Op::Scan(_))
    };
    let wanted: Vec<NodeId> = order.into_iter().filter(is_computed).collect();
    let place = |id: &NodeId| {
        let node = graph.node(*id);
        let reasons = [reason_of_nan(&node.op), reason_of_infinity(&node.op)];
        (graph.value_name(*id), node.span, reasons)
    };
    let places: Vec<_> = wanted.iter().map(place).collect();
    graph.outputs =
        wanted.iter().enumerate().map(|(number, id)| (format!("v{number}"), *id)).collect();
    let mut store = Store::default();
    let session = builder::session(graph, device, sources, Options::default(), &mut store);
    let mut session: Session = block_on(session)?;
    for name in session.given_names() {
        session.set(&name, &value(&name)?)?;
    }
    session.execute()?;
    let mut infinite = None;
    for (number, (name, span, [of_nan, of_infinity])) in places.into_iter().enumerate() {
        let tensor = session.output(&format!("v{number}"))?;
        let values = || tensor.scalars().map(Scalar::to_f64);
        if values().any(f64::is_nan) {
            return Ok(Some(Bad { name, span, what: "NaN", reason: of_nan }));
        }
        if infinite.is_none() && values().any(f64::is_infinite) {
            infinite = Some(Bad { name, span, what: "inf", reason: of_infinity });
        }
    }
    Ok(infinite)
}

/// Returns why an operation on numbers that are not NaN gives NaN.
fn reason_of_nan(op: &Op) -> Option<&'static str> {
    Some(match op {
        Op::Unary(UnaryOp::Log) => "a logarithm of a negative number",
        Op::Unary(UnaryOp::Log1p) => "a logarithm of a number below 0, `log1p` of one below -1",
        Op::Unary(UnaryOp::Sqrt | UnaryOp::Rsqrt) => "a root of a negative number",
        Op::Binary(BinaryOp::Div) => "0 divided by 0",
        Op::Binary(BinaryOp::Pow) => "a power of a negative number",
        _ => return None,
    })
}

/// Returns why an operation on finite numbers gives an infinity.
fn reason_of_infinity(op: &Op) -> Option<&'static str> {
    Some(match op {
        Op::Unary(UnaryOp::Log) => "a logarithm of 0",
        Op::Unary(UnaryOp::Exp) => "`exp` of a number above 88",
        Op::Unary(UnaryOp::Recip | UnaryOp::Rsqrt) | Op::Binary(BinaryOp::Div) => "a division by 0",
        _ => return None,
    })
}
