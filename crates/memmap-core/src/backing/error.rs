//! Why no memory map could be set up.

use crate::image::StructPageSize;

/// A memory map for which there is no memory, or no room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The struct pages need more than there is.
    #[error(
        "the struct pages need {needed} bytes, but only {available} may be taken ({bound}): a \
         machine of up to {fits} pages fits"
    )]
    TooLittleMemory {
        /// Bytes that the present sections need.
        needed: u64,
        /// Bytes that may be taken.
        available: u64,
        /// Pages of a machine whose struct pages would fit.
        fits: u64,
        /// What bounds it.
        bound: alloc::string::String,
    },
    /// No address range holds the span from the first to the last section.
    #[error(
        "from the first to the last section the struct pages span {span} bytes, and an address \
         range can have {limit}: use the heap backing, which needs {present} bytes"
    )]
    SpanTooLarge {
        /// Bytes from the first to the last present section.
        span: u64,
        /// Bytes that one reservation can have.
        limit: u64,
        /// Bytes of the present sections alone.
        present: u64,
    },
    /// The allocator gave up.
    #[error("the allocator refused a section of {section} bytes after {taken} of {needed} bytes")]
    Refused {
        /// Bytes of one section's struct pages.
        section: u64,
        /// Bytes that it had given before.
        taken: u64,
        /// Bytes that the present sections need.
        needed: u64,
    },
    /// The system refused a call.
    #[cfg(feature = "std")]
    #[error("the struct pages ({needed} bytes in a span of {span}) could not be mapped: {source}")]
    System {
        /// Bytes that the present sections need.
        needed: u64,
        /// Bytes of the reservation.
        span: u64,
        /// What it said.
        source: sys::SysError,
    },
    /// A memory model whose struct pages are not kept by section. Such a machine's free pages can
    /// be handed over all the same: to an [`Allocator`](crate::buddy::Allocator) over a simulator's
    /// own [`StructPages`](crate::buddy::StructPages), in pieces of a section's size.
    #[error(
        "the flat memory model has figures, but no sections to write: use a sparse one, or an \
         allocator over struct pages of your own"
    )]
    NotSparse,
    /// A struct page of a size that none has; a built profile has none such.
    #[error("{bytes} bytes is no size of a struct page")]
    StructPageSize {
        /// The size.
        bytes: u32,
    },
}

/// How many pages' struct pages of `size` fit `available` bytes.
pub(super) fn fits(available: u64, size: StructPageSize) -> u64 {
    available / size.bytes() as u64
}
