//! The process's peak memory, on Linux only.

const STATUS: &str = "/proc/self/status";
const CLEAR: &str = "/proc/self/clear_refs";

/// Returns the most bytes resident since the process started, or since [`forget_peak`].
pub fn peak() -> Option<u64> {
    let status = std::fs::read_to_string(STATUS).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Resets the peak, if the kernel permits it.
pub fn forget_peak() {
    // 5 resets the peak: see proc_pid_clear_refs(5).
    let _ = std::fs::write(CLEAR, "5");
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_large_block_counts() {
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(peak().unwrap() >= block.len() as u64);
    }
}
