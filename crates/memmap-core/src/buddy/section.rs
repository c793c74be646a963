//! A section's own free lists.
//!
//! A block never leaves its section, so whoever initialises a section can build its lists alone:
//! it writes the heads of the section's free blocks, linked among themselves, and keeps only what
//! joining needs, the two ends of each list. No lock, no sorting, and nothing that depends on
//! who does it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use memblock::{NodeId, Pfn, PfnRange};

use crate::geometry::{Geometry, PageKind, PageRun, Phase, SectionNr};
use crate::profile::{Profile, ZoneIndex};

use super::cut::{self, Block};
use super::migrate::MigrateType;
use super::pageblock;

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
        let sections = self.geometry.sections();
        let pfns = section.pfns(sections.pages_per_section());
        let max_order = self.geometry.profile().max_page_order;
        let mut lists: BTreeMap<Key, Growing> = BTreeMap::new();
        for run in free_runs(self.geometry, pfns) {
            for block in cut::blocks(run.pfns, max_order) {
                self.once_listed(run.phase, block, &mut edit);
                let start = block
                    .pfn
                    .align_down(self.geometry.profile().pageblock_pages());
                let key = Key {
                    node: run.node,
                    zone: run.zone,
                    migrate: pageblock::initial_type(self.geometry, self.grouping, start),
                    order: block.order,
                };
                lists
                    .entry(key)
                    .and_modify(|list| list.push(key, block.pfn, &mut edit))
                    .or_insert_with(|| Growing::new(block.pfn));
            }
        }
        let lists = lists
            .into_iter()
            .map(|(key, list)| list.finish(key, &mut edit))
            .collect();
        SectionFree { section, lists }
    }

    /// Names the pages of `block` that keep list poison.
    fn once_listed(&self, phase: Phase, block: Block, edit: &mut impl FnMut(Edit)) {
        if block.order == 0 {
            return;
        }
        let each = |pfn| edit(Edit::OnceListed(pfn));
        let profile = self.geometry.profile();
        let unit = unit_order(profile, phase, block);
        let seams = self.seams(block.pfns());
        if seams.is_empty() {
            if unit < u32::from(block.order) {
                cut::once_listed(block, cut::pieces(block.pfns(), unit), each);
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    node: NodeId,
    zone: ZoneIndex,
    migrate: MigrateType,
    order: u8,
}

/// A list under construction: its last head waits for its successor.
#[derive(Clone, Copy, Debug)]
struct Growing {
    first: Pfn,
    before: Option<Pfn>,
    last: Pfn,
    count: u64,
}

impl Growing {
    const fn new(first: Pfn) -> Self {
        Self {
            first,
            before: None,
            last: first,
            count: 1,
        }
    }

    fn head(&self, key: Key, next: Option<Pfn>) -> Edit {
        Edit::Head {
            block: Block {
                pfn: self.last,
                order: key.order,
            },
            links: [self.before, next],
            list: (key.node, key.zone, key.migrate),
        }
    }

    fn push(&mut self, key: Key, pfn: Pfn, edit: &mut impl FnMut(Edit)) {
        edit(self.head(key, Some(pfn)));
        self.before = Some(self.last);
        self.last = pfn;
        self.count += 1;
    }

    fn finish(self, key: Key, edit: &mut impl FnMut(Edit)) -> SectionList {
        edit(self.head(key, None));
        SectionList {
            node: key.node,
            zone: key.zone,
            migrate: key.migrate,
            order: key.order,
            first: self.first,
            last: self.last,
            count: self.count,
        }
    }
}
