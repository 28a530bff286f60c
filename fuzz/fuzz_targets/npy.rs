//! `.npy` files.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = tile_runtime::data::npy::read(bytes);
});
