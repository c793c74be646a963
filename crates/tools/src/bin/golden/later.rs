//! What the log says became of pages after hand-over.
//!
//! Two things change a page that nobody uses: reserved memory is given back (`Freeing …` lines,
//! memblock's own lines, areas of the contiguous allocator), and free memory is reserved (the
//! `Memory:` line then has more reserved than memblock had). Where a line names addresses, the
//! pages are known; where it names an amount, that many pages are explained and no more.

use std::fs;
use std::io;
use std::path::Path;

use memblock::replay::replay;
use memblock::{Pfn, PfnRange, PhysAddr, PhysRange};
use memmap_core::Profile;

use crate::pages::Pages;

/// What the log says of a page that is not as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// Nothing: it should be as it was at hand-over.
    Unchanged,
    /// It changed.
    Changed,
    /// Nothing, but the log ends before it could.
    LogEndsEarly,
}

/// Pages of one kind that the log explains.
#[derive(Debug, Default)]
struct Allowance {
    ranges: Vec<PfnRange>,
    /// Pages that lines without addresses explain.
    pages: u64,
    used: u64,
    /// Whether the log ends before the last of those lines.
    cut: bool,
}

impl Allowance {
    fn take(&mut self, pfn: Pfn) -> Since {
        if self.ranges.iter().any(|range| range.contains(pfn)) {
            return Since::Changed;
        }
        if self.used < self.pages {
            self.used += 1;
            return Since::Changed;
        }
        if self.cut {
            return Since::LogEndsEarly;
        }
        Since::Unchanged
    }
}

/// What the log explains.
#[derive(Debug)]
pub(crate) struct Later {
    given_back: Allowance,
    reserved: Allowance,
}

impl Later {
    pub(crate) fn read(path: &Path, profile: &Profile, pages: &Pages) -> io::Result<Self> {
        let shift = profile.page_shift;
        let mut ranges = Vec::new();
        for (start, bytes) in &pages.cma {
            let range = PhysRange::from_size(PhysAddr::new(*start), *bytes);
            ranges.push(range.pfns_inner(shift));
        }
        let mut reserved = 0;
        let text = fs::read(path)?;
        let text = String::from_utf8_lossy(&text);
        let log = text
            .lines()
            .skip_while(|line| *line != "@@dmesg")
            .skip(1)
            .take_while(|line| !line.starts_with("@@"));
        // A log without a dump explains nothing this way.
        if let Ok(replay) = replay(log, None) {
            let late = replay.later_frees.iter();
            ranges.extend(late.map(|free| free.range.pfns_inner(shift)));
            if let Some(check) = replay.check_memory_line(shift) {
                reserved = pages_of(check.printed.saturating_sub(check.replayed), shift);
            }
        }
        let freed = pages.freed.iter();
        let kib = freed.fold(0, |sum: u64, (_, kib)| sum.saturating_add(*kib));
        Ok(Self {
            given_back: Allowance {
                ranges,
                pages: pages_of(kib, shift),
                cut: !pages.log_reaches_user_space,
                ..Allowance::default()
            },
            reserved: Allowance {
                pages: reserved,
                ..Allowance::default()
            },
        })
    }

    /// Whether `pfn`, reserved at hand-over, may be free now.
    pub(crate) fn given_back(&mut self, pfn: Pfn) -> Since {
        self.given_back.take(pfn)
    }

    /// Whether `pfn`, free at hand-over, may be reserved now.
    pub(crate) fn reserved(&mut self, pfn: Pfn) -> Since {
        self.reserved.take(pfn)
    }

    /// What was explained by amounts alone.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let note = |allowance: &Allowance, what: &str, line: &str| {
            let Allowance { used, pages, .. } = *allowance;
            (used > 0).then(|| format!("{used} {what} of {pages} that {line} amount to"))
        };
        [
            note(
                &self.given_back,
                "reserved pages are free since,",
                "lines \"Freeing ..\"",
            ),
            note(
                &self.reserved,
                "free pages are reserved since,",
                "the line \"Memory:\"",
            ),
        ]
        .into_iter()
        .flatten()
    }
}

/// Whole pages of `kib` KiB.
fn pages_of(kib: u64, page_shift: u32) -> u64 {
    kib.saturating_mul(1024) >> page_shift
}
