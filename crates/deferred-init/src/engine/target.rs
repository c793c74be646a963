//! What the engine needs of a map.

use std::ops::Range;

use memmap_core::buddy::{HandOver, SectionFree};
use memmap_core::writers::PageWriter;
use memmap_core::{BackingChoice, MemoryMap, SectionNr};
use sys::{Populated, SysError};

use super::placement::widen;

/// What writing a section brought.
pub(super) struct Written {
    /// Struct pages.
    pub(super) pages: u64,
    /// The section's own free lists, where it was handed over.
    pub(super) free: Option<SectionFree>,
}

/// A map whose sections can be claimed, written and published.
pub(super) trait Target: Sync {
    /// Claims a pending section, writes it and publishes it; `None` where it was not pending.
    fn write(&self, section: u64, writer: &dyn PageWriter) -> Option<Written>;

    /// The mapped memory that holds the struct pages of sections that follow each other, by bytes,
    /// rounded out to pages; `None` where the map lies elsewhere.
    fn memory(&self, sections: Range<u64>) -> Option<(&sys::Mapping, Range<usize>)>;

    /// Puts pages behind the struct pages of sections that follow each other, where they lie in mapped
    /// memory, and leaves what they hold.
    fn populate(&self, sections: Range<u64>) -> Result<(), SysError>;

    /// Which memory it was decided to take, where there was a choice.
    fn backing(&self) -> Option<&BackingChoice>;
}

/// The memory that was there at boot.
pub(super) struct BootTarget<'m> {
    map: &'m MemoryMap,
    /// By what its free pages are handed over, where they are.
    hand_over: Option<HandOver<'m>>,
}

impl<'m> BootTarget<'m> {
    pub(super) fn new(map: &'m MemoryMap, hand_over: bool) -> Self {
        Self {
            map,
            hand_over: hand_over.then(|| HandOver::new(map.geometry())),
        }
    }
}

impl Target for BootTarget<'_> {
    fn write(&self, section: u64, writer: &dyn PageWriter) -> Option<Written> {
        let mut claim = self.map.claim(SectionNr(section))?;
        // a panic in here drops the claim, and the section is pending again
        let free = match &self.hand_over {
            Some(plan) => Some(claim.write_and_hand_over(writer, plan)),
            None => {
                claim.write(writer);
                None
            }
        };
        let pages = claim.pfns().len();
        claim.publish();
        Some(Written { pages, free })
    }

    fn memory(&self, sections: Range<u64>) -> Option<(&sys::Mapping, Range<usize>)> {
        let mapping = self.map.mapping()?;
        let first = self.map.mapping_range(SectionNr(sections.start))?;
        let last = self
            .map
            .mapping_range(SectionNr(sections.end.checked_sub(1)?))?;
        Some((mapping, first.start..last.end))
    }
    fn populate(&self, sections: Range<u64>) -> Result<(), SysError> {
        let Some((memory, bytes)) = self.memory(sections.clone()) else {
            return Ok(());
        };
        match memory.populate(widen(bytes, memory.len()))? {
            Populated::Done => Ok(()),
            // Only who may write a section may touch it: what another run has claimed or written has
            // its memory from that one.
            Populated::NoSuchCall => sections
                .filter_map(|section| self.map.claim(SectionNr(section)))
                .try_for_each(|mut claim| claim.populate()),
        }
    }

    fn backing(&self) -> Option<&BackingChoice> {
        Some(self.map.backing())
    }
}
