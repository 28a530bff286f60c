//! [`Bindings`]: the known facts about a program's inputs, for which it is compiled.

use std::collections::BTreeMap;

use tile_lang::Limits;

use crate::dtype::Scalar;
use crate::tensor::TensorType;

/// The name of the input with the seed of random numbers, `u32[2]`, which differs from step to
/// step. It exists only if something is random.
pub const SEED: &str = "seed";

/// The binding of an input of the entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Binding {
    /// A tensor of this type, which is passed at each run.
    Tensor(TensorType),
    /// A constant. It is an i32 (an i64 if it does not fit) when it meets a tensor.
    Int(i64),
    /// A constant. It is an f32 when it meets a tensor.
    Float(f64),
}

impl From<Scalar> for Binding {
    fn from(value: Scalar) -> Binding {
        if value.dtype.is_float() {
            Binding::Float(value.to_f64())
        } else {
            Binding::Int(value.to_i64())
        }
    }
}

/// The known facts about the entry's inputs, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bindings {
    /// The types or values of the inputs, by name.
    pub inputs: BTreeMap<String, Binding>,
    /// Sizes by name. An input without a binding is an f32 tensor if all its sizes are known.
    pub sizes: BTreeMap<String, usize>,
    /// Values of the entry's hyper-parameters.
    pub parameters: BTreeMap<String, Setting>,
    /// The value of `training` in the program. It also decides whether `update` statements take
    /// effect.
    pub training: bool,
    /// The path of the layer whose `adapt` block runs. If set, the graph has no outputs except
    /// updates.
    pub adapting: Option<String>,
    /// Limits on the work of the whole compilation, from lowering to planning.
    pub limits: Limits,
}

/// A value of a hyper-parameter of the entry.
///
/// ```
/// use tile_compiler::bindings::{Bindings, Setting};
/// use tile_compiler::lower::lower;
///
/// let checked = tile_lang::check("model M(units = 4)(X[N, 2]) -> (Y) { Y = X |> Dense(units); }");
/// let mut bindings = Bindings::default();
/// bindings.sizes.insert("N".to_owned(), 1);
/// bindings.parameters.insert("units".to_owned(), Setting::Int(7));
/// let network = lower(&checked.program.unwrap(), None, &bindings).unwrap();
/// assert_eq!(network.layers[0].outputs[0].shape, [1, 7]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A symbol, or the name of a function.
    Name(String),
}
