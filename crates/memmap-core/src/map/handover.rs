//! Hand-over of a section by who writes it, and the map as the page allocator sees it.

use memblock::Pfn;

use crate::buddy::{Edit, HandOver, PageWords, SectionFree, StructPages};
use crate::geometry::SectionNr;

use super::{Claim, MemoryMap};

impl Claim<'_> {
    /// Writes the heads of the section's free blocks, after [`Claim::write`]: the section's own
    /// free lists, to be joined to the zones' once all sections are published.
    ///
    /// No lock is taken and nothing outside the section is touched. The ends of the lists hold 0
    /// until they are joined.
    #[doc(alias = "deferred_free_pages")]
    pub fn hand_over(&mut self, plan: &HandOver<'_>) -> SectionFree {
        let (map, section) = (self.map(), self.section());
        let values = PageWords::new(map.profile());
        let size = map.struct_page_size().words();
        let start = self.pfns().start().get();
        let words = self.words();
        plan.section(section, |edit| {
            let pfn = match edit {
                Edit::Head { block, .. } => block.pfn,
                Edit::OnceListed(pfn) => pfn,
            };
            let first = (pfn.get() - start) as usize * size;
            let link = |pfn| map.pfn_to_page(pfn).map_or(0, |page| page.wrapping_add(8));
            values.each_word(edit, link, |word, value| {
                words[first + word] = value;
            });
        })
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
