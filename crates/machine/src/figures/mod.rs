//! The figures that a kernel prints about its own memory map.
//!
//! They are what our figures are judged by, so they are kept with line and text, in the order
//! printed, whatever version printed them. Reading them needs no knowledge of the machine.
//! Linux: `mm/mm_init.c`, `mm/page_alloc.c`.

use memblock::{NodeId, PhysAddr, PhysRange};
use memmap_core::ZoneKind;

use crate::location::Location;

mod read;

pub(crate) use read::FigureReader;

/// What one line says. Sizes are pages of the kernel's own page size unless named otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FigureKind {
    /// `last_pfn = 0xP max_arch_pfn = 0xM` (x86).
    LastPfn {
        /// One past the last frame of memory, or of what lies below 4 GiB.
        pfn: u64,
    },
    /// `  DMA  [mem S-E]` or `empty`, below `Zone ranges:`.
    ZoneRange {
        /// The zone.
        zone: ZoneKind,
        /// Its limits, or `None` where it is empty.
        range: Option<PhysRange>,
    },
    /// `  Node 0: S`, below `Movable zone start for each node`.
    MovableStart {
        /// The node.
        node: NodeId,
        /// First address of its Movable zone.
        start: PhysAddr,
    },
    /// `  node 0: [mem S-E]`, below `Early memory node ranges`.
    EarlyRange {
        /// The node.
        node: NodeId,
        /// Whole pages of one memory region.
        range: PhysRange,
    },
    /// `Initmem setup node 0 [mem S-E]`, or `as memoryless`.
    Initmem {
        /// The node.
        node: NodeId,
        /// From its first to its last page, or `None` where it has no memory.
        range: Option<PhysRange>,
    },
    /// `Initializing node 0 as memoryless`: a node that is possible and not online.
    OfflineNode {
        /// The node.
        node: NodeId,
    },
    /// `On node 0 totalpages: N`.
    TotalPages {
        /// The node.
        node: NodeId,
        /// Present pages.
        pages: u64,
    },
    /// `  DMA zone: N pages used for memmap`.
    MemmapPages {
        /// The node of the line above it.
        node: Option<NodeId>,
        /// The zone.
        zone: ZoneKind,
        /// Pages of the zone's part of the memory map.
        pages: u64,
    },
    /// `  DMA zone: N pages reserved`.
    ReservedPages {
        /// The node of the line above it.
        node: Option<NodeId>,
        /// The zone.
        zone: ZoneKind,
        /// Pages.
        pages: u64,
    },
    /// `  DMA zone: N pages, LIFO batch:M`.
    ZonePages {
        /// The node of the line above it.
        node: Option<NodeId>,
        /// The zone.
        zone: ZoneKind,
        /// Present pages.
        pages: u64,
        /// Pages that a CPU's list takes at a time.
        batch: u64,
    },
    /// `On node 0, zone DMA: N pages in unavailable ranges`; up to 5.13 also without the node.
    Unavailable {
        /// The node, where a line names it.
        node: Option<NodeId>,
        /// The zone.
        zone: ZoneKind,
        /// Pages of holes.
        pages: u64,
    },
    /// `Zeroed struct page in unavailable ranges: N pages` (4.19 to 5.11).
    ZeroedPages {
        /// Pages of holes.
        pages: u64,
    },
    /// `Reserved but unavailable: N pages` (4.15 to 4.19).
    ReservedUnavailable {
        /// Pages that are reserved and no memory.
        pages: u64,
    },
    /// `Fallback order for Node 0: 0 1`.
    Fallback {
        /// The node.
        node: NodeId,
        /// Where it takes memory from, nearest first.
        order: Vec<NodeId>,
    },
    /// `Built N zonelists, mobility grouping on.  Total pages: M`.
    Zonelists {
        /// How many lists.
        lists: u64,
        /// Whether pages are grouped by mobility.
        grouping: bool,
        /// Pages that can be allocated from.
        pages: u64,
    },
    /// `Policy zone: Normal`.
    PolicyZone {
        /// The highest zone that memory policies apply to.
        zone: ZoneKind,
    },
    /// `Memory: AK/TK available (… RK reserved, CK cma-reserved…)`, in KiB.
    Memory {
        /// Free when it was printed, KiB.
        available: u64,
        /// Present, KiB.
        total: u64,
        /// Reserved, KiB.
        reserved: u64,
        /// Of the contiguous allocator, KiB.
        cma: Option<u64>,
        /// In HighMem, KiB.
        highmem: Option<u64>,
    },
    /// `node 0 deferred pages initialised in Nms`; up to 5.7 `node 0 initialised, P pages in Nms`.
    DeferredInit {
        /// The node.
        node: NodeId,
        /// Pages, where the line says.
        pages: Option<u64>,
        /// Time in milliseconds.
        milliseconds: u64,
    },
    /// `memmap_init_zone_device initialised N pages in Mms`.
    DeviceInit {
        /// Pages.
        pages: u64,
        /// Time in milliseconds.
        milliseconds: u64,
    },
}

impl FigureKind {
    /// A short name of the kind, the same for all figures of one kind.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::LastPfn { .. } => "last pfn",
            Self::ZoneRange { .. } => "zone range",
            Self::MovableStart { .. } => "movable start",
            Self::EarlyRange { .. } => "early node range",
            Self::Initmem { .. } => "initmem",
            Self::OfflineNode { .. } => "offline node",
            Self::TotalPages { .. } => "totalpages",
            Self::MemmapPages { .. } => "memmap pages",
            Self::ReservedPages { .. } => "reserved pages",
            Self::ZonePages { .. } => "zone pages",
            Self::Unavailable { .. } => "unavailable pages",
            Self::ZeroedPages { .. } => "zeroed pages",
            Self::ReservedUnavailable { .. } => "reserved and unavailable pages",
            Self::Fallback { .. } => "fallback order",
            Self::Zonelists { .. } => "zonelists",
            Self::PolicyZone { .. } => "policy zone",
            Self::Memory { .. } => "Memory line",
            Self::DeferredInit { .. } => "deferred init time",
            Self::DeviceInit { .. } => "device init time",
        }
    }
}

/// One figure and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Line and text.
    pub at: Location,
    /// What it says.
    pub kind: FigureKind,
}

/// The figures of one log, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrintedFigures {
    figures: Vec<Figure>,
    /// Line of `Zone ranges:`.
    pub zone_ranges_at: Option<u64>,
    /// Line of `Movable zone start for each node`.
    pub movable_at: Option<u64>,
    /// Line of `Early memory node ranges`.
    pub early_ranges_at: Option<u64>,
}

impl PrintedFigures {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter()
    }

    /// Number `index` of them, in the log's order.
    pub fn get(&self, index: usize) -> Option<&Figure> {
        self.figures.get(index)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.figures.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }

    /// Zones and their limits, in the order printed; `None` for an empty zone.
    pub fn zone_ranges(&self) -> impl Iterator<Item = (ZoneKind, Option<PhysRange>)> {
        self.iter().filter_map(|figure| match figure.kind {
            FigureKind::ZoneRange { zone, range } => Some((zone, range)),
            _ => None,
        })
    }

    /// Nodes and their early ranges, in the order printed.
    pub fn early_ranges(&self) -> impl Iterator<Item = (NodeId, PhysRange)> {
        self.iter().filter_map(|figure| match figure.kind {
            FigureKind::EarlyRange { node, range } => Some((node, range)),
            _ => None,
        })
    }

    /// Holes: node where it is named, zone, pages, in the order printed.
    pub fn unavailable(&self) -> impl Iterator<Item = (Option<NodeId>, ZoneKind, u64)> {
        self.iter().filter_map(|figure| match figure.kind {
            FigureKind::Unavailable { node, zone, pages } => Some((node, zone, pages)),
            _ => None,
        })
    }

    /// What deferred initialisation took on each node: pages where they are said, milliseconds.
    pub fn deferred_init(&self) -> impl Iterator<Item = (NodeId, Option<u64>, u64)> {
        self.iter().filter_map(|figure| match figure.kind {
            FigureKind::DeferredInit {
                node,
                pages,
                milliseconds,
            } => Some((node, pages, milliseconds)),
            _ => None,
        })
    }
}
