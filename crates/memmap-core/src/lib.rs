//! Linux memory maps, built in user space.
//!
//! From a kernel's [`Profile`] and the memory of a machine (a `Memblock`) this crate derives
//! what Linux would have built at boot: zones, nodes, sections, holes, and the struct pages.
//!
//! # From memory to an allocated page
//! A [`Geometry`] is plain data: what lies where, with no memory behind it. A [`MemoryMap`] has the
//! memory; whoever holds a [`Claim`] on a section writes it, by any of the [`writers`]. The
//! [`buddy`] allocator then takes the section over.
//!
//! ```
//! use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
//! use memmap_core::buddy::{
//!     Allocator, HandOver, ListHeads, MigrateType, NodeDistances, Request,
//! };
//! use memmap_core::{
//!     BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile, ZoneKind, writers,
//! };
//!
//! let mut memory = Memblock::new(Behaviour::V7_3);
//! let range = PhysRange::from_size(PhysAddr::new(0), 256 << 20);
//! memory.add_node(range, NodeId::new(0), MemblockFlags::empty())?;
//!
//! let profile = Profile::amd64(KernelVersion::V7_3);
//! let geometry = Geometry::new(&profile, &memory, &BootOptions::default())?;
//! let (node, zone) = geometry.populated_zones().last().expect("it has memory");
//! assert_eq!((node.present, zone.kind), (65_536, ZoneKind::Dma32));
//!
//! let map = MemoryMap::new(geometry.clone(), BackingOptions::default())?;
//! let heads = ListHeads::default();
//! let allocator = Allocator::new(map, &geometry, NodeDistances::default(), heads);
//! let plan = HandOver::new(&geometry);
//! for section in geometry.sections().iter() {
//!     let mut claim = allocator.pages().claim(section).expect("nobody else claims");
//!     let free = claim.write_and_hand_over(&writers::Stream::DETECT, &plan);
//!     claim.publish();
//!     allocator.join(&plan, &free);
//! }
//!
//! let pfn = allocator.alloc_pages(Request {
//!     order: 3,
//!     node: NodeId::new(0),
//!     zone: zone.index,
//!     migrate: MigrateType::Movable,
//! })?;
//! assert_eq!(allocator.pages().read(pfn)?.refcount(), 1);
//! allocator.free_pages(pfn, 3)?;
//! assert_eq!(allocator.check(), []);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
    AddressSpace, BackingChoice, BackingKind, BackingOptions, HugePages, MapError, NoAddressRange,
    POISON, SectionState,
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
