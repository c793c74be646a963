//! A device's struct pages on mapped memory.
//!
//! What a driver's bind and unbind are to the kernel: [`DeviceMemmap::bind`] makes all struct pages
//! hold what they must, in one of four ways, and [`DeviceMemmap::unbind`] makes the memory plain
//! again. Where the work is to be shared out, [`DeviceMemmap::shards`] gives exclusive pieces that
//! any scheduler may execute, as it does those of boot memory.
//!
//! Every struct page has its own memory; see [`SharedVmemmap`](crate::SharedVmemmap) for the other
//! way.

use core::ops::Range;
use std::vec::Vec;

use memblock::{Pfn, PfnRange};
use memmap_core::writers::PageWriter;
use memmap_core::{MAX_WORDS, PageImage, StructPageSize};
use sys::{HugePages, Mapping, MemoryPolicy, MemoryUse, SysError};

use crate::cow::{self, CowBlock, CowRefusal};
use crate::{DeviceKind, DeviceRun, DeviceRuns, RangeObserver, Way};

/// What the struct pages are aligned to in memory, so that huge pages can back them.
const ALIGN: usize = 2 << 20;
/// More than alignment can add to the length of a mapping.
const MARGIN: usize = 1 << 30;

/// The struct pages of one device.
#[derive(Debug)]
pub struct DeviceMemmap {
    runs: DeviceRuns,
    mapping: Mapping,
    /// Where the struct pages of each range lie, in bytes.
    places: Vec<Range<usize>>,
    huge_pages: HugePages,
    nodes: Vec<u16>,
    block: Option<CowBlock>,
    covered: Vec<Range<usize>>,
}

/// What a bind did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// The way in which it was done.
    pub way: Way,
    /// Why it is not the way that was asked for.
    pub refusal: Option<CowRefusal>,
    /// Frames whose struct pages were written.
    pub written: u64,
    /// Frames whose struct pages are copies that are still to be made.
    pub covered: u64,
    /// Bytes of the block that is copied.
    pub block_bytes: usize,
    /// Mappings that its copies take.
    pub copies: usize,
}

/// A piece of a device's struct pages, for one thread alone.
#[derive(Debug)]
pub struct DeviceShard<'m> {
    runs: Vec<DeviceRun>,
    pages: &'m mut [u64],
}

impl DeviceShard<'_> {
    /// The runs that it consists of, ascending; their struct pages follow each other.
    pub fn runs(&self) -> &[DeviceRun] {
        &self.runs
    }

    /// Bytes of its struct pages.
    pub fn bytes(&self) -> usize {
        size_of_val(self.pages)
    }

    /// Writes its struct pages.
    pub fn write(&mut self, writer: &dyn PageWriter, observer: Option<&dyn RangeObserver>) {
        let mut rest = &mut *self.pages;
        for run in &self.runs {
            let words = run.pfns().len() as usize * run.page_size().words();
            let (piece, next) = rest.split_at_mut(words);
            run.write(writer, piece, observer);
            rest = next;
        }
    }
}

impl DeviceMemmap {
    /// Reserves memory for the struct pages of `runs`. None is taken until it is touched or
    /// [populated](Self::populate).
    ///
    /// # Errors
    /// [`SysError`] where the system has not the address space.
    pub fn new(runs: DeviceRuns, huge_pages: HugePages) -> Result<Self, SysError> {
        let mut places: Vec<Range<usize>> = Vec::with_capacity(runs.ranges().len());
        let size = page_size_of(&runs).bytes();
        let mut at = 0_usize;
        for range in runs.ranges() {
            let bytes = usize::try_from(range.len())
                .ok()
                .and_then(|pages| pages.checked_mul(size))
                .and_then(|bytes| bytes.checked_add(at));
            let Some(end) = bytes.filter(|&end| end <= isize::MAX as usize - MARGIN) else {
                return Err(SysError::BadRange {
                    start: at,
                    end: usize::MAX,
                    len: isize::MAX as usize - MARGIN,
                });
            };
            places.push(at..end);
            // so far into the mapping whole huge pages and whole struct pages end together
            at = end.next_multiple_of(cow::least_common_multiple(ALIGN, size));
        }
        let mapping = Mapping::reserve_aligned(at, ALIGN)?;
        mapping.commit(0..mapping.len())?;
        let mut memmap = Self {
            runs,
            mapping,
            places,
            huge_pages,
            nodes: Vec::new(),
            block: None,
            covered: Vec::new(),
        };
        memmap.prepare()?;
        Ok(memmap)
    }

    /// Lets the struct pages lie on the host's nodes `nodes`.
    ///
    /// # Errors
    /// [`SysError`] where the system refuses these nodes.
    pub fn bind_to_nodes(&mut self, nodes: &[u16]) -> Result<(), SysError> {
        self.nodes = nodes.to_vec();
        self.prepare()
    }

    /// Says to the system what it forgets when memory is replaced.
    fn prepare(&mut self) -> Result<(), SysError> {
        let all = 0..self.mapping.len();
        // advice: a system without huge pages does as well
        let _ = self.mapping.huge_pages(all.clone(), self.huge_pages);
        if !self.nodes.is_empty() {
            self.mapping.bind(all, MemoryPolicy::Bind, &self.nodes)?;
        }
        Ok(())
    }

    /// What the struct pages hold when they are bound.
    pub const fn runs(&self) -> &DeviceRuns {
        &self.runs
    }

    /// Takes memory for all struct pages now.
    ///
    /// # Errors
    /// [`SysError`] where it is not to be had.
    pub fn populate(&mut self) -> Result<(), SysError> {
        self.mapping.fault_in(0..self.mapping.len())
    }

    /// Another device in the same memory: what a bind finds when the driver's description lies
    /// elsewhere this time. Returns the runs before.
    ///
    /// # Errors
    /// The runs, where they do not describe the same frames.
    pub fn replace_runs(&mut self, runs: DeviceRuns) -> Result<DeviceRuns, DeviceRuns> {
        if runs.ranges() != self.runs.ranges() || page_size_of(&runs) != page_size_of(&self.runs) {
            return Err(runs);
        }
        Ok(core::mem::replace(&mut self.runs, runs))
    }

    /// Makes all struct pages hold what they must, on this thread, and tells `observer`.
    ///
    /// [`Way::Cow`] falls back to [`Way::Stream`] where it cannot be used, and says why.
    ///
    /// # Errors
    /// [`SysError`] where the system refuses what can not be done otherwise.
    pub fn bind(
        &mut self,
        way: Way,
        observer: Option<&dyn RangeObserver>,
    ) -> Result<Bound, SysError> {
        let mut bound = Bound {
            way,
            refusal: None,
            written: 0,
            covered: 0,
            block_bytes: 0,
            copies: 0,
        };
        if way == Way::Cow {
            match self.cover(&mut bound) {
                Ok(()) => {}
                Err(refusal) => {
                    self.uncover()?;
                    bound = Bound {
                        way: Way::Stream,
                        refusal: Some(refusal),
                        written: 0,
                        covered: 0,
                        block_bytes: 0,
                        copies: 0,
                    };
                }
            }
        } else {
            self.uncover()?;
        }
        let writer = bound.way.writer();
        let size = page_size_of(&self.runs).bytes();
        for (run, place) in located(&self.runs, &self.places) {
            let covered = self
                .covered
                .iter()
                .find(|covered| covered.start < place.end && place.start < covered.end);
            // what lies before and behind the copies, or everything
            let pieces = match covered {
                Some(covered) => [place.start..covered.start, covered.end..place.end],
                None => [place.clone(), place.end..place.end],
            };
            for piece in pieces {
                let first = ((piece.start - place.start) / size) as u64;
                let count = (piece.len() / size) as u64;
                let start = run.pfns().start().saturating_add(first);
                let pfns = PfnRange::new(start, start.saturating_add(count));
                if let Some(run) = run.cut(pfns) {
                    run.write(writer, self.mapping.words_mut(piece)?, observer);
                    if run.kind() != DeviceKind::AltmapReserve {
                        bound.written += count;
                    }
                }
            }
            if let (Some(covered), Some(observer)) = (covered, observer) {
                let first = ((covered.start - place.start) / size) as u64;
                let start = run.pfns().start().saturating_add(first);
                observer.initialised(crate::Initialised {
                    pfns: PfnRange::new(start, start.saturating_add((covered.len() / size) as u64)),
                    kind: run.kind(),
                    refcount: run.refcount(),
                });
            }
        }
        Ok(bound)
    }

    /// Lays copies of a block over all single pages.
    fn cover(&mut self, bound: &mut Bound) -> Result<(), CowRefusal> {
        let mut found = Vec::new();
        for (run, place) in located(&self.runs, &self.places) {
            match run.kind() {
                DeviceKind::Compounds { .. } => return Err(CowRefusal::Compounds),
                DeviceKind::Pages => {}
                _ => continue,
            }
            let image = run.part_at(run.pfns().start()).and_then(|part| part.image);
            let alike = |image: &PageImage| image.strides().iter().all(|&stride| stride == 0);
            let image = image.filter(alike).ok_or(CowRefusal::NotAlike)?;
            if let Some((range, unit)) = cow::coverable(&place, &image) {
                found.push((image, range, unit));
            }
        }
        let bytes = self.places.iter().map(ExactSizeIterator::len).sum();
        let Some(&(image, _, unit)) = found.first() else {
            return Err(CowRefusal::TooShort { bytes });
        };
        let longest = found.iter().map(|(_, range, _)| range.len()).max();
        let length = cow::block_bytes_here(longest.unwrap_or(unit), unit)?;
        let block = match self.block.take() {
            Some(block) if block.is(&image, length) => block,
            _ => CowBlock::new(image, length)?,
        };
        let size = page_size_of(&self.runs).bytes();
        let block = self.block.insert(block);
        for (_, range, _) in found {
            // noted first: where it fails, the range is made plain with the others
            self.covered.retain(|covered| *covered != range);
            self.covered.push(range.clone());
            block.cover(&mut self.mapping, range.clone())?;
            bound.covered += (range.len() / size) as u64;
            bound.copies += range.len().div_ceil(block.len());
        }
        bound.block_bytes = block.len();
        if !self.nodes.is_empty() {
            // copies are made where the memory that they replace would have been
            self.prepare()?;
        }
        Ok(())
    }

    /// Puts plain memory where copies of a block are.
    fn uncover(&mut self) -> Result<(), SysError> {
        if self.covered.is_empty() {
            return Ok(());
        }
        for range in &self.covered {
            self.mapping.uncover(range.clone())?;
        }
        self.covered.clear();
        self.prepare()
    }

    /// Forgets the struct pages. Memory that was written stays, to be written again at the next
    /// bind; copies of a block go, and with them all that they took.
    ///
    /// # Errors
    /// [`SysError`] where the system refuses.
    pub fn unbind(&mut self) -> Result<(), SysError> {
        self.uncover()?;
        self.block = None;
        Ok(())
    }

    /// Gives all memory back; the struct pages read as zero.
    ///
    /// # Errors
    /// [`SysError`] where the system refuses.
    pub fn discard(&mut self) -> Result<(), SysError> {
        self.unbind()?;
        self.mapping.discard(0..self.mapping.len())
    }

    /// One piece for each part that a section of `pages_per_section` frames has of the device, with
    /// the section's number, ascending: what an engine that hands out sections executes. Copies of
    /// a block are replaced by plain memory first.
    ///
    /// # Errors
    /// [`SysError`] where the system refuses.
    pub fn section_shards(
        &mut self,
        pages_per_section: u64,
    ) -> Result<Vec<(u64, DeviceShard<'_>)>, SysError> {
        let section = pages_per_section.max(1);
        self.cut_into(|start| Pfn::new((start.get() / section + 1).saturating_mul(section)))
            .map(|shards| {
                let number = |shard: &DeviceShard<'_>| {
                    let first = shard
                        .runs
                        .first()
                        .map_or(Pfn::ZERO, |run| run.pfns().start());
                    first.get() / section
                };
                shards
                    .into_iter()
                    .map(|shard| (number(&shard), shard))
                    .collect()
            })
    }

    /// Some `count` pieces of about equal length, cut between frames, in the order of frames. Copies
    /// of a block are replaced by plain memory first.
    ///
    /// # Errors
    /// [`SysError`] where the system refuses.
    pub fn shards(&mut self, count: usize) -> Result<Vec<DeviceShard<'_>>, SysError> {
        let total: u64 = self.runs.ranges().iter().map(|range| range.len()).sum();
        let target = total.div_ceil(count.max(1) as u64).max(1);
        self.cut_into(|start| start.saturating_add(target))
    }

    /// Pieces of which each ends where `end_of` says for its start, or with its range.
    fn cut_into(&mut self, end_of: impl Fn(Pfn) -> Pfn) -> Result<Vec<DeviceShard<'_>>, SysError> {
        self.uncover()?;
        let size = page_size_of(&self.runs).bytes();
        let mut words = self.mapping.words_mut(0..self.mapping.len())?;
        let mut at = 0;
        let mut shards = Vec::new();
        for (pfns, place) in self.runs.ranges().iter().zip(&self.places) {
            words = &mut words[(place.start - at) / 8..];
            let mut start = pfns.start();
            while start < pfns.end() {
                let end = end_of(start).min(pfns.end());
                let piece = PfnRange::new(start, end);
                let (pages, rest) = words.split_at_mut(piece.len() as usize * size / 8);
                words = rest;
                shards.push(DeviceShard {
                    runs: self.runs.cut(piece).collect(),
                    pages,
                });
                start = end;
            }
            at = place.end;
        }
        Ok(shards)
    }

    /// The words of the struct page of `pfn`, zero beyond its size; `None` where it is no page of
    /// the device.
    pub fn read(&self, pfn: Pfn) -> Option<[u64; MAX_WORDS]> {
        let mut words = [0; MAX_WORDS];
        let count = page_size_of(&self.runs).words();
        let offset = self.offset(pfn)?;
        self.mapping.load(offset, &mut words[..count]).ok()?;
        Some(words)
    }

    /// Stores `value` as word `word` of the struct page of `pfn`. `false` where there is none.
    #[must_use = "a word that is not there was not stored"]
    pub fn write(&mut self, pfn: Pfn, word: usize, value: u64) -> bool {
        let Some(offset) = self.offset(pfn) else {
            return false;
        };
        if word >= page_size_of(&self.runs).words() {
            return false;
        }
        let at = offset + 8 * word;
        match self.mapping.words_mut(at..at + 8) {
            Ok([stored]) => {
                *stored = value;
                true
            }
            _ => false,
        }
    }

    fn offset(&self, pfn: Pfn) -> Option<usize> {
        let size = page_size_of(&self.runs).bytes();
        let mut ranges = self.runs.ranges().iter().zip(&self.places);
        let (range, place) = ranges.find(|(range, _)| range.contains(pfn))?;
        Some(place.start + (pfn.get() - range.start().get()) as usize * size)
    }

    /// Bytes of the struct pages, and of what alignment adds.
    pub fn bytes(&self) -> usize {
        self.mapping.len()
    }

    /// The memory that they really take; `None` where the system does not say.
    pub fn memory_use(&self) -> Option<MemoryUse> {
        self.mapping.memory_use()
    }

    /// The memory, for measurements.
    pub const fn mapping_mut(&mut self) -> &mut Mapping {
        &mut self.mapping
    }
}

fn page_size_of(runs: &DeviceRuns) -> StructPageSize {
    runs.runs()
        .first()
        .map_or(StructPageSize::B64, DeviceRun::page_size)
}

/// The runs and where their struct pages lie.
fn located<'a>(
    runs: &'a DeviceRuns,
    places: &'a [Range<usize>],
) -> impl Iterator<Item = (&'a DeviceRun, Range<usize>)> {
    let size = page_size_of(runs).bytes();
    runs.runs().iter().filter_map(move |run| {
        let mut ranges = runs.ranges().iter().zip(places);
        let (range, place) = ranges.find(|(range, _)| range.contains_range(run.pfns()))?;
        let start = place.start + (run.pfns().start().get() - range.start().get()) as usize * size;
        Some((run, start..start + run.pfns().len() as usize * size))
    })
}
