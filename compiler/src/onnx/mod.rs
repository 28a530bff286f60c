//! ONNX files: converts a model of operators to a [`Network`](crate::lower::Network) by calls of
//! the library.
//!
//! The meaning of an operator is defined in Tile only: `Conv` is the function `OnnxConv` of
//! `tile-lang/std/onnx_*.tile`.
//!
//! - Its hyper-parameters are the operator's attributes, by name.
//! - Its inputs are the operator's, in order. An input with a lower-case name is known at compile
//!   time, such as shapes and axes. The importer evaluates it if the model computes it.
//! - An operator whose meaning has changed has several functions: `OnnxSqueeze_13` is that of
//!   version 13 and later, up to the next one's.
//!
//! Only operators that are not functions of tensors, such as constants, branches, loops and
//! sequences, are defined here (`control.rs`).
//!
//! - `proto`: the messages of a file; `weight`: the memory that reading them takes.
//! - `tensor`: tensors of the file; `small`: those with types that Tile lacks; `sparse`: sparse
//!   ones.
//! - `order`: removal of unused nodes, and their order.
//! - `model`: [`Model`], a file that was read and checked.
//! - `inputs`: the types of a model's inputs.
//! - `import`: the import of nodes; `library`: the calls that they become; `attributes`: their
//!   attributes; `control`: operators that are not functions of tensors; `branches`: branches and
//!   loops; `sequences`: sequences.
//! - `resume`: repeated imports for other values.
//! - `values`: values that determine shapes; `host`: operators whose results have a value-dependent
//!   length.
//! - `trees`: the attributes of tree ensembles as tables; `ensemble`: the calls on these.
//! - `recorder`: the record of calls; `text`: its conversion to a Tile program; `layers`: detection
//!   of the library's layers in its `calls`.
//!
//! Invariants:
//!
//! - No memory is allocated for data before the file is known to have as much.
//! - No file causes a panic or an endless run.
//! - Unsupported operators are reported before anything is computed, all at once.

mod attributes;
mod branches;
mod calls;
mod control;
mod ensemble;
mod host;
mod import;
mod imported;
mod inputs;
mod layers;
mod library;
mod model;
mod order;
mod proto;
mod recorder;
mod resume;
mod sequences;
mod small;
mod sparse;
mod tensor;
mod text;
mod trees;
mod values;
mod weight;

pub use import::import;
pub use imported::{Imported, Sources};
pub use inputs::Given;
pub use model::{Model, OnnxError};
pub use resume::Repeated;
pub use tensor::{External, Loader};
pub use text::Stored;
pub use values::Evaluator;
