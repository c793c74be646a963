//! The walk over memory that initialises struct pages at boot.
//!
//! Range by range, zone by zone, Linux initialises what is memory until the deferral rule says
//! stop, and gives the gap before each piece to the zone of that piece. Here the same walk
//! yields runs instead of struct pages: its cost grows with ranges and zones.

use alloc::vec::Vec;

use memblock::{MemblockFlags, NodeId, Pfn, PfnRange};

use crate::profile::{DeferOrder, FlatmemTail, MemoryModel, Profile, ZoneIndex, ZoneKind};

use super::runs::{Phase, Runs};
use super::{Geometry, MemoryRange, Node, PageKind, PageRun, Sections};

/// A gap that was given to a zone: one line of a kernel's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hole {
    /// The gap, whether or not it has struct pages.
    pub pfns: PfnRange,
    /// Struct pages that lie in it; at least one.
    pub pages: u64,
    /// The node that they got.
    pub node: NodeId,
    /// The zone that they got.
    pub zone: ZoneIndex,
}

/// The walk's state and what it leaves.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    profile: &'a Profile,
    sections: &'a Sections,
    overlap: bool,
    /// Whether anything may be deferred.
    deferral: bool,
    prev_end: Pfn,
    counted: u64,
    pub(super) runs: Runs,
    pub(super) holes: Vec<Hole>,
}

impl<'a> Walk<'a> {
    pub(super) const fn new(
        profile: &'a Profile,
        sections: &'a Sections,
        overlap: bool,
        deferral: bool,
    ) -> Self {
        Self {
            profile,
            sections,
            overlap,
            deferral,
            prev_end: Pfn::ZERO,
            counted: 0,
            runs: Runs::new(),
            holes: Vec::new(),
        }
    }

    /// Linux: mm/mm_init.c, `memmap_init`.
    #[doc(alias = "memmap_init")]
    pub(super) fn memory(&mut self, memory: &[MemoryRange], nodes: &mut [Node]) {
        let mut hole = Pfn::ZERO;
        let mut last = None;
        for range in memory {
            let Ok(at) = nodes.binary_search_by_key(&range.node, |node| node.id) else {
                continue;
            };
            // Pieces of one range overlap in mirror mode alone; then the later zone wins.
            let mut pieces = Runs::new();
            for index in 0..nodes[at].zones.len() {
                let zone = nodes[at].zones[index];
                if !zone.is_populated() {
                    continue;
                }
                last = Some((range.node, zone.index));
                let Some(pfns) = range.pfns.intersection(zone.span()) else {
                    continue;
                };
                let mirrored = range.flags.contains(MemblockFlags::MIRROR);
                if !(self.overlap && zone.kind == ZoneKind::Movable && mirrored) {
                    let early = self.defer(&mut nodes[at], zone.span().end(), pfns);
                    for (phase, part) in [
                        (Phase::Early, PfnRange::new(pfns.start(), early)),
                        (Phase::Deferred, PfnRange::new(early, pfns.end())),
                    ] {
                        self.piece(&mut pieces, part, range, zone.index, phase);
                    }
                }
                if hole < pfns.start() {
                    self.hole(PfnRange::new(hole, pfns.start()), range.node, zone.index);
                }
                hole = hole.max(pfns.end());
            }
            self.runs.append(pieces);
        }
        let (Some((node, zone)), Some(end)) = (last, memory.last().map(|r| r.pfns.end())) else {
            return;
        };
        let end = match (
            self.profile.memory_model,
            self.profile.behaviours.flatmem_tail,
        ) {
            (MemoryModel::Flat, FlatmemTail::Untouched) => end,
            (MemoryModel::Flat, FlatmemTail::Initialised) => {
                end.align_up(self.profile.max_order_pages())
            }
            _ => end.align_up(self.profile.pages_per_section()),
        };
        if hole < end {
            self.hole(PfnRange::new(hole, end), node, zone);
        }
        self.runs.sort();
    }

    fn piece(
        &self,
        pieces: &mut Runs,
        pfns: PfnRange,
        range: &MemoryRange,
        zone: ZoneIndex,
        phase: Phase,
    ) {
        for pfns in self.sections.valid_within(pfns) {
            let kind = match phase {
                Phase::Early => PageKind::Initialised,
                Phase::Deferred => PageKind::Untouched,
            };
            pieces.paint([PageRun {
                pfns,
                node: range.node,
                zone,
                kind,
                phase,
            }]);
        }
    }

    /// Linux: mm/mm_init.c, `init_unavailable_range`.
    #[doc(alias = "init_unavailable_range")]
    fn hole(&mut self, pfns: PfnRange, node: NodeId, zone: ZoneIndex) {
        let mut pages = 0;
        for part in self.sections.valid_within(pfns) {
            pages += part.len();
            self.runs.push(PageRun {
                pfns: part,
                node,
                zone,
                kind: PageKind::Hole,
                phase: Phase::Early,
            });
        }
        if pages > 0 {
            self.holes.push(Hole {
                pfns,
                pages,
                node,
                zone,
            });
        }
    }

    /// Where the early part of `pfns`, a piece of a zone that ends at `zone_end`, ends.
    ///
    /// The rule counts pages of memory one by one; a piece is decided at once, since only section
    /// boundaries can end the early part.
    ///
    /// Linux: mm/mm_init.c, `defer_init`.
    #[doc(alias = "defer_init")]
    fn defer(&mut self, node: &mut Node, zone_end: Pfn, pfns: PfnRange) -> Pfn {
        if !self.deferral {
            return pfns.end();
        }
        let reset = |walk: &mut Self| {
            if walk.prev_end != zone_end {
                walk.prev_end = zone_end;
                walk.counted = 0;
            }
        };
        let order = self.profile.behaviours.defer_order;
        if order == DeferOrder::ResetFirst {
            reset(self);
        }
        if zone_end < node.end() {
            return pfns.end();
        }
        if node.first_deferred.is_some() {
            return pfns.start();
        }
        if order == DeferOrder::ZoneTestFirst {
            reset(self);
        }
        let section = self.profile.pages_per_section();
        // With `counted` pages before this piece, page p is number counted + (p - start) + 1; the
        // first one that may be deferred is number section + 1.
        let missing = section.saturating_sub(self.counted);
        let first = pfns.start().saturating_add(missing).align_up(section);
        if first < pfns.end() {
            self.counted += first.get() - pfns.start().get() + 1;
            node.first_deferred = Some(first);
            first
        } else {
            self.counted += pfns.len();
            pfns.end()
        }
    }
}

impl Geometry {
    /// The gaps that have struct pages, in the order in which a kernel reports them.
    pub fn holes(&self) -> &[Hole] {
        &self.holes
    }
}
