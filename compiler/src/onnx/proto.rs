//! The messages of ONNX files, those parts of them that say what is computed.
//! <https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>
//!
//! Bytes of tensors are parts of the file's own. Lengths beyond the end and nesting without end are refused while reading.

use prost::Message;
use prost::bytes::Bytes;

#[derive(Clone, PartialEq, Message)]
pub struct Model {
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub opsets: Vec<Opset>,
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<Function>,
}

/// The version of the operators of a domain.
#[derive(Clone, PartialEq, Message)]
pub struct Opset {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<Node>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializers: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub inputs: Vec<Value>,
    #[prost(message, repeated, tag = "12")]
    pub outputs: Vec<Value>,
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializers: Vec<Sparse>,
}

/// A tensor most of whose elements are 0, of which nothing is read.
#[derive(Clone, PartialEq, Message)]
pub struct Sparse {}

#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(string, repeated, tag = "1")]
    pub inputs: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub outputs: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op: String,
    #[prost(message, repeated, tag = "5")]
    pub attributes: Vec<Attribute>,
    #[prost(string, tag = "7")]
    pub domain: String,
    #[prost(string, tag = "8")]
    pub overload: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(float, tag = "2")]
    pub float: f32,
    #[prost(int64, tag = "3")]
    pub int: i64,
    #[prost(bytes = "bytes", tag = "4")]
    pub text: Bytes,
    #[prost(message, optional, tag = "5")]
    pub tensor: Option<Tensor>,
    #[prost(message, optional, tag = "6")]
    pub graph: Option<Graph>,
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub texts: Vec<Bytes>,
    /// 0 where it is not said, which files of before 2018 leave out.
    #[prost(int32, tag = "20")]
    pub kind: i32,
    /// In a function: the attribute of the call that it is.
    #[prost(string, tag = "21")]
    pub reference: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Tensor {
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub dtype: i32,
    #[prost(float, repeated, tag = "4")]
    pub floats: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub ints32: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    pub ints64: Vec<i64>,
    #[prost(string, tag = "8")]
    pub name: String,
    #[prost(bytes = "bytes", tag = "9")]
    pub raw: Bytes,
    #[prost(double, repeated, tag = "10")]
    pub doubles: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub uints64: Vec<u64>,
    #[prost(message, repeated, tag = "13")]
    pub external: Vec<Entry>,
    /// 1: the bytes are in another file.
    #[prost(int32, tag = "14")]
    pub location: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// An input or an output of a graph.
#[derive(Clone, PartialEq, Message)]
pub struct Value {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub ty: Option<Type>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Type {
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorType>,
    #[prost(message, optional, tag = "9")]
    pub optional: Option<Optional>,
}

impl Type {
    /// That of a tensor, which may be one that need not be there.
    pub fn tensor(&self) -> Option<&TensorType> {
        self.tensor.as_ref().or_else(|| self.optional.as_ref()?.element.as_ref()?.tensor.as_ref())
    }
}

/// The type of a value that need not be there.
#[derive(Clone, PartialEq, Message)]
pub struct Optional {
    #[prost(message, optional, boxed, tag = "1")]
    pub element: Option<Box<Type>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub dims: Vec<Dim>,
}

/// A size, or a name for one.
#[derive(Clone, PartialEq, Message)]
pub struct Dim {
    #[prost(int64, optional, tag = "1")]
    pub size: Option<i64>,
    #[prost(string, tag = "2")]
    pub name: String,
}

/// An operator that the file itself defines.
#[derive(Clone, PartialEq, Message)]
pub struct Function {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "4")]
    pub inputs: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub outputs: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub nodes: Vec<Node>,
    #[prost(message, repeated, tag = "9")]
    pub opsets: Vec<Opset>,
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Attributes with values for where a call has none.
    #[prost(message, repeated, tag = "11")]
    pub defaults: Vec<Attribute>,
    #[prost(string, tag = "13")]
    pub overload: String,
}
