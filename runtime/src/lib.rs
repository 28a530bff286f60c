//! Runs Tile programs on this processor, or on any GPU that wgpu supports.
//!
//! ```
//! # use tile_runtime::{Device, Error, Model, Tensor};
//! # fn main() -> Result<(), Error> {
//! let model = Model::compile("function scale(X[N], S) -> (Y) { Y = X * S; }")?;
//! let device = Device::cpu(); // or Device::best()?, Device::wgpu(0)?
//! let mut session = model.on(&device).input("X", [3]).constant("S", tile_runtime::Scalar::f32(2.0)).build()?;
//! let x = Tensor::from_f32([3], &[1.0, 2.0, 3.0]).unwrap();
//! let y: Tensor = session.run([("X", x)])?.remove("Y")?;
//! assert_eq!(y.to_f64s(), [2.0, 4.0, 6.0]);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Model`] is a checked program, a [`Device`] runs programs, and a [`Session`] is a program
//! compiled for given shapes on one device, with its memory there.
//!
//! From the ground up, each using those before it:
//!
//! - `files`: reading within bounds, and writing whole files.
//! - `error`: errors.
//! - `value`: memory of an app that sessions read and write. `background`: work on other threads.
//! - `host`, `store`, `storage`, `scaled`, `memory`: the memory of programs, and weights that they
//!   share.
//! - `pending`: results that may wait. `backend`: what a device does. `cpu`, `check`, `wgpu` and
//!   `backends`: the devices.
//! - `device`, `model`, `builder`, `session`, `trace`, `onnx`, `scores`, `pack`: what an app sees.
//! - `weights`, `tune`, `train`, `data`: upper floors, each behind a feature of its name.

#![deny(unsafe_code)]
#![deny(missing_docs)]
// Each feature uses its part of the modules that all share.
#![cfg_attr(
    not(all(
        feature = "check",
        feature = "data",
        feature = "keras",
        feature = "onnx",
        feature = "wgpu"
    )),
    allow(dead_code, unused_imports)
)]

#[cfg(feature = "ndarray")]
pub mod array;
mod available;
mod backend;
mod backends;
mod background;
mod builder;
#[cfg(all(feature = "wgpu", not(target_family = "wasm")))]
mod cache;
#[cfg(feature = "check")]
pub mod check;
// Public for measurements. It may change at any time.
#[doc(hidden)]
pub mod cpu;
pub mod data;
mod device;
mod device_info;
mod error;
mod files;
mod host;
#[cfg(feature = "listing")]
mod listing;
mod memory;
mod model;
#[cfg(feature = "onnx")]
mod onnx;
#[cfg(feature = "pack")]
pub mod pack;
mod parts;
mod pending;
mod prng;
#[cfg(feature = "compile")]
mod program;
#[cfg(any(feature = "pack", feature = "weights"))]
mod safetensors_types;
mod scaled;
#[cfg(any(feature = "pack", feature = "train"))]
mod scores;
mod session;
#[cfg(feature = "tune")]
mod splitmix;
#[cfg(feature = "onnx")]
mod staged;
mod storage;
mod store;
#[cfg(any(feature = "keras", feature = "onnx"))]
mod tile_program;
mod trace;
#[cfg(feature = "train")]
pub mod train;
#[cfg(feature = "tune")]
pub mod tune;
mod value;
#[cfg(feature = "weights")]
pub mod weights;
#[cfg(feature = "wgpu")]
mod wgpu;

#[cfg(feature = "wgpu")]
pub use self::wgpu::Resource;
pub use builder::{InputType, SessionBuilder};
pub use device::Device;
pub use device_info::DeviceInfo;
pub use error::{Blame, Error, Source};
#[cfg(feature = "compile")]
pub use files::{Imports, read_program};
pub use files::{reason_of_reading, reason_of_writing};
#[cfg(feature = "listing")]
pub use listing::{FixedTarget, KernelBinding, KernelListing, PlanFor, listing};
pub use model::{Declared, Model};
pub use session::{Outputs, Session};
pub use tile_compiler::bindings::Setting;
pub use tile_compiler::dtype::{DType, Scalar};
#[cfg(feature = "listing")]
pub use tile_compiler::emit::{EmitError, Target};
#[cfg(feature = "compile")]
pub use tile_compiler::lower::Network;
pub use tile_compiler::plan::{Cost, Plan};
pub use tile_compiler::tensor::{Tensor, TensorType};
pub use tile_lang::Limits;
#[cfg(any(feature = "keras", feature = "onnx"))]
pub use tile_program::TileProgram;
pub use trace::{TimedLaunch, Trace};
pub use value::{Destination, Element, Value, View};
