//! Pageblocks and what each is used for.
//!
//! The type of a pageblock is 0, unmovable, until someone says otherwise; initialisation says so
//! only where the block's first frame passes through one of its setters. That makes the types at
//! hand-over a pure function of the geometry. Later ones are kept here, a byte a block, for the
//! sections that were handed over.
//!
//! # Differences from Linux
//! Linux packs 4 or 8 bits a block into the section's usage structure; [`packed`] shows them so.
//! The compaction-skip bit is not modelled and always 0.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering};

use memblock::{Pfn, PfnRange};
use spin::Once;

use crate::geometry::{Geometry, PageKind, PageRun, SectionNr};

use super::migrate::{MigrateType, MigrateTypes};

/// Whether a kernel on that machine keeps free blocks apart by type: it does not where memory is
/// so small that every type would not get a pageblock.
///
/// Linux: mm/page_alloc.c, `build_all_zonelists`.
#[doc(alias = "page_group_by_mobility_disabled")]
pub fn groups_by_mobility(geometry: &Geometry) -> bool {
    let profile = geometry.profile();
    let types = MigrateTypes::of(profile).len() as u64;
    let pages: u64 = geometry
        .populated_zones()
        .map(|(_, zone)| zone.present)
        .sum();
    pages >= types << profile.pageblock_order
}

/// The type that initialisation leaves in the pageblock that begins at `start`.
///
/// Linux: the calls of `set_pageblock_migratetype` in mm/mm_init.c.
pub fn initial_type(geometry: &Geometry, grouping: bool, start: Pfn) -> MigrateType {
    InitialTypes::new(geometry, grouping).at(start)
}

/// Initial types of one pageblock after the other: what was looked up for a block is remembered
/// for its neighbours, which mostly lie in the same run of pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InitialTypes<'g> {
    geometry: &'g Geometry,
    grouping: bool,
    run: Option<PageRun>,
    first_deferred: Option<Pfn>,
    memory: PfnRange,
}

impl<'g> InitialTypes<'g> {
    pub(crate) const fn new(geometry: &'g Geometry, grouping: bool) -> Self {
        Self {
            geometry,
            grouping,
            run: None,
            first_deferred: None,
            memory: PfnRange::new(Pfn::ZERO, Pfn::ZERO),
        }
    }

    /// The type of the block that begins at `start`.
    pub(crate) fn at(&mut self, start: Pfn) -> MigrateType {
        let behaviours = &self.geometry.profile().behaviours;
        if !self.run.is_some_and(|run| run.pfns.contains(start)) {
            self.run = self.geometry.page_run(start);
            self.first_deferred = self
                .run
                .and_then(|run| self.geometry.first_deferred(run.node));
        }
        let Some(run) = self.run else {
            return MigrateType::Unmovable;
        };
        // Reserved pages of the deferred part are written early, but by the deferred part's rules.
        let deferred = self.first_deferred.is_some_and(|first| first <= start);
        let movable = match run.kind {
            PageKind::Hole | PageKind::Untouched => false,
            // Early initialisation passes through all memory, reserved or not, and no gap; it does
            // not know yet whether types will be kept apart.
            _ if !deferred => self.is_memory(start),
            PageKind::Free => self.grouping,
            PageKind::Reserved | PageKind::NoMap => {
                self.grouping && behaviours.reserved_block_movable
            }
            PageKind::Initialised => false,
        };
        if movable {
            MigrateType::Movable
        } else {
            MigrateType::Unmovable
        }
    }

    fn is_memory(&mut self, pfn: Pfn) -> bool {
        if !self.memory.contains(pfn) {
            let range = self.geometry.memory_at(pfn);
            self.memory = range.map_or(PfnRange::new(pfn, pfn), |range| range.pfns);
        }
        self.memory.contains(pfn)
    }
}

/// Packs the types of a section's blocks as Linux stores them, 64-bit words, lowest block first.
///
/// `bits` a block is 4 or 8. With 8 bits, isolation is a bit beside the type; the type below it
/// is not known here and given as movable, as it is while a block is being onlined.
#[doc(alias = "pageblock_flags")]
pub fn packed(types: &[MigrateType], known: MigrateTypes, bits: u8) -> Vec<u64> {
    const ISOLATE_BIT: u64 = 1 << 4;
    let bits = usize::from(bits.clamp(1, 64));
    let mut words = alloc::vec![0; (types.len() * bits).div_ceil(64)];
    for (i, migrate) in types.iter().enumerate() {
        let value = match migrate {
            MigrateType::Isolate if bits >= 8 => ISOLATE_BIT | MigrateType::Movable as u64,
            other => known.index_of(*other).unwrap_or(0) as u64,
        };
        words[i * bits / 64] |= value << (i * bits % 64);
    }
    words
}

/// The types of pageblocks, section by section.
#[derive(Debug)]
pub(crate) struct Pageblocks {
    pages_per_section: u64,
    order: u32,
    /// Runs of sections by their first one.
    runs: BTreeMap<u64, Vec<Once<Box<[AtomicU8]>>>>,
    /// Blocks in which several zones have memory, by their numbers.
    mixed: BTreeSet<u64>,
}

/// Pageblocks in which several zones have memory, by their numbers.
fn mixed(geometry: &Geometry) -> BTreeSet<u64> {
    let order = geometry.profile().pageblock_order;
    let memory = geometry.page_runs().iter().filter(|run| {
        // what nobody can ever free is no zone's here
        !matches!(
            run.kind,
            PageKind::Hole | PageKind::Untouched | PageKind::NoMap
        )
    });
    let mut mixed = BTreeSet::new();
    let mut before = None;
    for run in memory {
        let owner = (run.node, run.zone);
        let first = run.pfns.start().get() >> order;
        if before.is_some_and(|(last, other)| last == first && other != owner) {
            mixed.insert(first);
        }
        before = Some(((run.pfns.end().get() - 1) >> order, owner));
    }
    mixed
}

impl Pageblocks {
    /// Room for the present sections; nothing is stored until one is handed over.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let sections = geometry.sections();
        let mut runs = BTreeMap::new();
        for run in sections.runs() {
            let blocks = (0..run.count).map(|_| Once::new()).collect();
            runs.insert(run.first.0, blocks);
        }
        if sections.runs().is_empty() {
            // FLATMEM: the array's range, taken as sections.
            for valid in sections.valid_ranges() {
                let first = valid.start().get() / sections.pages_per_section();
                let end = valid.end().get().div_ceil(sections.pages_per_section());
                runs.insert(first, (first..end).map(|_| Once::new()).collect());
            }
        }
        Self {
            pages_per_section: sections.pages_per_section(),
            order: geometry.profile().pageblock_order,
            runs,
            mixed: mixed(geometry),
        }
    }

    /// The frames of the pageblock that holds `pfn`.
    pub(crate) fn block(&self, pfn: Pfn) -> PfnRange {
        let start = pfn.align_down(1 << self.order);
        PfnRange::new(start, start.saturating_add(1 << self.order))
    }

    /// Whether several zones have memory in the pageblock that holds `pfn`. Neither may change its type:
    /// the free blocks of the other ones are on lists of that type, under locks of their own.
    pub(crate) fn is_mixed(&self, pfn: Pfn) -> bool {
        self.mixed.contains(&(pfn.get() >> self.order))
    }

    fn cell(&self, section: u64) -> Option<&Once<Box<[AtomicU8]>>> {
        let (first, run) = self.runs.range(..=section).next_back()?;
        run.get(usize::try_from(section - first).ok()?)
    }

    fn slot(&self, pfn: Pfn) -> Option<&AtomicU8> {
        let blocks = self.cell(pfn.get() / self.pages_per_section)?.get()?;
        blocks.get(((pfn.get() % self.pages_per_section) >> self.order) as usize)
    }

    /// Stores what initialisation leaves in the blocks of `section`; says whether this was the
    /// first time.
    pub(crate) fn initialise(
        &self,
        geometry: &Geometry,
        grouping: bool,
        section: SectionNr,
    ) -> bool {
        let mut first = false;
        if let Some(cell) = self.cell(section.0) {
            cell.call_once(|| {
                first = true;
                initial_types(geometry, grouping, section)
                    .map(|migrate| AtomicU8::new(migrate as u8))
                    .collect()
            });
        }
        first
    }

    /// Whether types of `section` are stored.
    pub(crate) fn is_known(&self, section: SectionNr) -> bool {
        self.cell(section.0).is_some_and(Once::is_completed)
    }

    /// The type of the block that holds `pfn`.
    #[doc(alias = "get_pageblock_migratetype")]
    pub(crate) fn get(&self, pfn: Pfn) -> MigrateType {
        // Written and read under the zone's lock; readers without it may be late, as in Linux.
        let value = self
            .slot(pfn)
            .map_or(0, |slot| slot.load(Ordering::Relaxed));
        MigrateType::ALL
            .get(usize::from(value))
            .copied()
            .unwrap_or(MigrateType::Unmovable)
    }

    /// Sets the type of every block that begins in `pfns`, or holds its start.
    #[doc(alias = "set_pageblock_migratetype")]
    pub(crate) fn set(&self, pfns: PfnRange, migrate: MigrateType) {
        let mut at = self.block(pfns.start()).start();
        while at < pfns.end() {
            if let Some(slot) = self.slot(at) {
                slot.store(migrate as u8, Ordering::Relaxed);
            }
            at = at.saturating_add(1 << self.order);
        }
    }

    /// Adds a section that was not there, its blocks of type `migrate`.
    pub(crate) fn add(&mut self, section: SectionNr, migrate: MigrateType) {
        if self.cell(section.0).is_none() {
            let cell = Once::new();
            let blocks = self.pages_per_section >> self.order;
            cell.call_once(|| (0..blocks).map(|_| AtomicU8::new(migrate as u8)).collect());
            self.runs.insert(section.0, alloc::vec![cell]);
        }
    }

    /// Forgets a section that [`Pageblocks::add`] added.
    pub(crate) fn remove(&mut self, section: SectionNr) {
        self.runs.remove(&section.0);
    }
}

/// The types that initialisation leaves in the blocks of `section`, ascending.
pub fn initial_types(
    geometry: &Geometry,
    grouping: bool,
    section: SectionNr,
) -> impl Iterator<Item = MigrateType> + '_ {
    let pages = geometry.sections().pages_per_section();
    let step = geometry.profile().pageblock_pages();
    let start = section.pfns(pages).start();
    let mut types = InitialTypes::new(geometry, grouping);
    (0..pages / step).map(move |i| types.at(start.saturating_add(i * step)))
}
