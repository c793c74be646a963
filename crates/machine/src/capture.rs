//! A file that may hold more than a log.
//!
//! A capture has parts that begin with `@@NAME`; a file without such a line is a boot log whole, of one
//! boot or several.
//! Parts that nobody here reads (struct pages, buddy lists) are passed over without being kept.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::bootlog::BootLog;
use crate::bootlog::boots::BootsReader;
use crate::debugfs::MemblockArray;
use crate::error::ReadError;
use crate::text::{Line, Lines};
use crate::zoneinfo::{ZoneInfo, ZoneInfoReader};

/// The parts of a capture that are understood.
#[derive(Debug)]
pub struct Capture {
    log: Result<BootLog, ReadError>,
    /// `/proc/zoneinfo`, where the file has it.
    pub zoneinfo: Option<ZoneInfo>,
    /// `memory` and `reserved` of memblock as the running kernel kept them.
    pub memblock: Option<(MemblockArray, MemblockArray)>,
    /// `@@machine`: what was emulated.
    pub machine: Option<String>,
    /// Whether the file has `@@` parts, and if so whether it reached `@@end`.
    pub whole: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Log,
    Machine,
    Zoneinfo,
    Memory,
    Reserved,
    Other,
}

impl Capture {
    /// Reads `path`.
    ///
    /// # Errors
    /// [`ReadError::Io`] where the file cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let path = path.as_ref();
        let io = |source| ReadError::Io {
            file: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        Self::read(&path.display().to_string(), BufReader::new(file))
    }

    /// Reads `input`, which messages will call `name`.
    ///
    /// # Errors
    /// [`ReadError::Io`] where the input cannot be read.
    pub fn read(name: &str, input: impl BufRead) -> Result<Self, ReadError> {
        let mut lines = Lines::new(input);
        let mut line = Line::default();
        let mut log = BootsReader::default();
        let mut zoneinfo: Option<ZoneInfoReader> = None;
        let mut machine: Option<String> = None;
        let (mut memory, mut reserved) = (MemblockArray::default(), MemblockArray::default());
        let mut whole = None;
        let mut part = Part::Log;
        loop {
            let more = lines.read(&mut line).map_err(|source| ReadError::Io {
                file: name.into(),
                source,
            })?;
            if !more {
                break;
            }
            if let Some(name) = line.whole().strip_prefix("@@") {
                whole = Some(name == "end" || whole == Some(true));
                part = match name {
                    "dmesg" => Part::Log,
                    "machine" => Part::Machine,
                    "zoneinfo" => {
                        zoneinfo = Some(ZoneInfoReader::default());
                        Part::Zoneinfo
                    }
                    "memblock.memory" => Part::Memory,
                    "memblock.reserved" => Part::Reserved,
                    _ => Part::Other,
                };
                continue;
            }
            match part {
                Part::Log => log.feed(&line),
                Part::Machine => machine = machine.or_else(|| Some(line.text().to_owned())),
                Part::Zoneinfo => {
                    if let Some(reader) = &mut zoneinfo {
                        reader.feed(line.number, line.text());
                    }
                }
                Part::Memory => memory.feed(line.number, line.text()),
                Part::Reserved => reserved.feed(line.number, line.text()),
                Part::Other => {}
            }
        }
        Ok(Self {
            log: log.finish(name),
            memblock: (!memory.regions().is_empty()).then_some((memory, reserved)),
            zoneinfo: zoneinfo.map(ZoneInfoReader::finish),
            machine,
            whole,
        })
    }

    /// The boot log.
    ///
    /// # Errors
    /// [`ReadError::NotABootLog`] where there is none.
    pub fn log(&self) -> Result<&BootLog, &ReadError> {
        self.log.as_ref()
    }

    /// The boot log, taken out.
    ///
    /// # Errors
    /// [`ReadError::NotABootLog`] where there is none.
    pub fn into_log(self) -> Result<BootLog, ReadError> {
        self.log
    }
}
