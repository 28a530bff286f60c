//! `include/tile.h` is what cbindgen makes of this crate.

use std::path::Path;
use std::{env, fs};

/// With `TILE_WRITE_HEADER=1` in the environment, it is written.
#[test]
fn header_is_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let sources = ["status", "dtype", "model", "session", "port"];
    let builder = sources.iter().fold(cbindgen::Builder::new(), |builder, name| {
        builder.with_src(folder.join(format!("src/{name}.rs")))
    });
    let mut made = Vec::new();
    builder.with_config(config).generate().unwrap().write(&mut made);
    let path = folder.join("include/tile.h");
    if env::var_os("TILE_WRITE_HEADER").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let made = String::from_utf8(made).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), made, "run it with TILE_WRITE_HEADER=1");
}
