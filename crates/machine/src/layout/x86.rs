//! x86: memory from the firmware's map, nodes from its affinity table.
//!
//! Memory is what the map calls usable after all changes, trimmed to whole pages. Nodes come
//! from the affinity table, cut to the frames that exist and merged over gaps that belong to
//! nobody else; without a table one node has everything. Where memblock was dumped, the dump
//! says the same in the kernel's own words and is taken; any difference is reported.
//! Linux: `arch/x86/kernel/e820.c`, `e820__memblock_setup`; `mm/numa_memblks.c`,
//! `numa_cleanup_meminfo`.

use std::collections::BTreeSet;
use std::ops::Bound;

use memblock::{PhysAddr, PhysRange};

use super::flags;
use super::memory::{RangeMap, from_disjoint};
use super::other;
use super::with_nodes;
use super::{DeviceRange, MachineLayout, MemoryRange, NodeRange};
use super::{MemorySource, NodeSource, ReservedSource};
use crate::bootlog::BootLog;
use crate::bootlog::efi::EfiMap;
use crate::bootlog::firmware::{Edit, FirmwareMaps, FirmwareType, Map, MapName};
use crate::bootlog::numa::Affinity;
use crate::error::LayoutError;
use crate::location::Location;

/// x86 kernels all have pages of this many bytes.
const PAGE: u64 = 4096;

/// Fills `layout` from `log`.
pub(super) fn read(layout: &mut MachineLayout, log: &BootLog) -> Result<(), LayoutError> {
    let dumped = other::from_dump(layout, log)?;
    let map = firmware(layout, log);
    let source = map.as_ref().map_or(MemorySource::None, |map| map.source);
    let filled = map.as_ref().map(|map| (&map.usable, map.lines));
    let top = match &filled {
        Some((usable, _)) => usable.last().map(|memory| memory.range.end()),
        None => layout.memory.last().map(|memory| memory.range.end()),
    };
    nodes(layout, log, top)?;
    match (filled, dumped) {
        (Some((usable, lines)), false) => {
            layout.provenance.memory = source;
            layout.provenance.memory_lines = lines;
            layout.memory.clone_from(usable);
            assign_nodes(layout);
        }
        (Some((usable, _)), true) => {
            let firmware = with_nodes(usable, &layout.node_ranges);
            if layout.memory.iter().all(|memory| memory.node.is_none()) {
                assign_nodes(layout);
            } else {
                layout.provenance.nodes = NodeSource::MemblockDump;
            }
            other::contradict(layout, source, &firmware);
        }
        (None, true) => {
            if layout.memory.iter().all(|memory| memory.node.is_none()) {
                assign_nodes(layout);
            } else {
                layout.provenance.nodes = NodeSource::MemblockDump;
            }
        }
        (None, false) => {
            other::from_calls(layout, log);
            if layout.memory.is_empty() {
                other::from_early_ranges(layout, log)?;
            } else {
                let top = layout.memory.last().map(|memory| memory.range.end());
                nodes(layout, log, top)?;
                assign_nodes(layout);
            }
        }
    }
    if layout.provenance.reserved == ReservedSource::None {
        other::single_reservations(layout, log);
    }
    if !dumped {
        flags::mark(layout, log);
    }
    if log.efi.is_whole()
        && let Some(map) = log.firmware.first_whole()
    {
        contradict_efi(layout, &log.efi, map);
    }
    Ok(())
}

/// What the firmware says is memory.
struct Filled {
    source: MemorySource,
    usable: Vec<MemoryRange>,
    lines: Option<(u64, u64)>,
}

/// The firmware's map as memblock was filled from it; where that is not whole, UEFI's own.
fn firmware(layout: &mut MachineLayout, log: &BootLog) -> Option<Filled> {
    if let Some(map) = log.firmware.last_whole() {
        let mut types = applied(&log.firmware, map);
        layout.devices = devices(&types, &log.numa.affinity);
        add_unaccepted_table(&mut types, &log.firmware);
        layout.taken_out = log.firmware.taken_out().collect();
        let lines = map.entries.first().zip(map.entries.last());
        return Some(Filled {
            source: MemorySource::FirmwareMap,
            usable: usable(&types),
            lines: lines.map(|(first, last)| (first.line, last.line)),
        });
    }
    // A map that the user changed is not what UEFI said.
    let untouched = log
        .firmware
        .maps
        .iter()
        .all(|map| map.name == MapName::Bios);
    if !log.efi.is_whole() || !untouched {
        return None;
    }
    let mut types = RangeMap::default();
    for range in log.efi.ranges.iter().filter(|range| range.usable) {
        types.set(range.range, (FirmwareType::Ram, range.line));
    }
    edit(&mut types, log.firmware.edits_between(0));
    trim_bios(&mut types);
    let lines = log.efi.ranges.first().zip(log.efi.ranges.last());
    Some(Filled {
        source: MemorySource::EfiMap,
        usable: usable(&types),
        lines: lines.map(|(first, last)| (first.line, last.line)),
    })
}

/// Reports where UEFI's map and the kernel's first map of it do not agree on what is memory.
fn contradict_efi(layout: &mut MachineLayout, efi: &EfiMap, map: &Map) {
    let memory = |range: PhysRange, line: u64| MemoryRange {
        range,
        node: None,
        flags: 0,
        line,
    };
    let ram = map
        .entries
        .iter()
        .filter(|entry| entry.kind == FirmwareType::Ram);
    let mut kernel: Vec<_> = ram.map(|entry| memory(entry.range, entry.line)).collect();
    let own = efi.ranges.iter().filter(|range| range.usable);
    let mut own: Vec<_> = own.map(|range| memory(range.range, range.line)).collect();
    for list in [&mut kernel, &mut own] {
        list.sort_by_key(|memory| memory.range.start());
    }
    other::contradict_between(
        layout,
        (MemorySource::FirmwareMap, &kernel),
        (MemorySource::EfiMap, &own),
    );
}

/// The map with all changes made to it before memblock took it over.
///
/// Linux: `arch/x86/kernel/setup.c`, `trim_bios_range`, for the last two.
fn applied(maps: &FirmwareMaps, map: &Map) -> RangeMap<(FirmwareType, u64)> {
    let mut types = RangeMap::default();
    for entry in &map.entries {
        types.set(entry.range, (entry.kind, entry.line));
    }
    let last = map.entries.last().map_or(0, |last| last.line);
    edit(&mut types, maps.edits_between(last));
    trim_bios(&mut types);
    types
}

/// Makes single changes to the map.
fn edit<'a>(types: &mut RangeMap<(FirmwareType, u64)>, edits: impl Iterator<Item = &'a Edit>) {
    for edit in edits {
        types.change(
            edit.range,
            |&(kind, line)| match edit.to {
                _ if kind != edit.from => Some((kind, line)),
                Some(to) => Some((to, edit.line)),
                None => None,
            },
            None,
        );
    }
}

/// What every kernel since 3.5 does in any case; the lines that say so are only printed at the
/// debug level, which many logs leave out.
#[doc(alias = "trim_bios_range")]
fn trim_bios(types: &mut RangeMap<(FirmwareType, u64)>) {
    let keep = |&value: &(FirmwareType, u64)| (value.0 != FirmwareType::Ram).then_some(value);
    for (start, end) in [(0, PAGE), (0xa_0000, 0x10_0000)] {
        let range = PhysRange::new(PhysAddr::new(start), PhysAddr::new(end));
        types.change(range, keep, None);
    }
}

/// A confidential guest makes the table of its unaccepted memory memory itself (6.5 and later;
/// seen on SEV-SNP guests), whatever the map calls it, so that its pages have struct pages.
///
/// The table's size is not printed. It holds one bit for each 2 MiB, so it fills one page for
/// every 64 GiB, and firmware seen so far leaves it inside one.
fn add_unaccepted_table(types: &mut RangeMap<(FirmwareType, u64)>, maps: &FirmwareMaps) {
    let Some(table) = maps.unaccepted_table else {
        return;
    };
    let start = PhysAddr::new(table).align_down(PAGE);
    types.set(PhysRange::from_size(start, PAGE), (FirmwareType::Ram, 0));
}

/// What is memory of devices, cut where the affinity table has one range of it end: each such
/// range is a device of its own, though the map may show neighbours as one.
fn devices(types: &RangeMap<(FirmwareType, u64)>, affinity: &[Affinity]) -> Vec<DeviceRange> {
    let device = |(range, &(kind, line)): (PhysRange, &(FirmwareType, u64))| {
        let persistent = match kind {
            FirmwareType::Persistent(_) => true,
            FirmwareType::SoftReserved => false,
            _ => return None,
        };
        Some(DeviceRange {
            range,
            persistent,
            line,
        })
    };
    let edges = affinity
        .iter()
        .filter(|claim| claim.non_volatile)
        .flat_map(|claim| [claim.range.start(), claim.range.end()]);
    let edges: BTreeSet<PhysAddr> = edges.collect();
    let mut out = Vec::new();
    for mut device in types.iter().filter_map(device) {
        let inside = (
            Bound::Excluded(device.range.start()),
            Bound::Excluded(device.range.end()),
        );
        for &at in edges.range(inside) {
            let range = PhysRange::new(device.range.start(), at);
            out.push(DeviceRange { range, ..device });
            device.range = PhysRange::new(at, device.range.end());
        }
        out.push(device);
    }
    out
}

/// Usable memory in whole pages, each range with the first line that says so; neighbours are one
/// before they are trimmed.
fn usable(types: &RangeMap<(FirmwareType, u64)>) -> Vec<MemoryRange> {
    let mut out: Vec<MemoryRange> = Vec::new();
    for (range, &(kind, line)) in types.iter() {
        if kind != FirmwareType::Ram {
            continue;
        }
        match out.last_mut() {
            Some(last) if last.range.end() == range.start() => {
                last.range = PhysRange::new(last.range.start(), range.end());
            }
            _ => out.push(MemoryRange {
                range,
                node: None,
                flags: 0,
                line,
            }),
        }
    }
    let shift = PAGE.trailing_zeros();
    for memory in &mut out {
        memory.range = memory.range.pfns_inner(shift).phys(shift);
    }
    out.retain(|memory| !memory.range.is_empty());
    out
}

/// Fills [`MachineLayout::node_ranges`]: what belongs to which node up to `top`.
fn nodes(
    layout: &mut MachineLayout,
    log: &BootLog,
    top: Option<PhysAddr>,
) -> Result<(), LayoutError> {
    let numa = &log.numa;
    let (source, claims): (_, Vec<NodeRange>) = if !numa.emulated.is_empty() {
        let claim = |fake: &crate::bootlog::numa::Fake| NodeRange {
            range: fake.range,
            node: fake.node,
            line: fake.line,
        };
        (
            NodeSource::Emulated,
            numa.emulated.iter().map(claim).collect(),
        )
    } else if let Some(fake) = numa.single {
        // Printed after the table was found wanting, so it wins.
        let claim = NodeRange {
            range: fake.range,
            node: fake.node,
            line: fake.line,
        };
        (NodeSource::Single, vec![claim])
    } else if !numa.affinity.is_empty() {
        let claim = |affinity: &crate::bootlog::numa::Affinity| NodeRange {
            range: affinity.range,
            node: affinity.node,
            line: affinity.line,
        };
        (
            NodeSource::Affinity,
            numa.affinity.iter().map(claim).collect(),
        )
    } else {
        layout.node_ranges.clear();
        return Ok(());
    };
    layout.provenance.nodes = source;
    let disjoint = from_disjoint(claims.iter().map(|claim| (claim.range, claim.node)));
    if let Err((first, second)) = disjoint {
        return Err(overlap(&log.file, &claims[first], &claims[second]));
    }
    // Since 6.12 a node does not reach below the first memory; before, to address zero.
    let new = layout
        .release
        .as_ref()
        .is_none_or(|release| release.number() >= (6, 12));
    let bottom = match layout.memory.first() {
        Some(first) if new => first.range.start(),
        _ if new => first_usable(log).unwrap_or(PhysAddr::ZERO),
        _ => PhysAddr::ZERO,
    };
    let window = PhysRange::new(bottom, top.unwrap_or(PhysAddr::MAX));
    let mut cut: Vec<NodeRange> = claims
        .into_iter()
        .filter_map(|claim| {
            Some(NodeRange {
                range: claim.range.intersection(window)?,
                ..claim
            })
        })
        .collect();
    cut.sort_by_key(|claim| claim.range.start());
    // Neighbours of one node are one, over a gap that no other node's range lies in.
    cut.dedup_by(|next, kept| {
        let same = next.node == kept.node;
        if same {
            kept.range = PhysRange::new(kept.range.start(), next.range.end().max(kept.range.end()));
        }
        same
    });
    layout.node_ranges = cut;
    Ok(())
}

fn first_usable(log: &BootLog) -> Option<PhysAddr> {
    let map = log.firmware.last_whole()?;
    let ranges = usable(&applied(&log.firmware, map));
    ranges.first().map(|memory| memory.range.start())
}

fn overlap(file: &str, first: &NodeRange, second: &NodeRange) -> LayoutError {
    let at = |claim: &NodeRange| {
        Location::new(
            claim.line,
            &format!("node {} has {}", claim.node, claim.range),
        )
    };
    LayoutError::OverlappingNodes {
        file: file.to_owned(),
        first: first.node,
        second: second.node,
        range: first.range.intersection(second.range).unwrap_or_default(),
        first_at: Box::new(at(first)),
        second_at: Box::new(at(second)),
    }
}

/// Gives all memory its node.
fn assign_nodes(layout: &mut MachineLayout) {
    layout.memory = with_nodes(&layout.memory, &layout.node_ranges);
}
