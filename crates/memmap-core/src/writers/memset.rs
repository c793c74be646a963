//! The writer `memset`: Linux's way before 5.2.
//!
//! Every struct page is cleared by a call to `memset` and its fields are stored afterwards. The
//! call is a real one, to whatever `memset` the program is linked with: its length is hidden from
//! the compiler, which would otherwise inline it.

use core::hint::black_box;

use super::{PageWriter, by_size, whole_pages};
use crate::image::{Linked, MAX_WORDS, PageImage};

/// A call to `memset` a page, then field stores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memset;

impl PageWriter for Memset {
    fn name(&self) -> &'static str {
        "memset"
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        whole_pages(image, pages);
        match image.as_linked() {
            Some(run) => by_size!(image, linked(run, pages)),
            None => by_size!(image, general(image, pages)),
        }
    }
}

/// Clears `page` by a call that the compiler cannot see through.
#[inline(always)]
fn clear<const W: usize>(page: &mut [u64; W], length: usize) {
    page[..length].fill(0);
}

/// Normal pages: the call, then flags, counts and links.
fn linked<const W: usize>(run: Linked, pages: &mut [u64]) {
    let length = black_box(W);
    let mut link = run.link;
    let (pages, _) = pages.as_chunks_mut::<W>();
    for page in pages {
        clear(page, length);
        page[0] = run.flags;
        page[6] = run.counts;
        page[1] = link;
        page[2] = link;
        link = link.wrapping_add(run.step);
    }
}

/// Any other progression: the call, then every word that is not zero throughout.
fn general<const W: usize>(image: &PageImage, pages: &mut [u64]) {
    let (mut words, steps) = image.arrays::<W>();
    let mut fields = [0; MAX_WORDS];
    let mut count = 0;
    for i in 0..W {
        if words[i] != 0 || steps[i] != 0 {
            fields[count] = i;
            count += 1;
        }
    }
    let length = black_box(W);
    let (pages, _) = pages.as_chunks_mut::<W>();
    for page in pages {
        clear(page, length);
        for &i in &fields[..count] {
            page[i] = words[i];
            words[i] = words[i].wrapping_add(steps[i]);
        }
    }
}
