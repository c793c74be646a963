//! All struct pages of a device, as runs.
//!
//! A range of a device is at most three runs: pages of the altmap that nobody writes, the rest of
//! the altmap, and the device's own pages, single or in compounds. A run costs the same whether it
//! is of 2 MiB or of a terabyte; what its pages hold is worked out part by part when somebody asks
//! or writes, from the pfn alone, so a run can be cut anywhere and its pieces written by different
//! threads.
//!
//! Linux: mm/mm_init.c, `memmap_init_zone_device`.

use alloc::vec::Vec;

use memblock::{NodeId, Pfn, PfnRange, PhysRange};
use memmap_core::writers::{PageWriter, Series};
use memmap_core::{
    EarlySectionDedup, MemoryModel, PageImage, Profile, StructPageSize, ZoneIndex, ZoneKind,
};

use crate::content::{Content, max_order};
use crate::vmemmap::{self, VmemmapUse};
use crate::{DevPagemap, DeviceError, Initialised, RangeObserver};

/// Where a device is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Site {
    /// The node that its pages name.
    pub node: NodeId,
    /// Frames whose sections have had a memory map since boot. Of a section either all frames are
    /// in here or none is.
    pub boot_sections: Vec<PfnRange>,
    /// Where the struct page of frame 0 lies, in place of what the profile says: for a host that
    /// follows the links.
    pub memmap_base: Option<u64>,
}

impl Site {
    /// A device on `node`, away from any boot-time section.
    pub const fn on_node(node: NodeId) -> Self {
        Self {
            node,
            boot_sections: Vec::new(),
            memmap_base: None,
        }
    }

    /// The same beside memory whose sections, with all their frames, are `sections`.
    #[must_use]
    pub fn with_boot_sections(mut self, sections: Vec<PfnRange>) -> Self {
        self.boot_sections = sections;
        self
    }
}

/// What the pages of a run are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// Pages of the altmap that belong to somebody else: nobody writes their struct pages.
    AltmapReserve,
    /// Pages of the altmap, which hold the memory map.
    Altmap,
    /// Single pages.
    Pages,
    /// Compounds.
    Compounds {
        /// Log2 of the pages of one: at least 1.
        order: u32,
    },
}

/// Device pages of one kind that follow each other.
#[derive(Clone, Debug)]
pub struct DeviceRun {
    pfns: PfnRange,
    kind: DeviceKind,
    content: Content,
    per_compound: PerCompound,
}

/// Struct pages of a compound, from its head on.
#[derive(Clone, Copy, Debug)]
struct PerCompound {
    /// That Linux initialises one by one; the others lie in the same memory as some of these, or
    /// are forgotten.
    initialised: u64,
    /// That hold something in the end; the others stay as they were.
    written: u64,
}

/// What is no compound is a page.
const ONE: PerCompound = PerCompound {
    initialised: 1,
    written: 1,
};

/// Pages whose struct pages are one progression, or that nobody writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DevicePart {
    /// The frames.
    pub pfns: PfnRange,
    /// What they hold, beginning with the first; `None` where nobody writes them.
    pub image: Option<PageImage>,
}

impl DeviceRun {
    /// The frames.
    pub const fn pfns(&self) -> PfnRange {
        self.pfns
    }

    /// What they are.
    pub const fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// The size of their struct pages.
    pub const fn page_size(&self) -> StructPageSize {
        self.content.size
    }

    /// The references of a single page or a head.
    pub const fn refcount(&self) -> u32 {
        match self.kind {
            DeviceKind::AltmapReserve => 0,
            DeviceKind::Altmap => 1,
            DeviceKind::Pages | DeviceKind::Compounds { .. } => self.content.refcount(),
        }
    }

    /// Struct pages of each compound that Linux initialises one by one; of anything else, 1.
    pub(crate) const fn initialised(&self) -> u64 {
        self.per_compound.initialised
    }

    /// Whether Linux lets equal tails of the run lie in the same memory.
    pub(crate) const fn shares(&self) -> bool {
        self.per_compound.initialised < self.per_compound.written
    }

    /// The part of the run that lies in `pfns`.
    #[must_use]
    pub fn cut(&self, pfns: PfnRange) -> Option<Self> {
        let pfns = self.pfns.intersection(pfns)?;
        Some(Self {
            pfns,
            ..self.clone()
        })
    }

    /// The longest part that begins with `pfn`, or `None` outside the run.
    pub fn part_at(&self, pfn: Pfn) -> Option<DevicePart> {
        if !self.pfns.contains(pfn) {
            return None;
        }
        let end = self.pfns.end();
        let part = |end: Pfn, image| {
            Some(DevicePart {
                pfns: PfnRange::new(pfn, end.min(self.pfns.end())),
                image,
            })
        };
        let order = match self.kind {
            DeviceKind::AltmapReserve => return part(end, None),
            DeviceKind::Altmap => return part(end, Some(self.content.altmap(pfn))),
            DeviceKind::Pages => return part(end, Some(self.content.head(pfn))),
            DeviceKind::Compounds { order } => order,
        };
        // Compounds are aligned to their size, so heads are found by the pfn alone.
        let head = pfn.align_down(1 << order);
        let written = head.saturating_add(self.per_compound.written);
        let end = head.saturating_add(1 << order);
        let next = pfn.saturating_add(1);
        match pfn.get() - head.get() {
            0 => part(next, Some(self.content.head(head))),
            1 => part(next, Some(self.content.first_tail(head))),
            2 if let Some(second) = self.content.second_tail(head) => part(next, Some(second)),
            k if k < self.per_compound.written => part(written, Some(self.content.tail(head, pfn))),
            _ => part(end, None),
        }
    }

    /// All parts in order, made up as they are asked for.
    pub fn parts(&self) -> impl Iterator<Item = DevicePart> + '_ {
        let mut at = self.pfns.start();
        core::iter::from_fn(move || {
            let part = self.part_at(at)?;
            at = part.pfns.end();
            Some(part)
        })
    }

    /// Writes the struct pages of the run, `pages` being their words, by `writer`, and tells
    /// `observer` afterwards. Struct pages that nobody writes are left alone.
    ///
    /// # Panics
    /// Where `pages` has not the run's length.
    pub fn write(
        &self,
        writer: &dyn PageWriter,
        mut pages: &mut [u64],
        observer: Option<&dyn RangeObserver>,
    ) {
        let words = self.content.size.words();
        let wanted = usize::try_from(self.pfns.len()).map(|count| count.checked_mul(words));
        assert!(
            wanted == Ok(Some(pages.len())),
            "{} words are not the struct pages of {}",
            pages.len(),
            self.pfns,
        );
        let mut at = self.pfns.start();
        while let Some(first) = self.part_at(at) {
            // one call for all that is written up to the next gap
            let gap = if first.image.is_none() {
                first.pfns.end()
            } else {
                self.next_gap(at)
            };
            let count = (gap.get() - at.get()) as usize;
            let (piece, rest) = pages.split_at_mut(count * words);
            if first.image.is_some() {
                self.write_piece(writer, PfnRange::new(at, gap), piece, observer);
            }
            pages = rest;
            at = gap;
        }
    }

    fn write_piece(
        &self,
        writer: &dyn PageWriter,
        pfns: PfnRange,
        pages: &mut [u64],
        observer: Option<&dyn RangeObserver>,
    ) {
        match Compounds::of(self, pfns) {
            Some(mut compounds) => writer.write_series(&mut compounds, pages),
            None => {
                let left = pfns;
                let mut parts = Parts {
                    run: self,
                    left,
                    image: None,
                };
                writer.write_series(&mut parts, pages);
            }
        }
        if let Some(observer) = observer {
            observer.initialised(Initialised {
                pfns,
                kind: self.kind,
                refcount: self.refcount(),
            });
        }
    }

    /// The first frame from `pfn` (which is written) on that nobody writes, or the run's end.
    fn next_gap(&self, pfn: Pfn) -> Pfn {
        match self.kind {
            DeviceKind::Compounds { order } if self.per_compound.written < 1 << order => pfn
                .align_down(1 << order)
                .saturating_add(self.per_compound.written)
                .min(self.pfns.end()),
            _ => self.pfns.end(),
        }
    }
}

/// The parts of a piece of a run, made up one by one.
struct Parts<'r> {
    run: &'r DeviceRun,
    left: PfnRange,
    /// What is lent.
    image: Option<PageImage>,
}

impl Series for Parts<'_> {
    fn next_run(&mut self) -> Option<(&PageImage, usize)> {
        let start = self.left.start();
        let part = self.run.part_at(start)?;
        let end = part.pfns.end().min(self.left.end());
        self.left = PfnRange::new(end, self.left.end());
        self.image = part.image;
        Some((self.image.as_ref()?, (end.get() - start.get()) as usize))
    }
}

/// What the parts of whole compounds hold, each made up once and moved from compound to compound:
/// a compound of 2 MiB is written in less time than its parts would take to make up anew.
struct Compounds {
    /// The head of the compound under way.
    head: Pfn,
    at: Pfn,
    end: Pfn,
    order: u32,
    images: [PageImage; 4],
    /// Whether the second tail differs.
    second: bool,
    /// What tails name their head by grows by this from compound to compound.
    name_step: u64,
    list_step: u64,
}

impl Compounds {
    /// Those of `run` in `pfns`, where nothing in them depends on the frame alone and everything is
    /// written.
    fn of(run: &DeviceRun, pfns: PfnRange) -> Option<Self> {
        let DeviceKind::Compounds { order } = run.kind else {
            return None;
        };
        if run.per_compound.written < 1 << order || run.content.has_virtual() {
            return None;
        }
        let head = pfns.start().align_down(1 << order);
        let tail = run.content.tail(head, head);
        let second = run.content.second_tail(head);
        let step = (run.content.size.bytes() as u64) << order;
        Some(Self {
            head,
            at: pfns.start(),
            end: pfns.end(),
            order,
            images: [
                run.content.head(head),
                run.content.first_tail(head),
                second.unwrap_or(tail),
                tail,
            ],
            second: second.is_some(),
            name_step: if run.content.is_masked() { 0 } else { step },
            list_step: step,
        })
    }

    fn move_to(&mut self, head: Pfn) {
        let compounds = (head.get() - self.head.get()) >> self.order;
        self.head = head;
        if self.name_step != 0 {
            for image in &mut self.images[1..] {
                image.add_to_word(1, self.name_step.wrapping_mul(compounds));
            }
        }
        if self.second {
            for word in [2, 3] {
                self.images[2].add_to_word(word, self.list_step.wrapping_mul(compounds));
            }
        }
    }
}

impl Series for Compounds {
    fn next_run(&mut self) -> Option<(&PageImage, usize)> {
        if self.at >= self.end {
            return None;
        }
        let pages = 1 << self.order;
        if self.at.get() - self.head.get() >= pages {
            self.move_to(self.at.align_down(pages));
        }
        let k = self.at.get() - self.head.get();
        let special = if self.second { 3 } else { 2 };
        let (image, count) = if k < special {
            (&self.images[k as usize], 1)
        } else {
            (
                &self.images[3],
                (pages - k).min(self.end.get() - self.at.get()),
            )
        };
        self.at = self.at.saturating_add(count);
        Some((image, count as usize))
    }
}

/// All struct pages of one device.
///
/// Linux: mm/memremap.c, `memremap_pages`.
#[derive(Clone, Debug)]
#[doc(alias = "memremap_pages")]
#[doc(alias = "memmap_init_zone_device")]
pub struct DeviceRuns {
    runs: Vec<DeviceRun>,
    ranges: Vec<PfnRange>,
    node: NodeId,
    zone: ZoneIndex,
    device_pages: u64,
    vmemmap: VmemmapUse,
}

impl DeviceRuns {
    /// What the struct pages of the device `pagemap` hold under `profile`, at `site`.
    ///
    /// # Errors
    /// A [`DeviceError`] that names the range and what is wrong with it.
    pub fn new(profile: &Profile, pagemap: &DevPagemap, site: &Site) -> Result<Self, DeviceError> {
        let zone = check_kernel(profile)?;
        let order = pagemap.vmemmap_shift();
        let max = max_order(profile);
        if order > max {
            return Err(DeviceError::OrderTooLarge { order, max });
        }
        let ranges = check_ranges(profile, pagemap.ranges())?;
        let offset = check_altmap(pagemap, &ranges)?;
        let size = StructPageSize::from_bytes(profile.struct_page_bytes as usize)
            .unwrap_or(StructPageSize::B64);
        let content = Content::new(
            profile,
            size,
            site.node,
            zone,
            pagemap.address(),
            order,
            pagemap.memory_type().initial_refcount(&profile.behaviours),
        );
        let content = match site.memmap_base {
            Some(base) => content.with_memmap_base(base),
            None => content,
        };

        let mut runs = Vec::new();
        let mut device_pages = 0;
        for &pfns in &ranges {
            let first = pfns.start().saturating_add(offset);
            if let Some(altmap) = pagemap.altmap() {
                // an altmap that begins elsewhere has its reserved pages elsewhere too
                let reserve = if altmap.base() == pfns.start() {
                    altmap.reserve()
                } else {
                    0
                };
                let altmap = pfns.start().saturating_add(reserve);
                let reserve = DeviceKind::AltmapReserve;
                push(&mut runs, pfns.start(), altmap, reserve, &content, ONE);
                push(&mut runs, altmap, first, DeviceKind::Altmap, &content, ONE);
            }
            let device = PfnRange::new(first, pfns.end());
            device_pages += device.len();
            if order == 0 {
                push(
                    &mut runs,
                    first,
                    pfns.end(),
                    DeviceKind::Pages,
                    &content,
                    ONE,
                );
                continue;
            }
            let pages = 1 << order;
            if !first.is_aligned(pages) || !pfns.end().is_aligned(pages) {
                return Err(DeviceError::CompoundUnaligned {
                    pfns: device,
                    order,
                    pages,
                });
            }
            let kind = DeviceKind::Compounds { order };
            let shares = vmemmap::can_share(profile, pagemap);
            // What is not written of a compound differs between boot-time sections and others.
            for (piece, boot) in vmemmap::by_section_kind(profile, site, device, order) {
                let bug = EarlySectionDedup::FirstTailsOnly;
                let bug = profile.behaviours.early_section_dedup == bug;
                let few = vmemmap::unshared_struct_pages(profile).min(pages);
                let per_compound = PerCompound {
                    initialised: if shares && (!boot || bug) { few } else { pages },
                    written: if shares && boot && bug { few } else { pages },
                };
                push(
                    &mut runs,
                    piece.start(),
                    piece.end(),
                    kind,
                    &content,
                    per_compound,
                );
            }
        }
        runs.sort_unstable_by_key(|run| run.pfns.start());
        let vmemmap = vmemmap::count(profile, pagemap, site, &ranges);
        Ok(Self {
            runs,
            ranges,
            node: site.node,
            zone,
            device_pages,
            vmemmap,
        })
    }

    /// The runs, ascending.
    pub fn runs(&self) -> &[DeviceRun] {
        &self.runs
    }

    /// The frames of each range, altmaps included, ascending.
    pub fn ranges(&self) -> &[PfnRange] {
        &self.ranges
    }

    /// The node that the pages name.
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// The zone that the pages name: that of devices.
    pub const fn zone(&self) -> ZoneIndex {
        self.zone
    }

    /// Device pages, without those of the altmap: the number that Linux prints.
    pub const fn device_pages(&self) -> u64 {
        self.device_pages
    }

    /// Pages of memory map that the device takes, and that sharing saves.
    pub const fn vmemmap(&self) -> VmemmapUse {
        self.vmemmap
    }

    /// The run that holds `pfn`.
    pub fn run_at(&self, pfn: Pfn) -> Option<&DeviceRun> {
        let above = self.runs.partition_point(|run| run.pfns.end() <= pfn);
        self.runs.get(above).filter(|run| run.pfns.contains(pfn))
    }

    /// What the struct page of `pfn` holds, as a run's first page; `None` where nobody writes it
    /// or it is no page of the device.
    pub fn page(&self, pfn: Pfn) -> Option<PageImage> {
        self.run_at(pfn)?.part_at(pfn)?.image
    }

    /// The runs' parts in `pfns`, for one shard of an engine.
    pub fn cut(&self, pfns: PfnRange) -> impl Iterator<Item = DeviceRun> + '_ {
        let first = self
            .runs
            .partition_point(|run| run.pfns.end() <= pfns.start());
        self.runs[first..]
            .iter()
            .map_while(move |run| run.cut(pfns))
    }
}

fn push(
    runs: &mut Vec<DeviceRun>,
    start: Pfn,
    end: Pfn,
    kind: DeviceKind,
    content: &Content,
    per_compound: PerCompound,
) {
    if start < end {
        runs.push(DeviceRun {
            pfns: PfnRange::new(start, end),
            kind,
            content: content.clone(),
            per_compound,
        });
    }
}

fn check_kernel(profile: &Profile) -> Result<ZoneIndex, DeviceError> {
    if profile.memory_model != MemoryModel::SparseVmemmap {
        let model = profile.memory_model;
        return Err(DeviceError::MemoryModel { model });
    }
    if profile.word_bits != 64 {
        let word_bits = profile.word_bits;
        return Err(DeviceError::WordBits { word_bits });
    }
    let zone = profile.zones.index_of(ZoneKind::Device);
    zone.ok_or(DeviceError::NoDeviceZone)
}

/// The frames of the ranges, ascending.
fn check_ranges(profile: &Profile, given: &[PhysRange]) -> Result<Vec<PfnRange>, DeviceError> {
    let align = profile.pages_per_subsection() << profile.page_shift;
    let mut ranges = given.to_vec();
    ranges.sort_unstable_by_key(|range| range.start());
    for &range in &ranges {
        if range.is_empty() {
            return Err(DeviceError::Empty { range });
        }
        let (start, end) = (range.start().get(), range.end().get());
        if !start.is_multiple_of(align) || !end.is_multiple_of(align) {
            return Err(DeviceError::Unaligned { range, align });
        }
        let max_physmem_bits = profile.max_physmem_bits;
        if (end - 1) >> max_physmem_bits.min(63) != 0 {
            return Err(DeviceError::BeyondMemory {
                range,
                max_physmem_bits,
            });
        }
    }
    for pair in ranges.windows(2) {
        if let [first, second] = *pair
            && first.overlaps(second)
        {
            return Err(DeviceError::Overlap { first, second });
        }
    }
    if ranges.is_empty() {
        return Err(DeviceError::NoRange);
    }
    let frames = |range: PhysRange| range.pfns_inner(profile.page_shift);
    Ok(ranges.into_iter().map(frames).collect())
}

/// How many pages of the (only) range come before the device's own.
fn check_altmap(pagemap: &DevPagemap, ranges: &[PfnRange]) -> Result<u64, DeviceError> {
    let Some(altmap) = pagemap.altmap() else {
        return Ok(0);
    };
    let &[pfns] = ranges else {
        let ranges = ranges.len();
        return Err(DeviceError::AltmapWithRanges { ranges });
    };
    let end = altmap.base().saturating_add(altmap.offset());
    if end < pfns.start() || end >= pfns.end() {
        let base = altmap.base();
        return Err(DeviceError::AltmapOutside { base, end, pfns });
    }
    Ok(end.get() - pfns.start().get())
}
