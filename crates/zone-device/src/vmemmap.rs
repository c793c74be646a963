//! How much memory map a device takes.
//!
//! All tails of a compound but the first few are equal, so kernels that can do it keep two pages of
//! memory map a compound and let the others lie in the same memory as the second. This crate
//! writes every struct page by default, each in its own memory; what sharing saves is only
//! counted here ([`SharedVmemmap`](crate::SharedVmemmap) is the view that does share).
//!
//! Sections that have had a memory map since boot keep it: a device takes none there, and none of
//! it is shared.

use alloc::vec::Vec;

use memblock::{Pfn, PfnRange};
use memmap_core::{DeviceMemmapCount, KernelConfig};

use crate::{DevPagemap, Site};

/// Pages of the memory map that keep their own memory in a compound that shares.
#[doc(alias = "VMEMMAP_RESERVE_NR")]
const UNSHARED_PAGES: u64 = 2;

/// Pages of memory map, each of the kernel's page size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VmemmapUse {
    /// Pages that the device's struct pages fill, each in its own memory.
    pub whole: u64,
    /// Pages that a kernel which shares saves of them.
    pub saved: u64,
    /// Pages that the kernel's statistics count, which is `whole` in some releases although fewer
    /// are taken.
    #[doc(alias = "nr_memmap_pages")]
    pub accounted: u64,
}

/// Whether the kernel lets equal tails of this device lie in the same memory.
#[doc(alias = "vmemmap_can_optimize")]
pub(crate) fn can_share(config: &KernelConfig, pagemap: &DevPagemap) -> bool {
    let size = u64::from(config.struct_page_bytes);
    let pages = (size << pagemap.vmemmap_shift()) >> config.page_shift;
    config.dax_hvo && pagemap.altmap().is_none() && size.is_power_of_two() && pages > UNSHARED_PAGES
}

/// Struct pages of a compound that keep their own memory.
#[doc(alias = "compound_nr_pages")]
pub(crate) fn unshared_struct_pages(config: &KernelConfig) -> u64 {
    UNSHARED_PAGES * config.page_size() / u64::from(config.struct_page_bytes)
}

/// Cuts `pfns` where the compounds' heads pass from sections with a boot-time map to others or
/// back; `true` stands for boot-time maps.
pub(crate) fn by_section_kind(
    config: &KernelConfig,
    site: &Site,
    pfns: PfnRange,
    order: u32,
) -> Vec<(PfnRange, bool)> {
    let pages = 1 << order;
    let mut boot: Vec<PfnRange> = site
        .boot_sections
        .iter()
        .map(|range| {
            let section = config.pages_per_section();
            let (start, end) = (
                range.start().align_down(section),
                range.end().align_up(section),
            );
            PfnRange::new(start.align_up(pages), end.align_up(pages))
        })
        .filter_map(|range| range.intersection(pfns))
        .collect();
    boot.sort_unstable_by_key(|range| range.start());
    let mut pieces = Vec::new();
    let mut at = pfns.start();
    for range in boot {
        let start = range.start().max(at);
        if at < start {
            pieces.push((PfnRange::new(at, start), false));
        }
        if start < range.end() {
            pieces.push((PfnRange::new(start, range.end()), true));
            at = range.end();
        }
    }
    if at < pfns.end() {
        pieces.push((PfnRange::new(at, pfns.end()), false));
    }
    pieces
}

/// Counts the memory map of a device. It is made section by section, so a partial section takes
/// whole pages of it.
pub(crate) fn count(
    config: &KernelConfig,
    pagemap: &DevPagemap,
    site: &Site,
    ranges: &[PfnRange],
) -> VmemmapUse {
    let shares = can_share(config, pagemap);
    let compound = 1 << pagemap.vmemmap_shift();
    let size = u64::from(config.struct_page_bytes);
    let (mut whole, mut used) = (0, 0);
    for &range in ranges {
        for (piece, boot) in by_section_kind(config, site, range, 0) {
            if boot {
                continue;
            }
            let pages = |frames: u64| (frames * size).div_ceil(config.page_size());
            let own = sections(piece, config.pages_per_section())
                .map(|(frames, count)| pages(frames) * count)
                .sum::<u64>();
            whole += own;
            used += if shares {
                UNSHARED_PAGES * heads(piece, compound)
            } else {
                own
            };
        }
    }
    let accounted = match config.behaviours.device_memmap_count {
        DeviceMemmapCount::Whole => whole,
        DeviceMemmapCount::Unshared => used,
    };
    VmemmapUse {
        whole,
        saved: whole - used,
        accounted,
    }
}

/// Heads of compounds of `compound` pages in `pfns`.
fn heads(pfns: PfnRange, compound: u64) -> u64 {
    pfns.end().get().div_ceil(compound) - pfns.start().get().div_ceil(compound)
}

/// The frames that `pfns` has in each section that it touches, and in how many sections so many.
fn sections(pfns: PfnRange, section: u64) -> impl Iterator<Item = (u64, u64)> {
    let first = pfns.start().align_up(section).min(pfns.end());
    let last = pfns.end().align_down(section).max(first);
    let before = Pfn::get(first) - pfns.start().get();
    let after = pfns.end().get() - last.get();
    let whole = (last.get() - first.get()) / section;
    [(before, 1), (section, whole), (after, 1)].into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceRuns, MemoryType};
    use memblock::{PhysAddr, PhysRange};
    use memmap_core::{KernelVersion, Profile};

    fn used(profile: &Profile, order: u32, boot: Vec<PfnRange>) -> VmemmapUse {
        let range = PhysRange::from_size(PhysAddr::new(4 << 30), 1 << 30);
        let pagemap = DevPagemap::new(MemoryType::Generic, 8)
            .with_range(range)
            .with_vmemmap_shift(order);
        let site = Site::default().with_boot_sections(boot);
        DeviceRuns::new(profile, &pagemap, &site).unwrap().vmemmap()
    }

    #[test]
    fn six_of_eight_pages_are_saved_of_2_mib_and_all_but_two_of_1_gib() {
        let profile = Profile::amd64(KernelVersion::V6_12);
        let at = |order| used(&profile, order, Vec::new());
        let of = |whole, saved, accounted| VmemmapUse {
            whole,
            saved,
            accounted,
        };
        assert_eq!(at(0), of(4096, 0, 4096));
        assert_eq!(
            at(7),
            of(4096, 0, 4096),
            "two pages of memory map: none to share"
        );
        assert_eq!(at(8), of(4096, 2048, 2048));
        assert_eq!(at(9), of(4096, 512 * 6, 1024));
        assert_eq!(at(18), of(4096, 4094, 2));
        let old = Profile::amd64(KernelVersion::V6_18);
        assert_eq!(used(&old, 9, Vec::new()), of(4096, 512 * 6, 4096));
        let arm = Profile::arm64_4k(KernelVersion::V7_3);
        assert_eq!(used(&arm, 9, Vec::new()), of(4096, 0, 4096));
    }

    #[test]
    fn sections_with_a_boot_time_map_take_nothing() {
        let profile = Profile::amd64(KernelVersion::V7_3);
        // two of eight sections, one named by a few of its frames
        let boot = [(0x10_0000, 0x10_8000), (0x12_0200, 0x12_0400)];
        let boot = boot.map(|(a, b)| PfnRange::new(Pfn::new(a), Pfn::new(b)));
        let use_ = used(&profile, 9, boot.to_vec());
        assert_eq!((use_.whole, use_.saved), (4096 * 6 / 8, 512 * 6 * 6 / 8));
    }

    #[test]
    fn pages_of_16_kib_share_from_compounds_of_32_mib_on() {
        let mut config = Profile::arm64_16k(KernelVersion::V7_3).config().clone();
        config.dax_hvo = true;
        let pagemap = |order| DevPagemap::new(MemoryType::Generic, 8).with_vmemmap_shift(order);
        assert!(!can_share(&config, &pagemap(7)));
        assert!(can_share(&config, &pagemap(11)));
        assert_eq!(unshared_struct_pages(&config), 512);
    }
}
