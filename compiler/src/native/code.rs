//! The operations of chains.

/// An operation on the current value `x` of a chain and on the operands `a` and `b`. All are f32,
/// except where the operation says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Nothing,
    /// `a`
    Take,
    Add,
    Sub,
    /// `a - x`
    SubFrom,
    Mul,
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
    Square,
    Neg,
    Abs,
    Sqrt,
    Recip,
    Rsqrt,
    Exp,
    /// `exp(x - a)`
    ExpSub,
    Tanh,
    Erf,
    /// `x op a`, on 32-bit integers.
    Word(WordOp),
    /// The floats nearest to signed or unsigned 32-bit integers.
    FromSigned,
    FromUnsigned,
}

/// A relation of the current value `x` of a chain to an operand `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// An operation on 32-bit integers, which wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordOp {
    Add,
    Sub,
    Mul,
    And,
    Or,
    Xor,
    /// Gives 0 for counts of 32 and more.
    ShiftLeft,
    /// Shifts unsigned integers. Gives 0 for counts of 32 and more.
    ShiftRight,
    /// Shifts signed integers. Gives 0 or -1 for counts of 32 and more.
    ShiftRightSigned,
    /// Takes counts below 32.
    RotateLeft,
}

impl WordOp {
    pub const ALL: [WordOp; 10] = [
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
    ];

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
        }
    }
}
