//! Linux's boot-time memory region allocator, as a value.
//!
//! Before a kernel has a page allocator it keeps two lists: what is memory, and what of it is
//! reserved. [`Memblock`] is those lists with every operation that Linux has on them, for Linux
//! 6.1, 6.12, 6.18 and 7.3, and for kernels of your own: what differs is data ([`Behaviour`]).
//! It never touches the memory that it describes, so a program can hold as many machines as it
//! likes.
//!
//! - [`Memblock`]: add, remove, reserve, free, nodes, flags, limits, questions
//! - [`AllocRequest`]: every allocation call
//! - [`Growth`]: arrays that end and grow, as they do in a kernel
//! - [`Memblock::free_ranges`] and its neighbours: lazy walks, up and down
//! - [`next_valid_pfn`], [`for_each_valid_pfn`]: skipping frames, the old way and the safe one
//! - [`Memblock::hand_over`]: what is reserved and what is free in the end
//! - [`text`]: dumps, debug lines and debugfs files, read and written
//! - [`replay`]: boot logs played back
//! - [`NamedReservations`], [`KhoScratch`]: `reserve_mem=` and kexec hand-over
//!
//! The crate also holds the vocabulary of the whole workspace: [`PhysAddr`], [`Pfn`], half-open
//! [`PhysRange`] and [`PfnRange`], [`NodeId`].
//!
//! # A machine from switch-on to hand-over
//!
//! ```
//! use memblock::{
//!     AllocRequest, Behaviour, Memblock, MemblockFlags, NodeId, Pfn, PhysAddr, PhysRange, Which,
//! };
//!
//! const MIB: u64 = 1 << 20;
//! let range = |start, size| PhysRange::from_size(PhysAddr::new(start), size);
//!
//! // the firmware's map: 1 MiB with a hole in it, then 2 GiB
//! let mut memblock = Memblock::new(Behaviour::V6_18);
//! memblock.add(range(0x1000, 0x9ec00))?;
//! memblock.add(range(MIB, 2047 * MIB))?;
//! memblock.trim_memory(4096);
//!
//! // where the kernel lies, and what it must not lose
//! memblock.reserve_kern(range(16 * MIB, 48 * MIB))?;
//! memblock.reserve(range(0, MIB))?;
//!
//! // the firmware's nodes: half and half
//! let (low, high) = (NodeId::new(0), NodeId::new(1));
//! memblock.set_node(range(0, 1024 * MIB), Which::Memory, low)?;
//! memblock.set_node(range(1024 * MIB, 1024 * MIB), Which::Memory, high)?;
//!
//! // something on each node, from the top
//! for node in [low, high] {
//!     memblock.alloc(AllocRequest::new(2 * MIB, 2 * MIB).node(node))?;
//! }
//!
//! // whole frames of memory, and those that are free
//! let pages: u64 = memblock.mem_pfn_ranges(12, None).map(|(pfns, _, _)| pfns.len()).sum();
//! let free: Vec<PhysRange> = memblock
//!     .free_ranges(Some(high), MemblockFlags::empty())
//!     .map(|region| region.range())
//!     .collect();
//! assert_eq!(pages, 0x9e + 2047 * 256);
//! assert_eq!(free, [range(1024 * MIB, 1022 * MIB)]);
//! assert_eq!(memblock.next_valid_pfn(Pfn::new(0x9e), Pfn::MAX, 12), Pfn::new(0x100));
//!
//! // the kernel's own dump of it
//! print!("{}", memblock.dump());
//!
//! // hand-over: frames to mark reserved, blocks to free
//! let reserved = memblock.hand_over(12)?;
//! assert_eq!(reserved.last().map(|run| run.node), Some(Some(high)));
//! let freed: u64 = memblock.free_blocks(12, 10, None).map(|block| 1 << block.order).sum();
//! assert_eq!(freed, (2047 - 48 - 4) * 256);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Events
//! Every operation emits a `tracing` event at level TRACE with a field `op`, its kernel's name.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate self as memblock;

mod addr;
mod behaviour;
mod block;
mod error;
mod flags;
mod hand_over;
mod iter;
mod kho;
mod list;
mod node;
mod range;
mod region;
pub mod replay;
mod reserve_mem;
mod size;
pub mod text;

pub use addr::{Pfn, PhysAddr};
pub use behaviour::{
    Behaviour, DebugfsStyle, EstimatedFree, KhoSizing, ReserveLine, ReserveMem, ReservedNode,
};
pub use block::{AllocError, AllocRequest, Growth, Memblock, NodeChoice, Settings, Which};
pub use error::MemblockError;
pub use flags::MemblockFlags;
pub use hand_over::{FreeBlock, LateFree, ReservedRun};
pub use iter::{
    FreeRanges, FreeRangesRev, PfnRuns, ValidPfns, for_each_valid_pfn, next_valid_pfn,
    present_sections,
};
pub use kho::{KhoError, KhoScratch};
pub use list::{Iter, Overlapping, RegionList};
pub use node::NodeId;
pub use range::{PfnRange, PhysRange};
pub use region::{NodeMark, Region};
pub use reserve_mem::{NamedReservation, NamedReservations, ReserveMemError};

// the property test once more, over lists of many small chunks
#[cfg(test)]
#[path = "../tests/oracle.rs"]
mod oracle;
