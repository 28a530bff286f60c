//! The values in a pickle of PyTorch: plain data, storages, and the tensors that view them.

use tile_compiler::dtype::DType;

use crate::files::MOST_AXES;

/// The number of a value.
pub type Id = u32;

/// The advice for a file that has more than weights.
pub const NO_CODE: &str = "no code of a file is run; help: save the weights alone, with `torch.save(model.state_dict(), \"model.pt\")`";

/// A value of a pickle. Its parts are values of the same pickle, by number.
#[derive(Debug)]
pub enum Value<'p> {
    /// Something that no tensor needs, such as a float, bytes or a set.
    Plain,
    Bool(bool),
    Integer(i64),
    Text(&'p str),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(Global<'p>),
    Storage(Storage<'p>),
    Tensor(Box<View<'p>>),
}

/// The element type of a storage or a tensor.
#[derive(Clone, Copy, Debug)]
pub enum Type<'p> {
    Known(DType),
    /// Bytes, to which each tensor gives its type.
    Bytes,
    /// A type that Tile lacks.
    Other(&'p str),
}

/// A name that a pickle may refer to.
#[derive(Clone, Copy, Debug)]
pub enum Global<'p> {
    /// A dictionary.
    Dict,
    /// A function that makes a tensor of a storage.
    Tensor,
    /// A function that makes a parameter of a tensor.
    Parameter,
    /// A function that makes a tensor of a subclass.
    Subclass,
    /// The type of a storage.
    Storage(Type<'p>),
    /// The type of a tensor's elements.
    DType(Type<'p>),
    /// A class or a function whose values have no part in tensors.
    Plain,
}

/// The names of PyTorch's storages and types.
const TYPES: [(&str, &str, DType); 13] = [
    ("BoolStorage", "bool", DType::Bool),
    ("CharStorage", "int8", DType::I8),
    ("ShortStorage", "int16", DType::I16),
    ("IntStorage", "int32", DType::I32),
    ("LongStorage", "int64", DType::I64),
    ("ByteStorage", "uint8", DType::U8),
    ("", "uint16", DType::U16),
    ("", "uint32", DType::U32),
    ("", "uint64", DType::U64),
    ("HalfStorage", "float16", DType::F16),
    ("BFloat16Storage", "bfloat16", DType::BF16),
    ("FloatStorage", "float32", DType::F32),
    ("DoubleStorage", "float64", DType::F64),
];

/// The beginnings of the names of PyTorch's other types.
const OTHER_TYPES: [&str; 6] = ["complex", "float", "int", "uint", "quint", "qint"];

impl<'p> Global<'p> {
    /// Finds a name.
    ///
    /// # Errors
    /// Returns a sentence with the name if it is none of those that a state_dict needs.
    pub fn find(module: &'p str, name: &'p str) -> Result<Global<'p>, String> {
        let known = match (module, name) {
            ("collections", "OrderedDict") => Global::Dict,
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3") => {
                Global::Tensor
            }
            ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
                Global::Parameter
            }
            ("torch._tensor", "_rebuild_from_type_v2") => Global::Subclass,
            ("torch.storage", "UntypedStorage") => Global::Storage(Type::Bytes),
            ("torch", "Size" | "device" | "Tensor")
            | ("torch.nn.parameter", "Parameter")
            | ("torch.serialization", "_get_layout")
            | ("collections", "Counter")
            | ("_codecs", "encode")
            | ("builtins" | "__builtin__", "set" | "frozenset") => Global::Plain,
            ("torch", name) if name.ends_with("Storage") => Global::Storage(
                TYPES
                    .iter()
                    .find(|ty| ty.0 == name)
                    .map_or(Type::Other(name), |ty| Type::Known(ty.2)),
            ),
            ("torch", name) if TYPES.iter().any(|ty| ty.1 == name) => Global::DType(
                TYPES
                    .iter()
                    .find(|ty| ty.1 == name)
                    .map_or(Type::Other(name), |ty| Type::Known(ty.2)),
            ),
            ("torch", name) if OTHER_TYPES.iter().any(|start| name.starts_with(start)) => {
                Global::DType(Type::Other(name))
            }
            _ => {
                let whole: String =
                    module.chars().chain(['.']).chain(name.chars()).take(120).collect();
                return Err(format!("it needs `{whole}`, and {NO_CODE}"));
            }
        };
        Ok(known)
    }
}

/// The elements that tensors view: the content of the archive's entry `data/KEY`.
#[derive(Clone, Copy, Debug)]
pub struct Storage<'p> {
    pub key: &'p str,
    pub ty: Type<'p>,
}

impl<'p> Storage<'p> {
    /// Creates a storage from `("storage", type, key, device, number of elements)`. The number is
    /// not used: the entry's size counts.
    pub fn new(parts: &[Id], values: &[Value<'p>]) -> Result<Storage<'p>, String> {
        let value = |number: usize| parts.get(number).map(|id| &values[*id as usize]);
        match (value(0), value(1), value(2)) {
            (
                Some(Value::Text("storage")),
                Some(Value::Global(Global::Storage(ty))),
                Some(Value::Text(key)),
            ) => Ok(Storage { key, ty: *ty }),
            _ => Err("it has a storage without a type or a name".into()),
        }
    }
}

/// A tensor: a storage, and the place of each element in it.
#[derive(Debug)]
pub struct View<'p> {
    pub storage: Storage<'p>,
    pub ty: Type<'p>,
    /// The place of the first element.
    pub offset: u64,
    pub shape: Vec<usize>,
    /// The distance between neighbours along each axis.
    pub strides: Vec<u64>,
}

impl<'p> View<'p> {
    /// Creates a tensor from `(storage, offset, sizes, strides, requires_grad, hooks)`. Version 3
    /// adds the type, and both may add a dict of flags.
    pub fn new(arguments: &[Id], values: &[Value<'p>]) -> Result<View<'p>, String> {
        let value = |number: usize| arguments.get(number).map(|id| &values[*id as usize]);
        let (
            Some(Value::Storage(storage)),
            Some(Value::Integer(offset)),
            Some(sizes),
            Some(strides),
        ) = (value(0), value(1), value(2), value(3))
        else {
            return Err("it has a tensor without a storage, sizes or strides".into());
        };
        let ty = match value(6) {
            Some(Value::Global(Global::DType(ty))) => *ty,
            _ => storage.ty,
        };
        for number in 6..=7 {
            if let Some(Value::Dict(flags)) = value(number)
                && flags
                    .iter()
                    .any(|(_, flag)| !matches!(values[*flag as usize], Value::Bool(false)))
            {
                return Err("it has a negated or a conjugated view; help: save `tensor.resolve_neg().resolve_conj()`"
                    .to_owned());
            }
        }
        let shape: Vec<usize> = numbers(sizes, values)?;
        let strides: Vec<u64> = numbers(strides, values)?;
        if shape.len() != strides.len() {
            return Err("it has a tensor with another number of sizes than of strides".into());
        }
        let offset = u64::try_from(*offset).map_err(|_| NEGATIVE)?;
        Ok(View { storage: *storage, ty, offset, shape, strides })
    }
}

const NEGATIVE: &str = "it has a tensor with a negative offset, size or stride";

/// Returns the integers of a tuple or a list.
fn numbers<N: TryFrom<i64>>(value: &Value<'_>, values: &[Value<'_>]) -> Result<Vec<N>, String> {
    let (Value::Tuple(items) | Value::List(items)) = value else {
        return Err("it has a tensor whose sizes or strides are no tuple".into());
    };
    if items.len() > MOST_AXES {
        return Err(format!(
            "it has a tensor of {} axes, and a tensor may have {MOST_AXES}",
            items.len()
        ));
    }
    let number = |id: &Id| match values[*id as usize] {
        Value::Integer(number) => N::try_from(number).map_err(|_| NEGATIVE.to_owned()),
        _ => Err("it has a tensor whose sizes or strides are no integers".to_owned()),
    };
    items.iter().map(number).collect()
}
