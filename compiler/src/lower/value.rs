//! What an expression gives at compile time: a constant, a tensor that is yet to be computed, or a thing of the language.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use tile_lang::ast::Function;
use tile_lang::builtin::Builtin;

use super::constant::Constant;

#[derive(Clone, Debug)]
pub(super) enum Value<'p, E> {
    Constant(Constant),
    /// Of the target: a tensor, or inside a contraction one element.
    Element(E),
    /// A list, or a tuple: several values in order.
    List(Vec<Value<'p, E>>),
    /// A name that stands for itself, or a text.
    Symbol(Rc<str>),
    Callable(Callable<'p, E>),
}

/// What can be called.
#[derive(Clone, Debug)]
pub(super) enum Callable<'p, E> {
    /// Not yet given hyper-parameters.
    Function(&'p Function),
    /// With the name that it was called by.
    Builtin(Builtin, Rc<str>),
    Instance(Rc<Instance<'p, E>>),
}

/// A function, layer or model that was given its hyper-parameters.
#[derive(Clone, Debug)]
pub(super) struct Instance<'p, E> {
    pub function: &'p Function,
    /// In the order of the header; none where it takes the default.
    pub parameters: Vec<Option<Value<'p, E>>>,
    /// What `name = …` said.
    pub name: Option<Rc<str>>,
    /// Of a layer: where its weights are, once it has a place in a model.
    pub path: RefCell<Option<String>>,
    /// Of a layer: what its weight of one of these names is made into.
    pub renewal: Option<Renewal<'p, E>>,
}

/// What `with_weight` says.
#[derive(Clone, Debug)]
pub(super) struct Renewal<'p, E> {
    pub names: Vec<Rc<str>>,
    pub callable: Callable<'p, E>,
}

impl<'p, E> Instance<'p, E> {
    pub fn new(function: &'p Function, parameters: Vec<Option<Value<'p, E>>>, name: Option<Rc<str>>) -> Rc<Self> {
        Rc::new(Instance { function, parameters, name, path: RefCell::new(None), renewal: None })
    }
}

impl<'p, E> Value<'p, E> {
    pub fn instance(instance: Rc<Instance<'p, E>>) -> Self {
        Value::Callable(Callable::Instance(instance))
    }

    pub fn int(value: usize) -> Self {
        Value::Constant(Constant::Int(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    pub fn bool(value: bool) -> Self {
        Value::Constant(Constant::Bool(value))
    }

    /// How many items it has, those of the lists in it included, or letters; 1 for all else.
    pub fn size(&self) -> usize {
        match self {
            Value::List(items) => items.iter().map(Value::size).fold(1, usize::saturating_add),
            Value::Symbol(text) => text.len().max(1),
            Value::Constant(_) | Value::Element(_) | Value::Callable(_) => 1,
        }
    }

    /// Whether it is a tensor, or has one in it.
    pub fn has_elements(&self) -> bool {
        match self {
            Value::Element(_) => true,
            Value::List(items) => items.iter().any(Value::has_elements),
            Value::Constant(_) | Value::Symbol(_) | Value::Callable(_) => false,
        }
    }

    /// The same for another target; none for what has tensors in it.
    pub fn constant<F>(&self) -> Option<Value<'p, F>> {
        Some(match self {
            Value::Constant(constant) => Value::Constant(*constant),
            Value::Element(_) => return None,
            Value::List(items) => Value::List(items.iter().map(Value::constant).collect::<Option<_>>()?),
            Value::Symbol(name) => Value::Symbol(name.clone()),
            Value::Callable(Callable::Function(function)) => Value::Callable(Callable::Function(function)),
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
                    // It is a matter of layers, which are not applied on another target.
                    renewal: None,
                }))
            }
        })
    }

    /// The name of a symbol, or of a callable that is not an instance.
    pub fn name(&self) -> Option<&str> {
        match self {
            Value::Symbol(name) | Value::Callable(Callable::Builtin(_, name)) => Some(name),
            Value::Callable(Callable::Function(function)) => function.name.as_ref().map(|name| name.name.as_str()),
            _ => None,
        }
    }

    /// What messages call it.
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

/// Whether two values known at compile time are equal. A function is equal to its name.
impl<E: PartialEq> PartialEq for Value<'_, E> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Constant(a), Value::Constant(b)) => a.is_equal(*b),
            (Value::Element(a), Value::Element(b)) => a == b,
            (Value::List(a), Value::List(b)) => a == b,
            (Value::Callable(Callable::Instance(a)), Value::Callable(Callable::Instance(b))) => Rc::ptr_eq(a, b),
            _ => self.name().is_some() && self.name() == other.name(),
        }
    }
}

/// As it is written, where it can be.
impl<E> fmt::Display for Value<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Constant(Constant::Bool(value)) => write!(f, "{value}"),
            Value::Constant(Constant::Int(value)) => write!(f, "{value}"),
            Value::Constant(Constant::Float(value)) => write!(f, "{value:?}"),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            _ => f.write_str(self.name().unwrap_or(self.kind())),
        }
    }
}
