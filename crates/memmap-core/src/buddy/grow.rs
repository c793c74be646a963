//! Growing a zone before deferred initialisation is done.
//!
//! Where an allocation finds nothing, the struct pages of a few more sections are written and
//! handed over there and then. Whoever else initialises sections at the same time is not in the
//! way: a section belongs to the one who claimed it.

use alloc::boxed::Box;

use memblock::{NodeId, Pfn};

use crate::backing::SectionState;
use crate::geometry::{Geometry, SectionNr};
use crate::map::MemoryMap;
use crate::profile::ZoneIndex;
use crate::writers::PageWriter;

use super::allocator::{Allocator, Grow};
use super::section::HandOver;

/// Growth by initialising deferred sections in pfn order.
#[derive(Clone, Copy, Debug)]
pub struct GrowDeferred {
    writer: &'static dyn PageWriter,
}

impl GrowDeferred {
    /// Growth whose struct pages `writer` writes.
    pub const fn new(writer: &'static dyn PageWriter) -> Self {
        Self { writer }
    }

    /// The same, to be given to [`Allocator::set_growth`].
    pub fn boxed(writer: &'static dyn PageWriter) -> Box<dyn Grow<MemoryMap>> {
        Box::new(Self::new(writer))
    }
}

impl Grow<MemoryMap> for GrowDeferred {
    fn grow(
        &self,
        allocator: &Allocator<MemoryMap>,
        node: NodeId,
        zone: ZoneIndex,
        order: u8,
    ) -> bool {
        allocator.deferred_grow_zone(node, zone, order, self.writer) != Growth::Nothing
    }
}

/// What growing a zone brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// So many more free pages.
    Pages(u64),
    /// Nothing by us, but somebody else is at it: ask the zone again.
    Elsewhere,
    /// Nothing: the zone has nothing deferred, or all that was left is reserved.
    Nothing,
}

impl Allocator<MemoryMap> {
    /// The first frame of `node` that is still to be initialised, or `None` where nothing is.
    ///
    /// # Differences from Linux
    /// From 6.18 to 7.1 Linux may name the end of the last section here although the zone ends
    /// before it; "beyond the zone" is always `None`.
    #[doc(alias = "first_deferred_pfn")]
    pub fn first_deferred(&self, node: NodeId) -> Option<Pfn> {
        let geometry = self.pages.geometry();
        let pages = geometry.sections().pages_per_section();
        let pending = deferred_sections(geometry, node)
            .find(|section| self.pages.section_state(*section) == SectionState::Pending)?;
        Some(pending.pfns(pages).start())
    }

    /// Initialises and hands over deferred sections of a zone, in pfn order, until they have
    /// brought at least `2^order` free pages, rounded up to a section's, or none is left.
    ///
    /// # Differences from Linux
    /// Whole sections, as Linux does from 6.18 on; before, it may stop inside one. A section that
    /// somebody else is writing is passed over, where Linux would wait for the node's lock.
    ///
    /// Linux: mm/mm_init.c, `deferred_grow_zone`.
    pub fn deferred_grow_zone(
        &self,
        node: NodeId,
        zone: ZoneIndex,
        order: u8,
        writer: &dyn PageWriter,
    ) -> Growth {
        let geometry = self.pages.geometry();
        let Some(found) = geometry.node(node) else {
            return Growth::Nothing;
        };
        // Only the last zone of a node is deferred.
        let last = found.zones.get(zone.index()).map(|zone| zone.span().end());
        if last != Some(found.end()) {
            return Growth::Nothing;
        }
        let section_pages = geometry.sections().pages_per_section();
        let needed = (1_u64 << order.min(63)).next_multiple_of(section_pages);
        let plan = HandOver::new(geometry);
        let (mut brought, mut elsewhere) = (0, false);
        for section in deferred_sections(geometry, node) {
            match self.pages.claim(section) {
                Some(mut claim) => {
                    let free = claim.write_and_hand_over(writer, &plan);
                    claim.publish();
                    brought += free.pages();
                    self.join(&plan, &free);
                }
                None => elsewhere |= !self.is_handed_over(section),
            }
            if brought >= needed {
                break;
            }
        }
        match (brought, elsewhere) {
            (0, true) => {
                core::hint::spin_loop();
                Growth::Elsewhere
            }
            (0, false) => Growth::Nothing,
            (pages, _) => Growth::Pages(pages),
        }
    }
}

/// The present sections from the first deferred one of `node` on that have late pages of it,
/// ascending: where nodes are interleaved, others' sections lie in between.
fn deferred_sections(geometry: &Geometry, node: NodeId) -> impl Iterator<Item = SectionNr> + '_ {
    let pages = geometry.sections().pages_per_section();
    let late = geometry.node(node).and_then(|found| {
        let first = found.first_deferred?;
        Some((first, found.span.end()))
    });
    let runs = geometry.sections().runs();
    late.into_iter().flat_map(move |(first_deferred, end)| {
        let (first, end) = (first_deferred.get() / pages, end.get().div_ceil(pages));
        runs.iter().flat_map(move |run| {
            let start = run.first.0.max(first);
            let end = (run.first.0 + run.count).min(end);
            (start..end).map(SectionNr).filter(move |section| {
                geometry
                    .page_runs_within(section.pfns(pages))
                    .any(|run| run.node == node && run.pfns.start() >= first_deferred)
            })
        })
    })
}
