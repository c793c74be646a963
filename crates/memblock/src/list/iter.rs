//! Iterators over the regions of one list.

use core::iter::FusedIterator;

use super::{Downward, RegionList, Upward};
use crate::{PhysRange, Region};

/// The regions of a list in ascending order, and in descending order from its end.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    front: Upward<'a>,
    back: Downward<'a>,
    left: usize,
}

impl<'a> Iter<'a> {
    pub(super) fn new(list: &'a RegionList) -> Self {
        Self {
            front: Upward::first(list),
            back: Downward::last(list),
            left: list.len,
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = Region;

    #[inline]
    fn next(&mut self) -> Option<Region> {
        self.left = self.left.checked_sub(1)?;
        let region = self.front.region().copied();
        self.front.forward();
        region
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Region> {
        self.left = self.left.checked_sub(1)?;
        let region = self.back.region().copied();
        self.back.backward();
        region
    }
}

impl ExactSizeIterator for Iter<'_> {}
impl FusedIterator for Iter<'_> {}

/// The regions of a list that share an address with a range, in ascending order.
#[derive(Clone, Debug)]
pub struct Overlapping<'a> {
    cursor: Upward<'a>,
    range: PhysRange,
}

impl<'a> Overlapping<'a> {
    pub(super) fn new(list: &'a RegionList, range: PhysRange) -> Self {
        Self {
            cursor: Upward::seek(list, range.start()),
            range,
        }
    }
}

impl Iterator for Overlapping<'_> {
    type Item = Region;

    fn next(&mut self) -> Option<Region> {
        let region = *self.cursor.region()?;
        if self.range.is_empty() || region.start() >= self.range.end() {
            return None;
        }
        self.cursor.forward();
        Some(region)
    }
}

impl FusedIterator for Overlapping<'_> {}
