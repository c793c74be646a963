//! Which pageblocks of a device become movable.
//!
//! Every block of memory begins as unmovable; initialisation of a device makes its blocks movable.
//! Some releases do so only where they come by, and of a large compound that shares its memory map
//! they come by the first block alone.

use memblock::{Pfn, PfnRange};
use memmap_core::{DevicePageblocks, Profile};

use crate::{DeviceKind, DeviceRun, DeviceRuns};

impl DeviceRuns {
    /// The first frames of the pageblocks that become movable, ascending. What the blocks were
    /// before, others keep.
    ///
    /// `profile` is the one that the runs were made for.
    #[doc(alias = "set_pageblock_migratetype")]
    pub fn movable_blocks<'a>(&'a self, profile: &'a Profile) -> impl Iterator<Item = Pfn> + 'a {
        let partial = profile.behaviours.device_pageblocks == DevicePageblocks::OnlyInitialised;
        self.runs()
            .iter()
            .filter(|run| run.kind() != DeviceKind::AltmapReserve)
            .flat_map(move |run| {
                blocks(run.pfns(), profile.pageblock_pages())
                    .filter(move |&pfn| !partial || is_initialised(run, pfn))
            })
    }
}

/// The frames in `pfns` that a block of `block` pages begins with.
fn blocks(pfns: PfnRange, block: u64) -> impl Iterator<Item = Pfn> {
    let mut at = pfns.start().align_up(block);
    core::iter::from_fn(move || {
        let pfn = at;
        at = pfn.saturating_add(block);
        pfns.contains(pfn).then_some(pfn)
    })
}

/// Whether the struct page of `pfn` is initialised by itself.
fn is_initialised(run: &DeviceRun, pfn: Pfn) -> bool {
    match run.kind() {
        DeviceKind::Compounds { order } => {
            let head = pfn.align_down(1 << order);
            pfn.get() - head.get() < run.initialised()
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Altmap, DevPagemap, MemoryType, Site};
    use alloc::vec::Vec;
    use memblock::{PhysAddr, PhysRange};
    use memmap_core::KernelVersion;

    fn movable(version: KernelVersion, order: u32, altmap: bool) -> Vec<u64> {
        let profile = Profile::amd64(version);
        let range = PhysRange::from_size(PhysAddr::new(4 << 30), 2 << 30);
        let mut pagemap = DevPagemap::new(MemoryType::Generic, 8)
            .with_range(range)
            .with_vmemmap_shift(order);
        if altmap {
            let pfns = range.pfns_inner(12);
            pagemap = pagemap.with_altmap(Altmap::of_namespace(pfns, &profile));
        }
        let runs = DeviceRuns::new(&profile, &pagemap, &Site::default()).unwrap();
        let blocks: Vec<u64> = runs.movable_blocks(&profile).map(Pfn::get).collect();
        assert!(blocks.is_sorted());
        blocks
    }

    #[test]
    fn every_block_of_a_huge_compound_is_movable_but_in_the_releases_with_the_bug() {
        for version in [
            KernelVersion::V6_1,
            KernelVersion::V6_12,
            KernelVersion::V7_3,
        ] {
            assert_eq!(movable(version, 18, false).len(), 1024);
        }
        let old = KernelVersion::V6_18;
        assert_eq!(movable(old, 18, false), [0x10_0000, 0x14_0000]);
        assert_eq!(movable(old, 9, false).len(), 1024);
        assert_eq!(movable(old, 0, false).len(), 1024);
        // without sharing, every struct page is initialised by itself
        assert_eq!(movable(old, 9, true).len(), 1023);
    }

    #[test]
    fn the_block_of_the_altmaps_reserved_pages_stays_as_it_was() {
        let blocks = movable(KernelVersion::V7_3, 0, true);
        assert_eq!((blocks.len(), blocks[0]), (1023, 0x10_0200));
    }
}
