//! Which sections are there.
//!
//! A section is present where any page of memory lies in it. Present sections are kept as runs,
//! so that the table grows with what is there, not with the address space. Without sections
//! (FLATMEM) the one array takes their place.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use memblock::{NodeId, Pfn, PfnRange};

use crate::profile::{Arch, MemoryModel, Profile};

use super::MemoryRange;

/// The number of a section.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "section_nr")]
pub struct SectionNr(pub u64);

impl SectionNr {
    /// The section that holds `pfn`.
    #[doc(alias = "pfn_to_section_nr")]
    pub const fn of(pfn: Pfn, pages_per_section: u64) -> Self {
        Self(pfn.get() / pages_per_section)
    }

    /// Its frames.
    #[doc(alias = "section_nr_to_pfn")]
    pub const fn pfns(self, pages_per_section: u64) -> PfnRange {
        let start = Pfn::new(self.0.saturating_mul(pages_per_section));
        PfnRange::new(start, start.saturating_add(pages_per_section))
    }
}

impl fmt::Debug for SectionNr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "section{}", self.0)
    }
}

impl fmt::Display for SectionNr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Present sections that follow each other and were first claimed by the same node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionRun {
    /// Its first section.
    pub first: SectionNr,
    /// How many sections.
    pub count: u64,
    /// The node whose memory came first in them.
    #[doc(alias = "sparse_early_nid")]
    pub early_node: NodeId,
    /// How many present sections lie below.
    pub rank: u64,
}

/// The present sections of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sections {
    pages: u64,
    subsection_pages: u64,
    runs: Vec<SectionRun>,
    /// Frames that have a struct page.
    valid: Vec<PfnRange>,
    /// Memory that no section can hold.
    beyond: Vec<PfnRange>,
}

impl Sections {
    /// Linux: mm/sparse.c, `memory_present` and `sparse_init`.
    pub(super) fn new(profile: &Profile, memory: &[MemoryRange]) -> Self {
        let pages = profile.pages_per_section();
        let limit = Pfn::new(1 << (profile.max_physmem_bits - profile.page_shift));
        let mut sections = Self {
            pages,
            subsection_pages: profile.pages_per_subsection().min(pages),
            runs: Vec::new(),
            valid: Vec::new(),
            beyond: Vec::new(),
        };
        if profile.memory_model == MemoryModel::Flat {
            let block = profile.max_order_pages();
            if let (Some(first), Some(last)) = (memory.first(), memory.last()) {
                let start = match profile.arch {
                    // Frames below the first one of memory are not valid here, though the array
                    // has room for them: its offset is where memory begins.
                    Arch::Riscv64 => first.pfns.start(),
                    _ => first.pfns.start().align_down(block),
                };
                sections.valid = vec![PfnRange::new(start, last.pfns.end().align_up(block))];
            }
            return sections;
        }
        let mut next = 0;
        let mut rank = 0;
        for range in memory {
            let inside = PfnRange::new(range.pfns.start(), range.pfns.end().min(limit));
            let outside = PfnRange::new(range.pfns.start().max(limit), range.pfns.end());
            if !outside.is_empty() {
                sections.beyond.push(outside);
            }
            if inside.is_empty() {
                continue;
            }
            let first = (inside.start().get() / pages).max(next);
            let end = inside.end().get().div_ceil(pages);
            if first >= end {
                continue;
            }
            sections.push(first, end - first, range.node, rank);
            rank += end - first;
            next = end;
        }
        sections
    }

    fn push(&mut self, first: u64, count: u64, node: NodeId, rank: u64) {
        let pfns = PfnRange::new(
            Pfn::new(first * self.pages),
            Pfn::new((first + count) * self.pages),
        );
        match self.valid.last_mut() {
            Some(last) if last.end() == pfns.start() => {
                *last = PfnRange::new(last.start(), pfns.end());
            }
            _ => self.valid.push(pfns),
        }
        match self.runs.last_mut() {
            Some(last) if last.first.0 + last.count == first && last.early_node == node => {
                last.count += count;
            }
            _ => self.runs.push(SectionRun {
                first: SectionNr(first),
                count,
                early_node: node,
                rank,
            }),
        }
    }

    /// Pages of a section.
    #[doc(alias = "PAGES_PER_SECTION")]
    pub const fn pages_per_section(&self) -> u64 {
        self.pages
    }

    /// Runs of present sections, ascending. Empty without sections.
    pub fn runs(&self) -> &[SectionRun] {
        &self.runs
    }

    /// How many sections are present.
    pub fn count(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.rank + run.count)
    }

    /// The present sections, ascending.
    #[doc(alias = "for_each_present_section_nr")]
    pub fn iter(&self) -> impl Iterator<Item = SectionNr> + '_ {
        self.runs
            .iter()
            .flat_map(|run| (run.first.0..run.first.0 + run.count).map(SectionNr))
    }

    /// The run that holds `section`, or `None` where it is absent.
    pub fn run_of(&self, section: SectionNr) -> Option<&SectionRun> {
        let after = self.runs.partition_point(|run| run.first <= section);
        let run = self.runs[..after].last()?;
        (section.0 - run.first.0 < run.count).then_some(run)
    }

    /// How many present sections lie below `section`, or `None` where it is absent.
    pub fn rank(&self, section: SectionNr) -> Option<u64> {
        let run = self.run_of(section)?;
        Some(run.rank + (section.0 - run.first.0))
    }

    /// The present section of that rank.
    pub fn by_rank(&self, rank: u64) -> Option<SectionNr> {
        let after = self.runs.partition_point(|run| run.rank <= rank);
        let run = self.runs[..after].last()?;
        let offset = rank - run.rank;
        (offset < run.count).then_some(SectionNr(run.first.0 + offset))
    }

    /// Frames that have a struct page, as sorted disjoint ranges.
    pub fn valid_ranges(&self) -> &[PfnRange] {
        &self.valid
    }

    /// Memory above the highest address that sections reach; Linux warns and leaves it out.
    pub fn beyond(&self) -> &[PfnRange] {
        &self.beyond
    }

    /// Whether `pfn` has a struct page. Boot-time sections have one for each of their frames.
    #[doc(alias = "pfn_valid")]
    pub fn is_valid(&self, pfn: Pfn) -> bool {
        let after = self.valid.partition_point(|range| range.start() <= pfn);
        self.valid[..after]
            .last()
            .is_some_and(|range| range.contains(pfn))
    }

    /// The first frame at or above `pfn` that has a struct page.
    #[doc(alias = "next_valid_pfn")]
    #[doc(alias = "for_each_valid_pfn")]
    pub fn next_valid(&self, pfn: Pfn) -> Option<Pfn> {
        let at = self.valid.partition_point(|range| range.end() <= pfn);
        self.valid.get(at).map(|range| range.start().max(pfn))
    }

    /// The parts of `pfns` that have struct pages, ascending.
    pub fn valid_within(&self, pfns: PfnRange) -> impl Iterator<Item = PfnRange> + '_ {
        let first = self
            .valid
            .partition_point(|range| range.end() <= pfns.start());
        self.valid[first..]
            .iter()
            .map_while(move |range| range.intersection(pfns))
    }

    /// The frames of the sub-section that holds `pfn`.
    pub fn subsection(&self, pfn: Pfn) -> PfnRange {
        let start = pfn.align_down(self.subsection_pages);
        PfnRange::new(start, start.saturating_add(self.subsection_pages))
    }
}
