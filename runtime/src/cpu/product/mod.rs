//! Sums of products, with the sums in vector registers.
//!
//! [`gemm`] is the packed matrix product: it knows nothing of nests. [`contraction`] runs a nest by
//! it, whose operands [`places`] describes, and [`guarded`] repairs sums that are NaN because of
//! terms that do not count. [`winograd`] runs convolutions with fewer multiplications, and
//! [`direct`] short reductions without packing. Each ends with the nest's epilogue, a job of the
//! vector loops.

#[expect(unsafe_code, reason = "threads write parts of one output")]
pub mod contraction;
#[expect(unsafe_code, reason = "kernels read and write at addresses")]
pub mod direct;
#[expect(unsafe_code, reason = "kernels read and write at addresses")]
pub mod gemm;
pub mod guarded;
pub mod places;
#[expect(unsafe_code, reason = "kernels read and write at addresses")]
pub mod winograd;
