//! Expressions of the syntax tree.

use crate::ast::Ident;
use crate::span::Span;

/// An expression. Elementwise values, contraction bodies, index polynomials and sizes share one
/// grammar. The checker decides which expressions are allowed at each position.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The expression itself.
    pub kind: ExprKind,
    /// The position in the text.
    pub span: Span,
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// An integer literal, never negative.
    Int(i64),
    /// A float literal, always finite.
    Float(f64),
    /// A name. A capital name is a tensor or a size, a small name an index variable or a value
    /// known at compile time.
    Name(Ident),
    /// `X[i, j]`
    Access {
        /// The name of the tensor.
        tensor: Ident,
        /// The indices, one for each axis.
        indices: Vec<Expr>,
    },
    /// `f(X, 2)`, `Dense(10, activation = relu)(X)`
    Call {
        /// The function, or the layer with its hyper-parameters.
        callee: Box<Expr>,
        /// The arguments, in order.
        arguments: Vec<Argument>,
    },
    /// `input |> callee`
    Pipe {
        /// The first argument.
        input: Box<Expr>,
        /// The function or layer, or a call with further arguments.
        callee: Box<Expr>,
    },
    /// `[1, 2]`
    List(Vec<Expr>),
    /// `"text"`, stored without the quotes.
    Text(String),
    /// A unary operation.
    Unary {
        /// The operation.
        op: UnaryOp,
        /// The operand.
        operand: Box<Expr>,
    },
    /// A binary operation. `2i` is stored as `2*i`.
    Binary {
        /// The operation.
        op: BinaryOp,
        /// The left operand.
        left: Box<Expr>,
        /// The right operand.
        right: Box<Expr>,
    },
    /// `condition ? then : otherwise`. `otherwise` may be missing only if the conditional is the
    /// whole body of a contraction. It is then 0.
    Conditional {
        /// The condition.
        condition: Box<Expr>,
        /// The value if it is true.
        then: Box<Expr>,
        /// The value if it is false.
        otherwise: Option<Box<Expr>>,
    },
    /// `...`
    Ellipsis,
    /// An expression for which an error was reported.
    Error,
}

/// An argument, `value` or `name = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// The name, if one is written.
    pub name: Option<Ident>,
    /// The value.
    pub value: Expr,
}

/// The unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `~`, bitwise not
    Not,
}

impl UnaryOp {
    /// Returns the symbol of this operator.
    pub fn symbol(self) -> &'static str {
        match self {
            UnaryOp::Neg => "-",
            UnaryOp::Not => "~",
        }
    }
}

/// The binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `^`, bitwise like `|` and `&`
    Xor,
    /// `||`
    Or,
    /// `&&`
    And,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
}

impl BinaryOp {
    /// Returns the symbol of this operator.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Xor => "^",
            BinaryOp::Or => "|",
            BinaryOp::And => "&",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
        }
    }

    /// Returns the precedence, from 1 for `^` to 8 for `*` and `/`. A higher number binds more
    /// tightly. Unary operators bind more tightly than all of these. `?:` binds more loosely, and
    /// `|>` most loosely.
    pub fn precedence(self) -> u8 {
        match self {
            BinaryOp::Xor => 1,
            BinaryOp::Or => 2,
            BinaryOp::And => 3,
            BinaryOp::Eq | BinaryOp::Ne => 4,
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => 5,
            BinaryOp::Shl | BinaryOp::Shr => 6,
            BinaryOp::Add | BinaryOp::Sub => 7,
            BinaryOp::Mul | BinaryOp::Div => 8,
        }
    }

    /// Returns whether this is a comparison. Comparisons cannot be chained (`a < b < c`).
    pub fn is_comparison(self) -> bool {
        matches!(self.precedence(), 4 | 5)
    }
}
