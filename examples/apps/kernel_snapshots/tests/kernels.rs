//! The kernels of the filter for Macs and for browsers.

use kernel_snapshots::SHARPEN;
use tile_runtime::{Model, Target};

#[test]
fn kernels() {
    let model = Model::compile(SHARPEN).unwrap();
    for target in [Target::Msl, Target::Wgsl] {
        for kernel in
            model.on_target("generic").dim("H", 480).dim("W", 640).listing(target).unwrap()
        {
            insta::assert_snapshot!(format!("{}.{}", kernel.name, target.name()), kernel.source);
        }
    }
}
