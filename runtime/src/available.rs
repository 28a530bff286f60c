//! The memory that this process may still take, as the system says.

/// Returns the bytes that this process may still take: what is left of the machine's memory, of the
/// process' control groups or of its address space, whichever is least. Returns `None` if the
/// system does not say.
#[cfg(target_os = "linux")]
pub fn available() -> Option<u64> {
    linux::available()
}

/// Returns the bytes that are left of the machine's memory.
#[cfg(any(target_os = "macos", target_os = "windows"))]
pub fn available() -> Option<u64> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    Some(system.available_memory().saturating_add(system.free_swap())).filter(|bytes| *bytes > 0)
}

/// Returns `None`: nothing is known of this system.
#[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "windows")))]
pub fn available() -> Option<u64> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::read_to_string;
    use std::path::Path;

    pub fn available() -> Option<u64> {
        let read = |path: &str| read_to_string(path).ok();
        let machine = read("/proc/meminfo").and_then(|text| of_machine(&text));
        let groups = read("/proc/self/cgroup")
            .and_then(|text| of_groups(&text, Path::new("/sys/fs/cgroup")));
        let limits = read("/proc/self/limits").zip(read("/proc/self/status"));
        let space = limits.and_then(|(limits, status)| of_address_space(&limits, &status));
        [machine, groups, space].into_iter().flatten().min()
    }

    /// Returns the bytes of a line such as `MemAvailable:   22000 kB`.
    fn kilobytes(text: &str, key: &str) -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    }

    /// Reads `/proc/meminfo`. Swap counts: it is slow, but it is there.
    pub fn of_machine(meminfo: &str) -> Option<u64> {
        let swap = kilobytes(meminfo, "SwapFree").unwrap_or(0);
        Some(kilobytes(meminfo, "MemAvailable")?.saturating_add(swap))
    }

    /// Reads `/proc/self/limits` and `/proc/self/status`. Returns `None` if the address space has
    /// no limit.
    pub fn of_address_space(limits: &str, status: &str) -> Option<u64> {
        let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
        let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(limit.saturating_sub(kilobytes(status, "VmSize")?))
    }

    /// Reads `/proc/self/cgroup`, and returns the least that is left in any control group around
    /// the process. `root` is where groups of version 2, or the controllers of version 1, are
    /// mounted.
    pub fn of_groups(groups: &str, root: &Path) -> Option<u64> {
        let left = |line: &str| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let (root, names) = match controllers {
                "" => (
                    root.to_owned(),
                    ["memory.max", "memory.current", "inactive_file", "active_file"],
                ),
                _ if controllers.split(',').any(|name| name == "memory") => (
                    root.join("memory"),
                    [
                        "memory.limit_in_bytes",
                        "memory.usage_in_bytes",
                        "total_inactive_file",
                        "total_active_file",
                    ],
                ),
                _ => return None,
            };
            // In a container the path may be that of the host, and the group the root.
            let path = Path::new(path.trim_start_matches('/'));
            path.ancestors().filter_map(|path| of_group(&root.join(path), names)).min()
        };
        groups.lines().filter_map(left).min()
    }

    /// Returns what is left in one group. Its cached pages of files can be dropped.
    fn of_group(group: &Path, [limit, usage, inactive, active]: [&str; 4]) -> Option<u64> {
        let number = |name: &str| read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
        let limit = number(limit)?;
        let statistics = read_to_string(group.join("memory.stat")).unwrap_or_default();
        let statistic = |key: &str| {
            let value =
                statistics.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            value.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        let used = number(usage)
            .unwrap_or(0)
            .saturating_sub(statistic(inactive))
            .saturating_sub(statistic(active));
        Some(limit.saturating_sub(used))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::linux::{of_address_space, of_groups, of_machine};
    use super::*;

    #[test]
    fn the_least_of_what_is_left_counts() {
        let meminfo = "MemTotal:       24000 kB\nMemFree: 1000 kB\nMemAvailable:   20000 kB\nSwapFree:  5 kB\n";
        assert_eq!(of_machine(meminfo), Some(20005 * 1024));
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max address space         1000000              unlimited            bytes     \n";
        assert_eq!(
            of_address_space(limits, "VmPeak: 800 kB\nVmSize:\t     100 kB\n"),
            Some(1_000_000 - 102_400)
        );
        assert_eq!(of_address_space(&limits.replace("1000000", "unlimited"), "VmSize: 1 kB"), None);
        assert!(available().is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn each_control_group_around_the_process_has_a_limit() {
        let root = std::env::temp_dir().join(format!("tilec-test-{}-groups", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/memory.max", "1000\n");
        write("a/memory.current", "900\n");
        write("a/memory.stat", "anon 100\ninactive_file 300\nactive_file 50\n");
        write("a/b/memory.max", "max\n");
        assert_eq!(of_groups("0::/a/b\n", &root), Some(450));
        write("memory/memory.limit_in_bytes", "5000\n");
        write("memory/memory.usage_in_bytes", "4900\n");
        assert_eq!(of_groups("5:cpu,memory:/docker/x\n0::/\n", &root), Some(100));
        assert_eq!(of_groups("1:cpu:/\n", &root), None);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
