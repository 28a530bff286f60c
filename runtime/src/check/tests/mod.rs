//! Kernels in WGSL. Correct ones pass and give the right values, each kind of fault is caught and
//! reported readably, and operators and functions follow WGSL on special values.

mod faults;
mod kernels;
mod semantics;

use super::*;

/// Runs the entry point `main` of a WGSL module.
fn run_wgsl(
    source: &str,
    workgroups: [u32; 3],
    buffers: &mut [Vec<u8>],
    options: &Options,
) -> std::result::Result<Vec<Unwritten>, Box<Fault>> {
    let module = naga::front::wgsl::parse_str(source).expect("the test's WGSL");
    run(&module, "main", workgroups, buffers, options)
}

fn bytes_of_f32(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn bytes_of_u32(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn u32_of(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect()
}

fn f32_of(bytes: &[u8]) -> Vec<f32> {
    u32_of(bytes).into_iter().map(f32::from_bits).collect()
}
