//! Archives of PyTorch, and the pickles in them.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tile_fuzz::torch(bytes));
