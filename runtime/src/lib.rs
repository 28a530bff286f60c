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
//! - `error`: errors.
//! - `data`: files with tensors.
//! - `wgpu`, `cpu` and `check`: the devices.
//! - `host`: plans on host memory.
//! - `storage`: conversion to the types that devices store.
//! - `store`: weights shared by sessions.
//! - `cache`: results kept for the next process.
//! - `tune`: measurement of schedules.

#[cfg(feature = "ndarray")]
pub mod array;
mod available;
mod backend;
mod backends;
mod builder;
#[cfg(all(feature = "wgpu", not(target_family = "wasm")))]
mod cache;
pub mod check;
pub mod cpu;
pub mod data;
mod device;
mod device_info;
mod error;
mod files;
mod host;
mod memory;
mod model;
mod onnx;
mod prng;
mod session;
mod staged;
mod storage;
mod store;
mod trace;
pub mod train;
pub mod tune;
pub mod weights;
#[cfg(feature = "wgpu")]
mod wgpu;

pub use builder::{InputType, SessionBuilder};
pub use device::Device;
pub use device_info::DeviceInfo;
pub use error::{Blame, Error, Source};
pub use files::{Imports, read_program};
pub use model::{Declared, Model};
pub use onnx::TileProgram;
pub use session::{Outputs, Session};
pub use tile_compiler::dtype::{DType, Scalar};
pub use tile_compiler::lower::{Network, Setting};
pub use tile_compiler::plan::{Cost, Plan};
pub use tile_compiler::tensor::{Tensor, TensorType};
pub use tile_lang::Limits;
pub use trace::{TimedLaunch, Trace};
