//! Linux memory maps, built in user space.
//!
//! From a kernel's [`Profile`] and the memory of a machine (a `Memblock`) this crate derives
//! what Linux would have built at boot: zones, nodes, sections, holes, and the struct pages.
//!
//! Features: `std` (default) for the mapped backing and run-time detection; without it the crate
//! needs `alloc` only.

#![cfg_attr(not(any(feature = "std", test)), no_std)]

extern crate alloc;

mod backing;
pub mod buddy;
mod flags;
mod geometry;
pub mod hotplug;
mod image;
pub mod limit;
mod map;
mod page;
mod profile;
mod report;
pub mod writers;

pub use backing::{
    AddressSpace, BackingKind, BackingOptions, HugePages, MapError, POISON, SectionState,
};
pub use flags::{DecodedFlags, Field, FlagsInputs, FlagsLayout, PageFlag, PageFlagNumbers};
pub use geometry::{
    BootOptions, CoreSize, Geometry, GeometryError, Hole, MemoryRange, Node, OptionError, PageKind,
    PageRun, Phase, SectionNr, SectionRun, Sections, Zone, ZoneLimits,
};
pub use image::{MAX_WORDS, PageImage, StructPageSize};
pub use map::{
    CheckReport, Claim, ClaimError, HotplugError, MemoryMap, ReadError, SectionFlags, Violation,
};
pub use page::StructPage;
pub use profile::{
    Arch, Arm64DmaLimit, Behaviours, ByteOrder, DeferOrder, DeferredJobs, DeferredThreads,
    DeviceMemmapCount, DevicePageblocks, EarlySectionDedup, FallbackRule, FirstTails, FlagNumbers,
    FlagOptions, FlatmemTail, GrowEnd, HoleTest, HotAdded, KasanTags, KernelConfig, KernelVersion,
    LifoBatch, ManagedEstimate, MemoryModel, MovableStart, NodeSpanned, PageTypeWord,
    ParseKernelVersionError, Profile, ProfileError, ReservedNode, TailTwo, ZoneIndex, ZoneKind,
    ZoneSet,
};
pub use report::{BootLine, ZoneFigures, ZoneInfoDump, formulas};
