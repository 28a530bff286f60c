//! The formatter: the formatted text is its own format, and checks as the text did.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Some(once) = tile_fuzz::formatted(text) else { return };
    let twice = tile_fuzz::formatted(&once).expect("a formatted text parses");
    assert_eq!(once, twice, "the format of a formatted text");
    assert_eq!(tile_fuzz::is_right(text), tile_fuzz::is_right(&once), "checked before and after");
});
