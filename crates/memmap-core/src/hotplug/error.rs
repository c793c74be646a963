//! Why a memory block does not change its state.

use memblock::{Pfn, PfnRange};

use crate::map::HotplugError;

/// Why a memory block does not change its state. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// The frames are not whole memory blocks.
    #[error("frames {}-{} are not whole memory blocks of {pages} pages", pfns.start(), pfns.end())]
    Misaligned {
        /// The frames.
        pfns: PfnRange,
        /// Pages of a memory block.
        pages: u64,
    },
    /// There is no such block.
    #[error("there is no memory block {0}")]
    Absent(u64),
    /// The block is online already.
    #[error("memory block {0} is online already")]
    Online(u64),
    /// The block is not online.
    #[error("memory block {0} is not online")]
    Offline(u64),
    /// Some of the block is in use, and stays where it is.
    #[error("memory block {block} cannot go offline: {pfn} is in use")]
    Busy {
        /// The block.
        block: u64,
        /// The first page in use.
        pfn: Pfn,
    },
    /// The block has a hole or is in several zones.
    #[error("memory block {block} cannot go offline: {pfn} is a hole, or of another zone")]
    Mixed {
        /// The block.
        block: u64,
        /// The first such page.
        pfn: Pfn,
    },
    /// Blocks that were there at boot stay.
    #[error("memory block {0} was there at boot: it can go offline, but not be removed")]
    Boot(u64),
    /// The memory map does not fit the block that it would be put in.
    #[error(
        "the memory map of a block of {block} pages takes {memmap} pages, which are not whole \
         pageblocks of {pageblock}; it cannot lie in the block itself"
    )]
    MemmapOnMemory {
        /// Pages of a block.
        block: u64,
        /// Pages that its struct pages take.
        memmap: u64,
        /// Pages of a pageblock.
        pageblock: u64,
    },
    /// The lower half refused.
    #[error(transparent)]
    Section(#[from] HotplugError),
}
