//! Tables of samples.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tile_fuzz::samples("table.csv", bytes));
