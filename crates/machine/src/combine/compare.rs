//! Sources that name no ranges laid beside memory: blocks, zones, a total.

use memblock::{NodeId, PhysAddr, PhysRange};

use crate::layout::{Contradiction, Disagreement, MachineLayout, MemoryRange, MemorySource};
use crate::sysfs::MemoryBlocks;
use crate::zoneinfo::ZoneInfo;

/// Blocks are whole: each that holds memory must be online, on the nodes of that memory.
pub(super) fn compare_blocks(layout: &mut MachineLayout, blocks: &MemoryBlocks) {
    let size = blocks.block_size.max(1);
    let mut found = Vec::new();
    let mut differs = |memory: &MemoryRange, range: PhysRange, other| {
        if found.len() < 50 {
            found.push(Contradiction {
                taken: layout.provenance.memory,
                taken_line: memory.line,
                other: MemorySource::Sysfs,
                other_line: 0,
                about: Disagreement::Memory {
                    range,
                    taken: Some(memory.node),
                    other,
                },
            });
        }
    };
    for memory in &layout.memory {
        if memory.range.is_empty() {
            continue;
        }
        let first = memory.range.start().get() / size;
        let last = (memory.range.end().get() - 1) / size;
        // Only blocks that exist or should: a range may span more numbers than there are.
        let mut next = first;
        for (&block, nodes) in blocks.online.range(first..=last) {
            if block > next {
                differs(memory, gap(memory.range, next, block, size), None);
            }
            let known = memory
                .node
                .is_none_or(|node| nodes.is_empty() || nodes.contains(&node));
            if !known {
                let other = nodes.first().copied();
                differs(
                    memory,
                    gap(memory.range, block, block + 1, size),
                    Some(other),
                );
            }
            next = block + 1;
        }
        if next <= last {
            differs(memory, gap(memory.range, next, last + 1, size), None);
        }
    }
    layout.provenance.contradict(MemorySource::Sysfs, found);
}

/// The part of `range` in blocks `from` to `to` (exclusive).
fn gap(range: PhysRange, from: u64, to: u64, size: u64) -> PhysRange {
    let at = |block: u64| PhysAddr::new(block.saturating_mul(size));
    let part = PhysRange::new(at(from), at(to));
    range.intersection(part).unwrap_or(part)
}

/// Present pages of every node.
pub(super) fn compare_zones(layout: &mut MachineLayout, zones: &ZoneInfo) {
    let shift = layout.page_size.trailing_zeros();
    let mut nodes: Vec<NodeId> = zones.zones().iter().map(|zone| zone.node).collect();
    nodes.extend(layout.nodes());
    nodes.sort_unstable();
    nodes.dedup();
    let mut found = Vec::new();
    for node in nodes {
        let of_node = layout
            .memory
            .iter()
            .filter(|memory| memory.node == Some(node));
        let line = of_node.clone().next().map_or(0, |memory| memory.line);
        let taken: u64 = of_node
            .map(|memory| memory.range.pfns_inner(shift).len())
            .sum();
        let there = zones.zones().iter().filter(|zone| zone.node == node);
        let other_line = there.clone().next().map_or(0, |zone| zone.line);
        let other = there.map(|zone| zone.present).fold(0, u64::saturating_add);
        if taken != other {
            found.push(Contradiction {
                taken: layout.provenance.memory,
                taken_line: line,
                other: MemorySource::Zoneinfo,
                other_line,
                about: Disagreement::Pages {
                    node: Some(node),
                    taken,
                    other,
                },
            });
        }
    }
    layout.provenance.contradict(MemorySource::Zoneinfo, found);
}

/// No kernel manages more than there is.
pub(super) fn compare_total(layout: &mut MachineLayout, kib: u64, other_line: u64) {
    let shift = layout.page_size.trailing_zeros();
    let memory = layout.memory.iter();
    let taken: u64 = memory
        .map(|memory| memory.range.pfns_inner(shift).len())
        .sum();
    let other = kib / (layout.page_size >> 10).max(1);
    let found = (other > taken).then(|| Contradiction {
        taken: layout.provenance.memory,
        taken_line: layout.memory.first().map_or(0, |memory| memory.line),
        other: MemorySource::Meminfo,
        other_line,
        about: Disagreement::Pages {
            node: None,
            taken,
            other,
        },
    });
    layout
        .provenance
        .contradict(MemorySource::Meminfo, found.into_iter().collect());
}
