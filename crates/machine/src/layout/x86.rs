//! x86: memory from the firmware's map, nodes from its affinity table.
//!
//! Memory is what the map calls usable after all changes, trimmed to whole pages. Nodes come
//! from the affinity table, cut to the frames that exist and merged over gaps that belong to
//! nobody else; without a table one node has everything. Where memblock was dumped, the dump
//! says the same in the kernel's own words and is taken; any difference is reported.
//! Linux: `arch/x86/kernel/e820.c`, `e820__memblock_setup`; `mm/numa_memblks.c`,
//! `numa_cleanup_meminfo`.

use memblock::{PhysAddr, PhysRange};

use super::memory::{RangeMap, from_disjoint};
use super::other;
use super::with_nodes;
use super::{DeviceRange, MachineLayout, MemoryRange, NodeRange};
use super::{MemorySource, NodeSource, ReservedSource};
use crate::bootlog::BootLog;
use crate::bootlog::firmware::{FirmwareMaps, FirmwareType, Map};
use crate::error::LayoutError;
use crate::location::Location;

/// x86 kernels all have pages of this many bytes.
const PAGE: u64 = 4096;

/// Fills `layout` from `log`.
pub(super) fn read(layout: &mut MachineLayout, log: &BootLog) -> Result<(), LayoutError> {
    let firmware = log.firmware.last_whole().map(|map| {
        let mut types = applied(&log.firmware, map);
        layout.devices = devices(&types);
        add_unaccepted_table(&mut types, &log.firmware);
        (map, usable(&types))
    });
    let dumped = other::from_dump(layout, log)?;
    let filled = firmware.as_ref().map(|(map, usable)| {
        let lines = map.entries.first().zip(map.entries.last());
        let lines = lines.map(|(first, last)| (first.line, last.line));
        (usable, lines)
    });
    let top = match &filled {
        Some((usable, _)) => usable.last().map(|range| range.end()),
        None => layout.memory.last().map(|memory| memory.range.end()),
    };
    nodes(layout, log, top)?;
    match (filled, dumped) {
        (Some((usable, lines)), false) => {
            layout.provenance.memory = MemorySource::FirmwareMap;
            layout.provenance.memory_lines = lines;
            layout.memory = plain(usable, lines);
            assign_nodes(layout);
        }
        (Some((usable, lines)), true) => {
            let firmware = with_nodes(&plain(usable, lines), &layout.node_ranges);
            if layout.memory.iter().all(|memory| memory.node.is_none()) {
                assign_nodes(layout);
            } else {
                layout.provenance.nodes = NodeSource::MemblockDump;
            }
            other::contradict(layout, MemorySource::FirmwareMap, &firmware);
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
    Ok(())
}

/// The map with all changes made to it before memblock took it over.
///
/// Linux: `arch/x86/kernel/setup.c`, `trim_bios_range`, for the last two.
fn applied(maps: &FirmwareMaps, map: &Map) -> RangeMap<(FirmwareType, u64)> {
    let mut types = RangeMap::default();
    for entry in &map.entries {
        types.set(entry.range, (entry.kind, entry.line));
    }
    for edit in maps.edits_after(map) {
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
    // What every kernel since 3.5 does in any case; the lines that say so are only printed at
    // the debug level, which many logs leave out.
    let keep = |&value: &(FirmwareType, u64)| (value.0 != FirmwareType::Ram).then_some(value);
    for (start, end) in [(0, PAGE), (0xa_0000, 0x10_0000)] {
        let range = PhysRange::new(PhysAddr::new(start), PhysAddr::new(end));
        types.change(range, keep, None);
    }
    types
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

fn devices(types: &RangeMap<(FirmwareType, u64)>) -> Vec<DeviceRange> {
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
    types.iter().filter_map(device).collect()
}

/// Usable ranges in whole pages; neighbours are one before they are trimmed.
fn usable(types: &RangeMap<(FirmwareType, u64)>) -> Vec<PhysRange> {
    let mut out: Vec<PhysRange> = Vec::new();
    for (range, (kind, _)) in types.iter() {
        if *kind != FirmwareType::Ram {
            continue;
        }
        match out.last_mut() {
            Some(last) if last.end() == range.start() => {
                *last = PhysRange::new(last.start(), range.end());
            }
            _ => out.push(range),
        }
    }
    out.iter()
        .map(|range| {
            let shift = PAGE.trailing_zeros();
            range.pfns_inner(shift).phys(shift)
        })
        .filter(|range| !range.is_empty())
        .collect()
}

/// `ranges` as memory without nodes, from the first of `lines`.
fn plain(ranges: &[PhysRange], lines: Option<(u64, u64)>) -> Vec<MemoryRange> {
    let line = lines.map_or(0, |lines| lines.0);
    let memory = |&range: &PhysRange| MemoryRange {
        range,
        node: None,
        flags: 0,
        line,
    };
    ranges.iter().map(memory).collect()
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
        return Err(overlap(&claims[first], &claims[second]));
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
    ranges.first().map(|range| range.start())
}

fn overlap(first: &NodeRange, second: &NodeRange) -> LayoutError {
    let at = |claim: &NodeRange| {
        Location::new(
            claim.line,
            &format!("node {} has {}", claim.node, claim.range),
        )
    };
    LayoutError::OverlappingNodes {
        first: first.node,
        second: second.node,
        range: first.range.intersection(second.range).unwrap_or_default(),
        first_at: at(first),
        second_at: at(second),
    }
}

/// Gives all memory its node.
fn assign_nodes(layout: &mut MachineLayout) {
    layout.memory = with_nodes(&layout.memory, &layout.node_ranges);
}
