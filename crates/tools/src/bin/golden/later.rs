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

/// Pages of one kind that the log explains.
#[derive(Debug, Default)]
struct Allowance {
    ranges: Vec<PfnRange>,
    /// Pages that lines without addresses explain; `None` where the log ends before them.
    pages: Option<u64>,
    used: u64,
}

impl Allowance {
    fn take(&mut self, pfn: Pfn) -> bool {
        if self.ranges.iter().any(|range| range.contains(pfn)) {
            return true;
        }
        self.used += 1;
        self.pages.is_none_or(|pages| self.used <= pages)
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
                reserved = (check.printed.saturating_sub(check.replayed) << 10) >> shift;
            }
        }
        let kib: u64 = pages.freed.iter().map(|(_, kib)| kib).sum();
        Ok(Self {
            given_back: Allowance {
                ranges,
                pages: pages.log_reaches_user_space.then_some((kib << 10) >> shift),
                used: 0,
            },
            reserved: Allowance {
                ranges: Vec::new(),
                pages: Some(reserved),
                used: 0,
            },
        })
    }

    /// Whether `pfn`, reserved at hand-over, may be free now.
    pub(crate) fn given_back(&mut self, pfn: Pfn) -> bool {
        self.given_back.take(pfn)
    }

    /// Whether `pfn`, free at hand-over, may be reserved now.
    pub(crate) fn reserved(&mut self, pfn: Pfn) -> bool {
        self.reserved.take(pfn)
    }

    /// What was explained by amounts alone.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let note = |allowance: &Allowance, what: &str, line: &str| {
            let of = match allowance.pages {
                Some(pages) => format!("of {pages} that {line} amount to"),
                None => format!("; the log ends before {line}"),
            };
            (allowance.used > 0).then(|| format!("{} {what} {of}", allowance.used))
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
