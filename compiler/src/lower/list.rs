//! Functions on lists and other values known at compile time.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use tile_lang::Budget;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::constant::Constant;
use super::expression::{Evaluator, Lowered, Spans, Target};
use super::value::{Callable, Instance, List, Renewal, Value};
use crate::scalar::BinaryOp;

impl<'p, T: Target> Evaluator<'p, T> {
    pub(super) fn compile_time(
        &mut self,
        name: &str,
        arguments: &[Value<'p, T::Element>],
        spans: &Spans,
    ) -> Lowered<Value<'p, T::Element>> {
        match (name, arguments) {
            ("dims", [Value::Element(tensor)]) => {
                Ok(Value::List(self.target.shape(*tensor).into_iter().map(Value::int).collect()))
            }
            ("dims", [Value::Constant(_)]) => Ok(Value::List(List::default())),
            ("rank", [Value::Element(tensor)]) => Ok(Value::int(self.target.shape(*tensor).len())),
            ("rank", [Value::Constant(_)]) => Ok(Value::int(0)),
            ("type_of", [value @ (Value::Element(_) | Value::Constant(_))]) => {
                Ok(Value::Symbol(self.dtype(value, spans.call)?.name().into()))
            }
            ("has_states", [value]) => {
                self.has_states(value, &mut HashSet::new(), spans.call).map(Value::bool)
            }
            ("is_list", [value]) => Ok(Value::bool(matches!(value, Value::List(_)))),
            ("is_callable", [value]) => Ok(Value::bool(matches!(value, Value::Callable(_)))),
            ("len", [Value::List(items)]) => Ok(Value::int(items.len())),
            ("slice", [Value::List(items), bounds @ ..]) => self.slice(items, bounds, spans),
            ("letters", [Value::Symbol(text)]) => {
                self.spend(text.len(), spans.call)?;
                self.list(
                    text.chars().map(|c| Value::Symbol(c.to_string().into())).collect(),
                    spans.call,
                )
            }
            ("product", [Value::List(items)]) => self.product(items, spans.call),
            ("range", [Value::Constant(Constant::Int(end))]) => self.range(0, *end, spans),
            (
                "range",
                [Value::Constant(Constant::Int(start)), Value::Constant(Constant::Int(end))],
            ) => self.range(*start, *end, spans),
            ("list", [value]) => Ok(match value {
                Value::List(_) => value.clone(),
                _ => Value::List(vec![value.clone()].into()),
            }),
            ("list", [value, Value::Constant(Constant::Int(count))]) => {
                self.list_of(value, *count, spans)
            }
            ("repeat", [Value::Constant(Constant::Int(count)), value]) => {
                self.repeat(*count, value, spans)
            }
            (
                "with_weight" | "parametrized",
                [Value::Callable(Callable::Instance(layer)), names, Value::Callable(callable)],
            ) => self.renewed(layer, names, callable, name == "with_weight", spans),
            ("clone", [value]) => {
                let copy = self.copy(value, spans.call)?;
                copy.ok_or_else(|| wrong(spans, 0, not_a_layer(name, value)))
            }
            ("error", [message]) => {
                Err(Diagnostic::error("E0228", spans.call, message.to_string()))
            }
            _ => {
                let kinds: Vec<&str> = arguments.iter().map(Value::kind).collect();
                let message = format!("`{name}` does not take {}", kinds.join(" and "));
                Err(Diagnostic::error("E0227", spans.call, message))
            }
        }
    }

    /// Returns the items between two bounds, of which a negative one counts from the end.
    fn slice(
        &self,
        items: &List<'p, T::Element>,
        bounds: &[Value<'p, T::Element>],
        spans: &Spans,
    ) -> Lowered<Value<'p, T::Element>> {
        let mut ends = Vec::new();
        for (number, bound) in bounds.iter().enumerate() {
            let Value::Constant(Constant::Int(bound)) = bound else {
                return Err(wrong(
                    spans,
                    number + 1,
                    format!("this is {}, not an integer", bound.kind()),
                ));
            };
            let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
            let from_start = if *bound < 0 { bound.saturating_add(length) } else { *bound };
            ends.push(usize::try_from(from_start.clamp(0, length)).unwrap_or(0));
        }
        let (start, end) =
            (ends.first().copied().unwrap_or(0), ends.get(1).copied().unwrap_or(items.len()));
        let part = items.get(start..end).unwrap_or_default();
        self.spend(part.len() / 4, spans.call)?;
        self.list(part.to_vec(), spans.call)
    }

    fn product(
        &mut self,
        items: &List<'p, T::Element>,
        span: Span,
    ) -> Lowered<Value<'p, T::Element>> {
        let mut product = Value::Constant(Constant::Int(1));
        self.spend(items.len(), span)?;
        for item in items.iter() {
            product = self.binary(BinaryOp::Mul, product, item.clone(), span)?;
        }
        Ok(product)
    }

    /// Returns a list of `count` items: the value if it is one, else that often the value.
    fn list_of(
        &self,
        value: &Value<'p, T::Element>,
        count: i64,
        spans: &Spans,
    ) -> Lowered<Value<'p, T::Element>> {
        match value {
            Value::List(items) if i64::try_from(items.len()) == Ok(count) => Ok(value.clone()),
            Value::List(items) => {
                let found = items.len();
                Err(wrong(
                    spans,
                    0,
                    format!("a number or a list of {count} is wanted here, not a list of {found}"),
                ))
            }
            _ => {
                self.allow(usize::try_from(count).unwrap_or(0), spans.call)?;
                Ok(Value::List((0..count).map(|_| value.clone()).collect()))
            }
        }
    }

    /// Returns a list of copies of a layer, each with its own weights.
    fn repeat(
        &self,
        count: i64,
        value: &Value<'p, T::Element>,
        spans: &Spans,
    ) -> Lowered<Value<'p, T::Element>> {
        let Ok(times) = usize::try_from(count) else {
            return Err(wrong(spans, 0, format!("expected a number of copies, found {count}")));
        };
        self.allow(times, spans.call)?;
        let copy = || {
            let copy = self.copy(value, spans.call)?;
            copy.ok_or_else(|| wrong(spans, 1, not_a_layer("repeat", value)))
        };
        (0..count).map(|_| copy()).collect::<Lowered<_>>().map(Value::List)
    }

    /// Returns the layer with one more renewal: by `with_weight`, which `replaces` the weights with
    /// these names, or by `parametrized`.
    fn renewed(
        &self,
        layer: &Rc<Instance<'p, T::Element>>,
        names: &Value<'p, T::Element>,
        callable: &Callable<'p, T::Element>,
        replaces: bool,
        spans: &Spans,
    ) -> Lowered<Value<'p, T::Element>> {
        let names = match names {
            Value::List(names) => names.iter().collect(),
            name => vec![name],
        };
        let names = names.into_iter().map(|name| match name {
            Value::Symbol(name) => Ok(name.clone()),
            other => {
                Err(wrong(spans, 1, format!("this is {}, not the name of a weight", other.kind())))
            }
        });
        let names = names.collect::<Lowered<_>>()?;
        self.spend(10 + layer.renewals.len(), spans.call)?;
        let mut renewed = Instance::clone(layer);
        renewed.depth =
            renewed.depth.max(Value::<T::Element>::Callable(callable.clone()).depth() + 1);
        renewed.renewals.push(Renewal { names, replaces, callable: callable.clone() });
        Ok(Value::instance(Rc::new(renewed)))
    }

    /// Returns whether a layer has states, or any of the parts that it is given or names. The
    /// instances in `seen` have been visited and have none.
    fn has_states(
        &self,
        value: &Value<'p, T::Element>,
        seen: &mut HashSet<*const Instance<'p, T::Element>>,
        span: Span,
    ) -> Lowered<bool> {
        self.spend(1, span)?;
        let has = |function| {
            self.program.has_states(function, &self.budget).map_err(|exceeded| exceeded.at(span))
        };
        match value {
            Value::Callable(Callable::Function(function)) => return has(function),
            Value::Callable(Callable::Instance(instance)) if seen.insert(Rc::as_ptr(instance)) => {
                if has(instance.function)? {
                    return Ok(true);
                }
                for part in instance.parts() {
                    if self.has_states(&part, seen, span)? {
                        return Ok(true);
                    }
                }
            }
            Value::List(items) if value.has_callables() => {
                for item in items.iter() {
                    if self.has_states(item, seen, span)? {
                        return Ok(true);
                    }
                }
            }
            _ => {}
        }
        Ok(false)
    }

    /// Makes a list of the items, and counts it.
    pub(super) fn list(
        &self,
        items: Vec<Value<'p, T::Element>>,
        span: Span,
    ) -> Lowered<Value<'p, T::Element>> {
        self.allow(items.len(), span)?;
        Ok(Value::List(items.into()))
    }

    /// Counts a list with this number of items against the budget.
    fn allow(&self, items: usize, span: Span) -> Lowered<()> {
        // The items are collected into a vector first, then copied into the shared list.
        let bytes = (items as u64).saturating_mul(2 * size_of::<Value<'p, T::Element>>() as u64);
        self.budget
            .take_bytes(bytes)
            .and_then(|()| self.budget.spend(items as u64 / 4))
            .map_err(|e| e.at(span))
    }

    /// Copies a layer, or each layer in a list. A copy has the same hyper-parameters and its own
    /// weights. Returns `None` if anything but callables and names is found.
    fn copy(
        &self,
        value: &Value<'p, T::Element>,
        span: Span,
    ) -> Lowered<Option<Value<'p, T::Element>>> {
        self.spend(value.size(), span)?;
        let copy = is_copied(value).then(|| Copies::new(&self.budget).value(value));
        self.spend(0, span)?;
        Ok(copy)
    }

    fn range(&self, start: i64, end: i64, spans: &Spans) -> Lowered<Value<'p, T::Element>> {
        self.allow(usize::try_from(end.saturating_sub(start)).unwrap_or(0), spans.call)?;
        Ok(Value::List((start..end).map(|number| Value::Constant(Constant::Int(number))).collect()))
    }

    /// Returns `list[index]`. A negative index counts from the end.
    pub(super) fn item(
        &self,
        items: &[Value<'p, T::Element>],
        index: i64,
        span: Span,
    ) -> Lowered<Value<'p, T::Element>> {
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let position = if index < 0 { index.saturating_add(length) } else { index };
        let item = usize::try_from(position).ok().and_then(|position| items.get(position));
        item.cloned().ok_or_else(|| {
            Diagnostic::error(
                "E0227",
                span,
                format!("there is no item {index} in a list of {}", items.len()),
            )
            .help("items are counted from 0, and from the end as -1, -2, …")
        })
    }
}

fn is_copied<E>(value: &Value<'_, E>) -> bool {
    match value {
        Value::List(items) => items.iter().all(is_copied),
        value => matches!(value, Value::Callable(_) | Value::Symbol(_)),
    }
}

/// A copier of layers, optimizers and other instances, each copy with its own weights. An instance
/// that occurs several times is copied once, so that the copies share it as well.
pub(super) struct Copies<'p, E> {
    /// Instances and their copies, by the address of the original.
    copied: HashMap<*const Instance<'p, E>, Copied<'p, E>>,
    budget: Budget,
}

/// An instance and its copy.
struct Copied<'p, E>(
    #[expect(dead_code, reason = "keeps its address")] Rc<Instance<'p, E>>,
    Rc<Instance<'p, E>>,
);

impl<'p, E: Clone> Copies<'p, E> {
    /// Creates a copier without copies. Once the budget is exceeded, it copies nothing more.
    pub fn new(budget: &Budget) -> Self {
        Copies { copied: HashMap::new(), budget: budget.clone() }
    }

    pub fn instance(&mut self, instance: &Rc<Instance<'p, E>>) -> Rc<Instance<'p, E>> {
        if let Some(Copied(_, copy)) = self.copied.get(&Rc::as_ptr(instance)) {
            return copy.clone();
        }
        let parts = instance
            .parameters
            .iter()
            .flatten()
            .map(Value::size)
            .fold(instance.renewals.len(), usize::saturating_add);
        if self
            .budget
            .take_bytes(400 + 40 * parts as u64)
            .and_then(|()| self.budget.spend(10 + parts as u64))
            .is_err()
        {
            return instance.clone();
        }
        // Callables among the hyper-parameters are copied, too.
        let parameters = instance
            .parameters
            .iter()
            .map(|value| value.as_ref().map(|value| self.value(value)))
            .collect();
        let renewals = instance.renewals.iter().map(|renewal| Renewal {
            callable: self.callable(&renewal.callable),
            ..renewal.clone()
        });
        let (renewals, path) = (renewals.collect(), RefCell::new(None));
        let copy = Rc::new(Instance { parameters, renewals, path, ..Instance::clone(instance) });
        self.copied.insert(Rc::as_ptr(instance), Copied(instance.clone(), copy.clone()));
        copy
    }

    fn callable(&mut self, callable: &Callable<'p, E>) -> Callable<'p, E> {
        match callable {
            Callable::Instance(instance) => Callable::Instance(self.instance(instance)),
            callable => callable.clone(),
        }
    }

    fn value(&mut self, value: &Value<'p, E>) -> Value<'p, E> {
        match value {
            Value::Callable(callable) => Value::Callable(self.callable(callable)),
            Value::List(items) => Value::List(items.iter().map(|item| self.value(item)).collect()),
            value => value.clone(),
        }
    }
}

/// Returns the error that an argument is of the wrong kind.
fn wrong(spans: &Spans, number: usize, message: String) -> Diagnostic {
    Diagnostic::error("E0227", spans.argument(number), message)
}

fn not_a_layer<E>(name: &str, value: &Value<'_, E>) -> String {
    format!("`{name}` copies layers, and this is {}", value.kind())
}
