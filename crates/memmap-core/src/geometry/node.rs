//! Nodes and their zones: where they begin, how far they reach, what of that is there.

use alloc::vec::Vec;

use memblock::{MemblockFlags, NodeId, Pfn, PfnRange};

use crate::profile::{NodeSpanned, Profile, ZoneIndex, ZoneKind};

use super::input::{Input, MemoryRange};
use super::movable::Movable;
use super::{BootOptions, ZoneLimits};

/// A zone of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Zone {
    /// Its number.
    pub index: ZoneIndex,
    /// What it is for.
    pub kind: ZoneKind,
    /// Its first frame; 0 where it spans none.
    #[doc(alias = "zone_start_pfn")]
    pub start: Pfn,
    /// Pages from its first to its last, holes included.
    #[doc(alias = "spanned_pages")]
    pub spanned: u64,
    /// Pages that are there.
    #[doc(alias = "present_pages")]
    pub present: u64,
}

impl Zone {
    /// Its frames, holes included.
    pub fn span(&self) -> PfnRange {
        PfnRange::new(self.start, self.start.saturating_add(self.spanned))
    }

    /// Whether any page is there.
    #[doc(alias = "populated_zone")]
    pub const fn is_populated(&self) -> bool {
        self.present > 0
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// Whether it is online.
    pub online: bool,
    /// From its first to one past its last page of memory; empty at 0 without memory.
    pub span: PfnRange,
    /// How long Linux takes it to be; it may differ from the span's length.
    #[doc(alias = "node_spanned_pages")]
    pub spanned: u64,
    /// Pages that are there.
    #[doc(alias = "node_present_pages")]
    pub present: u64,
    /// Every configured zone, by index.
    pub zones: Vec<Zone>,
    /// Where its zone Movable begins, if it has one.
    #[doc(alias = "zone_movable_pfn")]
    pub movable_start: Option<Pfn>,
    /// The first frame whose struct page is initialised late, if any.
    #[doc(alias = "first_deferred_pfn")]
    pub first_deferred: Option<Pfn>,
}

impl Node {
    /// One past its last frame, as Linux takes it.
    #[doc(alias = "pgdat_end_pfn")]
    pub fn end(&self) -> Pfn {
        self.span.start().saturating_add(self.spanned)
    }

    /// Whether it has memory.
    #[doc(alias = "N_MEMORY")]
    pub const fn has_memory(&self) -> bool {
        self.present > 0
    }

    /// Whether its first populated zone below Movable is one that the kernel maps permanently.
    #[doc(alias = "N_NORMAL_MEMORY")]
    pub fn has_normal_memory(&self) -> bool {
        self.zones
            .iter()
            .filter(|zone| zone.kind < ZoneKind::Movable)
            .find(|zone| zone.is_populated())
            .is_some_and(|zone| zone.kind <= ZoneKind::Normal)
    }

    /// One more than the index of its highest zone that spans anything.
    pub fn nr_zones(&self) -> usize {
        self.zones
            .iter()
            .rposition(|zone| zone.spanned > 0)
            .map_or(0, |at| at + 1)
    }

    /// The first zone whose span holds `pfn`.
    pub fn zone_of(&self, pfn: Pfn) -> Option<&Zone> {
        self.zones.iter().find(|zone| zone.span().contains(pfn))
    }
}

/// Every node that is online or may come, ascending.
pub(super) fn nodes(
    profile: &Profile,
    input: &Input,
    limits: &ZoneLimits,
    movable: &Movable,
    options: &BootOptions,
) -> Vec<Node> {
    let mut ids: Vec<_> = input
        .online
        .iter()
        .chain(&options.offline)
        .copied()
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter()
        .map(|id| node(profile, input, limits, movable, id))
        .collect()
}

/// Linux: mm/mm_init.c, `calculate_node_totalpages`.
#[doc(alias = "calculate_node_totalpages")]
fn node(
    profile: &Profile,
    input: &Input,
    limits: &ZoneLimits,
    movable: &Movable,
    id: NodeId,
) -> Node {
    let ranges: Vec<_> = input
        .memory
        .iter()
        .filter(|r| r.node == id)
        .copied()
        .collect();
    let span = match (ranges.first(), ranges.last()) {
        (Some(first), Some(last)) => PfnRange::new(first.pfns.start(), last.pfns.end()),
        _ => PfnRange::default(),
    };
    let start = movable.starts.get(&id).copied();
    let overlap = movable.mirror && profile.behaviours.mirror_overlap;
    let zones: Vec<_> = profile
        .zones
        .iter()
        .map(|(index, kind)| {
            let (from, to) = zone_bounds(limits, span, index, kind, start, overlap);
            let spanned = to.get() - from.get();
            let mut absent = spanned - pages_within(&ranges, from, to, |_| true);
            if overlap && start.is_some() {
                let mirrored = |flags: MemblockFlags| flags.contains(MemblockFlags::MIRROR);
                absent += match kind {
                    ZoneKind::Movable => pages_within(&ranges, from, to, mirrored),
                    ZoneKind::Normal => pages_within(&ranges, from, to, |flags| !mirrored(flags)),
                    _ => 0,
                };
            }
            Zone {
                index,
                kind,
                start: if spanned > 0 { from } else { Pfn::ZERO },
                spanned,
                present: spanned.saturating_sub(absent),
            }
        })
        .collect();
    let spanned = match profile.behaviours.node_spanned {
        NodeSpanned::SumOfZones => zones.iter().map(|zone| zone.spanned).sum(),
        NodeSpanned::EndMinusStart => span.len(),
    };
    Node {
        id,
        online: input.online.binary_search(&id).is_ok(),
        span,
        spanned,
        present: zones.iter().map(|zone| zone.present).sum(),
        zones,
        movable_start: start,
        first_deferred: None,
    }
}

/// Linux: mm/mm_init.c, `zone_spanned_pages_in_node`.
#[doc(alias = "zone_spanned_pages_in_node")]
fn zone_bounds(
    limits: &ZoneLimits,
    node: PfnRange,
    index: ZoneIndex,
    kind: ZoneKind,
    movable_start: Option<Pfn>,
    overlap: bool,
) -> (Pfn, Pfn) {
    let limit = limits.get(index);
    let clamp = |pfn: Pfn| pfn.clamp(limit.start(), limit.end());
    let (mut from, mut to) = (clamp(node.start()), clamp(node.end()));
    if let Some(start) = movable_start {
        if kind == ZoneKind::Movable {
            from = start;
            to = node.end().min(limits.get(limits.movable_zone()).end());
        } else if from < start && start < to {
            if !overlap {
                to = start;
            }
        } else if from >= start {
            from = to;
        }
    }
    if to < node.start() || from > node.end() {
        return (Pfn::ZERO, Pfn::ZERO);
    }
    let (from, to) = (from.max(node.start()), to.min(node.end()));
    (from, to.max(from))
}

/// Pages of memory in `[from, to)`, in regions whose flags are wanted.
fn pages_within(
    ranges: &[MemoryRange],
    from: Pfn,
    to: Pfn,
    wanted: impl Fn(MemblockFlags) -> bool,
) -> u64 {
    let window = PfnRange::new(from, to);
    ranges
        .iter()
        .filter(|range| wanted(range.flags))
        .filter_map(|range| range.pfns.intersection(window))
        .map(PfnRange::len)
        .sum()
}
