use super::*;
use crate::Device;
use crate::backend::block_on;
use tile_compiler::kernel::Kernel;

/// The adapter's claimed features are confirmed. With a faulty input, a probe fails and the feature
/// is removed.
#[test]
fn features_hold_unless_their_products_are_wrong() {
    let device = Device::named("wgpu:0");
    let Some(gpu) = device.as_ref().ok().and_then(Gpu::of) else {
        println!("note: there is no adapter");
        return;
    };
    assert_eq!(gpu.refuted, [""; 0]);
    for mut probe in probes(&gpu.profile) {
        println!("{}", probe.feature);
        assert_eq!(block_on(holds(gpu, &probe)), Some(true), "{}", probe.feature);
        probe.inputs[0][4] ^= 1;
        assert_eq!(block_on(holds(gpu, &probe)), Some(false), "{} with a fault", probe.feature);
        let mut profile = gpu.profile.clone();
        leave_out(&mut profile, &[&probe.feature]);
        assert!(probes(&profile).iter().all(|other| other.feature != probe.feature));
    }
}

/// A process reads the verdicts of an earlier one.
#[test]
fn verdicts_are_read_again() {
    let units = Profile::apple().matrices;
    let features = [F16.to_owned(), INT64.to_owned(), SUBGROUPS.to_owned(), matrices(&units[0])];
    let text: String =
        features.iter().map(|feature| format!("{feature} {}\n", feature != F16)).collect();
    let verdicts: Vec<(String, bool)> = parse(&text).collect();
    assert_eq!(verdicts, features.map(|feature| (feature.clone(), feature != F16)));
    let mut profile = Profile::apple();
    leave_out(&mut profile, &[SUBGROUPS]);
    assert!(!profile.subgroups && profile.matrices.is_empty() && profile.f16);
}

/// Matrix probes are kernels that the compiler could emit, although no adapter here supports
/// matrices.
#[test]
fn probes_are_kernels() {
    let units = [(8, DType::F32, 32), (8, DType::F16, 32), (16, DType::F16, 64)];
    let matrices =
        units.map(|(size, factors, subgroup)| MatrixUnit { size, factors, subgroup }).to_vec();
    for probe in probes(&Profile { matrices, int64: true, f64: true, ..Profile::apple() }) {
        let kernel = Kernel::parse(&probe.kernel)
            .unwrap_or_else(|error| panic!("{error}\n{}", probe.kernel));
        tile_compiler::emit::module(&kernel).unwrap_or_else(|error| panic!("{error}"));
    }
}
