//! Free blocks and allocator figures of a captured kernel beside ours.
//!
//! A capture lists the heads of free buddy blocks, and holds `/proc/buddyinfo`,
//! `/proc/pagetypeinfo` and `/proc/zoneinfo`. What of that can be compared is decided by the
//! capture's own words, before anything of ours is looked at:
//!
//! * **Blocks**, by aligned regions of the largest block's size. A region was *not used since
//!   hand-over* if every page of it that the capture covers is either reserved as initialisation
//!   leaves it, or lies in a listed free block all of whose inner pages are listed and still point
//!   to themselves. (Inner pages of blocks up to order 2 are too few to be listed, and pages at
//!   multiples of two pageblocks inside a larger one hold list poison: these may be missing.) A
//!   page that was taken since, or freed one by one, shows other words or is not listed. Of such
//!   regions, the places and orders of all free blocks must be ours.
//! * **Types**: words do not hold a block's type. But a zone's blocks of one type and order are
//!   counted in `pagetypeinfo`: of the blocks compared, ours may not be more.
//! * **`buddyinfo`** of zones that boot did not touch: those whose managed pages are free but for
//!   the pools that the log says were allocated from it (`DMA: preallocated 256 KiB
//!   GFP_KERNEL|GFP_DMA pool`). The pools are allocated from ours first.
//! * **Managed pages**, summed over zones: ours and the pages of the log's `Freeing …` lines,
//!   where the log is there from hand-over to user space.
//!
//! Areas that the log reserved for contiguous allocation (`cma: Reserved 64 MiB at …`) are given
//! to our allocator first, as the kernel gave them to its own before anything was read.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use memblock::{NodeId, Pfn, PfnRange, PhysAddr, PhysRange};
use memmap_core::buddy::{Allocator, MigrateType, Request};
use memmap_core::{MemoryMap, PageFlag, Profile, StructPage, StructPageSize, ZoneKind};

/// Stands for the address of a struct page's own word 1.
const OWN_LIST: u64 = 0x5e1f_5e1f_5e1f_5e1f;

/// Frames whose struct pages are equal, as a capture lists them.
#[derive(Clone, Copy, Debug)]
struct Run {
    pfns: PfnRange,
    words: [u64; 8],
}

/// What a capture says of free memory.
#[derive(Clone, Debug, Default)]
pub struct CapturedBlocks {
    segments: Vec<PfnRange>,
    runs: Vec<Run>,
    /// Lines of `/proc/buddyinfo`.
    buddyinfo: Vec<String>,
    /// Free blocks by node, zone, type and order.
    types: BTreeMap<(u16, ZoneKind, MigrateType), Vec<u64>>,
    /// Managed and free pages by zone.
    zones: BTreeMap<(u16, ZoneKind), (u64, u64)>,
    /// Pools in KiB, by the zone that they were asked from.
    pools: Vec<(ZoneKind, u64)>,
    /// KiB of `Freeing …` lines.
    freed: u64,
    /// `cma: Reserved …`: bytes from an address, given to the allocator later on.
    cma: Vec<(u64, u64)>,
    /// The log reaches from hand-over to user space without a gap at either.
    log_is_whole: (bool, bool),
}

/// What came of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlocksOutcome {
    /// Heads that the capture lists.
    pub listed: u64,
    /// Heads in regions that were not used since hand-over.
    pub compared: u64,
    /// Of these, those that are ours in place, order and type.
    pub equal: u64,
    /// Blocks of ours, in such regions, that the capture lacks.
    pub missing: u64,
    /// Zones whose `buddyinfo` was compared, and those that were equal.
    pub buddyinfo: (u64, u64),
    /// Managed pages: the capture's and ours, where both are known.
    pub managed: Option<(u64, u64)>,
    /// What is unequal, for people.
    pub notes: Vec<String>,
}

impl BlocksOutcome {
    /// Whether nothing that was compared is unequal.
    pub fn is_equal(&self) -> bool {
        self.notes.is_empty()
    }

    fn note(&mut self, text: String) {
        const SHOWN: usize = 10;
        if self.notes.len() < SHOWN {
            self.notes.push(text);
        }
    }
}

impl CapturedBlocks {
    /// Reads a capture.
    ///
    /// # Errors
    /// What reading `input` gives. Lines that are no listing are passed over.
    pub fn read(mut input: impl BufRead) -> io::Result<Self> {
        let mut capture = Self::default();
        let mut part = String::new();
        let mut zone = None;
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            if input.read_until(b'\n', &mut bytes)? == 0 {
                return Ok(capture);
            }
            let text = String::from_utf8_lossy(&bytes);
            let line = text.trim_end();
            if let Some(name) = line.strip_prefix("@@") {
                name.clone_into(&mut part);
                continue;
            }
            match part.as_str() {
                "dmesg" => capture.log_line(line),
                "buddyinfo" => capture.buddyinfo.push(line.to_owned()),
                "pagetypeinfo" => capture.types_line(line),
                "zoneinfo" => capture.zone_line(line, &mut zone),
                "pages" => capture.page_line(line),
                _ => {}
            }
        }
    }

    fn log_line(&mut self, line: &str) {
        let text = line.split_once("] ").map_or(line, |(_, rest)| rest);
        if let Some((what, size)) = text.rsplit_once(" memory: ")
            && what.starts_with("Freeing ")
            && let Some(kib) = size
                .strip_suffix('K')
                .and_then(|kib| kib.parse::<u64>().ok())
        {
            self.freed += kib;
        }
        if let Some(rest) = text.strip_prefix("cma: Reserved ")
            && let Some((mib, rest)) = rest.split_once(" MiB at 0x")
            && let Some(address) = rest.split_whitespace().next()
            && let (Ok(mib), Ok(address)) = (mib.parse::<u64>(), u64::from_str_radix(address, 16))
        {
            self.cma.push((address, mib << 20));
        }
        self.log_is_whole.0 |= text.starts_with("SLUB: ");
        self.log_is_whole.1 |= text.starts_with("Run /");
        if let Some(rest) = text.strip_prefix("DMA: preallocated ")
            && let Some((kib, rest)) = rest.split_once(" KiB GFP_KERNEL")
            && let Ok(kib) = kib.parse()
        {
            let zone = match rest.split_whitespace().next() {
                Some("|GFP_DMA") => Some(ZoneKind::Dma),
                Some("|GFP_DMA32") => Some(ZoneKind::Dma32),
                _ => None,
            };
            self.pools.extend(zone.map(|zone| (zone, kib)));
        }
    }

    fn types_line(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        let ["Node", node, "zone", zone, "type", migrate, counts @ ..] = words.as_slice() else {
            return;
        };
        let trim = |word: &str| word.trim_end_matches(',').to_owned();
        let node = trim(node).parse::<u16>();
        let zone = ZoneKind::from_name(&trim(zone));
        let migrate = MigrateType::ALL
            .into_iter()
            .find(|known| known.name() == *migrate);
        let counts: Result<Vec<u64>, _> = counts.iter().map(|count| count.parse()).collect();
        if let (Ok(node), Some(zone), Some(migrate), Ok(counts)) = (node, zone, migrate, counts) {
            self.types.insert((node, zone, migrate), counts);
        }
    }

    fn zone_line(&mut self, line: &str, zone: &mut Option<(u16, ZoneKind)>) {
        let words: Vec<_> = line.split_whitespace().collect();
        match (words.as_slice(), *zone) {
            (["Node", node, "zone", name], _) => {
                let node = node.trim_end_matches(',').parse().ok();
                *zone = node.zip(ZoneKind::from_name(name));
            }
            (["managed", pages], Some(zone)) => {
                self.zones.entry(zone).or_default().0 = pages.parse().unwrap_or(0);
            }
            (["nr_free_pages", pages], Some(zone)) => {
                self.zones.entry(zone).or_default().1 = pages.parse().unwrap_or(0);
            }
            _ => {}
        }
    }

    fn page_line(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["SEG" | "GAP", range, ..] => {
                let range = range.split_once('-');
                if let Some((Ok(start), Ok(end))) = range.map(|(a, b)| (a.parse(), b.parse())) {
                    self.segments
                        .push(PfnRange::new(Pfn::new(start), Pfn::new(end)));
                }
            }
            [first, count, rest @ ..] if rest.len() == 8 => {
                let values: Option<Vec<u64>> = rest
                    .iter()
                    .map(|word| u64::from_str_radix(word, 16).ok())
                    .collect();
                if let (Ok(first), Ok(count), Some(values)) =
                    (first.parse::<u64>(), count.parse::<u64>(), values)
                {
                    let pfns =
                        PfnRange::new(Pfn::new(first), Pfn::new(first.saturating_add(count)));
                    let mut words = [0; 8];
                    words.copy_from_slice(&values);
                    self.runs.push(Run { pfns, words });
                }
            }
            _ => {}
        }
    }

    /// Lays the capture beside the allocator of the same machine, just after hand-over; the pools
    /// are allocated from it.
    pub fn compare(&self, allocator: &Allocator<MemoryMap>) -> BlocksOutcome {
        let mut outcome = BlocksOutcome::default();
        let profile = allocator.profile();
        for (address, bytes) in &self.cma {
            let range = PhysRange::from_size(PhysAddr::new(*address), *bytes);
            if let Err(error) = allocator.activate_cma(range.pfns_inner(profile.page_shift)) {
                outcome.note(format!("the log's CMA area at {address:#x}: {error}"));
            }
        }
        let ours = our_blocks(allocator);
        self.compare_regions(profile, &ours, &mut outcome);
        self.compare_managed(allocator, &mut outcome);
        self.compare_buddyinfo(allocator, &mut outcome);
        outcome
    }

    /// Regions that were not used since hand-over, by the capture's words, and the heads in them.
    fn untouched(&self, profile: &Profile) -> BTreeMap<u64, Vec<(Pfn, u8)>> {
        let pages = profile.max_order_pages();
        let mut regions: BTreeMap<u64, Region> = BTreeMap::new();
        for segment in &self.segments {
            let first = segment.start().get() / pages;
            let end = segment.end().get().div_ceil(pages);
            for number in first..end {
                let start = Pfn::new(number * pages);
                let whole = PfnRange::new(start, start.saturating_add(pages));
                let part = whole.intersection(*segment).map_or(0, PfnRange::len);
                regions.entry(number).or_default().pages += part;
            }
        }
        for run in &self.runs {
            let what = classify(profile, &run.words);
            let mut at = run.pfns.start();
            while at < run.pfns.end() {
                let number = at.get() / pages;
                let end = Pfn::new((number + 1) * pages).min(run.pfns.end());
                let region = regions.entry(number).or_default();
                region.add(profile, PfnRange::new(at, end), what);
                at = end;
            }
        }
        regions
            .into_iter()
            .filter_map(|(number, region)| Some((number, region.finish(profile)?)))
            .collect()
    }

    fn compare_regions(&self, profile: &Profile, ours: &OurBlocks, outcome: &mut BlocksOutcome) {
        outcome.listed = self
            .runs
            .iter()
            .filter(|run| matches!(classify(profile, &run.words), What::Head(_)))
            .map(|run| run.pfns.len())
            .sum();
        let mut used: BTreeMap<(u16, ZoneKind, MigrateType, u8), u64> = BTreeMap::new();
        for (number, heads) in self.untouched(profile) {
            let start = Pfn::new(number * profile.max_order_pages());
            let end = start.saturating_add(profile.max_order_pages());
            let mut expected: BTreeMap<Pfn, OurBlock> = ours
                .range(start..end)
                .map(|(pfn, block)| (*pfn, *block))
                .collect();
            for (pfn, order) in heads {
                outcome.compared += 1;
                match expected.remove(&pfn) {
                    Some(block) if block.order == order => {
                        let key = (block.node, block.zone, block.migrate, order);
                        let used = used.entry(key).or_default();
                        *used += 1;
                        if *used <= self.counted(key) {
                            outcome.equal += 1;
                        } else {
                            outcome.note(format!(
                                "block {pfn} of order {order}: ours is {}, of which the capture \
                                 counts {}",
                                block.migrate,
                                self.counted(key)
                            ));
                        }
                    }
                    other => outcome.note(format!(
                        "block {pfn} of order {order}: ours is {:?}",
                        other.map(|block| block.order)
                    )),
                }
            }
            for (pfn, block) in expected {
                outcome.missing += 1;
                outcome.note(format!(
                    "our block {pfn} of order {} is not free there",
                    block.order
                ));
            }
        }
    }

    fn counted(&self, key: (u16, ZoneKind, MigrateType, u8)) -> u64 {
        let (node, zone, migrate, order) = key;
        if self.types.is_empty() {
            return u64::MAX;
        }
        let counts = self.types.get(&(node, zone, migrate));
        counts
            .and_then(|counts| counts.get(usize::from(order)))
            .copied()
            .unwrap_or(0)
    }

    fn compare_managed(&self, allocator: &Allocator<MemoryMap>, outcome: &mut BlocksOutcome) {
        if self.zones.is_empty() || self.log_is_whole != (true, true) {
            return;
        }
        let theirs = self.zones.values().map(|(managed, _)| managed).sum();
        let freed = (self.freed << 10) >> allocator.profile().page_shift;
        let ours = zones(allocator).map(|(_, _, managed)| managed).sum::<u64>() + freed;
        outcome.managed = Some((theirs, ours));
        if theirs != ours {
            outcome.note(format!(
                "{theirs} pages are managed; ours and those of the log's Freeing lines are {ours}"
            ));
        }
    }

    fn compare_buddyinfo(&self, allocator: &Allocator<MemoryMap>, outcome: &mut BlocksOutcome) {
        let profile = allocator.profile();
        for (&(node, kind), &(managed, free)) in &self.zones {
            let Some(zone) = profile.zones.index_of(kind) else {
                continue;
            };
            let pools = self.pools.iter().filter(|(pool, _)| *pool == kind);
            let pages = pools
                .clone()
                .map(|(_, kib)| (kib << 10) >> profile.page_shift);
            if managed == 0 || managed - free.min(managed) != pages.clone().sum::<u64>() {
                continue;
            }
            for pages in pages {
                let request = Request {
                    order: pages.max(1).ilog2() as u8,
                    node: NodeId::new(node),
                    zone,
                    migrate: MigrateType::Unmovable,
                };
                if let Err(error) = allocator.alloc_pages(request) {
                    outcome.note(format!("a pool of {pages} pages of {kind}: {error}"));
                }
            }
            let begins = format!("Node {node}, zone {kind:>8} ");
            let text = allocator.buddyinfo();
            let ours = text.lines().find(|line| line.starts_with(&begins));
            let theirs = self.buddyinfo.iter().find(|line| line.starts_with(&begins));
            outcome.buddyinfo.0 += 1;
            if ours.map(str::trim_end) == theirs.map(|line| line.trim_end()) {
                outcome.buddyinfo.1 += 1;
            } else {
                outcome.note(format!("buddyinfo is\n{theirs:?}, ours\n{ours:?}"));
            }
        }
    }
}

/// What a listed struct page is, by its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Reserved, as initialised.
    Reserved,
    /// Free and never on a list since it was initialised.
    Free,
    /// The head of a free block of that order.
    Head(u8),
    /// Anything else.
    Used,
}

fn classify(profile: &Profile, words: &[u64; 8]) -> What {
    let page = StructPage::new(StructPageSize::B64, profile.byte_order, words);
    let layout = profile.flags_layout();
    let marks = words[0] & ((1 << layout.numbers().count()) - 1);
    let rest_is_zero = [3, 4, 7].into_iter().all(|i| words[i] == 0);
    if !rest_is_zero {
        return What::Used;
    }
    if [0xf000_0000, 0xffff_ff7f].contains(&page.mapcount()) && page.refcount() == 0 && marks == 0 {
        return u8::try_from(page.private()).map_or(What::Used, What::Head);
    }
    let own = words[1] == OWN_LIST && words[2] == OWN_LIST;
    if !own || page.private() != 0 || page.mapcount() != u32::MAX {
        return What::Used;
    }
    let reserved = layout.numbers().mask(PageFlag::Reserved);
    match (marks == reserved, marks == 0, page.refcount()) {
        (true, _, 1) => What::Reserved,
        (_, true, 0) => What::Free,
        _ => What::Used,
    }
}

/// What a capture says of one region.
#[derive(Clone, Debug, Default)]
struct Region {
    /// Pages that the capture covers.
    pages: u64,
    reserved: u64,
    free: Vec<PfnRange>,
    heads: Vec<(Pfn, u8)>,
    used: bool,
}

impl Region {
    fn add(&mut self, profile: &Profile, pfns: PfnRange, what: What) {
        match what {
            What::Reserved => self.reserved += pfns.len(),
            What::Free => self.free.push(pfns),
            What::Head(order) if u32::from(order) <= profile.max_page_order => {
                let heads = pfns.start().get()..pfns.end().get();
                self.heads.extend(heads.map(|pfn| (Pfn::new(pfn), order)));
            }
            What::Head(_) | What::Used => self.used = true,
        }
    }

    /// The heads, if nothing in the region was used since hand-over.
    fn finish(self, profile: &Profile) -> Option<Vec<(Pfn, u8)>> {
        if self.used {
            return None;
        }
        let mut covered = self.reserved;
        let mut inner_free = 0;
        for (pfn, order) in &self.heads {
            let block = PfnRange::new(*pfn, pfn.saturating_add(1 << order));
            let inner: u64 = self
                .free
                .iter()
                .filter_map(|run| run.intersection(block))
                .map(PfnRange::len)
                .sum();
            // Pages of a large block that headed a part of it hold poison, and are not listed.
            let parts = (block.len() / (2 << profile.pageblock_order)).saturating_sub(1);
            let full = block.len() - 1;
            if *order > 2 && inner != full && inner + parts != full {
                return None;
            }
            covered += block.len();
            inner_free += inner;
        }
        // Free pages outside every block would be a block whose head is used.
        let free: u64 = self.free.iter().map(|run| run.len()).sum();
        (covered == self.pages && inner_free == free).then_some(self.heads)
    }
}

#[derive(Clone, Copy, Debug)]
struct OurBlock {
    order: u8,
    node: u16,
    zone: ZoneKind,
    migrate: MigrateType,
}

type OurBlocks = BTreeMap<Pfn, OurBlock>;

fn our_blocks(allocator: &Allocator<MemoryMap>) -> OurBlocks {
    let mut blocks = OurBlocks::new();
    let max_order = allocator.profile().max_page_order as u8;
    for (node, kind, _) in zones(allocator) {
        let Some(zone) = allocator.profile().zones.index_of(kind) else {
            continue;
        };
        for migrate in MigrateType::ALL {
            for order in 0..=max_order {
                for pfn in allocator.free_list(node, zone, order, migrate) {
                    let block = OurBlock {
                        order,
                        node: node.get(),
                        zone: kind,
                        migrate,
                    };
                    blocks.insert(pfn, block);
                }
            }
        }
    }
    blocks
}

fn zones(allocator: &Allocator<MemoryMap>) -> impl Iterator<Item = (NodeId, ZoneKind, u64)> + '_ {
    let geometry = allocator.pages().geometry();
    geometry.populated_zones().map(|(node, zone)| {
        let counts = allocator.zone_counts(node.id, zone.index);
        (node.id, zone.kind, counts.managed)
    })
}
