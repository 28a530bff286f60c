//! Files: the memory that reading one may take, and writing that leaves a whole file or none.

mod allowance;
mod fault;
#[cfg(feature = "compile")]
mod import;
pub mod npy;
#[cfg(feature = "write")]
mod whole;

pub use allowance::{Allowance, Counted, Exceeded, MOST_AXES, open_file, read_file};
pub use fault::{reason_of_reading, reason_of_writing};
#[cfg(feature = "compile")]
pub use import::{Imports, read_program};
#[cfg(feature = "write")]
pub use whole::{can_be_written, special, write_whole};
