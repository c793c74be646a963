//! Questions about an address, a frame or a range.

use super::Memblock;
use crate::behaviour::EstimatedFree;
use crate::{MemblockFlags, NodeId, Pfn, PfnRange, PhysAddr, PhysRange};

impl Memblock {
    /// Bytes of a page.
    pub fn page_size(&self) -> u64 {
        // a shift that no machine has must not panic
        1 << self.settings.page_shift.min(30)
    }

    /// Whether `address` is memory.
    #[doc(alias = "memblock_is_memory")]
    #[inline]
    pub fn is_memory(&self, address: PhysAddr) -> bool {
        self.memory.at(address).is_some()
    }

    /// Whether `address` is reserved.
    #[doc(alias = "memblock_is_reserved")]
    #[inline]
    pub fn is_reserved(&self, address: PhysAddr) -> bool {
        self.reserved.at(address).is_some()
    }

    /// Whether `address` is memory in the direct mapping.
    #[doc(alias = "memblock_is_map_memory")]
    #[inline]
    pub fn is_map_memory(&self, address: PhysAddr) -> bool {
        self.memory
            .at(address)
            .is_some_and(|region| !region.flags().contains(MemblockFlags::NOMAP))
    }

    /// Whether one single region of memory holds all of `range`.
    #[doc(alias = "memblock_is_region_memory")]
    pub fn is_region_memory(&self, range: PhysRange) -> bool {
        self.memory.contains_range(range)
    }

    /// Whether some of `range` is reserved.
    #[doc(alias = "memblock_is_region_reserved")]
    pub fn is_region_reserved(&self, range: PhysRange) -> bool {
        self.reserved.overlaps(range)
    }

    /// The node of the memory at the first byte of `pfn`, and the frames of its region, its
    /// bounds rounded down. `None` where there is no memory; the node may be missing.
    #[doc(alias = "memblock_search_pfn_nid")]
    pub fn search_pfn_nid(&self, pfn: Pfn, page_shift: u32) -> Option<(PfnRange, Option<NodeId>)> {
        let region = self.memory.at(pfn.checked_phys(page_shift)?)?;
        let pfns = PfnRange::new(
            region.start().pfn_down(page_shift),
            region.end().pfn_down(page_shift),
        );
        Some((pfns, region.node()))
    }

    /// The next frame above `pfn` that may be memory, at most `max`: `pfn + 1` inside a region,
    /// else the frame in which the next region starts. See
    /// [`next_valid_pfn`](crate::next_valid_pfn()) for machines without a memblock.
    #[doc(alias = "memblock_next_valid_pfn")]
    #[inline]
    pub fn next_valid_pfn(&self, pfn: Pfn, max: Pfn, page_shift: u32) -> Pfn {
        let next = pfn.saturating_add(1);
        let Some(address) = next.checked_phys(page_shift) else {
            return max;
        };
        match self.memory.next_covered(address) {
            Some(start) => start.pfn_down(page_shift).min(max),
            None => max,
        }
    }

    /// Bytes of memory that the kernel's counter shows; see
    /// [`RegionList::total_size`](crate::RegionList::total_size).
    #[doc(alias = "memblock_phys_mem_size")]
    pub fn phys_mem_size(&self) -> u64 {
        self.memory.total_size()
    }

    /// Bytes of reservations that the kernel's counter shows.
    #[doc(alias = "memblock_reserved_size")]
    pub fn reserved_size(&self) -> u64 {
        self.reserved.total_size()
    }

    /// Bytes of the reservations that are the kernel's own and, if asked, lie on `node`.
    #[doc(alias = "memblock_reserved_kern_size")]
    pub fn reserved_kern_size(&self, limit: PhysAddr, node: Option<NodeId>) -> u64 {
        let below = PhysRange::new(PhysAddr::ZERO, limit);
        self.reserved
            .overlapping(below)
            .filter(|region| region.flags().contains(MemblockFlags::RSRV_KERN))
            .filter(|region| node.is_none_or(|node| region.node() == Some(node)))
            .filter_map(|region| region.range().intersection(below))
            .map(PhysRange::len)
            .sum()
    }

    /// An estimate of the free pages; `None` where this kernel makes none.
    #[doc(alias = "memblock_estimated_nr_free_pages")]
    pub fn estimated_free_pages(&self) -> Option<u64> {
        let taken = match self.behaviour.estimated_free {
            EstimatedFree::Absent => return None,
            EstimatedFree::AllReserved => self.reserved.total_size(),
            EstimatedFree::KernelReserved => self.reserved_kern_size(PhysAddr::MAX, None),
        };
        let shift = self.settings.page_shift.min(30);
        Some(self.memory.total_size().saturating_sub(taken) >> shift)
    }
}
