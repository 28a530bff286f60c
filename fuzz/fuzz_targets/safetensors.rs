//! safetensors files.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tile_fuzz::weights("w.safetensors", bytes));
