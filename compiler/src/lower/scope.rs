//! The names that one call of a function has defined so far, and the sizes that its inputs name.

use std::collections::HashMap;

use tile_lang::ast::{DimKind, Function, Input};
use tile_lang::diagnostic::{Diagnostic, axes};
use tile_lang::span::Span;

use super::constant::Constant;
use super::expression::Lowered;
use super::value::Value;

pub(super) struct Scope<'p, E> {
    pub function: &'p Function,
    pub names: HashMap<&'p str, Value<'p, E>>,
    pub sizes: HashMap<&'p str, Size>,
    /// The paths of the names that are weights.
    pub weights: HashMap<&'p str, String>,
}

/// The value of a size name.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub size: usize,
    /// The dimension of the input that gave the size, or `None` if it was given by name.
    pub place: Option<Span>,
}

impl<'p, E: Clone> Scope<'p, E> {
    pub fn new(function: &'p Function) -> Self {
        Self { function, names: HashMap::new(), sizes: HashMap::new(), weights: HashMap::new() }
    }

    pub fn lookup(&self, name: &str) -> Option<Value<'p, E>> {
        let size = || {
            Some(Value::Constant(Constant::Int(i64::try_from(self.sizes.get(name)?.size).ok()?)))
        };
        self.names.get(name).cloned().or_else(size)
    }

    /// Returns the same scope with mapped values. Names are visited in sorted order, so that the
    /// result is deterministic.
    pub fn map(&self, mut value: impl FnMut(&Value<'p, E>) -> Value<'p, E>) -> Self {
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort_unstable_by_key(|(name, _)| **name);
        let names = names.into_iter().map(|(name, old)| (*name, value(old))).collect();
        Self {
            function: self.function,
            names,
            sizes: self.sizes.clone(),
            weights: self.weights.clone(),
        }
    }

    /// Returns the same scope for another target, without values that contain tensors.
    pub fn constants<F>(&self) -> Scope<'p, F> {
        let constants =
            self.names.iter().filter_map(|(name, value)| Some((*name, value.constant()?)));
        let (names, sizes) = (constants.collect(), self.sizes.clone());
        Scope { function: self.function, names, sizes, weights: HashMap::new() }
    }

    /// Checks an argument's shape against the dimensions of an input, and binds the size names. A
    /// `shape` of `None` stands for a list.
    pub fn bind_sizes(&mut self, input: &'p Input, shape: Option<Vec<usize>>) -> Lowered<()> {
        let Some(dims) = &input.dims else { return Ok(()) };
        let name = &input.name.name;
        let Some(shape) = shape else {
            return Err(Diagnostic::error(
                "E0204",
                input.span,
                format!("`{name}` is a tensor, and a list is given"),
            ));
        };
        let open = matches!(dims.first(), Some(dim) if dim.kind == DimKind::Ellipsis);
        let (named, fits) = if open {
            (&dims[1..], shape.len() + 1 >= dims.len())
        } else {
            (&dims[..], shape.len() == dims.len())
        };
        if !fits {
            let least = if open { "at least " } else { "" };
            let message = format!(
                "expected a tensor with {least}{} for `{name}`, found {shape:?}",
                axes(named.len())
            );
            return Err(Diagnostic::error("E0212", input.span, message));
        }
        for (dim, &size) in named.iter().zip(&shape[shape.len() - named.len()..]) {
            match &dim.kind {
                DimKind::Size(wanted) if i64::try_from(size) != Ok(*wanted) => {
                    let message = format!(
                        "`{name}` must have the size {wanted} here, and {size} is given: {shape:?}"
                    );
                    return Err(Diagnostic::error("E0213", dim.span, message));
                }
                DimKind::Name(key) => match self.sizes.get(key.as_str()) {
                    Some(first) if first.size != size => {
                        let message =
                            format!("`{key}` is {size} in `{name}`, but {} before", first.size);
                        let error = Diagnostic::error("E0213", dim.span, message)
                            .saying(format!("{size} here: {shape:?}"));
                        return Err(match first.place {
                            Some(place) => error.also(place, format!("{} here", first.size)),
                            None => error.help(format!("`--dim {key}={}` was given", first.size)),
                        });
                    }
                    Some(_) => {}
                    None => {
                        self.sizes.insert(key, Size { size, place: Some(dim.span) });
                    }
                },
                DimKind::Size(_) | DimKind::Ellipsis => {}
            }
        }
        Ok(())
    }
}
