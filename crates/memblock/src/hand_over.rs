//! Giving the memory to the page allocator.
//!
//! At the end of early boot everything free goes to the buddy allocator, and the struct pages of
//! what stays reserved are marked. Here both are lists: which pages, in the kernel's order.

use alloc::vec::Vec;

use crate::{
    Memblock, MemblockError, MemblockFlags, NodeId, Pfn, PfnRange, PhysRange, ReservedNode, Which,
};

/// Frames whose struct pages are marked reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ReservedRun {
    /// The frames, partly reserved ones included; not all need have a struct page.
    pub pfns: PfnRange,
    /// The node that they are given where their struct pages are only made now; `None` is the
    /// first online node.
    pub node: Option<NodeId>,
    /// They are memory outside the direct mapping, not a reservation.
    pub nomap: bool,
}

/// A block that goes to the buddy allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FreeBlock {
    /// Its first frame, a multiple of its size.
    pub pfn: Pfn,
    /// log2 of its size in frames.
    pub order: u32,
}

/// What a free after the slab allocator is up comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LateFree {
    /// Frames that go to the buddy allocator, or would.
    pub pfns: PfnRange,
    /// Whether the kernel takes them for freed: it adds them to the total of pages.
    pub counted: bool,
    /// The kernel warns and gives nothing, because struct pages are still to be made.
    pub refused: bool,
}

impl Memblock {
    /// The node of `pfn` in memory, else `first_online`.
    pub fn early_pfn_to_nid(&self, pfn: Pfn, page_shift: u32, first_online: NodeId) -> NodeId {
        self.search_pfn_nid(pfn, page_shift)
            .and_then(|(_, node)| node)
            .unwrap_or(first_online)
    }

    /// The frames to be marked reserved, in the kernel's order, in which later runs win.
    ///
    /// As in Linux this changes the memblock: no memory is hot-pluggable any more, allocations
    /// leave scratch memory, and (since 6.5) reservations take the nodes of the memory that they
    /// lie in.
    ///
    /// `Linux: mm/memblock.c, memblock_free_all, memmap_init_reserved_pages`.
    ///
    /// # Errors
    /// As [`set_node`](Self::set_node).
    #[doc(alias = "memmap_init_reserved_pages")]
    pub fn hand_over(&mut self, page_shift: u32) -> Result<Vec<ReservedRun>, MemblockError> {
        self.settings_mut().kho_scratch_only = false;
        let all = PhysRange::new(crate::PhysAddr::ZERO, crate::PhysAddr::MAX);
        self.clear_hotplug(all)?;
        match self.behaviour().reserved_node {
            ReservedNode::PerPfn => Ok(self.reserved_by_pfn(page_shift)),
            ReservedNode::PerRegion { end_as_size } => {
                self.take_over_nodes(end_as_size)?;
                Ok(self.reserved_by_region(page_shift))
            }
        }
    }

    /// Gives every reservation the node of the memory that it lies in.
    fn take_over_nodes(&mut self, end_as_size: bool) -> Result<(), MemblockError> {
        loop {
            let capacity = self.capacity(Which::Reserved);
            let regions: Vec<_> = self.memory().iter().collect();
            for region in regions {
                let range = if end_as_size {
                    PhysRange::from_size(region.start(), region.end().get())
                } else {
                    region.range()
                };
                self.set_node(range, Which::Reserved, region.node_mark())?;
            }
            // the array that grew in between reserved itself, without a node
            if self.capacity(Which::Reserved) == capacity {
                return Ok(());
            }
        }
    }

    fn nomap_runs(&self, page_shift: u32) -> impl Iterator<Item = ReservedRun> {
        self.memory()
            .iter()
            .filter(|region| region.flags().contains(MemblockFlags::NOMAP))
            .map(move |region| ReservedRun {
                pfns: region.range().pfns_outer(page_shift),
                node: region.node(),
                nomap: true,
            })
    }

    fn reserved_by_region(&self, page_shift: u32) -> Vec<ReservedRun> {
        let reserved = self
            .reserved()
            .iter()
            .filter(|region| !region.flags().contains(MemblockFlags::RSRV_NOINIT))
            .map(|region| {
                let pfns = region.range().pfns_outer(page_shift);
                let node = region.node().or_else(|| {
                    self.search_pfn_nid(pfns.start(), page_shift)
                        .and_then(|(_, node)| node)
                });
                ReservedRun {
                    pfns,
                    node,
                    nomap: false,
                }
            });
        self.nomap_runs(page_shift).chain(reserved).collect()
    }

    fn reserved_by_pfn(&self, page_shift: u32) -> Vec<ReservedRun> {
        let mut runs = Vec::new();
        let reserved = self.reserved().iter().map(|region| ReservedRun {
            pfns: region.range().pfns_outer(page_shift),
            node: None,
            nomap: false,
        });
        for run in reserved.chain(self.nomap_runs(page_shift)) {
            let mut next = run.pfns.start();
            let phys = run.pfns.phys(page_shift);
            for region in self.memory().overlapping(phys) {
                // a frame belongs to the region that holds its first byte
                let owned = PfnRange::new(
                    region.start().pfn_up(page_shift),
                    region.end().pfn_up(page_shift),
                );
                let Some(pfns) = owned.intersection(run.pfns) else {
                    continue;
                };
                let before = PfnRange::new(next, pfns.start());
                for (pfns, node) in [(before, None), (pfns, region.node())] {
                    if !pfns.is_empty() {
                        runs.push(ReservedRun { pfns, node, ..run });
                    }
                }
                next = pfns.end();
            }
            let pfns = PfnRange::new(next, run.pfns.end());
            if !pfns.is_empty() {
                runs.push(ReservedRun {
                    pfns,
                    node: None,
                    ..run
                });
            }
        }
        runs
    }

    /// The blocks of at most `1 << max_order` frames that go to the buddy allocator, in ascending
    /// order; none above `max_low_pfn`, where a machine has high memory or a limit.
    ///
    /// All are given, also those whose struct pages are still to be made.
    #[doc(alias = "free_low_memory_core_early")]
    #[doc(alias = "__free_pages_memory")]
    pub fn free_blocks(
        &self,
        page_shift: u32,
        max_order: u32,
        max_low_pfn: Option<Pfn>,
    ) -> impl Iterator<Item = FreeBlock> + Clone {
        let limit = max_low_pfn.unwrap_or(Pfn::MAX);
        self.free_ranges(None, MemblockFlags::empty())
            .map(move |free| free.range().pfns_inner(page_shift))
            .flat_map(move |pfns| blocks(pfns.start(), pfns.end().min(limit), max_order))
    }

    /// Frees `range` after the slab allocator is up.
    ///
    /// Up to 6.19 (`memblock_free_late`) the reservation stays, and every whole page counts as
    /// freed, also one that is lost because its struct page is still to be made. Later the
    /// reservation goes where the arrays are kept, and nothing is given while
    /// `deferred_pending`.
    ///
    /// # Errors
    /// As [`free`](Self::free).
    #[doc(alias = "memblock_free_late")]
    pub fn free_late(
        &mut self,
        range: PhysRange,
        page_shift: u32,
        deferred_pending: bool,
    ) -> Result<LateFree, MemblockError> {
        let pfns = range.pfns_inner(page_shift);
        if !self.behaviour().late_free_hands_over {
            return Ok(LateFree {
                pfns,
                counted: true,
                refused: false,
            });
        }
        if self.settings().keep_memblock {
            self.free(range)?;
        }
        Ok(LateFree {
            pfns,
            counted: !deferred_pending,
            refused: deferred_pending,
        })
    }
}

/// `[start, end)` in naturally aligned blocks, each as large as alignment and end allow.
fn blocks(start: Pfn, end: Pfn, max_order: u32) -> impl Iterator<Item = FreeBlock> + Clone {
    let mut next = start;
    core::iter::from_fn(move || {
        let left = end.checked_offset_from(next).filter(|&left| left > 0)?;
        let order = next.get().trailing_zeros().min(max_order).min(left.ilog2());
        let block = FreeBlock { pfn: next, order };
        next = next.saturating_add(1 << order);
        Some(block)
    })
}
