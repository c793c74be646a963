//! Changing a list.
//!
//! Every change keeps the list sorted, disjoint and minimal: neighbours that touch with the same
//! node and flags are one region.

use alloc::vec::Vec;
use core::ops::Range;

use super::{CHUNK, Pos, RegionList};
use crate::{PhysAddr, PhysRange, Region};

/// Regions that a list's first chunk has room for from the start: as many as Linux's arrays.
const FIRST_ROOM: usize = if CHUNK < 128 { CHUNK } else { 128 };

impl RegionList {
    /// Puts `region` in and merges it with its neighbours; `false`, and nothing is done, where it
    /// overlaps another.
    #[inline]
    pub(crate) fn insert(&mut self, region: &Region) -> bool {
        let bytes = region.range().len();
        if bytes == 0 {
            return true;
        }
        let was_empty = self.len == 0;
        if !self.place(region) {
            return false;
        }
        // the kernel sets its counter to the size of a first region instead of adding to it
        let before = if was_empty { 0 } else { self.total };
        self.total = before.wrapping_add(bytes);
        self.emptied = false;
        true
    }

    /// As [`insert`](Self::insert), with the counter left alone.
    // by reference: a copy of a region that was just put together waits for its parts
    #[inline]
    fn place(&mut self, region: &Region) -> bool {
        let Some(chunk) = self.chunk_from(region.start()) else {
            return self.place_lowest(region);
        };
        let regions = &mut self.chunks[chunk];
        let index = place_in(regions, region.start());
        // the chunk starts at or below the region, so there is a lower neighbour in it
        let lower = index - 1;
        if region.start() < regions[lower].end() {
            return false;
        }
        let Some(&upper) = regions.get(index) else {
            return self.place_last_of(chunk, region);
        };
        if upper.start() < region.end() {
            return false;
        }
        let extends = regions[lower].continues_in(*region);
        let joins = region.continues_in(upper);
        match (extends, joins) {
            (false, false) => self.insert_at(chunk, index, *region),
            (true, false) => regions[lower] = grown_up(regions[lower], region.end()),
            (false, true) => regions[index] = grown_down(upper, region.start()),
            (true, true) => {
                regions[lower] = grown_up(regions[lower], upper.end());
                regions.remove(index);
                self.len -= 1;
            }
        }
        true
    }

    /// Places a region behind all others of its chunk; its upper neighbour, if any, is the first
    /// of the next chunk.
    fn place_last_of(&mut self, chunk: usize, region: &Region) -> bool {
        let upper = self.chunks.get(chunk + 1).map(|next| next[0]);
        if upper.is_some_and(|upper| upper.start() < region.end()) {
            return false;
        }
        let joins = upper.is_some_and(|upper| region.continues_in(upper));
        let regions = &mut self.chunks[chunk];
        let lower = regions.len() - 1;
        match (regions[lower].continues_in(*region), joins) {
            (false, false) => self.insert_at(chunk, lower + 1, *region),
            (true, false) => regions[lower] = grown_up(regions[lower], region.end()),
            (false, true) => self.grow_first_down(chunk + 1, region.start()),
            (true, true) => {
                let upper = self.remove_at(Pos {
                    chunk: chunk + 1,
                    index: 0,
                });
                let regions = &mut self.chunks[chunk];
                regions[lower] = grown_up(regions[lower], upper.end());
            }
        }
        true
    }

    #[cold]
    fn place_lowest(&mut self, region: &Region) -> bool {
        let Some(first) = self.first() else {
            let mut regions = Vec::with_capacity(FIRST_ROOM);
            regions.push(*region);
            self.firsts.push(region.start().get());
            self.chunks.push(regions);
            self.len = 1;
            return true;
        };
        if first.start() < region.end() {
            return false;
        }
        if region.continues_in(first) {
            self.grow_first_down(0, region.start());
        } else {
            self.insert_at(0, 0, *region);
        }
        true
    }

    fn grow_first_down(&mut self, chunk: usize, start: PhysAddr) {
        self.chunks[chunk][0] = grown_down(self.chunks[chunk][0], start);
        self.firsts[chunk] = start.get();
    }

    #[inline]
    fn insert_at(&mut self, mut chunk: usize, mut index: usize, region: Region) {
        self.len += 1;
        if self.chunks[chunk].len() == CHUNK {
            (chunk, index) = self.split_chunk(chunk, index, region);
        }
        self.chunks[chunk].insert(index, region);
        if index == 0 {
            self.firsts[chunk] = region.start().get();
        }
    }

    /// Cuts a full chunk in two, and gives the place where `region` belongs now.
    #[cold]
    fn split_chunk(&mut self, chunk: usize, index: usize, region: Region) -> (usize, usize) {
        // a list that is filled in ascending order keeps its chunks full
        let at_end = index == CHUNK && chunk + 1 == self.chunks.len();
        let cut = if at_end { CHUNK } else { CHUNK / 2 };
        let mut upper = Vec::with_capacity(CHUNK);
        upper.extend(self.chunks[chunk].drain(cut..));
        let first = upper.first().unwrap_or(&region).start().get();
        self.chunks.insert(chunk + 1, upper);
        self.firsts.insert(chunk + 1, first);
        if index > cut || at_end {
            (chunk + 1, index - cut)
        } else {
            (chunk, index)
        }
    }

    /// Takes the region at `pos` out, the counter left alone.
    fn remove_at(&mut self, pos: Pos) -> Region {
        let region = self.chunks[pos.chunk].remove(pos.index);
        self.len -= 1;
        self.tidy(pos.chunk);
        region
    }

    /// Drops `chunk` if it is empty, else sets its first start right.
    fn tidy(&mut self, chunk: usize) {
        match self.chunks[chunk].first() {
            Some(first) => self.firsts[chunk] = first.start().get(),
            None => {
                self.chunks.remove(chunk);
                self.firsts.remove(chunk);
            }
        }
    }

    /// Cuts the region that holds `at` strictly inside, if any, so that none crosses it.
    fn split(&mut self, at: PhysAddr) {
        let pos = self.seek(at);
        let Some(region) = self.region(pos).filter(|region| region.start() < at) else {
            return;
        };
        self.chunks[pos.chunk][pos.index] = region.with_range(PhysRange::new(region.start(), at));
        let upper = region.with_range(PhysRange::new(at, region.end()));
        self.insert_at(pos.chunk, pos.index + 1, upper);
    }

    /// How many pieces an addition of `range` would bring: its parts that no region covers.
    pub(crate) fn gaps_in(&self, range: PhysRange) -> impl Iterator<Item = PhysRange> {
        let mut from = range.start();
        let mut covered = self.overlapping(range);
        let mut done = range.is_empty();
        core::iter::from_fn(move || {
            while !done {
                let start = from;
                let end = match covered.next() {
                    Some(region) => {
                        from = region.end();
                        region.start()
                    }
                    None => {
                        done = true;
                        range.end()
                    }
                };
                if start < end {
                    return Some(PhysRange::new(start, end));
                }
            }
            None
        })
    }

    /// Cuts at the bounds of `range`; the numbers of the regions inside, `0..0` for none.
    pub(crate) fn isolate(&mut self, range: PhysRange) -> Range<usize> {
        if range.is_empty() || self.is_empty() {
            return 0..0;
        }
        self.split(range.start());
        self.split(range.end());
        let inside = self.overlapping(range).count();
        if inside == 0 {
            return 0..0;
        }
        let pos = self.seek(range.start());
        let before: usize = self.chunks[..pos.chunk].iter().map(Vec::len).sum();
        let first = before + pos.index;
        first..first + inside
    }

    /// Removes `range` from the list.
    pub(crate) fn remove(&mut self, range: PhysRange) {
        if self.isolate(range).is_empty() {
            return;
        }
        loop {
            let pos = self.seek(range.start());
            let Some(regions) = self.chunks.get_mut(pos.chunk) else {
                break;
            };
            let end = regions.partition_point(|region| region.start() < range.end());
            if end <= pos.index {
                break;
            }
            let gone: u64 = regions
                .drain(pos.index..end)
                .map(|region| region.range().len())
                .sum();
            self.len -= end - pos.index;
            self.total = self.total.wrapping_sub(gone);
            self.tidy(pos.chunk);
        }
        self.emptied = self.is_empty();
    }

    /// Changes every part of a region that lies in `range`, then merges.
    pub(crate) fn change(&mut self, range: PhysRange, change: impl Fn(Region) -> Region) {
        if self.isolate(range).is_empty() {
            return;
        }
        let mut pos = self.seek(range.start());
        while let Some(region) = self.region(pos).filter(|it| it.start() < range.end()) {
            self.chunks[pos.chunk][pos.index] = change(region);
            pos = self.after(pos);
        }
        self.merge(range);
    }

    /// Merges the neighbours that touch in or at the bounds of `range`.
    fn merge(&mut self, range: PhysRange) {
        let mut pos = self.seek(range.start());
        if let Some(before) = self.before(pos) {
            pos = before;
        }
        while let Some(region) = self.region(pos) {
            let after = self.after(pos);
            let Some(next) = self.region(after) else {
                break;
            };
            if next.start() > range.end() {
                break;
            }
            if region.continues_in(next) {
                self.chunks[pos.chunk][pos.index] = grown_up(region, next.end());
                self.remove_at(after);
                // the removal may have moved chunks behind `pos`, never `pos` itself
            } else {
                pos = after;
            }
        }
    }

    /// Shrinks every region to whole multiples of `align`, without touching the counter where
    /// something is left: the quirk of `memblock_trim_memory`.
    pub(crate) fn trim(&mut self, align: u64) {
        let old = core::mem::take(self);
        let mut total = old.total;
        for region in old.iter() {
            let start = region.start().checked_align_up(align);
            let end = region.end().align_down(align);
            match start {
                Some(start) if start < end => {
                    let placed = self.place(&region.with_range(PhysRange::new(start, end)));
                    debug_assert!(placed, "shrunk regions stay disjoint");
                }
                _ => total = total.wrapping_sub(region.range().len()),
            }
        }
        self.total = total;
        self.emptied = self.is_empty() && (old.emptied || !old.is_empty());
    }
}

impl RegionList {
    /// Sets the kernel's counter, where a dump shows another than the sum.
    pub(crate) fn set_total_size(&mut self, bytes: u64) {
        self.total = bytes;
    }
}

/// How many of `regions` start at or below `address`.
///
/// An addition waits for this number, where searches overlap: so here the steps are few and
/// short (no branches, the last few regions counted side by side) rather than their sum small.
#[inline]
fn place_in(regions: &[Region], address: PhysAddr) -> usize {
    const FEW: usize = 8;
    let mut left = regions;
    let mut below = 0;
    while left.len() > FEW {
        let half = left.len() / 2;
        let is_above = left[half - 1].start() <= address;
        // both have one length, so only where they begin has to wait
        let (upper, lower) = (&left[half..], &left[..left.len() - half]);
        below += if is_above { half } else { 0 };
        left = core::hint::select_unpredictable(is_above, upper, lower);
    }
    let few = left.iter().map(|it| usize::from(it.start() <= address));
    below + few.sum::<usize>()
}

fn grown_up(region: Region, end: PhysAddr) -> Region {
    region.with_range(PhysRange::new(region.start(), end))
}

fn grown_down(region: Region, start: PhysAddr) -> Region {
    region.with_range(PhysRange::new(start, region.end()))
}
