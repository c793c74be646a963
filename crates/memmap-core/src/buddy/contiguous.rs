//! Whether a zone has a struct page of its own at both ends of every pageblock.
//!
//! Linux asks once, so that compaction need not ask for every block. Gaps inside present sections
//! do no harm unless one covers the first or the last page of a block.

use memblock::{NodeId, Pfn, PfnRange};

use crate::geometry::Geometry;
use crate::profile::ZoneIndex;

/// Whether the zone is contiguous, once all struct pages are initialised; false where there is no
/// such zone. The cost grows with the runs of pages in the zone's span.
///
/// Linux: mm/mm_init.c, `set_zone_contiguous`; mm/page_alloc.c, `__pageblock_pfn_to_page`.
#[doc(alias = "set_zone_contiguous")]
#[doc(alias = "__pageblock_pfn_to_page")]
pub fn is_contiguous(geometry: &Geometry, node: NodeId, zone: ZoneIndex) -> bool {
    let span = geometry
        .node(node)
        .and_then(|node| node.zones.get(zone.index()))
        .map(|zone| zone.span())
        .filter(|span| !span.is_empty());
    let Some(span) = span else {
        return false;
    };
    let edges = Edges {
        span,
        pages: geometry.profile().pageblock_pages(),
    };
    let mut covered = span.start();
    for run in geometry.page_runs_within(span) {
        if run.pfns.start() > covered {
            return false;
        }
        covered = run.pfns.end();
        let foreign = (run.node, run.zone) != (node, zone);
        if foreign && (edges.first_in(run.pfns) || edges.last_in(run.pfns)) {
            return false;
        }
        if edges.first_offline(geometry, run.pfns) {
            return false;
        }
    }
    covered >= span.end()
}

/// First and last pages of a zone's pageblocks.
struct Edges {
    span: PfnRange,
    pages: u64,
}

impl Edges {
    fn first_in(&self, pfns: PfnRange) -> bool {
        pfns.contains(self.span.start()) || pfns.start().align_up(self.pages) < pfns.end()
    }

    fn last_in(&self, pfns: PfnRange) -> bool {
        let last = Pfn::new(self.span.end().get() - 1);
        let after = pfns.start().saturating_add(1).align_up(self.pages);
        pfns.contains(last) || after <= pfns.end()
    }

    /// Whether a block begins in `pfns` whose sub-section has no memory. Only gaps have such, and
    /// their number is small.
    fn first_offline(&self, geometry: &Geometry, pfns: PfnRange) -> bool {
        if geometry.memory_at(pfns.start()).is_some() {
            return false;
        }
        let mut at = pfns.start().align_up(self.pages);
        while at < pfns.end() {
            if !geometry.subsection_has_memory(at) {
                return true;
            }
            at = at.saturating_add(self.pages);
        }
        false
    }
}
