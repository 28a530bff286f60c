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

/// The most blocks that a statement is in.
pub const MAX_BLOCKS: usize = 64;

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
    pub imports: Vec<Import>,
    pub aliases: Vec<Alias>,
    pub functions: Vec<Function>,
}

/// `import "path.tile";`
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    pub path: String,
    pub span: Span,
}

/// `name = target;`: another name for a function, layer or model.
#[derive(Clone, Debug, PartialEq)]
pub struct Alias {
    pub name: Ident,
    pub target: Ident,
    pub span: Span,
}

/// What a definition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// Has no weights; a name is assigned once.
    Function,
    /// May have weights, and assign a name again.
    Layer,
    /// A layer that a file is about: the last one is what runs.
    Model,
    /// Changes a trained weight, its first input, by the gradient, its second.
    Optimizer,
    /// From what a model gives and what it should give to a number to make small, or one for each sample.
    Loss,
    /// From the same to a number for people to read.
    Metric,
    /// How a model is trained: the values that its body gives to the names of [`SETTINGS`].
    Train,
}

/// What a `train` block can set.
pub const SETTINGS: [&str; 10] =
    ["loss", "loss_weights", "optimizer", "gradients", "frozen", "metrics", "batch_size", "epochs", "seed", "shuffle"];

impl FunctionKind {
    /// As it is written.
    pub fn keyword(self) -> &'static str {
        match self {
            FunctionKind::Function => "function",
            FunctionKind::Layer => "layer",
            FunctionKind::Model => "model",
            FunctionKind::Optimizer => "optimizer",
            FunctionKind::Loss => "loss",
            FunctionKind::Metric => "metric",
            FunctionKind::Train => "train",
        }
    }
}

/// `function name(parameters)(inputs) -> (outputs) { body }`, or another kind; an `optimizer` has no outputs, and `train`
/// nothing but the name of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub kind: FunctionKind,
    /// None: a v0 function, which has no name.
    pub name: Option<Ident>,
    /// The hyper-parameters; None where there is no list of them. Their names start with a small letter.
    pub parameters: Option<Vec<Input>>,
    pub inputs: Vec<Input>,
    pub outputs: Vec<Ident>,
    pub body: Vec<Statement>,
    pub span: Span,
}

impl Function {
    /// Whether it is a function as Tile v0 has them: without values known at compile time, and without defaults.
    pub fn is_v0(&self) -> bool {
        let given = self.inputs.iter().any(|input| !input.name.capital || input.default.is_some());
        self.kind == FunctionKind::Function && self.parameters.is_none() && !given
    }
}

/// An input or a hyper-parameter: `X`, `X[]`, `X[N, C]`, `X[..., 3]`, `shape`, `padding in [valid, same] = valid`.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// With a small letter: a value known at compile time.
    pub name: Ident,
    /// None: a tensor of any rank, or a scalar constant. Empty: rank 0.
    pub dims: Option<Vec<Dim>>,
    /// A list of which it must be one.
    pub choices: Option<Expr>,
    /// What it is where it is not given.
    pub default: Option<Expr>,
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
    /// `target = value;`; several targets take the parts of a tuple or list. A target with a small letter is a value
    /// known at compile time.
    Assign {
        targets: Vec<Ident>,
        value: Expr,
    },
    Contraction(Contraction),
    Weight(Weight),
    /// `update target = value;`
    Update {
        target: Ident,
        value: Expr,
    },
    /// `for variables in list { body }`, unrolled; several variables take the parts of each item.
    For {
        variables: Vec<Ident>,
        list: Expr,
        body: Vec<Statement>,
    },
    /// `if condition { then } else { otherwise }`, decided at compile time.
    If {
        condition: Expr,
        then: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
    /// `scan X in T along axis, … { body }`, a loop at run time.
    Scan {
        sequences: Vec<Sequence>,
        body: Vec<Statement>,
    },
    /// `yield target = value;` in the body of a scan.
    Yield {
        target: Ident,
        value: Expr,
    },
    /// A statement that could not be read, and was skipped.
    Error,
}

impl StatementKind {
    /// Whether it ends with a block.
    pub fn has_block(&self) -> bool {
        matches!(self, StatementKind::For { .. } | StatementKind::If { .. } | StatementKind::Scan { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightKind {
    /// Trained.
    Param,
    /// Kept from run to run, and changed by `update` alone.
    State,
}

impl WeightKind {
    /// As it is written.
    pub fn keyword(self) -> &'static str {
        match self {
            WeightKind::Param => "param",
            WeightKind::State => "state",
        }
    }
}

/// `param name[sizes] = initializer regularizer = … if condition else otherwise;`, or `like X` instead of sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    pub kind: WeightKind,
    pub name: Ident,
    pub shape: WeightShape,
    /// A callable, which is given the shape.
    pub initializer: Expr,
    /// A callable, which is given the weight.
    pub regularizer: Option<Expr>,
    /// Where it is false there is no such weight, and the name stands for `otherwise`, or 0.
    pub condition: Option<Expr>,
    pub otherwise: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WeightShape {
    /// A list among them stands for its items.
    Sizes(Vec<Expr>),
    /// That of a tensor.
    Like(Expr),
}

impl WeightShape {
    pub fn exprs(&self) -> &[Expr] {
        match self {
            WeightShape::Sizes(sizes) => sizes,
            WeightShape::Like(tensor) => std::slice::from_ref(tensor),
        }
    }
}

/// `variable in tensor along axis`
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    pub variable: Ident,
    pub tensor: Expr,
    pub axis: Expr,
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
    /// `f(X, 2)`, `Dense(10, activation = relu)(X)`
    Call {
        callee: Box<Expr>,
        arguments: Vec<Argument>,
    },
    /// `input |> callee`
    Pipe {
        input: Box<Expr>,
        callee: Box<Expr>,
    },
    /// `[1, 2]`
    List(Vec<Expr>),
    /// `"text"`, without the quotes.
    Text(String),
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

/// `value`, `name = value`
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    pub name: Option<Ident>,
    pub value: Expr,
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

    /// How tightly it binds: from `^` 1 to `* /` 8. `|>` and then `?:` are looser, the unary operators tighter.
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
