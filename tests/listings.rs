//! Hand-written kernels in every shading language, as other people's tools see them.

mod common;

use std::fs;
use std::path::Path;

use tile_compiler::kernel::Kernel;

#[test]
fn listings_pass_the_tools_of_every_language() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut kernels = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let kernel = Kernel::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        kernel.verify().unwrap();
        assert_eq!(kernel.to_string(), text);
        kernels.push(kernel);
    }
    common::tools::check(&kernels);
}
