//! Each function of a program on its way to plans for a shader device and a cpu, with a size of 3
//! for each dimension.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| tile_fuzz::plan(text));
