//! The syntax tree of a Tile file. It has no layout and no comments.
//!
//! Invariants of a tree from the parser:
//! - Expressions nest at most [`MAX_DEPTH`] levels deep, so recursive traversal is safe.
//! - Integer literals are not negative. Float literals are finite.
//! - [`ExprKind::Ellipsis`] occurs only directly in a list of indices or sizes.
//! - [`ExprKind::Error`] and [`StatementKind::Error`] occur only where an error was reported.

mod expression;

pub use expression::{Argument, BinaryOp, Expr, ExprKind, UnaryOp};

use crate::span::Span;

/// The maximum nesting depth of an expression.
pub const MAX_DEPTH: u32 = 256;

/// The maximum number of blocks that enclose a statement.
pub const MAX_BLOCKS: usize = 64;

/// A name without its quoting `#` or `$`. The span includes the quoting character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// The name, without the quoting character.
    pub name: String,
    /// True for a tensor or a size, false for an index variable or a function. The first letter
    /// decides, unless the name is quoted: `#` makes it a capital name, `$` a small one.
    pub capital: bool,
    /// The position in the text.
    pub span: Span,
}

/// The syntax tree of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// The files that it imports, in order.
    pub imports: Vec<Import>,
    /// The other names that it defines.
    pub aliases: Vec<Alias>,
    /// The functions, layers and models, in order.
    pub functions: Vec<Function>,
}

/// `import "path.tile";`
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// The path as it is written, without the quotes.
    pub path: String,
    /// The whole import.
    pub span: Span,
}

/// An alias, `name = target;`: another name for a function, layer or model.
#[derive(Clone, Debug, PartialEq)]
pub struct Alias {
    /// The new name.
    pub name: Ident,
    /// The name that it stands for.
    pub target: Ident,
    /// The whole alias.
    pub span: Span,
}

/// The kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// A function without weights. Each name is assigned once.
    Function,
    /// A function that may declare weights and may assign a name again.
    Layer,
    /// A layer that can be an entry point. The last model of the main file is the default entry.
    Model,
    /// An update rule. Its inputs are a trained weight and the gradient of that weight.
    Optimizer,
    /// A function of a model's outputs and the target values. Training minimizes its result: one
    /// number, or one number for each sample.
    Loss,
    /// A function of a model's outputs and the target values. Its result is reported to the user.
    Metric,
    /// The training configuration of a model. The body assigns values to the names of [`SETTINGS`].
    Train,
}

/// The settings of a `train` block.
pub const SETTINGS: [&str; 15] = [
    "loss",
    "optimizer",
    "metrics",
    "weighted_metrics",
    "batch_size",
    "epochs",
    "seed",
    "shuffle",
    "frozen",
    "trained",
    "steps",
    "loss_weights",
    "targets",
    "gradients",
    "augment",
];

impl FunctionKind {
    /// Returns the keyword of this kind.
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

/// A definition: `function name(parameters)(inputs) -> (outputs) { body }`, or the same with
/// another keyword. An `optimizer` has no outputs. A `train` block has only the name of a model and
/// a body.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// A function, a layer or a model.
    pub kind: FunctionKind,
    /// The name. A Tile v0 function has none.
    pub name: Option<Ident>,
    /// The hyper-parameters, or `None` if the definition has no list of them. Their names start
    /// with a small letter.
    pub parameters: Option<Vec<Input>>,
    /// The tensors that it gets, in order.
    pub inputs: Vec<Input>,
    /// The names of the outputs, in order.
    pub outputs: Vec<Ident>,
    /// The statements of the body, in order.
    pub body: Vec<Statement>,
    /// The whole definition.
    pub span: Span,
}

impl Function {
    /// Returns the place of the name, or the whole definition if it has none.
    pub fn place(&self) -> Span {
        self.name.as_ref().map_or(self.span, |name| name.span)
    }

    /// Returns the inputs without a default, which a caller must give.
    pub fn required_inputs(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter().filter(|input| input.default.is_none())
    }

    /// Returns whether this is a Tile v0 function: it takes no values known at compile time and has
    /// no defaults.
    pub fn is_v0(&self) -> bool {
        let given = self.inputs.iter().any(|input| !input.name.capital || input.default.is_some());
        self.kind == FunctionKind::Function && self.parameters.is_none() && !given
    }
}

/// An input or a hyper-parameter, such as `X`, `X[]`, `X[N, C]`, `X[..., 3]`, `shape` or
/// `padding in [valid, same] = valid`.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The name. A name with a small letter denotes a value known at compile time.
    pub name: Ident,
    /// The sizes. `None` stands for a tensor of any rank or a scalar constant. An empty list stands
    /// for rank 0.
    pub dims: Option<Vec<Dim>>,
    /// The list of allowed values.
    pub choices: Option<Expr>,
    /// The value used if the caller gives none.
    pub default: Option<Expr>,
    /// The whole input, with its sizes, values and default.
    pub span: Span,
}

/// The size of one axis in a header.
#[derive(Clone, Debug, PartialEq)]
pub struct Dim {
    /// The form of the size.
    pub kind: DimKind,
    /// The position in the text.
    pub span: Span,
}

/// The forms of a size in a header.
#[derive(Clone, Debug, PartialEq)]
pub enum DimKind {
    /// A size name, bound by this input.
    Name(String),
    /// A fixed size.
    Size(i64),
    /// `...`: any number of leading axes.
    Ellipsis,
}

/// A statement with its attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The attributes before the statement, in order.
    pub attributes: Vec<Attribute>,
    /// The statement itself.
    pub kind: StatementKind,
    /// The range from the first attribute to the `;`.
    pub span: Span,
}

/// An attribute, `[[name(parameter, …)]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The name, such as `frozen`.
    pub name: Ident,
    /// The values in the parentheses.
    pub parameters: Vec<Expr>,
    /// The whole attribute, brackets included.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// `target = value;`. Several targets take the parts of a tuple or list. A target with a small
    /// letter is a value known at compile time.
    Assign {
        /// The names that are given values.
        targets: Vec<Ident>,
        /// The value, or a tuple or list of values.
        value: Expr,
    },
    /// A contraction, `Y[i: N] = +(X[i, j]);`.
    Contraction(Contraction),
    /// A weight, `param …;` or `state …;`.
    Weight(Box<Weight>),
    /// `update target = value;`
    Update {
        /// The name of the state.
        target: Ident,
        /// The next value.
        value: Expr,
    },
    /// `for variables in list { body }`, unrolled at compile time. Several variables take the parts
    /// of each item.
    For {
        /// The names of the item, or of its parts.
        variables: Vec<Ident>,
        /// The list, known at compile time.
        list: Expr,
        /// The statements of each iteration.
        body: Vec<Statement>,
    },
    /// `if condition { then } else { otherwise }`, decided at compile time.
    If {
        /// The condition, known at compile time.
        condition: Expr,
        /// The statements if it is true.
        then: Vec<Statement>,
        /// The statements if it is false.
        otherwise: Vec<Statement>,
    },
    /// `scan X in T along axis, … { body }`, a loop at run time.
    Scan {
        /// The sequences that the loop reads, one slice a step.
        sequences: Vec<Sequence>,
        /// The statements of each step.
        body: Vec<Statement>,
    },
    /// `callee(arguments);`: a call whose value is ignored, such as an optimizer that calls another
    /// one.
    Call(Expr),
    /// `adapt { body }`: updates that compute states from the training data before the first step.
    Adapt {
        /// The statements, updates among them.
        body: Vec<Statement>,
    },
    /// `yield target = value;`, in the body of a scan.
    Yield {
        /// The name of the result.
        target: Ident,
        /// The value of each step.
        value: Expr,
    },
    /// A statement that the parser could not read and skipped.
    Error,
}

impl StatementKind {
    /// Returns whether the statement ends with a block.
    pub fn has_block(&self) -> bool {
        matches!(
            self,
            StatementKind::For { .. }
                | StatementKind::If { .. }
                | StatementKind::Scan { .. }
                | StatementKind::Adapt { .. }
        )
    }
}

/// The kinds of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightKind {
    /// A weight that training changes.
    Param,
    /// A weight that is kept from run to run. Only `update` changes it.
    State,
}

impl WeightKind {
    /// Returns the keyword of this kind.
    pub fn keyword(self) -> &'static str {
        match self {
            WeightKind::Param => "param",
            WeightKind::State => "state",
        }
    }
}

/// A weight, declared as
/// `param name[sizes] = initializer regularizer = … constraint = … if condition else otherwise;`.
/// `like X` may replace the sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// The kind, by the keyword.
    pub kind: WeightKind,
    /// The name, unique in its function.
    pub name: Ident,
    /// The sizes.
    pub shape: WeightShape,
    /// A callable that takes the shape and returns the initial value.
    pub initializer: Expr,
    /// A callable that takes the weight and returns the penalty.
    pub regularizer: Option<Expr>,
    /// A callable that projects the weight after each step of the optimizer.
    pub constraint: Option<Expr>,
    /// If this is false, the weight does not exist, and its name stands for `otherwise` or 0.
    pub condition: Option<Expr>,
    /// The value in its place if `condition` is false.
    pub otherwise: Option<Expr>,
}

/// The sizes of a weight.
#[derive(Clone, Debug, PartialEq)]
pub enum WeightShape {
    /// The sizes. An item that is a list stands for all of its items.
    Sizes(Vec<Expr>),
    /// The shape of another tensor.
    Like(Expr),
}

impl WeightShape {
    /// Returns the expressions of the sizes, or that of the tensor that the weight is like.
    pub fn exprs(&self) -> &[Expr] {
        match self {
            WeightShape::Sizes(sizes) => sizes,
            WeightShape::Like(tensor) => std::slice::from_ref(tensor),
        }
    }
}

/// A sequence of a scan, `variable in tensor along axis`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// The name of the slice in the body.
    pub variable: Ident,
    /// The whole sequence.
    pub tensor: Expr,
    /// The axis along which the sequence is cut.
    pub axis: Expr,
}

/// `Output[indices: sizes] = aggregation[rank](body), constraints default T no_defract;`
#[derive(Clone, Debug, PartialEq)]
pub struct Contraction {
    /// The name of the result.
    pub output: Ident,
    /// The indices, which may start with `...`. Both `indices` and `sizes` are empty for rank 0,
    /// written `[]` or `[:]`.
    pub indices: Vec<Expr>,
    /// The sizes. They start with `...` if `indices` does. The checker ensures that there are as
    /// many sizes as indices.
    pub sizes: Vec<Expr>,
    /// The aggregation of the values of all points.
    pub aggregation: Aggregation,
    /// `argmax[k](…)`: the index of the output that is the rank of the value.
    pub rank: Option<Ident>,
    /// The value at each point.
    pub body: Expr,
    /// The inequalities that a point must fulfil.
    pub constraints: Vec<Constraint>,
    /// The tensor with the values of places that no point has.
    pub default: Option<Ident>,
    /// Whether `no_defract` is written.
    pub no_defract: bool,
}

/// The aggregations of contractions.
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
    /// Returns the symbol of this aggregation.
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

/// `poly < bound`, which also implies `0 <= poly`.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// The left side.
    pub poly: Expr,
    /// The right side.
    pub bound: Expr,
}

impl Constraint {
    /// Returns the position of both sides together.
    pub fn span(&self) -> Span {
        self.poly.span.to(self.bound.span)
    }
}
