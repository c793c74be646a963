//! The figures that we would print.

use std::collections::{BTreeSet, HashMap};

use memblock::{Memblock, NodeId, Pfn, PfnRange, PhysAddr};
use memmap_core::formulas::{BATCH_BYTES, lifo_batch, memmap_pages};
use memmap_core::{
    Arch, BootOptions, Geometry, ManagedEstimate, MemoryModel, Node, PageKind, Profile, Zone,
    ZoneIndex, ZoneKind,
};

use super::compare::{Key, key};
use super::holes::holes;
use super::reserved::reserved_kib;
use super::{BuildError, Reason};
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

/// Pages in use below 16 MiB when zones were sized, which some figures depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DmaReserve {
    /// The log says so, or this kernel does not ask.
    Known(u64),
    /// Those that the log and the release tell of. More may be.
    AtLeast(u64),
}

impl Default for DmaReserve {
    fn default() -> Self {
        Self::AtLeast(0)
    }
}

impl DmaReserve {
    /// The number that is reckoned with.
    pub(super) const fn pages(self) -> u64 {
        match self {
            Self::Known(pages) | Self::AtLeast(pages) => pages,
        }
    }

    /// Whether `pages` may be right although ours are `own`: the zone is 16 MiB at most.
    pub(super) const fn allows(self, pages: u64, own: u64) -> bool {
        !matches!(self, Self::Known(_)) && pages >= own && pages <= SIXTEEN_MIB / 4096
    }
}

const MIB: u64 = 1 << 20;
const SIXTEEN_MIB: u64 = 16 * MIB;

/// Our figures, and what they depend on that the input does not tell.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// The figures, in a kernel's order.
    pub(super) figures: Vec<FigureKind>,
    /// Where in `figures` each stands, by what it is about; lists are not in it.
    index: HashMap<Key, usize>,
    /// Pages in use below 16 MiB.
    pub(super) dma_reserve: DmaReserve,
    /// What is reserved of all memory, in KiB, or why that is not known.
    pub(super) reserved_kib: Result<u64, Reason>,
    /// The zone whose limit was taken from the log.
    pub(super) zone_limit_taken: Option<ZoneKind>,
    /// One past the last frame of memory (x86), and of what lies below 4 GiB.
    pub(super) last_pfns: (u64, u64),
    /// Pages that a device of this machine may have, whichever way it is used.
    pub(super) device_pages: BTreeSet<u64>,
}

impl Expected {
    /// Our figure about `key`.
    pub(super) fn find(&self, key: Key) -> Option<&FigureKind> {
        self.figures.get(*self.index.get(&key)?)
    }
}

/// What a memory map is built from, and the zone whose limit was taken from the log.
pub(super) fn built(
    layout: &MachineLayout,
    profile: &Profile,
) -> Result<(Memblock, Geometry, Option<ZoneKind>), BuildError> {
    let memblock = layout.memblock_of_pages(profile.page_size())?;
    let mut options = layout.boot_options();
    let limit = lowest_zone(layout, profile, &memblock);
    options.lowest_zone_end = limit.map(|(_, end)| end);
    let geometry = Geometry::new(profile, &memblock, &options)?;
    Ok((memblock, geometry, limit.map(|(zone, _)| zone)))
}

/// Works out what the kernel of `layout` would print, if it was built as `profile` says.
pub(super) fn expected(layout: &MachineLayout, profile: &Profile) -> Result<Expected, BuildError> {
    let (memblock, geometry, zone_limit_taken) = built(layout, profile)?;
    let options = layout.boot_options();
    let dma_reserve = match profile.behaviours.managed_estimate {
        ManagedEstimate::LessMemmap => dma_reserve(layout, &geometry),
        ManagedEstimate::Present => DmaReserve::Known(0),
    };
    let figures = figures(layout, &geometry, &options, dma_reserve.pages());
    let mut index = HashMap::with_capacity(figures.len());
    for (at, kind) in figures.iter().enumerate() {
        index.entry(key(kind)).or_insert(at);
    }
    Ok(Expected {
        figures,
        index,
        dma_reserve,
        reserved_kib: reserved_kib(layout, &geometry, &memblock),
        zone_limit_taken,
        last_pfns: last_pfns(layout),
        device_pages: device_pages(layout, profile.page_size()),
    })
}

/// The lowest zone and where the log shows it to end, where that is not where the architecture
/// by itself would have it: devices of the platform set it, and no other line tells.
fn lowest_zone(
    layout: &MachineLayout,
    profile: &Profile,
    memblock: &Memblock,
) -> Option<(ZoneKind, PhysAddr)> {
    if !matches!(profile.arch, Arch::Arm64 | Arch::Riscv64) {
        return None;
    }
    let (_, lowest) = profile.zones.iter().next()?;
    if !matches!(lowest, ZoneKind::Dma | ZoneKind::Dma32) {
        return None;
    }
    let printed = layout
        .figures
        .zone_ranges()
        .find_map(|(zone, range)| range.filter(|_| zone == lowest))?;
    let own = memblock.end_of_dram().min(PhysAddr::new(4 << 30));
    (printed.end() != own).then_some((lowest, printed.end()))
}

/// Pages in use below 16 MiB when zones were sized; only x86 counts them.
fn dma_reserve(layout: &MachineLayout, geometry: &Geometry) -> DmaReserve {
    if !matches!(layout.architecture, Some(Architecture::Amd64) | None) {
        return DmaReserve::Known(0);
    }
    // What the log says is reckoned with; the line itself is judged by the rule.
    let printed = layout.figures.iter().find_map(|figure| match figure.kind {
        FigureKind::ReservedPages { pages, .. } => Some(pages),
        _ => None,
    });
    if let Some(pages) = printed {
        return DmaReserve::Known(pages);
    }
    DmaReserve::AtLeast(in_use(layout, geometry))
}

/// Pages of memory below 16 MiB that are known to be in use: those of which a page or a part is
/// reserved by what was read, and since 5.14 all below 1 MiB.
fn in_use(layout: &MachineLayout, geometry: &Geometry) -> u64 {
    let shift = geometry.profile().page_shift;
    let pfn = |address| PhysAddr::new(address).pfn_down(shift);
    let below = PfnRange::new(Pfn::ZERO, pfn(SIXTEEN_MIB));
    let release = layout.release.as_ref();
    let low_is_taken = release.is_some_and(|release| release.number() >= (5, 14));
    let free_from = if low_is_taken { pfn(MIB) } else { Pfn::ZERO };
    let may_be_free = PfnRange::new(free_from, below.end());
    let memory = |within: PfnRange| {
        let ranges = geometry.memory().iter();
        let parts = ranges.filter_map(move |memory| memory.pfns.intersection(within));
        parts.map(PfnRange::len).sum::<u64>()
    };
    let free = match layout.provenance.reserved {
        ReservedSource::MemblockDump | ReservedSource::SingleLines => geometry
            .page_runs_within(may_be_free)
            .filter(|run| run.kind == PageKind::Free)
            .map(|run| run.pfns.len())
            .sum(),
        // what is reserved now, or by half of a dump, may not have been at the time
        _ => memory(may_be_free),
    };
    memory(below).saturating_sub(free)
}

/// One past the last frame of memory, and of what lies below 4 GiB.
fn last_pfns(layout: &MachineLayout) -> (u64, u64) {
    let shift = 12;
    let last = |limit: PhysAddr| {
        let ends = layout.memory.iter().filter_map(|memory| {
            let below = memory.range.start() < limit;
            below.then(|| memory.range.end().min(limit).pfn_down(shift).get())
        });
        ends.max().unwrap_or(0)
    };
    (last(PhysAddr::MAX), last(PhysAddr::new(4 << 30)))
}

/// Pages that a device may have: all of it, or what is left where its memory map lies on it.
///
/// The map and 8 KiB of description take up whole alignments from the device's start.
fn device_pages(layout: &MachineLayout, page_size: u64) -> BTreeSet<u64> {
    let shift = page_size.trailing_zeros();
    let ranges = layout.devices.iter();
    let sizes = ranges.map(|device| device.range.pfns_inner(shift).len());
    let capacities = layout.capacities.iter().map(|bytes| bytes >> shift);
    let mut out = BTreeSet::new();
    for pages in sizes.chain(capacities) {
        out.insert(pages);
        for align in [2 * MIB, SIXTEEN_MIB, 1 << 30] {
            let map = pages.saturating_mul(64).saturating_add(8 << 10);
            let taken = map.div_ceil(align).saturating_mul(align) >> shift;
            out.extend(pages.checked_sub(taken));
        }
    }
    out
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
    let x86 = profile.arch == Arch::Amd64;
    let rule = if x86 { in_use(layout, geometry) } else { 0 };
    let dma = (dma_reserve, rule);
    for node in geometry.nodes() {
        out.push(FigureKind::TotalPages {
            node: node.id,
            pages: node.present,
        });
        for zone in node.zones.iter().filter(|zone| zone.is_populated()) {
            zone_figures(&mut out, profile, node, zone, dma, version);
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
    let with_memory: Vec<NodeId> = geometry
        .nodes()
        .iter()
        .filter(|node| node.has_memory())
        .map(|node| node.id)
        .collect();
    // Of many nodes each has a list of all, which no machine with so many has printed.
    if with_memory.len() <= 64 {
        let bare = options.memoryless.iter().chain(&options.offline);
        let bare = bare.filter(|node| !with_memory.contains(node));
        for &node in with_memory.iter().chain(bare) {
            let mut order = with_memory.clone();
            // Seen: on 5.19, 6.1, 6.2 and 6.4, and no more on 6.12 and 6.15.
            if version < (6, 5) && !order.contains(&node) {
                order.push(node);
            }
            out.push(FigureKind::Fallback { node, order });
        }
    }
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
    (dma_reserve, reserved): (u64, u64),
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
                pages: reserved,
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
