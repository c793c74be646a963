//! Memory hotplug: memory blocks that are added, onlined, offlined and removed.
//!
//! [`Hotplug`] is the upper half; the lower half, sections and zone spans, is on
//! [`MemoryMap`](crate::MemoryMap) (`activate`, `move_to_zone` and their opposites). What zones
//! show before and after each step was compared with a running 6.12 guest that had memory
//! plugged in and taken away.
//!
//! # Differences from Linux
//! Hotplug stops the simulated CPUs: it takes the allocator exclusively. Pages in use are not
//! migrated, so a block is offlined only where all of it is free.

mod blocks;
mod error;

pub use blocks::{BlockState, Hotplug, HotplugOptions, OnlineTo};
pub use error::BlockError;
