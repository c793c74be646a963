//! Hand-over of a section by who writes it, and the map as the page allocator sees it.

use alloc::vec::Vec;

use memblock::Pfn;

use crate::buddy::{Edit, HandOver, PageWords, SectionFree, StructPages};
use crate::geometry::{PageKind, SectionNr};
use crate::writers::{PageWriter, from_fn};

use super::{Claim, MemoryMap};

impl Claim<'_> {
    /// [`Claim::write`] and hand-over in one pass: the heads of free blocks are written as heads.
    /// Returns the section's own free lists, to be joined to the zones' once all sections are
    /// published.
    ///
    /// No lock is taken and nothing outside the section is touched. The ends of the lists hold 0
    /// until they are joined.
    #[doc(alias = "deferred_init_memmap_chunk")]
    #[doc(alias = "deferred_free_pages")]
    pub fn write_and_hand_over(
        &mut self,
        writer: &dyn PageWriter,
        plan: &HandOver<'_>,
    ) -> SectionFree {
        let (map, section) = (self.map(), self.section());
        let values = PageWords::new(map.profile());
        let link = |pfn| map.pfn_to_page(pfn).map_or(0, |page| page.wrapping_add(8));
        let mut once_listed = Vec::new();
        let cut = plan.cut(section, |pfn| once_listed.push(pfn));
        let mut heads = cut.heads.iter().peekable();
        self.write_runs(|run, image, pages| {
            if run.kind != PageKind::Free {
                writer.write(&image, pages);
                return;
            }
            // head, rest of its block, next head, ...
            let mut at = run.pfns.start();
            let mut series = from_fn(|| {
                let offset = at.get() - run.pfns.start().get();
                let mut image = image.advance(offset);
                let count = match heads.next_if(|head| head.block.pfn == at) {
                    Some(head) => {
                        values.each_word(cut.edit(head), link, |word, value| {
                            image = image.with_word(word, value, 0);
                        });
                        1
                    }
                    None => {
                        let next = heads.peek().map_or(run.pfns.end(), |head| head.block.pfn);
                        next.min(run.pfns.end()).get() - at.get()
                    }
                };
                at = at.saturating_add(count);
                Some((image, count as usize))
            });
            writer.write_series(&mut series, pages);
        });
        // Few, or none, of a section that is free as a whole.
        let size = map.struct_page_size().words();
        let start = self.pfns().start().get();
        let words = self.words();
        for pfn in once_listed {
            let first = (pfn.get() - start) as usize * size;
            values.each_word(Edit::OnceListed(pfn), link, |word, value| {
                words[first + word] = value;
            });
        }
        cut.finish(section)
    }
}

impl StructPages for MemoryMap {
    fn load(&self, pfn: Pfn, word: usize) -> Option<u64> {
        let (backing, rank, first) = self.words_of(pfn)?;
        backing.word(rank, first + word)
    }

    fn store(&self, pfn: Pfn, word: usize, value: u64) {
        if let Some((backing, rank, first)) = self.words_of(pfn) {
            backing.store_word(rank, first + word, value);
        }
    }

    fn address(&self, pfn: Pfn) -> Option<u64> {
        self.pfn_to_page(pfn)
    }

    fn at(&self, address: u64) -> Option<Pfn> {
        self.page_to_pfn(address)
    }
}

impl MemoryMap {
    fn words_of(&self, pfn: Pfn) -> Option<(&crate::backing::Backing, usize, usize)> {
        let pages = self.geometry().sections().pages_per_section();
        let (backing, rank) = self.locate(SectionNr::of(pfn, pages))?;
        let first = (pfn.get() % pages) as usize * self.size.words();
        Some((backing, rank, first))
    }
}
