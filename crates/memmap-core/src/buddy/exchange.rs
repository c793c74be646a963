//! Freeing and taking blocks in one zone: merging, splitting, fallback.
//!
//! Everything here runs under the zone's lock. Which end of a list a block goes to is Linux's
//! choice: what a split leaves goes to the head, so that it is used first; what is freed goes to
//! the head too, unless its neighbour makes a merge likely or the caller asks for the tail.

use alloc::vec::Vec;

use memblock::{Pfn, PfnRange};

use crate::profile::{FallbackRule, Profile};

use super::cut::Block;
use super::migrate::MigrateType;
use super::pageblock::Pageblocks;
use super::pages::StructPages;
use super::zone::{ListId, LockedZone};

/// What the exchange needs to know beside the zone.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) blocks: &'a Pageblocks,
    pub(crate) grouping: bool,
}

impl Rules<'_> {
    fn pageblock_order(&self) -> u8 {
        self.profile.pageblock_order as u8
    }

    fn strict(&self) -> bool {
        self.profile.behaviours.strict_free_lists
    }

    /// Stores a type, or unmovable where blocks are not kept apart.
    #[doc(alias = "set_pageblock_migratetype")]
    pub(crate) fn set_type(&self, pfns: PfnRange, migrate: MigrateType) {
        let grouped = self.grouping || !migrate.is_mergeable();
        let stored = if grouped {
            migrate
        } else {
            MigrateType::Unmovable
        };
        self.blocks.set(pfns, stored);
    }
}

impl<P: StructPages + ?Sized> LockedZone<'_, P> {
    /// Frees a block, a pageblock at a time where lists are strict.
    ///
    /// Linux: mm/page_alloc.c, `free_one_page`, `split_large_buddy`.
    #[doc(alias = "free_one_page")]
    #[doc(alias = "split_large_buddy")]
    pub(crate) fn free_block(&mut self, rules: Rules<'_>, block: Block, tail: bool) {
        let unit = if rules.strict() {
            block.order.min(rules.pageblock_order())
        } else {
            block.order
        };
        let mut at = block.pfn;
        while at < block.pfns().end() {
            let piece = Block {
                pfn: at,
                order: unit,
            };
            self.merge_and_add(rules, piece, tail);
            at = piece.pfns().end();
        }
    }

    /// Merges a block with its free buddies and puts the sum on a list.
    ///
    /// Linux: mm/page_alloc.c, `__free_one_page`.
    #[doc(alias = "__free_one_page")]
    fn merge_and_add(&mut self, rules: Rules<'_>, block: Block, tail: bool) {
        let migrate = rules.blocks.get(block.pfn);
        let mut block = block;
        while block.order < self.zone.max_order {
            let buddy = block.buddy();
            if self.free_order(buddy.pfn) != Some(block.order) || !self.owns(buddy.pfn) {
                break;
            }
            let buddy_type = self.listed_type(rules, buddy, migrate);
            if block.order >= rules.pageblock_order() {
                let known = rules.blocks.get(buddy.pfn);
                if known != migrate && !(known.is_mergeable() && migrate.is_mergeable()) {
                    break;
                }
                if known != migrate && rules.strict() {
                    rules.set_type(buddy.pfns(), migrate);
                }
            }
            self.remove(buddy, buddy_type);
            block = block.merged();
        }
        let tail = tail || self.merge_is_likely(block);
        self.add(block, migrate, tail);
    }

    /// Whether the next larger block's buddy is free: then this block may soon be whole, and is
    /// best used last.
    #[doc(alias = "buddy_merge_likely")]
    fn merge_is_likely(&self, block: Block) -> bool {
        if block.order + 1 >= self.zone.max_order {
            return false;
        }
        let higher = block.merged().buddy();
        self.free_order(higher.pfn) == Some(higher.order) && self.owns(higher.pfn)
    }

    /// On the list of which type a free block is.
    ///
    /// Strict lists follow the pageblock. Others may hold blocks that were moved without their
    /// pageblock, so the lists are asked.
    pub(crate) fn listed_type(
        &self,
        rules: Rules<'_>,
        block: Block,
        guess: MigrateType,
    ) -> MigrateType {
        let of_block = rules.blocks.get(block.pfn);
        if rules.strict() {
            return of_block;
        }
        [of_block, guess]
            .into_iter()
            .chain(self.zone.types().iter())
            .find(|migrate| {
                let list = ListId {
                    order: block.order,
                    migrate: *migrate,
                };
                self.nr_free(list) > 0 && self.blocks(list).any(|listed| listed == block)
            })
            .unwrap_or(of_block)
    }

    /// Takes a block of `order`, or `None` where the zone has none for that type.
    ///
    /// Linux: mm/page_alloc.c, `__rmqueue`.
    #[doc(alias = "__rmqueue")]
    pub(crate) fn take(
        &mut self,
        rules: Rules<'_>,
        order: u8,
        migrate: MigrateType,
    ) -> Option<Pfn> {
        // Memory for contiguous allocation is used in turn with the rest, not last.
        let cma = migrate == MigrateType::Movable;
        if cma
            && self.counters.free_cma > self.counters.free_pages / 2
            && let Some(pfn) = self.take_smallest(order, MigrateType::Cma)
        {
            return Some(pfn);
        }
        if let Some(pfn) = self.take_smallest(order, migrate) {
            return Some(pfn);
        }
        if cma && let Some(pfn) = self.take_smallest(order, MigrateType::Cma) {
            return Some(pfn);
        }
        match rules.profile.behaviours.fallback {
            FallbackRule::StealLargest => self.steal_largest(rules, order, migrate),
            FallbackRule::ClaimThenStealSmallest => self
                .claim(rules, order, migrate)
                .or_else(|| self.steal_smallest(order, migrate)),
        }
    }

    /// The smallest block of that type that is large enough, split down.
    #[doc(alias = "__rmqueue_smallest")]
    fn take_smallest(&mut self, order: u8, migrate: MigrateType) -> Option<Pfn> {
        self.zone.types().index_of(migrate)?;
        for from in order..=self.zone.max_order {
            if let Some(block) = self.first(ListId {
                order: from,
                migrate,
            }) {
                self.take_block(block, migrate, order, migrate);
                return Some(block.pfn);
            }
        }
        None
    }

    /// Takes `block` off the list of `listed` and gives back all but its first `2^order` pages,
    /// to the lists of `rest`.
    #[doc(alias = "expand")]
    fn take_block(&mut self, block: Block, listed: MigrateType, order: u8, rest: MigrateType) {
        self.remove(block, listed);
        for high in (order..block.order).rev() {
            let half = Block {
                pfn: block.pfn.saturating_add(1 << high),
                order: high,
            };
            self.add(half, rest, false);
        }
    }

    /// The first fallback type that has a block of that order.
    #[doc(alias = "find_suitable_fallback")]
    fn fallback_type(&self, order: u8, migrate: MigrateType) -> Option<MigrateType> {
        migrate.fallbacks().iter().copied().find(|other| {
            self.nr_free(ListId {
                order,
                migrate: *other,
            }) > 0
        })
    }

    /// Whether a block of that order is worth changing its whole pageblock for.
    #[doc(alias = "can_steal_fallback")]
    #[doc(alias = "should_try_claim_block")]
    fn may_claim(rules: Rules<'_>, order: u8, migrate: MigrateType) -> bool {
        order >= rules.pageblock_order() / 2
            || matches!(migrate, MigrateType::Reclaimable | MigrateType::Unmovable)
            || !rules.grouping
    }

    /// Linux: mm/page_alloc.c, `__rmqueue_fallback` up to 6.14.
    #[doc(alias = "__rmqueue_fallback")]
    fn steal_largest(&mut self, rules: Rules<'_>, order: u8, migrate: MigrateType) -> Option<Pfn> {
        let largest = (order..=self.zone.max_order)
            .rev()
            .find_map(|from| Some((from, self.fallback_type(from, migrate)?)))?;
        let claim = Self::may_claim(rules, largest.0, migrate);
        let (from, other) = if !claim && migrate == MigrateType::Movable && largest.0 > order {
            (order..=self.zone.max_order)
                .find_map(|from| Some((from, self.fallback_type(from, migrate)?)))?
        } else {
            largest
        };
        let claim = Self::may_claim(rules, from, migrate);
        let block = self.first(ListId {
            order: from,
            migrate: other,
        })?;
        if claim && let Some(pfn) = self.try_claim(rules, block, other, order, migrate) {
            return Some(pfn);
        }
        if rules.strict() {
            self.take_block(block, other, order, other);
        } else {
            self.take_block(block, other, order, migrate);
        }
        Some(block.pfn)
    }

    /// Linux: mm/page_alloc.c, `__rmqueue_claim`, since 6.15.
    #[doc(alias = "__rmqueue_claim")]
    fn claim(&mut self, rules: Rules<'_>, order: u8, migrate: MigrateType) -> Option<Pfn> {
        for from in (order..=self.zone.max_order).rev() {
            if !Self::may_claim(rules, from, migrate) {
                return None;
            }
            let Some(other) = self.fallback_type(from, migrate) else {
                continue;
            };
            let list = ListId {
                order: from,
                migrate: other,
            };
            if let Some(block) = self.first(list)
                && let Some(pfn) = self.try_claim(rules, block, other, order, migrate)
            {
                return Some(pfn);
            }
        }
        None
    }

    /// Linux: mm/page_alloc.c, `__rmqueue_steal`, since 6.15.
    #[doc(alias = "__rmqueue_steal")]
    fn steal_smallest(&mut self, order: u8, migrate: MigrateType) -> Option<Pfn> {
        let (from, other) = (order..=self.zone.max_order)
            .find_map(|from| Some((from, self.fallback_type(from, migrate)?)))?;
        let block = self.first(ListId {
            order: from,
            migrate: other,
        })?;
        self.take_block(block, other, order, other);
        Some(block.pfn)
    }

    /// Changes the type of the pageblock of `block`, or of all the pageblocks in it, and takes a
    /// block from what is free there; `None` where too much of the pageblock is used otherwise.
    ///
    /// # Differences from Linux
    /// Which used pages could move is not known here: those of a movable pageblock count as
    /// movable, those of others as not. A pageblock in which another zone has memory is left alone.
    #[doc(alias = "steal_suitable_fallback")]
    #[doc(alias = "try_to_claim_block")]
    fn try_claim(
        &mut self,
        rules: Rules<'_>,
        block: Block,
        listed: MigrateType,
        order: u8,
        migrate: MigrateType,
    ) -> Option<Pfn> {
        if block.order >= rules.pageblock_order() {
            rules.set_type(block.pfns(), migrate);
            self.take_block(block, listed, order, self.stored(rules, migrate));
            return Some(block.pfn);
        }
        let pageblock = rules.blocks.block(block.pfn);
        let of_block = rules.blocks.get(block.pfn);
        if of_block == MigrateType::HighAtomic || !self.is_whole(rules, pageblock) {
            return None;
        }
        let free = self.free_in(pageblock);
        let free_pages: u64 = free.iter().map(|block| block.pages()).sum();
        let used_alike = match (migrate, of_block) {
            (MigrateType::Movable, MigrateType::Movable) => pageblock.len() - free_pages,
            (MigrateType::Movable, _) | (_, MigrateType::Movable) => 0,
            _ => pageblock.len() - free_pages,
        };
        let enough = free_pages + used_alike >= pageblock.len() / 2 || !rules.grouping;
        if rules.strict() && !enough {
            return None;
        }
        // Lists that are not strict move the free pages either way.
        let to = self.stored(rules, migrate);
        for part in free {
            let from = self.listed_type(rules, part, of_block);
            if from != to {
                self.move_to(part, from, to);
            }
        }
        if enough {
            rules.set_type(pageblock, migrate);
        }
        self.take_smallest(order, to)
    }

    /// The list of a block whose pageblock becomes `migrate`: strict lists follow what
    /// [`Rules::set_type`] stores.
    fn stored(&self, rules: Rules<'_>, migrate: MigrateType) -> MigrateType {
        if rules.grouping || !rules.strict() || !migrate.is_mergeable() {
            migrate
        } else {
            MigrateType::Unmovable
        }
    }

    /// Whether a pageblock is this zone's alone: both its ends, and all memory between them.
    ///
    /// # Differences from Linux
    /// Linux asks for the ends only. Where nodes take turns within a pageblock, the type of one zone's
    /// free blocks changes under another zone's lock there, and strict lists come apart.
    fn is_whole(&self, rules: Rules<'_>, pageblock: PfnRange) -> bool {
        self.owns(pageblock.start())
            && self.owns(Pfn::new(pageblock.end().get() - 1))
            && !rules.blocks.is_mixed(pageblock.start())
    }

    /// Gives the pageblock that holds `pfn` another type and moves its free blocks to the lists of
    /// that type. Strict lists split a block that reaches beyond the pageblock first; others move
    /// it whole.
    ///
    /// Linux: mm/page_alloc.c, `move_freepages_block`, `move_freepages_block_isolate`.
    #[doc(alias = "move_freepages_block")]
    #[doc(alias = "move_freepages_block_isolate")]
    pub(crate) fn retype(&mut self, rules: Rules<'_>, pfn: Pfn, migrate: MigrateType) {
        let pageblock = rules.blocks.block(pfn);
        let from = rules.blocks.get(pageblock.start());
        if let Some(large) = self.free_block_of(pageblock.start())
            && large.order > rules.pageblock_order()
            && rules.strict()
        {
            let listed = self.listed_type(rules, large, rules.blocks.get(large.pfn));
            self.remove(large, listed);
            rules.set_type(pageblock, migrate);
            self.free_block(rules, large, false);
            return;
        }
        let free: Vec<_> = self
            .free_in(pageblock)
            .into_iter()
            .map(|block| (block, self.listed_type(rules, block, from)))
            .collect();
        rules.set_type(pageblock, migrate);
        let to = self.stored(rules, migrate);
        for (block, listed) in free {
            if listed != to {
                self.move_to(block, listed, to);
            }
        }
    }

    /// Ends the isolation of the pageblock that holds `pfn`: it becomes `migrate`, and its free
    /// block merges with a buddy that is not isolated.
    ///
    /// Linux: mm/page_isolation.c, `unset_migratetype_isolate`.
    #[doc(alias = "unset_migratetype_isolate")]
    pub(crate) fn unisolate(&mut self, rules: Rules<'_>, pfn: Pfn, migrate: MigrateType) {
        let pageblock = rules.blocks.block(pfn);
        if rules.blocks.get(pageblock.start()) != MigrateType::Isolate {
            return;
        }
        let block = self.free_order(pageblock.start()).map(|order| Block {
            pfn: pageblock.start(),
            order,
        });
        if let Some(block) = block
            && (rules.pageblock_order()..self.zone.max_order).contains(&block.order)
            && self.free_order(block.buddy().pfn) == Some(block.order)
            && self.owns(block.buddy().pfn)
            && rules.blocks.get(block.buddy().pfn) != MigrateType::Isolate
        {
            let listed = self.listed_type(rules, block, MigrateType::Isolate);
            self.remove(block, listed);
            rules.set_type(pageblock, migrate);
            self.merge_and_add(rules, block, true);
            return;
        }
        self.retype(rules, pfn, migrate);
    }

    /// Takes every free block in `pfns` off its list, for good. Blocks must not reach beyond.
    ///
    /// Linux: mm/page_alloc.c, `__offline_isolated_pages`.
    #[doc(alias = "__offline_isolated_pages")]
    pub(crate) fn drop_free(&mut self, rules: Rules<'_>, pfns: PfnRange) {
        for block in self.free_in(pfns) {
            let listed = self.listed_type(rules, block, MigrateType::Isolate);
            self.remove(block, listed);
        }
    }
}
