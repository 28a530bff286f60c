use super::*;

/// Returns the profile of an adapter of this vendor, with subgroups of at least `subgroup`.
fn adapter(vendor: u32, device_type: DeviceType, subgroup: u32, features: Features) -> Profile {
    let info = AdapterInfo {
        vendor,
        subgroup_min_size: subgroup,
        subgroup_max_size: 64,
        ..AdapterInfo::new(device_type, Backend::Vulkan)
    };
    profile(&info, &Limits::default(), features)
}

#[test]
fn adapters_have_the_rates_of_their_family() {
    let (discrete, integrated) = (DeviceType::DiscreteGpu, DeviceType::IntegratedGpu);
    let matrices = Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
    for (vendor, device_type, subgroup, features, family) in [
        (0x1002, discrete, 64, Features::empty(), "amd-gcn"),
        (0x1002, discrete, 32, Features::empty(), "amd-rdna"),
        (0x1002, discrete, 32, matrices, "amd-rdna3"),
        (0x10de, discrete, 32, matrices, "nvidia"),
        (0x8086, integrated, 8, Features::empty(), "intel-xe"),
        (0x5143, integrated, 64, Features::empty(), "mobile"),
        (0x13b5, integrated, 16, Features::empty(), "mobile"),
    ] {
        let profile = adapter(vendor, device_type, subgroup, features);
        assert_eq!(profile.family, family);
        assert_eq!(profile.rates, Profile::fixed(family).unwrap().rates);
        // The limits are the adapter's own.
        assert_eq!(
            profile.max_invocations,
            Limits::default().max_compute_invocations_per_workgroup
        );
    }
}

/// A graphics unit within a processor has the cores of its family, and fewer of them.
#[test]
fn other_types_have_the_cores_of_their_family() {
    let profile = adapter(0x1002, DeviceType::IntegratedGpu, 64, Features::empty());
    let typical = adapter(0, DeviceType::IntegratedGpu, 64, Features::empty()).rates;
    let core = Profile::amd_gcn().rates.core;
    assert_eq!(profile.rates, Rates { core, ..typical });
    assert_ne!(profile.rates, typical);
}

/// Software adapters, such as llvmpipe, and unknown vendors have typical rates.
#[test]
fn software_and_unknown_vendors_have_no_family() {
    for vendor in [0x10005, 0x1002, 0x10de, 0x8086, 0x1414] {
        for device_type in [DeviceType::Cpu, DeviceType::Other] {
            let profile = adapter(vendor, device_type, 8, Features::empty());
            assert_eq!((profile.family.as_str(), profile.rates), ("generic", Rates::GPU));
        }
    }
    let unknown = adapter(0xffff, DeviceType::DiscreteGpu, 32, Features::empty());
    assert_eq!((unknown.family.as_str(), unknown.rates.core), ("generic", Rates::GPU.core));
}
