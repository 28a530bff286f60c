//! Values of expressions, for all invocations (lanes) of a workgroup at once.
//!
//! Always true: a scalar is one 64-bit word, with its bits in the low end and the rest zero (a
//! boolean is 0 or 1). A value of any type is its leaf scalars in order of offset, each a run of
//! one word for each lane. Only the words of lanes that were active when the value was made are
//! meaningful.

use half::f16;
use naga::{Literal, Scalar, ScalarKind};

/// The lanes that execute a statement, ascending.
pub(super) type Lanes = Vec<usize>;

#[derive(Clone, Debug)]
pub(super) enum Value {
    Data(Column),
    Pointer(Pointer),
}

/// A place in a variable. All lanes point into the same variable: WGSL has no pointers in memory.
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    /// The variable, by its index in the machine's memories.
    pub memory: usize,
    /// For each lane, the offset in bytes from the start of the variable.
    pub offsets: Vec<usize>,
}

/// The data of one type for all lanes, component by component.
#[derive(Clone, Debug)]
pub(super) struct Column {
    lanes: usize,
    words: Vec<u64>,
}

impl Column {
    pub fn zero(lanes: usize, components: usize) -> Self {
        Self { lanes, words: vec![0; lanes * components] }
    }

    /// Creates a column with the same components in each lane.
    pub fn splat(lanes: usize, components: &[u64]) -> Self {
        let words = components.iter().flat_map(|&word| std::iter::repeat_n(word, lanes)).collect();
        Self { lanes, words }
    }

    /// Concatenates the components of several columns.
    pub fn concatenate<'a>(lanes: usize, parts: impl Iterator<Item = &'a Column>) -> Self {
        let words = parts.flat_map(|part| part.words.iter().copied()).collect();
        Self { lanes, words }
    }

    /// Applies `f` to the operands' corresponding components. An operand with one component is
    /// broadcast.
    pub fn map<const N: usize>(
        active: &[usize],
        operands: [&Column; N],
        f: impl Fn([u64; N]) -> u64,
    ) -> Self {
        let lanes = operands.first().map_or(0, |operand| operand.lanes);
        let components = operands.iter().map(|operand| operand.components()).max().unwrap_or(0);
        let mut result = Self::zero(lanes, components);
        for index in 0..components {
            let words =
                operands.map(|operand| operand.component(index.min(operand.components() - 1)));
            let target = result.component_mut(index);
            for &lane in active {
                target[lane] = f(words.map(|words| words[lane]));
            }
        }
        result
    }

    pub fn components(&self) -> usize {
        self.words.len() / self.lanes.max(1)
    }

    /// Returns the words of a component, by lane.
    pub fn component(&self, index: usize) -> &[u64] {
        &self.words[index * self.lanes..][..self.lanes]
    }

    pub fn component_mut(&mut self, index: usize) -> &mut [u64] {
        &mut self.words[index * self.lanes..][..self.lanes]
    }

    /// Returns `count` components from `first` on.
    pub fn slice(&self, first: usize, count: usize) -> Self {
        let words = self.words[first * self.lanes..][..count * self.lanes].to_vec();
        Self { lanes: self.lanes, words }
    }

    /// Copies the words of the lanes `active` from `other`.
    pub fn merge(&mut self, other: &Column, active: &[usize]) {
        for index in 0..self.components() {
            let source = other.component(index);
            let target = self.component_mut(index);
            for &lane in active {
                target[lane] = source[lane];
            }
        }
    }
}

/// A type that a word can hold.
pub(super) trait Word: Copy {
    fn of(word: u64) -> Self;
    fn word(self) -> u64;
}

macro_rules! integer_words {
    ($($type:ty as $unsigned:ty),*) => {$(
        impl Word for $type {
            fn of(word: u64) -> Self {
                word as $type
            }
            fn word(self) -> u64 {
                u64::from(self as $unsigned)
            }
        }
    )*};
}
integer_words!(i16 as u16, u16 as u16, i32 as u32, u32 as u32, i64 as u64, u64 as u64);

macro_rules! float_words {
    ($($type:ty as $bits:ty),*) => {$(
        impl Word for $type {
            fn of(word: u64) -> Self {
                Self::from_bits(word as $bits)
            }
            fn word(self) -> u64 {
                u64::from(self.to_bits())
            }
        }
    )*};
}
float_words!(f16 as u16, f32 as u32, f64 as u64);

impl Word for bool {
    fn of(word: u64) -> Self {
        word != 0
    }
    fn word(self) -> u64 {
        u64::from(self)
    }
}

/// Returns the word of a literal.
pub(super) fn literal(literal: Literal) -> u64 {
    match literal {
        Literal::F64(value) | Literal::AbstractFloat(value) => value.word(),
        Literal::F32(value) => value.word(),
        Literal::F16(value) => value.word(),
        Literal::U16(value) => value.word(),
        Literal::I16(value) => value.word(),
        Literal::U32(value) => value.word(),
        Literal::I32(value) => value.word(),
        Literal::U64(value) => value.word(),
        Literal::I64(value) | Literal::AbstractInt(value) => value.word(),
        Literal::Bool(value) => value.word(),
    }
}

/// The value of a scalar of any type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    /// An integer, or a boolean as 0 or 1.
    Integer(i128),
    Float(f64),
}

impl Number {
    pub fn of(word: u64, scalar: Scalar) -> Self {
        match (scalar.kind, scalar.width) {
            (ScalarKind::Float, 2) => Self::Float(f16::of(word).to_f64()),
            (ScalarKind::Float, 4) => Self::Float(f64::from(f32::of(word))),
            (ScalarKind::Float | ScalarKind::AbstractFloat, _) => Self::Float(f64::of(word)),
            (ScalarKind::Sint, 2) => Self::Integer(i128::from(i16::of(word))),
            (ScalarKind::Sint, 4) => Self::Integer(i128::from(i32::of(word))),
            (ScalarKind::Sint | ScalarKind::AbstractInt, _) => {
                Self::Integer(i128::from(i64::of(word)))
            }
            (ScalarKind::Uint | ScalarKind::Bool, _) => Self::Integer(i128::from(word)),
        }
    }

    /// Converts as WGSL does. To an integer: floats round towards zero and saturate, integers wrap.
    /// To a float: rounds to nearest, ties to even. To a boolean: tests for not zero.
    pub fn word(self, scalar: Scalar) -> u64 {
        match (scalar.kind, self) {
            (ScalarKind::Bool, Self::Integer(value)) => (value != 0).word(),
            (ScalarKind::Bool, Self::Float(value)) => (value != 0.0).word(),
            (ScalarKind::Float | ScalarKind::AbstractFloat, number) => match (scalar.width, number)
            {
                (2, Self::Integer(value)) => f16::from_f64(value as f64).word(),
                (2, Self::Float(value)) => f16::from_f64(value).word(),
                (4, Self::Integer(value)) => (value as f32).word(),
                (4, Self::Float(value)) => (value as f32).word(),
                (_, Self::Integer(value)) => (value as f64).word(),
                (_, Self::Float(value)) => value.word(),
            },
            (kind, number) => {
                let bits = u32::from(scalar.width) * 8;
                let (low, high) = match kind {
                    ScalarKind::Uint => (0, (1 << bits) - 1),
                    _ => (-1 << (bits - 1), (1 << (bits - 1)) - 1),
                };
                let value: i128 = match number {
                    Self::Integer(value) => value,
                    Self::Float(value) => (value as i128).clamp(low, high),
                };
                value as u64 & (u64::MAX >> (64 - bits))
            }
        }
    }
}
