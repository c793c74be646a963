//! The lines that a kernel prints while it sets up its zones.

use alloc::vec::Vec;
use core::fmt;

use memblock::{NodeId, PfnRange, PhysAddr, PhysRange};

use crate::geometry::{Geometry, Node};
use crate::profile::ZoneKind;

use super::figures;

/// A line of a kernel's log about its memory map, without its time stamp.
///
/// Ranges are half-open here and printed with their last byte, as kernels do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BootLine {
    /// `Zone ranges:`
    ZoneRanges,
    /// The limits of a zone, or that it is empty.
    ZoneRange {
        /// The zone.
        zone: ZoneKind,
        /// Its addresses.
        range: Option<PhysRange>,
    },
    /// `Movable zone start for each node`
    MovableStarts,
    /// Where zone Movable begins on a node.
    MovableStart {
        /// The node.
        node: NodeId,
        /// The address.
        start: PhysAddr,
    },
    /// `Early memory node ranges`
    EarlyRanges,
    /// Whole pages of memory of a node.
    EarlyRange {
        /// The node.
        node: NodeId,
        /// Their addresses.
        range: PhysRange,
    },
    /// A node that may come is set up (6.1).
    OfflineNode {
        /// The node.
        node: NodeId,
    },
    /// A node with memory is set up.
    Initmem {
        /// The node.
        node: NodeId,
        /// From its first to its last byte.
        range: PhysRange,
    },
    /// A node without memory is set up.
    InitmemMemoryless {
        /// The node.
        node: NodeId,
    },
    /// Pages of a node (debug).
    TotalPages {
        /// The node.
        node: NodeId,
        /// Its pages.
        pages: u64,
    },
    /// Pages that a zone's struct pages take (6.1, debug).
    MemmapPages {
        /// The zone.
        zone: ZoneKind,
        /// The pages.
        pages: u64,
    },
    /// A zone is too small for its struct pages (6.1).
    MemmapExceeds {
        /// The zone.
        zone: ZoneKind,
        /// Pages of its struct pages.
        memmap: u64,
        /// Its pages.
        pages: u64,
    },
    /// Pages of the first zone that are in use (6.1, debug).
    ReservedPages {
        /// The zone.
        zone: ZoneKind,
        /// The pages.
        pages: u64,
    },
    /// Pages of a zone, and how many its per-CPU lists move at once (debug).
    ZonePages {
        /// The zone.
        zone: ZoneKind,
        /// Its pages.
        pages: u64,
        /// The batch.
        batch: u64,
    },
    /// Struct pages without memory that a zone was given.
    Unavailable {
        /// The node.
        node: NodeId,
        /// The zone.
        zone: ZoneKind,
        /// The struct pages.
        pages: u64,
    },
    /// Zonelists and the pages that they reach.
    Zonelists {
        /// Nodes online.
        count: usize,
        /// The pages.
        pages: u64,
    },
    /// The highest zone that memory policies apply to (NUMA).
    PolicyZone {
        /// The zone.
        zone: ZoneKind,
    },
}

impl BootLine {
    /// Whether kernels print it for debugging only, so that logs often lack it.
    pub const fn is_debug(&self) -> bool {
        matches!(
            self,
            Self::TotalPages { .. }
                | Self::MemmapPages { .. }
                | Self::ReservedPages { .. }
                | Self::ZonePages { .. }
        )
    }
}

impl fmt::Display for BootLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mem = |range: &PhysRange| Mem(*range);
        match self {
            Self::ZoneRanges => f.write_str("Zone ranges:"),
            Self::ZoneRange {
                zone,
                range: Some(range),
            } => write!(f, "  {:<8} {}", zone.name(), mem(range)),
            Self::ZoneRange { zone, range: None } => write!(f, "  {:<8} empty", zone.name()),
            Self::MovableStarts => f.write_str("Movable zone start for each node"),
            Self::MovableStart { node, start } => write!(f, "  Node {node}: {start}"),
            Self::EarlyRanges => f.write_str("Early memory node ranges"),
            Self::EarlyRange { node, range } => {
                write!(f, "  node {:>3}: {}", node.get(), mem(range))
            }
            Self::OfflineNode { node } => write!(f, "Initializing node {node} as memoryless"),
            Self::Initmem { node, range } => {
                write!(f, "Initmem setup node {node} {}", mem(range))
            }
            Self::InitmemMemoryless { node } => {
                write!(f, "Initmem setup node {node} as memoryless")
            }
            Self::TotalPages { node, pages } => write!(f, "On node {node} totalpages: {pages}"),
            Self::MemmapPages { zone, pages } => {
                write!(f, "  {zone} zone: {pages} pages used for memmap")
            }
            Self::MemmapExceeds {
                zone,
                memmap,
                pages,
            } => write!(
                f,
                "  {zone} zone: {memmap} memmap pages exceeds freesize {pages}"
            ),
            Self::ReservedPages { zone, pages } => {
                write!(f, "  {zone} zone: {pages} pages reserved")
            }
            Self::ZonePages { zone, pages, batch } => {
                write!(f, "  {zone} zone: {pages} pages, LIFO batch:{batch}")
            }
            Self::Unavailable { node, zone, pages } => write!(
                f,
                "On node {node}, zone {zone}: {pages} pages in unavailable ranges"
            ),
            Self::Zonelists { count, pages } => write!(
                f,
                "Built {count} zonelists, mobility grouping on.  Total pages: {pages}"
            ),
            Self::PolicyZone { zone } => write!(f, "Policy zone: {zone}"),
        }
    }
}

/// `[mem 0x…-0x…]`, both ends included.
struct Mem(PhysRange);

impl fmt::Display for Mem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.0.end().get().wrapping_sub(1);
        write!(f, "[mem {}-{}]", self.0.start(), PhysAddr::new(last))
    }
}

impl Geometry {
    /// The lines of a kernel's log about its memory map, in its order.
    ///
    /// # Differences from Linux
    /// "mobility grouping" is always on; a kernel turns it off on machines of a few MiB.
    pub fn boot_lines(&self) -> Vec<BootLine> {
        let bytes = |pfns: PfnRange| {
            let shift = self.profile().page_shift;
            PhysRange::new(pfns.start().phys(shift), pfns.end().phys(shift))
        };
        let mut lines = Vec::new();
        lines.push(BootLine::ZoneRanges);
        for (index, zone) in self.profile().zones.iter() {
            if zone != ZoneKind::Movable {
                let limit = self.zone_limits().get(index);
                let range = (!limit.is_empty()).then(|| bytes(limit));
                lines.push(BootLine::ZoneRange { zone, range });
            }
        }
        lines.push(BootLine::MovableStarts);
        for node in self.nodes() {
            if let Some(start) = node.movable_start {
                lines.push(BootLine::MovableStart {
                    node: node.id,
                    start: start.phys(self.profile().page_shift),
                });
            }
        }
        lines.push(BootLine::EarlyRanges);
        for range in self.memory() {
            lines.push(BootLine::EarlyRange {
                node: range.node,
                range: bytes(range.pfns),
            });
        }
        for node in self.nodes() {
            self.node_lines(node, bytes(node.span), &mut lines);
        }
        for hole in self.holes() {
            if let Some(zone) = self.profile().zones.kind(hole.zone) {
                lines.push(BootLine::Unavailable {
                    node: hole.node,
                    zone,
                    pages: hole.pages,
                });
            }
        }
        lines.push(BootLine::Zonelists {
            count: self.nodes().iter().filter(|node| node.online).count(),
            pages: self.zonelist_pages(),
        });
        if self.profile().nodes_shift > 0
            && let Some(zone) = self
                .populated_zones()
                .map(|(_, zone)| zone.kind)
                .filter(|kind| *kind < ZoneKind::Movable)
                .max()
        {
            lines.push(BootLine::PolicyZone { zone });
        }
        lines
    }

    fn node_lines(&self, node: &Node, range: PhysRange, lines: &mut Vec<BootLine>) {
        if !node.online && self.profile().behaviours.announce_offline_nodes {
            lines.push(BootLine::OfflineNode { node: node.id });
        }
        lines.push(if node.span.is_empty() {
            BootLine::InitmemMemoryless { node: node.id }
        } else {
            BootLine::Initmem {
                node: node.id,
                range,
            }
        });
        lines.push(BootLine::TotalPages {
            node: node.id,
            pages: node.present,
        });
        for zone in node.zones.iter().filter(|zone| zone.is_populated()) {
            let estimate = figures::estimate(self, zone);
            if let Some(memmap) = estimate.memmap {
                if memmap > zone.present {
                    lines.push(BootLine::MemmapExceeds {
                        zone: zone.kind,
                        memmap,
                        pages: zone.present,
                    });
                } else if memmap > 0 {
                    lines.push(BootLine::MemmapPages {
                        zone: zone.kind,
                        pages: memmap,
                    });
                }
            }
            if let Some(pages) = estimate.reserved {
                lines.push(BootLine::ReservedPages {
                    zone: zone.kind,
                    pages,
                });
            }
            lines.push(BootLine::ZonePages {
                zone: zone.kind,
                pages: zone.present,
                batch: figures::batch(self, estimate.managed),
            });
        }
    }

    /// Pages that the zonelists reach before hand-over.
    #[doc(alias = "nr_free_zone_pages")]
    pub fn zonelist_pages(&self) -> u64 {
        self.populated_zones()
            .filter(|(node, _)| node.online)
            .map(|(_, zone)| figures::estimate(self, zone).managed)
            .sum()
    }
}
