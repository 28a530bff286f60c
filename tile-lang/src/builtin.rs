//! The built-in functions of the language. Functions that can be written in Tile are in
//! `std/core.tile` instead.

/// The kind of a built-in function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinKind {
    /// An elementwise function. It is allowed inside a contraction.
    Elementwise,
    /// An elementwise function that is also allowed in a size.
    ElementwiseOrSize,
    /// A function from sizes to a size.
    Size,
    /// A function from whole tensors to a tensor or a tuple.
    Tensor,
    /// A function whose result is known at compile time. Its arguments may be anything.
    CompileTime,
}

/// A function that the compiler implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// The name in the language.
    pub name: &'static str,
    /// The kind, which decides the arguments.
    pub kind: BuiltinKind,
    /// The minimum and maximum number of arguments.
    pub arity: (usize, usize),
}

impl Builtin {
    /// Returns whether it is computed element by element.
    pub fn is_elementwise(&self) -> bool {
        matches!(self.kind, BuiltinKind::Elementwise | BuiltinKind::ElementwiseOrSize)
    }

    /// Returns whether it is a size of its argument.
    pub fn is_size(&self) -> bool {
        matches!(self.kind, BuiltinKind::Size | BuiltinKind::ElementwiseOrSize)
    }

    /// Returns whether it is evaluated at compile time.
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

/// All built-in functions except `assert_NAME`, by kind, number of arguments and name.
const GROUPS: &[(BuiltinKind, (usize, usize), &[&str])] = &[
    (
        ELEMENTWISE,
        (1, 1),
        &[
            "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log",
            "log1p", "recip", "rint", "round", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan",
            "tanh", "as_bool",
        ],
    ),
    (
        ELEMENTWISE,
        (2, 2),
        &["pow", "fmod", "as_int", "as_uint", "as_float", "as_bfloat", "as_type"],
    ),
    (BOTH, (1, 1), &["abs", "bit_not", "ceil", "floor", "ident", "neg"]),
    (
        BOTH,
        (2, 2),
        &[
            "add",
            "sub",
            "mul",
            "div",
            "max",
            "min",
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
        ],
    ),
    (BOTH, (3, 3), &["cond"]),
    (SIZE, (2, 2), &["mod", "broadcast", "match"]),
    (
        TENSOR,
        (1, 1),
        &["shape", "vector", "mask_of", "stop_gradient", "trained_as", "prng_state", "prng_value"],
    ),
    (
        TENSOR,
        (0, 0),
        &[
            "random_seed",
            "random_stream",
            "training_step",
            "rate_factor",
            "sample_weight",
            "weight_path",
            "gradient_norm",
        ],
    ),
    (
        TENSOR,
        (2, 2),
        &[
            "index",
            "gather",
            "transpose",
            "element",
            "fill",
            "grad",
            "with_loss",
            "with_mask",
            "matches",
        ],
    ),
    (
        COMPILE_TIME,
        (1, 1),
        &[
            "dims",
            "rank",
            "type_of",
            "is_list",
            "is_callable",
            "has_states",
            "len",
            "letters",
            "product",
            "clone",
            "error",
        ],
    ),
    (COMPILE_TIME, (1, 2), &["range"]),
    (COMPILE_TIME, (1, 2), &["list"]),
    (COMPILE_TIME, (2, 2), &["repeat"]),
    (COMPILE_TIME, (2, 3), &["slice"]),
    (COMPILE_TIME, (3, 3), &["with_weight", "parametrized"]),
    (TENSOR, (3, 3), &["scatter", "reduce"]),
    (TENSOR, (4, 4), &["with_range"]),
    (TENSOR, (3, 3), &["with_bounds"]),
    (TENSOR, (1, MANY), &["einsum", "reshape", "tuple", "simple_reduce", "prng_step"]),
];

const ASSERT: &str = "assert_";

/// Returns the built-in function called `name`. `assert_NAME` takes one argument for any NAME. Its
/// `name` field is `assert_`.
pub fn builtin(name: &str) -> Option<Builtin> {
    if name.len() > ASSERT.len() && name.starts_with(ASSERT) {
        return Some(Builtin { name: ASSERT, kind: SIZE, arity: (1, 1) });
    }
    GROUPS.iter().find_map(|(kind, arity, names)| {
        let name = names.iter().find(|candidate| **candidate == name)?;
        Some(Builtin { name, kind: *kind, arity: *arity })
    })
}

/// Returns the names of all built-in functions except `assert_NAME`.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, _, names)| names.iter().copied())
}
