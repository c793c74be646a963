//! The instruction set that a writer uses.
//!
//! Found once per process by asking the processor itself, so that it works without std as well.
//! Nothing else is remembered between calls: the answer is a property of the machine.

#[cfg(target_arch = "x86_64")]
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// An instruction set that the vector writers know how to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Path {
    /// Plain Rust: every architecture has it, and nothing else has it on architectures other than
    /// x86-64.
    Portable,
    /// 16-byte vectors: every x86-64.
    Sse2,
    /// 32-byte vectors.
    Avx2,
}

impl Path {
    /// Every path, the plainest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Sse2, Self::Avx2];

    /// The best path of this processor.
    ///
    /// Under Miri, which has no vector stores, it is always [`Path::Portable`].
    pub fn detect() -> Self {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            static FOUND: AtomicU8 = AtomicU8::new(0);
            // Relaxed: the value stands alone, and whoever loses the race stores the same one.
            match FOUND.load(Ordering::Relaxed) {
                2 => Self::Avx2,
                1 => Self::Sse2,
                _ => {
                    let avx2 = cpu::has_avx2();
                    FOUND.store(1 + u8::from(avx2), Ordering::Relaxed);
                    if avx2 { Self::Avx2 } else { Self::Sse2 }
                }
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        Self::Portable
    }

    /// This path where the processor has it, else the best one that it has.
    #[must_use]
    pub fn or_best(self) -> Self {
        self.min(Self::detect())
    }
}

/// The size of the last-level cache in bytes as the processor states it, or `None` where it does
/// not say.
///
/// In a virtual machine this is what the hypervisor claims, often the whole socket's.
pub fn last_level_cache() -> Option<u64> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        /// Not asked yet. No cache has this size.
        const UNKNOWN: u64 = u64::MAX;
        static FOUND: AtomicU64 = AtomicU64::new(UNKNOWN);
        let mut bytes = FOUND.load(Ordering::Relaxed);
        if bytes == UNKNOWN {
            bytes = cpu::last_level_cache();
            FOUND.store(bytes, Ordering::Relaxed);
        }
        (bytes != 0).then_some(bytes)
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    None
}

/// Questions to an x86-64 processor.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod cpu {
    use core::arch::asm;
    use core::arch::x86_64::{__cpuid_count, CpuidResult};

    fn cpuid(leaf: u32, sub: u32) -> CpuidResult {
        #[allow(
            unused_unsafe,
            reason = "safe to call in newer standard libraries only"
        )]
        // SAFETY: every x86-64 processor has the instruction.
        unsafe {
            __cpuid_count(leaf, sub)
        }
    }

    /// Whether the processor has AVX2 and the system saves its registers.
    pub(super) fn has_avx2() -> bool {
        const OSXSAVE_AND_AVX: u32 = 1 << 27 | 1 << 28;
        const AVX2: u32 = 1 << 5;
        const XMM_AND_YMM: u32 = 1 << 1 | 1 << 2;
        if cpuid(0, 0).eax < 7 || cpuid(1, 0).ecx & OSXSAVE_AND_AVX != OSXSAVE_AND_AVX {
            return false;
        }
        let enabled: u32;
        // SAFETY: OSXSAVE is set, so the instruction exists and register 0 may be read.
        unsafe {
            asm!("xgetbv", in("ecx") 0, out("eax") enabled, out("edx") _,
                options(nomem, nostack, preserves_flags));
        }
        enabled & XMM_AND_YMM == XMM_AND_YMM && cpuid(7, 0).ebx & AVX2 != 0
    }

    /// Bytes of the largest data cache listed by the deterministic cache leaf, 0 where there is
    /// none.
    pub(super) fn last_level_cache() -> u64 {
        /// Intel's leaf and AMD's, which has the same form.
        const LEAVES: [(u32, u32); 2] = [(0, 4), (0x8000_0000, 0x8000_001d)];
        let mut largest = 0;
        for (base, leaf) in LEAVES {
            let highest = cpuid(base, 0).eax;
            if highest < leaf || highest > leaf + 0x1000 {
                continue;
            }
            for sub in 0..16 {
                let cache = cpuid(leaf, sub);
                let kind = cache.eax & 0x1f;
                if kind == 0 {
                    break;
                }
                if kind == 2 {
                    continue;
                }
                let ways = u64::from(cache.ebx >> 22) + 1;
                let partitions = u64::from(cache.ebx >> 12 & 0x3ff) + 1;
                let line = u64::from(cache.ebx & 0xfff) + 1;
                let sets = u64::from(cache.ecx) + 1;
                largest = largest.max(ways * partitions * line * sets);
            }
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_never_better_than_what_the_processor_has() {
        for path in Path::ALL {
            assert!(path.or_best() <= Path::detect());
            assert!(path.or_best() <= path);
        }
        assert_eq!(Path::Portable.or_best(), Path::Portable);
    }

    #[cfg(all(target_arch = "x86_64", not(miri), feature = "std"))]
    #[test]
    fn our_own_detection_agrees_with_the_standard_library() {
        let std = std::arch::is_x86_feature_detected!("avx2");
        assert_eq!(Path::detect() == Path::Avx2, std);
        assert_eq!(Path::detect(), Path::detect());
    }

    #[test]
    fn a_last_level_cache_has_a_believable_size() {
        let Some(bytes) = last_level_cache() else {
            captures::skipped("this processor does not say how large its caches are");
            return;
        };
        assert!((32 << 10..16 << 30).contains(&bytes), "{bytes}");
    }
}
