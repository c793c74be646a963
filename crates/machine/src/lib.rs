//! What a machine says of its memory, read into one value.
//!
//! A kernel boot log, a few files of `/proc` and `/sys`, or a line typed by hand goes in; a
//! [`MachineLayout`] comes out: ranges of memory with their nodes and flags, what was reserved,
//! the kernel's version and architecture, and every figure that the kernel printed about its own
//! memory map ([`PrintedFigures`]), so that our figures can be laid beside its own.
//!
//! What was taken as *input* is always said ([`Provenance`]): a figure that was an input proves
//! nothing when it is found again in the output.
//!
//! # From a log to a geometry
//! ```
//! use machine::{BootLog, MachineLayout};
//! use memmap_core::{Geometry, ZoneKind};
//!
//! let log = "\
//! [    0.000000] Linux version 6.12.0-amd64 (x@y) (gcc 13) #1 SMP PREEMPT_DYNAMIC x
//! [    0.000000] Command line: quiet
//! [    0.000000] BIOS-provided physical RAM map:
//! [    0.000000] BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable
//! [    0.000000] BIOS-e820: [mem 0x0000000000100000-0x000000001fffffff] usable
//! ";
//! let layout = MachineLayout::from_log(&BootLog::read("dmesg.txt", log.as_bytes())?)?;
//! let geometry = Geometry::new(
//!     &layout.profile(),
//!     &layout.memblock()?,
//!     &layout.boot_options(),
//! )?;
//! let kinds: Vec<ZoneKind> = geometry.populated_zones().map(|(_, zone)| zone.kind).collect();
//! assert_eq!(kinds, [ZoneKind::Dma, ZoneKind::Dma32]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing in a file can panic this crate, and memory use is bounded by a constant times the
//! size of the input.

#![forbid(unsafe_code)]

pub mod bootlog;
mod capture;
pub mod check;
mod combine;
mod debugfs;
mod error;
pub mod figures;
pub mod host;
mod iomem;
pub mod layout;
mod location;
mod meminfo;
mod release;
pub mod size;
pub mod synthetic;
mod sysfs;
pub mod text;
mod toml;
mod zoneinfo;

pub use bootlog::BootLog;
pub use capture::Capture;
pub use debugfs::MemblockArray;
pub use error::{LayoutError, Missing, NotModelled, ReadError};
pub use figures::{Figure, FigureKind, PrintedFigures};
pub use memmap_core::ZoneKind;

pub use combine::CombineError;
pub use host::HostError;
pub use iomem::{Iomem, Resource};
pub use layout::{
    Contradiction, DeviceRange, Disagreement, MachineError, MachineLayout, MemoryRange,
    MemorySource, NodeRange, NodeSource, Note, PageSizeSource, ProfileChoice, Provenance,
    ReservedSource,
};
pub use location::{Location, Problem, Problems};
pub use meminfo::Meminfo;
pub use release::{Architecture, KernelRelease};
pub use sysfs::{MemoryBlocks, Oddity, SysfsError};
pub use toml::TomlError;
pub use zoneinfo::{ZoneInfo, ZoneStat};
