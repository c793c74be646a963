//! The numbers of a line, and the words in which two of them are compared.

use crate::figures::FigureKind;

/// One number of a line. Most lines have one; some have two that follow from different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Part {
    /// All that the line says.
    Whole,
    /// How many zonelists.
    Zonelists,
    /// Pages that they hold together.
    ZonelistTotal,
    /// Pages of a zone.
    ZonePages,
    /// Pages that a CPU's list takes at a time.
    Batch,
    /// Memory in all.
    MemoryTotal,
    /// What of it is reserved.
    MemoryReserved,
    /// What of it the contiguous allocator has.
    MemoryCma,
    /// Pages of a device.
    DevicePages,
    /// A line of this kind that only we would print.
    Missing(&'static str),
}

impl Part {
    /// The name of the figure that this is of a line of kind `name`.
    pub(super) const fn name(self, kind: &'static str) -> &'static str {
        match self {
            Self::Whole => kind,
            Self::Zonelists => "zonelists",
            Self::ZonelistTotal => "zonelist total",
            Self::ZonePages => "zone pages",
            Self::Batch => "LIFO batch",
            Self::MemoryTotal => "Memory total",
            Self::MemoryReserved => "Memory reserved",
            Self::MemoryCma => "Memory cma-reserved",
            Self::DevicePages => "device pages",
            Self::Missing(kind) => kind,
        }
    }
}

/// A figure's own words for the comparison: what is printed, without what is not compared.
pub(super) fn words(kind: &FigureKind, part: Part) -> String {
    let range = |range: &Option<memblock::PhysRange>| {
        range.map_or("empty".to_owned(), |range| range.to_string())
    };
    match kind {
        FigureKind::ZoneRange { zone, range: r } => format!("{zone} {}", range(r)),
        FigureKind::MovableStart { node, start } => format!("Node {node}: {start}"),
        FigureKind::EarlyRange { node, range } => format!("node {node}: {range}"),
        FigureKind::Initmem { node, range: None } => format!("node {node} as memoryless"),
        FigureKind::Initmem {
            node,
            range: Some(r),
        } => format!("node {node} {r}"),
        FigureKind::OfflineNode { node } => format!("node {node} as memoryless"),
        FigureKind::TotalPages { node, pages } => format!("node {node}: {pages} pages"),
        FigureKind::MemmapPages { zone, pages, .. } => format!("{zone}: {pages} pages of memmap"),
        FigureKind::ReservedPages { zone, pages, .. } => format!("{zone}: {pages} pages reserved"),
        FigureKind::ZonePages {
            zone, pages, batch, ..
        } => match part {
            Part::Batch => format!("{zone}: batch {batch}"),
            _ => format!("{zone}: {pages} pages"),
        },
        FigureKind::Unavailable { node, zone, pages } => match node {
            Some(node) => format!("node {node}, zone {zone}: {pages} pages"),
            None => format!("zone {zone}: {pages} pages"),
        },
        FigureKind::ZeroedPages { pages } => format!("{pages} pages"),
        FigureKind::Zonelists { lists, pages, .. } => match part {
            Part::ZonelistTotal => format!("{pages} pages"),
            _ => format!("{lists} zonelists"),
        },
        FigureKind::Fallback { node, order } => {
            // The others come in an order of distances, which no line tells.
            let mut all: Vec<_> = order.iter().map(|node| node.get()).collect();
            all.sort_unstable();
            format!("node {node}: {all:?}")
        }
        FigureKind::PolicyZone { zone } => format!("{zone}"),
        FigureKind::Memory { total, .. } => format!("{total}K"),
        FigureKind::LastPfn { pfn } => format!("{pfn:#x}"),
        other => other.name().to_owned(),
    }
}
