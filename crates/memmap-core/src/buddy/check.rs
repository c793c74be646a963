//! The invariants of free lists, verified.

use alloc::vec::Vec;

use memblock::{NodeId, Pfn, PfnRange};

use crate::profile::ZoneIndex;

use super::allocator::Allocator;
use super::cut::Block;
use super::migrate::{MigrateType, MigrateTypes};
use super::pages::{COUNTS, StructPages};
use super::zone::{ListId, LockedZone};

/// An invariant that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The links of a list do not lead there and back over as many blocks as are counted.
    #[error("{node:?} {zone:?}: the list of {migrate} blocks of order {order} is not well linked")]
    Links {
        /// The node.
        node: NodeId,
        /// The zone.
        zone: ZoneIndex,
        /// The list's type.
        migrate: MigrateType,
        /// The list's order.
        order: u8,
    },
    /// A listed block's head does not say what it is.
    #[error("{pfn:?} is listed as a free block of order {order}, but its struct page disagrees")]
    Head {
        /// Its first page.
        pfn: Pfn,
        /// The list's order.
        order: u8,
    },
    /// A listed block is not aligned, or of another zone.
    #[error("{pfn:?} is listed as a free block of order {order} of a zone it is not in")]
    Place {
        /// Its first page.
        pfn: Pfn,
        /// The list's order.
        order: u8,
    },
    /// A listed block's pageblock is of another type.
    #[error("{pfn:?} is on a list of {listed} blocks, but its pageblock is {block}")]
    Type {
        /// Its first page.
        pfn: Pfn,
        /// The list's type.
        listed: MigrateType,
        /// The pageblock's.
        block: MigrateType,
    },
    /// Two free blocks share a page.
    #[error("{pfn:?} is in two free blocks")]
    Twice {
        /// The first page of the upper one.
        pfn: Pfn,
    },
    /// Two buddies are both free and have not merged.
    #[error("{pfn:?} and its buddy of order {order} are both free")]
    Unmerged {
        /// The first page of the lower one.
        pfn: Pfn,
        /// Their order.
        order: u8,
    },
    /// A page inside a free block has references or a type.
    #[error("{pfn:?} lies in a free block but is in use")]
    UsedInside {
        /// The page.
        pfn: Pfn,
    },
    /// The free pages counted are not those listed, or more than are managed.
    #[error(
        "{node:?} {zone:?}: {counted} pages are counted as free, {listed} listed, {managed} managed"
    )]
    Count {
        /// The node.
        node: NodeId,
        /// The zone.
        zone: ZoneIndex,
        /// The counter.
        counted: u64,
        /// Pages of listed blocks that are not set aside.
        listed: u64,
        /// Pages managed.
        managed: u64,
    },
}

impl<P: StructPages> Allocator<P> {
    /// Verifies the free lists and every page of the blocks on them; what does not hold, zone by
    /// zone. Each zone is locked meanwhile.
    pub fn check(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        for zone in self.zones.values() {
            let locked = zone.lock(&self.pages, &self.words);
            self.check_zone(&locked, &mut found);
        }
        found
    }

    fn check_zone(&self, locked: &LockedZone<'_, P>, found: &mut Vec<Violation>) {
        let (node, zone) = (locked.zone.node, locked.zone.zone);
        let mut blocks: Vec<(Block, MigrateType)> = Vec::new();
        let mut listed = 0;
        for migrate in MigrateTypes::of(&self.profile).iter() {
            for order in 0..=locked.zone.max_order {
                let list = ListId { order, migrate };
                if !locked.is_well_linked(list) {
                    found.push(Violation::Links {
                        node,
                        zone,
                        migrate,
                        order,
                    });
                    continue;
                }
                blocks.extend(locked.blocks(list).map(|block| (block, migrate)));
                if migrate != MigrateType::Isolate {
                    listed += locked.nr_free(list) << order;
                }
            }
        }
        blocks.sort_unstable();
        for (block, migrate) in &blocks {
            self.check_block(locked, *block, *migrate, found);
        }
        for pair in blocks.windows(2) {
            if pair[0].0.pfns().end() > pair[1].0.pfn {
                found.push(Violation::Twice { pfn: pair[1].0.pfn });
            }
        }
        let counters = &locked.counters;
        if counters.free_pages != listed || listed > counters.managed {
            found.push(Violation::Count {
                node,
                zone,
                counted: counters.free_pages,
                listed,
                managed: counters.managed,
            });
        }
    }

    fn check_block(
        &self,
        locked: &LockedZone<'_, P>,
        block: Block,
        listed: MigrateType,
        found: &mut Vec<Violation>,
    ) {
        let Block { pfn, order } = block;
        if locked.free_order(pfn) != Some(order) {
            found.push(Violation::Head { pfn, order });
        }
        if !pfn.is_aligned(block.pages()) || !locked.owns(pfn) {
            found.push(Violation::Place { pfn, order });
        }
        let of_block = self.blocks.get(pfn);
        if self.profile.behaviours.strict_free_lists && of_block != listed {
            found.push(Violation::Type {
                pfn,
                listed,
                block: of_block,
            });
        }
        let inner = PfnRange::new(pfn.saturating_add(1), block.pfns().end());
        for page in (inner.start().get()..inner.end().get()).map(Pfn::new) {
            if self.pages.load(page, COUNTS) != Some(self.words.free_page()) {
                found.push(Violation::UsedInside { pfn: page });
            }
        }
        let buddy = block.buddy();
        if order < locked.zone.max_order
            && pfn < buddy.pfn
            && locked.free_order(buddy.pfn) == Some(order)
            && locked.owns(buddy.pfn)
        {
            let other = self.blocks.get(buddy.pfn);
            let may_merge = of_block == other || (of_block.is_mergeable() && other.is_mergeable());
            if may_merge {
                found.push(Violation::Unmerged { pfn, order });
            }
        }
    }
}
