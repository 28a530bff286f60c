//! The operations of chains.

/// An operation on the current value `x` of a chain and on the operands `a` and `b`. All are f32,
/// except where the operation says otherwise. An 8-bit integer is a 32-bit one of the same value
/// while it is `x`: reading it extends it, and storing it takes its last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// `x`
    Nothing,
    /// `a`
    Take,
    /// `x + a`
    Add,
    /// `x - a`
    Sub,
    /// `a - x`
    SubFrom,
    /// `x * a`
    Mul,
    /// `x / a`
    Div,
    /// `a / x`
    DivInto,
    /// `x < a ? a : x`
    Max,
    /// `a < x ? x : a`
    MaxOf,
    /// `a < x ? a : x`
    Min,
    /// `x < a ? x : a`
    MinOf,
    /// `x * a + b`
    MulAdd,
    /// `x * a - b`
    MulSub,
    /// `b - x * a`
    MulSubFrom,
    /// `a * b + x`
    AddMul,
    /// `x * x`
    Square,
    /// `-x`
    Neg,
    /// `|x|`
    Abs,
    /// The square root.
    Sqrt,
    /// `1 / x`
    Recip,
    /// Rounds to the nearest integer, halves to the even one.
    Rint,
    /// `1 / sqrt(x)`
    Rsqrt,
    /// `exp(x)`
    Exp,
    /// `exp(x - a)`
    ExpSub,
    /// `tanh(x)`
    Tanh,
    /// The error function.
    Erf,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// `x op a`, on 32-bit integers.
    Word(WordOp),
    /// The floats nearest to signed 32-bit integers.
    FromSigned,
    /// The floats nearest to unsigned 32-bit integers.
    FromUnsigned,
    /// The signed integers next to floats towards zero. They saturate, and a NaN gives 0: so do the
    /// next two.
    ToSigned,
    /// The same, for i8.
    ToSignedByte,
    /// The same, for u8.
    ToUnsignedByte,
    /// The float nearest to the signed integer `x + a`, times `b`.
    ScaleSum,
    /// The float nearest to the signed integer `x - a`, times `b`.
    ScaleDifference,
    /// The float nearest to the signed integer `x`, times `a`, plus `b`.
    ScaleAdd,
    /// The i8 next to `rint(x) + a`, where `a` is a constant, an integer in the range of i8. A NaN
    /// gives 0.
    NearSignedByte,
    /// The same, for u8.
    NearUnsignedByte,
    /// The last byte of integers, as i8.
    SignedByte,
    /// The last byte of integers, as u8.
    UnsignedByte,
}

/// A relation of the current value `x` of a chain to an operand `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `x == a`
    Equal,
    /// `x != a`
    NotEqual,
    /// `x < a`
    Less,
    /// `x <= a`
    LessOrEqual,
    /// `x > a`
    Greater,
    /// `x >= a`
    GreaterOrEqual,
}

/// An operation on 32-bit integers, which wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordOp {
    /// `x + a`
    Add,
    /// `x - a`
    Sub,
    /// `x * a`
    Mul,
    /// `x & a`
    And,
    /// `x | a`
    Or,
    /// `x ^ a`
    Xor,
    /// Gives 0 for counts of 32 and more.
    ShiftLeft,
    /// Shifts unsigned integers. Gives 0 for counts of 32 and more.
    ShiftRight,
    /// Shifts signed integers. Gives 0 or -1 for counts of 32 and more.
    ShiftRightSigned,
    /// Takes counts below 32.
    RotateLeft,
    /// The greater of two signed integers.
    Max,
    /// The lesser of two signed integers.
    Min,
}

impl Code {
    /// The operations other than words: each with its name in text forms and the number of its
    /// operands.
    const NAMED: [(Code, &'static str, usize); 40] = [
        (Code::Nothing, "nothing", 0),
        (Code::Take, "take", 1),
        (Code::Add, "add", 1),
        (Code::Sub, "sub", 1),
        (Code::SubFrom, "sub_from", 1),
        (Code::Mul, "mul", 1),
        (Code::Div, "div", 1),
        (Code::DivInto, "div_into", 1),
        (Code::Max, "max", 1),
        (Code::MaxOf, "max_of", 1),
        (Code::Min, "min", 1),
        (Code::MinOf, "min_of", 1),
        (Code::MulAdd, "mul_add", 2),
        (Code::MulSub, "mul_sub", 2),
        (Code::MulSubFrom, "mul_sub_from", 2),
        (Code::AddMul, "add_mul", 2),
        (Code::Square, "square", 0),
        (Code::Neg, "neg", 0),
        (Code::Abs, "abs", 0),
        (Code::Sqrt, "sqrt", 0),
        (Code::Recip, "recip", 0),
        (Code::Rint, "rint", 0),
        (Code::Rsqrt, "rsqrt", 0),
        (Code::Exp, "exp", 0),
        (Code::ExpSub, "exp_sub", 1),
        (Code::Tanh, "tanh", 0),
        (Code::Erf, "erf", 0),
        (Code::Sigmoid, "sigmoid", 0),
        (Code::FromSigned, "from_signed", 0),
        (Code::FromUnsigned, "from_unsigned", 0),
        (Code::ToSigned, "to_signed", 0),
        (Code::ToSignedByte, "to_signed_byte", 0),
        (Code::ToUnsignedByte, "to_unsigned_byte", 0),
        (Code::ScaleSum, "scale_sum", 2),
        (Code::ScaleDifference, "scale_difference", 2),
        (Code::ScaleAdd, "scale_add", 2),
        (Code::NearSignedByte, "near_signed_byte", 1),
        (Code::NearUnsignedByte, "near_unsigned_byte", 1),
        (Code::SignedByte, "signed_byte", 0),
        (Code::UnsignedByte, "unsigned_byte", 0),
    ];

    /// Returns the number of its operands.
    pub fn operands(self) -> usize {
        Self::NAMED.iter().find(|(code, ..)| *code == self).map_or(1, |(.., count)| *count)
    }

    /// Returns the name in text forms.
    pub fn name(self) -> &'static str {
        match self {
            Code::Word(op) => op.name(),
            code => Self::NAMED
                .iter()
                .find(|(other, ..)| *other == code)
                .map_or("", |(_, name, _)| name),
        }
    }

    /// Returns the operation of this name.
    pub fn parse(name: &str) -> Option<Code> {
        let found = Self::NAMED.iter().find(|(_, other, _)| *other == name).map(|(code, ..)| *code);
        found.or_else(|| WordOp::ALL.into_iter().find(|op| op.name() == name).map(Code::Word))
    }
}

impl Relation {
    /// All relations.
    pub const ALL: [Relation; 6] = [
        Relation::Equal,
        Relation::NotEqual,
        Relation::Less,
        Relation::LessOrEqual,
        Relation::Greater,
        Relation::GreaterOrEqual,
    ];

    /// Returns the name in text forms.
    pub fn name(self) -> &'static str {
        match self {
            Relation::Equal => "equal",
            Relation::NotEqual => "not_equal",
            Relation::Less => "less",
            Relation::LessOrEqual => "less_or_equal",
            Relation::Greater => "greater",
            Relation::GreaterOrEqual => "greater_or_equal",
        }
    }
}

impl WordOp {
    /// All operations.
    pub const ALL: [WordOp; 12] = [
        WordOp::Add,
        WordOp::Sub,
        WordOp::Mul,
        WordOp::And,
        WordOp::Or,
        WordOp::Xor,
        WordOp::ShiftLeft,
        WordOp::ShiftRight,
        WordOp::ShiftRightSigned,
        WordOp::RotateLeft,
        WordOp::Max,
        WordOp::Min,
    ];

    /// Returns the name in text forms.
    pub fn name(self) -> &'static str {
        match self {
            WordOp::Add => "word_add",
            WordOp::Sub => "word_sub",
            WordOp::Mul => "word_mul",
            WordOp::And => "word_and",
            WordOp::Or => "word_or",
            WordOp::Xor => "word_xor",
            WordOp::ShiftLeft => "word_shift_left",
            WordOp::ShiftRight => "word_shift_right",
            WordOp::ShiftRightSigned => "word_shift_right_signed",
            WordOp::RotateLeft => "word_rotate_left",
            WordOp::Max => "word_max",
            WordOp::Min => "word_min",
        }
    }

    /// Applies the operation to two words.
    #[inline(always)]
    pub fn apply(self, a: u32, b: u32) -> u32 {
        match self {
            WordOp::Add => a.wrapping_add(b),
            WordOp::Sub => a.wrapping_sub(b),
            WordOp::Mul => a.wrapping_mul(b),
            WordOp::And => a & b,
            WordOp::Or => a | b,
            WordOp::Xor => a ^ b,
            WordOp::ShiftLeft => a.checked_shl(b).unwrap_or(0),
            WordOp::ShiftRight => a.checked_shr(b).unwrap_or(0),
            WordOp::ShiftRightSigned => ((a as i32) >> b.min(31)) as u32,
            WordOp::RotateLeft => a.rotate_left(b),
            WordOp::Max => (a as i32).max(b as i32) as u32,
            WordOp::Min => (a as i32).min(b as i32) as u32,
        }
    }
}
