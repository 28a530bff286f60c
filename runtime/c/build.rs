//! Names the shared library, so that apps load the version that they were linked with.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let major = env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    let option = match target.as_str() {
        "macos" | "ios" => "-Wl,-install_name,@rpath/libtile.dylib".to_owned(),
        "linux" | "android" | "freebsd" => format!("-Wl,-soname,libtile.so.{major}"),
        _ => return,
    };
    println!("cargo:rustc-cdylib-link-arg={option}");
}
