//! The safe skip: frames that have a struct page.
//!
//! A frame is valid when its section (or, with a vmemmap, its part of a section) is present,
//! whatever memblock says of it. So the walk asks once a run, not once a frame, and holes inside
//! a present section are walked.

use alloc::vec::Vec;
use core::iter::FusedIterator;

use crate::{Memblock, Pfn, PfnRange};

/// Who knows which frames have a struct page.
///
/// Implemented for sorted, disjoint slices of frame ranges; a memory map with sections has its
/// own.
///
/// ```
/// use memblock::{Pfn, PfnRange, PfnRuns};
/// let present = [PfnRange::new(Pfn::new(0), Pfn::new(8)), PfnRange::new(Pfn::new(16), Pfn::new(24))];
/// assert_eq!(present[..].run_from(Pfn::new(9)), Some(present[1]));
/// assert_eq!(present[..].run_from(Pfn::new(24)), None);
/// ```
pub trait PfnRuns {
    /// The run of valid frames that holds `pfn`, or the next one above it.
    ///
    /// A run may start below `pfn`. Runs may touch, but a later run lies above an earlier one.
    fn run_from(&self, pfn: Pfn) -> Option<PfnRange>;
}

impl PfnRuns for [PfnRange] {
    fn run_from(&self, pfn: Pfn) -> Option<PfnRange> {
        let below = self.partition_point(|run| run.end() <= pfn);
        self[below..].iter().find(|run| !run.is_empty()).copied()
    }
}

impl PfnRuns for Vec<PfnRange> {
    fn run_from(&self, pfn: Pfn) -> Option<PfnRange> {
        self.as_slice().run_from(pfn)
    }
}

impl<T: PfnRuns + ?Sized> PfnRuns for &T {
    fn run_from(&self, pfn: Pfn) -> Option<PfnRange> {
        (**self).run_from(pfn)
    }
}

/// Every frame of `range` that has a struct page, in ascending order.
///
/// `Linux: include/linux/mmzone.h, for_each_valid_pfn`, since 6.16.
pub fn for_each_valid_pfn<R: PfnRuns>(runs: R, range: PfnRange) -> ValidPfns<R> {
    ValidPfns {
        runs,
        next: range.start(),
        run_end: range.start(),
        end: range.end(),
    }
}

/// Frames that have a struct page; see [`for_each_valid_pfn`].
#[derive(Clone, Debug)]
pub struct ValidPfns<R> {
    runs: R,
    next: Pfn,
    /// Frames from `next` to here are valid.
    run_end: Pfn,
    end: Pfn,
}

impl<R: PfnRuns> ValidPfns<R> {
    /// The frames that are left, as ranges: what a caller that can take ranges should walk.
    pub fn next_range(&mut self) -> Option<PfnRange> {
        if self.next >= self.run_end && !self.seek() {
            return None;
        }
        let range = PfnRange::new(self.next, self.run_end);
        self.next = self.run_end;
        Some(range)
    }

    fn seek(&mut self) -> bool {
        let range = PfnRange::new(self.next, self.end);
        let Some(valid) = self
            .runs
            .run_from(self.next)
            .and_then(|run| run.intersection(range))
        else {
            self.next = self.end;
            self.run_end = self.end;
            return false;
        };
        self.next = valid.start();
        self.run_end = valid.end();
        true
    }
}

impl<R: PfnRuns> Iterator for ValidPfns<R> {
    type Item = Pfn;

    #[inline]
    fn next(&mut self) -> Option<Pfn> {
        if self.next >= self.run_end && !self.seek() {
            return None;
        }
        let pfn = self.next;
        self.next = pfn.saturating_add(1);
        Some(pfn)
    }
}

impl<R: PfnRuns> FusedIterator for ValidPfns<R> {}

/// The sections of `1 << section_shift` frames that hold a whole frame of memory, joined to
/// runs: what is present after boot on a machine with a vmemmap.
///
/// `Linux: mm/sparse.c, memblocks_present`.
pub fn present_sections(memblock: &Memblock, page_shift: u32, section_shift: u32) -> Vec<PfnRange> {
    let size = 1u64 << section_shift.min(62);
    let mut runs: Vec<PfnRange> = Vec::new();
    for (pfns, _, _) in memblock.mem_pfn_ranges(page_shift, None) {
        let run = PfnRange::new(pfns.start().align_down(size), pfns.end().align_up(size));
        match runs.last_mut() {
            Some(last) if run.start() <= last.end() => {
                *last = PfnRange::new(last.start(), last.end().max(run.end()));
            }
            _ => runs.push(run),
        }
    }
    runs
}
