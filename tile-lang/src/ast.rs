//! The syntax tree of a Tile file: what was written, without layout and comments.
//!
//! Always true of a tree that the parser made:
//! - no expression is nested deeper than [`MAX_DEPTH`], so that recursion over it is safe;
//! - integer literals are not negative, and float literals are finite;
//! - [`ExprKind::Ellipsis`] stands only directly in a list of indices or sizes, [`ExprKind::Error`] and
//!   [`StatementKind::Error`] only where an error was reported.

use crate::span::Span;

/// The depth of the deepest expression that the parser makes.
pub const MAX_DEPTH: u32 = 256;

/// A name without its quoting `#` or `$`; the span includes that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    pub name: String,
    /// Whether it names a tensor or a size, else an index variable or a function: the first letter says so, or a
    /// quoting `#` (capital) or `$` (small).
    pub capital: bool,
    pub span: Span,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    pub functions: Vec<Function>,
}

/// `function name(inputs) -> (outputs) { body }`
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// None: a v0 function, which has no name.
    pub name: Option<Ident>,
    pub inputs: Vec<Input>,
    pub outputs: Vec<Ident>,
    pub body: Vec<Statement>,
    pub span: Span,
}

/// `X`, `X[]`, `X[N, C]`, `X[..., 3]`
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    pub name: Ident,
    /// None: a tensor of any rank, or a scalar constant. Empty: rank 0.
    pub dims: Option<Vec<Dim>>,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Dim {
    pub kind: DimKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DimKind {
    /// A size name, which this input binds.
    Name(String),
    /// A size that the input must have.
    Size(i64),
    /// `...`: any number of axes, the first ones of the input.
    Ellipsis,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    pub attributes: Vec<Attribute>,
    pub kind: StatementKind,
    /// From the first attribute to the `;`.
    pub span: Span,
}

/// `[[name(parameter, …)]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    pub name: Ident,
    pub parameters: Vec<Expr>,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// `target = value;`
    Assign {
        target: Ident,
        value: Expr,
    },
    Contraction(Contraction),
    /// A statement that could not be read, and was skipped.
    Error,
}

/// `Output[indices: sizes] = aggregation(body), constraints default T no_defract;`
#[derive(Clone, Debug, PartialEq)]
pub struct Contraction {
    pub output: Ident,
    /// May start with `...`. Both this and `sizes` are empty for rank 0, written `[]` or `[:]`.
    pub indices: Vec<Expr>,
    /// Starts with `...` where `indices` does. The checker sees to it that there are as many as indices.
    pub sizes: Vec<Expr>,
    pub aggregation: Aggregation,
    pub body: Expr,
    pub constraints: Vec<Constraint>,
    pub default: Option<Ident>,
    pub no_defract: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregation {
    /// `+`
    Sum,
    /// `*`
    Product,
    /// `>`
    Max,
    /// `<`
    Min,
    /// `=`
    Assign,
    /// `argmax`
    ArgMax,
    /// `argmin`
    ArgMin,
}

impl Aggregation {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Aggregation::Sum => "+",
            Aggregation::Product => "*",
            Aggregation::Max => ">",
            Aggregation::Min => "<",
            Aggregation::Assign => "=",
            Aggregation::ArgMax => "argmax",
            Aggregation::ArgMin => "argmin",
        }
    }
}

/// `poly < bound`, which also says `0 <= poly`.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    pub poly: Expr,
    pub bound: Expr,
}

impl Constraint {
    pub fn span(&self) -> Span {
        self.poly.span.to(self.bound.span)
    }
}

/// One grammar serves elementwise values, contraction bodies, index polynomials and sizes; the checker says what may stand where.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// Not negative.
    Int(i64),
    /// Finite.
    Float(f64),
    /// With a capital a tensor or a size, else an index variable.
    Name(Ident),
    /// `X[i, j]`
    Access {
        tensor: Ident,
        indices: Vec<Expr>,
    },
    /// `f(X, 2)`
    Call {
        function: Ident,
        arguments: Vec<Expr>,
    },
    Unary {
        op: UnaryOp,
        operand: Box<Expr>,
    },
    /// `2i` is `2*i` here.
    Binary {
        op: BinaryOp,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// `condition ? then : otherwise`; without `otherwise`, which is then 0, only as the whole body of a contraction.
    Conditional {
        condition: Box<Expr>,
        then: Box<Expr>,
        otherwise: Option<Box<Expr>>,
    },
    /// `...`
    Ellipsis,
    /// An expression that an error was reported for.
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `~`, bitwise
    Not,
}

impl UnaryOp {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            UnaryOp::Neg => "-",
            UnaryOp::Not => "~",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `^`, bitwise, as are `|` and `&`
    Xor,
    Or,
    And,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Shl,
    Shr,
    Add,
    Sub,
    Mul,
    Div,
}

impl BinaryOp {
    /// As it is written.
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

    /// How tightly it binds: from `^` 1 to `* /` 8. `?:` is 0, the unary operators 9.
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

    /// Whether it compares, and so cannot be chained (`a < b < c`).
    pub fn is_comparison(self) -> bool {
        matches!(self.precedence(), 4 | 5)
    }
}
