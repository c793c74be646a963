//! What memblock says, on any architecture, and what is left where it says nothing.
//!
//! A dump is the kernel's own list. Without one, arm64, riscv, Power and s390x logs show their
//! memory only in the lines that are compared later: those are taken as the last resort, and
//! [`super::Provenance`] says so.

use memblock::{NodeId, PhysRange};

use super::memory::{RangeMap, from_disjoint};
use super::provenance::{Contradiction, Disagreement};
use super::{MachineLayout, MemoryRange, MemorySource, NodeSource, ReservedSource};
use crate::bootlog::BootLog;
use crate::bootlog::hints::ReservedBy;
use crate::bootlog::memblock_lines::{DumpRegion, Operation};
use crate::error::LayoutError;
use crate::figures::FigureKind;
use crate::location::Location;

/// memblock's bit for memory without a mapping.
pub(crate) const NOMAP: u32 = 4;

/// Fills `layout` from `log`.
pub(super) fn read(layout: &mut MachineLayout, log: &BootLog) -> Result<(), LayoutError> {
    if from_dump(layout, log)? {
        layout.provenance.nodes = if layout.memory.iter().any(|memory| memory.node.is_some()) {
            NodeSource::MemblockDump
        } else {
            // A kernel without NUMA prints no nodes; everything is node 0's.
            for memory in &mut layout.memory {
                memory.node = Some(NodeId::new(0));
            }
            NodeSource::None
        };
    } else {
        from_early_ranges(layout, log)?;
        single_reservations(layout, log);
    }
    Ok(())
}

/// Takes memory and reservations from the last dump that has all of memory; `false` where there
/// is none.
pub(super) fn from_dump(layout: &mut MachineLayout, log: &BootLog) -> Result<bool, LayoutError> {
    let Some(dump) = log.memblock.last_with_memory() else {
        return Ok(false);
    };
    let range = |region: &DumpRegion| MemoryRange {
        range: region.range,
        node: region.node,
        flags: region.flags,
        line: region.line,
    };
    layout.memory = dump.memory.regions.iter().map(range).collect();
    layout.reserved = dump.reserved.regions.iter().map(range).collect();
    in_order(&log.file, &layout.memory)?;
    in_order(&log.file, &layout.reserved)?;
    layout.calls = log.memblock.calls_after(dump.last_line).copied().collect();
    layout.provenance.memory = MemorySource::MemblockDump;
    layout.provenance.memory_lines = Some((dump.line, dump.last_line));
    layout.provenance.reserved = match dump.is_whole() {
        true => ReservedSource::MemblockDump,
        false => ReservedSource::CutDump,
    };
    Ok(true)
}

/// memblock keeps its arrays in order and without overlaps: a dump that is not was edited.
fn in_order(file: &str, ranges: &[MemoryRange]) -> Result<(), LayoutError> {
    match ranges
        .windows(2)
        .find(|pair| pair[0].range.end() > pair[1].range.start())
    {
        None => Ok(()),
        Some(pair) => Err(LayoutError::OutOfOrder {
            file: file.to_owned(),
            first: Box::new(Location::new(pair[0].line, &pair[0].range.to_string())),
            second: Box::new(Location::new(pair[1].line, &pair[1].range.to_string())),
        }),
    }
}

/// Takes memory from the lines by which x86 filled memblock.
pub(super) fn from_calls(layout: &mut MachineLayout, log: &BootLog) {
    let shift = layout.page_size.trailing_zeros();
    let calls = log
        .memblock
        .calls
        .iter()
        .filter(|call| call.operation == Operation::Add && call.from_firmware_map);
    // The whole map is added in one go; a lone line of an excerpt is not a machine.
    let lines: Vec<u64> = calls.clone().map(|call| call.line).collect();
    let (Some(&first), Some(&last)) = (lines.first(), lines.last()) else {
        return;
    };
    let starts_low = calls
        .clone()
        .next()
        .is_some_and(|call| call.range.start().get() < 1 << 20);
    if !starts_low {
        return;
    }
    let mut map = RangeMap::default();
    for call in calls {
        map.set(call.range.pfns_inner(shift).phys(shift), ());
    }
    layout.memory = map
        .into_ranges()
        .map(|(range, ())| MemoryRange {
            range,
            node: None,
            flags: 0,
            line: first,
        })
        .collect();
    layout.provenance.memory = MemorySource::MemblockCalls;
    layout.provenance.memory_lines = Some((first, last));
}

/// Takes memory from `Early memory node ranges`, in want of anything else.
pub(super) fn from_early_ranges(
    layout: &mut MachineLayout,
    log: &BootLog,
) -> Result<(), LayoutError> {
    let ranges: Vec<MemoryRange> = log
        .figures
        .iter()
        .filter_map(|figure| match figure.kind {
            FigureKind::EarlyRange { node, range } => Some(MemoryRange {
                range,
                node: Some(node),
                flags: 0,
                line: figure.at.line,
            }),
            _ => None,
        })
        .collect();
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
        return Err(LayoutError::FrontLost {
            file: log.file.clone(),
            missing: log.missing(),
            known: log.known(),
        });
    };
    layout.provenance.memory = MemorySource::EarlyRanges;
    layout.provenance.nodes = NodeSource::EarlyRanges;
    layout.provenance.memory_lines = Some((first.line, last.line));
    if let Err((first, second)) =
        from_disjoint(ranges.iter().map(|memory| (memory.range, memory.node)))
    {
        return Err(overlapping(&log.file, &ranges[first], &ranges[second]));
    }
    layout.memory = ranges;
    layout.memory.sort_by_key(|memory| memory.range.start());
    mark_nomap(layout, log);
    Ok(())
}

/// Marks ranges that the device tree took out of the map.
fn mark_nomap(layout: &mut MachineLayout, log: &BootLog) {
    for hint in &log.hints.reserved {
        if hint.by != ReservedBy::DeviceTreeNoMap {
            continue;
        }
        let whole = layout
            .memory
            .iter_mut()
            .filter(|memory| !memory.range.is_empty() && hint.range.contains_range(memory.range));
        for memory in whole {
            memory.flags |= NOMAP;
        }
    }
}

/// Two ranges that overlap, as an error.
pub(super) fn overlapping(file: &str, first: &MemoryRange, second: &MemoryRange) -> LayoutError {
    let node = |memory: &MemoryRange| memory.node.unwrap_or_default();
    let at = |memory: &MemoryRange| {
        Location::new(
            memory.line,
            &format!("node {} has {}", node(memory), memory.range),
        )
    };
    LayoutError::OverlappingNodes {
        file: file.to_owned(),
        first: node(first),
        second: node(second),
        range: first.range.intersection(second.range).unwrap_or_default(),
        first_at: Box::new(at(first)),
        second_at: Box::new(at(second)),
    }
}

/// Takes the reservations that single lines report.
pub(super) fn single_reservations(layout: &mut MachineLayout, log: &BootLog) {
    let mut map: RangeMap<u64> = RangeMap::default();
    for hint in &log.hints.reserved {
        if hint.by != ReservedBy::DeviceTreeNoMap {
            map.set(hint.range, hint.line);
        }
    }
    for range in &log.numa.node_data_at {
        map.set(*range, 0);
    }
    for (range, line) in log.firmware.setup_data() {
        map.set(range, line);
    }
    layout.reserved = map
        .into_ranges()
        .map(|(range, line)| MemoryRange {
            range,
            node: None,
            flags: 0,
            line,
        })
        .collect();
    if !layout.reserved.is_empty() {
        layout.provenance.reserved = ReservedSource::SingleLines;
    }
}

/// Reports where `other`, taken from `source`, differs from the layout's memory.
pub(super) fn contradict(layout: &mut MachineLayout, source: MemorySource, other: &[MemoryRange]) {
    let taken = std::mem::take(&mut layout.memory);
    contradict_between(layout, (layout.provenance.memory, &taken), (source, other));
    layout.memory = taken;
}

/// Reports where two sources differ, the first of which was taken. Ranges are ascending.
pub(super) fn contradict_between(
    layout: &mut MachineLayout,
    (source, taken): (MemorySource, &[MemoryRange]),
    (other_source, other): (MemorySource, &[MemoryRange]),
) {
    let mut both: RangeMap<(Says, Says)> = RangeMap::default();
    for memory in taken {
        both.set(memory.range, (Some(memory.node), None));
    }
    for memory in other {
        let said = Some(memory.node);
        both.change(
            memory.range,
            |(taken, _)| Some((*taken, said)),
            Some((None, said)),
        );
    }
    let line = |list: &[MemoryRange], range: PhysRange| {
        // The range there, or the one before the gap.
        let behind = list.partition_point(|memory| memory.range.start() <= range.start());
        list.get(behind.saturating_sub(1))
            .map_or(0, |memory| memory.line)
    };
    let found: Vec<_> = both
        .iter()
        .filter(|(_, (taken, said))| taken != said)
        .take(MAX_CONTRADICTIONS)
        .map(|(range, &(taken_says, other_says))| Contradiction {
            taken: source,
            taken_line: line(taken, range),
            other: other_source,
            other_line: line(other, range),
            about: Disagreement::Memory {
                range,
                taken: taken_says,
                other: other_says,
            },
        })
        .collect();
    layout.provenance.contradict(other_source, found);
}

/// Contradictions of one source that are told; more of them say nothing new.
const MAX_CONTRADICTIONS: usize = 50;

type Says = Option<Option<NodeId>>;
