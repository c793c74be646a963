//! Whether a written map is what it must be.
//!
//! The invariants are those of section 10 of the specification. They are checked against the
//! memory and the zones, not against the runs that the map was written from.

use alloc::vec::Vec;
use core::fmt;

use memblock::{NodeId, Pfn};

use crate::backing::SectionState;
use crate::buddy::{COUNTS, PageWords};
use crate::flags::PageFlag;
use crate::geometry::{MemoryRange, PageKind, SectionNr};
use crate::page::StructPage;
use crate::profile::{ZoneIndex, ZoneKind};

use super::MemoryMap;

/// Something that must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A present section was not published.
    #[error("section {section} is {state:?}, not ready")]
    NotReady {
        /// The section.
        section: SectionNr,
        /// Its state.
        state: SectionState,
    },
    /// A struct page that somebody should have written was not.
    #[error("the struct page of {pfn} was never written")]
    NeverWritten {
        /// The frame.
        pfn: Pfn,
    },
    /// A struct page that nobody writes was written.
    #[error("the struct page of {pfn} was written, but nobody may")]
    WrittenByMistake {
        /// The frame.
        pfn: Pfn,
    },
    /// A page of memory names another node than its memory's.
    #[error("{pfn} names node {found}, but its memory is on node {expected}")]
    WrongNode {
        /// The frame.
        pfn: Pfn,
        /// What its struct page says.
        found: NodeId,
        /// What its memory says.
        expected: NodeId,
    },
    /// A page of memory names a zone that does not contain it.
    #[error("{pfn} names zone {found}, which does not contain it")]
    WrongZone {
        /// The frame.
        pfn: Pfn,
        /// What its struct page says.
        found: ZoneIndex,
    },
    /// A page that is not memory is not reserved.
    #[error("{pfn} is no memory, but its struct page is not reserved")]
    HoleNotReserved {
        /// The frame.
        pfn: Pfn,
    },
    /// Memory that somebody reserved, or that is not mapped, is not marked so.
    #[error("{pfn} is reserved, but its struct page does not say so")]
    NotReserved {
        /// The frame.
        pfn: Pfn,
    },
    /// A reserved page without its one reference, or a free one with some.
    #[error("{pfn} has {found} references, which does not go with reserved = {reserved}")]
    WrongReferences {
        /// The frame.
        pfn: Pfn,
        /// Its references.
        found: i32,
        /// Whether it is reserved.
        reserved: bool,
    },
    /// The links of a page that is on no list do not point to itself.
    #[error("the links of {pfn} do not point to itself")]
    WrongLinks {
        /// The frame.
        pfn: Pfn,
    },
    /// The zones do not add up to the memory inside their limits.
    #[error("zones have {zones} pages present, memory inside their limits {memory}")]
    PresentPages {
        /// Σ present of all zones.
        zones: u64,
        /// Pages of memory.
        memory: u64,
    },
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// The first [`CheckReport::LIMIT`] violations.
    pub violations: Vec<Violation>,
    /// How many there are.
    pub count: u64,
    /// Struct pages that were looked at.
    pub pages: u64,
}

impl CheckReport {
    /// How many violations are kept.
    pub const LIMIT: usize = 100;

    /// Whether nothing is wrong.
    pub const fn is_clean(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, violation: Violation) {
        self.count += 1;
        if self.violations.len() < Self::LIMIT {
            self.violations.push(violation);
        }
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages, {} violations", self.pages, self.count)?;
        for violation in &self.violations {
            write!(f, "\n  {violation}")?;
        }
        Ok(())
    }
}

impl MemoryMap {
    /// Verifies every struct page of every present section, before, during or after hand-over.
    ///
    /// It is about what was there at boot: after memory was taken offline, zones have fewer pages than
    /// memory, and that is told ([`Violation::PresentPages`], [`Violation::WrongZone`]).
    ///
    /// With poison (see [`BackingOptions::poison`](crate::BackingOptions::poison)) pages that
    /// were never written are found for certain; without, only as far as zeroes betray them.
    pub fn check(&self) -> CheckReport {
        let mut report = CheckReport::default();
        self.check_present(&mut report);
        let words = PageWords::new(self.profile());
        let pages = self.geometry().sections().pages_per_section();
        for section in self.geometry().sections().iter() {
            let state = self.section_state(section);
            if state != SectionState::Ready {
                report.add(Violation::NotReady { section, state });
                continue;
            }
            for run in self.geometry().page_runs_within(section.pfns(pages)) {
                for pfn in run.pfns.start().get()..run.pfns.end().get() {
                    self.check_page(Pfn::new(pfn), run.kind, &words, &mut report);
                }
            }
        }
        report
    }

    fn check_present(&self, report: &mut CheckReport) {
        let geometry = self.geometry();
        let mirror = geometry.mirror_overlap();
        let zones: u64 = geometry.nodes().iter().map(|node| node.present).sum();
        let memory: u64 = geometry
            .memory()
            .iter()
            .map(|range| {
                let node = geometry.node(range.node);
                let zones = node.iter().flat_map(|node| &node.zones);
                zones
                    .filter_map(|zone| zone.span().intersection(range.pfns))
                    .map(|part| part.len())
                    .sum::<u64>()
            })
            .sum();
        // Overlapping zones share what is counted twice here.
        if zones != memory && !mirror {
            report.add(Violation::PresentPages { zones, memory });
        }
    }

    fn check_page(&self, pfn: Pfn, kind: PageKind, words: &PageWords, report: &mut CheckReport) {
        report.pages += 1;
        let Ok(page) = self.read(pfn) else { return };
        if kind == PageKind::Untouched {
            if self.poison && !page.is_poisoned() {
                report.add(Violation::WrittenByMistake { pfn });
            }
            return;
        }
        let head = kind == PageKind::Free && words.is_free_head(page.words()[COUNTS]);
        // the ends of a section's own lists link nowhere until they are joined with others
        if page.is_poisoned() || (page.next() == 0 && !head) {
            report.add(Violation::NeverWritten { pfn });
            return;
        }
        let layout = self.geometry().flags_layout();
        let reserved = page.flags() & layout.numbers().mask(PageFlag::Reserved) != 0;
        // memory beyond the limits of all zones is nobody's, like a gap
        let zoned = |range: &MemoryRange| {
            let node = self.geometry().node(range.node);
            let zones = node.into_iter().flat_map(|node| &node.zones);
            zones.into_iter().any(|zone| zone.span().contains(pfn))
        };
        match self.geometry().memory_at(pfn).filter(zoned) {
            Some(range) => {
                if matches!(kind, PageKind::Reserved | PageKind::NoMap) && !reserved {
                    report.add(Violation::NotReserved { pfn });
                }
                self.check_memory_page(pfn, range.node, &page, report);
            }
            None if !reserved => report.add(Violation::HoleNotReserved { pfn }),
            None => {}
        }
        let references = page.refcount();
        let right = match kind {
            PageKind::Free => references == 0,
            _ => references == 1,
        };
        if !right || (reserved && references != 1) {
            report.add(Violation::WrongReferences {
                pfn,
                found: references,
                reserved,
            });
        }
        // Free pages may be on a list, or have been: that is for the allocator's own check.
        let listed = kind == PageKind::Free && (head || [page.next(), page.prev()] == words.poison);
        if listed {
            return;
        }
        let link = self.pfn_to_page(pfn).map(|page| page.wrapping_add(8));
        if link != Some(page.next()) || link != Some(page.prev()) {
            report.add(Violation::WrongLinks { pfn });
        }
    }

    fn check_memory_page(
        &self,
        pfn: Pfn,
        expected: NodeId,
        page: &StructPage,
        report: &mut CheckReport,
    ) {
        let layout = self.geometry().flags_layout();
        let decoded = (
            layout.node().get(page.flags()),
            layout.zone().get(page.flags()),
        );
        let found = NodeId::new(decoded.0 as u16);
        if layout.node().width > 0 && found != expected {
            report.add(Violation::WrongNode {
                pfn,
                found,
                expected,
            });
        }
        let zone = ZoneIndex(decoded.1 as u8);
        let contains = self
            .geometry()
            .node(expected)
            .and_then(|node| node.zones.get(zone.index()))
            .is_some_and(|zone| zone.span().contains(pfn) && zone.kind != ZoneKind::Device);
        if !contains {
            report.add(Violation::WrongZone { pfn, found: zone });
        }
    }
}
