//! ONNX files on their way to a plan for a cpu.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tile_fuzz::import(bytes));
