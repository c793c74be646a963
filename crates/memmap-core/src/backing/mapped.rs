//! One address range for all sections, with memory behind the present ones.
//!
//! As Linux's vmemmap: the struct page of a frame is found by multiplication.

use alloc::vec::Vec;
use core::ops::Range;
use core::ptr::NonNull;

use sys::{Mapping, Populated, SysError, page_size};

use crate::geometry::{SectionRun, Sections};

use super::{BackingOptions, HugePages, MapError};

/// The most that one reservation can have on a system with 47 bits of user addresses.
const LIMIT: u64 = 1 << 47;

/// Huge pages of the host begin at such multiples.
const HUGE: usize = 2 << 20;

/// A reservation from the first to the last present section.
#[derive(Debug)]
pub(super) struct Mapped {
    mapping: Mapping,
    section_bytes: usize,
    first: u64,
    runs: Vec<SectionRun>,
    /// What is committed, in bytes of the mapping: whole pages of the kind behind it.
    committed: Vec<Range<usize>>,
}

impl Mapped {
    pub(super) fn new(
        sections: &Sections,
        words: usize,
        options: &BackingOptions,
    ) -> Result<Self, MapError> {
        let section_bytes = words * 8;
        let runs = sections.runs().to_vec();
        let first = runs.first().map_or(0, |run| run.first.0);
        let end = runs.last().map_or(0, |run| run.first.0 + run.count);
        let span = u128::from(end - first) * section_bytes as u128;
        let present = sections.count().saturating_mul(section_bytes as u64);
        let len = match usize::try_from(span) {
            Ok(len) if span < u128::from(LIMIT) => len,
            _ => {
                return Err(MapError::SpanTooLarge {
                    span: u64::try_from(span).unwrap_or(u64::MAX),
                    limit: LIMIT,
                    present,
                });
            }
        };
        let refused = |source: SysError| MapError::System {
            needed: present,
            span: len as u64,
            source,
        };
        let page = match options.huge_pages {
            HugePages::Reserved => sys::huge_page_size(),
            _ => page_size(),
        };
        let reserved = len.next_multiple_of(page);
        let mut mapped = Self {
            mapping: Mapping::reserve_aligned(reserved, HUGE.max(page)).map_err(refused)?,
            section_bytes,
            first,
            runs,
            committed: Vec::new(),
        };
        for run in &mapped.runs {
            let mut bytes = mapped.bytes(run.first.0, run.count);
            bytes.start -= bytes.start % page;
            bytes.end = bytes.end.next_multiple_of(page);
            // sections of two runs may lie on one page
            match mapped.committed.last_mut() {
                Some(last) if last.end >= bytes.start => last.end = bytes.end,
                _ => mapped.committed.push(bytes),
            }
        }
        for bytes in &mapped.committed {
            if options.huge_pages == HugePages::Reserved {
                mapped.mapping.commit_huge(bytes.clone()).map_err(refused)?;
                continue;
            }
            mapped.mapping.commit(bytes.clone()).map_err(refused)?;
            let wish = match options.huge_pages {
                HugePages::System | HugePages::Reserved => sys::HugePages::System,
                HugePages::Always => sys::HugePages::Always,
                HugePages::Never => sys::HugePages::Never,
            };
            // A system without huge pages refuses the wish; that changes no byte.
            drop(mapped.mapping.huge_pages(bytes.clone(), wish));
        }
        Ok(mapped)
    }

    /// Bytes of the mapping that hold `count` sections from `section` on, rounded out to the
    /// host's pages.
    fn bytes(&self, section: u64, count: u64) -> Range<usize> {
        let start = (section - self.first) as usize * self.section_bytes;
        let end = start + count as usize * self.section_bytes;
        let page = page_size();
        let end = end.next_multiple_of(page).min(self.mapping.len());
        start / page * page..end
    }

    fn number(&self, rank: usize) -> u64 {
        let after = self.runs.partition_point(|run| run.rank <= rank as u64);
        let run = self.runs[after - 1];
        run.first.0 + (rank as u64 - run.rank)
    }

    pub(super) fn section(&self, rank: usize) -> NonNull<u64> {
        let offset = (self.number(rank) - self.first) as usize * self.section_bytes;
        // SAFETY: present sections lie inside the reservation.
        let section = unsafe { self.mapping.as_ptr().add(offset) };
        section.cast()
    }

    pub(super) fn find(&self, address: usize) -> Option<(usize, usize)> {
        let offset = address.checked_sub(self.mapping.as_ptr().as_ptr() as usize)?;
        if offset >= self.mapping.len() {
            return None;
        }
        let number = self.first + (offset / self.section_bytes) as u64;
        let after = self.runs.partition_point(|run| run.first.0 <= number);
        let run = self.runs[..after].last()?;
        let within = number - run.first.0;
        (within < run.count).then_some(((run.rank + within) as usize, offset % self.section_bytes))
    }

    /// Puts memory behind a section without changing it, where the system has a call for that.
    pub(super) fn populate(&self, rank: usize) -> Result<Populated, SysError> {
        self.mapping.populate(self.range(rank))
    }

    /// Takes the memory behind all sections; they read as zero afterwards.
    pub(super) fn discard(&mut self) -> Result<(), SysError> {
        for bytes in &self.committed {
            self.mapping.discard(bytes.clone())?;
        }
        Ok(())
    }

    /// Bytes of the mapping that hold a section, rounded out to the host's pages.
    pub(super) fn range(&self, rank: usize) -> Range<usize> {
        self.bytes(self.number(rank), 1)
    }

    pub(super) const fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}
