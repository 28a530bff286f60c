//! The operations of a chain, and the places of their operands.

use tile_compiler::native::{Code as ChainCode, Relation, WordOp};

/// Defines [`Code`] from the operations of chains, the relations, and the operations that exist
/// only when values have places.
macro_rules! codes {
    (
        $($chain:ident)*;
        $($(#[$related:meta])* $relation:ident)*;
        $($(#[$placed:meta])* $place:ident)*
    ) => {
        /// An operation on a strip's value `x` and the values at the places `a` and `b`.
        ///
        /// A flat enum of one byte, so that a strip takes one jump to an operation. Nested enums
        /// took two, 3% of a GELU's time.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Code {
            $($chain,)*
            Word(WordOp),
            $($(#[$related])* $relation,)*
            $($(#[$placed])* $place,)*
        }

        impl From<ChainCode> for Code {
            fn from(code: ChainCode) -> Self {
                match code {
                    $(ChainCode::$chain => Code::$chain,)*
                    ChainCode::Word(op) => Code::Word(op),
                }
            }
        }

        impl From<Relation> for Code {
            fn from(relation: Relation) -> Self {
                match relation {
                    $(Relation::$relation => Code::$relation,)*
                }
            }
        }
    };
}

codes! {
    Nothing Take Add Sub SubFrom Mul Div DivInto Max MaxOf Min MinOf MulAdd MulSub MulSubFrom AddMul
    Square Neg Abs Sqrt Recip Rint Rsqrt Exp ExpSub Tanh Erf Sigmoid FromSigned
    FromUnsigned ToSigned ToSignedByte ToUnsignedByte ScaleSum ScaleDifference ScaleAdd NearSignedByte
    NearUnsignedByte SignedByte UnsignedByte;

    /// The six relations store at `b` whether they hold between `x` and `a`.
    Equal
    NotEqual
    Less
    LessOrEqual
    Greater
    GreaterOrEqual;

    /// The same relations between signed integers.
    WordsEqual
    WordsNotEqual
    WordsLess
    WordsLessOrEqual
    WordsGreater
    WordsGreaterOrEqual
    /// Divides `x` by the two parts of a divisor's [`reciprocal`](crate::cpu::vector::reciprocal).
    DivEvenly
    /// `b` where the condition at `a` holds, else `x`.
    ReplaceWhere
    /// `x` where the condition at `a` holds, else `b`.
    ReplaceElse
    /// The signed bytes at `a`, as integers of 32 bits.
    TakeSignedBytes
    /// The same for unsigned bytes.
    TakeUnsignedBytes
    /// Stores the last byte of each number of `x` at `a`.
    KeepBytes
    /// Stores `x` at `a` with non-temporal stores, past the caches, where the processor has them.
    /// The address of every register must be [`ALIGNED`]. Other threads see the values after a
    /// [`fence`](super::fence).
    KeepPast
    /// Prefetches `a` for reading.
    Fetch
    /// Prefetches `a` for writing.
    FetchToWrite
    /// Adds up `x` over a row in the register at `a`, and stores the row's sum at `b`.
    Sum
    /// The same for the maximum.
    Greatest
    /// The same for the minimum.
    Least
}

const _: () = assert!(size_of::<Code>() == 1);

impl Code {
    /// Returns the test of a relation between signed integers.
    pub fn of_words(relation: Relation) -> Self {
        match relation {
            Relation::Equal => Code::WordsEqual,
            Relation::NotEqual => Code::WordsNotEqual,
            Relation::Less => Code::WordsLess,
            Relation::LessOrEqual => Code::WordsLessOrEqual,
            Relation::Greater => Code::WordsGreater,
            Relation::GreaterOrEqual => Code::WordsGreaterOrEqual,
        }
    }

    /// Returns the aggregate of no values, for operations that aggregate.
    pub fn identity(self) -> Option<f32> {
        match self {
            Code::Sum => Some(0.0),
            Code::Greatest => Some(f32::NEG_INFINITY),
            Code::Least => Some(f32::INFINITY),
            _ => None,
        }
    }
}

/// The place of a chunk's numbers (or conditions): one for each element, or one register for each
/// row. It is two words, so that it is passed in registers.
#[derive(Clone, Copy)]
pub struct ChunkPointer {
    pub start: *mut u8,
    /// For a register for each row, the bytes from one row's to the next. Negative for one number
    /// for each element.
    pub row: isize,
}

// SAFETY: it is only an address. Accessing the memory there is the unsafe operation.
unsafe impl Send for ChunkPointer {}

impl ChunkPointer {
    /// No place.
    pub const NONE: ChunkPointer = ChunkPointer::rows(std::ptr::null_mut(), 0);

    /// Creates a place with one number for each element of the chunk.
    pub const fn elements(start: *mut u8) -> Self {
        ChunkPointer { start, row: -1 }
    }

    /// Creates a place with one register for each row, `row` bytes apart.
    pub const fn rows(start: *mut u8, row: usize) -> Self {
        ChunkPointer { start, row: row as isize }
    }

    /// Returns the address of the chunk's element number `element + after`, each of `bytes` bytes,
    /// or that of the current row's register.
    #[inline(always)]
    pub fn at(self, element: usize, after: usize, bytes: usize) -> *mut u8 {
        // Branch-free: the mask is all ones or 0.
        let mask = (self.row >> (isize::BITS - 1)) as usize;
        self.start.wrapping_add((element * bytes) & mask).wrapping_add(after * (bytes & mask))
    }

    /// Returns whether this is [`ChunkPointer::NONE`].
    pub fn is_none(self) -> bool {
        self.start.is_null()
    }

    /// Moves on to the next row.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.start = self.start.wrapping_offset(self.row.max(0));
    }
}

/// One operation of a chain, with its places. If `keep` is not [`ChunkPointer::NONE`], the
/// resulting `x` is stored there, element by element.
#[derive(Clone, Copy)]
pub struct Op {
    pub code: Code,
    pub a: ChunkPointer,
    pub b: ChunkPointer,
    pub keep: ChunkPointer,
}

impl Op {
    /// Creates an operation whose result is not stored.
    pub fn new(code: Code, a: ChunkPointer, b: ChunkPointer) -> Self {
        Self { code, a, b, keep: ChunkPointer::NONE }
    }
}
