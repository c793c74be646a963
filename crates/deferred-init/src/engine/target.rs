//! What the engine needs of a map.

use std::ops::Range;

use memmap_core::writers::PageWriter;
use memmap_core::{MemoryMap, SectionNr};

/// A map whose sections can be claimed, written and published.
pub(super) trait Target: Sync {
    /// Claims a pending section, writes it and publishes it; the number of struct pages, or `None`
    /// where it was not pending.
    fn write(&self, section: u64, writer: &dyn PageWriter) -> Option<u64>;

    /// The mapped memory that holds the struct pages of sections that follow each other, by bytes,
    /// rounded out to pages; `None` where the map lies elsewhere.
    fn memory(&self, sections: Range<u64>) -> Option<(&sys::Mapping, Range<usize>)>;
}

impl Target for MemoryMap {
    fn write(&self, section: u64, writer: &dyn PageWriter) -> Option<u64> {
        let mut claim = self.claim(SectionNr(section))?;
        // a panic in here drops the claim, and the section is pending again
        claim.write(writer);
        let pages = claim.pfns().len();
        claim.publish();
        Some(pages)
    }

    fn memory(&self, sections: Range<u64>) -> Option<(&sys::Mapping, Range<usize>)> {
        let mapping = self.mapping()?;
        let first = self.mapping_range(SectionNr(sections.start))?;
        let last = self.mapping_range(SectionNr(sections.end.checked_sub(1)?))?;
        Some((mapping, first.start..last.end))
    }
}
