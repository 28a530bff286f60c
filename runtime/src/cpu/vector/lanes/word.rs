//! Operations on lanes that hold integers.

/// An operation on the lanes as 32-bit integers, which wrap.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    #[cfg(test)]
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

    /// Applies the operation to one lane.
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
