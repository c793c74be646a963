//! Memory minus reservations.

use core::iter::FusedIterator;

use super::Filter;
use crate::list::Cursor;
use crate::{PhysAddr, PhysRange, Region, RegionList};

/// Free ranges from the lowest up; see [`Memblock::free_ranges`](crate::Memblock::free_ranges).
#[derive(Clone, Debug)]
pub struct FreeRanges<'a> {
    memory: Cursor<'a>,
    reserved: Cursor<'a>,
    /// Everything below has been looked at.
    from: PhysAddr,
    filter: Filter,
}

impl<'a> FreeRanges<'a> {
    pub(super) fn new(memory: &'a RegionList, reserved: &'a RegionList, filter: Filter) -> Self {
        Self {
            memory: Cursor::first(memory),
            reserved: Cursor::first(reserved),
            from: PhysAddr::ZERO,
            filter,
        }
    }
}

impl Iterator for FreeRanges<'_> {
    type Item = Region;

    #[inline]
    fn next(&mut self) -> Option<Region> {
        loop {
            let memory = self.memory.region()?;
            let mut from = self.from.max(memory.start());
            if from >= memory.end() || self.filter.skips(memory) {
                self.memory.forward();
                continue;
            }
            let mut end = memory.end();
            while let Some(reserved) = self.reserved.region() {
                if reserved.start() > from {
                    end = end.min(reserved.start());
                    break;
                }
                from = from.max(reserved.end());
                if from >= end {
                    break;
                }
                self.reserved.forward();
            }
            self.from = from;
            if from >= end {
                self.memory.forward();
                continue;
            }
            self.from = end;
            if end == memory.end() {
                self.memory.forward();
            }
            return Some(memory.with_range(PhysRange::new(from, end)));
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
    /// Everything at or above has been looked at.
    to: PhysAddr,
    filter: Filter,
}

impl<'a> FreeRangesRev<'a> {
    pub(super) fn new(memory: &'a RegionList, reserved: &'a RegionList, filter: Filter) -> Self {
        Self {
            memory: Cursor::last(memory),
            reserved: Cursor::last(reserved),
            to: PhysAddr::MAX,
            filter,
        }
    }
}

impl Iterator for FreeRangesRev<'_> {
    type Item = Region;

    #[inline]
    fn next(&mut self) -> Option<Region> {
        loop {
            let memory = self.memory.region()?;
            let mut to = self.to.min(memory.end());
            if to <= memory.start() || self.filter.skips(memory) {
                self.memory.backward();
                continue;
            }
            let mut start = memory.start();
            while let Some(reserved) = self.reserved.region() {
                if reserved.end() < to {
                    start = start.max(reserved.end());
                    break;
                }
                to = to.min(reserved.start());
                if to <= start {
                    break;
                }
                self.reserved.backward();
            }
            self.to = to;
            if start >= to {
                self.memory.backward();
                continue;
            }
            self.to = start;
            if start == memory.start() {
                self.memory.backward();
            }
            return Some(memory.with_range(PhysRange::new(start, to)));
        }
    }
}

impl FusedIterator for FreeRangesRev<'_> {}
