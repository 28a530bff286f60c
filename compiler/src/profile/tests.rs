use super::{Execution, Profile};

fn all() -> impl Iterator<Item = Profile> {
    Profile::fixed_names().map(|name| Profile::fixed(name).unwrap())
}

fn gpus() -> impl Iterator<Item = Profile> {
    all().filter(|profile| profile.execution == Execution::Shader)
}

#[test]
fn each_name_has_its_own_profile() {
    for name in Profile::fixed_names() {
        let profile = Profile::fixed(name).unwrap();
        assert_eq!([&profile.name, &profile.family], [name; 2]);
    }
    let mut names: Vec<&str> = Profile::fixed_names().collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Profile::fixed_names().count());
    assert_eq!(Profile::fixed("abacus"), None);
}

/// The kernels of `generic` run everywhere, and those of a family on what has its limits.
#[test]
fn every_family_covers_generic() {
    for profile in gpus() {
        assert!(profile.covers(&Profile::generic()), "{}", profile.name);
        assert!(profile.covers(&profile), "{}", profile.name);
        assert!(!profile.covers(&Profile::cpu()), "{}", profile.name);
        let max_shared_bytes = profile.max_shared_bytes - 1;
        assert!(!Profile { max_shared_bytes, ..profile.clone() }.covers(&profile));
        let max_buffer_bytes = profile.max_buffer_bytes - 1;
        assert!(!Profile { max_buffer_bytes, ..profile.clone() }.covers(&profile));
    }
    assert!(!Profile::generic().covers(&Profile::amd_rdna()));
    assert!(!Profile { f16: false, ..Profile::nvidia() }.covers(&Profile::nvidia()));
    assert!(!Profile { matrices: Vec::new(), ..Profile::apple() }.covers(&Profile::apple()));
}

/// A core holds the largest workgroup with all its memory, in whole subgroups.
#[test]
fn a_core_holds_every_workgroup() {
    for Profile { name, max_invocations, max_workgroup, max_shared_bytes, rates, .. } in gpus() {
        let core = rates.core;
        assert!(max_invocations <= core.invocations, "{name}");
        assert!(max_shared_bytes <= core.shared_bytes, "{name}");
        assert!(max_workgroup.iter().all(|&size| (1..=max_invocations).contains(&size)), "{name}");
        assert!(core.subgroup.is_power_of_two() && core.subgroup <= 256, "{name}");
        assert!(core.subgroup * core.units <= core.invocations, "{name}");
        // With the most registers, each unit still has a subgroup.
        let most = u64::from(core.most_registers.min(256));
        let least = most * u64::from(core.subgroup * core.units);
        assert!(least <= u64::from(core.registers), "{name}");
    }
}

#[test]
fn rates_are_of_one_device() {
    for Profile { name, rates, .. } in gpus() {
        assert!(rates.cores > 0 && rates.launch > 0.0, "{name}");
        assert!(rates.memory < rates.cache && rates.cache < rates.flops, "{name}");
        // From 1/8 to 1 byte of workgroup memory for each operation.
        assert!((0.125..=1.0).contains(&rates.core.shared_rate), "{name}");
    }
}
