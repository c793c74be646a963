//! Reserved pages, and the nodes that they get.
//!
//! A reserved page in the early part keeps what the walk gave it and is marked. In the deferred
//! part nobody has written its struct page yet, so it is initialised on the spot, with the zone
//! of its node that holds it; where none does, Linux stores one past the last zone.

use alloc::vec::Vec;

use memblock::{MemblockFlags, NodeId, PfnRange, PhysAddr, PhysRange};

use crate::profile::{Profile, ReservedNode, ZoneIndex};

use super::input::Input;
use super::runs::{Phase, Runs};
use super::{Node, PageKind, Sections};

/// Pages to be marked, and the node whose pages they are taken to be.
#[derive(Clone, Copy, Debug)]
struct Mark {
    node: NodeId,
    kind: PageKind,
}

/// Linux: mm/memblock.c, `memmap_init_reserved_pages`.
#[doc(alias = "memmap_init_reserved_pages")]
pub(super) fn mark_reserved(
    profile: &Profile,
    input: &Input,
    sections: &Sections,
    nodes: &[Node],
    runs: &mut Runs,
) {
    let shift = profile.page_shift;
    let per_pfn = profile.behaviours.reserved_node == ReservedNode::PerPfn;
    let mut nomap = Vec::new();
    for region in &input.memory_bytes {
        if region.flags.contains(MemblockFlags::NOMAP) {
            let pfns = region.range.pfns_outer(shift);
            let node = region.node.unwrap_or(input.online[0]);
            push(&mut nomap, sections, pfns, node, PageKind::NoMap);
        }
    }
    let mut reserved = Vec::new();
    for region in &input.reserved {
        if region.flags.contains(MemblockFlags::RSRV_NOINIT) {
            continue;
        }
        for (range, memory_node) in split_by_memory(input, region.range) {
            let pfns = if per_pfn {
                // Page by page: a page belongs to the region that holds its first byte.
                let outer = region.range.pfns_outer(shift);
                PfnRange::new(
                    range.start().pfn_up(shift).max(outer.start()),
                    range.end().pfn_up(shift).min(outer.end()),
                )
            } else {
                range.pfns_outer(shift)
            };
            let node = match (memory_node, per_pfn) {
                (Some(node), _) => node,
                (None, true) => input.online[0],
                (None, false) => region
                    .node
                    .unwrap_or_else(|| input.early_node(range.start().pfn_down(shift), shift)),
            };
            push(&mut reserved, sections, pfns, node, PageKind::Reserved);
        }
        if per_pfn {
            // The page that holds the region's first byte begins below it.
            let outer = region.range.pfns_outer(shift);
            let first = PfnRange::new(outer.start(), region.range.start().pfn_up(shift));
            let node = input.early_node(outer.start(), shift);
            push(&mut reserved, sections, first, node, PageKind::Reserved);
        }
    }
    for marks in [nomap, reserved] {
        apply(profile, nodes, marks, runs);
    }
}

/// `range`, cut at the borders of memory, with the node of each part that is memory.
fn split_by_memory(input: &Input, range: PhysRange) -> Vec<(PhysRange, Option<NodeId>)> {
    let mut parts: Vec<(PhysRange, Option<NodeId>)> = Vec::new();
    let mut add = |start: PhysAddr, end: PhysAddr, node: Option<NodeId>| {
        if start >= end {
            return;
        }
        match parts.last_mut() {
            Some((last, same)) if *same == node => *last = PhysRange::new(last.start(), end),
            _ => parts.push((PhysRange::new(start, end), node)),
        }
    };
    let first = input
        .memory_bytes
        .partition_point(|region| region.range.end() <= range.start());
    let mut at = range.start();
    for region in &input.memory_bytes[first..] {
        let Some(shared) = region.range.intersection(range) else {
            break;
        };
        add(at, shared.start(), None);
        add(shared.start(), shared.end(), region.node);
        at = shared.end();
    }
    add(at, range.end(), None);
    parts
}

fn push(
    marks: &mut Vec<(PfnRange, Mark)>,
    sections: &Sections,
    pfns: PfnRange,
    node: NodeId,
    kind: PageKind,
) {
    for pfns in sections.valid_within(pfns) {
        marks.push((pfns, Mark { node, kind }));
    }
}

/// A mark, and the zone of its node that it puts its pages into where they are late.
type Cut = (PfnRange, (Mark, Option<ZoneIndex>));

/// Adds a cut mark. Two marks share a page where a reservation ends and another begins in it:
/// the last one that writes it anew counts, and one that only marks it takes nothing back.
fn add_cut(cuts: &mut Vec<Cut>, (mut pfns, what): Cut) {
    while let Some((last, (_, zone))) = cuts.last_mut() {
        if last.end() <= pfns.start() {
            break;
        }
        if zone.is_some() && what.1.is_none() {
            pfns = PfnRange::new(last.end(), pfns.end());
            break;
        }
        *last = PfnRange::new(last.start(), pfns.start());
        if !last.is_empty() {
            break;
        }
        cuts.pop();
    }
    if !pfns.is_empty() {
        cuts.push((pfns, what));
    }
}

fn apply(profile: &Profile, nodes: &[Node], mut marks: Vec<(PfnRange, Mark)>, runs: &mut Runs) {
    marks.sort_by_key(|(pfns, _)| pfns.start());
    // A mark is cut where its node's late part begins and at the node's zones, so that each part
    // is in one zone.
    let mut cut = Vec::with_capacity(marks.len());
    for (pfns, mark) in marks {
        let node = nodes
            .binary_search_by_key(&mark.node, |node| node.id)
            .ok()
            .map(|at| &nodes[at])
            .filter(|node| node.online);
        let late = node.and_then(|node| node.first_deferred);
        let mut at = pfns.start();
        while at < pfns.end() {
            let mut end = pfns.end();
            let mut borders = |border| {
                if at < border && border < end {
                    end = border;
                }
            };
            if let (Some(late), Some(node)) = (late, node) {
                borders(late);
                for zone in &node.zones {
                    borders(zone.span().start());
                    borders(zone.span().end());
                }
            }
            let late = late.filter(|late| *late <= at).and(node);
            let zone = late.map(|node| {
                node.zone_of(at)
                    .map_or(profile.zones.none(), |zone| zone.index)
            });
            add_cut(&mut cut, (PfnRange::new(at, end), (mark, zone)));
            at = end;
        }
    }
    runs.overlay(&cut, |mut run, (mark, zone)| {
        match (zone, run.kind) {
            (Some(zone), _) => {
                run.node = mark.node;
                run.zone = *zone;
                run.kind = mark.kind;
                run.phase = Phase::Early;
            }
            // What the walk left for later, but this node does not defer: Linux sets a bit in a
            // struct page that it has not written.
            (None, PageKind::Untouched) => {}
            // A gap is as reserved as can be.
            (None, PageKind::Hole) => {}
            (None, _) => run.kind = mark.kind,
        }
        run
    });
}
