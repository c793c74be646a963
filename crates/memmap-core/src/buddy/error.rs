//! What the allocator refuses.

use memblock::{NodeId, Pfn};

use crate::profile::ZoneIndex;

use super::MigrateType;

/// Why no block was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocError {
    /// The zones of the list have no block of that size.
    #[error(
        "no free block of order {order} for {migrate} pages in {zone} and below of any node; free \
         something, or ask for less"
    )]
    NoMemory {
        /// Log2 of the pages asked for.
        order: u8,
        /// Their type.
        migrate: MigrateType,
        /// The highest zone that was allowed.
        zone: ZoneIndex,
    },
    /// No block is that large.
    #[error("order {order} is above the largest block's, {max}")]
    OrderTooLarge {
        /// Log2 of the pages asked for.
        order: u8,
        /// The largest order.
        max: u8,
    },
    /// Pages cannot be allocated as that type.
    #[error("pages cannot be allocated as {0}; only as unmovable, movable or reclaimable")]
    Type(MigrateType),
    /// The node is not online.
    #[error("{0:?} is not online")]
    Node(NodeId),
}

/// Why a block was not freed. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FreeError {
    /// The page has no initialised struct page.
    #[error("{pfn:?} has no initialised struct page")]
    NoPage {
        /// The page.
        pfn: Pfn,
    },
    /// No block is that large.
    #[error("order {order} is above the largest block's, {max}")]
    OrderTooLarge {
        /// Log2 of the pages given.
        order: u8,
        /// The largest order.
        max: u8,
    },
    /// A block starts at a multiple of its length.
    #[error("{pfn:?} is not aligned to a block of order {order}")]
    Misaligned {
        /// The first page given.
        pfn: Pfn,
        /// Log2 of the pages given.
        order: u8,
    },
    /// The page is free, or inside a block that was allocated as one.
    #[error(
        "{pfn:?} does not begin a block in use: it was freed before, or belongs to a larger one"
    )]
    NotInUse {
        /// The page.
        pfn: Pfn,
    },
    /// The block reaches into one that somebody else uses, or that is free.
    #[error("{pfn:?} inside the block begins another one: it was allocated with a smaller order")]
    Overlaps {
        /// The page inside the block.
        pfn: Pfn,
    },
    /// The page is reserved, which the allocator never gave out.
    #[error("{pfn:?} is reserved; give it to the allocator by `free_reserved` first")]
    Reserved {
        /// The page.
        pfn: Pfn,
    },
    /// The page is not reserved, so it cannot be given back as such.
    #[error("{pfn:?} is not reserved")]
    NotReserved {
        /// The page.
        pfn: Pfn,
    },
    /// No zone has that page.
    #[error("{pfn:?} says that it is in {zone} of {node:?}, which the allocator does not know")]
    NoZone {
        /// The page.
        pfn: Pfn,
        /// Its node.
        node: NodeId,
        /// Its zone.
        zone: ZoneIndex,
    },
}
