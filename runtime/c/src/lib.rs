//! The C interface of the runtime. `include/tile.h`, which is made from this crate, documents it.
//!
//! A function converts its arguments, calls the runtime, and converts the result. No panic crosses
//! the boundary: it becomes an error.

#![deny(unsafe_op_in_unsafe_fn)]

mod arguments;
mod borrowed;
mod dtype;
mod model;
mod port;
mod session;
mod status;

pub use dtype::tile_dtype;
pub use model::Model;
pub use session::Session;
pub use status::Status;
