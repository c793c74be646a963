//! What is odd about a machine, whatever its kernel printed.

use std::fmt;

use memblock::{Memblock, PhysAddr, PhysRange};
use memmap_core::{Geometry, ZoneKind};

use crate::layout::MachineLayout;

/// Something that a kernel has stumbled over, seen in a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Reserved, and no memory: its frames have no memory region and thus no node; kernels have
    /// looked one up all the same.
    ReservedOutsideMemory {
        /// Where.
        range: PhysRange,
    },
    /// An area of the contiguous allocator lies in two zones: it will not be activated.
    CmaAcrossZones {
        /// The area.
        range: PhysRange,
        /// The line that reports it.
        line: u64,
        /// Where the upper zone begins.
        border: PhysAddr,
        /// The lower zone.
        below: ZoneKind,
        /// The upper one.
        above: ZoneKind,
    },
    /// Of several nodes that are online one has all memory, and the firmware's table says so.
    AllMemoryOnOneNode {
        /// How many have none.
        bare: usize,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReservedOutsideMemory { range } => write!(
                f,
                "{range} is reserved and no memory: its frames belong to no node"
            ),
            Self::CmaAcrossZones {
                range,
                line,
                border,
                below,
                above,
            } => write!(
                f,
                "the CMA area {range} (line {line}) lies in {below} and, from {border} on, in \
                 {above}: it cannot be activated; move it or the zone's limit"
            ),
            Self::AllMemoryOnOneNode { bare } => write!(
                f,
                "the firmware's affinity table (SRAT) gives all memory to one node, {bare} more \
                 are online without any: if the machine has memory on them, the table is wrong"
            ),
        }
    }
}

/// Warnings that are told of one kind; more of them say nothing new.
const MOST: usize = 20;

/// What is odd about `layout`, whose zones are those of `geometry`.
pub fn warnings(layout: &MachineLayout, memblock: &Memblock, geometry: &Geometry) -> Vec<Warning> {
    let mut out = Vec::new();
    // Only x86 reserves what is no memory as a matter of course: firmware's tables and holes.
    if geometry.profile().arch != memmap_core::Arch::Amd64 {
        out.extend(outside(memblock).take(MOST));
    }
    out.extend(
        layout
            .cma
            .iter()
            .filter_map(|area| across(area.range, area.line, geometry)),
    );
    let online = geometry.nodes().iter().filter(|node| node.online);
    let bare = online.filter(|node| !node.has_memory()).count();
    let by_table = layout.provenance.nodes == crate::NodeSource::Affinity;
    if by_table && layout.nodes().len() == 1 && bare >= 2 {
        out.push(Warning::AllMemoryOnOneNode { bare });
    }
    out
}

/// Parts of reservations that no memory region covers.
fn outside(memblock: &Memblock) -> impl Iterator<Item = Warning> + '_ {
    memblock.reserved().iter().flat_map(move |reserved| {
        let range = reserved.range();
        let mut at = range.start();
        let mut gaps = Vec::new();
        let inside = memblock.memory().overlapping(range);
        for memory in inside {
            if at < memory.range().start() {
                gaps.push(PhysRange::new(at, memory.range().start()));
            }
            at = at.max(memory.range().end());
        }
        if at < range.end() {
            gaps.push(PhysRange::new(at, range.end()));
        }
        gaps.into_iter()
            .map(|range| Warning::ReservedOutsideMemory { range })
    })
}

/// The zones that an area lies in, if they are two.
fn across(range: PhysRange, line: u64, geometry: &Geometry) -> Option<Warning> {
    let shift = geometry.profile().page_shift;
    let zones = geometry.profile().zones.iter();
    let limits = zones
        .filter(|(_, kind)| *kind < ZoneKind::Movable)
        .map(|(index, kind)| (kind, geometry.zone_limits().get(index).phys(shift)));
    let mut touched = limits.filter(|(_, limits)| limits.overlaps(range));
    let (below, _) = touched.next()?;
    let (above, limits) = touched.next()?;
    Some(Warning::CmaAcrossZones {
        range,
        line,
        border: limits.start(),
        below,
        above,
    })
}
