//! The sizes of the processor's caches. They affect speed only, never a result.

use std::sync::LazyLock;

/// Cache sizes in bytes.
pub struct Caches {
    /// The first-level data cache of one core.
    pub first: usize,
    /// The second-level cache of one core.
    pub second: usize,
    /// The last-level cache.
    pub last: usize,
}

/// The sizes assumed where the processor does not report them.
const USUAL: Caches = Caches { first: 32 << 10, second: 512 << 10, last: 32 << 20 };

/// The sizes of this machine's caches, clamped to a plausible range.
pub static CACHES: LazyLock<Caches> = LazyLock::new(|| {
    let size = |level: u8, usual: usize| {
        told(level).map_or(usual, |told| told.clamp(usual / 2, usual * 16))
    };
    Caches { first: size(1, USUAL.first), second: size(2, USUAL.second), last: size(3, USUAL.last) }
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
