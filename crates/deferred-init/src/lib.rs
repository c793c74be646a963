//! Initialises a memory map in parallel: the right worker on the right CPU writes the right section.
//!
//! # Features
//! - `trace` (default): layers that make figures and timelines of spans
//! - `hwloc`: topology from libhwloc instead of sysfs
//!
//! The way of the data: a [`Topology`] says what the host has.

#![forbid(unsafe_code)]

mod cpuset;
pub mod engine;
pub mod plan;
pub mod policy;
pub mod schedule;
mod sync;
pub mod topology;
#[cfg(feature = "trace")]
pub mod trace;
pub mod workers;

pub use cpuset::{CpuSet, CpuSetError};
pub use topology::Topology;
