//! Scalar programs: straight-line code over the elements at one point of an index space.
//!
//! One instruction set serves the graph and the nests, so that every back end, the reference
//! interpreter and the optimiser share one definition of each operation:
//!
//! - bodies of contractions in the graph, whose leaves are [`crate::graph::Access`]es by number;
//! - bodies and epilogues of nests, whose leaves are [`crate::nest::Load`]s.
//!
//! Invariants of a [`Program`], which [`Program::verify`] checks:
//!
//! - an instruction only reads earlier instructions;
//! - the operands of an instruction have equal types where its definition requires it, so casts are
//!   explicit;
//! - `results` are instruction numbers.

mod evaluate;
mod verify;

pub use evaluate::sigmoid;
pub use verify::select_result;

use std::fmt;

use crate::dense::{Dense, id};
use crate::dtype::{DType, Scalar};

/// Defines a type of operations, each with its name in text forms and in the language.
macro_rules! operations {
    (
        $(#[$attribute:meta])*
        $type:ident { $( $(#[$doc:meta])* $op:ident = $name:literal, )* }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
        pub enum $type {
            $( $(#[$doc])* $op, )*
        }

        impl $type {
            /// All operations.
            pub const ALL: [$type; [$($name),*].len()] = [$($type::$op),*];

            /// Returns the name in text forms and in the language.
            pub fn name(self) -> &'static str {
                match self {
                    $( $type::$op => $name, )*
                }
            }

            /// Returns the operation of a name in text forms.
            pub fn parse(name: &str) -> Option<$type> {
                $type::ALL.into_iter().find(|op| op.name() == name)
            }
        }
    };
}

operations! {
    /// An operation on one value. The result has the operand's type unless said otherwise.
    ///
    /// Transcendental operations on an integer or bool compute in floating point and convert back
    /// like [`Scalar::cast`], as in PlaidML: an integer truncates and saturates, a bool is `!= 0`.
    /// Rounding leaves an integer unchanged.
    UnaryOp {
        /// `-x`. Integers wrap; a bool stays `x`.
        Neg = "neg",
        /// Bitwise complement of an integer, logical negation of a bool. Floats are not allowed.
        BitNot = "bit_not",
        /// The absolute value. The least integer stays the same.
        Abs = "abs",
        /// The arc cosine.
        Acos = "acos",
        /// The inverse hyperbolic cosine.
        Acosh = "acosh",
        /// The arc sine.
        Asin = "asin",
        /// The inverse hyperbolic sine.
        Asinh = "asinh",
        /// The arc tangent.
        Atan = "atan",
        /// The inverse hyperbolic tangent.
        Atanh = "atanh",
        /// Rounds up.
        Ceil = "ceil",
        /// The cosine.
        Cos = "cos",
        /// The hyperbolic cosine.
        Cosh = "cosh",
        /// The error function.
        Erf = "erf",
        /// The exponential.
        Exp = "exp",
        /// Rounds down.
        Floor = "floor",
        /// The natural logarithm.
        Log = "log",
        /// The natural logarithm of `1 + x`, accurate also where that sum would round `x` away.
        Log1p = "log1p",
        /// `1 / x`, also on integers: see [`BinaryOp::Div`].
        Recip = "recip",
        /// Rounds to the nearest integer, halves to the even one.
        Rint = "rint",
        /// Rounds to the nearest integer, halves away from zero.
        Round = "round",
        /// `1 / sqrt(x)`
        Rsqrt = "rsqrt",
        /// The logistic function, `1 / (1 + exp(-x))`, without an exponential that overflows.
        Sigmoid = "sigmoid",
        /// The sine.
        Sin = "sin",
        /// The hyperbolic sine.
        Sinh = "sinh",
        /// The square root.
        Sqrt = "sqrt",
        /// The tangent.
        Tan = "tan",
        /// The hyperbolic tangent.
        Tanh = "tanh",
    }
}

impl UnaryOp {
    /// Returns whether the operation costs more than a few instructions, so that computing it once
    /// instead of twice pays.
    pub fn is_expensive(self) -> bool {
        use UnaryOp::*;
        !matches!(self, Neg | BitNot | Abs | Ceil | Floor | Rint | Round | Recip | Sqrt | Rsqrt)
    }
}

operations! {
    /// An operation on two values of one type. The result has that type, except that comparisons
    /// give bool. A bool is an unsigned integer of one bit unless said otherwise.
    BinaryOp {
        /// Sum. Integers wrap; on bool: or.
        Add = "add",
        /// Difference. Integers wrap; on bool: exclusive or.
        Sub = "sub",
        /// Product. Integers wrap; on bool: and.
        Mul = "mul",
        /// Quotient. Integers truncate towards zero. An integer divided by 0 is 0 (NumPy's value),
        /// and the least integer divided by -1 wraps.
        Div = "div",
        /// `a < b ? b : a`
        Max = "max",
        /// `b < a ? b : a`
        Min = "min",
        /// Power. An integer with `b < 0` gives 0, otherwise the wrapped product.
        Pow = "pow",
        /// The exact remainder `a - trunc(a / b) * b`, with the sign of `a`, like C's `fmod`. An
        /// integer remainder by 0 is 0.
        Rem = "fmod",
        /// `a == b`
        Eq = "cmp_eq",
        /// `a != b`
        Ne = "cmp_ne",
        /// `a < b`
        Lt = "cmp_lt",
        /// `a <= b`
        Le = "cmp_le",
        /// `a > b`
        Gt = "cmp_gt",
        /// `a >= b`
        Ge = "cmp_ge",
        /// Bitwise on integers, logical on bool. Floats are not allowed.
        BitAnd = "bit_and",
        /// Bitwise on integers, logical on bool. Floats are not allowed.
        BitOr = "bit_or",
        /// Bitwise on integers, logical on bool. Floats are not allowed.
        BitXor = "bit_xor",
        /// Left shift. A count that is negative or at least the width gives 0 (NumPy's value).
        ShiftLeft = "bit_left",
        /// Right shift, arithmetic on signed integers. A count that is negative or at least the
        /// width gives 0, or -1 if `a` is negative.
        ShiftRight = "bit_right",
    }
}

impl BinaryOp {
    /// Returns whether the operation costs more than a few instructions, so that computing it once
    /// instead of twice pays.
    pub fn is_expensive(self) -> bool {
        matches!(self, BinaryOp::Pow | BinaryOp::Rem)
    }

    /// Returns whether the operation is a comparison.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }

    /// Returns whether `op(a, b)` and `op(b, a)` have the same bits, except for NaN payloads.
    pub fn is_commutative(self) -> bool {
        use BinaryOp::*;
        matches!(self, Add | Mul | Eq | Ne | BitAnd | BitOr | BitXor)
    }
}

id! {
    /// A value's number: the position in [`Program::insts`] of the instruction that computes it.
    #[derive(Default)]
    Value
}

/// One instruction. `L` is the type of leaves: see the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub enum Inst<L> {
    /// A constant.
    Const(Scalar),
    /// A leaf, such as a load.
    Leaf(L),
    /// A unary operation.
    Unary(UnaryOp, Value),
    /// A binary operation.
    Binary(BinaryOp, Value, Value),
    /// `condition ? then : otherwise`. The condition is a bool, and the other two have the same
    /// type.
    Select(Value, Value, Value),
    /// Converts to the instruction's own type, like [`Scalar::cast`].
    Cast(Value),
}

impl<L> Inst<L> {
    /// Returns the values that the instruction reads.
    pub fn operands(&self) -> Vec<Value> {
        match *self {
            Inst::Const(_) | Inst::Leaf(_) => vec![],
            Inst::Unary(_, a) | Inst::Cast(a) => vec![a],
            Inst::Binary(_, a, b) => vec![a, b],
            Inst::Select(c, a, b) => vec![c, a, b],
        }
    }

    /// Returns the instruction with its operands mapped by `now`. A leaf stays the same.
    pub fn renumbered(&self, now: impl Fn(Value) -> Value) -> Inst<L>
    where
        L: Clone,
    {
        match self {
            Inst::Const(_) | Inst::Leaf(_) => self.clone(),
            Inst::Unary(op, a) => Inst::Unary(*op, now(*a)),
            Inst::Binary(op, a, b) => Inst::Binary(*op, now(*a), now(*b)),
            Inst::Select(c, a, b) => Inst::Select(now(*c), now(*a), now(*b)),
            Inst::Cast(a) => Inst::Cast(now(*a)),
        }
    }
}

/// A sequence of instructions, each with the type of its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Program<L> {
    /// The instructions. Each reads only the values of earlier ones.
    pub insts: Dense<Value, (Inst<L>, DType)>,
    /// The values that the program yields.
    pub results: Vec<Value>,
}

impl<L: Clone + PartialEq> Default for Program<L> {
    fn default() -> Self {
        Program { insts: Dense::default(), results: Vec::new() }
    }
}

impl<L: Clone + PartialEq> Program<L> {
    /// Returns the value of `inst`: an equal instruction if there is one, else a new one at the
    /// end.
    pub fn push(&mut self, inst: Inst<L>, dtype: DType) -> Value {
        match self.insts.position(|(i, d)| *i == inst && *d == dtype) {
            Some(value) => value,
            None => self.insts.push((inst, dtype)),
        }
    }

    /// Returns the type of a value.
    pub fn dtype(&self, value: Value) -> DType {
        self.insts[value].1
    }

    /// Adds a constant.
    pub fn constant(&mut self, scalar: Scalar) -> Value {
        self.push(Inst::Const(scalar), scalar.dtype)
    }

    /// Adds a unary operation. The result has the operand's type.
    pub fn unary(&mut self, op: UnaryOp, a: Value) -> Value {
        self.push(Inst::Unary(op, a), self.dtype(a))
    }

    /// Adds a binary operation. The result has the operands' type, or is a bool for a comparison.
    pub fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let dtype = if op.is_comparison() { DType::Bool } else { self.dtype(a) };
        self.push(Inst::Binary(op, a, b), dtype)
    }

    /// Adds `condition ? then : otherwise`.
    pub fn select(&mut self, condition: Value, then: Value, otherwise: Value) -> Value {
        self.push(Inst::Select(condition, then, otherwise), self.dtype(then))
    }

    /// Casts `a` to `dtype`. Returns `a` itself if it has that type.
    pub fn cast(&mut self, a: Value, dtype: DType) -> Value {
        if self.dtype(a) == dtype { a } else { self.push(Inst::Cast(a), dtype) }
    }

    /// Returns the leaves in instruction order.
    pub fn leaves(&self) -> impl Iterator<Item = &L> {
        self.insts.iter().filter_map(|(inst, _)| match inst {
            Inst::Leaf(leaf) => Some(leaf),
            _ => None,
        })
    }

    /// Appends `other`, with each leaf replaced by the result of `leaf`, and returns the results of
    /// `other` as values of this program.
    pub fn append<M: Clone + PartialEq>(
        &mut self,
        other: &Program<M>,
        mut leaf: impl FnMut(&mut Self, &M, DType) -> Value,
    ) -> Vec<Value> {
        let mut here: Dense<Value, Value> = Dense::with_capacity(other.insts.len());
        for (inst, dtype) in &other.insts {
            let value = match inst {
                Inst::Leaf(l) => leaf(self, l, *dtype),
                Inst::Const(s) => self.constant(*s),
                Inst::Unary(op, a) => self.push(Inst::Unary(*op, here[*a]), *dtype),
                Inst::Binary(op, a, b) => self.push(Inst::Binary(*op, here[*a], here[*b]), *dtype),
                Inst::Select(c, a, b) => {
                    self.push(Inst::Select(here[*c], here[*a], here[*b]), *dtype)
                }
                Inst::Cast(a) => self.push(Inst::Cast(here[*a]), *dtype),
            };
            here.push(value);
        }
        other.results.iter().map(|&r| here[r]).collect()
    }
}

/// Prints one instruction a line, such as `v2 = mul v0 v1 : f32`, then `return v2`.
impl<L: fmt::Display> fmt::Display for Program<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (value, (inst, dtype)) in self.insts.enumerate() {
            write!(f, "v{value} = ")?;
            match inst {
                Inst::Const(s) => write!(f, "{s}")?,
                Inst::Leaf(l) => write!(f, "{l}")?,
                Inst::Unary(op, a) => write!(f, "{} v{a}", op.name())?,
                Inst::Binary(op, a, b) => write!(f, "{} v{a} v{b}", op.name())?,
                Inst::Select(c, a, b) => write!(f, "select v{c} v{a} v{b}")?,
                Inst::Cast(a) => write!(f, "cast v{a}")?,
            }
            writeln!(f, " : {dtype}")?;
        }
        let results = self.results.iter().map(|r| format!("v{r}")).collect::<Vec<_>>().join(" ");
        writeln!(f, "return {results}")
    }
}

#[cfg(test)]
mod tests {
    use tile_lang::builtin::{builtin, builtin_names};
    use tile_lang::library_names;

    use super::*;

    /// The language has a function for each operation. A library function of the same name would
    /// hide it.
    #[test]
    fn operations_are_functions_of_the_language() {
        let unary = UnaryOp::ALL.into_iter().map(|op| (op.name(), 1));
        let operations = unary.chain(BinaryOp::ALL.into_iter().map(|op| (op.name(), 2)));
        for (name, operands) in operations {
            let found = builtin(name).unwrap_or_else(|| panic!("the language has no `{name}`"));
            assert!(found.is_elementwise() && found.arity == (operands, operands), "{found:?}");
        }
        let hidden: Vec<&str> =
            builtin_names().filter(|name| library_names().any(|other| other == *name)).collect();
        assert!(hidden.is_empty(), "the library hides {hidden:?}");
    }
}
