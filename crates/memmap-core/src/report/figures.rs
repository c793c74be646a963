//! Figures that only printed lines need.

use crate::geometry::{Geometry, Node, PageKind, Zone};
use crate::profile::{Arch, ManagedEstimate, MemoryModel, ZoneIndex, ZoneKind};

use super::formulas;

/// A zone's pages as they are taken to be before hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    /// Pages of its part of the memory map, where the kernel subtracts them.
    pub(super) memmap: Option<u64>,
    /// Pages in use below the DMA limit, where it subtracts them.
    pub(super) reserved: Option<u64>,
    /// What is left.
    pub(super) managed: u64,
}

/// Linux: mm/page_alloc.c, `free_area_init_core` (6.1).
pub(super) fn estimate(geometry: &Geometry, zone: &Zone) -> Estimate {
    let profile = geometry.profile();
    let mut estimate = Estimate {
        memmap: None,
        reserved: None,
        managed: zone.present,
    };
    if profile.behaviours.managed_estimate == ManagedEstimate::Present {
        return estimate;
    }
    if zone.kind != ZoneKind::HighMem {
        let memmap = memmap_pages(geometry, zone);
        if zone.present >= memmap {
            estimate.managed -= memmap;
        }
        estimate.memmap = Some(memmap);
    }
    if zone.index == ZoneIndex(0) && estimate.managed > geometry.dma_reserve() {
        estimate.managed -= geometry.dma_reserve();
        estimate.reserved = Some(geometry.dma_reserve());
    }
    estimate
}

/// Pages that the struct pages of `zone` take.
fn memmap_pages(geometry: &Geometry, zone: &Zone) -> u64 {
    let profile = geometry.profile();
    formulas::memmap_pages(
        (zone.spanned, zone.present),
        profile.memory_model != MemoryModel::Flat,
        profile.struct_page_bytes.into(),
        profile.page_shift,
    )
}

/// What `LIFO batch:` names for a zone that is taken to have `managed` pages.
pub(super) fn batch(geometry: &Geometry, managed: u64) -> u64 {
    let profile = geometry.profile();
    let behaviour = profile.behaviours.lifo_batch;
    formulas::lifo_batch(
        managed,
        profile.page_shift,
        formulas::BATCH_BYTES,
        behaviour,
    )
}

impl Geometry {
    /// Pages of the first zone that were in use when the zones were sized: those that
    /// [`BootOptions::dma_reserve`](crate::BootOptions::dma_reserve) says, or, on amd64, those
    /// below 16 MiB that are not free at hand-over.
    #[doc(alias = "set_dma_reserve")]
    pub fn dma_reserve(&self) -> u64 {
        if let Some(pages) = self.dma_reserve_option() {
            return pages;
        }
        if self.profile().arch != Arch::Amd64 {
            return 0;
        }
        let limit = (16 << 20) >> self.profile().page_shift;
        let below = memblock::PfnRange::new(memblock::Pfn::ZERO, memblock::Pfn::new(limit));
        let memory: u64 = self
            .memory()
            .iter()
            .filter_map(|range| range.pfns.intersection(below))
            .map(memblock::PfnRange::len)
            .sum();
        let free: u64 = self
            .page_runs_within(below)
            .filter(|run| run.kind == PageKind::Free)
            .map(|run| run.pfns.len())
            .sum();
        memory - free
    }

    /// Pages that zone `zone` of `node` gets at hand-over.
    pub fn managed_pages(&self, node: &Node, zone: &Zone) -> u64 {
        self.page_runs_within(zone.span())
            .filter(|run| {
                (run.node, run.zone) == (node.id, zone.index) && run.kind == PageKind::Free
            })
            .map(|run| run.pfns.len())
            .sum()
    }
}
