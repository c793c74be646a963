//! A section's own free lists.
//!
//! A block never leaves its section, so whoever initialises a section can build its lists alone:
//! it writes the heads of the section's free blocks, linked among themselves, and keeps only what
//! joining needs, the two ends of each list. No lock, no sorting, and nothing that depends on
//! who does it.

use alloc::vec::Vec;

use memblock::{NodeId, Pfn, PfnRange};

use crate::geometry::{Geometry, PageKind, PageRun, Phase, SectionNr};
use crate::profile::{Profile, ZoneIndex};

use super::cut::{self, Block};
use super::migrate::MigrateType;
use super::pageblock::{self, InitialTypes};

/// One list of one section: blocks of one zone, type and order, linked in pfn order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionList {
    /// Their node.
    pub node: NodeId,
    /// Their zone.
    pub zone: ZoneIndex,
    /// Their type.
    pub migrate: MigrateType,
    /// Their order.
    pub order: u8,
    /// The first block.
    pub first: Pfn,
    /// The last block.
    pub last: Pfn,
    /// How many blocks.
    pub count: u64,
}

/// The free lists of one section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionFree {
    /// The section.
    pub section: SectionNr,
    /// Its lists, by node, zone, type and order.
    pub lists: Vec<SectionList>,
}

impl SectionFree {
    /// Free pages of the section.
    pub fn pages(&self) -> u64 {
        self.lists.iter().map(|list| list.count << list.order).sum()
    }
}

/// A change to the struct page of a free page: what hand-over does beyond writing it as free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// It heads a free block.
    Head {
        /// The block.
        block: Block,
        /// The heads before and after it in the section's list.
        links: [Option<Pfn>; 2],
        /// The list.
        list: (NodeId, ZoneIndex, MigrateType),
    },
    /// It was on a free list and taken off again when its block merged.
    OnceListed(Pfn),
}

/// Hand-over of a machine's free pages, as a plan that any thread may follow.
#[derive(Clone, Copy, Debug)]
pub struct HandOver<'g> {
    geometry: &'g Geometry,
    grouping: bool,
}

impl<'g> HandOver<'g> {
    /// The hand-over of that machine.
    pub fn new(geometry: &'g Geometry) -> Self {
        Self {
            geometry,
            grouping: pageblock::groups_by_mobility(geometry),
        }
    }

    /// Whether free blocks are kept apart by type.
    pub const fn groups_by_mobility(&self) -> bool {
        self.grouping
    }

    /// The machine.
    pub const fn geometry(&self) -> &'g Geometry {
        self.geometry
    }

    /// The free lists of `section`, and with them every change that its free struct pages need.
    /// A head is given once, with both neighbours known.
    ///
    /// Linux: mm/page_alloc.c, `__free_pages_core`; mm/mm_init.c, `deferred_free_pages`.
    #[doc(alias = "__free_pages_core")]
    #[doc(alias = "deferred_free_pages")]
    pub fn section(&self, section: SectionNr, mut edit: impl FnMut(Edit)) -> SectionFree {
        let cut = self.cut(section, |pfn| edit(Edit::OnceListed(pfn)));
        for head in &cut.heads {
            edit(cut.edit(head));
        }
        cut.finish(section)
    }

    /// Cuts the free pages of `section` into blocks, and names the pages that keep list poison.
    pub(crate) fn cut(&self, section: SectionNr, mut once_listed: impl FnMut(Pfn)) -> SectionCut {
        let sections = self.geometry.sections();
        let pfns = section.pfns(sections.pages_per_section());
        let profile = self.geometry.profile();
        let mut types = InitialTypes::new(self.geometry, self.grouping);
        let mut cut = SectionCut::default();
        for run in free_runs(self.geometry, pfns) {
            for block in cut::blocks(run.pfns, profile.max_page_order) {
                self.once_listed(run.phase, block, &mut once_listed);
                let start = block.pfn.align_down(profile.pageblock_pages());
                cut.push(block, (run.node, run.zone, types.at(start)));
            }
        }
        cut
    }

    /// Names the pages of `block` that keep list poison.
    fn once_listed(&self, phase: Phase, block: Block, mut each: impl FnMut(Pfn)) {
        if block.order == 0 {
            return;
        }
        let profile = self.geometry.profile();
        let unit = unit_order(profile, phase, block);
        let seams = self.seams(block.pfns());
        if seams.is_empty() {
            if unit < u32::from(block.order) {
                cut::once_listed(block, cut::pieces(block.pfns(), unit), &mut each);
            }
            return;
        }
        // Two memory regions meet inside the block: each was freed on its own.
        let mut units = Vec::new();
        let mut at = block.pfn;
        for end in seams.into_iter().chain([block.pfns().end()]) {
            for part in cut::blocks(PfnRange::new(at, end), profile.max_page_order) {
                let unit = unit_order(profile, phase, part).min(u32::from(part.order));
                units.extend(cut::pieces(part.pfns(), unit));
            }
            at = end;
        }
        cut::once_listed(block, units.into_iter(), each);
    }

    /// Where regions of memory begin inside `pfns`, but for its start.
    fn seams(&self, pfns: PfnRange) -> Vec<Pfn> {
        let memory = self.geometry.memory();
        let from = memory.partition_point(|range| range.pfns.start() <= pfns.start());
        memory[from..]
            .iter()
            .map(|range| range.pfns.start())
            .take_while(|start| *start < pfns.end())
            .collect()
    }
}

/// The order of the pieces in which a block that lies in one free range is freed.
fn unit_order(profile: &Profile, phase: Phase, block: Block) -> u32 {
    let order = u32::from(block.order);
    let strict = profile.behaviours.strict_free_lists;
    match phase {
        // As one block; strict lists take it a pageblock at a time.
        Phase::Early if strict => order.min(profile.pageblock_order),
        Phase::Early => order,
        Phase::Deferred if strict && order == profile.max_page_order => {
            order.min(profile.pageblock_order)
        }
        Phase::Deferred if !strict && order >= profile.pageblock_order => profile.pageblock_order,
        Phase::Deferred => 0,
    }
}

/// The free pages of `pfns` as runs of one node and zone, neighbours joined.
fn free_runs(geometry: &Geometry, pfns: PfnRange) -> Vec<PageRun> {
    let mut runs: Vec<PageRun> = Vec::new();
    for run in geometry.page_runs_within(pfns) {
        if run.kind != PageKind::Free {
            continue;
        }
        match runs.last_mut() {
            Some(last)
                if last.pfns.end() == run.pfns.start()
                    && (last.node, last.zone) == (run.node, run.zone) =>
            {
                last.pfns = PfnRange::new(last.pfns.start(), run.pfns.end());
            }
            _ => runs.push(run),
        }
    }
    runs
}

/// What a list is of.
type Kind = (NodeId, ZoneIndex, MigrateType);

/// The head of a free block, and where it is on the section's own lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) block: Block,
    /// The heads before and after it.
    links: [Option<Pfn>; 2],
    list: usize,
}

/// A section's free pages in blocks, ascending, and the lists that these make.
#[derive(Debug, Default)]
pub(crate) struct SectionCut {
    pub(crate) heads: Vec<Head>,
    lists: Vec<SectionList>,
    /// The last head of each list.
    last: Vec<usize>,
}

impl SectionCut {
    /// Puts a block at the tail of its list.
    fn push(&mut self, block: Block, (node, zone, migrate): Kind) {
        let own = self.heads.len();
        // few lists, and mostly the one that was used last
        let known = self.lists.iter().rposition(|list| {
            (list.order, list.migrate, list.zone, list.node) == (block.order, migrate, zone, node)
        });
        let (list, before) = match known {
            Some(at) => {
                let last = core::mem::replace(&mut self.last[at], own);
                self.heads[last].links[1] = Some(block.pfn);
                self.lists[at].last = block.pfn;
                self.lists[at].count += 1;
                (at, Some(self.heads[last].block.pfn))
            }
            None => {
                self.lists.push(SectionList {
                    node,
                    zone,
                    migrate,
                    order: block.order,
                    first: block.pfn,
                    last: block.pfn,
                    count: 1,
                });
                self.last.push(own);
                (self.lists.len() - 1, None)
            }
        };
        self.heads.push(Head {
            block,
            links: [before, None],
            list,
        });
    }

    /// The change that makes a page the head of its block.
    pub(crate) fn edit(&self, head: &Head) -> Edit {
        let list = &self.lists[head.list];
        Edit::Head {
            block: head.block,
            links: head.links,
            list: (list.node, list.zone, list.migrate),
        }
    }

    /// The lists alone.
    pub(crate) fn finish(mut self, section: SectionNr) -> SectionFree {
        self.lists
            .sort_unstable_by_key(|list| (list.node, list.zone, list.migrate, list.order));
        SectionFree {
            section,
            lists: self.lists,
        }
    }
}
