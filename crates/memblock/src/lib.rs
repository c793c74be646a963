//! Linux's boot-time memory region allocator, as a value.
//!
//! This crate also holds the vocabulary of the whole workspace: [`PhysAddr`], [`Pfn`],
//! half-open [`PhysRange`] and [`PfnRange`], [`NodeId`].

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
mod list;
mod node;
mod range;
mod region;
pub mod replay;
pub mod text;

pub use addr::{Pfn, PhysAddr};
pub use behaviour::{
    Behaviour, DebugfsStyle, EstimatedFree, ReserveLine, ReserveMem, ReservedNode,
};
pub use block::{AllocError, AllocRequest, Growth, Memblock, NodeChoice, Settings, Which};
pub use error::MemblockError;
pub use flags::MemblockFlags;
pub use hand_over::{FreeBlock, LateFree, ReservedRun};
pub use iter::{
    FreeRanges, FreeRangesRev, PfnRuns, ValidPfns, for_each_valid_pfn, next_valid_pfn,
    present_sections,
};
pub use list::{Iter, Overlapping, RegionList};
pub use node::NodeId;
pub use range::{PfnRange, PhysRange};
pub use region::{NodeMark, Region};

// the property test once more, over lists of many small chunks
#[cfg(test)]
#[path = "../tests/oracle.rs"]
mod oracle;
