//! NumPy archives, as weights and as samples.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    tile_fuzz::weights("w.npz", bytes);
    tile_fuzz::samples("w.npz", bytes);
});
