//! The options for narrower types: `--factors`, `--storage` and `--weights-type`.

use clap::Args;
use tile_runtime::{DType, SessionBuilder};

/// The narrower types of a program.
#[derive(Args, Clone, Copy)]
#[group(id = "narrow", multiple = true)]
pub struct Precision {
    /// Round the operands of matrix products and convolutions to f16 or bf16, and accumulate in f32
    #[arg(long, value_name = "TYPE", value_parser = narrow_float)]
    pub factors: Option<DType>,
    /// Keep weights and intermediate results in memory as f16 or bf16, if the device has the type,
    /// and compute in f32. Inputs, outputs, vectors and statistics stay f32
    #[arg(long, value_name = "TYPE", value_parser = narrow_float)]
    pub storage: Option<DType>,
    /// Keep weights of matrix products and convolutions in memory as int8, with an f32 scale for
    /// each column or channel, and compute in f32
    #[arg(long, value_name = "TYPE", value_parser = int8, conflicts_with = "factors")]
    pub weights_type: Option<DType>,
}

impl Precision {
    /// Returns whether there is a narrower type.
    pub fn is_narrow(self) -> bool {
        self.factors.or(self.storage).or(self.weights_type).is_some()
    }

    /// Sets the types of a session.
    pub fn apply<'a, On>(self, builder: SessionBuilder<'a, On>) -> SessionBuilder<'a, On> {
        let builder = self.factors.into_iter().fold(builder, SessionBuilder::factors);
        let builder = self.storage.into_iter().fold(builder, SessionBuilder::storage);
        builder.quantize_weights(self.weights_type.is_some())
    }
}

/// Parses `int8`, or `i8` as Tile calls it.
fn int8(text: &str) -> Result<DType, String> {
    match text {
        "int8" | "i8" => Ok(DType::I8),
        _ => Err(format!("expected int8, and found `{text}`")),
    }
}

/// Parses `f16` or `bf16`.
fn narrow_float(text: &str) -> Result<DType, String> {
    let dtype = DType::parse(text).filter(|dtype| dtype.is_float() && dtype.bits() == 16);
    dtype.ok_or_else(|| format!("expected f16 or bf16, and `{text}` is neither"))
}
