//! Holes, as releases found and printed them.

use memblock::{MemblockFlags, NodeId, Pfn, PfnRange};
use memmap_core::{Geometry, Hole, ZoneKind};

use crate::layout::MachineLayout;

/// Holes with struct pages, as this version finds and prints them.
pub(super) fn holes(layout: &MachineLayout, geometry: &Geometry) -> Vec<(NodeId, ZoneKind, u64)> {
    let version = layout.release.as_ref().map(|release| release.number());
    let asks_memblock = geometry.profile().arch == memmap_core::Arch::Arm64
        && version.is_some_and(|version| version < (5, 14));
    let by_zone = layout
        .figures
        .unavailable()
        .any(|(node, ..)| node.is_none());
    if by_zone {
        return holes_by_zone(geometry, asks_memblock);
    }
    let kind = |zone| geometry.profile().zones.kind(zone);
    let hole = |hole: &Hole| {
        let pages = match asks_memblock {
            true => up_to_pageblock(geometry, hole.pfns),
            false => hole.pages,
        };
        (pages > 0).then_some((hole.node, kind(hole.zone)?, pages))
    };
    geometry.holes().iter().filter_map(hole).collect()
}

/// Kernels of 5.11 to 5.13: one line a zone, holes counted from where the last zone stopped, and
/// up to the end of the section that the zone ends in.
fn holes_by_zone(geometry: &Geometry, asks_memblock: bool) -> Vec<(NodeId, ZoneKind, u64)> {
    let section = geometry.profile().pages_per_section();
    let counted = |hole: PfnRange| match asks_memblock {
        true => up_to_pageblock(geometry, hole),
        false => {
            let valid = geometry.sections().valid_within(hole);
            valid.map(PfnRange::len).sum()
        }
    };
    let mut at = Pfn::ZERO;
    let mut out = Vec::new();
    for (node, zone) in geometry.populated_zones() {
        let mut pages = 0;
        let span = zone.span();
        let inside = geometry
            .memory()
            .iter()
            .filter(|memory| memory.node == node.id);
        for piece in inside.filter_map(|memory| memory.pfns.intersection(span)) {
            pages += counted(PfnRange::new(at, piece.start()));
            at = at.max(piece.end());
        }
        let end = span.end().align_up(section);
        pages += counted(PfnRange::new(at, end));
        at = at.max(end);
        if pages > 0 {
            out.push((node.id, zone.kind, pages));
        }
    }
    out
}

/// Pages of `hole` whose pageblock begins in memory that is mapped.
fn up_to_pageblock(geometry: &Geometry, hole: PfnRange) -> u64 {
    let block = geometry.profile().pageblock_pages();
    let start = hole.start().align_down(block);
    let mapped = geometry
        .memory()
        .iter()
        .any(|memory| memory.pfns.contains(start) && !memory.flags.contains(MemblockFlags::NOMAP));
    if hole.is_empty() || hole.start().is_aligned(block) || !mapped {
        return 0;
    }
    let end = hole.start().align_up(block).min(hole.end());
    end.get() - hole.start().get()
}
