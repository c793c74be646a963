//! The figures that we would print.

use memblock::{Memblock, MemblockFlags, NodeId, Pfn, PfnRange, PhysAddr};
use memmap_core::formulas::{BATCH_BYTES, lifo_batch, memmap_pages};
use memmap_core::{
    Arm64DmaLimit, BootOptions, Geometry, Hole, ManagedEstimate, MemoryModel, Node, Profile, Zone,
    ZoneIndex, ZoneKind,
};

use super::BuildError;
use crate::figures::FigureKind;
use crate::layout::{MachineLayout, ReservedSource};
use crate::release::Architecture;

/// Largest number of bytes that a CPU's list of one zone takes at a time, four lists' worth.
///
/// 512 KiB up to 4.x, 1 MiB from 5.0 on (seen: 31 pages on 4.18 and 4.19 machines, 63 on a 5.0
/// one, both with pages of 4 KiB).
const fn batch_bytes(version: (u16, u16)) -> u64 {
    if version.0 < 5 {
        512 << 10
    } else {
        BATCH_BYTES
    }
}

/// Our figures, and what they depend on that the input does not tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected {
    /// The figures, in a kernel's order.
    pub(super) figures: Vec<FigureKind>,
    /// Pages in use below 16 MiB are unknown, and some figures depend on them.
    pub(super) dma_reserve_unknown: bool,
    /// What is reserved of all memory, in KiB, where it is known.
    pub(super) reserved_kib: Option<u64>,
    /// The DMA limit was taken from the log.
    pub(super) dma_limit_taken: bool,
}

/// Works out what the kernel of `layout` would print, if it was built as `profile` says.
pub(super) fn expected(layout: &MachineLayout, profile: &Profile) -> Result<Expected, BuildError> {
    let mut layout_now = layout.clone();
    // The page size is the candidate's; ranges in bytes stay what they are.
    layout_now.page_size = profile.page_size();
    let memblock = layout_now.memblock()?;
    let mut options = layout.boot_options();
    let mut out = Expected::default();
    if let Some(limit) = dma_limit(layout, profile, &memblock) {
        options.dma_limit = Some(limit);
        out.dma_limit_taken = true;
    }
    let mut profile = profile.clone();
    if out.dma_limit_taken {
        // 5.5 to 5.9 count the limit from where memory begins; as an address it is the same.
        let mut config = profile.config().clone();
        config.behaviours.arm64_dma_limit = Arm64DmaLimit::Address;
        profile = config.build().unwrap_or(profile);
    }
    let geometry = Geometry::new(&profile, &memblock, &options)?;
    let dma_reserve = dma_reserve(layout);
    out.dma_reserve_unknown =
        dma_reserve.is_none() && profile.behaviours.managed_estimate == ManagedEstimate::LessMemmap;
    out.figures = figures(layout, &geometry, &options, dma_reserve.unwrap_or(0));
    out.reserved_kib = reserved_kib(layout, &geometry, &memblock);
    Ok(out)
}

/// The DMA limit that the log shows, where it is lower than what arm64 has by itself.
fn dma_limit(layout: &MachineLayout, profile: &Profile, memblock: &Memblock) -> Option<PhysAddr> {
    if profile.arch != memmap_core::Arch::Arm64 {
        return None;
    }
    let printed = layout
        .figures
        .zone_ranges()
        .find_map(|(zone, range)| match zone {
            ZoneKind::Dma => range,
            _ => None,
        })?;
    let own = memblock.end_of_dram().min(PhysAddr::new(4 << 30));
    (printed.end() < own).then(|| PhysAddr::new(printed.end().get().saturating_sub(1)))
}

/// Pages in use below 16 MiB when zones were sized: printed, or none where nobody counts them.
fn dma_reserve(layout: &MachineLayout) -> Option<u64> {
    let printed = layout.figures.iter().find_map(|figure| match figure.kind {
        FigureKind::ReservedPages { pages, .. } => Some(pages),
        _ => None,
    });
    let counted = matches!(layout.architecture, Some(Architecture::Amd64) | None);
    printed.or((!counted).then_some(0))
}

/// Holes with struct pages, as this version finds and prints them.
fn holes(layout: &MachineLayout, geometry: &Geometry) -> Vec<(NodeId, ZoneKind, u64)> {
    let version = layout.release.as_ref().map(|release| release.number());
    let asks_memblock = geometry.profile().arch == memmap_core::Arch::Arm64
        && version.is_some_and(|version| version < (5, 14));
    let by_zone = layout
        .figures
        .unavailable()
        .any(|(node, ..)| node.is_none());
    if by_zone {
        return holes_by_zone(geometry, asks_memblock);
    }
    let kind = |zone| geometry.profile().zones.kind(zone);
    let hole = |hole: &Hole| {
        let pages = match asks_memblock {
            true => up_to_pageblock(geometry, hole.pfns),
            false => hole.pages,
        };
        (pages > 0).then_some((hole.node, kind(hole.zone)?, pages))
    };
    geometry.holes().iter().filter_map(hole).collect()
}

/// Kernels of 5.11 to 5.13: one line a zone, holes counted from where the last zone stopped, and
/// up to the end of the section that the zone ends in.
fn holes_by_zone(geometry: &Geometry, asks_memblock: bool) -> Vec<(NodeId, ZoneKind, u64)> {
    let section = geometry.profile().pages_per_section();
    let counted = |hole: PfnRange| match asks_memblock {
        true => up_to_pageblock(geometry, hole),
        false => {
            let valid = geometry.sections().valid_within(hole);
            valid.map(PfnRange::len).sum()
        }
    };
    let mut at = Pfn::ZERO;
    let mut out = Vec::new();
    for (node, zone) in geometry.populated_zones() {
        let mut pages = 0;
        let span = zone.span();
        let inside = geometry
            .memory()
            .iter()
            .filter(|memory| memory.node == node.id);
        for piece in inside.filter_map(|memory| memory.pfns.intersection(span)) {
            pages += counted(PfnRange::new(at, piece.start()));
            at = at.max(piece.end());
        }
        let end = span.end().align_up(section);
        pages += counted(PfnRange::new(at, end));
        at = at.max(end);
        if pages > 0 {
            out.push((node.id, zone.kind, pages));
        }
    }
    out
}

/// Pages of `hole` whose pageblock begins in memory that is mapped.
fn up_to_pageblock(geometry: &Geometry, hole: PfnRange) -> u64 {
    let block = geometry.profile().pageblock_pages();
    let start = hole.start().align_down(block);
    let mapped = geometry
        .memory()
        .iter()
        .any(|memory| memory.pfns.contains(start) && !memory.flags.contains(MemblockFlags::NOMAP));
    if hole.is_empty() || hole.start().is_aligned(block) || !mapped {
        return 0;
    }
    let end = hole.start().align_up(block).min(hole.end());
    end.get() - hole.start().get()
}

fn figures(
    layout: &MachineLayout,
    geometry: &Geometry,
    options: &BootOptions,
    dma_reserve: u64,
) -> Vec<FigureKind> {
    let profile = geometry.profile();
    let shift = profile.page_shift;
    let mut out = Vec::new();
    for (index, zone) in profile.zones.iter() {
        if zone != ZoneKind::Movable {
            let pfns = geometry.zone_limits().get(index);
            let range = (!pfns.is_empty()).then(|| pfns.phys(shift));
            out.push(FigureKind::ZoneRange { zone, range });
        }
    }
    for node in geometry.nodes() {
        if let Some(start) = node.movable_start {
            out.push(FigureKind::MovableStart {
                node: node.id,
                start: start.phys(shift),
            });
        }
    }
    for memory in geometry.memory() {
        out.push(FigureKind::EarlyRange {
            node: memory.node,
            range: memory.pfns.phys(shift),
        });
    }
    for node in geometry.nodes() {
        let range = (!node.span.is_empty()).then(|| node.span.phys(shift));
        out.push(FigureKind::Initmem {
            node: node.id,
            range,
        });
    }
    let version = layout.release.as_ref().map_or((6, 12), |r| r.number());
    for node in geometry.nodes() {
        out.push(FigureKind::TotalPages {
            node: node.id,
            pages: node.present,
        });
        for zone in node.zones.iter().filter(|zone| zone.is_populated()) {
            zone_figures(&mut out, profile, node, zone, dma_reserve, version);
        }
    }
    let holes = holes(layout, geometry);
    let all: u64 = holes.iter().map(|(_, _, pages)| pages).sum();
    let end = geometry
        .memory()
        .last()
        .map_or(Pfn::ZERO, |last| last.pfns.end());
    let behind = geometry
        .holes()
        .iter()
        .filter(|hole| hole.pfns.start() >= end);
    let tail: u64 = match version < (5, 6) {
        true => behind.map(|hole| hole.pages).sum(),
        false => 0,
    };
    out.push(FigureKind::ZeroedPages {
        pages: all.saturating_sub(tail),
    });
    out.extend(holes.into_iter().map(|(node, zone, pages)| {
        let node = Some(node);
        FigureKind::Unavailable { node, zone, pages }
    }));
    let online = |node: &&Node| node.online && !options.offline.contains(&node.id);
    let estimate = |(_, zone): (&Node, &Zone)| managed(profile, zone, dma_reserve);
    out.push(FigureKind::Zonelists {
        lists: geometry.nodes().iter().filter(online).count() as u64,
        grouping: true,
        pages: geometry.populated_zones().map(estimate).sum(),
    });
    let highest = geometry
        .populated_zones()
        .map(|(_, zone)| zone.kind)
        .filter(|kind| *kind < ZoneKind::Movable)
        .max();
    out.extend(highest.map(|zone| FigureKind::PolicyZone { zone }));
    let pages: u64 = geometry.nodes().iter().map(|node| node.present).sum();
    out.push(FigureKind::Memory {
        available: 0,
        total: pages << (shift - 10),
        reserved: 0,
        cma: None,
        highmem: None,
    });
    out
}

/// Pages that the memory map of `zone` takes.
fn memmap_of(profile: &Profile, zone: &Zone) -> u64 {
    let sparse = profile.memory_model != MemoryModel::Flat;
    memmap_pages(
        (zone.spanned, zone.present),
        sparse,
        profile.struct_page_bytes.into(),
        profile.page_shift,
    )
}

/// Pages that a zone is taken to manage before memory is handed over.
fn managed(profile: &Profile, zone: &Zone, dma_reserve: u64) -> u64 {
    if profile.behaviours.managed_estimate == ManagedEstimate::Present {
        return zone.present;
    }
    let memmap = memmap_of(profile, zone);
    let left = zone.present.checked_sub(memmap).unwrap_or(zone.present);
    if zone.index == ZoneIndex(0) && left > dma_reserve {
        left - dma_reserve
    } else {
        left
    }
}

fn zone_figures(
    out: &mut Vec<FigureKind>,
    profile: &Profile,
    node: &Node,
    zone: &Zone,
    dma_reserve: u64,
    version: (u16, u16),
) {
    let (id, kind) = (Some(node.id), zone.kind);
    if profile.behaviours.managed_estimate == ManagedEstimate::LessMemmap {
        let memmap = memmap_of(profile, zone);
        out.push(FigureKind::MemmapPages {
            node: id,
            zone: kind,
            pages: memmap,
        });
        if zone.index == ZoneIndex(0) {
            out.push(FigureKind::ReservedPages {
                node: id,
                zone: kind,
                pages: dma_reserve,
            });
        }
    }
    out.push(FigureKind::ZonePages {
        node: id,
        zone: kind,
        pages: zone.present,
        batch: lifo_batch(
            managed(profile, zone, dma_reserve),
            profile.page_shift,
            batch_bytes(version),
            profile.behaviours.lifo_batch,
        ),
    });
}

/// What `Memory:` calls reserved, where every reservation is known: present pages that were not
/// handed over, less those of the contiguous allocator.
fn reserved_kib(layout: &MachineLayout, geometry: &Geometry, memblock: &Memblock) -> Option<u64> {
    if layout.provenance.reserved != ReservedSource::MemblockDump || !layout.handed_over {
        return None;
    }
    let shift = geometry.profile().page_shift;
    let free: u64 = memblock
        .free_ranges(None, MemblockFlags::empty())
        .map(|region| region.range().pfns_inner(shift).len())
        .sum();
    let (line, cma) = layout.figures.iter().find_map(|figure| match figure.kind {
        FigureKind::Memory { cma, .. } => Some((figure.at.line, cma.unwrap_or(0))),
        _ => None,
    })?;
    // What was given back before the line was printed counts as handed over.
    let freed = layout.freed.iter().filter(|freed| freed.0 < line);
    let given_back: u64 = freed.map(|freed| freed.1).fold(0, u64::saturating_add);
    let present: u64 = geometry.nodes().iter().map(|node| node.present).sum();
    let reserved = present.checked_sub(free)? << (shift - 10);
    reserved.checked_sub(cma)?.checked_sub(given_back)
}
