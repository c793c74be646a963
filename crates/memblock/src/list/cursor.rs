//! Places in a list that move one way.
//!
//! The merging iterators hold one cursor a list. A cursor keeps what is left of its chunk as a
//! slice, so that a step is an addition and a comparison.

use alloc::vec::Vec;

use super::{Pos, RegionList};
use crate::{PhysAddr, Region};

/// A region of a list, on the way up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upward<'a> {
    list: &'a RegionList,
    chunk: usize,
    /// From the region under the cursor to the end of its chunk; empty past the end of the list.
    ahead: &'a [Region],
}

impl<'a> Upward<'a> {
    /// On the lowest region.
    pub(crate) fn first(list: &'a RegionList) -> Self {
        Self::at_chunk(list, 0)
    }

    /// On the lowest region that ends above `address`.
    pub(crate) fn seek(list: &'a RegionList, address: PhysAddr) -> Self {
        let Pos { chunk, index } = list.seek(address);
        let regions = list.chunks.get(chunk).map_or(&[][..], Vec::as_slice);
        Self {
            list,
            chunk,
            ahead: regions.get(index..).unwrap_or(&[]),
        }
    }

    // by value, so that the cursor of a loop can live in registers
    #[cold]
    fn at_chunk(list: &'a RegionList, chunk: usize) -> Self {
        Self {
            list,
            chunk,
            ahead: list.chunks.get(chunk).map_or(&[], Vec::as_slice),
        }
    }

    /// The region under the cursor.
    #[inline]
    pub(crate) fn region(&self) -> Option<&'a Region> {
        self.ahead.first()
    }

    /// Moves to the next region.
    #[inline]
    pub(crate) fn forward(&mut self) {
        match self.ahead {
            [_, ahead @ ..] if !ahead.is_empty() => self.ahead = ahead,
            [] => {}
            _ => *self = Self::at_chunk(self.list, self.chunk + 1),
        }
    }
}

/// A region of a list, on the way down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Downward<'a> {
    list: &'a RegionList,
    chunk: usize,
    /// From the start of the chunk to the region under the cursor; empty below the list.
    behind: &'a [Region],
}

impl<'a> Downward<'a> {
    /// On the highest region.
    pub(crate) fn last(list: &'a RegionList) -> Self {
        Self::below_chunk(list, list.chunks.len())
    }

    #[cold]
    fn below_chunk(list: &'a RegionList, chunk: usize) -> Self {
        let chunk = chunk.wrapping_sub(1);
        Self {
            list,
            chunk,
            behind: list.chunks.get(chunk).map_or(&[], Vec::as_slice),
        }
    }

    /// The region under the cursor.
    #[inline]
    pub(crate) fn region(&self) -> Option<&'a Region> {
        self.behind.last()
    }

    /// Moves to the region below.
    #[inline]
    pub(crate) fn backward(&mut self) {
        match self.behind {
            [behind @ .., _] if !behind.is_empty() => self.behind = behind,
            [] => {}
            _ => *self = Self::below_chunk(self.list, self.chunk),
        }
    }
}
