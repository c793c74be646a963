//! A kernel boot log, read into facts.
//!
//! [`BootLog`] holds what the log says and where it says it, without judgement: the firmware's
//! maps and the edits made to them, what the firmware says of nodes, memblock's dumps and debug
//! lines, and the figures printed later. [`crate::layout`] decides what of it is the input.
//!
//! # Implementation
//! One reader a subject, each fed every message in turn; the first that takes it ends the turn.
//! Nothing is looked up backwards, so a log may be streamed.

pub(crate) mod boots;
pub mod efi;
pub mod firmware;
pub mod hints;
pub mod identity;
pub mod memblock_lines;
pub mod numa;

use std::io::BufRead;
use std::path::Path;

use crate::capture::Capture;
use crate::error::{Missing, ReadError};
use crate::figures::{FigureReader, PrintedFigures};
use crate::location::{Location, Problems};

pub use boots::OtherBoots;

use efi::EfiMap;
use firmware::FirmwareMaps;
use hints::Hints;
use identity::Identity;
use memblock_lines::MemblockLines;
use numa::NumaFacts;

/// What a boot log says.
#[derive(Clone, Debug, Default)]
pub struct BootLog {
    /// Name of the input, for messages.
    pub file: String,
    /// Kernel, architecture, command line, machine.
    pub identity: Identity,
    /// The firmware's memory maps (x86).
    pub firmware: FirmwareMaps,
    /// The memory map of UEFI firmware.
    pub efi: EfiMap,
    /// What firmware and kernel say of nodes.
    pub numa: NumaFacts,
    /// Dumps and debug lines of memblock.
    pub memblock: MemblockLines,
    /// Single reservations, page size, CPU count.
    pub hints: Hints,
    /// The figures that are compared, never used as input while there is another.
    pub figures: PrintedFigures,
    /// Whether zones are printed as page frames (kernels before 3.5), and where.
    pub pfn_format: Option<Location>,
    /// Lines that should have been facts.
    pub problems: Problems,
    /// Lines read, those of other boots included.
    pub lines: u64,
    /// First and last line of the boot that all of this is about.
    pub boot_lines: (u64, u64),
    /// Other boots in the same log, of which nothing is taken.
    pub other_boots: OtherBoots,
}

impl BootLog {
    /// Reads the boot log in `path`: plain text, or the `@@dmesg` part of a capture.
    ///
    /// # Errors
    /// * [`ReadError::Io`] where the file cannot be read.
    /// * [`ReadError::NotABootLog`] where no line of it is one that a kernel prints at boot.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        Capture::open(path)?.into_log()
    }

    /// Reads the boot log in `input`, which messages will call `name`.
    ///
    /// # Errors
    /// As [`BootLog::open`].
    pub fn read(name: &str, input: impl BufRead) -> Result<Self, ReadError> {
        Capture::read(name, input)?.into_log()
    }

    /// The parts of a boot log that this one has not.
    pub fn missing(&self) -> Vec<Missing> {
        self.parts()
            .filter(|part| !part.1)
            .map(|part| part.0)
            .collect()
    }

    /// The parts that every boot log should have and this one has not: it was cut, or lines were
    /// lost. A dump of memblock is only there if it was asked for.
    pub fn cut_off(&self) -> Vec<Missing> {
        let mut missing = self.missing();
        missing.retain(|part| *part != Missing::MemblockDump);
        missing
    }

    /// The parts of a boot log that this one has.
    pub fn known(&self) -> Vec<Missing> {
        self.parts()
            .filter(|part| part.1)
            .map(|part| part.0)
            .collect()
    }

    fn parts(&self) -> impl Iterator<Item = (Missing, bool)> {
        let x86 = self.identity.architecture.is_none_or(|arch| {
            matches!(arch, crate::Architecture::Amd64 | crate::Architecture::X86)
        });
        let memory = self
            .figures
            .iter()
            .any(|figure| matches!(figure.kind, crate::FigureKind::Memory { .. }));
        [
            (Missing::Banner, self.identity.release.is_some()),
            (Missing::CommandLine, self.identity.command_line.is_some()),
            (
                Missing::FirmwareMap,
                self.firmware.last_whole().is_some() || self.efi.is_whole(),
            ),
            (Missing::MemblockDump, self.memblock.last_whole().is_some()),
            (
                Missing::ZoneRanges,
                self.figures.zone_ranges().next().is_some(),
            ),
            (
                Missing::EarlyRanges,
                self.figures.early_ranges().next().is_some(),
            ),
            (Missing::MemoryLine, memory),
        ]
        .into_iter()
        .filter(move |(part, _)| x86 || *part != Missing::FirmwareMap)
    }

    /// Whether any line of it speaks of memory.
    fn has_anything(&self) -> bool {
        !self.figures.is_empty()
            || self.pfn_format.is_some()
            || !self.firmware.is_empty()
            || !self.efi.ranges.is_empty()
            || !self.memblock.is_empty()
            || !self.numa.is_empty()
    }
}

/// Reads one boot line by line.
#[derive(Debug, Default)]
pub(crate) struct LogReader {
    log: BootLog,
    figures: FigureReader,
}

impl LogReader {
    /// Takes one message.
    pub(crate) fn feed(&mut self, line: u64, text: &str) {
        let log = &mut self.log;
        if log.boot_lines.0 == 0 {
            log.boot_lines.0 = line;
        }
        log.boot_lines.1 = line;
        if text.is_empty() {
            return;
        }
        log.identity.feed(line, text);
        let problems = &mut log.problems;
        let _taken = log.firmware.feed(line, text, problems)
            || log.efi.feed(line, text, problems)
            || log.numa.feed(line, text, problems)
            || log.memblock.feed(line, text, problems)
            || self.figures.feed(line, text, problems)
            || log.hints.feed(line, text);
    }

    /// Whether any line of it speaks of memory.
    fn has_anything(&self) -> bool {
        self.log.has_anything() || !self.figures.is_empty() || self.figures.pfn_format.is_some()
    }

    /// The boot's log, if any line of it speaks of memory.
    fn finish(mut self) -> Option<BootLog> {
        self.log.pfn_format = self.figures.pfn_format.take();
        self.log.figures = self.figures.finish();
        self.log.memblock.finish();
        self.log.identity.settle(&self.log.figures);
        self.log.has_anything().then_some(self.log)
    }
}
