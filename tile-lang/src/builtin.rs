//! The functions that are part of the language. Those that Tile can define itself are in `std/core.tile` instead.

/// What a function makes of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinKind {
    /// A value at each place from the values at that place; legal inside a contraction.
    Elementwise,
    /// The same, and legal in a size.
    ElementwiseOrSize,
    /// A size from sizes.
    Size,
    /// A tensor or a tuple from whole tensors.
    Tensor,
    /// Something known at compile time, from anything.
    CompileTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    pub name: &'static str,
    pub kind: BuiltinKind,
    /// The least and the largest number of arguments.
    pub arity: (usize, usize),
}

impl Builtin {
    pub fn is_elementwise(&self) -> bool {
        matches!(self.kind, BuiltinKind::Elementwise | BuiltinKind::ElementwiseOrSize)
    }

    pub fn is_size(&self) -> bool {
        matches!(self.kind, BuiltinKind::Size | BuiltinKind::ElementwiseOrSize)
    }

    pub fn is_compile_time(&self) -> bool {
        self.kind == BuiltinKind::CompileTime
    }
}

const MANY: usize = usize::MAX;

const ELEMENTWISE: BuiltinKind = BuiltinKind::Elementwise;
const BOTH: BuiltinKind = BuiltinKind::ElementwiseOrSize;
const SIZE: BuiltinKind = BuiltinKind::Size;
const TENSOR: BuiltinKind = BuiltinKind::Tensor;
const COMPILE_TIME: BuiltinKind = BuiltinKind::CompileTime;

/// All of them but `assert_NAME`, by kind, number of arguments and name.
const GROUPS: &[(BuiltinKind, (usize, usize), &[&str])] = &[
    (
        ELEMENTWISE,
        (1, 1),
        &[
            "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "ident", "log",
            "neg", "recip", "round", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "bit_not", "as_bool",
        ],
    ),
    (
        ELEMENTWISE,
        (2, 2),
        &[
            "pow",
            "add",
            "sub",
            "mul",
            "div",
            "cmp_eq",
            "cmp_ne",
            "cmp_lt",
            "cmp_gt",
            "cmp_le",
            "cmp_ge",
            "bit_and",
            "bit_or",
            "bit_xor",
            "bit_left",
            "bit_right",
            "as_int",
            "as_uint",
            "as_float",
            "as_type",
        ],
    ),
    (ELEMENTWISE, (3, 3), &["cond"]),
    (BOTH, (1, 1), &["ceil", "floor"]),
    (BOTH, (2, 2), &["max", "min"]),
    (SIZE, (2, 2), &["mod", "broadcast", "match"]),
    (TENSOR, (1, 1), &["shape", "vector", "stop_gradient", "prng_state", "prng_value"]),
    (TENSOR, (0, 0), &["random_seed", "random_stream", "training_step", "rate_factor"]),
    (TENSOR, (2, 2), &["index", "gather", "transpose", "element", "fill", "grad", "with_loss"]),
    (COMPILE_TIME, (1, 1), &["dims", "rank", "is_list", "is_callable", "len", "letters", "product", "clone", "error"]),
    (COMPILE_TIME, (1, 2), &["range"]),
    (COMPILE_TIME, (1, 2), &["list"]),
    (COMPILE_TIME, (2, 2), &["repeat"]),
    (COMPILE_TIME, (2, 3), &["slice"]),
    (COMPILE_TIME, (3, 3), &["with_weight"]),
    (TENSOR, (3, 3), &["scatter", "reduce"]),
    (TENSOR, (1, MANY), &["einsum", "reshape", "tuple", "simple_reduce", "prng_step"]),
];

const ASSERT: &str = "assert_";

/// The built-in function of a name. `assert_NAME` has one argument, for any NAME; its name here is `assert_`.
pub fn builtin(name: &str) -> Option<Builtin> {
    if name.len() > ASSERT.len() && name.starts_with(ASSERT) {
        return Some(Builtin { name: ASSERT, kind: SIZE, arity: (1, 1) });
    }
    GROUPS.iter().find_map(|(kind, arity, names)| {
        let name = names.iter().find(|candidate| **candidate == name)?;
        Some(Builtin { name, kind: *kind, arity: *arity })
    })
}

/// The names of all built-in functions, without `assert_NAME`.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, _, names)| names.iter().copied())
}
