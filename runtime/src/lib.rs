//! Runs Tile programs: on this processor, or on any GPU that wgpu reaches.
//!
//! ```
//! # use tile_runtime::{Device, Error, Model, Tensor};
//! # fn main() -> Result<(), Error> {
//! let model = Model::compile("function scale(X[N], S) -> (Y) { Y = X * S; }")?;
//! let device = Device::cpu(); // or Device::best()?, Device::wgpu(0)?
//! let mut session = model.on(&device).input("X", [3]).constant("S", tile_runtime::Scalar::f32(2.0)).build()?;
//! let x = Tensor::from_f32([3], &[1.0, 2.0, 3.0]).unwrap();
//! let y: Tensor = session.run([("X", x)])?.remove("Y");
//! assert_eq!(y.to_f64s(), [2.0, 4.0, 6.0]);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Model`] is a checked program, a [`Device`] is a place to run it, and a [`Session`] is the program compiled for
//! given shapes on one device, with its memory there. `error` has what can go wrong, `data` the files that hold tensors,
//! `wgpu`, `cpu` and `check` the devices; `host` runs plans on host memory, `storage` converts to what devices store,
//! in `store` sessions share weights, and `cache` keeps what the next process need not find out again; `tune` measures schedules.

#[cfg(feature = "ndarray")]
pub mod array;
#[cfg(all(feature = "wgpu", not(target_family = "wasm")))]
mod cache;
pub mod check;
mod checked;
pub mod cpu;
pub mod data;
mod device;
mod error;
mod executable;
mod host;
mod model;
#[cfg(not(target_arch = "wasm32"))]
mod onnx;
mod prng;
mod session;
mod storage;
mod store;
mod trace;
#[cfg(not(target_arch = "wasm32"))]
pub mod train;
#[cfg(not(target_arch = "wasm32"))]
pub mod tune;
pub mod weights;
#[cfg(feature = "wgpu")]
mod wgpu;

pub use device::{Device, DeviceInfo};
pub use error::{Blame, Error};
#[cfg(not(target_arch = "wasm32"))]
pub use model::Declared;
pub use model::{InputType, Model, SessionBuilder};
#[cfg(not(target_arch = "wasm32"))]
pub use onnx::TileProgram;
pub use session::{Outputs, Session};
pub use tile_compiler::dtype::{DType, Scalar};
pub use tile_compiler::lower::{Network, Setting};
pub use tile_compiler::plan::{Cost, Plan};
pub use tile_compiler::tensor::{Tensor, TensorType};
pub use trace::{TimedLaunch, Trace};
