//! Allocation: a free range is found and reserved.

use thiserror::Error;

use super::{Memblock, Which};
use crate::{MemblockError, MemblockFlags, NodeId, NodeMark, PhysAddr, PhysRange, Region};

/// Alignment of an allocation that asks for none: a cache line, in bytes.
#[doc(alias = "SMP_CACHE_BYTES")]
const CACHE_LINE: u64 = 64;

/// From which nodes an allocation may come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum NodeChoice {
    /// From any.
    #[default]
    Any,
    /// From this one, else from any.
    Prefer(NodeId),
    /// From this one alone.
    Exact(NodeId),
}

impl NodeChoice {
    fn node(self) -> Option<NodeId> {
        match self {
            Self::Any => None,
            Self::Prefer(node) | Self::Exact(node) => Some(node),
        }
    }
}

/// What an allocation asks for. The constructors are Linux's calls.
///
/// ```
/// use memblock::{AllocRequest, Behaviour, Memblock, NodeId, PhysAddr, PhysRange};
/// let mut memblock = Memblock::new(Behaviour::V6_18);
/// memblock.add(PhysRange::from_size(PhysAddr::ZERO, 1 << 20))?;
/// let page = memblock.alloc(AllocRequest::new(4096, 4096).node(NodeId::new(0)))?;
/// assert_eq!(page.start(), PhysAddr::new(0xf_f000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AllocRequest {
    size: u64,
    align: u64,
    min: PhysAddr,
    /// No end is `MEMBLOCK_ALLOC_ACCESSIBLE`: the current limit.
    max: Option<PhysAddr>,
    node: NodeChoice,
    /// A physical address is asked for: `max` may pass the current limit, and `min` is meant.
    phys: bool,
}

impl AllocRequest {
    /// `size` bytes on a multiple of `align` (a power of two; 0 is a cache line), anywhere below
    /// the current limit.
    #[doc(alias = "memblock_alloc")]
    #[doc(alias = "memblock_alloc_raw")]
    pub const fn new(size: u64, align: u64) -> Self {
        Self {
            size,
            align,
            min: PhysAddr::ZERO,
            max: None,
            node: NodeChoice::Any,
            phys: false,
        }
    }

    /// As [`new`](Self::new), for a caller that takes the physical address: the bounds that are
    /// set with [`from`](Self::from) and [`below`](Self::below) then hold as they are.
    #[doc(alias = "memblock_phys_alloc")]
    #[doc(alias = "memblock_phys_alloc_range")]
    #[doc(alias = "memblock_phys_alloc_try_nid")]
    pub const fn phys(size: u64, align: u64) -> Self {
        Self {
            phys: true,
            ..Self::new(size, align)
        }
    }

    /// Below 4 GiB.
    #[doc(alias = "memblock_alloc_low")]
    pub const fn low(size: u64, align: u64) -> Self {
        Self::new(size, align).below(PhysAddr::new(0xffff_ffff))
    }

    /// Not below `min`. A request that is not [`phys`](Self::phys) is tried again from zero.
    #[doc(alias = "memblock_alloc_from")]
    #[must_use]
    pub const fn from(self, min: PhysAddr) -> Self {
        Self { min, ..self }
    }

    /// Ends at or below `max`.
    #[must_use]
    pub const fn below(self, max: PhysAddr) -> Self {
        Self {
            max: Some(max),
            ..self
        }
    }

    /// From `node`, else from any.
    #[doc(alias = "memblock_alloc_node")]
    #[doc(alias = "memblock_alloc_try_nid")]
    #[doc(alias = "memblock_alloc_try_nid_raw")]
    #[must_use]
    pub const fn node(self, node: NodeId) -> Self {
        Self {
            node: NodeChoice::Prefer(node),
            ..self
        }
    }

    /// From `node` alone.
    #[doc(alias = "memblock_alloc_exact_nid_raw")]
    #[must_use]
    pub const fn exact_node(self, node: NodeId) -> Self {
        Self {
            node: NodeChoice::Exact(node),
            ..self
        }
    }

    /// Bytes asked for.
    pub const fn size(&self) -> u64 {
        self.size
    }
}

/// Why nothing was allocated. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AllocError {
    /// The alignment is neither zero nor a power of two.
    #[error("an alignment of {align} bytes: give a power of two, or 0 for a cache line")]
    Align {
        /// The alignment, in bytes.
        align: u64,
    },
    /// No free range is large enough.
    #[error(
        "no {size} bytes aligned to {align} are free between {min} and {max}: add memory, free \
         reservations or widen the bounds"
    )]
    NoSpace {
        /// Bytes asked for.
        size: u64,
        /// Their alignment, in bytes.
        align: u64,
        /// The lowest address that was asked for.
        min: PhysAddr,
        /// The end that was asked for, or the current limit.
        max: PhysAddr,
    },
    /// The slab allocator is up; the kernel warns and takes memory from there.
    #[error("the slab allocator is up: allocate from there")]
    SlabAvailable,
    /// The reservation could not be recorded.
    #[error(transparent)]
    Array(#[from] MemblockError),
}

impl Memblock {
    /// Finds free memory and reserves it. Address 0 is never given: it is the failure of the
    /// kernel's calls. `Linux: memblock_alloc_range_nid, memblock_alloc_internal`.
    ///
    /// Mirrored memory is tried first where there is some. What the reservation says of node and
    /// owner follows the [`Behaviour`](crate::Behaviour). A size of zero gives an empty range and
    /// reserves nothing.
    ///
    /// # Errors
    /// Every variant of [`AllocError`].
    pub fn alloc(&mut self, request: AllocRequest) -> Result<PhysRange, AllocError> {
        let limit = self.settings.current_limit;
        if self.settings.slab_available && (!request.phys || self.behaviour.late_phys_alloc_refused)
        {
            return Err(AllocError::SlabAvailable);
        }
        let align = match request.align {
            0 => CACHE_LINE,
            align if align.is_power_of_two() => align,
            align => return Err(AllocError::Align { align }),
        };
        let max = match request.max {
            None => limit,
            Some(max) if request.phys => max,
            Some(max) => max.min(limit),
        };
        tracing::trace!(op = "memblock_alloc", ?request);
        let range = PhysRange::new(request.min, max);
        let found = self.alloc_range(request, align, range).or_else(|| {
            if request.phys || request.min == PhysAddr::ZERO {
                return None;
            }
            self.alloc_range(request, align, PhysRange::new(PhysAddr::ZERO, max))
        });
        let Some((range, node)) = found else {
            return Err(AllocError::NoSpace {
                size: request.size,
                align,
                min: request.min,
                max,
            });
        };
        self.reserve_allocation(range, node, MemblockFlags::empty())?;
        Ok(range)
    }

    /// Boot-time memory for huge pages: `size` bytes on a multiple of `size`, never from
    /// mirrored memory and never across one of `scratch_areas` (7.3; older kernels make the
    /// ordinary call).
    ///
    /// # Errors
    /// Every variant of [`AllocError`]; [`AllocError::Align`] where `size` is no power of two.
    #[doc(alias = "memblock_alloc_hugetlb")]
    pub fn alloc_hugetlb(
        &mut self,
        size: u64,
        node: NodeChoice,
        scratch_areas: &[PhysRange],
    ) -> Result<PhysRange, AllocError> {
        let request = AllocRequest {
            node,
            ..AllocRequest::new(size, size)
        };
        if !self.behaviour.hugetlb_call {
            return self.alloc(request);
        }
        if self.settings.slab_available {
            return Err(AllocError::SlabAvailable);
        }
        if !size.is_power_of_two() {
            return Err(AllocError::Align { align: size });
        }
        tracing::trace!(op = "memblock_alloc_hugetlb", ?request);
        let find = |node| self.find_beside(size, node, scratch_areas);
        let found = find(node.node())
            .map(|range| (range, node.node()))
            .or_else(|| match node {
                NodeChoice::Prefer(_) => find(None).map(|range| (range, None)),
                NodeChoice::Any | NodeChoice::Exact(_) => None,
            });
        let (range, node) = found.ok_or(AllocError::NoSpace {
            size,
            align: size,
            min: PhysAddr::ZERO,
            max: self.settings.current_limit,
        })?;
        self.reserve_allocation(range, node, MemblockFlags::RSRV_HUGETLB)?;
        Ok(range)
    }

    /// A place for `size` bytes that shares nothing with `areas`.
    fn find_beside(
        &self,
        size: u64,
        node: Option<NodeId>,
        areas: &[PhysRange],
    ) -> Option<PhysRange> {
        let flags = self.mirror_or_none().difference(MemblockFlags::MIRROR);
        let mut window = PhysRange::new(PhysAddr::ZERO, self.settings.current_limit);
        loop {
            let found = self.find_in_range_node(window, size, size, node, flags)?;
            let Some(area) = areas.iter().find(|area| area.overlaps(found)) else {
                return Some(found);
            };
            window = if self.settings.bottom_up {
                PhysRange::new(area.end(), window.end())
            } else {
                PhysRange::new(window.start(), area.start())
            };
        }
    }

    fn reserve_allocation(
        &mut self,
        range: PhysRange,
        node: Option<NodeId>,
        more: MemblockFlags,
    ) -> Result<(), MemblockError> {
        let mark = if self.behaviour.allocation_keeps_node {
            NodeMark::from(node)
        } else {
            self.behaviour.plain_reservation_node
        };
        let flags = self.behaviour.allocation_flags | more;
        self.insert(Which::Reserved, Region::new(range, mark, flags))
    }

    /// A place in `range`, and the node that its reservation records.
    fn alloc_range(
        &self,
        request: AllocRequest,
        align: u64,
        range: PhysRange,
    ) -> Option<(PhysRange, Option<NodeId>)> {
        let mut flags = self.mirror_or_none();
        loop {
            let find = |node| self.find_in_range_node(range, request.size, align, node, flags);
            let wanted = request.node.node();
            if let Some(found) = find(wanted) {
                return Some((found, wanted));
            }
            if let (NodeChoice::Prefer(_), Some(found)) = (request.node, find(None)) {
                return Some((found, None));
            }
            if !flags.contains(MemblockFlags::MIRROR) {
                return None;
            }
            flags.remove(MemblockFlags::MIRROR);
            tracing::warn!(
                size = request.size,
                "could not allocate {:#018x} bytes of mirrored memory",
                request.size
            );
        }
    }

    /// The place in `range` where `size` bytes on a multiple of `align` (a power of two) are
    /// free, or `None`; nothing is reserved. An end of zero stands for the current limit.
    ///
    /// Top-down the highest place, bottom-up the lowest; never in the first page.
    #[doc(alias = "memblock_find_in_range_node")]
    pub fn find_in_range_node(
        &self,
        range: PhysRange,
        size: u64,
        align: u64,
        node: Option<NodeId>,
        flags: MemblockFlags,
    ) -> Option<PhysRange> {
        if !align.is_power_of_two() {
            return None;
        }
        let end = match range.end() {
            PhysAddr::ZERO => self.settings.current_limit,
            end => end,
        };
        let window = PhysRange::new(range.start().max(PhysAddr::new(self.page_size())), end);
        let fits = |free: PhysRange| {
            let start = free.start().clamp(window.start(), window.end());
            let end = free.end().clamp(window.start(), window.end());
            let at = if self.settings.bottom_up {
                start.checked_align_up(align)?
            } else {
                PhysAddr::new(end.get().checked_sub(size)?).align_down(align)
            };
            let placed = if self.settings.bottom_up {
                at < end && end.checked_offset_from(at)? >= size
            } else {
                at >= start
            };
            placed.then(|| PhysRange::from_size(at, size))
        };
        if self.settings.bottom_up {
            self.free_ranges(node, flags)
                .take_while(|free| free.start() < window.end())
                .find_map(|free| fits(free.range()))
        } else {
            self.free_ranges_rev(node, flags)
                .take_while(|free| free.end() > window.start())
                .find_map(|free| fits(free.range()))
        }
    }
}
