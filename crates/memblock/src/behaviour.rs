//! What differs between kernels, as data.
//!
//! No code of this crate asks for a version. A [`Behaviour`] has a field for every difference
//! that the memory allocator of early boot shows between Linux 6.1 and 7.3; the presets set them,
//! and a simulator of another kernel makes its own.

use crate::{MemblockFlags, NodeMark};

/// How a kernel's memblock behaves. `Linux: mm/memblock.c`.
///
/// ```
/// use memblock::Behaviour;
/// // a 6.12 kernel that had taken over the reservation flags of 6.16
/// let mut mine = Behaviour::V6_12;
/// mine.allocation_flags = Behaviour::V6_18.allocation_flags;
/// assert_ne!(mine, Behaviour::V6_12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Behaviour {
    /// An empty array counts one region of no bytes (up to 6.1), as its dump shows.
    pub empty_array_counts_one: bool,
    /// The flags that can be set or cleared.
    pub known_flags: MemblockFlags,
    /// How a plain reservation says that it has no node.
    pub plain_reservation_node: NodeMark,
    /// What an allocation, or an array that grew, reserves its memory with.
    pub allocation_flags: MemblockFlags,
    /// An allocation's reservation keeps the node that was asked for (since 6.16).
    pub allocation_keeps_node: bool,
    /// The kernel panics where an array is full and may not grow (since 6.12); before, the
    /// operation failed.
    pub full_array_panics: bool,
    /// Physical allocations too are refused once the slab allocator is up (since 6.12); before,
    /// only those that give a virtual address were.
    pub late_phys_alloc_refused: bool,
    /// What `memblock_estimated_nr_free_pages` subtracts.
    pub estimated_free: EstimatedFree,
    /// Freeing once the slab allocator is up hands the pages to the buddy allocator (since 7.1).
    pub late_free_hands_over: bool,
    /// Boot-time huge pages have an allocation call of their own (7.3).
    pub hugetlb_call: bool,
    /// Where struct pages of reservations take their node from.
    pub reserved_node: ReservedNode,
    /// How a reservation is logged.
    pub reserve_line: ReserveLine,
    /// How the arrays look in debugfs.
    pub debugfs: DebugfsStyle,
    /// What the kernel makes of `reserve_mem=`.
    pub reserve_mem: ReserveMem,
    /// How the areas of a kexec hand-over are sized.
    pub kho: KhoSizing,
}

/// What is taken off the size of memory to estimate the free pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum EstimatedFree {
    /// The kernel makes no such estimate.
    Absent,
    /// Everything reserved.
    AllReserved,
    /// Reservations of the kernel itself ([`MemblockFlags::RSRV_KERN`]).
    KernelReserved,
}

/// Where struct pages of reservations take their node from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ReservedNode {
    /// Every frame is looked up in memory (up to 6.4).
    PerPfn,
    /// Reservations take the nodes of the memory that they lie in, then keep one node each
    /// (since 6.5).
    PerRegion {
        /// The memory region's *end* was passed as its size (6.5 to 6.14, fixed in 6.15 and in
        /// later stable kernels): reservations outside memory may get a node by it.
        end_as_size: bool,
    },
}

/// How a reservation is logged with `memblock=debug`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ReserveLine {
    /// `memblock_reserve: [S-E] CALLER`
    Plain,
    /// `__memblock_reserve: [S-E] nid=N flags=X CALLER` (since 6.16)
    NodeAndFlags,
}

/// How a region looks in debugfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum DebugfsStyle {
    /// The range alone.
    Range,
    /// Range, node and the lowest flag (6.7 to 7.2).
    LowestFlag,
    /// Range, node and all flags, joined by `|`.
    AllFlags,
}

/// What a kernel makes of `reserve_mem=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ReserveMem {
    /// It does not know the option (before 6.12).
    Absent,
    /// It takes it, and ignores without a word what it can't use.
    Silent,
    /// It takes it, and prints why where it can't (since 7.1).
    Reports,
}

/// How the scratch areas of a kexec hand-over are sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum KhoSizing {
    /// The kernel knows no such hand-over (before 6.16).
    Absent,
    /// The low area is rounded before it is taken off the global one, and sizes that were given
    /// for both are not rounded.
    LowRoundedFirst,
    /// Everything is rounded at the end (since 7.2).
    RoundedLast,
}

const UP_TO_6_1: MemblockFlags = MemblockFlags::HOTPLUG
    .union(MemblockFlags::MIRROR)
    .union(MemblockFlags::NOMAP)
    .union(MemblockFlags::DRIVER_MANAGED);
const UP_TO_6_12: MemblockFlags = UP_TO_6_1.union(MemblockFlags::RSRV_NOINIT);
const UP_TO_6_18: MemblockFlags = UP_TO_6_12
    .union(MemblockFlags::RSRV_KERN)
    .union(MemblockFlags::KHO_SCRATCH);

impl Behaviour {
    /// Linux 6.1.
    pub const V6_1: Self = Self {
        empty_array_counts_one: true,
        known_flags: UP_TO_6_1,
        plain_reservation_node: NodeMark::UNSET,
        allocation_flags: MemblockFlags::empty(),
        allocation_keeps_node: false,
        full_array_panics: false,
        late_phys_alloc_refused: false,
        estimated_free: EstimatedFree::Absent,
        late_free_hands_over: false,
        hugetlb_call: false,
        reserved_node: ReservedNode::PerPfn,
        reserve_line: ReserveLine::Plain,
        debugfs: DebugfsStyle::Range,
        reserve_mem: ReserveMem::Absent,
        kho: KhoSizing::Absent,
    };
    /// Linux 6.12 with the fixes of its stable series up to 6.12.117.
    pub const V6_12: Self = Self {
        empty_array_counts_one: false,
        known_flags: UP_TO_6_12,
        full_array_panics: true,
        late_phys_alloc_refused: true,
        estimated_free: EstimatedFree::AllReserved,
        reserved_node: ReservedNode::PerRegion { end_as_size: false },
        debugfs: DebugfsStyle::AllFlags,
        reserve_mem: ReserveMem::Silent,
        ..Self::V6_1
    };
    /// Linux 6.18.
    pub const V6_18: Self = Self {
        known_flags: UP_TO_6_18,
        plain_reservation_node: NodeMark::NO_NODE,
        allocation_flags: MemblockFlags::RSRV_KERN,
        allocation_keeps_node: true,
        estimated_free: EstimatedFree::KernelReserved,
        reserve_line: ReserveLine::NodeAndFlags,
        debugfs: DebugfsStyle::LowestFlag,
        kho: KhoSizing::LowRoundedFirst,
        ..Self::V6_12
    };
    /// Linux 7.3.
    pub const V7_3: Self = Self {
        known_flags: UP_TO_6_18.union(MemblockFlags::RSRV_HUGETLB),
        late_free_hands_over: true,
        hugetlb_call: true,
        debugfs: DebugfsStyle::AllFlags,
        reserve_mem: ReserveMem::Reports,
        kho: KhoSizing::RoundedLast,
        ..Self::V6_18
    };

    /// The preset of the latest kernel that is not above `major.minor`; 6.1 for older ones.
    pub const fn for_version(major: u32, minor: u32) -> Self {
        match (major, minor) {
            (0..=5, _) | (6, 0..=11) => Self::V6_1,
            (6, 12..=15) => Self::V6_12,
            (6, _) | (7, 0) => Self::V6_18,
            (7, 1) => Self {
                known_flags: Self::V6_18.known_flags,
                hugetlb_call: false,
                debugfs: DebugfsStyle::LowestFlag,
                kho: KhoSizing::LowRoundedFirst,
                ..Self::V7_3
            },
            (7, 2) => Self {
                known_flags: Self::V6_18.known_flags,
                hugetlb_call: false,
                debugfs: DebugfsStyle::LowestFlag,
                ..Self::V7_3
            },
            _ => Self::V7_3,
        }
    }
}
