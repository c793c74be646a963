//! The writer `zero`: Linux's way since 5.2.
//!
//! `mm_zero_struct_page` clears a struct page by as many word stores as it has words, inline, and
//! the compiler merges them with the field stores that follow. What is left is one 64-bit store
//! per word. The kernel may not use vector registers there, so this writer may not either: the
//! stores are volatile, which keeps LLVM from joining two of them into a vector, from calling
//! `memset`, and from doing two pages at once.

use super::{PageWriter, by_size, whole_pages};
use crate::image::{Linked, PageImage};

/// Word stores, zeroing merged with the fields.
///
/// Linux: include/linux/mm.h, `mm_zero_struct_page`.
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "mm_zero_struct_page")]
pub struct Zero;

impl PageWriter for Zero {
    fn name(&self) -> &'static str {
        "zero"
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        whole_pages(image, pages);
        match image.as_linked() {
            Some(run) => by_size!(image, linked(run, pages)),
            None => by_size!(image, general(image, pages)),
        }
    }
}

/// One 64-bit store that stays one.
#[inline(always)]
fn store(word: &mut u64, value: u64) {
    // SAFETY: 1. `word` is a unique reference, so the address is valid, aligned and ours alone.
    //         2. it is ordinary memory: volatile only forbids the compiler to merge the store.
    unsafe { core::ptr::from_mut(word).write_volatile(value) }
}

/// Normal pages: seven to twelve stores, of which all but four store zero.
fn linked<const W: usize>(run: Linked, pages: &mut [u64]) {
    let mut link = run.link;
    let (pages, _) = pages.as_chunks_mut::<W>();
    for page in pages {
        // The order in which a compiler leaves the kernel's source; it is also the fastest.
        store(&mut page[1], link);
        store(&mut page[2], link);
        for word in page[7..].iter_mut().rev() {
            store(word, 0);
        }
        store(&mut page[5], 0);
        store(&mut page[4], 0);
        store(&mut page[3], 0);
        store(&mut page[0], run.flags);
        store(&mut page[6], run.counts);
        link = link.wrapping_add(run.step);
    }
}

/// Any other progression, with the same number of stores.
fn general<const W: usize>(image: &PageImage, pages: &mut [u64]) {
    let (mut words, steps) = image.arrays::<W>();
    let (pages, _) = pages.as_chunks_mut::<W>();
    for page in pages {
        for i in 0..W {
            store(&mut page[i], words[i]);
            words[i] = words[i].wrapping_add(steps[i]);
        }
    }
}
