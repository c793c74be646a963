//! Memory minus reservations.

use core::iter::FusedIterator;

use super::Filter;
use crate::list::Cursor;
use crate::{MemblockFlags, NodeMark, PhysAddr, PhysRange, Region, RegionList};

/// Free ranges from the lowest up; see [`Memblock::free_ranges`](crate::Memblock::free_ranges).
#[derive(Clone, Debug)]
pub struct FreeRanges<'a> {
    memory: Cursor<'a>,
    reserved: Cursor<'a>,
    /// The region of memory under way.
    region: Region,
    /// What is left of it; empty before the first.
    start: PhysAddr,
    end: PhysAddr,
    filter: Filter,
}

const NOTHING: Region = Region::new(
    PhysRange::new(PhysAddr::ZERO, PhysAddr::ZERO),
    NodeMark::UNSET,
    MemblockFlags::empty(),
);

impl<'a> FreeRanges<'a> {
    pub(super) fn new(memory: &'a RegionList, reserved: &'a RegionList, filter: Filter) -> Self {
        Self {
            memory: Cursor::first(memory),
            reserved: Cursor::first(reserved),
            region: NOTHING,
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
                    return Some(self.region.with_range(PhysRange::new(start, end)));
                };
                let (low, high) = (reserved.start(), reserved.end());
                if high < end {
                    self.reserved.forward();
                }
                self.start = start.max(high);
                if start < low {
                    return Some(self.region.with_range(PhysRange::new(start, low)));
                }
            }
            let memory = *self.memory.region()?;
            self.memory.forward();
            if !self.filter.skips(memory) {
                self.region = memory;
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
    memory: Cursor<'a>,
    reserved: Cursor<'a>,
    /// The region of memory under way.
    region: Region,
    /// What is left of it; empty before the first.
    start: PhysAddr,
    end: PhysAddr,
    filter: Filter,
}

impl<'a> FreeRangesRev<'a> {
    pub(super) fn new(memory: &'a RegionList, reserved: &'a RegionList, filter: Filter) -> Self {
        Self {
            memory: Cursor::last(memory),
            reserved: Cursor::last(reserved),
            region: NOTHING,
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
                    return Some(self.region.with_range(PhysRange::new(start, end)));
                };
                let (low, high) = (reserved.start(), reserved.end());
                if low > start {
                    self.reserved.backward();
                }
                self.end = end.min(low);
                if high < end {
                    return Some(self.region.with_range(PhysRange::new(high, end)));
                }
            }
            let memory = *self.memory.region()?;
            self.memory.backward();
            if !self.filter.skips(memory) {
                self.region = memory;
                self.start = memory.start();
                self.end = memory.end();
            }
        }
    }
}

impl FusedIterator for FreeRangesRev<'_> {}
