//! Device memory that cannot have struct pages.

use memblock::{Pfn, PfnRange, PhysRange};
use memmap_core::MemoryModel;

use crate::AltmapFull;

/// Why a [`DevPagemap`](crate::DevPagemap) was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The kernel has no zone for devices.
    #[error("the kernel is built without a zone for devices: add ZoneKind::Device to its zones")]
    NoDeviceZone,
    /// The kernel's memory model has no device memory.
    #[error("device memory needs the memory model SparseVmemmap, and this kernel has {model:?}")]
    MemoryModel {
        /// What it has.
        model: MemoryModel,
    },
    /// Only 64-bit kernels have device memory.
    #[error("device memory needs a 64-bit kernel, and this one has words of {word_bits} bits")]
    WordBits {
        /// Bits of the flags word.
        word_bits: u32,
    },
    /// The description has no range.
    #[error("the device has no memory: give it at least one range")]
    NoRange,
    /// A range does not begin and end where a sub-section does.
    #[error("{range} does not begin and end at multiples of {align:#x} bytes: align it")]
    Unaligned {
        /// The range.
        range: PhysRange,
        /// Bytes of a sub-section, or of a page where that is larger.
        align: u64,
    },
    /// A range is empty.
    #[error("the range at {} is empty: leave it out", range.start())]
    Empty {
        /// The range.
        range: PhysRange,
    },
    /// Two ranges of one device share memory.
    #[error("{first} and {second} of one device overlap")]
    Overlap {
        /// The lower range.
        first: PhysRange,
        /// The upper range.
        second: PhysRange,
    },
    /// A range lies beyond what the kernel can address.
    #[error("{range} ends beyond the {max_physmem_bits} bits of a physical address")]
    BeyondMemory {
        /// The range.
        range: PhysRange,
        /// Bits of a physical address.
        max_physmem_bits: u32,
    },
    /// Compounds larger than the kernel's largest folio.
    #[error("compounds of order {order} are larger than the largest folio, of order {max}")]
    OrderTooLarge {
        /// `vmemmap_shift`.
        order: u32,
        /// The largest.
        max: u32,
    },
    /// The device pages do not begin or end where a compound does.
    ///
    /// Linux does not look, and lets the last compound run past the end.
    #[error(
        "device pages {pfns} do not begin and end at multiples of {pages:#x} pages, the size of \
         a compound of order {order}: align the range (or the altmap's end) or lower vmemmap_shift"
    )]
    CompoundUnaligned {
        /// The device pages, without the altmap's.
        pfns: PfnRange,
        /// `vmemmap_shift`.
        order: u32,
        /// Pages of a compound.
        pages: u64,
    },
    /// An altmap serves one range only.
    #[error("a device with {ranges} ranges cannot keep its memory map in one of them")]
    AltmapWithRanges {
        /// How many ranges.
        ranges: usize,
    },
    /// The altmap leaves no page to its device, or ends before it.
    #[error(
        "the altmap from pfn {base} to {end} does not end inside its device's frames {pfns}: the \
         device's own pages begin where it ends"
    )]
    AltmapOutside {
        /// The altmap's first page.
        base: Pfn,
        /// One past its last page.
        end: Pfn,
        /// The device's frames.
        pfns: PfnRange,
    },
    /// The altmap is too small for the memory map of its device.
    #[error("the altmap cannot hold the memory map of its device: {0}")]
    AltmapFull(#[from] AltmapFull),
}
