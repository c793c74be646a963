//! From what a page is to the words of its struct page.

use memblock::Pfn;

use crate::flags::PageFlag;
use crate::geometry::{PageKind, PageRun, SectionNr};
use crate::image::{PageImage, StructPageSize};
use crate::page::counts_word;
use crate::profile::{ByteOrder, Profile};

/// "Not mapped": what a page without a type holds.
const NO_MAPCOUNT: u32 = u32::MAX;

/// The struct pages of `run`, whose first one is at `address`, or `None` where nobody writes them.
///
/// A run must not leave its section where the flags word names the section.
///
/// Linux: mm/mm_init.c, `__init_single_page`; mm/page_alloc.c, `__free_pages_core`.
#[doc(alias = "__init_single_page")]
#[doc(alias = "__free_pages_core")]
pub(super) fn image(
    profile: &Profile,
    size: StructPageSize,
    run: &PageRun,
    address: u64,
) -> Option<PageImage> {
    let layout = profile.flags_layout();
    let (marked, refcount) = match run.kind {
        PageKind::Free => (false, 0),
        PageKind::Reserved | PageKind::NoMap | PageKind::Hole => (true, 1),
        PageKind::Initialised => (false, 1),
        PageKind::Untouched => return None,
    };
    let section = SectionNr::of(run.pfns.start(), profile.pages_per_section());
    let mut flags = layout.links(run.node, run.zone, section.0);
    if marked {
        flags |= layout.numbers().mask(PageFlag::Reserved);
    }
    let counts = counts_word(profile.byte_order, NO_MAPCOUNT, refcount);
    let image = PageImage::linked(size, flags, address, 0, 0).with_word(6, counts, 0);
    Some(extra_words(profile, size, image, run.pfns.start()))
}

/// The frame's address, and the last CPU where the flags word has no room for it.
fn extra_words(
    profile: &Profile,
    size: StructPageSize,
    mut image: PageImage,
    first: Pfn,
) -> PageImage {
    let mut next = if profile.memcg { 8 } else { 7 };
    if let Some(offset) = profile.page_virtual {
        let frame = first.get().wrapping_mul(profile.page_size());
        image = image.with_word(next, offset.wrapping_add(frame), profile.page_size());
        next += 1;
    }
    let layout = profile.flags_layout();
    if profile.numa_balancing && layout.last_cpupid().width == 0 {
        let bits = 8 + profile.nr_cpus.next_power_of_two().trailing_zeros();
        let mask = (1u64 << bits) - 1;
        let word = match profile.byte_order {
            ByteOrder::Little => mask,
            ByteOrder::Big => mask << 32,
        };
        let at = if profile.behaviours.last_cpupid_at_end {
            size.words() - 1
        } else {
            next
        };
        image = image.with_word(at, word, 0);
    }
    image
}
