//! Pairs of idx files, plain and compressed: the first half of the input is the images, the other
//! half the labels.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tile_fuzz::idx(bytes));
