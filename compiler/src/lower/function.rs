//! Functions: their arguments, their statements, and calls, which are written out.

use std::collections::HashMap;

use tile_lang::ast::{DimKind, Function, Ident, Input, StatementKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::constant::Constant;
use super::expression::{Evaluator, Lowered, Target, Value};

/// The names that one call of a function has defined so far.
pub(super) struct Scope<'p, E> {
    pub function: &'p Function,
    names: HashMap<&'p str, Value<E>>,
    pub sizes: HashMap<&'p str, Size>,
}

/// What a size name stands for.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub size: usize,
    /// The input's dimension that gave it; none where it was given by its name.
    pub place: Option<Span>,
}

impl<'p, E: Clone> Scope<'p, E> {
    pub fn new(function: &'p Function) -> Self {
        Self { function, names: HashMap::new(), sizes: HashMap::new() }
    }

    pub fn lookup(&self, name: &str) -> Option<Value<E>> {
        let size = || Some(Value::Constant(Constant::Int(i64::try_from(self.sizes.get(name)?.size).ok()?)));
        self.names.get(name).cloned().or_else(size)
    }

    /// The same scope for another target: without tensors and tuples.
    pub fn constants<F>(&self) -> Scope<'p, F> {
        let constants = self.names.iter().filter_map(|(name, value)| match value {
            Value::Constant(constant) => Some((*name, Value::Constant(*constant))),
            _ => None,
        });
        Scope { function: self.function, names: constants.collect(), sizes: self.sizes.clone() }
    }
}

/// The most calls that are written out.
const MAX_CALLS: u32 = 100_000;

impl<'p, T: Target> Evaluator<'p, T> {
    /// What `function` makes of the arguments: its output, or a tuple of its outputs.
    pub fn call(
        &mut self,
        function: &'p Function,
        arguments: Vec<Value<T::Element>>,
        span: Span,
    ) -> Lowered<Value<T::Element>> {
        self.calls += 1;
        if self.calls > MAX_CALLS {
            let message = format!("this program makes more than {MAX_CALLS} calls when they are written out");
            return Err(Diagnostic::error("E0205", span, message));
        }
        let mut scope = Scope::new(function);
        let inside = || -> Lowered<Value<T::Element>> {
            self.bind(&mut scope, arguments)?;
            self.run(&mut scope)?;
            if let [output] = function.outputs.as_slice() {
                return self.output(&scope, output);
            }
            let outputs = function.outputs.iter().map(|output| self.output(&scope, output));
            Ok(Value::Tuple(outputs.collect::<Lowered<_>>()?))
        };
        inside().map_err(|error| error.also(span, "in this call"))
    }

    /// Gives the inputs of the scope's function their values, and its size names theirs.
    pub fn bind(&mut self, scope: &mut Scope<'p, T::Element>, arguments: Vec<Value<T::Element>>) -> Lowered<()> {
        let function = scope.function;
        if arguments.len() != function.inputs.len() {
            let message = format!("this function takes {} inputs, not {}", function.inputs.len(), arguments.len());
            return Err(Diagnostic::error("E0208", function.span, message));
        }
        for (input, argument) in function.inputs.iter().zip(arguments) {
            let shape = match &argument {
                Value::Element(element) => Some(self.target.shape(*element)),
                Value::Constant(_) => Some(Vec::new()),
                Value::Tuple(_) => None,
            };
            bind_sizes(&mut scope.sizes, input, shape)?;
            scope.names.insert(&input.name.name, argument);
        }
        Ok(())
    }

    /// Runs the statements of the scope's function.
    pub fn run(&mut self, scope: &mut Scope<'p, T::Element>) -> Lowered<()> {
        for statement in &scope.function.body {
            let (target, value) = match &statement.kind {
                StatementKind::Assign { target, value } => {
                    self.target.begin(target, statement.span);
                    (target, self.expression(scope, value)?)
                }
                StatementKind::Contraction(contraction) => {
                    self.target.begin(&contraction.output, statement.span);
                    (&contraction.output, T::contraction(self, scope, contraction)?)
                }
                StatementKind::Error => {
                    return Err(Diagnostic::error("E0001", statement.span, "this statement could not be read"));
                }
            };
            scope.names.insert(&target.name, value);
        }
        Ok(())
    }

    /// The value of an output of the scope's function, whose statements have run.
    pub fn output(&mut self, scope: &Scope<'p, T::Element>, output: &Ident) -> Lowered<Value<T::Element>> {
        scope.lookup(&output.name).map_or_else(|| self.target.outer(output), Ok)
    }
}

/// Checks the shape of an argument against the dimensions of an input, and gives its size names their values.
fn bind_sizes<'p>(sizes: &mut HashMap<&'p str, Size>, input: &'p Input, shape: Option<Vec<usize>>) -> Lowered<()> {
    let Some(dims) = &input.dims else { return Ok(()) };
    let name = &input.name.name;
    let Some(shape) = shape else {
        return Err(Diagnostic::error("E0204", input.span, format!("`{name}` is a tensor, and a tuple is given")));
    };
    let open = matches!(dims.first(), Some(dim) if dim.kind == DimKind::Ellipsis);
    let (named, fits) =
        if open { (&dims[1..], shape.len() + 1 >= dims.len()) } else { (&dims[..], shape.len() == dims.len()) };
    if !fits {
        let least = if open { "at least " } else { "" };
        let message = format!(
            "`{name}` has {least}{} here, and a tensor with {} is given: {shape:?}",
            axes(named.len()),
            axes(shape.len())
        );
        return Err(Diagnostic::error("E0212", input.span, message));
    }
    for (dim, &size) in named.iter().zip(&shape[shape.len() - named.len()..]) {
        match &dim.kind {
            DimKind::Size(wanted) if i64::try_from(size) != Ok(*wanted) => {
                let message = format!("`{name}` must have the size {wanted} here, and {size} is given: {shape:?}");
                return Err(Diagnostic::error("E0213", dim.span, message));
            }
            DimKind::Name(key) => match sizes.get(key.as_str()) {
                Some(first) if first.size != size => {
                    let message = format!("`{key}` is {size} in `{name}`, but {} before", first.size);
                    let error = Diagnostic::error("E0213", dim.span, message).saying(format!("{size} here: {shape:?}"));
                    return Err(match first.place {
                        Some(place) => error.also(place, format!("{} here", first.size)),
                        None => error.help(format!("`--dim {key}={}` was given", first.size)),
                    });
                }
                Some(_) => {}
                None => {
                    sizes.insert(key, Size { size, place: Some(dim.span) });
                }
            },
            DimKind::Size(_) | DimKind::Ellipsis => {}
        }
    }
    Ok(())
}

/// `1 axis`, `2 axes`
pub(super) fn axes(count: usize) -> String {
    format!("{count} {}", if count == 1 { "axis" } else { "axes" })
}
