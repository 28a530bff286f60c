//! Names the shared library, so that apps load the version that they were linked with.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let part = |name: &str| env::var(format!("CARGO_PKG_VERSION_{name}")).unwrap_or_default();
    // Before 1.0, a minor version may break.
    let version = match part("MAJOR").as_str() {
        "0" => format!("0.{}", part("MINOR")),
        major => major.to_owned(),
    };
    let option = match target.as_str() {
        "macos" | "ios" => "-Wl,-install_name,@rpath/libtile.dylib".to_owned(),
        "linux" | "android" | "freebsd" => format!("-Wl,-soname,libtile.so.{version}"),
        _ => return,
    };
    println!("cargo:rustc-cdylib-link-arg={option}");
}
