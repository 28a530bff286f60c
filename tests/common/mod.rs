//! What several integration tests share.

#![allow(dead_code, reason = "each test uses its part")]

pub mod generate;
pub mod tools;
