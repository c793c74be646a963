//! From frames to struct pages and back.

use core::ptr::NonNull;

use memblock::Pfn;

use crate::backing::AddressSpace;
use crate::geometry::SectionNr;

use super::MemoryMap;

bitflags::bitflags! {
    /// The low bits of a section's word.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[doc(alias = "section_mem_map")]
    pub struct SectionFlags: u64 {
        /// Some memory is in it.
        #[doc(alias = "SECTION_MARKED_PRESENT")]
        const PRESENT = 1;
        /// It has struct pages.
        #[doc(alias = "SECTION_HAS_MEM_MAP")]
        const HAS_MEM_MAP = 1 << 1;
        /// Its memory is online.
        #[doc(alias = "SECTION_IS_ONLINE")]
        const ONLINE = 1 << 2;
        /// It was there at boot.
        #[doc(alias = "SECTION_IS_EARLY")]
        const EARLY = 1 << 3;
    }
}

impl MemoryMap {
    /// Whether `pfn` has a struct page.
    pub fn pfn_valid(&self, pfn: Pfn) -> bool {
        self.geometry().sections().is_valid(pfn)
    }

    /// The first frame at or above `pfn` that has a struct page.
    pub fn next_valid_pfn(&self, pfn: Pfn) -> Option<Pfn> {
        self.geometry().sections().next_valid(pfn)
    }

    /// Every frame that has a struct page, ascending.
    #[doc(alias = "for_each_valid_pfn")]
    pub fn valid_pfns(&self) -> impl Iterator<Item = Pfn> + '_ {
        self.geometry()
            .sections()
            .valid_ranges()
            .iter()
            .flat_map(|range| (range.start().get()..range.end().get()).map(Pfn::new))
    }

    /// The flags of a section's word; empty where it is absent.
    pub fn section_flags(&self, section: SectionNr) -> SectionFlags {
        match self.geometry().sections().rank(section) {
            Some(_) => SectionFlags::all(),
            None => SectionFlags::empty(),
        }
    }

    /// A section's word: where its struct pages would begin if frame 0 were its first, and its
    /// flags; 0 where it is absent.
    #[doc(alias = "sparse_encode_mem_map")]
    pub fn section_word(&self, section: SectionNr) -> u64 {
        let Some(rank) = self.geometry().sections().rank(section) else {
            return 0;
        };
        let pages = self.geometry().sections().pages_per_section();
        let first = section
            .0
            .wrapping_mul(pages)
            .wrapping_mul(self.size.bytes() as u64);
        let map = self.section_address(section, rank);
        map.wrapping_sub(first) | self.section_flags(section).bits()
    }

    fn section_address(&self, section: SectionNr, rank: u64) -> u64 {
        match self.space {
            AddressSpace::Kernel => {
                let pages = self.geometry().sections().pages_per_section();
                let first = section.0.wrapping_mul(pages);
                self.profile()
                    .vmemmap_base
                    .wrapping_add(first.wrapping_mul(self.size.bytes() as u64))
            }
            AddressSpace::Host => self.backing.pointer(rank as usize).as_ptr() as u64,
        }
    }

    /// The address, in the chosen space, of the struct page `offset` pages into a present
    /// section.
    pub(super) fn page_address(&self, section: SectionNr, offset: u64) -> u64 {
        let rank = self.geometry().sections().rank(section).unwrap_or(0);
        self.section_address(section, rank)
            .wrapping_add(offset * self.size.bytes() as u64)
    }

    /// The address of `pfn`'s struct page in the chosen address space, or `None` where it has
    /// none. It is good for the section: addresses of another one may lie anywhere.
    pub fn pfn_to_page(&self, pfn: Pfn) -> Option<u64> {
        let pages = self.geometry().sections().pages_per_section();
        let section = SectionNr::of(pfn, pages);
        self.geometry().sections().rank(section)?;
        Some(self.page_address(section, pfn.get() % pages))
    }

    /// The frame whose struct page holds `address` of the chosen address space.
    pub fn page_to_pfn(&self, address: u64) -> Option<Pfn> {
        let size = self.size.bytes() as u64;
        match self.space {
            AddressSpace::Kernel => {
                let offset = address.wrapping_sub(self.profile().vmemmap_base);
                let pfn = Pfn::new(offset / size);
                self.pfn_valid(pfn).then_some(pfn)
            }
            AddressSpace::Host => {
                let (rank, offset) = self.backing.find(usize::try_from(address).ok()?)?;
                let section = self.geometry().sections().by_rank(rank as u64)?;
                let pages = self.geometry().sections().pages_per_section();
                Some(Pfn::new(section.0 * pages + offset as u64 / size))
            }
        }
    }

    /// This process's pointer to `pfn`'s struct page. What is behind it is shared: read it by
    /// atomics, once the section is ready.
    pub fn host_page(&self, pfn: Pfn) -> Option<NonNull<u64>> {
        let pages = self.geometry().sections().pages_per_section();
        let rank = self.geometry().sections().rank(SectionNr::of(pfn, pages))?;
        let offset = (pfn.get() % pages) as usize * self.size.words();
        let first = self.backing.pointer(rank as usize).as_ptr();
        NonNull::new(first.wrapping_add(offset))
    }

    /// The struct page's address of a frame whose memory is online: its sub-section has memory.
    pub fn pfn_to_online_page(&self, pfn: Pfn) -> Option<u64> {
        self.geometry()
            .subsection_has_memory(pfn)
            .then(|| self.pfn_to_page(pfn))?
    }
}
