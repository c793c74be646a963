//! Lazy iteration over ranges.
//!
//! `memory` filtered by node and flags, minus `reserved`: what Linux's `for_each_*` macros give.
//! The iterators borrow the memblock and keep two places, one a list.

mod free;
mod sections;
mod valid;

pub use free::{FreeRanges, FreeRangesRev};
pub use sections::{PfnRuns, ValidPfns, for_each_valid_pfn, present_sections};
pub use valid::next_valid_pfn;

use crate::{Memblock, MemblockFlags, NodeId, Pfn, PfnRange, Region};

/// What a walk over memory takes.
#[derive(Clone, Copy, Debug)]
struct Filter {
    node: Option<NodeId>,
    flags: MemblockFlags,
    movable_node: bool,
}

impl Filter {
    /// `Linux: should_skip_region`.
    #[inline]
    fn skips(&self, region: &Region) -> bool {
        let flags = region.flags();
        let asks = self.flags;
        if self.node.is_some() && region.node() != self.node {
            return true;
        }
        if flags.is_empty() && asks.is_empty() {
            return false;
        }
        let without = |flag| flags.contains(flag) && !asks.contains(flag);
        let lacks = |flag| asks.contains(flag) && !flags.contains(flag);
        (self.movable_node && without(MemblockFlags::HOTPLUG))
            || lacks(MemblockFlags::MIRROR)
            || without(MemblockFlags::NOMAP)
            || without(MemblockFlags::DRIVER_MANAGED)
            || lacks(MemblockFlags::KHO_SCRATCH)
    }
}

impl Memblock {
    fn filter(&self, node: Option<NodeId>, flags: MemblockFlags) -> Filter {
        Filter {
            node: self.asked_node(node),
            flags,
            movable_node: self.settings().movable_node,
        }
    }

    /// The node to compare with: all memory is node 0's where the kernel knows of none.
    fn asked_node(&self, node: Option<NodeId>) -> Option<NodeId> {
        node.filter(|node| self.settings().numa || node.get() != 0)
    }

    /// Memory, hot-pluggable and driver-managed included, that outside the direct mapping left
    /// out; from the highest down with `rev()`.
    #[doc(alias = "for_each_mem_range")]
    #[doc(alias = "for_each_mem_range_rev")]
    pub fn mem_ranges(&self) -> impl DoubleEndedIterator<Item = Region> + Clone {
        self.mem_ranges_with(None, MemblockFlags::HOTPLUG | MemblockFlags::DRIVER_MANAGED)
    }

    /// Memory on `node` that a walk with `flags` takes.
    #[doc(alias = "__for_each_mem_range")]
    pub fn mem_ranges_with(
        &self,
        node: Option<NodeId>,
        flags: MemblockFlags,
    ) -> impl DoubleEndedIterator<Item = Region> + Clone {
        let filter = self.filter(node, flags);
        self.memory().iter().filter(move |it| !filter.skips(it))
    }

    /// The whole frames of every region of memory on `node`, whatever its flags. Regions without
    /// a whole frame are left out, and adjacent ones stay apart.
    #[doc(alias = "for_each_mem_pfn_range")]
    pub fn mem_pfn_ranges(
        &self,
        page_shift: u32,
        node: Option<NodeId>,
    ) -> impl DoubleEndedIterator<Item = (PfnRange, Option<NodeId>, MemblockFlags)> + Clone {
        let node = self.asked_node(node);
        self.memory().iter().filter_map(move |region| {
            let pfns = region.range().pfns_inner(page_shift);
            let taken = node.is_none() || region.node() == node;
            (taken && !pfns.is_empty()).then(|| (pfns, region.node(), region.flags()))
        })
    }

    /// Memory on `node` that a walk with `flags` takes and that is not reserved, from the lowest
    /// up, each with the node and flags of its memory. No range spans two regions of memory.
    #[doc(alias = "for_each_free_mem_range")]
    pub fn free_ranges(&self, node: Option<NodeId>, flags: MemblockFlags) -> FreeRanges<'_> {
        FreeRanges::new(self.memory(), self.reserved(), self.filter(node, flags))
    }

    /// As [`free_ranges`](Self::free_ranges), from the highest down.
    #[doc(alias = "for_each_free_mem_range_reverse")]
    pub fn free_ranges_rev(&self, node: Option<NodeId>, flags: MemblockFlags) -> FreeRangesRev<'_> {
        FreeRangesRev::new(self.memory(), self.reserved(), self.filter(node, flags))
    }

    /// The whole free frames of `node` in `zone`, clamped to it, from the lowest up.
    #[doc(alias = "for_each_free_mem_pfn_range_in_zone")]
    pub fn free_pfn_ranges(
        &self,
        page_shift: u32,
        zone: PfnRange,
        node: Option<NodeId>,
    ) -> impl Iterator<Item = PfnRange> + Clone {
        self.free_ranges(node, MemblockFlags::empty())
            .map(move |free| free.range().pfns_inner(page_shift))
            .skip_while(move |pfns| pfns.end() <= zone.start())
            .take_while(move |pfns| pfns.start() < zone.end())
            .filter_map(move |pfns| pfns.intersection(zone))
    }

    /// As [`free_pfn_ranges`](Self::free_pfn_ranges), from the first range that ends above `from`
    /// on: a walk that was stopped goes on.
    #[doc(alias = "for_each_free_mem_pfn_range_in_zone_from")]
    pub fn free_pfn_ranges_from(
        &self,
        page_shift: u32,
        zone: PfnRange,
        node: Option<NodeId>,
        from: Pfn,
    ) -> impl Iterator<Item = PfnRange> + Clone {
        let zone = PfnRange::new(zone.start().max(from), zone.end());
        self.free_pfn_ranges(page_shift, zone, node)
    }
}
