//! The firmware's memory map on x86, in the wordings of all versions.
//!
//! A log may print the map several times: as the firmware gave it, after `memmap=` (`user`),
//! after reserving `setup_data`, after trimming (`modified`). Each print is the whole map, so
//! the last one before memblock is filled counts, with the single edits printed behind it.
//! Linux: `arch/x86/kernel/e820.c`.

use memblock::{PhysAddr, PhysRange};

use crate::location::Problems;
use crate::text::scan::Scan;

/// What the firmware says a range is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "e820_type")]
pub enum FirmwareType {
    /// Memory: `usable`, from 7.1 on `System RAM`.
    Ram,
    /// `reserved`, from 7.1 on `device reserved`.
    Reserved,
    /// Memory set aside for a driver: `soft reserved`.
    SoftReserved,
    /// `ACPI data`.
    AcpiData,
    /// `ACPI NVS`.
    AcpiNvs,
    /// `unusable`.
    Unusable,
    /// Persistent memory, type 7 or 12: no memory at boot.
    Persistent(u32),
    /// Any other type, by number where it is printed.
    Other(u32),
}

impl FirmwareType {
    /// The type that is printed as `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.trim().trim_start_matches('(');
        let number = |text: &str| {
            let (_, rest) = text.split_once("type ")?;
            u32::try_from(Scan(rest).dec()?).ok()
        };
        Some(match name.trim_end_matches(')') {
            "usable" | "System RAM" => Self::Ram,
            "reserved" | "device reserved" => Self::Reserved,
            "soft reserved" | "Soft Reserved" => Self::SoftReserved,
            "ACPI data" => Self::AcpiData,
            "ACPI NVS" => Self::AcpiNvs,
            "unusable" => Self::Unusable,
            other if other.starts_with("persistent") => {
                Self::Persistent(number(other).unwrap_or(7))
            }
            other if other.starts_with("type ") => Self::Other(number(other)?),
            _ => return None,
        })
    }
}

/// Which print of the map an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MapName {
    /// `BIOS-e820:`.
    Bios,
    /// `user:`, after `memmap=` or `mem=`.
    User,
    /// `modified:`, after trimming.
    Modified,
    /// `reserve setup_data:`.
    SetupData,
    /// `Xen:`, in a paravirtualised domain.
    Xen,
}

const PREFIXES: [(&str, MapName); 6] = [
    ("BIOS-e820:", MapName::Bios),
    ("user:", MapName::User),
    ("modified:", MapName::Modified),
    ("reserve setup_data:", MapName::SetupData),
    ("extended:", MapName::SetupData),
    ("Xen:", MapName::Xen),
];

/// One range of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// Line number.
    pub line: u64,
    /// The range.
    pub range: PhysRange,
    /// What it is for.
    pub kind: FirmwareType,
}

/// One print of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// Which.
    pub name: MapName,
    /// Line of its heading, where there is one: without it the front may be lost.
    pub heading: Option<u64>,
    /// Its ranges in the order printed.
    pub entries: Vec<MapEntry>,
    /// Whether one of its lines could not be read.
    pub broken: bool,
}

/// A single change to the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Line number.
    pub line: u64,
    /// The range.
    pub range: PhysRange,
    /// Only what is of this type is changed.
    pub from: FirmwareType,
    /// To what; `None` removes it.
    pub to: Option<FirmwareType>,
}

/// Changes that are kept: each costs the ranges that it touches, and kernels make tens of them.
const MAX_EDITS: usize = 2000;

/// Everything that a log says of the firmware's map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirmwareMaps {
    /// The prints, in order.
    pub maps: Vec<Map>,
    /// The changes, in order.
    pub edits: Vec<Edit>,
    /// First line that shows memblock filled from the map: later changes do not reach it.
    pub filled_by: Option<u64>,
    /// Where firmware left the table of memory that the guest has not accepted yet.
    pub unaccepted_table: Option<u64>,
    /// Largest frame number plus one that the architecture can have (`max_arch_pfn`).
    pub max_arch_pfn: Option<u64>,
    heading: Option<u64>,
}

impl FirmwareMaps {
    /// Whether the log says nothing of it.
    pub fn is_empty(&self) -> bool {
        self.maps.is_empty() && self.edits.is_empty()
    }

    /// The map that memblock was filled from, if it was printed whole.
    pub fn last_whole(&self) -> Option<&Map> {
        let before = |line: u64| self.filled_by.is_none_or(|filled| line < filled);
        self.maps
            .iter()
            .rfind(|map| map.entries.first().is_some_and(|first| before(first.line)))
            .filter(|map| map.heading.is_some() && !map.broken)
    }

    /// The map as firmware gave it, if it was printed whole.
    pub fn first_whole(&self) -> Option<&Map> {
        let map = self.maps.first()?;
        (map.name == MapName::Bios && map.heading.is_some() && !map.broken).then_some(map)
    }

    /// What the boot loader handed over as `setup_data`, ascending, each with its line: the kernel
    /// reserves it.
    ///
    /// It stays memory, and is told from what is around it by an edge: `reserve setup_data:` shows
    /// in pieces what the print before shows as one range. Pieces alternate, and the largest of a
    /// range is none of the boot loader's.
    pub fn setup_data(&self) -> Vec<(PhysRange, u64)> {
        let whole = |map: &&Map| !map.broken && !map.entries.is_empty();
        let last = self
            .maps
            .iter()
            .rposition(|map| map.name == MapName::SetupData);
        let Some((before, rest)) = last.and_then(|at| self.maps.split_at_checked(at)) else {
            return Vec::new();
        };
        let (before, cut) = (before.last().filter(whole), rest.first().filter(whole));
        let (Some(before), Some(cut)) = (before, cut) else {
            return Vec::new();
        };
        let memory = |map: &Map| {
            let entries = map.entries.iter();
            let memory = entries.filter(|entry| entry.kind == FirmwareType::Ram);
            let mut memory: Vec<_> = memory.map(|entry| (entry.range, entry.line)).collect();
            memory.sort_unstable_by_key(|(range, _)| (range.start(), range.end()));
            memory
        };
        let (pieces, mut out) = (memory(cut), Vec::new());
        let mut end = PhysAddr::ZERO;
        for (range, _) in memory(before) {
            // of ranges that overlap, which no firmware gives, the first: pieces are seen once
            if range.start() < end {
                continue;
            }
            end = range.end();
            let first = pieces.partition_point(|(piece, _)| piece.start() < range.start());
            let last = pieces.partition_point(|(piece, _)| piece.start() < range.end());
            let touching =
                |one: &(PhysRange, u64), next: &(PhysRange, u64)| one.0.end() == next.0.start();
            for pieces in pieces[first..last].chunk_by(touching) {
                let sizes = pieces.iter().enumerate();
                let largest = sizes.max_by_key(|(_, (piece, _))| piece.len());
                let plain = largest.map_or(0, |(at, _)| at % 2);
                let others = pieces.iter().skip(1 - plain).step_by(2);
                out.extend(others.filter(|_| pieces.len() > 1));
            }
        }
        out
    }

    /// The changes between line `from` and the filling of memblock.
    pub fn edits_between(&self, from: u64) -> impl Iterator<Item = &Edit> {
        let to = self.filled_by.unwrap_or(u64::MAX);
        self.edits
            .iter()
            .filter(move |edit| edit.line > from && edit.line < to)
    }

    /// What stopped to be memory after memblock was filled.
    pub fn taken_out(&self) -> impl Iterator<Item = PhysRange> {
        let from = self.filled_by.unwrap_or(u64::MAX);
        let lost = move |edit: &&Edit| {
            let ram = edit.from == FirmwareType::Ram && edit.to != Some(FirmwareType::Ram);
            ram && edit.line > from
        };
        self.edits.iter().filter(lost).map(|edit| edit.range)
    }

    /// Takes one message; `true` if it was about the map.
    pub(super) fn feed(&mut self, line: u64, text: &str, problems: &mut Problems) -> bool {
        let plain = text.strip_prefix("e820: ").unwrap_or(text);
        if plain.ends_with("physical RAM map:") {
            self.heading = Some(line);
            return true;
        }
        if let Some((rest, name)) = PREFIXES
            .iter()
            .find_map(|(prefix, name)| Some((text.strip_prefix(prefix)?, *name)))
        {
            return self.entry(line, text, rest, name, problems);
        }
        if text.starts_with("e820") {
            return self.edit(line, text, problems);
        }
        if let Some((_, after)) = text.split_once("max_arch_pfn = ") {
            self.max_arch_pfn = Scan(after).hex();
        }
        if text.starts_with("efi: ")
            && let Some((_, after)) = text.split_once("Unaccepted=")
        {
            self.unaccepted_table = Scan(after).hex();
        }
        if self.filled_by.is_none() && shows_memblock_filled(text) {
            self.filled_by = Some(line);
        }
        false
    }

    fn entry(
        &mut self,
        line: u64,
        text: &str,
        rest: &str,
        name: MapName,
        problems: &mut Problems,
    ) -> bool {
        if rest.trim_start().starts_with("[gap") {
            return true;
        }
        // `user:` begins other messages as well.
        let looks = rest.trim_start();
        if !looks.starts_with("[mem") && !looks.starts_with(|c: char| c.is_ascii_hexdigit()) {
            return false;
        }
        let heading = self.heading.take();
        let fresh = heading.is_some() || self.maps.last().is_none_or(|map| map.name != name);
        if fresh {
            self.maps.push(Map {
                name,
                heading,
                entries: Vec::new(),
                broken: false,
            });
        }
        let Some(map) = self.maps.last_mut() else {
            return true;
        };
        let mut scan = Scan(rest);
        let range = scan.mem().or_else(|| scan.exclusive("- "));
        match (range, FirmwareType::from_name(scan.0)) {
            (Some(range), Some(kind)) => map.entries.push(MapEntry { line, range, kind }),
            _ => {
                map.broken = true;
                problems.note(line, text, "`[mem 0xSTART-0xEND] TYPE` of a firmware map");
            }
        }
        true
    }

    fn edit(&mut self, line: u64, text: &str, problems: &mut Problems) -> bool {
        let mut scan = Scan(text);
        let edit = if scan.eat("e820: update [mem").is_some() {
            change(Scan(&text["e820: update ".len()..]), false)
        } else if scan.eat("e820: remove [mem").is_some() {
            removal(Scan(&text["e820: remove ".len()..]), false)
        } else if scan.eat("e820 update range:").is_some() {
            change(scan, true)
        } else if scan.eat("e820 remove range:").is_some() {
            removal(scan, true)
        } else {
            return false;
        };
        match edit {
            Some((range, from, to)) if self.edits.len() < MAX_EDITS => self.edits.push(Edit {
                line,
                range,
                from,
                to,
            }),
            _ => problems.note(
                line,
                text,
                "one of a few hundred changes to the firmware's map",
            ),
        }
        true
    }
}

type Change = (PhysRange, FirmwareType, Option<FirmwareType>);

fn span(scan: &mut Scan<'_>, old: bool) -> Option<PhysRange> {
    if old {
        scan.exclusive("- ")
    } else {
        scan.mem()
    }
}

fn change(mut scan: Scan<'_>, old: bool) -> Option<Change> {
    let range = span(&mut scan, old)?;
    let (from, to) = scan.0.split_once("==>")?;
    Some((
        range,
        FirmwareType::from_name(from)?,
        Some(FirmwareType::from_name(to)?),
    ))
}

fn removal(mut scan: Scan<'_>, old: bool) -> Option<Change> {
    let range = span(&mut scan, old)?;
    Some((range, FirmwareType::from_name(scan.0)?, None))
}

/// Messages that come after memblock took the map over, whatever the version.
fn shows_memblock_filled(text: &str) -> bool {
    text.contains("e820__memblock_setup")
        || [
            "MEMBLOCK configuration:",
            "Using GB pages for direct mapping",
            "RAMDISK:",
            "init_memory_mapping:",
            "initial memory mapped",
            "Base memory trampoline",
            "esrt: Reserving ESRT space",
            "ACPI: Early table checksum",
            "ACPI: RSDP",
        ]
        .iter()
        .any(|marker| text.starts_with(marker))
}
