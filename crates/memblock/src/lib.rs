//! Linux's boot-time memory region allocator, as a value.
//!
//! This crate also holds the vocabulary of the whole workspace: [`PhysAddr`], [`Pfn`],
//! half-open [`PhysRange`] and [`PfnRange`], [`NodeId`].

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod addr;
mod node;
mod range;

pub use addr::{Pfn, PhysAddr};
pub use node::NodeId;
pub use range::{PfnRange, PhysRange};
