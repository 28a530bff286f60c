//! (head to come)

pub mod affine;
