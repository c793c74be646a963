//! From frames to struct pages and back.

use core::ptr::NonNull;

use memblock::Pfn;

use crate::backing::{AddressSpace, Backing};
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
        /// A part of it is a device's.
        #[doc(alias = "SECTION_TAINT_ZONE_DEVICE")]
        const TAINT_ZONE_DEVICE = 1 << 4;
    }
}

impl MemoryMap {
    /// Whether `pfn` has a struct page.
    pub fn pfn_valid(&self, pfn: Pfn) -> bool {
        self.geometry().sections().is_valid(pfn) || self.was_added(pfn)
    }

    /// The first frame at or above `pfn` that has a struct page.
    pub fn next_valid_pfn(&self, pfn: Pfn) -> Option<Pfn> {
        let boot = self.geometry().sections().next_valid(pfn);
        let step = self.profile().pages_per_subsection();
        let pages = self.geometry().sections().pages_per_section();
        let added = self
            .added_sections()
            .filter(|section| section.pfns(pages).end() > pfn)
            .flat_map(|section| {
                let start = section.pfns(pages).start();
                (0..pages / step).map(move |i| start.saturating_add(i * step))
            })
            .find(|start| start.saturating_add(step) > pfn && self.was_added(*start))
            .map(|start| start.max(pfn));
        boot.into_iter().chain(added).min()
    }

    /// Every frame that has a struct page, ascending.
    #[doc(alias = "for_each_valid_pfn")]
    pub fn valid_pfns(&self) -> impl Iterator<Item = Pfn> + '_ {
        let boot = self.geometry().sections().valid_ranges().iter();
        let mut next = boot
            .clone()
            .flat_map(|range| (range.start().get()..range.end().get()).map(Pfn::new))
            .peekable();
        let pages = self.geometry().sections().pages_per_section();
        let mut added = self
            .added_sections()
            .flat_map(move |section| (0..pages).map(move |i| Pfn::new(section.0 * pages + i)))
            .filter(|pfn| self.was_added(*pfn))
            .peekable();
        core::iter::from_fn(move || match (next.peek(), added.peek()) {
            (Some(a), Some(b)) if b < a => added.next(),
            (Some(_), _) => next.next(),
            (None, _) => added.next(),
        })
    }

    /// A section's word: where its struct pages would begin if frame 0 were its first, and its
    /// flags; 0 where it is absent.
    #[doc(alias = "sparse_encode_mem_map")]
    pub fn section_word(&self, section: SectionNr) -> u64 {
        let Some((backing, rank)) = self.locate(section) else {
            return 0;
        };
        let pages = self.geometry().sections().pages_per_section();
        let first = section
            .0
            .wrapping_mul(pages)
            .wrapping_mul(self.size.bytes() as u64);
        let map = self.section_address(section, backing, rank);
        map.wrapping_sub(first) | self.section_flags(section).bits()
    }

    fn section_address(&self, section: SectionNr, backing: &Backing, rank: usize) -> u64 {
        match self.space {
            AddressSpace::Kernel => {
                let pages = self.geometry().sections().pages_per_section();
                let first = section.0.wrapping_mul(pages);
                self.profile()
                    .vmemmap_base
                    .wrapping_add(first.wrapping_mul(self.size.bytes() as u64))
            }
            AddressSpace::Host => backing.pointer(rank).as_ptr() as u64,
        }
    }

    /// The address, in the chosen space, of the struct page `offset` pages into a present
    /// section.
    pub(super) fn page_address(&self, section: SectionNr, offset: u64) -> u64 {
        self.locate(section).map_or(0, |(backing, rank)| {
            self.section_address(section, backing, rank)
                .wrapping_add(offset * self.size.bytes() as u64)
        })
    }

    /// The address of `pfn`'s struct page in the chosen address space, or `None` where it has
    /// none. It is good for the section: addresses of another one may lie anywhere.
    pub fn pfn_to_page(&self, pfn: Pfn) -> Option<u64> {
        let pages = self.geometry().sections().pages_per_section();
        let section = SectionNr::of(pfn, pages);
        self.locate(section)?;
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
            AddressSpace::Host => self.host_page_to_pfn(usize::try_from(address).ok()?),
        }
    }

    /// The frame whose struct page holds `address` of this process.
    pub fn host_page_to_pfn(&self, address: usize) -> Option<Pfn> {
        let (section, offset) = match self.backing.find(address) {
            Some((rank, offset)) => (self.geometry().sections().by_rank(rank as u64)?, offset),
            None => self.hot.find(address)?,
        };
        let pages = self.geometry().sections().pages_per_section();
        let page = offset as u64 / self.size.bytes() as u64;
        Some(Pfn::new(section.0 * pages + page))
    }

    /// This process's pointer to `pfn`'s struct page. What is behind it is shared: read it by
    /// atomics, once the section is ready.
    pub fn host_page(&self, pfn: Pfn) -> Option<NonNull<u64>> {
        let pages = self.geometry().sections().pages_per_section();
        let (backing, rank) = self.locate(SectionNr::of(pfn, pages))?;
        let offset = (pfn.get() % pages) as usize * self.size.words();
        let first = backing.pointer(rank).as_ptr();
        NonNull::new(first.wrapping_add(offset))
    }

    /// The struct page's address of a frame whose memory is online: its sub-section has memory.
    pub fn pfn_to_online_page(&self, pfn: Pfn) -> Option<u64> {
        let pages = self.geometry().sections().pages_per_section();
        let flags = self.section_flags(SectionNr::of(pfn, pages));
        let device = flags.contains(SectionFlags::TAINT_ZONE_DEVICE) && self.was_added(pfn);
        let online = flags.contains(SectionFlags::ONLINE) && self.has_subsection(pfn) && !device;
        online.then(|| self.pfn_to_page(pfn))?
    }
}
