//! Memory maps in the device's own memory.
//!
//! The first pages of a device may hold the struct pages of all the others: `reserve` pages that
//! belong to somebody else (a namespace's description), then `free` pages from which blocks are
//! taken. Nothing is given back one by one in Linux but as a number of pages.

use memblock::{Pfn, PfnRange};
use memmap_core::KernelConfig;

/// Pages of a device set apart for its memory map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "vmem_altmap")]
pub struct Altmap {
    base: Pfn,
    reserve: u64,
    free: u64,
    align: u64,
    alloc: u64,
}

/// An altmap has not the pages that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{pages} pages and {padding} to align them are more than the {left} pages that are left of \
     {free}"
)]
pub struct AltmapFull {
    /// Pages that were asked for.
    pub pages: u64,
    /// Pages that alignment would waste.
    pub padding: u64,
    /// Pages that are left.
    pub left: u64,
    /// Pages that there were.
    pub free: u64,
}

/// Bytes that a namespace keeps for its description, before the memory map.
const NAMESPACE_BYTES: u64 = 8 << 10;
/// What the start of a namespace's data is a multiple of, in bytes.
const DATA_ALIGN: u64 = 2 << 20;

impl Altmap {
    /// `reserve` pages from `base` on that stay untouched, then `free` pages to take from.
    pub const fn new(base: Pfn, reserve: u64, free: u64) -> Self {
        Self {
            base,
            reserve,
            free,
            align: 0,
            alloc: 0,
        }
    }

    /// The altmap that a namespace with its memory map on the device gets for the frames `pfns`:
    /// 8 KiB for its description, room for 64 bytes a page, and what is missing to the next
    /// multiple of 2 MiB.
    pub fn of_namespace(pfns: PfnRange, config: &KernelConfig) -> Self {
        let page = config.page_size();
        let reserve = NAMESPACE_BYTES.div_ceil(page);
        let bytes = (reserve * page)
            .saturating_add(pfns.len().saturating_mul(64))
            .checked_next_multiple_of(DATA_ALIGN.max(page))
            .unwrap_or(u64::MAX);
        Self::new(pfns.start(), reserve, bytes / page - reserve)
    }

    /// The first page.
    #[doc(alias = "base_pfn")]
    pub const fn base(&self) -> Pfn {
        self.base
    }

    /// Pages that belong to somebody else.
    pub const fn reserve(&self) -> u64 {
        self.reserve
    }

    /// Pages to take from, as they were at first.
    pub const fn free(&self) -> u64 {
        self.free
    }

    /// Pages that alignment wasted.
    pub const fn align(&self) -> u64 {
        self.align
    }

    /// Pages that were taken.
    pub const fn alloc(&self) -> u64 {
        self.alloc
    }

    /// Pages before the device's own: reserved and free ones.
    #[doc(alias = "vmem_altmap_offset")]
    pub const fn offset(&self) -> u64 {
        self.reserve.saturating_add(self.free)
    }

    /// Takes a block of `pages` pages, aligned to the largest power of two that divides their
    /// number.
    ///
    /// Linux: mm/sparse-vmemmap.c, `altmap_alloc_block_buf`.
    ///
    /// # Errors
    /// [`AltmapFull`]; nothing is taken then.
    #[doc(alias = "altmap_alloc_block_buf")]
    pub fn take(&mut self, pages: u64) -> Result<Pfn, AltmapFull> {
        let used = self.alloc + self.align;
        let next = self.base.get() + self.reserve + used;
        let unit = 1 << pages.trailing_zeros().min(63);
        let padding = next.next_multiple_of(unit) - next;
        let left = self.free.saturating_sub(used);
        if pages == 0 || pages.saturating_add(padding) > left {
            return Err(AltmapFull {
                pages,
                padding,
                left,
                free: self.free,
            });
        }
        self.alloc += pages;
        self.align += padding;
        Ok(Pfn::new(next + padding))
    }

    /// Gives back `pages` pages, at most those that were taken. What alignment wasted stays so
    /// until all is given back.
    ///
    /// # Differences from Linux
    /// Linux forgets the whole altmap when its device goes; here it can serve again.
    #[doc(alias = "vmem_altmap_free")]
    pub fn give_back(&mut self, pages: u64) {
        self.alloc = self.alloc.saturating_sub(pages);
        if self.alloc == 0 {
            self.align = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memmap_core::{KernelVersion, Profile};

    #[test]
    fn the_captured_namespace_is_used_up_exactly() {
        let pfns = PfnRange::new(Pfn::new(0x10_0000), Pfn::new(0x14_0000));
        let profile = Profile::amd64(KernelVersion::V6_12);
        let mut altmap = Altmap::of_namespace(pfns, &profile);
        assert_eq!((altmap.reserve(), altmap.free()), (2, 4606));
        for block in 0..8 {
            let at = Pfn::new(0x10_0200 + block * 512);
            assert_eq!(altmap.take(512), Ok(at));
        }
        assert_eq!((altmap.align(), altmap.alloc()), (510, 4096));
        assert_eq!(altmap.offset(), 0x1200);
        assert_eq!(
            altmap.take(1),
            Err(AltmapFull {
                pages: 1,
                padding: 0,
                left: 0,
                free: 4606
            })
        );
        altmap.give_back(4096);
        assert_eq!(altmap, Altmap::of_namespace(pfns, &profile));
    }

    #[test]
    fn the_number_of_pages_decides_their_alignment() {
        let mut altmap = Altmap::new(Pfn::new(0), 1, 100);
        assert_eq!(altmap.take(3), Ok(Pfn::new(1)));
        assert_eq!(altmap.take(12), Ok(Pfn::new(4)));
        assert_eq!(altmap.take(6), Ok(Pfn::new(16)));
        assert_eq!(altmap.take(32), Ok(Pfn::new(32)));
        assert_eq!(altmap.align(), 10);
        assert!(altmap.take(0).is_err());
        assert!(altmap.take(u64::MAX).is_err());
    }
}
