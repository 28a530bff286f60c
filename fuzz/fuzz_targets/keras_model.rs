//! Configurations of Keras models, which become programs.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tile_fuzz::keras_model(bytes));
