//! ONNX files: a model of operators becomes a [`Network`] by calls of the library.
//!
//! What an operator means is said in Tile alone: `Conv` is the function `OnnxConv` of `tile-lang/std/onnx_*.tile`. Its
//! hyper-parameters are the operator's attributes, by name; its inputs are the operator's, in order. An input with a small letter
//! is known at compile time: shapes, axes and the like, which the importer finds out where the model computes them. An operator
//! whose meaning has changed has several functions: `OnnxSqueeze_13` is that of version 13 and later, up to the next one's. So
//! nothing here knows an operator, but for those that are no functions of tensors, such as constants, branches, loops and sequences
//! (`control.rs`).
//!
//! - `proto`: the messages of a file; `tensor`: their tensors;
//! - `model`: [`Model`], a file that was read and looked through;
//! - `import`: the way through its nodes; `control`: branches and loops;
//! - `text`: the way back to a program; `layers`: the library's layers in it.
//!
//! Always true: nothing is asked of memory before there is that much in the file, and no file makes this panic or run without
//! end. What is not supported is found before anything is computed, all of it at once.

mod control;
mod import;
mod imported;
mod layers;
mod model;
mod order;
mod proto;
mod tensor;
mod text;

pub use import::{Given, import};
pub use imported::Imported;
pub use model::{Model, OnnxError};
pub use tensor::{External, Loader};
pub use text::Stored;
