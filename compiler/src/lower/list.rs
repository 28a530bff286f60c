//! Functions on lists and other values that are known at compile time.

use std::cell::RefCell;
use std::rc::Rc;

use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::constant::Constant;
use super::expression::{Evaluator, Lowered, Spans, Target};
use super::value::{Callable, Instance, Renewal, Value};

impl<'p, T: Target> Evaluator<'p, T> {
    pub(super) fn compile_time(
        &mut self,
        name: &str,
        arguments: &[Value<'p, T::Element>],
        spans: &Spans,
    ) -> Lowered<Value<'p, T::Element>> {
        let wrong = |number: usize, message: String| Diagnostic::error("E0227", spans.argument(number), message);
        match (name, arguments) {
            ("dims", [Value::Element(tensor)]) => {
                Ok(Value::List(self.target.shape(*tensor).into_iter().map(Value::int).collect()))
            }
            ("dims", [Value::Constant(_)]) => Ok(Value::List(Vec::new())),
            ("rank", [Value::Element(tensor)]) => Ok(Value::int(self.target.shape(*tensor).len())),
            ("rank", [Value::Constant(_)]) => Ok(Value::int(0)),
            ("is_list", [value]) => Ok(Value::bool(matches!(value, Value::List(_)))),
            ("is_callable", [value]) => Ok(Value::bool(matches!(value, Value::Callable(_)))),
            ("len", [Value::List(items)]) => Ok(Value::int(items.len())),
            ("slice", [Value::List(items), bounds @ ..]) => {
                let mut ends = Vec::new();
                for (number, bound) in bounds.iter().enumerate() {
                    let Value::Constant(Constant::Int(bound)) = bound else {
                        return Err(wrong(number + 1, format!("this is {}, not an integer", bound.kind())));
                    };
                    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                    let from_start = if *bound < 0 { bound.saturating_add(length) } else { *bound };
                    ends.push(usize::try_from(from_start.clamp(0, length)).unwrap_or(0));
                }
                let (start, end) = (ends.first().copied().unwrap_or(0), ends.get(1).copied().unwrap_or(items.len()));
                Ok(Value::List(items.get(start..end).unwrap_or_default().to_vec()))
            }
            ("letters", [Value::Symbol(text)]) => {
                Ok(Value::List(text.chars().map(|c| Value::Symbol(c.to_string().into())).collect()))
            }
            ("product", [Value::List(items)]) => {
                let mut product = Value::Constant(Constant::Int(1));
                for item in items {
                    product = self.binary(crate::scalar::BinaryOp::Mul, product, item.clone(), spans.call)?;
                }
                Ok(product)
            }
            ("range", [Value::Constant(Constant::Int(end))]) => self.range(0, *end, spans),
            ("range", [Value::Constant(Constant::Int(start)), Value::Constant(Constant::Int(end))]) => {
                self.range(*start, *end, spans)
            }
            ("list", [value]) => Ok(match value {
                Value::List(_) => value.clone(),
                _ => Value::List(vec![value.clone()]),
            }),
            ("list", [value, Value::Constant(Constant::Int(count))]) => match value {
                Value::List(items) if i64::try_from(items.len()) == Ok(*count) => Ok(value.clone()),
                Value::List(items) => Err(wrong(
                    0,
                    format!("a number or a list of {count} is wanted here, not a list of {}", items.len()),
                )),
                _ => {
                    limit(usize::try_from(*count).unwrap_or(0), spans.call)?;
                    Ok(Value::List((0..*count).map(|_| value.clone()).collect()))
                }
            },
            ("repeat", [Value::Constant(Constant::Int(count)), value]) => {
                if *count < 0 || *count > MOST_COPIES {
                    return Err(wrong(0, format!("there are 0 to {MOST_COPIES} copies, not {count}")));
                }
                let copies = (0..*count).map(|_| copy(value).ok_or_else(|| wrong(1, not_a_layer(name, value))));
                copies.collect::<Lowered<_>>().map(Value::List)
            }
            ("with_weight", [Value::Callable(Callable::Instance(layer)), names, Value::Callable(callable)]) => {
                let names = match names {
                    Value::List(names) => names.iter().collect(),
                    name => vec![name],
                };
                let names = names.into_iter().map(|name| match name {
                    Value::Symbol(name) => Ok(name.clone()),
                    other => Err(wrong(1, format!("this is {}, not the name of a weight", other.kind()))),
                });
                let renewal = Renewal { names: names.collect::<Lowered<_>>()?, callable: callable.clone() };
                Ok(Value::instance(Rc::new(Instance { renewal: Some(renewal), ..Instance::clone(layer) })))
            }
            ("clone", [value]) => copy(value).ok_or_else(|| wrong(0, not_a_layer(name, value))),
            ("error", [message]) => Err(Diagnostic::error("E0228", spans.call, message.to_string())),
            _ => {
                let kinds: Vec<&str> = arguments.iter().map(Value::kind).collect();
                let message = format!("`{name}` does not take {}", kinds.join(" and "));
                Err(Diagnostic::error("E0227", spans.call, message))
            }
        }
    }

    fn range(&self, start: i64, end: i64, spans: &Spans) -> Lowered<Value<'p, T::Element>> {
        limit(usize::try_from(end.saturating_sub(start)).unwrap_or(0), spans.call)?;
        Ok(Value::List((start..end).map(|number| Value::Constant(Constant::Int(number))).collect()))
    }

    /// `list[index]`; a negative index counts from the end.
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
            Diagnostic::error("E0227", span, format!("there is no item {index} in a list of {}", items.len()))
                .help("items are counted from 0, and from the end as -1, -2, …")
        })
    }
}

/// The most items of a list, and letters of a text.
const MOST_ITEMS: usize = 1_000_000;
/// The most copies of a layer.
const MOST_COPIES: i64 = 10_000;

/// An error where a list or a text would be too long.
pub(super) fn limit(items: usize, span: Span) -> Lowered<()> {
    if items <= MOST_ITEMS {
        return Ok(());
    }
    Err(Diagnostic::error("E0227", span, format!("a list or a text has at most {MOST_ITEMS} items")))
}

/// A layer with the same hyper-parameters and weights of its own. None for what is no callable.
fn copy<'p, E: Clone>(value: &Value<'p, E>) -> Option<Value<'p, E>> {
    match value {
        Value::Callable(Callable::Instance(instance)) => {
            // A layer that is a hyper-parameter is copied, too.
            let copied = |value: &Value<'p, E>| copy(value).unwrap_or_else(|| value.clone());
            let parameters = instance.parameters.iter().map(|parameter| parameter.as_ref().map(copied));
            let (parameters, path) = (parameters.collect(), RefCell::new(None));
            Some(Value::instance(Rc::new(Instance { parameters, path, ..Instance::clone(instance) })))
        }
        Value::Callable(_) | Value::Symbol(_) => Some(value.clone()),
        Value::List(items) => items.iter().map(copy).collect::<Option<_>>().map(Value::List),
        Value::Constant(_) | Value::Element(_) => None,
    }
}

fn not_a_layer<E>(name: &str, value: &Value<'_, E>) -> String {
    format!("`{name}` copies layers, and this is {}", value.kind())
}
