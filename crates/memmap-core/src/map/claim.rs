//! The exclusive right to write a section's struct pages.

use memblock::{NodeId, PfnRange};

use crate::backing::Exclusive;
use crate::geometry::{PageKind, PageRun, SectionNr};
use crate::image::PageImage;
use crate::profile::ZoneIndex;
use crate::writers::PageWriter;

use super::{MemoryMap, images};

/// Why a run of struct pages cannot be written under a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The frames are not all in the claimed section.
    #[error("frames {}-{} are not all in the claimed section {section}", pfns.start(), pfns.end())]
    OutsideSection {
        /// The frames.
        pfns: PfnRange,
        /// The section.
        section: SectionNr,
    },
    /// Struct pages of another size than the map's.
    #[error("the image is of struct pages of {image} bytes, the map's have {map}")]
    OtherSize {
        /// Bytes of the image's struct page.
        image: usize,
        /// Bytes of the map's.
        map: usize,
    },
}

/// The exclusive right to write one section, from [`MemoryMap::claim`].
///
/// A claim that is dropped without [`publish`](Claim::publish) makes its section pending again:
/// a worker that fails leaves nothing that looks finished.
#[derive(Debug)]
#[must_use = "a claim that is dropped gives the section back"]
pub struct Claim<'m> {
    map: &'m MemoryMap,
    section: SectionNr,
    exclusive: Exclusive<'m>,
}

impl<'m> Claim<'m> {
    pub(super) const fn new(
        map: &'m MemoryMap,
        section: SectionNr,
        exclusive: Exclusive<'m>,
    ) -> Self {
        Self {
            map,
            section,
            exclusive,
        }
    }

    /// The claimed section.
    pub const fn section(&self) -> SectionNr {
        self.section
    }

    /// Its frames.
    pub fn pfns(&self) -> PfnRange {
        self.section
            .pfns(self.map.geometry().sections().pages_per_section())
    }

    /// The node whose memory comes first in it.
    pub fn node(&self) -> NodeId {
        self.map
            .geometry()
            .sections()
            .run_of(self.section)
            .map_or(NodeId::new(0), |run| run.early_node)
    }

    /// The zone of its first page that is no gap.
    pub fn zone(&self) -> ZoneIndex {
        let mut runs = self.map.geometry().page_runs_within(self.pfns());
        let first = runs.next();
        runs.find(|run| run.kind != PageKind::Hole)
            .filter(|_| first.is_some_and(|run| run.kind == PageKind::Hole))
            .or(first)
            .map_or(ZoneIndex(0), |run| run.zone)
    }

    /// Bytes of its struct pages.
    pub fn bytes(&self) -> usize {
        self.map.section_bytes()
    }

    /// Puts memory behind its struct pages, contents unchanged, so that writing does not fault.
    ///
    /// # Errors
    /// What the system refuses.
    #[cfg(feature = "std")]
    pub fn populate(&mut self) -> Result<(), sys::SysError> {
        self.exclusive.populate()
    }

    /// Writes every struct page that anybody writes, as it is once boot is over, but for the heads
    /// of free blocks: those are pages like their neighbours.
    #[doc(alias = "memmap_init_range")]
    pub fn write(&mut self, writer: &dyn PageWriter) {
        self.write_runs(|_, image, pages| writer.write(&image, pages));
    }

    /// Has `write` write the section's runs, one after the other.
    pub(super) fn write_runs(&mut self, mut write: impl FnMut(&PageRun, PageImage, &mut [u64])) {
        let map = self.map;
        let pfns = self.pfns();
        let (size, own) = (map.struct_page_size(), map.page_address(self.section, 0));
        let words = self.exclusive.words();
        for run in map.geometry().page_runs_within(pfns) {
            let first = run.pfns.start().get() - pfns.start().get();
            let address = own.wrapping_add(first * size.bytes() as u64);
            if let Some(image) = images::image(map.profile(), size, &run, address) {
                let start = first as usize * size.words();
                let end = start + run.pfns.len() as usize * size.words();
                write(&run, image, &mut words[start..end]);
            }
        }
    }

    /// Writes the struct pages of `pfns`, all in this section, as `image` says.
    ///
    /// # Errors
    /// - [`ClaimError::OutsideSection`] for frames of another section.
    /// - [`ClaimError::OtherSize`] for an image of another struct page.
    pub fn write_image(
        &mut self,
        pfns: PfnRange,
        image: &PageImage,
        writer: &dyn PageWriter,
    ) -> Result<(), ClaimError> {
        let own = self.pfns();
        if !own.contains_range(pfns) {
            return Err(ClaimError::OutsideSection {
                pfns,
                section: self.section,
            });
        }
        if image.size() != self.map.struct_page_size() {
            return Err(ClaimError::OtherSize {
                image: image.size().bytes(),
                map: self.map.struct_page_size().bytes(),
            });
        }
        let first = pfns.start().get() - own.start().get();
        self.put(first, pfns.len(), image, writer);
        Ok(())
    }

    fn put(&mut self, first: u64, pages: u64, image: &PageImage, writer: &dyn PageWriter) {
        let words = self.map.struct_page_size().words();
        let start = first as usize * words;
        let end = start + pages as usize * words;
        writer.write(image, &mut self.exclusive.words()[start..end]);
    }

    pub(super) const fn map(&self) -> &'m MemoryMap {
        self.map
    }

    /// The words of all its struct pages.
    pub(super) fn words(&mut self) -> &mut [u64] {
        self.exclusive.words()
    }

    /// The words of the struct pages of `pfns`, all in this section.
    ///
    /// # Errors
    /// [`ClaimError::OutsideSection`] for frames of another section.
    pub fn struct_pages_mut(&mut self, pfns: PfnRange) -> Result<&mut [u64], ClaimError> {
        let own = self.pfns();
        if !own.contains_range(pfns) {
            return Err(ClaimError::OutsideSection {
                pfns,
                section: self.section,
            });
        }
        let words = self.map.struct_page_size().words();
        let start = (pfns.start().get() - own.start().get()) as usize * words;
        let end = start + pfns.len() as usize * words;
        Ok(&mut self.exclusive.words()[start..end])
    }

    /// Lets everybody read the section.
    pub fn publish(self) {
        self.exclusive.publish();
    }
}
