//! Free ranges cut into blocks.
//!
//! A buddy block is `2^order` pages long and starts at a multiple of its length. However the
//! pages of a range are freed, merging leaves the same blocks: from the range's start, always the
//! largest that is aligned and fits. What does depend on how they were freed is which pages were
//! on a free list in between: they keep the poison of being taken off.

use memblock::{Pfn, PfnRange};

/// A free block by place and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    /// Its first frame, a multiple of its length.
    pub pfn: Pfn,
    /// Log2 of its length in pages.
    pub order: u8,
}

impl Block {
    /// Its length in pages.
    pub const fn pages(self) -> u64 {
        1 << self.order
    }

    /// Its frames.
    pub const fn pfns(self) -> PfnRange {
        PfnRange::new(self.pfn, self.pfn.saturating_add(self.pages()))
    }

    /// The block of the same size that it would merge with.
    #[doc(alias = "__find_buddy_pfn")]
    #[must_use]
    pub const fn buddy(self) -> Self {
        Self {
            pfn: Pfn::new(self.pfn.get() ^ self.pages()),
            order: self.order,
        }
    }

    /// The block that it makes with its buddy.
    #[must_use]
    pub const fn merged(self) -> Self {
        Self {
            pfn: Pfn::new(self.pfn.get() & !self.pages()),
            order: self.order + 1,
        }
    }
}

/// Cuts `pfns` into the largest aligned blocks, none above `max_order`, ascending.
///
/// Linux: mm/memblock.c, `__free_pages_memory`.
#[doc(alias = "__free_pages_memory")]
pub fn blocks(pfns: PfnRange, max_order: u32) -> impl Iterator<Item = Block> + Clone {
    let mut at = pfns.start();
    core::iter::from_fn(move || {
        let left = pfns.end().checked_offset_from(at)?;
        if left == 0 {
            return None;
        }
        let order = max_order.min(at.get().trailing_zeros()).min(left.ilog2());
        let block = Block {
            pfn: at,
            order: order as u8,
        };
        at = at.saturating_add(block.pages());
        Some(block)
    })
}

/// Cuts `pfns` into blocks of exactly `order` where whole aligned ones fit, and pages elsewhere.
pub(super) fn pieces(pfns: PfnRange, order: u32) -> impl Iterator<Item = Block> + Clone {
    let mut at = pfns.start();
    core::iter::from_fn(move || {
        let left = pfns.end().checked_offset_from(at)?;
        let whole = at.is_aligned(1 << order) && left >= 1 << order;
        let block = Block {
            pfn: at,
            order: if whole { order as u8 } else { 0 },
        };
        at = at.saturating_add(block.pages());
        (left > 0).then_some(block)
    })
}

/// Names every page inside `block` that was on a free list while the block came together from
/// `units`, freed one after the other, ascending and covering the block; the block's own first
/// page is left out, since it is on a list now. A page may be named more than once.
///
/// Each unit merges with the block below it while the two are buddies; the lower one comes off
/// its list for that.
///
/// Linux: mm/page_alloc.c, `__free_one_page`.
pub(super) fn once_listed(
    block: Block,
    units: impl Iterator<Item = Block>,
    mut each: impl FnMut(Pfn),
) {
    // One entry a bit: a block of order k is listed at most once while the sum is built.
    let mut listed = [Block {
        pfn: Pfn::ZERO,
        order: 0,
    }; 64];
    let mut depth = 0;
    for unit in units {
        let mut at = unit;
        while depth > 0 && listed[depth - 1] == at.buddy() {
            depth -= 1;
            let lower = listed[depth];
            if lower.pfn != block.pfn {
                each(lower.pfn);
            }
            at = at.merged();
        }
        if depth < listed.len() {
            listed[depth] = at;
            depth += 1;
        }
    }
    debug_assert_eq!((depth, listed[0]), (1, block));
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn range(start: u64, end: u64) -> PfnRange {
        PfnRange::new(Pfn::new(start), Pfn::new(end))
    }

    fn cut(start: u64, end: u64, max: u32) -> Vec<(u64, u8)> {
        blocks(range(start, end), max)
            .map(|block| (block.pfn.get(), block.order))
            .collect()
    }

    #[test]
    fn a_range_is_cut_at_its_alignment_and_its_end() {
        assert_eq!(
            cut(0x9d, 0x105, 10),
            [
                (0x9d, 0),
                (0x9e, 1),
                (0xa0, 5),
                (0xc0, 6),
                (0x100, 2),
                (0x104, 0)
            ]
        );
        assert_eq!(cut(0, 0x1000, 10).len(), 4);
        assert_eq!(cut(5, 5, 10), []);
        assert_eq!(cut(u64::MAX - 1, u64::MAX, 10), [(u64::MAX - 1, 0)]);
    }

    #[test]
    fn blocks_freed_by_pageblocks_keep_poison_at_every_second_one() {
        let block = Block {
            pfn: Pfn::new(0x1000),
            order: 12,
        };
        let mut poisoned = Vec::new();
        once_listed(block, pieces(block.pfns(), 9), |pfn| {
            poisoned.push(pfn.get())
        });
        poisoned.sort_unstable();
        poisoned.dedup();
        assert_eq!(poisoned, [0x1400, 0x1800, 0x1c00]);
    }

    #[test]
    fn blocks_freed_page_by_page_keep_poison_at_every_second_page() {
        let block = Block {
            pfn: Pfn::new(8),
            order: 3,
        };
        let mut poisoned = Vec::new();
        once_listed(block, pieces(block.pfns(), 0), |pfn| {
            poisoned.push(pfn.get())
        });
        poisoned.sort_unstable();
        poisoned.dedup();
        assert_eq!(poisoned, [10, 12, 14]);
    }

    #[test]
    fn a_block_freed_whole_keeps_none() {
        let block = Block {
            pfn: Pfn::new(8),
            order: 3,
        };
        once_listed(block, core::iter::once(block), |pfn| panic!("{pfn}"));
        let halves = [
            Block {
                pfn: Pfn::new(8),
                order: 2,
            },
            Block {
                pfn: Pfn::new(12),
                order: 2,
            },
        ];
        once_listed(block, halves.into_iter(), |pfn| panic!("{pfn}"));
    }

    mod oracle {
        use super::*;
        use alloc::collections::BTreeSet;
        use proptest::prelude::*;

        /// Frees pages one by one into lists, as the kernel does.
        fn merge_all(start: u64, end: u64, max: u32) -> BTreeSet<(u64, u8)> {
            let mut free = BTreeSet::new();
            for pfn in start..end {
                let mut at = (pfn, 0_u8);
                while u32::from(at.1) < max && free.remove(&(at.0 ^ (1 << at.1), at.1)) {
                    at = (at.0 & !(1 << at.1), at.1 + 1);
                }
                free.insert(at);
            }
            free
        }

        proptest! {
            #[test]
            fn cutting_leaves_what_merging_leaves(start in 0_u64..5000, len in 0_u64..3000, max in 0_u32..12) {
                let cut: BTreeSet<_> = cut(start, start + len, max).into_iter().collect();
                prop_assert_eq!(cut, merge_all(start, start + len, max));
            }

            #[test]
            fn pieces_cover_a_range_once(start in 0_u64..5000, len in 0_u64..3000, order in 0_u32..10) {
                let mut at = start;
                for piece in pieces(range(start, start + len), order) {
                    prop_assert_eq!(piece.pfn.get(), at);
                    at += piece.pages();
                }
                prop_assert_eq!(at, start + len);
            }
        }
    }
}
