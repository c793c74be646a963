//! A place in a list that moves both ways.
//!
//! The merging iterators hold one cursor a list; moving inside a chunk is one index step.

use alloc::vec::Vec;

use super::{Pos, RegionList};
use crate::{PhysAddr, Region};

/// A place between two regions of a list, with the chunk around it at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    list: &'a RegionList,
    /// The regions of the chunk under the cursor; empty past either end.
    regions: &'a [Region],
    chunk: usize,
    index: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor on the lowest region.
    pub(crate) fn first(list: &'a RegionList) -> Self {
        Self::on(list, Pos { chunk: 0, index: 0 })
    }

    /// A cursor on the highest region.
    pub(crate) fn last(list: &'a RegionList) -> Self {
        let end = Pos {
            chunk: list.chunks.len(),
            index: 0,
        };
        match list.before(end) {
            Some(pos) => Self::on(list, pos),
            None => Self::on(list, end),
        }
    }

    /// A cursor on the lowest region that ends above `address`.
    pub(crate) fn seek(list: &'a RegionList, address: PhysAddr) -> Self {
        Self::on(list, list.seek(address))
    }

    fn on(list: &'a RegionList, pos: Pos) -> Self {
        Self {
            list,
            regions: list.chunks.get(pos.chunk).map_or(&[], Vec::as_slice),
            chunk: pos.chunk,
            index: pos.index,
        }
    }

    /// The region under the cursor.
    #[inline]
    pub(crate) fn region(&self) -> Option<&'a Region> {
        self.regions.get(self.index)
    }

    /// Moves to the next region.
    #[inline]
    pub(crate) fn forward(&mut self) {
        self.index += 1;
        if self.index >= self.regions.len() {
            *self = Self::next_chunk(self.list, self.chunk);
        }
    }

    // by value, so that the cursor of a loop can live in registers
    #[cold]
    fn next_chunk(list: &'a RegionList, chunk: usize) -> Self {
        let chunk = (chunk + 1).min(list.chunks.len());
        Self::on(list, Pos { chunk, index: 0 })
    }

    /// Moves to the region before; below the lowest there is none, and there is no way back.
    #[inline]
    pub(crate) fn backward(&mut self) {
        if self.index > 0 {
            self.index -= 1;
        } else {
            *self = Self::previous_chunk(self.list, self.chunk);
        }
    }

    #[cold]
    fn previous_chunk(list: &'a RegionList, chunk: usize) -> Self {
        match list.before(Pos { chunk, index: 0 }) {
            Some(pos) => Self::on(list, pos),
            None => Self {
                list,
                regions: &[],
                chunk: 0,
                index: 0,
            },
        }
    }
}
