//! How large the processor's caches are. Only speed depends on it, never a result.

use std::sync::LazyLock;

/// Bytes.
pub struct Caches {
    /// Of a core's second level.
    pub second: usize,
    /// Of the last level.
    pub last: usize,
}

/// What is assumed of a processor that doesn't say.
const USUAL: Caches = Caches { second: 512 << 10, last: 32 << 20 };

/// This machine's, within reason.
pub static CACHES: LazyLock<Caches> = LazyLock::new(|| {
    let size = |level: u8, usual: usize| told(level).map_or(usual, |told| told.clamp(usual / 2, usual * 16));
    Caches { second: size(2, USUAL.second), last: size(3, USUAL.last) }
});

#[cfg(target_arch = "x86_64")]
fn told(level: u8) -> Option<usize> {
    use raw_cpuid::CacheType::Instruction;
    let mut caches = raw_cpuid::CpuId::new().get_cache_parameters()?;
    let cache = caches.find(|cache| cache.level() == level && cache.cache_type() != Instruction)?;
    let lines = cache.associativity() * cache.physical_line_partitions() * cache.sets();
    Some(lines * cache.coherency_line_size())
}

#[cfg(not(target_arch = "x86_64"))]
fn told(_level: u8) -> Option<usize> {
    None
}
