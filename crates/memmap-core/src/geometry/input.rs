//! Memory and reservations as the geometry uses them.
//!
//! Linux walks the same few iterators again and again; here they are taken from the memblock
//! once, as sorted lists.

use alloc::vec::Vec;

use memblock::{Memblock, MemblockFlags, NodeId, Pfn, PfnRange, PhysAddr, PhysRange};

use crate::profile::Profile;

use super::{BootOptions, GeometryError};

/// The whole pages of one region of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// Its whole pages.
    pub pfns: PfnRange,
    /// Its node.
    pub node: NodeId,
    /// Its flags.
    pub flags: MemblockFlags,
}

/// A region by its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes {
    pub(super) range: PhysRange,
    pub(super) node: Option<NodeId>,
    pub(super) flags: MemblockFlags,
}

/// What the geometry is made from.
#[derive(Debug)]
pub(super) struct Input {
    /// Memory by whole pages; regions without one are left out.
    pub(super) memory: Vec<MemoryRange>,
    /// Memory by bytes.
    pub(super) memory_bytes: Vec<Bytes>,
    /// Reservations by bytes.
    pub(super) reserved: Vec<Bytes>,
    /// Nodes that are online, ascending.
    pub(super) online: Vec<NodeId>,
    /// Where memory begins, rounded down to a page.
    pub(super) dram_start: Pfn,
    /// Where memory ends.
    pub(super) dram_end: PhysAddr,
}

impl Input {
    pub(super) fn new(
        profile: &Profile,
        memblock: &Memblock,
        options: &BootOptions,
    ) -> Result<Self, GeometryError> {
        let shift = profile.page_shift;
        let bytes = |region: memblock::Region| Bytes {
            range: region.range(),
            node: region.node(),
            flags: region.flags(),
        };
        let mut memory_bytes: Vec<_> = memblock.memory().iter().map(bytes).collect();
        let reserved: Vec<_> = memblock.reserved().iter().map(bytes).collect();
        // A kernel without NUMA, or before it knew of nodes, has everything on node 0.
        let no_nodes = memory_bytes.iter().all(|region| region.node.is_none());
        let mut memory = Vec::with_capacity(memory_bytes.len());
        for region in &mut memory_bytes {
            if no_nodes || profile.nodes_shift == 0 {
                region.node = Some(NodeId::new(0));
            }
            let pfns = region.range.pfns_inner(shift);
            if pfns.is_empty() {
                continue;
            }
            let node = region
                .node
                .ok_or(GeometryError::MemoryWithoutNode { pfns })?;
            memory.push(MemoryRange {
                pfns,
                node,
                flags: region.flags,
            });
        }
        let (Some(first), Some(last)) = (memory_bytes.first(), memory_bytes.last()) else {
            return Err(GeometryError::NoMemory { page_shift: shift });
        };
        if memory.is_empty() {
            return Err(GeometryError::NoMemory { page_shift: shift });
        }
        let (dram_start, dram_end) = (first.range.start().pfn_down(shift), last.range.end());
        let mut online: Vec<_> = memory.iter().map(|range| range.node).collect();
        online.extend(&options.memoryless);
        online.sort_unstable();
        online.dedup();
        for &node in online.iter().chain(&options.offline) {
            if u32::from(node.get()) >> profile.nodes_shift != 0 {
                return Err(GeometryError::NodeTooLarge {
                    node,
                    nodes_shift: profile.nodes_shift,
                });
            }
        }
        Ok(Self {
            memory,
            memory_bytes,
            reserved,
            online,
            dram_start,
            dram_end,
        })
    }

    /// The node that holds `pfn`'s first byte, or the first online one.
    #[doc(alias = "early_pfn_to_nid")]
    pub(super) fn early_node(&self, pfn: Pfn, page_shift: u32) -> NodeId {
        let address = pfn.phys(page_shift);
        let after = self
            .memory_bytes
            .partition_point(|region| region.range.start() <= address);
        self.memory_bytes[..after]
            .last()
            .filter(|region| region.range.contains(address))
            .and_then(|region| region.node)
            .unwrap_or(self.online[0])
    }

    /// Bytes that are memory, mapped, not left to a driver and not reserved: what is handed to
    /// the page allocator, as whole pages. Hot-pluggable memory counts: its mark is gone by then.
    #[doc(alias = "for_each_free_mem_range")]
    pub(super) fn free_pages(&self, page_shift: u32) -> Vec<PfnRange> {
        let kept = MemblockFlags::NOMAP | MemblockFlags::DRIVER_MANAGED;
        let mut free = Vec::new();
        let mut next = 0;
        for region in &self.memory_bytes {
            if region.flags.intersects(kept) {
                continue;
            }
            while next < self.reserved.len()
                && self.reserved[next].range.end() <= region.range.start()
            {
                next += 1;
            }
            let mut at = region.range.start();
            for reserved in &self.reserved[next..] {
                if reserved.range.start() >= region.range.end() {
                    break;
                }
                push_pages(
                    &mut free,
                    PhysRange::new(at, reserved.range.start()),
                    page_shift,
                );
                at = at.max(reserved.range.end());
            }
            push_pages(
                &mut free,
                PhysRange::new(at, region.range.end()),
                page_shift,
            );
        }
        free
    }
}

fn push_pages(free: &mut Vec<PfnRange>, bytes: PhysRange, page_shift: u32) {
    let pfns = bytes.pfns_inner(page_shift);
    if !pfns.is_empty() {
        free.push(pfns);
    }
}
