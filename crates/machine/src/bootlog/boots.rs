//! The boots of one log.
//!
//! Logs that syslog keeps, and consoles that recorded a crash and what came after it, hold several
//! boots. Facts of two are no machine: one boot is read, the last of those that have most parts of
//! a boot log, and [`OtherBoots`] tells which lines were left out.
//!
//! # Implementation
//! A boot begins where its kernel says so for the second time: with the banner, or, where that is
//! lost, with another of its first lines and a time stamp that goes back. What has no stamp in a
//! log that has them, and is not said to be the kernel's, was printed by none: reports quote
//! `/proc/version`.

use super::{BootLog, LogReader};
use crate::error::ReadError;
use crate::location::Location;
use crate::text::Line;

/// The boots of a log that were not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherBoots {
    kept: Vec<(u64, u64)>,
    dropped: u64,
}

impl OtherBoots {
    /// How many are kept with their lines.
    pub const KEPT: usize = 100;

    /// First and last line of those that are kept, ascending.
    pub fn lines(&self) -> &[(u64, u64)] {
        &self.kept
    }

    /// All of them, those included of which no lines are kept.
    pub fn count(&self) -> u64 {
        self.kept.len() as u64 + self.dropped
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    fn add(&mut self, lines: (u64, u64)) {
        if self.kept.len() < Self::KEPT {
            self.kept.push(lines);
        } else {
            self.dropped += 1;
        }
    }
}

/// Beginnings of the lines that a kernel prints before all others, the banner first.
const FIRST_LINES: [&str; 4] = [
    "Linux version ",
    "Booting Linux on ",
    "Command line:",
    "BIOS-provided physical RAM map:",
];

/// Reads a log line by line, each boot on its own.
#[derive(Debug, Default)]
pub(crate) struct BootsReader {
    /// The boot that is being read.
    current: LogReader,
    /// Which of [`FIRST_LINES`] it has had.
    begun: [bool; FIRST_LINES.len()],
    /// Its highest time stamp, microseconds.
    stamp: Option<u64>,
    /// The best of the boots before it.
    best: Option<BootLog>,
    others: OtherBoots,
    /// Lines read, and the first with anything on it, of all boots.
    lines: u64,
    first: Option<Location>,
}

impl BootsReader {
    /// Takes one line.
    pub(crate) fn feed(&mut self, line: &Line) {
        let text = line.text();
        self.lines += 1;
        if self.first.is_none() && !text.is_empty() {
            self.first = Some(Location::new(line.number, text));
        }
        if let Some(mark) = FIRST_LINES.iter().position(|mark| text.starts_with(mark)) {
            if self.begins_anew(mark, line) {
                self.end_boot();
            }
            self.begun[mark] = true;
        }
        self.stamp = self.stamp.max(line.stamp);
        self.current.feed(line.number, text);
        self.current.log.problems.note_cut(line);
    }

    /// Whether the first line `mark` is another boot's than what came before.
    fn begins_anew(&self, mark: usize, line: &Line) -> bool {
        let banner = mark == 0;
        match (line.stamp, self.stamp) {
            (Some(now), Some(before)) if banner && self.begun[mark] => now <= before,
            // The front of the boot before is lost.
            (Some(now), Some(before)) if banner => now < before && self.current.has_anything(),
            (Some(now), Some(before)) => now < before && self.begun[mark],
            // Other programs that keep logs leave the stamp out, and name the kernel.
            (None, Some(_)) => banner && self.begun[mark] && line.names_kernel(),
            (_, None) => banner && self.begun[mark],
        }
    }

    fn end_boot(&mut self) {
        let ended = std::mem::take(&mut self.current);
        self.begun = Default::default();
        self.stamp = None;
        // Without a word on memory it is none: a report that quotes a banner.
        if let Some(log) = ended.finish() {
            self.take(log);
        }
    }

    /// Keeps the better one of `log` and the best so far; of equals the later one.
    fn take(&mut self, log: BootLog) {
        let other = match self.best.take() {
            Some(best) if best.cut_off().len() < log.cut_off().len() => {
                self.best = Some(best);
                log
            }
            before => {
                self.best = Some(log);
                let Some(before) = before else { return };
                before
            }
        };
        self.others.add(other.boot_lines);
    }

    /// The log, or what is wrong with it as one.
    pub(crate) fn finish(mut self, file: &str) -> Result<BootLog, ReadError> {
        self.end_boot();
        let Some(mut log) = self.best else {
            return Err(ReadError::NotABootLog {
                file: file.to_owned(),
                lines: self.lines,
                first: self.first,
            });
        };
        self.others.kept.sort_unstable();
        log.file = file.to_owned();
        log.lines = self.lines;
        log.other_boots = self.others;
        Ok(log)
    }
}
