//! The messages of ONNX files, with the fields that describe the computation.
//! <https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>
//!
//! Bytes of tensors share the file's buffer. Lengths beyond the end and unlimited nesting are
//! rejected while reading.

use prost::Message;
use prost::bytes::Bytes;

#[derive(Clone, PartialEq, Message)]
pub struct Model {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub opsets: Vec<Opset>,
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<Function>,
}

/// The version of a domain's operators.
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

/// A sparse tensor.
#[derive(Clone, PartialEq, Message)]
pub struct Sparse {
    /// The non-zero elements. Their name is that of the whole tensor.
    #[prost(message, optional, tag = "1")]
    pub values: Option<Tensor>,
    /// The positions of the elements: a linear index or a row of coordinates for each.
    #[prost(message, optional, tag = "2")]
    pub indices: Option<Tensor>,
    #[prost(int64, repeated, tag = "3")]
    pub dims: Vec<i64>,
}

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
    /// The kind of the value. Files from before 2018 leave it 0.
    #[prost(int32, tag = "20")]
    pub kind: i32,
    /// In a function: the name of the caller's attribute that this one refers to.
    #[prost(string, tag = "21")]
    pub reference: String,
    #[prost(message, optional, tag = "22")]
    pub sparse: Option<Sparse>,
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
    /// 1 if the bytes are in another file.
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
    /// Returns the type of a tensor, including that of an optional one.
    pub fn tensor(&self) -> Option<&TensorType> {
        self.tensor.as_ref().or_else(|| self.optional.as_ref()?.element.as_ref()?.tensor.as_ref())
    }
}

/// The type of an optional value.
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

/// An operator defined in the file.
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
    /// Attributes with default values.
    #[prost(message, repeated, tag = "11")]
    pub defaults: Vec<Attribute>,
    #[prost(string, tag = "13")]
    pub overload: String,
}
