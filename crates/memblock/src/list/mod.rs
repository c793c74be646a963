//! A sorted list of disjoint regions.
//!
//! ```text
//!  firsts   [ 0x1000        | 0x8_0000_0000      | 0x20_0000_0000 ]   one start a chunk
//!  chunks   [ r r r r r r . | r r r r r r r r r  | r r . . . . .  ]   at most CHUNK regions each
//! ```
//!
//! # Implementation
//! Linux keeps one flat array, walks it to find a place and moves what lies behind. Here the
//! array is cut into chunks: a search looks through the starts of the chunks and then through one
//! chunk, and an insertion moves at most one chunk. Small lists are one chunk, that is a flat
//! array. Chunks are never empty, and `firsts[i]` is always the start of `chunks[i][0]`.

mod cursor;
mod edit;
mod iter;

use alloc::vec::Vec;
use core::fmt;

use crate::{PhysAddr, PhysRange, Region};

pub(crate) use cursor::{Downward, Upward};
pub use iter::{Iter, Overlapping};

/// Regions in a chunk at most: 6 KiB, so that a move inside stays in the first cache. The crate's
/// own tests cut finer, so that small lists have many chunks.
const CHUNK: usize = if cfg!(test) { 4 } else { 256 };

/// Regions of one kind (memory, reserved, physmem), sorted by address and disjoint.
#[derive(Clone, Default)]
#[doc(alias = "memblock_type")]
pub struct RegionList {
    firsts: Vec<u64>,
    chunks: Vec<Vec<Region>>,
    len: usize,
    /// The kernel's own sum, which trimming leaves stale.
    total: u64,
    /// Whether the list was emptied by a removal, after which the dummy region of old kernels
    /// looks different.
    emptied: bool,
}

/// A place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pos {
    chunk: usize,
    index: usize,
}

impl RegionList {
    pub(crate) const fn new() -> Self {
        Self {
            firsts: Vec::new(),
            chunks: Vec::new(),
            len: 0,
            total: 0,
            emptied: false,
        }
    }

    /// How many regions there are.
    #[doc(alias = "cnt")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The regions in ascending order; the iterator can also be driven from its end.
    #[doc(alias = "for_each_mem_region")]
    #[doc(alias = "for_each_reserved_mem_region")]
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(self)
    }

    /// The lowest region.
    pub fn first(&self) -> Option<Region> {
        self.chunks.first()?.first().copied()
    }

    /// The highest region.
    pub fn last(&self) -> Option<Region> {
        self.chunks.last()?.last().copied()
    }

    /// The region number `index`, in ascending order.
    pub fn get(&self, index: usize) -> Option<Region> {
        let mut left = index;
        for chunk in &self.chunks {
            if left < chunk.len() {
                return Some(chunk[left]);
            }
            left -= chunk.len();
        }
        None
    }

    /// The size that the kernel's own counter shows, in bytes.
    ///
    /// # Differences from Linux
    /// None, and that is the trap: trimming does not adjust the counter, so it may be higher than
    /// [`covered`](Self::covered) afterwards.
    #[doc(alias = "memblock_phys_mem_size")]
    #[doc(alias = "memblock_reserved_size")]
    pub fn total_size(&self) -> u64 {
        self.total
    }

    /// The sum of the regions' sizes, in bytes.
    pub fn covered(&self) -> u64 {
        self.iter().map(|region| region.range().len()).sum()
    }

    /// The region that holds `address`.
    #[doc(alias = "memblock_search")]
    #[inline]
    pub fn at(&self, address: PhysAddr) -> Option<Region> {
        let region = self.last_from(address)?;
        (address < region.end()).then_some(region)
    }

    /// The lowest region that ends above `address`: the one that holds it, or the next.
    #[inline]
    pub fn at_or_after(&self, address: PhysAddr) -> Option<Region> {
        self.region(self.seek(address))
    }

    /// `address` where a region holds it, else the start of the next region above it.
    #[inline]
    pub fn next_covered(&self, address: PhysAddr) -> Option<PhysAddr> {
        let Some(chunk) = self.chunk_from(address) else {
            return self.firsts.first().copied().map(PhysAddr::new);
        };
        let regions = &self.chunks[chunk];
        let above = starts_at_or_below(regions, address);
        let covered = regions
            .get(above.wrapping_sub(1))
            .is_some_and(|region| address < region.end());
        let next = match regions.get(above) {
            Some(region) => region.start(),
            None => match self.firsts.get(chunk + 1) {
                Some(&first) => PhysAddr::new(first),
                None => return covered.then_some(address),
            },
        };
        // memory or hole, nobody can foretell
        Some(core::hint::select_unpredictable(covered, address, next))
    }

    /// The regions that share an address with `range`, in ascending order.
    pub fn overlapping(&self, range: PhysRange) -> Overlapping<'_> {
        Overlapping::new(self, range)
    }

    /// Whether `range` shares an address with a region. An empty range shares none.
    #[doc(alias = "memblock_overlaps_region")]
    pub fn overlaps(&self, range: PhysRange) -> bool {
        self.overlapping(range).next().is_some()
    }

    /// Whether one single region holds all of `range`. An empty range is held where its start is.
    #[doc(alias = "memblock_is_region_memory")]
    pub fn contains_range(&self, range: PhysRange) -> bool {
        self.at(range.start())
            .is_some_and(|region| range.end() <= region.end())
    }

    /// Whether the list was emptied by a removal.
    pub(crate) fn was_emptied(&self) -> bool {
        self.emptied
    }

    /// The last region that starts at or below `address`.
    #[inline]
    fn last_from(&self, address: PhysAddr) -> Option<Region> {
        let chunk = self.chunk_from(address)?;
        let regions = &self.chunks[chunk];
        let index = starts_at_or_below(regions, address);
        // the chunk's first region starts at or below the address, so the count is not zero
        regions.get(index.wrapping_sub(1)).copied()
    }

    /// The last chunk whose first region starts at or below `address`.
    #[inline]
    fn chunk_from(&self, address: PhysAddr) -> Option<usize> {
        if self.firsts.len() == 1 {
            return (self.firsts[0] <= address.get()).then_some(0);
        }
        self.firsts
            .partition_point(|&first| first <= address.get())
            .checked_sub(1)
    }

    /// The place of the lowest region that ends above `address`; the end where there is none.
    #[inline]
    fn seek(&self, address: PhysAddr) -> Pos {
        let Some(chunk) = self.chunk_from(address) else {
            return Pos { chunk: 0, index: 0 };
        };
        let regions = &self.chunks[chunk];
        let above = starts_at_or_below(regions, address);
        let index = match regions.get(above.wrapping_sub(1)) {
            Some(region) if address < region.end() => above - 1,
            _ => above,
        };
        self.settle(Pos { chunk, index })
    }

    /// `pos`, or the start of the next chunk where `pos` is one past a chunk's end.
    #[inline]
    fn settle(&self, pos: Pos) -> Pos {
        match self.chunks.get(pos.chunk) {
            Some(regions) if pos.index >= regions.len() => Pos {
                chunk: pos.chunk + 1,
                index: 0,
            },
            _ => pos,
        }
    }

    #[inline]
    fn region(&self, pos: Pos) -> Option<Region> {
        self.chunks.get(pos.chunk)?.get(pos.index).copied()
    }

    #[inline]
    fn before(&self, pos: Pos) -> Option<Pos> {
        if pos.index > 0 {
            return Some(Pos {
                index: pos.index - 1,
                ..pos
            });
        }
        let chunk = pos.chunk.checked_sub(1)?;
        Some(Pos {
            chunk,
            index: self.chunks[chunk].len() - 1,
        })
    }

    #[inline]
    fn after(&self, pos: Pos) -> Pos {
        self.settle(Pos {
            index: pos.index + 1,
            ..pos
        })
    }
}

/// How many of `regions` start at or below `address`.
#[inline]
fn starts_at_or_below(regions: &[Region], address: PhysAddr) -> usize {
    regions.partition_point(|region| region.start() <= address)
}

/// Equal content, however it is cut into chunks.
impl PartialEq for RegionList {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.total == other.total && self.iter().eq(other.iter())
    }
}

impl Eq for RegionList {}

impl fmt::Debug for RegionList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &'a RegionList {
    type Item = Region;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The regions and the kernel's counter.
#[cfg(feature = "serde")]
impl serde::Serialize for RegionList {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let regions: Vec<Region> = self.iter().collect();
        (self.total, self.emptied, regions).serialize(serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for RegionList {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (total, emptied, regions): (u64, bool, Vec<Region>) =
            serde::Deserialize::deserialize(deserializer)?;
        let mut list = Self::new();
        let mut end = PhysAddr::ZERO;
        for region in regions {
            if region.range().is_empty() || region.start() < end || !list.insert(&region) {
                return Err(serde::de::Error::custom(
                    "regions are not empty, sorted and disjoint",
                ));
            }
            end = region.end();
        }
        list.total = total;
        list.emptied = emptied;
        Ok(list)
    }
}
