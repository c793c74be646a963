//! Memory minus reservations.

use core::iter::FusedIterator;

use super::Filter;
use crate::list::{Downward, Upward};
use crate::{MemblockFlags, NodeMark, PhysAddr, PhysRange, Region, RegionList};

/// Free ranges from the lowest up; see [`Memblock::free_ranges`](crate::Memblock::free_ranges).
#[derive(Clone, Debug)]
pub struct FreeRanges<'a> {
    memory: Upward<'a>,
    reserved: Upward<'a>,
    /// Flags and node of the region of memory under way.
    kind: (MemblockFlags, NodeMark),
    /// What is left of it; empty before the first.
    start: PhysAddr,
    end: PhysAddr,
    filter: Filter,
}

/// A part of a region of memory of this kind.
#[inline]
fn part((flags, node): (MemblockFlags, NodeMark), start: PhysAddr, end: PhysAddr) -> Region {
    Region::new(PhysRange::new(start, end), node, flags)
}

impl<'a> FreeRanges<'a> {
    pub(super) fn new(memory: &'a RegionList, reserved: &'a RegionList, filter: Filter) -> Self {
        Self {
            memory: Upward::first(memory),
            reserved: Upward::first(reserved),
            kind: (MemblockFlags::empty(), NodeMark::UNSET),
            start: PhysAddr::ZERO,
            end: PhysAddr::ZERO,
            filter,
        }
    }
}

impl Iterator for FreeRanges<'_> {
    type Item = Region;

    #[inline]
    fn next(&mut self) -> Option<Region> {
        loop {
            while self.start < self.end {
                let (start, end) = (self.start, self.end);
                let Some(reserved) = self.reserved.region().filter(|it| it.start() < end) else {
                    self.start = end;
                    return Some(part(self.kind, start, end));
                };
                let (low, high) = (reserved.start(), reserved.end());
                if high < end {
                    self.reserved.forward();
                }
                self.start = start.max(high);
                if start < low {
                    return Some(part(self.kind, start, low));
                }
            }
            let memory = self.memory.region()?;
            self.memory.forward();
            if !self.filter.skips(memory) {
                self.kind = (memory.flags(), memory.node_mark());
                self.start = memory.start();
                self.end = memory.end();
            }
        }
    }
}

impl FusedIterator for FreeRanges<'_> {}

/// Free ranges from the highest down; see
/// [`Memblock::free_ranges_rev`](crate::Memblock::free_ranges_rev).
#[derive(Clone, Debug)]
pub struct FreeRangesRev<'a> {
    memory: Downward<'a>,
    reserved: Downward<'a>,
    /// Flags and node of the region of memory under way.
    kind: (MemblockFlags, NodeMark),
    /// What is left of it; empty before the first.
    start: PhysAddr,
    end: PhysAddr,
    filter: Filter,
}

impl<'a> FreeRangesRev<'a> {
    pub(super) fn new(memory: &'a RegionList, reserved: &'a RegionList, filter: Filter) -> Self {
        Self {
            memory: Downward::last(memory),
            reserved: Downward::last(reserved),
            kind: (MemblockFlags::empty(), NodeMark::UNSET),
            start: PhysAddr::ZERO,
            end: PhysAddr::ZERO,
            filter,
        }
    }
}

impl Iterator for FreeRangesRev<'_> {
    type Item = Region;

    #[inline]
    fn next(&mut self) -> Option<Region> {
        loop {
            while self.start < self.end {
                let (start, end) = (self.start, self.end);
                let Some(reserved) = self.reserved.region().filter(|it| it.end() > start) else {
                    self.end = start;
                    return Some(part(self.kind, start, end));
                };
                let (low, high) = (reserved.start(), reserved.end());
                if low > start {
                    self.reserved.backward();
                }
                self.end = end.min(low);
                if high < end {
                    return Some(part(self.kind, high, end));
                }
            }
            let memory = self.memory.region()?;
            self.memory.backward();
            if !self.filter.skips(memory) {
                self.kind = (memory.flags(), memory.node_mark());
                self.start = memory.start();
                self.end = memory.end();
            }
        }
    }
}

impl FusedIterator for FreeRangesRev<'_> {}
