//! Struct pages that nobody wrote yet.
//!
//! The struct pages of single device pages are all equal, so one block of them, sealed, stands for
//! the whole range: laid over it again and again as private mappings, it is read at once, and a
//! page of memory (some 64 struct pages) is copied when one of them is first written.
//!
//! # Implementation
//! The larger the block, the fewer mappings: the system limits their number, and makes and drops
//! each one separately. The block grows with the range until the copies are few, and further where
//! the process has few mappings left. What a block costs is its own memory, once a device.

use memmap_core::PageImage;
use sys::{Block, Mapping, MappingCount, SysError, mapping_count, page_size};

use core::ops::Range;

/// Why a device was not laid out as copies of a block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CowRefusal {
    /// Heads and tails differ.
    #[error("compounds are not all alike: only single pages can be copies of one block")]
    Compounds,
    /// Struct pages hold their own address or that of their frame.
    #[error("these struct pages differ from frame to frame")]
    NotAlike,
    /// There is no whole page of equal struct pages.
    #[error("{bytes} bytes of struct pages hold no whole block: the range is too short")]
    TooShort {
        /// Bytes of struct pages.
        bytes: usize,
    },
    /// Even the largest block needs more mappings than the process may have.
    #[error(
        "{needed} mappings are needed and {left} are left: raise vm.max_map_count or bind fewer \
         devices this way"
    )]
    TooManyMappings {
        /// Mappings that the largest block needs.
        needed: usize,
        /// Mappings that may be made.
        left: usize,
    },
    /// The system refused.
    #[error("the system refused: {0}")]
    System(#[from] SysError),
}

/// The smallest block, in bytes, where the range is not shorter.
const SMALLEST: usize = 2 << 20;
/// The largest block, in bytes.
const LARGEST: usize = 256 << 20;
/// A range has at most so many copies where the block may still grow: a mapping costs a microsecond
/// or two, and 2 MiB of block some hundred.
const ENOUGH: usize = 1024;
/// Of the mappings that are left, a device takes one part in this many.
const SHARE: usize = 4;

/// A block that stands for equal struct pages.
#[derive(Debug)]
pub(crate) struct CowBlock {
    image: PageImage,
    block: Block,
}

impl CowBlock {
    /// Whether the block holds such pages, so many bytes of them.
    pub(crate) fn is(&self, image: &PageImage, bytes: usize) -> bool {
        self.image == *image && self.block.len() == bytes
    }

    /// Fills a block of `bytes` bytes.
    pub(crate) fn new(image: PageImage, bytes: usize) -> Result<Self, SysError> {
        let mut words = vec![0; bytes / 8];
        for page in words.chunks_exact_mut(image.size().words()) {
            page.copy_from_slice(image.words());
        }
        let block = Block::new(&words)?;
        Ok(Self { image, block })
    }

    pub(crate) fn len(&self) -> usize {
        self.block.len()
    }

    /// Lays the block over `range` of `mapping`, or puts fresh memory there where that fails.
    pub(crate) fn cover(&self, mapping: &mut Mapping, range: Range<usize>) -> Result<(), SysError> {
        let covered = mapping.cover(range.clone(), &self.block);
        if covered.is_err() {
            mapping.uncover(range)?;
        }
        covered
    }
}

/// The part of `bytes`, offsets into a mapping whose struct pages begin at 0, that whole copies of
/// a unit can cover: it begins and ends where both a page of memory and a struct page do.
pub(crate) fn coverable(bytes: &Range<usize>, image: &PageImage) -> Option<(Range<usize>, usize)> {
    let unit = least_common_multiple(page_size(), image.size().bytes());
    let start = bytes.start.checked_next_multiple_of(unit)?;
    let end = bytes.end / unit * unit;
    (start < end).then_some((start..end, unit))
}

/// The length of the block for `bytes` bytes, a multiple of `unit`.
pub(crate) fn block_bytes(
    bytes: usize,
    unit: usize,
    mappings: MappingCount,
) -> Result<usize, CowRefusal> {
    let mut block = SMALLEST.next_multiple_of(unit).min(bytes);
    let budget = mappings.left() / SHARE;
    while bytes.div_ceil(block) > ENOUGH.min(budget) && block < LARGEST.min(bytes) {
        block = block.saturating_mul(2).min(bytes);
    }
    let needed = bytes.div_ceil(block);
    if needed > budget {
        let left = mappings.left();
        return Err(CowRefusal::TooManyMappings { needed, left });
    }
    Ok(block)
}

/// As [`block_bytes`], of this process.
pub(crate) fn block_bytes_here(bytes: usize, unit: usize) -> Result<usize, CowRefusal> {
    block_bytes(bytes, unit, mapping_count())
}

pub(crate) const fn least_common_multiple(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        let rest = x % y;
        x = y;
        y = rest;
    }
    a / x * b
}

#[cfg(test)]
mod tests {
    use super::*;
    use memmap_core::StructPageSize;

    const fn left(left: usize) -> MappingCount {
        MappingCount {
            used: 100,
            limit: 100 + left,
        }
    }

    #[test]
    fn the_block_grows_with_the_range_and_with_the_shortage_of_mappings() {
        let block = |bytes, mappings| block_bytes(bytes, 4096, left(mappings)).unwrap();
        assert_eq!(block(1 << 20, 65_000), 1 << 20);
        assert_eq!(block(64 << 20, 65_000), 2 << 20);
        assert_eq!(block(1600 << 20, 65_000), 2 << 20);
        assert_eq!(block(16_000 << 20, 65_000), 16 << 20);
        assert_eq!(block(1600 << 20, 40), 256 << 20);
        assert_eq!(
            block_bytes(1600 << 20, 4096, left(24)),
            Err(CowRefusal::TooManyMappings {
                needed: 7,
                left: 24
            })
        );
        assert!(block_bytes(1 << 20, 4096, left(0)).is_err());
    }

    #[test]
    fn a_block_is_whole_pages_and_whole_struct_pages() {
        let image = PageImage::constant(StructPageSize::B56, [1; 12]);
        let (range, unit) = coverable(&(100..100_000), &image).unwrap();
        assert_eq!((unit, range), (28_672, 28_672..86_016));
        assert_eq!(block_bytes(57_344, unit, left(1000)).unwrap(), 57_344);
        assert!(
            block_bytes(1 << 30, unit, left(1000))
                .unwrap()
                .is_multiple_of(unit)
        );
        assert_eq!(coverable(&(1..28_672), &image), None);
    }
}
