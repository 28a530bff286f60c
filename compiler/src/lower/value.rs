//! Compile-time values of expressions: constants, tensors that are yet to be computed, and lists,
//! symbols and callables.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use tile_lang::ast::Function;
use tile_lang::builtin::Builtin;

use super::constant::Constant;

#[derive(Clone, Debug)]
pub(super) enum Value<'p, E> {
    Constant(Constant),
    /// An element of the target: a tensor, or a scalar inside a contraction.
    Element(E),
    /// A list or tuple.
    List(List<'p, E>),
    /// A name that stands for itself, or a text.
    Symbol(Rc<str>),
    Callable(Callable<'p, E>),
}

/// An immutable list. Clones share the items.
#[derive(Clone, Debug)]
pub(super) struct List<'p, E> {
    items: Rc<[Value<'p, E>]>,
    /// One plus the number of items, including those of nested lists.
    size: usize,
    /// The nesting depth of lists and instances, including this list.
    depth: u32,
    has_elements: bool,
    has_callables: bool,
}

impl<'p, E> FromIterator<Value<'p, E>> for List<'p, E> {
    fn from_iter<I: IntoIterator<Item = Value<'p, E>>>(items: I) -> Self {
        let items: Rc<[Value<'p, E>]> = items.into_iter().collect();
        let size = items.iter().map(Value::size).fold(1, usize::saturating_add);
        let depth = items.iter().map(Value::depth).max().unwrap_or(0).saturating_add(1);
        let has_elements = items.iter().any(Value::has_elements);
        let has_callables = items.iter().any(Value::has_callables);
        List { items, size, depth, has_elements, has_callables }
    }
}

impl<'p, E> From<Vec<Value<'p, E>>> for List<'p, E> {
    fn from(items: Vec<Value<'p, E>>) -> Self {
        items.into_iter().collect()
    }
}

impl<E> Default for List<'_, E> {
    fn default() -> Self {
        List::from_iter([])
    }
}

/// Iterates over clones of the items.
impl<'p, E: Clone> IntoIterator for List<'p, E> {
    type Item = Value<'p, E>;
    type IntoIter = std::vec::IntoIter<Value<'p, E>>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter().cloned().collect::<Vec<_>>().into_iter()
    }
}

impl<'p, E> Deref for List<'p, E> {
    type Target = [Value<'p, E>];

    fn deref(&self) -> &[Value<'p, E>] {
        &self.items
    }
}

/// A value that can be called.
#[derive(Clone, Debug)]
pub(super) enum Callable<'p, E> {
    /// A function without hyper-parameters so far.
    Function(&'p Function),
    /// A builtin function, and the name that it was called by.
    Builtin(Builtin, Rc<str>),
    Instance(Rc<Instance<'p, E>>),
}

/// A function, layer or model with its hyper-parameters.
#[derive(Clone, Debug)]
pub(super) struct Instance<'p, E> {
    pub function: &'p Function,
    /// The hyper-parameters in declaration order; `None` stands for the default.
    pub parameters: Vec<Option<Value<'p, E>>>,
    /// The layer's name, from `name = …`.
    pub name: Option<Rc<str>>,
    /// The path of a layer's weights, once the layer has a place in a model.
    pub path: RefCell<Option<String>>,
    /// The renewals of a layer's weights.
    pub renewals: Vec<Renewal<'p, E>>,
    /// The values of [`Value::size`] and [`Value::depth`].
    pub size: usize,
    pub depth: u32,
}

/// A use of `with_weight` or `parametrized` on the weights with these names.
#[derive(Clone, Debug)]
pub(super) struct Renewal<'p, E> {
    pub names: Vec<Rc<str>>,
    /// Whether the result replaces the weight in training, as with `with_weight`. Otherwise the
    /// weight itself is trained, and its gradient flows through the callable.
    pub replaces: bool,
    pub callable: Callable<'p, E>,
}

impl<'p, E> Instance<'p, E> {
    /// Returns the hyper-parameters that were given, and the callables of the renewals.
    pub fn parts(&self) -> impl Iterator<Item = Value<'p, E>>
    where
        E: Clone,
    {
        let renewals =
            self.renewals.iter().map(|renewal| Value::Callable(renewal.callable.clone()));
        self.parameters.iter().flatten().cloned().chain(renewals)
    }

    pub fn new(
        function: &'p Function,
        parameters: Vec<Option<Value<'p, E>>>,
        name: Option<Rc<str>>,
    ) -> Rc<Self> {
        let depth =
            parameters.iter().flatten().map(Value::depth).max().unwrap_or(0).saturating_add(1);
        let size = parameters.iter().flatten().map(Value::size).fold(1, usize::saturating_add);
        Rc::new(Instance {
            function,
            parameters,
            name,
            path: RefCell::new(None),
            renewals: Vec::new(),
            size,
            depth,
        })
    }
}

impl<'p, E> Value<'p, E> {
    /// Returns whether this is a symbol, such as `none`.
    pub fn is_symbol(&self, name: &str) -> bool {
        matches!(self, Value::Symbol(symbol) if **symbol == *name)
    }

    pub fn instance(instance: Rc<Instance<'p, E>>) -> Self {
        Value::Callable(Callable::Instance(instance))
    }

    pub fn int(value: usize) -> Self {
        Value::Constant(Constant::Int(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    pub fn bool(value: bool) -> Self {
        Value::Constant(Constant::Bool(value))
    }

    /// Returns the number of items, including those in nested lists and hyper-parameters. A symbol
    /// counts its bytes, anything else 1. Shared parts count wherever they occur.
    pub fn size(&self) -> usize {
        match self {
            Value::List(items) => items.size,
            Value::Symbol(text) => text.len().max(1),
            Value::Callable(Callable::Instance(instance)) => instance.size,
            Value::Constant(_) | Value::Element(_) | Value::Callable(_) => 1,
        }
    }

    /// Returns the nesting depth of lists and instances: 0 for anything else.
    pub fn depth(&self) -> u32 {
        match self {
            Value::List(items) => items.depth,
            Value::Callable(Callable::Instance(instance)) => instance.depth,
            _ => 0,
        }
    }

    /// Returns whether the value is a tensor or a list that contains one.
    pub fn has_elements(&self) -> bool {
        match self {
            Value::Element(_) => true,
            Value::List(items) => items.has_elements,
            Value::Constant(_) | Value::Symbol(_) | Value::Callable(_) => false,
        }
    }

    /// Returns whether the value is a callable or a list that contains one.
    pub fn has_callables(&self) -> bool {
        match self {
            Value::Callable(_) => true,
            Value::List(items) => items.has_callables,
            _ => false,
        }
    }

    /// Returns the same value for another target, or `None` if it contains a tensor.
    pub fn constant<F>(&self) -> Option<Value<'p, F>> {
        Some(match self {
            Value::Constant(constant) => Value::Constant(*constant),
            Value::Element(_) => return None,
            Value::List(items) => {
                Value::List(items.iter().map(Value::constant).collect::<Option<_>>()?)
            }
            Value::Symbol(name) => Value::Symbol(name.clone()),
            Value::Callable(Callable::Function(function)) => {
                Value::Callable(Callable::Function(function))
            }
            Value::Callable(Callable::Builtin(builtin, name)) => {
                Value::Callable(Callable::Builtin(*builtin, name.clone()))
            }
            Value::Callable(Callable::Instance(instance)) => {
                let parameters = instance.parameters.iter().map(|parameter| match parameter {
                    Some(value) => value.constant().map(Some),
                    None => Some(None),
                });
                Value::instance(Rc::new(Instance {
                    function: instance.function,
                    parameters: parameters.collect::<Option<_>>()?,
                    name: instance.name.clone(),
                    path: instance.path.clone(),
                    // Renewals concern layers, which are not applied on another target.
                    renewals: Vec::new(),
                    size: instance.size,
                    depth: instance.depth,
                }))
            }
        })
    }

    /// Returns the name of a symbol, or of a callable that is not an instance.
    pub fn name(&self) -> Option<&str> {
        match self {
            Value::Symbol(name) | Value::Callable(Callable::Builtin(_, name)) => Some(name),
            Value::Callable(Callable::Function(function)) => {
                function.name.as_ref().map(|name| name.name.as_str())
            }
            _ => None,
        }
    }

    /// Returns the kind of value, for error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Constant(Constant::Bool(_)) => "a bool",
            Value::Constant(_) => "a number",
            Value::Element(_) => "a tensor",
            Value::List(_) => "a list",
            Value::Symbol(_) => "a name",
            Value::Callable(Callable::Instance(_)) => "an instance",
            Value::Callable(_) => "a function",
        }
    }
}

/// Compares values known at compile time. A function is equal to its name.
impl<E: PartialEq> PartialEq for Value<'_, E> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Constant(a), Value::Constant(b)) => a.is_equal(*b),
            (Value::Element(a), Value::Element(b)) => a == b,
            (Value::List(a), Value::List(b)) => Rc::ptr_eq(&a.items, &b.items) || **a == **b,
            (Value::Callable(Callable::Instance(a)), Value::Callable(Callable::Instance(b))) => {
                Rc::ptr_eq(a, b)
            }
            _ => self.name().is_some() && self.name() == other.name(),
        }
    }
}

/// The largest size of a list that is printed item by item.
const SHOWN: usize = 100;

/// Prints the value in Tile's syntax where possible.
impl<E> fmt::Display for Value<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Constant(Constant::Bool(value)) => write!(f, "{value}"),
            Value::Constant(Constant::Int(value)) => write!(f, "{value}"),
            Value::Constant(Constant::Float(value)) => write!(f, "{value:?}"),
            Value::List(items) if items.size > SHOWN => write!(f, "a list of {}", items.len()),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            _ => f.write_str(self.name().unwrap_or(self.kind())),
        }
    }
}
