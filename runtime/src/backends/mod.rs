//! The devices without a driver: this processor, the reference interpreter and the kernel checker.

mod check;
mod cpu;
mod host;
mod launch;
mod reference;

pub use check::Check;
pub use cpu::{Cpu, describe as describe_cpu};
pub use reference::Reference;
