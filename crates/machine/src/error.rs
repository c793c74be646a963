//! What can go wrong between a file and a layout.

use std::io;
use std::path::PathBuf;

use memblock::{NodeId, PhysRange};

use crate::location::Location;

/// A file that cannot be read as what it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("{}: {source}; check the path and its permissions", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No line of it is one that a kernel prints about memory at boot.
    #[error(
        "{file}: not a kernel boot log: none of {lines} lines speaks of firmware memory, memblock, \
         zones or nodes{}; try the output of `dmesg` or `journalctl -k -b` taken right after boot",
        .first.as_ref().map(|first| format!(" ({first})")).unwrap_or_default()
    )]
    NotABootLog {
        /// The file.
        file: String,
        /// How many lines were looked at.
        lines: u64,
        /// Its first line with anything on it.
        first: Option<Location>,
    },
}

/// Something that a boot log should have and this one has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Missing {
    /// `Linux version …`.
    Banner,
    /// `Command line: …`.
    CommandLine,
    /// The firmware's memory map, from its first line on.
    FirmwareMap,
    /// A whole `MEMBLOCK configuration:` dump.
    MemblockDump,
    /// `Zone ranges:`.
    ZoneRanges,
    /// `Early memory node ranges`.
    EarlyRanges,
    /// `Memory: …K/…K available`.
    MemoryLine,
}

impl Missing {
    /// The line that is not there, in the kernel's words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Banner => "`Linux version`",
            Self::CommandLine => "`Command line:`",
            Self::FirmwareMap => "the firmware's memory map",
            Self::MemblockDump => "`MEMBLOCK configuration:`",
            Self::ZoneRanges => "`Zone ranges:`",
            Self::EarlyRanges => "`Early memory node ranges`",
            Self::MemoryLine => "`Memory:`",
        }
    }
}

/// A kind of machine that is recognised and not modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotModelled {
    /// A 32-bit kernel, with or without a HighMem zone.
    Bits32,
    /// A paravirtualised Xen guest, whose frames are not the machine's.
    XenPv,
    /// An architecture without a profile.
    Architecture(crate::Architecture),
    /// A kernel that prints page frames where later ones print addresses.
    PfnFormat,
}

impl std::fmt::Display for NotModelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bits32 => f.write_str("a 32-bit kernel"),
            Self::XenPv => f.write_str("a Xen PV domain"),
            Self::Architecture(arch) => write!(f, "the architecture {arch}"),
            Self::PfnFormat => f.write_str("a kernel before 3.5 (zones in page frames)"),
        }
    }
}

/// A layout that cannot be made, or makes no sense.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The log does not say what memory there is.
    #[error(
        "{file}: cannot tell the memory of this machine: {} missing; known is {}; \
         the kernel's log buffer may have overrun: boot with `log_buf_len=8M` or take the log from the journal",
        list(missing, "nothing"),
        list(known, "nothing")
    )]
    FrontLost {
        /// The file.
        file: String,
        /// What is not there.
        missing: Vec<Missing>,
        /// What is there.
        known: Vec<Missing>,
    },
    /// A machine that is not modelled.
    #[error(
        "{file}: {what} is not modelled ({at}); what is are 64-bit kernels from 3.5 on of amd64, \
         arm64, riscv64, ppc64 and s390x"
    )]
    NotModelled {
        /// The file.
        file: String,
        /// What it is.
        what: NotModelled,
        /// The line that shows it.
        at: Location,
    },
    /// Two nodes claim the same memory.
    #[error(
        "{file}: nodes {first} and {second} both claim {range} ({first_at}; {second_at}); one \
         address has one node: correct the ranges"
    )]
    OverlappingNodes {
        /// The file.
        file: String,
        /// The one.
        first: NodeId,
        /// The other.
        second: NodeId,
        /// What both claim.
        range: PhysRange,
        /// Where the one claims it.
        first_at: Box<Location>,
        /// Where the other claims it.
        second_at: Box<Location>,
    },
    /// A list that the kernel keeps in order is not.
    #[error(
        "{file}: {second}: lies below the end of the range before it ({first}); a memblock dump is in \
         ascending order: was the log edited? Take it again"
    )]
    OutOfOrder {
        /// The file.
        file: String,
        /// The range before.
        first: Box<Location>,
        /// The range that lies below its end.
        second: Box<Location>,
    },
    /// memblock refuses what the layout says.
    #[error("{file}: memblock refuses {at}: {source}; correct or leave out that line")]
    Memblock {
        /// The file.
        file: String,
        /// What it refuses.
        at: Location,
        /// Why.
        source: memblock::MemblockError,
    },
    /// No memory is left.
    #[error("{file}: no usable memory in it; a machine needs at least one whole page")]
    NoMemory {
        /// The file.
        file: String,
    },
}

fn list(items: &[Missing], none: &str) -> String {
    if items.is_empty() {
        return none.to_owned();
    }
    let names: Vec<_> = items.iter().map(|item| item.name()).collect();
    names.join(", ")
}
