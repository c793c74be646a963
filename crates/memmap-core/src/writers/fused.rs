//! Write and hand over, in one pass or in two.
//!
//! Pages that are known to be free are written in their final form, so hand-over to the buddy
//! allocator has to touch the heads of free blocks only: one page in 1024 where blocks have the
//! largest order. [`hand_over`] does that for a run of whole blocks that was written before;
//! [`write_and_hand_over`] goes block by block, as Linux does since 5.2 for the sake of its caches.
//! What is known when a block is written includes its place on the list, so the fused variant
//! writes a head once, as a head, and never comes back to a line that a non-temporal store has
//! just sent to memory.
//!
//! Here is only what measurements need: blocks of one order, side by side, at the tail of one list.

use super::{PageWriter, from_fn, whole_pages};
use crate::image::PageImage;

/// Words of a struct page that a block head has of its own.
const NEXT: usize = 1;
const PREV: usize = 2;
const ORDER: usize = 5;
const COUNTS: usize = 6;

/// Free blocks of one order that follow each other in the memory map and on one free list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeBlocks {
    /// The order of every block: it has 2^order pages.
    pub order: u32,
    /// `page_type` of a buddy page as stored, 0xf000_0000 since 6.12.
    pub page_type: u32,
    /// Address of the list entry before the first block: the list head where there is none.
    pub before: u64,
    /// Address of the list entry after the last block: the list head again at the tail.
    pub after: u64,
}

impl FreeBlocks {
    /// Pages in one block.
    pub const fn pages(&self) -> usize {
        1 << self.order
    }
}

/// Turns the first page of every block of a written run into a free block's head: order, type,
/// no references, links to its neighbours. Nothing else is touched.
///
/// # Panics
/// Where `pages` is not a whole number of blocks of `image`'s struct pages.
#[doc(alias = "__free_one_page")]
pub fn hand_over(image: &PageImage, blocks: &FreeBlocks, pages: &mut [u64]) {
    let mut heads = Heads::new(image, blocks, pages);
    for block in pages.chunks_exact_mut(heads.words) {
        let [next, previous, order, counts] = heads.next();
        block[NEXT] = next;
        block[PREV] = previous;
        block[ORDER] = order;
        block[COUNTS] = counts;
    }
}

/// Writes each block with `writer`, its head as a free block's head, before the next one.
///
/// # Panics
/// As [`hand_over`].
#[doc(alias = "deferred_init_maxorder")]
pub fn write_and_hand_over(
    writer: &dyn PageWriter,
    image: &PageImage,
    blocks: &FreeBlocks,
    pages: &mut [u64],
) {
    let mut heads = Heads::new(image, blocks, pages);
    let mut image = *image;
    let mut at_head = false;
    // head, rest of its block, next head, ...
    let mut series = from_fn(|| {
        at_head = !at_head;
        if at_head {
            let [next, previous, order, counts] = heads.next();
            let head = image
                .with_word(NEXT, next, 0)
                .with_word(PREV, previous, 0)
                .with_word(ORDER, order, 0)
                .with_word(COUNTS, counts, 0);
            return Some((head, 1));
        }
        let rest = image.advance(1);
        image = image.advance(blocks.pages() as u64);
        Some((rest, blocks.pages() - 1))
    });
    writer.write_series(&mut series, pages);
}

/// The heads that are still to be stored.
struct Heads {
    /// Words of struct pages in a block.
    words: usize,
    /// The list entry of the next block.
    own: u64,
    /// What it grows by from block to block.
    step: u64,
    /// The list entry before it.
    previous: u64,
    left: usize,
    blocks: FreeBlocks,
}

impl Heads {
    fn new(image: &PageImage, blocks: &FreeBlocks, pages: &[u64]) -> Self {
        let count = whole_pages(image, pages);
        assert!(
            count.is_multiple_of(blocks.pages()),
            "{count} pages are not whole blocks of order {}",
            blocks.order,
        );
        Self {
            words: blocks.pages() * image.size().words(),
            own: image.word(0, NEXT),
            step: image.strides()[NEXT].wrapping_mul(blocks.pages() as u64),
            previous: blocks.before,
            left: count / blocks.pages(),
            blocks: *blocks,
        }
    }

    /// The words of the next head: next, previous, order, counts.
    fn next(&mut self) -> [u64; 4] {
        self.left -= 1;
        let following = self.own.wrapping_add(self.step);
        let next = match self.left {
            0 => self.blocks.after,
            _ => following,
        };
        let previous = core::mem::replace(&mut self.previous, self.own);
        self.own = following;
        let order = u64::from(self.blocks.order);
        [next, previous, order, u64::from(self.blocks.page_type)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::StructPageSize;

    const HEAD: u64 = 0xffff_8880_0000_1000;
    const BLOCKS: FreeBlocks = FreeBlocks {
        order: 3,
        page_type: 0xf000_0000,
        before: HEAD,
        after: HEAD,
    };

    fn read(pages: &[u64]) -> Vec<u64> {
        pages.to_vec()
    }

    #[test]
    fn block_heads_are_linked_in_order_and_all_other_pages_stay_as_written() {
        for size in StructPageSize::ALL {
            let base = 0xffff_ea00_0000_0000;
            let image = PageImage::linked(size, 0x17, base, !0, 0);
            let words = size.words();
            let entry = |page: u64| base + page * size.bytes() as u64 + 8;
            for writer in super::super::all().iter().chain(super::super::forced()) {
                let mut fused = vec![0; 24 * words];
                let mut apart = fused.clone();
                write_and_hand_over(*writer, &image, &BLOCKS, &mut fused);
                writer.write(&image, &mut apart);
                hand_over(&image, &BLOCKS, &mut apart);
                let pages = read(&fused);
                assert_eq!(pages, read(&apart), "{}", writer.name());
                for (k, page) in pages.chunks(words).enumerate() {
                    let mut expected: Vec<u64> =
                        (0..words).map(|i| image.word(k as u64, i)).collect();
                    if k % 8 == 0 {
                        expected[1] = if k == 16 { HEAD } else { entry(k as u64 + 8) };
                        expected[2] = if k == 0 { HEAD } else { entry(k as u64 - 8) };
                        expected[5] = 3;
                        expected[6] = 0xf000_0000;
                    }
                    assert_eq!(page, expected, "{} page {k}", writer.name());
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "not whole blocks of order 3")]
    fn a_run_that_ends_inside_a_block_is_refused() {
        let image = PageImage::linked(StructPageSize::B64, 0, 0, !0, 0);
        hand_over(&image, &BLOCKS, &mut [0; 12 * 8]);
    }
}
