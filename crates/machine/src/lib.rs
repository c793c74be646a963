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
    MemorySource, NodeRange, NodeSource, PageSizeSource, ProfileChoice, Provenance, ReservedSource,
};
pub use location::{Location, Problem, Problems};
pub use meminfo::Meminfo;
pub use release::{Architecture, KernelRelease};
pub use sysfs::{MemoryBlocks, SysfsError};
pub use toml::TomlError;
pub use zoneinfo::{ZoneInfo, ZoneStat};
