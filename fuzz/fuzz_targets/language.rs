//! The lexer, the parser, the checker and the rendering of their diagnostics.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let checked = tile_lang::check(text);
    tile_lang::render(&checked.diagnostics, &checked.sources, false);
});
