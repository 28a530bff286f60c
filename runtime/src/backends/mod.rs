//! The devices without a driver: this processor, the reference interpreter and the kernel checker.

#[cfg(feature = "check")]
mod check;
mod cpu;
mod host;
#[cfg(feature = "check")]
mod launch;
#[cfg(feature = "compile")]
mod reference;

#[cfg(feature = "check")]
pub use check::Check;
pub use cpu::{Cpu, describe as describe_cpu};
#[cfg(feature = "compile")]
pub use reference::Reference;
