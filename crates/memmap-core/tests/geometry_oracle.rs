//! The geometry beside an oracle that goes page by page, over random machines.
//!
//! The oracle keeps a value for every frame and follows the specification's sentences one by one
//! (3.4, 5.1 to 5.6, 2.10); the crate works on ranges. The Movable starts are taken from the
//! crate, which has test vectors of its own for them.

mod support;

use std::collections::BTreeMap;

use memblock::{MemblockFlags, NodeId, NodeMark, Pfn};
use memmap_core::{
    BootOptions, CoreSize, DeferOrder, Geometry, KernelVersion, NodeSpanned, PageKind, Phase,
    Profile, ReservedNode, ZoneIndex, ZoneKind, ZoneSet,
};
use proptest::prelude::*;
use support::*;

const PAGE: u64 = 4096;
const SECTION: u64 = 512;
const DMA_END: u64 = 4096;

/// Sections of 2 MiB, zones DMA, Normal, Movable.
fn profile(version: KernelVersion) -> Profile {
    let mut config = Profile::amd64(version).config().clone();
    config.section_bits = 21;
    config.max_page_order = 6;
    config.pageblock_order = 4;
    config.zones = ZoneSet::new(&[ZoneKind::Dma]);
    config.build().expect("small sections build")
}

#[derive(Clone, Debug)]
struct Region {
    start: u64,
    end: u64,
    node: u16,
    flags: MemblockFlags,
}

#[derive(Clone, Debug)]
struct Machine {
    memory: Vec<Region>,
    reserved: Vec<Region>,
    version: KernelVersion,
    options: BootOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Page {
    node: u16,
    zone: u8,
    kind: PageKind,
    phase: Phase,
}

#[derive(Debug)]
struct Zone {
    start: u64,
    end: u64,
    present: u64,
}

struct Oracle {
    pages: BTreeMap<u64, Page>,
    zones: BTreeMap<u16, Vec<Zone>>,
    holes: Vec<(u16, u8, u64)>,
    deferred: BTreeMap<u16, u64>,
}

fn whole(region: &Region, pfn: u64) -> bool {
    region.start <= pfn * PAGE && (pfn + 1) * PAGE <= region.end
}

impl Oracle {
    fn new(machine: &Machine, profile: &Profile, geometry: &Geometry) -> Self {
        let behaviours = &profile.behaviours;
        let top = machine
            .memory
            .last()
            .expect("some memory")
            .end
            .div_ceil(PAGE);
        let last = (top + 2).next_multiple_of(SECTION);
        // nothing below the first section of memory has a struct page
        let base = machine.memory[0].start / PAGE / SECTION * SECTION;
        // whole pages of memory
        let memory: Vec<Option<&Region>> = (base..last)
            .map(|pfn| machine.memory.iter().find(|region| whole(region, pfn)))
            .collect();
        let valid: Vec<bool> = (base..last)
            .map(|pfn| {
                let section = pfn / SECTION * SECTION;
                (section..section + SECTION).any(|p| memory[(p - base) as usize].is_some())
            })
            .collect();
        let dram = machine.memory[0].start / PAGE;
        let max_low = machine.memory.last().expect("some memory").end / PAGE;
        let dma = DMA_END.min(max_low).max(dram);
        let limits = [(dram, dma), (dma, max_low.max(dma)), (0, 0)];
        let movable_zone = if limits[1].0 < limits[1].1 { 1 } else { 0 };
        let mirror = machine.options.kernelcore == Some(CoreSize::Mirror)
            && (!behaviours.mirror_needs_mirror
                || machine
                    .memory
                    .iter()
                    .any(|r| r.flags.contains(MemblockFlags::MIRROR)));
        let overlap = mirror && behaviours.mirror_overlap;
        // 3.4
        let mut zones = BTreeMap::new();
        let mut node_end = BTreeMap::new();
        for node in geometry.nodes() {
            let id = node.id.get();
            let own: Vec<u64> = (base..last)
                .filter(|p| memory[(*p - base) as usize].is_some_and(|r| r.node == id))
                .collect();
            let (ns, ne) = match (own.first(), own.last()) {
                (Some(first), Some(last)) => (*first, last + 1),
                _ => (0, 0),
            };
            let zmp = node.movable_start.map_or(0, Pfn::get);
            let mut list = Vec::new();
            for (index, limit) in limits.iter().enumerate() {
                let (mut zs, mut ze) = (ns.clamp(limit.0, limit.1), ne.clamp(limit.0, limit.1));
                if zmp != 0 {
                    if index == 2 {
                        zs = zmp;
                        ze = ne.min(limits[movable_zone].1);
                    } else if zs < zmp && zmp < ze {
                        if !overlap {
                            ze = zmp;
                        }
                    } else if zs >= zmp {
                        zs = ze;
                    }
                }
                if ze < ns || zs > ne {
                    (zs, ze) = (0, 0);
                } else {
                    (zs, ze) = (zs.max(ns), ze.min(ne));
                }
                let is_mirror = |p: &u64| {
                    memory[(*p - base) as usize]
                        .is_some_and(|r| r.flags.contains(MemblockFlags::MIRROR))
                };
                let present = own
                    .iter()
                    .filter(|p| (zs..ze).contains(*p))
                    .filter(|p| {
                        !(overlap && zmp != 0) || index == 0 || is_mirror(p) == (index == 1)
                    })
                    .count() as u64;
                list.push(Zone {
                    start: if zs < ze { zs } else { 0 },
                    end: if zs < ze { ze } else { 0 },
                    present,
                });
            }
            let spanned = match behaviours.node_spanned {
                NodeSpanned::SumOfZones => list.iter().map(|z| z.end - z.start).sum(),
                NodeSpanned::EndMinusStart => ne - ns,
            };
            node_end.insert(id, ns + spanned);
            zones.insert(id, list);
        }
        // 5.1 to 5.4
        let mut pages: BTreeMap<u64, Page> = BTreeMap::new();
        let mut holes = Vec::new();
        let mut deferred: BTreeMap<u16, u64> = BTreeMap::new();
        let (mut prev_end, mut n) = (0, 0);
        let mut hole = 0;
        let mut last_zone = None;
        let mut fill = |pages: &mut BTreeMap<u64, Page>, from: u64, to: u64, node, zone| {
            let mut count = 0;
            for p in (from.max(base)..to).filter(|p| valid[(*p - base) as usize]) {
                pages.insert(
                    p,
                    Page {
                        node,
                        zone,
                        kind: PageKind::Hole,
                        phase: Phase::Early,
                    },
                );
                count += 1;
            }
            if count > 0 {
                holes.push((node, zone, count));
            }
        };
        let mut end = 0;
        for region in &machine.memory {
            let own: Vec<u64> = (base..last).filter(|p| whole(region, *p)).collect();
            let (Some(first), Some(tail)) = (own.first(), own.last()) else {
                continue;
            };
            end = tail + 1;
            for (index, zone) in zones[&region.node].iter().enumerate() {
                if zone.present == 0 {
                    continue;
                }
                last_zone = Some((region.node, index as u8));
                let (s, e) = (
                    (*first).clamp(zone.start, zone.end),
                    end.clamp(zone.start, zone.end),
                );
                if s >= e {
                    continue;
                }
                let mut stopped = false;
                for p in s..e {
                    if overlap && index == 2 && region.flags.contains(MemblockFlags::MIRROR) {
                        break;
                    }
                    if !stopped {
                        stopped = (|| {
                            let reset_first = behaviours.defer_order == DeferOrder::ResetFirst;
                            if reset_first && prev_end != zone.end {
                                (prev_end, n) = (zone.end, 0);
                            }
                            if zone.end < node_end[&region.node] {
                                return false;
                            }
                            if deferred.contains_key(&region.node) {
                                return true;
                            }
                            if !reset_first && prev_end != zone.end {
                                (prev_end, n) = (zone.end, 0);
                            }
                            n += 1;
                            if n > SECTION && p % SECTION == 0 {
                                deferred.insert(region.node, p);
                                return true;
                            }
                            false
                        })();
                    }
                    let (kind, phase) = if stopped {
                        (PageKind::Untouched, Phase::Deferred)
                    } else {
                        (PageKind::Initialised, Phase::Early)
                    };
                    pages.insert(
                        p,
                        Page {
                            node: region.node,
                            zone: index as u8,
                            kind,
                            phase,
                        },
                    );
                }
                if hole < s {
                    fill(&mut pages, hole, s, region.node, index as u8);
                }
                hole = hole.max(e);
            }
        }
        if let Some((node, zone)) = last_zone {
            let end = end.next_multiple_of(SECTION);
            if hole < end {
                fill(&mut pages, hole, end, node, zone);
            }
        }
        // 2.10, 5.5
        let online: Vec<u16> = geometry
            .nodes()
            .iter()
            .filter(|n| n.online)
            .map(|n| n.id.get())
            .collect();
        let node_at = |address: u64| {
            machine
                .memory
                .iter()
                .find(|r| r.start <= address && address < r.end)
                .map(|r| r.node)
        };
        let mark = |pages: &mut BTreeMap<u64, Page>, p: u64, node: u16, kind: PageKind| {
            if p < base || !valid.get((p - base) as usize).copied().unwrap_or(false) {
                return;
            }
            let late = deferred.get(&node).is_some_and(|first| p >= *first);
            if late {
                let zone = zones[&node].iter().position(|z| z.start <= p && p < z.end);
                let zone = zone.unwrap_or(profile.zones.len()) as u8;
                pages.insert(
                    p,
                    Page {
                        node,
                        zone,
                        kind,
                        phase: Phase::Early,
                    },
                );
            } else if let Some(page) = pages.get_mut(&p)
                && !matches!(page.kind, PageKind::Hole | PageKind::Untouched)
            {
                page.kind = kind;
            }
        };
        for region in machine
            .memory
            .iter()
            .filter(|r| r.flags.contains(MemblockFlags::NOMAP))
        {
            for p in region.start / PAGE..region.end.div_ceil(PAGE) {
                mark(&mut pages, p, region.node, PageKind::NoMap);
            }
        }
        for region in machine
            .reserved
            .iter()
            .filter(|r| !r.flags.contains(MemblockFlags::RSRV_NOINIT))
        {
            match behaviours.reserved_node {
                ReservedNode::PerPfn => {
                    for p in region.start / PAGE..region.end.div_ceil(PAGE) {
                        mark(
                            &mut pages,
                            p,
                            node_at(p * PAGE).unwrap_or(online[0]),
                            PageKind::Reserved,
                        );
                    }
                }
                ReservedNode::PerRegion => {
                    // byte by byte, at the machines' grain; parts with one node are one region
                    let mut at = region.start;
                    while at < region.end {
                        let node = node_at(at);
                        let mut to = at;
                        while to < region.end && node_at(to) == node {
                            to += 1024;
                        }
                        let whose =
                            node.unwrap_or_else(|| node_at(at / PAGE * PAGE).unwrap_or(online[0]));
                        for p in at / PAGE..to.min(region.end).div_ceil(PAGE) {
                            mark(&mut pages, p, whose, PageKind::Reserved);
                        }
                        at = to;
                    }
                }
            }
        }
        // 2.9, 5.6
        let kept = MemblockFlags::NOMAP | MemblockFlags::DRIVER_MANAGED;
        for (p, page) in &mut pages {
            let free = machine
                .memory
                .iter()
                .any(|r| whole(r, *p) && !r.flags.intersects(kept))
                && !machine
                    .reserved
                    .iter()
                    .any(|r| r.start < (p + 1) * PAGE && p * PAGE < r.end);
            if free && matches!(page.kind, PageKind::Initialised | PageKind::Untouched) {
                page.kind = PageKind::Free;
            }
        }
        for p in (base..last).filter(|p| valid[(*p - base) as usize]) {
            pages.entry(p).or_insert(Page {
                node: 0,
                zone: 0,
                kind: PageKind::Untouched,
                phase: Phase::Early,
            });
        }
        Self {
            pages,
            zones,
            holes,
            deferred,
        }
    }
}

fn machine() -> impl Strategy<Value = Machine> {
    // in units of 1 KiB: gaps and lengths around pages, blocks and sections
    let length = prop_oneof![
        1u64..12,
        32u64..600,
        (1u64..8).prop_map(|s| s * 512),
        (1u64..12).prop_map(|s| s * 2048),
        2000u64..9000
    ];
    let gap = prop_oneof![3 => Just(0u64), 2 => 1u64..9, 2 => (1u64..5).prop_map(|s| s * 2048), 1 => 100u64..6000];
    let flags = prop_oneof![
        6 => Just(MemblockFlags::empty()),
        1 => Just(MemblockFlags::NOMAP),
        1 => Just(MemblockFlags::DRIVER_MANAGED),
        2 => Just(MemblockFlags::HOTPLUG),
        2 => Just(MemblockFlags::MIRROR),
    ];
    let regions = prop::collection::vec((gap, length, 0u16..3, flags), 1..9);
    let reserved =
        prop::collection::vec((0u64..40_000, 1u64..4000, prop::bool::weighted(0.2)), 0..6);
    let options = prop_oneof![
        3 => Just(BootOptions::default()),
        1 => (0u64..100).prop_map(|p| { let mut o = BootOptions::default(); o.kernelcore = Some(CoreSize::Percent(p)); o }),
        1 => (0u64..30_000).prop_map(|k| { let mut o = BootOptions::default(); o.movablecore = Some(CoreSize::Bytes(k << 10)); o }),
        1 => Just({ let mut o = BootOptions::default(); o.movable_node = true; o }),
        1 => Just({ let mut o = BootOptions::default(); o.kernelcore = Some(CoreSize::Mirror); o }),
    ];
    (
        regions,
        reserved,
        options,
        0usize..4,
        prop::bool::weighted(0.3),
    )
        .prop_map(|(regions, holes, options, version, high)| {
            let mut at = if high { 4 << 20 } else { 0 };
            let mut memory = Vec::new();
            for (gap, length, node, flags) in regions {
                at += gap;
                memory.push(Region {
                    start: at << 10,
                    end: (at + length) << 10,
                    node,
                    flags,
                });
                at += length;
            }
            let base = memory[0].start >> 10;
            let mut reserved = Vec::new();
            let mut at = base;
            for (gap, length, noinit) in holes {
                at += gap + 1;
                let flags = if noinit {
                    MemblockFlags::RSRV_NOINIT
                } else {
                    MemblockFlags::empty()
                };
                reserved.push(Region {
                    start: at << 10,
                    end: (at + length) << 10,
                    node: 0,
                    flags,
                });
                at += length;
            }
            Machine {
                memory,
                reserved,
                version: VERSIONS[version],
                options,
            }
        })
}

fn check(machine: &Machine) -> Result<(), TestCaseError> {
    let profile = profile(machine.version);
    let mut layout = Layout::new(12);
    for region in &machine.memory {
        layout.mem_bytes(region.node, region.start, region.end, region.flags);
    }
    for region in &machine.reserved {
        layout
            .memblock
            .reserve_with(
                bytes(region.start, region.end),
                NodeMark::UNSET,
                region.flags,
            )
            .expect("it can be reserved");
    }
    // adjacent regions with one node and one set of flags are one region
    let mut machine = machine.clone();
    machine.memory = layout
        .memblock
        .memory()
        .iter()
        .map(|r| Region {
            start: r.range().start().get(),
            end: r.range().end().get(),
            node: r.node().expect("each has a node").get(),
            flags: r.flags(),
        })
        .collect();
    layout.options = machine.options.clone();
    let Ok(geometry) = Geometry::new(&profile, &layout.memblock, &layout.options) else {
        // no region holds a whole page
        prop_assert!(
            machine
                .memory
                .iter()
                .all(|r| r.start.div_ceil(PAGE) >= r.end / PAGE)
        );
        return Ok(());
    };
    let oracle = Oracle::new(&machine, &profile, &geometry);
    for node in geometry.nodes() {
        let zones = &oracle.zones[&node.id.get()];
        for (zone, expected) in node.zones.iter().zip(zones) {
            prop_assert_eq!(
                (zone.start.get(), zone.spanned, zone.present),
                (
                    expected.start,
                    expected.end - expected.start,
                    expected.present
                ),
                "node {} zone {}",
                node.id,
                zone.kind
            );
        }
        prop_assert_eq!(
            node.first_deferred.map(Pfn::get),
            oracle.deferred.get(&node.id.get()).copied()
        );
    }
    let holes: Vec<_> = geometry
        .holes()
        .iter()
        .map(|h| (h.node.get(), h.zone.0, h.pages))
        .collect();
    prop_assert_eq!(holes, oracle.holes);
    let mut covered = 0;
    let mut end = Pfn::ZERO;
    for run in geometry.page_runs() {
        prop_assert!(run.pfns.start() >= end && !run.pfns.is_empty());
        end = run.pfns.end();
        covered += run.pfns.len();
        for p in run.pfns.start().get()..run.pfns.end().get() {
            let got = Page {
                node: run.node.get(),
                zone: run.zone.0,
                kind: run.kind,
                phase: run.phase,
            };
            let expected = oracle.pages.get(&p).copied();
            let same = expected.is_some_and(|e| {
                e == got
                // what nobody writes has no node and no phase to compare
                || (e.kind == PageKind::Untouched && got.kind == PageKind::Untouched)
            });
            prop_assert!(same, "pfn {:#x}: {:?}, expected {:?}", p, got, expected);
        }
    }
    prop_assert_eq!(covered, oracle.pages.len() as u64);
    let first = oracle.pages.keys().next().copied().unwrap_or(0);
    for p in (first.saturating_sub(2 * SECTION)..end.get() + 2 * SECTION).step_by(97) {
        prop_assert_eq!(
            geometry.sections().is_valid(Pfn::new(p)),
            oracle.pages.contains_key(&p)
        );
        let next = oracle.pages.range(p..).next().map(|(p, _)| Pfn::new(*p));
        prop_assert_eq!(geometry.sections().next_valid(Pfn::new(p)), next);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn ranges_and_single_pages_agree_on_random_machines(machine in machine()) {
        check(&machine)?;
    }
}

#[test]
fn zone_numbers_of_the_small_profile_are_as_the_oracle_counts_them() {
    let zones = profile(KernelVersion::V6_12).zones;
    assert_eq!(zones.index_of(ZoneKind::Normal), Some(ZoneIndex(1)));
    assert_eq!(zones.index_of(ZoneKind::Movable), Some(ZoneIndex(2)));
    assert_eq!(NodeId::new(0).index(), 0);
}
