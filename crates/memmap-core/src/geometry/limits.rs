//! Where zones begin and end, whatever the nodes.
//!
//! The architecture says up to which frame each zone may reach; every zone begins where the one
//! below it ends.

use alloc::vec::Vec;

use memblock::{Pfn, PfnRange, PhysAddr};

use crate::profile::{Arch, Arm64DmaLimit, Profile, ZoneIndex, ZoneKind};

use super::BootOptions;
use super::input::Input;

/// The frames that each zone may hold, by zone index, and which zone Movable takes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneLimits {
    limits: Vec<PfnRange>,
    movable_zone: ZoneIndex,
}

const SIXTEEN_MIB: u64 = 16 << 20;
const TWO_GIB: u64 = 2 << 30;
const FOUR_GIB: u64 = 4 << 30;

impl ZoneLimits {
    /// Linux: mm/mm_init.c, `free_area_init`.
    pub(super) fn new(profile: &Profile, input: &Input, options: &BootOptions) -> Self {
        let shift = profile.page_shift;
        let max_low = options
            .max_low_pfn
            .unwrap_or(input.dram_end.pfn_down(shift));
        let mut start = input.dram_start;
        let mut limits = Vec::with_capacity(profile.zones.len());
        for (_, kind) in profile.zones.iter() {
            if matches!(kind, ZoneKind::Movable | ZoneKind::Device) {
                limits.push(match kind {
                    // Linux leaves Movable at zero; Device ends up empty at the top.
                    ZoneKind::Movable => PfnRange::new(Pfn::ZERO, Pfn::ZERO),
                    _ => PfnRange::new(start, start),
                });
                continue;
            }
            let end = match options.lowest_zone_end {
                Some(end) if limits.is_empty() => end.pfn_down(shift).min(max_low),
                _ => max_zone_pfn(profile, input, options, kind, max_low),
            };
            let end = end.max(start);
            limits.push(PfnRange::new(start, end));
            start = end;
        }
        let movable_zone = profile
            .zones
            .iter()
            .filter(|(index, kind)| *kind != ZoneKind::Movable && !limits[index.index()].is_empty())
            .last()
            .map_or(ZoneIndex(0), |(index, _)| index);
        Self {
            limits,
            movable_zone,
        }
    }

    /// The frames that zone `index` may hold; empty for Movable, Device and unknown zones.
    #[doc(alias = "arch_zone_lowest_possible_pfn")]
    #[doc(alias = "arch_zone_highest_possible_pfn")]
    pub fn get(&self, index: ZoneIndex) -> PfnRange {
        self.limits.get(index.index()).copied().unwrap_or_default()
    }

    /// The highest zone that has frames: Movable is cut from it.
    pub const fn movable_zone(&self) -> ZoneIndex {
        self.movable_zone
    }
}

/// One past the last frame that the architecture lets a zone of `kind` hold.
#[doc(alias = "arch_zone_limits_init")]
fn max_zone_pfn(
    profile: &Profile,
    input: &Input,
    options: &BootOptions,
    kind: ZoneKind,
    max_low: Pfn,
) -> Pfn {
    let shift = profile.page_shift;
    let below = |bytes: u64| PhysAddr::new(bytes).pfn_down(shift).min(max_low);
    match (profile.arch, kind) {
        (_, ZoneKind::Normal | ZoneKind::HighMem) => max_low,
        (Arch::Arm64, ZoneKind::Dma) => {
            let limit = options.dma_limit.unwrap_or(PhysAddr::MAX);
            arm64_limit(profile, input, limit).pfn_down(shift)
        }
        (Arch::Arm64, ZoneKind::Dma32) => {
            arm64_limit(profile, input, PhysAddr::new(FOUR_GIB - 1)).pfn_down(shift)
        }
        // s390 does not lower the limit to the end of memory.
        (Arch::S390x, ZoneKind::Dma) => PhysAddr::new(TWO_GIB).pfn_down(shift),
        (Arch::Ppc64, ZoneKind::Dma) => below(TWO_GIB),
        (_, ZoneKind::Dma) => below(SIXTEEN_MIB),
        (_, ZoneKind::Dma32) => below(FOUR_GIB),
        (_, ZoneKind::Movable | ZoneKind::Device) => Pfn::ZERO,
    }
}

/// One past the highest address of an arm64 zone that devices reach up to `limit` (inclusive).
///
/// Linux: arch/arm64/mm/init.c, `max_zone_phys`.
fn arm64_limit(profile: &Profile, input: &Input, limit: PhysAddr) -> PhysAddr {
    let start = input.dram_start.phys(profile.page_shift);
    let below_4g = start.get() < FOUR_GIB;
    let limit = match profile.behaviours.arm64_dma_limit {
        Arm64DmaLimit::Address if below_4g => limit.get().min(FOUR_GIB - 1),
        Arm64DmaLimit::Address => limit.get(),
        Arm64DmaLimit::Bits => {
            let bits = (64 - limit.get().leading_zeros()).clamp(1, 32);
            let mask = u64::MAX >> (64 - bits);
            if !below_4g {
                u64::MAX
            } else if start.get() > mask {
                FOUR_GIB - 1
            } else {
                mask
            }
        }
    };
    PhysAddr::new(limit.min(input.dram_end.get().saturating_sub(1))).saturating_add(1)
}
