//! Regions of a capture that nothing has used since hand-over, by the capture's own words.

use std::collections::BTreeMap;

use memblock::{Pfn, PfnRange};
use memmap_core::{Geometry, PageFlag, Profile, StructPage, StructPageSize};

use super::CapturedBlocks;

/// Stands for the address of a struct page's own word 1.
const OWN_LIST: u64 = 0x5e1f_5e1f_5e1f_5e1f;

impl CapturedBlocks {
    /// Regions that were not used since hand-over, by the capture's words, and the heads in them.
    /// Frames without a struct page of ours are no part of any: they are unequal by themselves.
    pub(super) fn untouched(&self, geometry: &Geometry) -> BTreeMap<u64, Vec<(Pfn, u8)>> {
        let profile = geometry.profile();
        let pages = profile.max_order_pages();
        let mut regions: BTreeMap<u64, Region> = BTreeMap::new();
        for segment in &self.segments {
            for part in parts(geometry, *segment) {
                let region = regions.entry(part.start().get() / pages).or_default();
                region.pages += part.len();
            }
        }
        for run in &self.runs {
            let what = classify(profile, &run.words);
            for part in parts(geometry, run.pfns) {
                let region = regions.entry(part.start().get() / pages).or_default();
                region.add(profile, part, what);
            }
        }
        regions
            .into_iter()
            .filter_map(|(number, region)| Some((number, region.finish(profile)?)))
            .collect()
    }
}

/// The frames of `pfns` that have struct pages, cut into regions.
fn parts(geometry: &Geometry, pfns: PfnRange) -> impl Iterator<Item = PfnRange> + '_ {
    let pages = geometry.profile().max_order_pages();
    geometry
        .sections()
        .valid_within(pfns)
        .flat_map(move |valid| {
            let first = valid.start().get() / pages;
            let end = valid.end().get().div_ceil(pages);
            (first..end).filter_map(move |number| {
                let start = Pfn::new(number * pages);
                PfnRange::new(start, start.saturating_add(pages)).intersection(valid)
            })
        })
}

/// What a listed struct page is, by its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Reserved, as initialised.
    Reserved,
    /// Free and never on a list since it was initialised.
    Free,
    /// The head of a free block of that order.
    Head(u8),
    /// Anything else.
    Used,
}

pub(super) fn classify(profile: &Profile, words: &[u64; 8]) -> What {
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
