//! The page allocator of a modelled machine.
//!
//! [`Allocator`] holds the zones of every node with their free lists, and gives out and takes back
//! blocks as Linux does. Any number of simulated CPUs may use it at once.
//!
//! # Locking
//! One lock a zone, taken for each operation and never two at a time. Struct pages are loaded and
//! stored as single words ([`StructPages`]); those of free pages only under their zone's lock.
//! Memory hotplug takes the allocator exclusively (`&mut`).
//!
//! # Differences from Linux
//! Not modelled: watermarks and the reserves behind them (a zone gives out its last block), the
//! per-CPU lists in front of blocks of low order, compaction and reclaim, the choice to avoid
//! fragmentation before falling back (`ALLOC_NOFRAGMENT`), reserves for atomic allocations,
//! unaccepted memory, shuffling.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use memblock::{NodeId, Pfn, PfnRange};

use crate::geometry::{Geometry, Node, SectionNr};
use crate::profile::{Profile, ZoneIndex, ZoneKind};

use super::cut::Block;
use super::error::{AllocError, FreeError};
use super::exchange::Rules;
use super::migrate::MigrateType;
use super::pageblock::{self, Pageblocks};
use super::pages::{COUNTS, FLAGS, NO_TYPE, PageWords, StructPages};
use super::section::{Edit, HandOver, SectionFree};
use super::zone::{FreeZone, ListHeads, ListId};
use super::zonelist::{self, NodeDistances};

/// What an allocation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Log2 of the pages.
    pub order: u8,
    /// The node whose list is used.
    pub node: NodeId,
    /// The highest zone that will do.
    #[doc(alias = "gfp_zone")]
    pub zone: ZoneIndex,
    /// What the pages will be used for.
    pub migrate: MigrateType,
}

/// Makes more memory free where a zone has run out: by initialising what was deferred.
pub trait Grow<P>: Send + Sync {
    /// Tries to add at least `2^order` pages to `zone` of `node`, and says whether it is worth
    /// asking the zone again. No lock is held.
    #[doc(alias = "_deferred_grow_zone")]
    fn grow(&self, allocator: &Allocator<P>, node: NodeId, zone: ZoneIndex, order: u8) -> bool;
}

/// The page allocator of one machine.
pub struct Allocator<P> {
    pub(crate) pages: P,
    pub(crate) profile: Profile,
    pub(crate) words: PageWords,
    /// Every configured zone of every node, by node and index.
    pub(crate) zones: BTreeMap<(NodeId, ZoneIndex), FreeZone>,
    pub(crate) spans: BTreeMap<(NodeId, ZoneIndex), PfnRange>,
    orders: BTreeMap<NodeId, Vec<NodeId>>,
    distances: NodeDistances,
    pub(crate) blocks: Pageblocks,
    grouping: bool,
    growth: Option<Box<dyn Grow<P>>>,
}

impl<P: fmt::Debug> fmt::Debug for Allocator<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocator")
            .field("pages", &self.pages)
            .field("zones", &self.zones)
            .field("grouping", &self.grouping)
            .finish_non_exhaustive()
    }
}

impl<P: StructPages> Allocator<P> {
    /// An allocator without a free page, for the machine of `geometry`.
    ///
    /// Linux: mm/page_alloc.c, `build_all_zonelists`.
    #[doc(alias = "build_all_zonelists")]
    pub fn new(pages: P, geometry: &Geometry, distances: NodeDistances, heads: ListHeads) -> Self {
        let profile = geometry.profile().clone();
        let mut zones = BTreeMap::new();
        let mut spans = BTreeMap::new();
        for node in geometry.nodes() {
            for (index, kind) in profile.zones.iter() {
                let zone = FreeZone::new(&profile, node.id, index, kind, heads);
                zones.insert((node.id, index), zone);
            }
            for zone in &node.zones {
                spans.insert((node.id, zone.index), zone.span());
            }
        }
        Self {
            words: PageWords::new(&profile),
            orders: zonelist::fallback_orders(geometry, &distances),
            distances,
            blocks: Pageblocks::new(geometry),
            grouping: pageblock::groups_by_mobility(geometry),
            growth: None,
            pages,
            profile,
            zones,
            spans,
        }
    }

    /// Lets `growth` be asked where a zone has run out, or nobody.
    pub fn set_growth(&mut self, growth: Option<Box<dyn Grow<P>>>) {
        self.growth = growth;
    }

    /// The struct pages.
    pub const fn pages(&self) -> &P {
        &self.pages
    }

    /// Gives the struct pages back; the free lists live on in them.
    pub fn into_pages(self) -> P {
        self.pages
    }

    /// The kernel.
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Whether free blocks are kept apart by type.
    #[doc(alias = "page_group_by_mobility_disabled")]
    pub const fn groups_by_mobility(&self) -> bool {
        self.grouping
    }

    /// The nodes that an allocation on `node` is tried on, in this order; `None` where it is not
    /// online.
    pub fn fallback_order(&self, node: NodeId) -> Option<&[NodeId]> {
        self.orders.get(&node).map(Vec::as_slice)
    }

    /// Takes over what memory that came or went changed in the zones.
    #[doc(alias = "build_all_zonelists")]
    pub(crate) fn refresh(&mut self, nodes: &[Node]) {
        for node in nodes {
            for zone in &node.zones {
                self.spans.insert((node.id, zone.index), zone.span());
            }
        }
        self.orders = zonelist::of_nodes(nodes, &self.distances);
    }

    pub(crate) fn rules(&self) -> Rules<'_> {
        Rules {
            profile: &self.profile,
            blocks: &self.blocks,
            grouping: self.grouping,
        }
    }

    /// Makes the change of `edit`. Whoever holds a section exclusively does it there; this is for
    /// sections that are published.
    pub fn apply(&self, edit: Edit) {
        let link = |pfn| self.pages.address(pfn).unwrap_or(0).wrapping_add(8);
        let pfn = match edit {
            Edit::Head { block, .. } => block.pfn,
            Edit::OnceListed(pfn) => pfn,
        };
        self.words
            .each_word(edit, link, |word, value| self.pages.store(pfn, word, value));
    }

    /// Hands over one published section whose heads nobody has written yet.
    pub fn hand_over(&self, plan: &HandOver<'_>, section: SectionNr) {
        let free = plan.section(section, |edit| self.apply(edit));
        self.join(plan, &free);
    }

    /// Joins the lists of a published section, heads written, to the tails of the zones'.
    ///
    /// Called in pfn order, the result does not depend on who wrote the sections. A section is
    /// joined once; again, nothing happens.
    pub fn join(&self, plan: &HandOver<'_>, free: &SectionFree) {
        if !self
            .blocks
            .initialise(plan.geometry(), self.grouping, free.section)
        {
            return;
        }
        for list in &free.lists {
            let Some(zone) = self.zones.get(&(list.node, list.zone)) else {
                continue;
            };
            let mut locked = zone.lock(&self.pages, &self.words);
            let id = ListId {
                order: list.order,
                migrate: list.migrate,
            };
            locked.append(id, list.first, list.last, list.count);
            locked.counters.managed += list.count << list.order;
        }
    }

    /// Whether `section` was handed over.
    pub fn is_handed_over(&self, section: SectionNr) -> bool {
        self.blocks.is_known(section)
    }

    /// Allocates `2^order` pages: the first of them, its struct page with one reference.
    ///
    /// Zones are tried in the order of the node's list; one that has run out is asked again if
    /// growth brought something.
    ///
    /// # Errors
    /// - [`AllocError::NoMemory`] where no zone has a block.
    /// - [`AllocError::OrderTooLarge`], [`AllocError::Type`], [`AllocError::Node`] for requests
    ///   that no machine could meet.
    ///
    /// Linux: mm/page_alloc.c, `get_page_from_freelist`.
    #[doc(alias = "get_page_from_freelist")]
    pub fn alloc_pages(&self, request: Request) -> Result<Pfn, AllocError> {
        let Request {
            order,
            node,
            zone: highest,
            migrate,
        } = request;
        let max = self.profile.max_page_order as u8;
        if order > max {
            return Err(AllocError::OrderTooLarge { order, max });
        }
        if !migrate.is_mergeable() {
            return Err(AllocError::Type(migrate));
        }
        let nodes = self.fallback_order(node).ok_or(AllocError::Node(node))?;
        for node in nodes {
            let below = (*node, ZoneIndex(0))..=(*node, highest);
            for (&(node, index), zone) in self.zones.range(below).rev() {
                if zone.kind == ZoneKind::Device {
                    continue;
                }
                if let Some(pfn) = self.take(zone, order, migrate) {
                    return Ok(pfn);
                }
                if let Some(growth) = &self.growth {
                    while growth.grow(self, node, index, order) {
                        if let Some(pfn) = self.take(zone, order, migrate) {
                            return Ok(pfn);
                        }
                    }
                }
            }
        }
        Err(AllocError::NoMemory {
            order,
            migrate,
            zone: highest,
        })
    }

    fn take(&self, zone: &FreeZone, order: u8, migrate: MigrateType) -> Option<Pfn> {
        let migrate = if self.grouping {
            migrate
        } else {
            MigrateType::Unmovable
        };
        let mut locked = zone.lock(&self.pages, &self.words);
        let pfn = locked.take(self.rules(), order, migrate)?;
        self.pages.store(pfn, COUNTS, self.words.counts(NO_TYPE, 1));
        Some(pfn)
    }

    /// Frees the block of `2^order` pages that begins at `pfn`.
    ///
    /// # Errors
    /// A [`FreeError`] where the pages are not one block in use; nothing changes then.
    #[doc(alias = "__free_pages")]
    pub fn free_pages(&self, pfn: Pfn, order: u8) -> Result<(), FreeError> {
        let block = self.block(pfn, order)?;
        let zone = self.zone_of(pfn)?;
        let mut locked = zone.lock(&self.pages, &self.words);
        self.check_in_use(block)?;
        self.pages.store(pfn, COUNTS, self.words.free_page());
        locked.free_block(self.rules(), block, false);
        Ok(())
    }

    /// Makes `2^order` blocks of one page out of one block in use, to be freed one by one.
    ///
    /// # Errors
    /// A [`FreeError`] where the pages are not one block in use; nothing changes then.
    pub fn split_page(&self, pfn: Pfn, order: u8) -> Result<(), FreeError> {
        let block = self.block(pfn, order)?;
        let _locked = self.zone_of(pfn)?.lock(&self.pages, &self.words);
        self.check_in_use(block)?;
        for page in pfns(block.pfns()) {
            self.pages
                .store(page, COUNTS, self.words.counts(NO_TYPE, 1));
        }
        Ok(())
    }

    /// Gives reserved pages to the allocator, as is done with the initial ramdisk and init memory.
    /// Returns how many.
    ///
    /// # Errors
    /// [`FreeError`] at the first page that is not reserved; those below it are free then.
    ///
    /// Linux: mm/page_alloc.c, `free_reserved_area`.
    #[doc(alias = "free_reserved_area")]
    #[doc(alias = "free_reserved_page")]
    pub fn free_reserved(&self, range: PfnRange) -> Result<u64, FreeError> {
        for page in pfns(range) {
            let zone = self.zone_of(page)?;
            let mut locked = zone.lock(&self.pages, &self.words);
            let flags = self.load(page, FLAGS)?;
            if !self.words.is_reserved(flags) {
                return Err(FreeError::NotReserved { pfn: page });
            }
            self.pages
                .store(page, FLAGS, self.words.without_reserved(flags));
            self.pages.store(page, COUNTS, self.words.free_page());
            let block = Block {
                pfn: page,
                order: 0,
            };
            locked.free_block(self.rules(), block, false);
            locked.counters.managed += 1;
        }
        Ok(range.len())
    }

    /// Gives reserved pageblocks to the allocator for contiguous allocation: they become of type
    /// CMA and are freed whole, as is done once boot is far enough. Returns how many pages.
    ///
    /// # Errors
    /// [`FreeError::Misaligned`] where `range` is not whole pageblocks, [`FreeError::NotReserved`]
    /// for the first page that is not reserved; blocks below its own are free then.
    ///
    /// Linux: mm/mm_init.c, `init_cma_reserved_pageblock`.
    #[doc(alias = "init_cma_reserved_pageblock")]
    pub fn activate_cma(&self, range: PfnRange) -> Result<u64, FreeError> {
        let order = self.profile.pageblock_order as u8;
        for edge in [range.start(), range.end()] {
            self.block(edge, order)?;
        }
        for start in (range.start().get()..range.end().get())
            .step_by(1 << order)
            .map(Pfn::new)
        {
            let block = self.block(start, order)?;
            let zone = self.zone_of(start)?;
            let mut locked = zone.lock(&self.pages, &self.words);
            for page in pfns(block.pfns()) {
                if !self.words.is_reserved(self.load(page, FLAGS)?) {
                    return Err(FreeError::NotReserved { pfn: page });
                }
            }
            for page in pfns(block.pfns()) {
                let flags = self.words.without_reserved(self.load(page, FLAGS)?);
                self.pages.store(page, FLAGS, flags);
                self.pages.store(page, COUNTS, self.words.free_page());
            }
            self.rules().set_type(block.pfns(), MigrateType::Cma);
            locked.counters.managed += block.pages();
            locked.free_block(self.rules(), block, false);
        }
        Ok(range.len())
    }

    fn load(&self, pfn: Pfn, word: usize) -> Result<u64, FreeError> {
        self.pages.load(pfn, word).ok_or(FreeError::NoPage { pfn })
    }

    fn block(&self, pfn: Pfn, order: u8) -> Result<Block, FreeError> {
        let max = self.profile.max_page_order as u8;
        if order > max {
            return Err(FreeError::OrderTooLarge { order, max });
        }
        if !pfn.is_aligned(1 << order) {
            return Err(FreeError::Misaligned { pfn, order });
        }
        Ok(Block { pfn, order })
    }

    fn zone_of(&self, pfn: Pfn) -> Result<&FreeZone, FreeError> {
        let (node, zone) = self.words.zone_of(self.load(pfn, FLAGS)?);
        self.zones
            .get(&(node, zone))
            .ok_or(FreeError::NoZone { pfn, node, zone })
    }

    /// Whether the block is one in use: references on its first page alone, and no part of it
    /// free. A block that was allocated smaller ends where another begins, so that shows.
    fn check_in_use(&self, block: Block) -> Result<(), FreeError> {
        for page in pfns(block.pfns()) {
            if self.words.is_reserved(self.load(page, FLAGS)?) {
                return Err(FreeError::Reserved { pfn: page });
            }
            let (page_type, references) = self.words.split_counts(self.load(page, COUNTS)?);
            let used = page_type == NO_TYPE && references > 0;
            if page == block.pfn && !used {
                return Err(FreeError::NotInUse { pfn: page });
            }
            if page != block.pfn && (page_type != NO_TYPE || references > 0) {
                return Err(FreeError::Overlaps { pfn: page });
            }
        }
        Ok(())
    }
}

fn pfns(range: PfnRange) -> impl Iterator<Item = Pfn> {
    (range.start().get()..range.end().get()).map(Pfn::new)
}
