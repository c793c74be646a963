//! A machine made up from a few words: so much memory, so many nodes.
//!
//! It looks like an amd64 server: the first page and the range below 1 MiB that firmware keeps
//! are missing, a hole for devices lies below 4 GiB, and memory goes on above it. Nodes share
//! what there is evenly and begin at multiples of 128 MiB, or are given range by range.

use memblock::{NodeId, PhysAddr, PhysRange};

use crate::layout::{
    MAX_NODES, MachineLayout, MemoryRange, MemorySource, NodeRange, NodeSource, PageSizeSource,
    Provenance, ReservedSource,
};
use crate::location::Location;
use crate::release::Architecture;
use crate::size::ByteSize;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const PAGE: u64 = 4096;
/// Nodes begin at multiples of this: a section of memory.
const NODE_ALIGN: u64 = 128 * MIB;
/// Where the hole below 4 GiB begins.
const DEVICE_HOLE: u64 = 3 * GIB;
/// Linux keeps physical addresses of amd64 in this many bits, with four levels of page tables.
const ADDRESS_BITS: u32 = 46;

/// A made-up machine that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntheticError {
    /// There are no nodes.
    #[error("a machine needs at least one node")]
    NoNodes,
    /// There are more nodes than node numbers.
    #[error("{nodes} nodes are more than a kernel can number ({MAX_NODES})")]
    TooManyNodes {
        /// How many were asked for.
        nodes: u64,
    },
    /// A node would have next to no memory.
    #[error(
        "{memory} over {nodes} nodes leaves less than {least} for one: give more memory or fewer nodes",
        least = ByteSize(NODE_ALIGN)
    )]
    TooSmall {
        /// How much memory was asked for.
        memory: ByteSize,
        /// How many nodes.
        nodes: u64,
    },
    /// There is more memory than addresses.
    #[error(
        "{memory} is more than {ADDRESS_BITS} bits can address (64T less 1G for the hole below 4 GiB)"
    )]
    TooLarge {
        /// How much memory was asked for.
        memory: ByteSize,
    },
    /// A range of a node is empty or not in whole pages.
    #[error("node {node}: {range:?} is not a range of whole pages of {PAGE} bytes")]
    NotPages {
        /// The node.
        node: NodeId,
        /// The range.
        range: PhysRange,
    },
    /// A range of a node ends above all addresses.
    #[error("node {node}: {range} ends above what {ADDRESS_BITS} bits can address (64T)")]
    Beyond {
        /// The node.
        node: NodeId,
        /// The range.
        range: PhysRange,
    },
    /// Two nodes claim the same memory.
    #[error(
        "nodes {first} and {second} both claim {range}; one address has one node: correct the ranges"
    )]
    Overlap {
        /// The one.
        first: NodeId,
        /// The other.
        second: NodeId,
        /// What both claim.
        range: PhysRange,
    },
}

/// A machine with `memory` bytes, evenly on `nodes` nodes.
///
/// Memory that falls on a page of firmware's below 1 MiB is lost, as on a real machine.
///
/// # Errors
/// * [`SyntheticError::NoNodes`], [`SyntheticError::TooManyNodes`].
/// * [`SyntheticError::TooSmall`] where a node would have less than 128 MiB.
/// * [`SyntheticError::TooLarge`] where it would not fit below 64 TiB.
pub fn even(memory: ByteSize, nodes: u64) -> Result<MachineLayout, SyntheticError> {
    if nodes == 0 {
        return Err(SyntheticError::NoNodes);
    }
    if nodes > MAX_NODES {
        return Err(SyntheticError::TooManyNodes { nodes });
    }
    if memory.0 / nodes < NODE_ALIGN {
        return Err(SyntheticError::TooSmall { memory, nodes });
    }
    let room = (1 << ADDRESS_BITS) - (4 * GIB - DEVICE_HOLE);
    if memory.0 > room {
        return Err(SyntheticError::TooLarge { memory });
    }
    let share = memory.0 / nodes / NODE_ALIGN * NODE_ALIGN;
    let mut claims = Vec::new();
    let mut memory_at = 0;
    for number in 0..nodes {
        let last = number + 1 == nodes;
        let end = if last {
            memory.0 / PAGE * PAGE
        } else {
            memory_at + share
        };
        let node = NodeId::new(number as u16);
        claims.extend(placed(memory_at, end).map(|range| (node, range)));
        memory_at = end;
    }
    explicit(&claims)
}

/// Bytes `[start, end)` of memory as addresses, around the holes that firmware leaves.
fn placed(start: u64, end: u64) -> impl Iterator<Item = PhysRange> {
    let above = 4 * GIB - DEVICE_HOLE;
    let windows = [
        (PAGE, 0x9_f000, 0),
        (MIB, DEVICE_HOLE, 0),
        (DEVICE_HOLE, u64::MAX - above, above),
    ];
    windows.into_iter().filter_map(move |(low, high, shift)| {
        let part = PhysRange::new(
            PhysAddr::new(start.max(low) + shift),
            PhysAddr::new(end.min(high) + shift),
        );
        (!part.is_empty()).then_some(part)
    })
}

/// A machine whose nodes have these ranges, in any order.
///
/// # Errors
/// * [`SyntheticError::NoNodes`] without a range.
/// * [`SyntheticError::NotPages`] where a range is empty or not in whole pages.
/// * [`SyntheticError::Beyond`] where a range ends above 64 TiB.
/// * [`SyntheticError::Overlap`] where two ranges share an address.
pub fn explicit(claims: &[(NodeId, PhysRange)]) -> Result<MachineLayout, SyntheticError> {
    if claims.is_empty() {
        return Err(SyntheticError::NoNodes);
    }
    let mut sorted = claims.to_vec();
    sorted.sort_by_key(|(_, range)| range.start());
    for &(node, range) in &sorted {
        let whole = range.start().get() % PAGE == 0 && range.end().get() % PAGE == 0;
        if range.is_empty() || !whole {
            return Err(SyntheticError::NotPages { node, range });
        }
        if range.end().get() > 1 << ADDRESS_BITS {
            return Err(SyntheticError::Beyond { node, range });
        }
    }
    for pair in sorted.windows(2) {
        if let Some(range) = pair[0].1.intersection(pair[1].1) {
            return Err(SyntheticError::Overlap {
                first: pair[0].0,
                second: pair[1].0,
                range,
            });
        }
    }
    let memory = sorted
        .iter()
        .map(|&(node, range)| MemoryRange {
            range,
            node: Some(node),
            flags: 0,
            line: 0,
        })
        .collect();
    let node_ranges = sorted
        .iter()
        .map(|&(node, range)| NodeRange {
            range,
            node,
            line: 0,
        })
        .collect();
    Ok(MachineLayout {
        architecture: Some(Architecture::Amd64),
        page_size: PAGE,
        memory,
        node_ranges,
        provenance: Provenance {
            memory: MemorySource::Synthetic,
            nodes: NodeSource::Synthetic,
            reserved: ReservedSource::None,
            page_size: PageSizeSource::Given,
            ..Provenance::default()
        },
        ..MachineLayout::empty("(given sizes)")
    })
}

/// A node that was typed as `NODE:START-END`, with sizes for the addresses: `1:4G-6G`.
///
/// # Errors
/// [`NodeRangeError`] with what stands there.
pub fn parse_node_range(text: &str) -> Result<(NodeId, PhysRange), NodeRangeError> {
    let error = || NodeRangeError {
        at: Location::new(0, text),
    };
    let (node, range) = text.split_once(':').ok_or_else(error)?;
    let (start, end) = range.split_once('-').ok_or_else(error)?;
    let node = node.trim().parse().map_err(|_| error())?;
    let address = |text: &str| match text.trim().strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse::<ByteSize>().ok().map(|size| size.0),
    };
    let (start, end) = address(start).zip(address(end)).ok_or_else(error)?;
    if start >= end {
        return Err(error());
    }
    let range = PhysRange::new(PhysAddr::new(start), PhysAddr::new(end));
    Ok((NodeId::new(node), range))
}

/// A text that is not a node's range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not NODE:START-END; write 0:0-2G, or 1:0x100000000-0x180000000, the end being the first address behind", at.text)]
pub struct NodeRangeError {
    /// The text.
    pub at: Location,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> ByteSize {
        text.parse().unwrap()
    }

    fn range(start: u64, end: u64) -> PhysRange {
        PhysRange::new(PhysAddr::new(start), PhysAddr::new(end))
    }

    #[test]
    fn memory_is_shared_evenly_around_the_hole_below_4_gib() {
        let layout = even(size("8G"), 2).unwrap();
        let ranges: Vec<_> = layout
            .memory
            .iter()
            .map(|m| (m.node.unwrap().get(), m.range))
            .collect();
        assert_eq!(
            ranges,
            [
                (0, range(0x1000, 0x9f000)),
                (0, range(MIB, 3 * GIB)),
                (0, range(4 * GIB, 5 * GIB)),
                (1, range(5 * GIB, 9 * GIB)),
            ]
        );
        assert_eq!(layout.memory_bytes(), 8 * GIB - MIB + 0x9e000);
    }

    #[test]
    fn the_last_node_takes_what_does_not_divide() {
        let layout = even(size("1000M"), 3).unwrap();
        let last = layout.memory.last().unwrap();
        assert_eq!(last.node, Some(NodeId::new(2)));
        assert_eq!(last.range, range(512 * MIB, 1000 * MIB));
    }

    #[test]
    fn machines_that_cannot_be_are_refused() {
        assert_eq!(even(size("1G"), 0), Err(SyntheticError::NoNodes));
        assert_eq!(
            even(size("1P"), 2000),
            Err(SyntheticError::TooManyNodes { nodes: 2000 })
        );
        let small = even(size("200M"), 2).unwrap_err();
        assert!(
            small
                .to_string()
                .contains("200M over 2 nodes leaves less than 128M"),
            "{small}"
        );
        assert!(even(ByteSize(0), 1).is_err());
        assert!(even(size("64T"), 1).is_err());
        assert!(even(size("63T"), 8).is_ok());
        assert!(even(ByteSize(u64::MAX), 1).is_err());
    }

    #[test]
    fn nodes_given_range_by_range_may_be_in_any_order_and_must_not_overlap() {
        let claims = [
            parse_node_range("1:1G-2G").unwrap(),
            parse_node_range("0:0x100000-1G").unwrap(),
        ];
        assert_eq!(explicit(&claims).unwrap().nodes().len(), 2);
        let claims = [claims[0], (NodeId::new(3), range(GIB, GIB + 4096))];
        let error = explicit(&claims).unwrap_err();
        assert!(
            error.to_string().contains("nodes 1 and 3 both claim"),
            "{error}"
        );
        let odd = [(NodeId::new(0), range(1, 4096))];
        assert!(matches!(
            explicit(&odd),
            Err(SyntheticError::NotPages { .. })
        ));
        assert_eq!(explicit(&[]), Err(SyntheticError::NoNodes));
        for bad in [
            "",
            "0",
            "0:1G",
            "x:0-1G",
            "0:2G-1G",
            "0:0-99999999T",
            "70000:0-1G",
        ] {
            assert!(parse_node_range(bad).is_err(), "{bad}");
        }
    }
}
