//! From a nest to how it runs: the choice of template and tile sizes, and the kernel that follows from it.

/// How the axes of a nest map to workgroups, invocations and loops.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// The cpu device's executor chooses by the nest's roles.
    Native,
    /// One invocation computes `width` places that follow each other along the last free axis, its reduction in a loop.
    Pointwise { workgroup: u32, width: u8 },
    /// A workgroup computes one place: its invocations stride over the reduction and combine in a tree.
    Reduction { workgroup: u32 },
    /// Workgroup tiles and register tiles of a product of two operands: see [`Tiling`].
    Contraction(Tiling),
}

/// The tile sizes of a contraction; rows, columns and reduction are the flattened axes of each role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiling {
    /// Rows and columns that a workgroup computes.
    pub block_rows: u32,
    pub block_columns: u32,
    /// Reduction points staged in workgroup memory at a time.
    pub block_reduction: u32,
    /// Rows and columns that an invocation computes in registers.
    pub thread_rows: u32,
    pub thread_columns: u32,
}
