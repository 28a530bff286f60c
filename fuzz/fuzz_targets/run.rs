//! Small programs run on the cpu device, and give what the reference gives.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| tile_fuzz::run(text));
