//! Sets of ranges with a value each.
//!
//! The few operations that readers need to turn overlapping statements into an ordered list:
//! later statements win, neighbours that say the same are one.

use std::collections::BTreeMap;

use memblock::{PhysAddr, PhysRange};

/// Disjoint ranges in ascending order, each with a value.
///
/// Every operation costs the logarithm of the ranges there are, and the ranges that it touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeMap<T> {
    /// By first address: one past the last, and the value.
    ranges: BTreeMap<PhysAddr, (PhysAddr, T)>,
}

impl<T> Default for RangeMap<T> {
    fn default() -> Self {
        Self {
            ranges: BTreeMap::new(),
        }
    }
}

impl<T: Clone + PartialEq> RangeMap<T> {
    /// The ranges, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PhysRange, &T)> {
        self.ranges
            .iter()
            .map(|(&start, (end, value))| (PhysRange::new(start, *end), value))
    }

    /// The ranges, taken out.
    pub(crate) fn into_ranges(self) -> impl Iterator<Item = (PhysRange, T)> {
        self.ranges
            .into_iter()
            .map(|(start, (end, value))| (PhysRange::new(start, end), value))
    }

    /// Gives `range` to `value`, whatever was there.
    pub(crate) fn set(&mut self, range: PhysRange, value: T) {
        self.change(range, |_| Some(value.clone()), Some(value.clone()));
    }

    /// Replaces each value in `range` by what `with` makes of it; `None` takes it out.
    /// `gaps` fills what had no value.
    pub(crate) fn change(
        &mut self,
        range: PhysRange,
        with: impl Fn(&T) -> Option<T>,
        gaps: Option<T>,
    ) {
        if range.is_empty() {
            return;
        }
        // Cut what crosses an edge, so that everything below is wholly in or out.
        self.split(range.start());
        self.split(range.end());
        let inside: Vec<(PhysAddr, PhysAddr, T)> = self
            .ranges
            .range(range.start()..range.end())
            .map(|(&start, (end, value))| (start, *end, value.clone()))
            .collect();
        let mut at = range.start();
        for (start, end, value) in inside {
            self.fill(at, start, &gaps);
            match with(&value) {
                Some(new) => {
                    self.ranges.insert(start, (end, new));
                    self.join(start);
                }
                None => {
                    self.ranges.remove(&start);
                }
            }
            at = end;
        }
        self.fill(at, range.end(), &gaps);
        self.join(range.end());
    }

    fn fill(&mut self, start: PhysAddr, end: PhysAddr, with: &Option<T>) {
        if let (true, Some(value)) = (start < end, with) {
            self.ranges.insert(start, (end, value.clone()));
            self.join(start);
        }
    }

    /// Cuts the range that `at` lies inside of.
    fn split(&mut self, at: PhysAddr) {
        let Some((_, (end, value))) = self.ranges.range_mut(..at).next_back() else {
            return;
        };
        if *end > at {
            let above = (*end, value.clone());
            *end = at;
            self.ranges.insert(at, above);
        }
    }

    /// Makes the range that begins at `at` one with its neighbour below, where both say the same.
    fn join(&mut self, at: PhysAddr) {
        let Some((end, value)) = self.ranges.get(&at).cloned() else {
            return;
        };
        let Some((_, below)) = self.ranges.range_mut(..at).next_back() else {
            return;
        };
        if below.0 == at && below.1 == value {
            below.0 = end;
            self.ranges.remove(&at);
        }
    }

    /// The value at `address`.
    #[cfg(test)]
    fn at(&self, address: PhysAddr) -> Option<&T> {
        let (_, (end, value)) = self.ranges.range(..=address).next_back()?;
        (address < *end).then_some(value)
    }
}

/// Builds a map from ranges that may come in any order and must not overlap.
///
/// The indices of the first two ranges that overlap and say different things are the error.
pub(crate) fn from_disjoint<T: Clone + PartialEq>(
    ranges: impl Iterator<Item = (PhysRange, T)>,
) -> Result<RangeMap<T>, (usize, usize)> {
    let mut sorted: Vec<(usize, PhysRange, T)> = ranges
        .enumerate()
        .filter(|(_, (range, _))| !range.is_empty())
        .map(|(index, (range, value))| (index, range, value))
        .collect();
    sorted.sort_by_key(|(index, range, _)| (range.start(), *index));
    // The one that reaches highest so far is the only one that a later start can fall into,
    // as long as those before it agreed.
    let mut highest: Option<&(usize, PhysRange, T)> = None;
    for this in &sorted {
        if let Some(high) = highest
            && high.1.overlaps(this.1)
            && high.2 != this.2
        {
            return Err((high.0, this.0));
        }
        if highest.is_none_or(|high| high.1.end() < this.1.end()) {
            highest = Some(this);
        }
    }
    let mut map = RangeMap::default();
    for (_, range, value) in sorted {
        map.set(range, value);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(start: u64, end: u64) -> PhysRange {
        PhysRange::new(PhysAddr::new(start), PhysAddr::new(end))
    }

    proptest! {
        #[test]
        fn a_map_equals_an_array_of_cells(
            steps in prop::collection::vec((0u64..40, 0u64..12, 0u8..4, any::<bool>()), 0..25)
        ) {
            let mut map = RangeMap::default();
            let mut cells = [None; 64];
            for (start, size, value, gaps) in steps {
                let whole = range(start, start + size);
                match value {
                    0 => map.change(whole, |_| None, None),
                    1 => map.set(whole, 1u8),
                    2 => map.change(whole, |old| Some(old + 1), gaps.then_some(7)),
                    _ => map.change(whole, |old| (*old != 1).then_some(*old), gaps.then_some(3)),
                }
                for cell in &mut cells[start as usize..(start + size) as usize] {
                    *cell = match (value, *cell) {
                        (0, _) => None,
                        (1, _) => Some(1),
                        (2, Some(old)) => Some(old + 1),
                        (2, None) => gaps.then_some(7),
                        (_, Some(old)) => (old != 1).then_some(old),
                        (_, None) => gaps.then_some(3),
                    };
                }
            }
            for (address, cell) in cells.iter().enumerate() {
                prop_assert_eq!(map.at(PhysAddr::new(address as u64)), cell.as_ref());
            }
            let ranges: Vec<_> = map.iter().collect();
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].0.end() <= pair[1].0.start());
                let joined = pair[0].0.end() == pair[1].0.start() && pair[0].1 == pair[1].1;
                prop_assert!(!joined, "neighbours that say the same are one");
            }
        }

        #[test]
        fn building_at_once_equals_building_step_by_step(
            starts in prop::collection::btree_set(0u64..60, 0..20), value in 0u8..2
        ) {
            let ranges: Vec<_> = starts
                .iter()
                .map(|&start| (range(start, start + 1), (start as u8 / 3) % 2 + value))
                .collect();
            let mut steps = RangeMap::default();
            for (range, value) in ranges.iter().rev() {
                steps.set(*range, *value);
            }
            prop_assert_eq!(from_disjoint(ranges.into_iter().rev()), Ok(steps));
        }
    }

    #[test]
    fn overlapping_ranges_that_differ_are_named() {
        let two = [(range(0, 5), 1), (range(9, 9), 2), (range(4, 6), 2)];
        assert_eq!(from_disjoint(two.into_iter()), Err((0, 2)));
        let same = [(range(0, 5), 1), (range(4, 6), 1)];
        assert!(from_disjoint(same.into_iter()).is_ok());
    }
}
