//! The page flags and their numbers.
//!
//! A flag whose option is off does not exist, and those after it move down; so numbers are
//! counted, not listed.

use crate::profile::{FlagNumbers, KasanTags, KernelConfig};

macro_rules! page_flags {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A page flag.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[doc(alias = "pageflags")]
        #[non_exhaustive]
        pub enum PageFlag {
            $($(#[$doc])* $variant,)*
        }

        impl PageFlag {
            /// Linux's name, in lower case and without its prefix.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

page_flags! {
    /// Locked against others.
    Locked = "locked",
    /// Used lately.
    Referenced = "referenced",
    /// Its content is valid.
    Uptodate = "uptodate",
    /// Its content must be written back.
    Dirty = "dirty",
    /// On a reclaim list.
    Lru = "lru",
    /// On the active list.
    Active = "active",
    /// Was evicted and came back soon.
    Workingset = "workingset",
    /// Somebody waits for it.
    Waiters = "waiters",
    /// Input or output failed.
    Error = "error",
    /// Belongs to the slab allocator.
    Slab = "slab",
    /// For its owner.
    OwnerPriv1 = "owner_priv_1",
    /// For its owner.
    Owner2 = "owner_2",
    /// For the architecture.
    Arch1 = "arch_1",
    /// Not for the page allocator.
    #[doc(alias = "PG_reserved")]
    Reserved = "reserved",
    /// Has private data.
    Private = "private",
    /// Has more private data.
    Private2 = "private_2",
    /// Is being written back.
    Writeback = "writeback",
    /// The first of a compound page.
    #[doc(alias = "PG_head")]
    Head = "head",
    /// Has blocks on disk.
    MappedToDisk = "mappedtodisk",
    /// To be reclaimed soon.
    Reclaim = "reclaim",
    /// Backed by memory or swap.
    SwapBacked = "swapbacked",
    /// Must not be reclaimed.
    Unevictable = "unevictable",
    /// To be dropped after writing.
    DropBehind = "dropbehind",
    /// Locked into memory.
    Mlocked = "mlocked",
    /// Mapped without cache.
    Uncached = "uncached",
    /// The hardware reported it as broken.
    HwPoison = "hwpoison",
    /// Touched since idle tracking looked.
    Young = "young",
    /// Not touched since idle tracking looked.
    Idle = "idle",
    /// For the architecture.
    Arch2 = "arch_2",
    /// For the architecture.
    Arch3 = "arch_3",
    /// Not to be poisoned by the memory checker.
    SkipKasanPoison = "skip_kasan_poison",
}

use PageFlag::*;

const V6_1: &[PageFlag] = &[
    Locked,
    Referenced,
    Uptodate,
    Dirty,
    Lru,
    Active,
    Workingset,
    Waiters,
    Error,
    Slab,
    OwnerPriv1,
    Arch1,
    Reserved,
    Private,
    Private2,
    Writeback,
    Head,
    MappedToDisk,
    Reclaim,
    SwapBacked,
    Unevictable,
    Mlocked,
    Uncached,
    HwPoison,
    Young,
    Idle,
    Arch2,
    SkipKasanPoison,
];

const V6_12: &[PageFlag] = &[
    Locked,
    Writeback,
    Referenced,
    Uptodate,
    Dirty,
    Lru,
    Head,
    Waiters,
    Active,
    Workingset,
    OwnerPriv1,
    Owner2,
    Arch1,
    Reserved,
    Private,
    Private2,
    Reclaim,
    SwapBacked,
    Unevictable,
    Mlocked,
    HwPoison,
    Young,
    Idle,
    Arch2,
    Arch3,
];

const V6_18: &[PageFlag] = &[
    Locked,
    Writeback,
    Referenced,
    Uptodate,
    Dirty,
    Lru,
    Head,
    Waiters,
    Active,
    Workingset,
    OwnerPriv1,
    Owner2,
    Arch1,
    Reserved,
    Private,
    Private2,
    Reclaim,
    SwapBacked,
    Unevictable,
    DropBehind,
    Mlocked,
    HwPoison,
    Young,
    Idle,
    Arch2,
    Arch3,
];

/// The flags that a configuration has, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageFlagNumbers {
    flags: [Option<PageFlag>; 32],
    len: u8,
}

impl PageFlagNumbers {
    /// The numbers under `config`.
    pub fn of(config: &KernelConfig) -> Self {
        let order = match config.behaviours.flag_numbers {
            FlagNumbers::V6_1 => V6_1,
            FlagNumbers::V6_12 => V6_12,
            FlagNumbers::V6_18 => V6_18,
        };
        let options = &config.flag_options;
        let exists = |flag: PageFlag| match flag {
            Mlocked => options.mmu,
            Uncached => options.uncached,
            HwPoison => options.memory_failure,
            Young | Idle => options.page_idle,
            Arch2 => options.arch_2,
            Arch3 => options.arch_3,
            SkipKasanPoison => config.kasan == KasanTags::Hardware,
            _ => true,
        };
        let mut numbers = Self {
            flags: [None; 32],
            len: 0,
        };
        for &flag in order.iter().filter(|flag| exists(**flag)) {
            numbers.flags[numbers.len as usize] = Some(flag);
            numbers.len += 1;
        }
        numbers
    }

    /// How many flags there are.
    #[doc(alias = "__NR_PAGEFLAGS")]
    pub const fn count(&self) -> u32 {
        self.len as u32
    }

    /// The number of `flag`, or `None` where it does not exist.
    pub fn bit(&self, flag: PageFlag) -> Option<u32> {
        let at = self.flags.iter().position(|f| *f == Some(flag))?;
        Some(at as u32)
    }

    /// `1 << bit`, or 0 where `flag` does not exist.
    pub fn mask(&self, flag: PageFlag) -> u64 {
        self.bit(flag).map_or(0, |bit| 1 << bit)
    }

    /// The flags by number, from 0.
    pub fn iter(&self) -> impl Iterator<Item = PageFlag> + '_ {
        self.flags.iter().map_while(|flag| *flag)
    }
}

impl core::fmt::Debug for PageFlagNumbers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
