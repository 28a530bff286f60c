//! HDF5 files of Keras.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tile_fuzz::weights("w.weights.h5", bytes));
