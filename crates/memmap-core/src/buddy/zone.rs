//! A zone's free lists: doubly linked through the heads' own struct pages.
//!
//! The lists are Linux's: each head's words 1 and 2 hold the addresses of its neighbours' words
//! 1, and the ends point to the list's own head, whose address is kept here. Nothing else records
//! where a block is, so what one reads in struct pages is what the allocator acts on.
//!
//! # Implementation
//! One lock a zone guards its counters, its list heads and the words of its free pages. List heads
//! are atomics so that they can be read while [`AddressSpace::Host`] exposes their addresses.
//!
//! [`AddressSpace::Host`]: crate::buddy::ListHeads::Host

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use memblock::{NodeId, Pfn, PfnRange};
use spin::{Mutex, MutexGuard};

use crate::profile::{Profile, ZoneIndex, ZoneKind};

use super::cut::Block;
use super::migrate::{MigrateType, MigrateTypes};
use super::pages::{COUNTS, NEXT, PREV, PRIVATE, PageWords, StructPages};

/// Where list heads are, in the address space that links are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListHeads {
    /// Inside a modelled node structure at this address for node 0, others 1 MiB apart. Only the
    /// distances inside a zone's lists are Linux's; nothing that boots says where a node's
    /// structure lies before memory is laid out.
    #[doc(alias = "NODE_DATA")]
    Kernel {
        /// The address of node 0's first list head.
        base: u64,
    },
    /// Where this program keeps them.
    Host,
}

impl Default for ListHeads {
    fn default() -> Self {
        Self::Kernel {
            base: 0xffff_8880_ff00_0000,
        }
    }
}

/// Bytes between the lists of two nodes in [`ListHeads::Kernel`].
const NODE_STRIDE: u64 = 1 << 20;
/// Bytes between the lists of two zones of a node in [`ListHeads::Kernel`].
const ZONE_STRIDE: u64 = 1 << 14;

/// Counters of a zone, guarded by its lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Free blocks by list.
    pub(crate) nr_free: Vec<u64>,
    /// Free pages.
    pub(crate) free_pages: u64,
    /// Free pages of pageblocks kept for contiguous allocation.
    pub(crate) free_cma: u64,
    /// Pages under the allocator's care, free or not.
    pub(crate) managed: u64,
}

/// A zone of a node, as the allocator keeps it.
#[derive(Debug)]
pub(crate) struct FreeZone {
    pub(crate) node: NodeId,
    pub(crate) zone: ZoneIndex,
    pub(crate) kind: ZoneKind,
    counters: Mutex<Counters>,
    /// `next` and `prev` of each list, by order and type.
    heads: Box<[AtomicU64]>,
    base: Option<u64>,
    types: MigrateTypes,
    pub(crate) max_order: u8,
}

/// One list of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListId {
    pub(crate) order: u8,
    pub(crate) migrate: MigrateType,
}

/// A zone whose lock is held.
pub(crate) struct LockedZone<'z, P: ?Sized> {
    pub(crate) zone: &'z FreeZone,
    pub(crate) pages: &'z P,
    pub(crate) words: &'z PageWords,
    pub(crate) counters: MutexGuard<'z, Counters>,
}

impl FreeZone {
    pub(crate) fn new(
        profile: &Profile,
        node: NodeId,
        zone: ZoneIndex,
        kind: ZoneKind,
        place: ListHeads,
    ) -> Self {
        let types = MigrateTypes::of(profile);
        let lists = (profile.max_page_order as usize + 1) * types.len();
        let fresh = Self {
            node,
            zone,
            kind,
            counters: Mutex::new(Counters {
                nr_free: vec![0; lists],
                ..Counters::default()
            }),
            heads: (0..2 * lists).map(|_| AtomicU64::new(0)).collect(),
            base: match place {
                ListHeads::Kernel { base } => Some(
                    base.wrapping_add(u64::from(node.get()) * NODE_STRIDE)
                        .wrapping_add(u64::from(zone.0) * ZONE_STRIDE),
                ),
                ListHeads::Host => None,
            },
            types,
            max_order: profile.max_page_order as u8,
        };
        for list in 0..lists {
            let own = fresh.head_address(list);
            fresh.heads[2 * list].store(own, Ordering::Relaxed);
            fresh.heads[2 * list + 1].store(own, Ordering::Relaxed);
        }
        fresh
    }

    /// Takes the zone's lock.
    #[doc(alias = "zone_lock")]
    pub(crate) fn lock<'z, P: StructPages + ?Sized>(
        &'z self,
        pages: &'z P,
        words: &'z PageWords,
    ) -> LockedZone<'z, P> {
        LockedZone {
            zone: self,
            pages,
            words,
            counters: self.counters.lock(),
        }
    }

    /// The counters alone.
    pub(crate) fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock()
    }

    pub(crate) const fn types(&self) -> MigrateTypes {
        self.types
    }

    pub(crate) fn index(&self, list: ListId) -> usize {
        let migrate = self.types.index_of(list.migrate).unwrap_or(0);
        usize::from(list.order) * self.types.len() + migrate
    }

    /// The address of a list's head.
    pub(crate) fn head_address(&self, index: usize) -> u64 {
        match self.base {
            // As in `struct free_area`: the heads of one order, then a counter.
            Some(base) => {
                let types = self.types.len() as u64;
                let (order, migrate) = (index as u64 / types, index as u64 % types);
                base + order * (types * 16 + 8) + migrate * 16
            }
            None => self.heads[2 * index].as_ptr().addr() as u64,
        }
    }

    /// The first block of a list, for those who hold the lock.
    fn first<P: StructPages + ?Sized>(&self, pages: &P, index: usize) -> Option<Pfn> {
        let next = self.heads[2 * index].load(Ordering::Relaxed);
        if next == self.head_address(index) {
            return None;
        }
        pages.at(next.wrapping_sub(8))
    }
}

impl<P: StructPages + ?Sized> LockedZone<'_, P> {
    fn link_address(&self, pfn: Pfn) -> u64 {
        self.pages.address(pfn).unwrap_or(0).wrapping_add(8)
    }

    /// Stores `value` where the link at `address` says: in a list's head or a struct page.
    fn set_link(&self, index: usize, address: u64, word: usize, value: u64) {
        if address == self.zone.head_address(index) {
            let slot = 2 * index + usize::from(word == PREV);
            self.zone.heads[slot].store(value, Ordering::Relaxed);
        } else if let Some(pfn) = self.pages.at(address.wrapping_sub(8)) {
            self.pages.store(pfn, word, value);
        }
    }

    fn count(&mut self, list: ListId, blocks: i64) {
        let index = self.zone.index(list);
        let counters = &mut *self.counters;
        let pages = blocks << list.order;
        counters.nr_free[index] = counters.nr_free[index].wrapping_add_signed(blocks);
        // Linux does not count what is set aside as free.
        if list.migrate != MigrateType::Isolate {
            counters.free_pages = counters.free_pages.wrapping_add_signed(pages);
        }
        if list.migrate == MigrateType::Cma {
            counters.free_cma = counters.free_cma.wrapping_add_signed(pages);
        }
    }

    pub(crate) fn nr_free(&self, list: ListId) -> u64 {
        self.counters.nr_free[self.zone.index(list)]
    }

    /// The first block of a list.
    pub(crate) fn first(&self, list: ListId) -> Option<Block> {
        let pfn = self.zone.first(self.pages, self.zone.index(list))?;
        Some(Block {
            pfn,
            order: list.order,
        })
    }

    /// The order of the free block that `pfn` heads, or `None`.
    pub(crate) fn free_order(&self, pfn: Pfn) -> Option<u8> {
        let counts = self.pages.load(pfn, COUNTS)?;
        if !self.words.is_free_head(counts) {
            return None;
        }
        u8::try_from(self.pages.load(pfn, PRIVATE)?).ok()
    }

    /// Whether the page is of this zone.
    pub(crate) fn owns(&self, pfn: Pfn) -> bool {
        self.pages
            .load(pfn, super::pages::FLAGS)
            .is_some_and(|flags| self.words.zone_of(flags) == (self.zone.node, self.zone.zone))
    }

    /// Puts a block at the tail or the head of its list and makes it a free block's head.
    #[doc(alias = "__add_to_free_list")]
    pub(crate) fn add(&mut self, block: Block, migrate: MigrateType, tail: bool) {
        let list = ListId {
            order: block.order,
            migrate,
        };
        let index = self.zone.index(list);
        let own = self.link_address(block.pfn);
        let head = self.zone.head_address(index);
        let (prev, next) = if tail {
            (self.zone.heads[2 * index + 1].load(Ordering::Relaxed), head)
        } else {
            (head, self.zone.heads[2 * index].load(Ordering::Relaxed))
        };
        self.pages.store(block.pfn, NEXT, next);
        self.pages.store(block.pfn, PREV, prev);
        self.pages.store(block.pfn, PRIVATE, u64::from(block.order));
        self.pages.store(block.pfn, COUNTS, self.words.free_head());
        self.set_link(index, prev, NEXT, own);
        self.set_link(index, next, PREV, own);
        self.count(list, 1);
    }

    /// Takes a block off its list; its head becomes a page without use.
    #[doc(alias = "__del_page_from_free_list")]
    pub(crate) fn remove(&mut self, block: Block, migrate: MigrateType) {
        let list = ListId {
            order: block.order,
            migrate,
        };
        self.unlink(block.pfn, self.zone.index(list));
        let [poison_next, poison_prev] = self.words.poison;
        self.pages.store(block.pfn, NEXT, poison_next);
        self.pages.store(block.pfn, PREV, poison_prev);
        self.pages.store(block.pfn, PRIVATE, 0);
        self.pages.store(block.pfn, COUNTS, self.words.free_page());
        self.count(list, -1);
    }

    fn unlink(&self, pfn: Pfn, index: usize) {
        let next = self.pages.load(pfn, NEXT).unwrap_or(0);
        let prev = self.pages.load(pfn, PREV).unwrap_or(0);
        self.set_link(index, prev, NEXT, next);
        self.set_link(index, next, PREV, prev);
    }

    /// Moves a block to the tail of the list of another type.
    #[doc(alias = "move_to_free_list")]
    pub(crate) fn move_to(&mut self, block: Block, from: MigrateType, to: MigrateType) {
        let list = |migrate| ListId {
            order: block.order,
            migrate,
        };
        self.unlink(block.pfn, self.zone.index(list(from)));
        self.count(list(from), -1);
        self.add(block, to, true);
    }

    /// Puts `count` blocks, linked from `first` to `last` among themselves, at the list's tail.
    pub(crate) fn append(&mut self, list: ListId, first: Pfn, last: Pfn, count: u64) {
        let index = self.zone.index(list);
        let head = self.zone.head_address(index);
        let tail = self.zone.heads[2 * index + 1].load(Ordering::Relaxed);
        let (first_link, last_link) = (self.link_address(first), self.link_address(last));
        self.pages.store(first, PREV, tail);
        self.pages.store(last, NEXT, head);
        self.set_link(index, tail, NEXT, first_link);
        self.zone.heads[2 * index + 1].store(last_link, Ordering::Relaxed);
        self.count(list, count as i64);
    }

    /// The blocks of a list, first to last; ends early where the links lead nowhere.
    pub(crate) fn blocks(&self, list: ListId) -> impl Iterator<Item = Block> + '_ {
        let index = self.zone.index(list);
        let head = self.zone.head_address(index);
        let mut next = self.zone.heads[2 * index].load(Ordering::Relaxed);
        core::iter::from_fn(move || {
            if next == head {
                return None;
            }
            let pfn = self.pages.at(next.wrapping_sub(8))?;
            next = self.pages.load(pfn, NEXT)?;
            Some(Block {
                pfn,
                order: list.order,
            })
        })
    }

    /// Whether the links of a list lead there and back again, over as many blocks as are counted.
    pub(crate) fn is_well_linked(&self, list: ListId) -> bool {
        let index = self.zone.index(list);
        let head = self.zone.head_address(index);
        let (mut at, mut seen) = (head, 0);
        let mut next = self.zone.heads[2 * index].load(Ordering::Relaxed);
        while next != head {
            let Some(pfn) = self.pages.at(next.wrapping_sub(8)) else {
                return false;
            };
            seen += 1;
            if self.pages.load(pfn, PREV) != Some(at) || seen > self.counters.nr_free[index] {
                return false;
            }
            at = next;
            next = self.pages.load(pfn, NEXT).unwrap_or(0);
        }
        let back = self.zone.heads[2 * index + 1].load(Ordering::Relaxed);
        back == at && seen == self.counters.nr_free[index]
    }

    /// The free block that holds `pfn`, whichever page heads it.
    pub(crate) fn free_block_of(&self, pfn: Pfn) -> Option<Block> {
        (0..=self.zone.max_order).find_map(|order| {
            let start = pfn.align_down(1 << order);
            let found = self.free_order(start)?;
            (found >= order).then_some(Block {
                pfn: start,
                order: found,
            })
        })
    }

    /// The heads of free blocks of this zone in `pfns`, ascending; whole blocks are stepped over.
    pub(crate) fn free_in(&self, pfns: PfnRange) -> Vec<Block> {
        let mut found = Vec::new();
        let mut at = pfns.start();
        while at < pfns.end() {
            match self.free_order(at).filter(|_| self.owns(at)) {
                Some(order) => {
                    found.push(Block { pfn: at, order });
                    at = at.saturating_add(1 << order);
                }
                None => at = at.saturating_add(1),
            }
        }
        found
    }
}
