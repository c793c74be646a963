//! The allocator of early boot.
//!
//! A [`Memblock`] is a value: two lists of regions (what is memory, what is reserved), on s390 a
//! third, and the few settings that steer allocation. It never touches the memory it describes.

mod alloc;
mod growth;
mod limits;
mod mark;
mod query;

pub use self::alloc::{AllocError, AllocRequest, NodeChoice};
pub use self::growth::Growth;

use core::fmt;

use crate::{
    Behaviour, MemblockError, MemblockFlags, NodeId, NodeMark, PhysAddr, PhysRange, Region,
    RegionList,
};
use growth::Arrays;

/// One of the lists of a [`Memblock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Which {
    /// What is memory.
    Memory,
    /// What is reserved, memory or not.
    Reserved,
    /// What the machine has, whatever the kernel was told to use (s390).
    Physmem,
}

impl Which {
    /// Its name in the kernel's output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Reserved => "reserved",
            Self::Physmem => "physmem",
        }
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What steers iteration and allocation, besides the regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Settings {
    /// log2 of the page size in bytes; 1 to 30.
    pub page_shift: u32,
    /// Allocate from the lowest free address up instead of from the highest down.
    #[doc(alias = "memblock_set_bottom_up")]
    pub bottom_up: bool,
    /// No allocation ends above this address.
    #[doc(alias = "memblock_set_current_limit")]
    pub current_limit: PhysAddr,
    /// The kernel knows of nodes. One that does not stores none, and takes all memory for that of
    /// node 0.
    #[doc(alias = "CONFIG_NUMA")]
    pub numa: bool,
    /// `movable_node` was given: hot-pluggable memory is left alone.
    #[doc(alias = "movable_node_is_enabled")]
    pub movable_node: bool,
    /// `kernelcore=mirror` was given: only then does marking memory as mirrored do anything.
    #[doc(alias = "mirrored_kernelcore")]
    pub kernelcore_mirror: bool,
    /// Some memory was marked as mirrored: allocations try it first.
    #[doc(alias = "system_has_some_mirror")]
    pub has_mirror: bool,
    /// Allocate from scratch memory alone, as a kernel does that kexec handed over to.
    #[doc(alias = "memblock_set_kho_scratch_only")]
    pub kho_scratch_only: bool,
    /// The slab allocator is up: arrays grow in its memory.
    #[doc(alias = "slab_is_available")]
    pub slab_available: bool,
    /// The arrays are kept after boot, so that a late free still changes them.
    #[doc(alias = "CONFIG_ARCH_KEEP_MEMBLOCK")]
    pub keep_memblock: bool,
}

impl Settings {
    /// A kernel at switch-on: 4 KiB pages, nodes known, top-down, no limit.
    const NEW: Self = Self {
        page_shift: 12,
        bottom_up: false,
        current_limit: PhysAddr::MAX,
        numa: true,
        movable_node: false,
        kernelcore_mirror: false,
        has_mirror: false,
        kho_scratch_only: false,
        slab_available: false,
        keep_memblock: true,
    };
}

impl Default for Settings {
    fn default() -> Self {
        Self::NEW
    }
}

/// Linux's boot-time memory region allocator. `Linux: mm/memblock.c`.
///
/// Ranges are half-open and in bytes. Sizes that would pass the top of the address space are cut
/// off there, which loses the very last byte, as in Linux.
///
/// ```
/// use memblock::{Behaviour, Memblock, PhysAddr, PhysRange};
/// let mut memblock = Memblock::new(Behaviour::V6_12);
/// memblock.add(PhysRange::from_size(PhysAddr::new(0x10_0000), 0x70_0000))?;
/// memblock.reserve(PhysRange::from_size(PhysAddr::new(0x20_0000), 0x1000))?;
/// assert_eq!(memblock.memory().total_size(), 0x70_0000);
/// assert!(memblock.is_reserved(PhysAddr::new(0x20_0fff)));
/// # Ok::<(), memblock::MemblockError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[doc(alias = "struct memblock")]
pub struct Memblock {
    behaviour: Behaviour,
    settings: Settings,
    memory: RegionList,
    reserved: RegionList,
    physmem: Option<RegionList>,
    arrays: Arrays,
}

impl Memblock {
    /// An empty memblock whose arrays have no end and take no memory for themselves.
    ///
    /// For arrays as a kernel has them see [`with_growth`](Self::with_growth).
    pub const fn new(behaviour: Behaviour) -> Self {
        Self::with_growth(behaviour, Growth::Unlimited)
    }

    /// An empty memblock whose arrays grow as `growth` says.
    pub const fn with_growth(behaviour: Behaviour, growth: Growth) -> Self {
        Self {
            behaviour,
            settings: Settings::NEW,
            memory: RegionList::new(),
            reserved: RegionList::new(),
            physmem: None,
            arrays: Arrays::new(growth),
        }
    }

    /// What its kernel does.
    pub fn behaviour(&self) -> &Behaviour {
        &self.behaviour
    }

    /// What steers iteration and allocation.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What steers iteration and allocation, to be changed.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// What is memory.
    #[doc(alias = "memblock.memory")]
    pub fn memory(&self) -> &RegionList {
        &self.memory
    }

    /// What is reserved.
    #[doc(alias = "memblock.reserved")]
    pub fn reserved(&self) -> &RegionList {
        &self.reserved
    }

    /// What the machine has, where that is kept (s390).
    pub fn physmem(&self) -> Option<&RegionList> {
        self.physmem.as_ref()
    }

    /// Keeps a physmem array from now on, as s390 does.
    #[doc(alias = "CONFIG_HAVE_MEMBLOCK_PHYS_MAP")]
    pub fn enable_physmem(&mut self) {
        self.physmem.get_or_insert_with(RegionList::new);
    }

    /// The list that `which` names; `None` for a physmem array that is not kept.
    pub fn list(&self, which: Which) -> Option<&RegionList> {
        match which {
            Which::Memory => Some(&self.memory),
            Which::Reserved => Some(&self.reserved),
            Which::Physmem => self.physmem.as_ref(),
        }
    }

    fn list_mut(
        &mut self,
        which: Which,
        range: PhysRange,
    ) -> Result<&mut RegionList, MemblockError> {
        match which {
            Which::Memory => Ok(&mut self.memory),
            Which::Reserved => Ok(&mut self.reserved),
            Which::Physmem => self
                .physmem
                .as_mut()
                .ok_or(MemblockError::NoPhysmem { range }),
        }
    }

    /// Adds `range` to memory, without a node.
    ///
    /// What is memory already stays as it is.
    ///
    /// # Errors
    /// [`MemblockError::ArrayFull`] and [`MemblockError::NoRoomForArray`] where the array has an
    /// end and can't grow.
    #[doc(alias = "memblock_add")]
    pub fn add(&mut self, range: PhysRange) -> Result<(), MemblockError> {
        tracing::trace!(op = "memblock_add", ?range);
        self.insert(
            Which::Memory,
            Region::new(range, NodeMark::UNSET, MemblockFlags::empty()),
        )
    }

    /// Adds `range` to memory, with a node and flags.
    ///
    /// What is memory already keeps its node and flags.
    ///
    /// # Errors
    /// As [`add`](Self::add), and [`MemblockError::UnknownFlag`].
    #[doc(alias = "memblock_add_node")]
    pub fn add_node(
        &mut self,
        range: PhysRange,
        node: impl Into<NodeMark>,
        flags: MemblockFlags,
    ) -> Result<(), MemblockError> {
        let node = node.into();
        tracing::trace!(op = "memblock_add_node", ?range, ?node, %flags);
        self.known(flags)?;
        self.insert(Which::Memory, Region::new(range, node, flags))
    }

    /// Reserves `range`, whether it is memory or not.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    #[doc(alias = "memblock_reserve")]
    pub fn reserve(&mut self, range: PhysRange) -> Result<(), MemblockError> {
        let node = self.behaviour.plain_reservation_node;
        self.reserve_with(range, node, MemblockFlags::empty())
    }

    /// Reserves `range` for the kernel itself (since 6.16); with an older kernel's behaviour a
    /// plain reservation.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    #[doc(alias = "memblock_reserve_kern")]
    pub fn reserve_kern(&mut self, range: PhysRange) -> Result<(), MemblockError> {
        let node = self.behaviour.plain_reservation_node;
        self.reserve_with(range, node, self.behaviour.allocation_flags)
    }

    /// Reserves `range`, with a node and flags.
    ///
    /// What is reserved already keeps its node and flags.
    ///
    /// # Errors
    /// As [`add`](Self::add), and [`MemblockError::UnknownFlag`].
    #[doc(alias = "__memblock_reserve")]
    pub fn reserve_with(
        &mut self,
        range: PhysRange,
        node: impl Into<NodeMark>,
        flags: MemblockFlags,
    ) -> Result<(), MemblockError> {
        let node = node.into();
        tracing::trace!(op = "memblock_reserve", ?range, ?node, %flags);
        self.known(flags)?;
        self.insert(Which::Reserved, Region::new(range, node, flags))
    }

    /// Adds `range` to what the machine has (s390).
    ///
    /// # Errors
    /// As [`add`](Self::add), and [`MemblockError::NoPhysmem`] where no such array is kept.
    #[doc(alias = "memblock_physmem_add")]
    pub fn physmem_add(&mut self, range: PhysRange) -> Result<(), MemblockError> {
        tracing::trace!(op = "memblock_physmem_add", ?range);
        self.insert(
            Which::Physmem,
            Region::new(range, NodeMark::UNSET, MemblockFlags::empty()),
        )
    }

    /// Takes `range` out of memory.
    ///
    /// # Errors
    /// As [`add`](Self::add): a removal may cut a region in two.
    #[doc(alias = "memblock_remove")]
    pub fn remove(&mut self, range: PhysRange) -> Result<(), MemblockError> {
        tracing::trace!(op = "memblock_remove", ?range);
        self.take_out(Which::Memory, range)
    }

    /// Gives a reservation back. What is not reserved is left alone.
    ///
    /// # Errors
    /// As [`add`](Self::add): a removal may cut a region in two.
    #[doc(alias = "memblock_free")]
    #[doc(alias = "memblock_phys_free")]
    pub fn free(&mut self, range: PhysRange) -> Result<(), MemblockError> {
        tracing::trace!(op = "memblock_phys_free", ?range);
        self.take_out(Which::Reserved, range)
    }

    /// Sets the node of every part of `which` that lies in `range`; nothing where the kernel
    /// knows of no nodes.
    ///
    /// # Errors
    /// As [`add`](Self::add): regions that cross a bound are cut in two.
    #[doc(alias = "memblock_set_node")]
    pub fn set_node(
        &mut self,
        range: PhysRange,
        which: Which,
        node: impl Into<NodeMark>,
    ) -> Result<(), MemblockError> {
        let node = node.into();
        tracing::trace!(op = "memblock_set_node", ?range, %which, ?node);
        if !self.settings.numa {
            return Ok(());
        }
        self.prepare_isolate(which, range)?;
        self.list_mut(which, range)?
            .change(range, |region| region.with_node(node));
        Ok(())
    }

    fn known(&self, flags: MemblockFlags) -> Result<(), MemblockError> {
        let flags = flags.difference(self.behaviour.known_flags);
        if flags.is_empty() {
            Ok(())
        } else {
            Err(MemblockError::UnknownFlag { flags })
        }
    }

    /// Adds the parts of `region` that its list does not cover. `Linux: memblock_add_range`.
    #[inline]
    fn insert(&mut self, which: Which, mut region: Region) -> Result<(), MemblockError> {
        let range = region.range();
        if range.is_empty() {
            return Ok(());
        }
        if !self.settings.numa {
            region.forget_node();
        }
        if self.arrays.are_limited() {
            self.prepare_insert(which, range)?;
        }
        let list = self.list_mut(which, range)?;
        if !list.insert(&region) {
            Self::insert_around(list, region, which);
        }
        Ok(())
    }

    #[cold]
    fn insert_around(list: &mut RegionList, region: Region, which: Which) {
        // the gaps are found before the first is filled: filling may merge what the walk stands on
        let pieces: ::alloc::vec::Vec<_> = list.gaps_in(region.range()).collect();
        for there in list.overlapping(region.range()) {
            let gap_below = region.start() < there.start();
            if gap_below && there.node_mark() != region.node_mark() {
                tracing::warn!(%which, ?there, ?region, "overlap with another node");
            }
            if gap_below && there.flags() != region.flags() {
                tracing::warn!(%which, ?there, ?region, "overlap with other flags");
            }
        }
        for piece in pieces {
            let inserted = list.insert(&region.with_range(piece));
            debug_assert!(inserted, "a gap is free");
        }
    }

    fn take_out(&mut self, which: Which, range: PhysRange) -> Result<(), MemblockError> {
        self.prepare_isolate(which, range)?;
        self.list_mut(which, range)?.remove(range);
        Ok(())
    }

    /// Fills the list `which`, which is made where it is not kept yet.
    pub(crate) fn load(&mut self, which: Which, fill: impl FnOnce(&mut RegionList)) {
        fill(match which {
            Which::Memory => &mut self.memory,
            Which::Reserved => &mut self.reserved,
            Which::Physmem => self.physmem.get_or_insert_with(RegionList::new),
        });
    }

    /// Overrides the kernel's own size counters, as a dump showed them.
    pub(crate) fn set_total_sizes(&mut self, memory: u64, reserved: u64) {
        self.memory.set_total_size(memory);
        self.reserved.set_total_size(reserved);
    }

    fn mirror_or_none(&self) -> MemblockFlags {
        if self.settings.kho_scratch_only {
            MemblockFlags::KHO_SCRATCH
        } else if self.settings.has_mirror {
            MemblockFlags::MIRROR
        } else {
            MemblockFlags::empty()
        }
    }

    /// The lowest address of memory; zero where there is none.
    #[doc(alias = "memblock_start_of_DRAM")]
    pub fn start_of_dram(&self) -> PhysAddr {
        self.memory.first().map_or(PhysAddr::ZERO, Region::start)
    }

    /// One past the highest address of memory; zero where there is none.
    #[doc(alias = "memblock_end_of_DRAM")]
    pub fn end_of_dram(&self) -> PhysAddr {
        self.memory.last().map_or(PhysAddr::ZERO, Region::end)
    }

    /// The nodes that some memory names, in ascending order.
    pub fn memory_nodes(&self) -> ::alloc::vec::Vec<NodeId> {
        let mut nodes: ::alloc::vec::Vec<_> = self.memory.iter().filter_map(Region::node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}
