//! What was taken from where, and what disagrees.

use std::fmt;

use memblock::{NodeId, PhysRange};

use crate::bootlog::OtherBoots;
use crate::error::Missing;
use crate::size::ByteSize;
use crate::sysfs::Oddity;

/// Other boots that are told one by one.
const MOST_SHOWN: usize = 8;

/// What the ranges of memory were taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemorySource {
    /// Nothing yet.
    #[default]
    None,
    /// The firmware's memory map and the changes that the kernel made to it.
    FirmwareMap,
    /// UEFI's own memory map, in want of the kernel's.
    EfiMap,
    /// A `MEMBLOCK configuration:` dump.
    MemblockDump,
    /// `memblock_add` lines.
    MemblockCalls,
    /// `Early memory node ranges`, in want of anything else.
    EarlyRanges,
    /// `/proc/iomem`.
    Iomem,
    /// `/sys/devices/system/memory`.
    Sysfs,
    /// `/proc/zoneinfo`.
    Zoneinfo,
    /// `/proc/meminfo`: it says how much, never where.
    Meminfo,
    /// `/sys/kernel/debug/memblock`.
    Debugfs,
    /// A size that someone typed.
    Synthetic,
    /// A layout file.
    Toml,
}

/// What assigns memory to nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeSource {
    /// Nothing: all memory is node 0's.
    #[default]
    None,
    /// The firmware's affinity table.
    Affinity,
    /// Nodes that the kernel emulated (`numa=fake=`).
    Emulated,
    /// One node that the kernel made up.
    Single,
    /// A `MEMBLOCK configuration:` dump.
    MemblockDump,
    /// `Early memory node ranges`.
    EarlyRanges,
    /// `/sys/devices/system/node`.
    Sysfs,
    /// `/proc/zoneinfo`.
    Zoneinfo,
    /// `/sys/kernel/debug/memblock`.
    Debugfs,
    /// Someone typed it.
    Synthetic,
    /// A layout file.
    Toml,
}

/// What reservations were taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReservedSource {
    /// Nothing is known.
    #[default]
    None,
    /// A dump and every debug line behind it: what was reserved at hand-over.
    MemblockDump,
    /// A dump whose reservations are cut short: some of what was reserved.
    CutDump,
    /// Single lines that report a reservation: some of what was reserved.
    SingleLines,
    /// `/proc/iomem`: what is reserved now.
    Iomem,
    /// `/sys/kernel/debug/memblock`: what is reserved now.
    Debugfs,
    /// A layout file.
    Toml,
}

/// What the page size was taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PageSizeSource {
    /// The most usual one of the architecture.
    #[default]
    Usual,
    /// The architecture has only one.
    Architecture,
    /// The kernel's release names it.
    Release,
    /// Size and order of a hash table, on this line.
    HashTable(u64),
    /// The running system.
    Host,
    /// Someone typed it.
    Given,
}

macro_rules! words {
    ($type:ident { $($variant:pat => $text:literal,)* }) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $($variant => f.write_str($text),)* }
            }
        }
    };
}

words!(MemorySource {
    Self::None => "nothing",
    Self::FirmwareMap => "firmware map",
    Self::EfiMap => "UEFI map",
    Self::MemblockDump => "memblock dump",
    Self::MemblockCalls => "memblock_add lines",
    Self::EarlyRanges => "early node ranges",
    Self::Iomem => "/proc/iomem",
    Self::Sysfs => "/sys/devices/system/memory",
    Self::Zoneinfo => "/proc/zoneinfo",
    Self::Meminfo => "/proc/meminfo",
    Self::Debugfs => "memblock in debugfs",
    Self::Synthetic => "given sizes",
    Self::Toml => "layout file",
});

words!(NodeSource {
    Self::None => "nothing",
    Self::Affinity => "SRAT",
    Self::Emulated => "emulated nodes",
    Self::Single => "one made-up node",
    Self::MemblockDump => "memblock dump",
    Self::EarlyRanges => "early node ranges",
    Self::Sysfs => "/sys/devices/system/node",
    Self::Zoneinfo => "/proc/zoneinfo",
    Self::Debugfs => "memblock in debugfs",
    Self::Synthetic => "given sizes",
    Self::Toml => "layout file",
});

words!(ReservedSource {
    Self::None => "nothing",
    Self::MemblockDump => "memblock dump",
    Self::CutDump => "memblock dump that is cut short",
    Self::SingleLines => "single lines",
    Self::Iomem => "/proc/iomem",
    Self::Debugfs => "memblock in debugfs",
    Self::Toml => "layout file",
});

impl fmt::Display for PageSizeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usual => f.write_str("the usual one"),
            Self::Architecture => f.write_str("the only one"),
            Self::Release => f.write_str("named by the release"),
            Self::HashTable(line) => write!(f, "hash table on line {line}"),
            Self::Host => f.write_str("this host"),
            Self::Given => f.write_str("given"),
        }
    }
}

/// Two sources that do not agree; the first one was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contradiction {
    /// What was taken.
    pub taken: MemorySource,
    /// The line of `taken` that says it, or the first line of that source.
    pub taken_line: u64,
    /// What says otherwise.
    pub other: MemorySource,
    /// The line of `other`, or the first line of that source.
    pub other_line: u64,
    /// What they disagree about.
    pub about: Disagreement,
}

/// What two sources disagree about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disagreement {
    /// Whether there is memory, or whose it is.
    Memory {
        /// Where.
        range: PhysRange,
        /// What the one that was taken says: `None` no memory, else the node.
        taken: Option<Option<NodeId>>,
        /// What the other says.
        other: Option<Option<NodeId>>,
    },
    /// How much memory there is, in pages.
    Pages {
        /// On which node; `None` for all together.
        node: Option<NodeId>,
        /// What the one that was taken says.
        taken: u64,
        /// What the other says.
        other: u64,
    },
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let says = |what: Option<Option<NodeId>>| match what {
            None => "no memory".to_owned(),
            Some(None) => "memory without a node".to_owned(),
            Some(Some(node)) => format!("memory of node {node}"),
        };
        let (whereof, taken, other) = match &self.about {
            Disagreement::Memory {
                range,
                taken,
                other,
            } => (range.to_string(), says(*taken), says(*other)),
            Disagreement::Pages { node, taken, other } => (
                node.map_or("all memory".to_owned(), |node| format!("node {node}")),
                format!("{taken} pages"),
                format!("{other} pages"),
            ),
        };
        write!(
            f,
            "{whereof}: {} (line {}) has {taken}, {} (line {}) has {other}; the former is taken",
            self.taken, self.taken_line, self.other, self.other_line,
        )
    }
}

/// What was done about an input that is not plain: what was left out of it, and what was assumed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The log has more boots than one.
    OtherBoots {
        /// First and last line of the boot that was read.
        taken: (u64, u64),
        /// The others.
        others: OtherBoots,
    },
    /// Memory lies in blocks that are offline, and was left out.
    Offline {
        /// How much.
        bytes: u64,
    },
    /// Memory lies in no block that is a node's, and was given to a neighbour's node.
    NoBlock {
        /// How much in all.
        bytes: u64,
        /// The first of it.
        first: PhysRange,
    },
    /// An entry of sysfs is not as it should be.
    Sysfs(Oddity),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherBoots { taken, others } => {
                let count = others.count();
                let mut shown: Vec<_> = others.lines().iter().take(MOST_SHOWN).collect();
                write!(
                    f,
                    "the log begins anew {count} time{}: lines {} to {} were read, the last of \
                     its most complete boots, and not ",
                    if count == 1 { "" } else { "s" },
                    taken.0,
                    taken.1
                )?;
                for (index, (first, last)) in shown.drain(..).enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}{first} to {last}")?;
                }
                match count.saturating_sub(MOST_SHOWN as u64) {
                    0 => {}
                    more => write!(f, " and {more} more")?,
                }
                f.write_str("; cut the log to read another")
            }
            Self::Offline { bytes } => write!(
                f,
                "{} in blocks that are offline are left out, and with them the figures of the boot \
                 log, which are of all memory",
                ByteSize(*bytes)
            ),
            Self::NoBlock { bytes, first } => write!(
                f,
                "{} in no block of a node (from {first} on) are given to the node beside",
                ByteSize(*bytes)
            ),
            Self::Sysfs(oddity) => oddity.fmt(f),
        }
    }
}

/// What a layout was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provenance {
    /// The ranges of memory.
    pub memory: MemorySource,
    /// Their first and last line.
    pub memory_lines: Option<(u64, u64)>,
    /// Their nodes.
    pub nodes: NodeSource,
    /// Reservations.
    pub reserved: ReservedSource,
    /// Page size.
    pub page_size: PageSizeSource,
    /// Whether nodes without memory are known only from the lines that say so.
    pub memoryless_from_initmem: bool,
    /// How many lines among those of the memory could not be read: that much may be missing.
    pub unreadable: u64,
    /// Parts of a boot log that should be there and are not: it was cut, or lines were lost.
    pub missing: Vec<Missing>,
    /// How many messages the kernel says that it dropped.
    pub dropped: u64,
    /// Sources that were compared with what was taken, and in how many places they differ.
    pub compared: Vec<(MemorySource, usize)>,
    /// What disagrees.
    pub contradictions: Vec<Contradiction>,
    /// What was left out of the input, and what was assumed.
    pub notes: Vec<Note>,
}

impl Provenance {
    /// Whether `Early memory node ranges` were an input.
    pub fn uses_early_ranges(&self) -> bool {
        self.memory == MemorySource::EarlyRanges || self.nodes == NodeSource::EarlyRanges
    }
}

impl Provenance {
    /// Notes that `source` was compared, with what was found.
    pub(crate) fn contradict(&mut self, source: MemorySource, found: Vec<Contradiction>) {
        self.compared.push((source, found.len()));
        self.contradictions.extend(found);
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory from {}", self.memory)?;
        if let Some((first, last)) = self.memory_lines {
            write!(f, " (lines {first} to {last})")?;
        }
        write!(
            f,
            ", nodes from {}, reservations from {}, page size: {}",
            self.nodes, self.reserved, self.page_size
        )?;
        for (source, differences) in &self.compared {
            match differences {
                0 => write!(f, "; {source} agrees")?,
                n => write!(f, "; {source} differs in {n} places")?,
            }
        }
        if !self.missing.is_empty() {
            let names: Vec<_> = self.missing.iter().map(|part| part.name()).collect();
            write!(f, "; not in the log: {}", names.join(", "))?;
        }
        if self.dropped > 0 {
            write!(f, "; the kernel dropped {} messages", self.dropped)?;
        }
        match self.unreadable {
            0 => {}
            1 => f.write_str("; one line of the memory could not be read: some may be missing")?,
            n => write!(
                f,
                "; {n} lines of the memory could not be read: some may be missing"
            )?,
        }
        for note in &self.notes {
            write!(f, "; {note}")?;
        }
        Ok(())
    }
}
