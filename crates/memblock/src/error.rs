//! What can go wrong with an operation.

use thiserror::Error;

use crate::{MemblockFlags, PhysRange, Which};

/// Why an operation on the arrays was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MemblockError {
    /// The array is full and may not grow yet.
    #[error(
        "the {which} array holds {capacity} regions and may not grow yet: call allow_resize() \
         first, or use an unlimited Growth"
    )]
    ArrayFull {
        /// The array.
        which: Which,
        /// How many regions it holds.
        capacity: usize,
        /// Whether a kernel of this behaviour would have panicked here.
        kernel_panics: bool,
    },
    /// The array has to grow and no free memory can hold the larger one.
    #[error(
        "no free memory for the {which} array to grow from {capacity} to {wanted} regions: add \
         memory before reserving so much"
    )]
    NoRoomForArray {
        /// The array.
        which: Which,
        /// How many regions it holds.
        capacity: usize,
        /// How many it would hold.
        wanted: usize,
    },
    /// This kernel does not know the flag.
    #[error("flag {flags} is not known to a kernel of this behaviour")]
    UnknownFlag {
        /// The bits that are not known.
        flags: MemblockFlags,
    },
    /// There is no physmem array.
    #[error("this machine keeps no physmem array: call enable_physmem() first (s390)")]
    NoPhysmem {
        /// The range that was to be changed.
        range: PhysRange,
    },
}
