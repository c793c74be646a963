//! Memory blocks and their states.

use alloc::collections::BTreeMap;

use memblock::{NodeId, Pfn, PfnRange};

use crate::buddy::{Allocator, Block, MigrateType, blocks};
use crate::geometry::{Node, SectionNr};
use crate::map::MemoryMap;
use crate::profile::{ZoneIndex, ZoneKind};
use crate::writers::{PageWriter, Template};

use super::BlockError;

/// What a memory block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockState {
    /// Added, and no zone's.
    Offline,
    /// In use by one zone.
    Online(ZoneIndex),
    /// There since boot, in whatever zones.
    Boot,
}

/// Which zone a block goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnlineTo {
    /// The one that it touches, Movable only where it touches no other (`online`).
    #[default]
    #[doc(alias = "MMOP_ONLINE")]
    Auto,
    /// A zone that the kernel itself may use (`online_kernel`).
    #[doc(alias = "MMOP_ONLINE_KERNEL")]
    Kernel,
    /// Movable (`online_movable`).
    #[doc(alias = "MMOP_ONLINE_MOVABLE")]
    Movable,
}

/// How memory is plugged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotplugOptions {
    /// Sections of a memory block: a power of two, at least 1, and no more than the profile has room
    /// for ([`nr_mem_sections`](crate::KernelConfig::nr_mem_sections)). Another number counts as the
    /// nearest of these below it.
    #[doc(alias = "memory_block_size_bytes")]
    pub sections_per_block: u64,
    /// The struct pages of added memory lie in that memory.
    pub memmap_on_memory: bool,
    /// `movable_node`: a block that touches no zone, or both kinds, goes to Movable.
    pub movable_node: bool,
}

impl Default for HotplugOptions {
    fn default() -> Self {
        Self {
            sections_per_block: 1,
            memmap_on_memory: false,
            movable_node: false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct MemoryBlock {
    node: NodeId,
    state: BlockState,
    /// Pages at its start that hold its memory map.
    memmap: u64,
    boot: bool,
}

/// A machine whose memory comes and goes.
#[derive(Debug)]
pub struct Hotplug {
    allocator: Allocator<MemoryMap>,
    options: HotplugOptions,
    blocks: BTreeMap<u64, MemoryBlock>,
    block_pages: u64,
}

impl Hotplug {
    /// The machine of `allocator`; its present sections are the blocks that are there at boot.
    pub fn new(allocator: Allocator<MemoryMap>, options: HotplugOptions) -> Self {
        let geometry = allocator.pages().geometry();
        let sections = geometry.sections();
        let most = geometry.profile().nr_mem_sections().max(1);
        let per_block = 1 << options.sections_per_block.clamp(1, most).ilog2();
        let blocks = sections
            .iter()
            .map(|section| {
                let node = sections.run_of(section).map(|run| run.early_node);
                let block = MemoryBlock {
                    node: node.unwrap_or_default(),
                    state: BlockState::Boot,
                    memmap: 0,
                    boot: true,
                };
                (section.0 / per_block, block)
            })
            .collect();
        let block_pages = sections.pages_per_section() * per_block;
        Self {
            allocator,
            options,
            blocks,
            block_pages,
        }
    }

    /// The allocator.
    pub const fn allocator(&self) -> &Allocator<MemoryMap> {
        &self.allocator
    }

    /// The allocator, without a way to plug memory.
    pub fn into_allocator(self) -> Allocator<MemoryMap> {
        self.allocator
    }

    /// The map.
    pub const fn map(&self) -> &MemoryMap {
        self.allocator.pages()
    }

    /// Changes the map beside the memory blocks, as devices do that come and go, and takes over what
    /// that changed in the zones. It must stay the same map.
    pub fn change_map<R>(&mut self, change: impl FnOnce(&mut MemoryMap) -> R) -> R {
        let result = change(&mut self.allocator.pages);
        self.refresh();
        result
    }

    /// Pages of a memory block.
    pub const fn block_pages(&self) -> u64 {
        self.block_pages
    }

    /// The memory blocks, ascending.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, NodeId, BlockState)> + '_ {
        self.blocks
            .iter()
            .map(|(number, block)| (*number, block.node, block.state))
    }

    /// The frames of a memory block.
    pub const fn block_pfns(&self, number: u64) -> PfnRange {
        let start = Pfn::new(number.saturating_mul(self.block_pages));
        PfnRange::new(start, start.saturating_add(self.block_pages))
    }

    /// Adds memory, all of it offline.
    ///
    /// # Errors
    /// - [`BlockError::Misaligned`] where `pfns` are not whole memory blocks, or none.
    /// - [`BlockError::MemmapOnMemory`] where the memory map cannot lie in the memory.
    /// - [`BlockError::Section`] for memory that is there already, or that no section can hold,
    ///   and for a node that is not known.
    ///
    /// Linux: mm/memory_hotplug.c, `add_memory_resource`.
    #[doc(alias = "add_memory_resource")]
    pub fn add(&mut self, node: NodeId, pfns: PfnRange) -> Result<(), BlockError> {
        self.check_whole(pfns)?;
        let memmap = if self.options.memmap_on_memory {
            self.memmap_pages()?
        } else {
            0
        };
        if self.map().geometry().node(node).is_none() {
            return Err(crate::map::HotplugError::Node(node).into());
        }
        self.allocator.pages.activate(pfns)?;
        self.allocator.pages.online_node(node)?;
        for number in self.numbers(pfns) {
            let block = MemoryBlock {
                node,
                state: BlockState::Offline,
                memmap,
                boot: false,
            };
            self.blocks.insert(number, block);
        }
        self.refresh();
        Ok(())
    }

    /// Removes memory that is offline.
    ///
    /// # Errors
    /// - [`BlockError::Misaligned`] where `pfns` are not whole memory blocks, or none.
    /// - [`BlockError::Absent`], [`BlockError::Online`], [`BlockError::Boot`] for the first block
    ///   that cannot be removed.
    ///
    /// Linux: mm/memory_hotplug.c, `try_remove_memory`.
    #[doc(alias = "try_remove_memory")]
    pub fn remove(&mut self, pfns: PfnRange) -> Result<(), BlockError> {
        self.check_whole(pfns)?;
        for number in self.numbers(pfns) {
            match self.block(number)? {
                MemoryBlock { boot: true, .. } => return Err(BlockError::Boot(number)),
                MemoryBlock {
                    state: BlockState::Offline,
                    ..
                } => {}
                _ => return Err(BlockError::Online(number)),
            }
        }
        self.allocator.pages.deactivate(pfns)?;
        for number in self.numbers(pfns) {
            self.blocks.remove(&number);
        }
        for section in self.sections(pfns) {
            self.allocator.blocks.remove(section);
        }
        Ok(())
    }

    /// The zones that an offline block may go to, the one that it goes to by default first.
    ///
    /// # Errors
    /// [`BlockError::Absent`] where there is no such block.
    ///
    /// Linux: drivers/base/memory.c, `valid_zones_show`.
    pub fn valid_zones(&self, number: u64) -> Result<[ZoneIndex; 2], BlockError> {
        let auto = self.zone_for(number, OnlineTo::Auto)?;
        let kernel = self.zone_for(number, OnlineTo::Kernel)?;
        let movable = self.zone_for(number, OnlineTo::Movable)?;
        let other = if auto == kernel { movable } else { kernel };
        Ok([auto, other])
    }

    /// Which zone a block would go to.
    ///
    /// Linux: mm/memory_hotplug.c, `zone_for_pfn_range`.
    #[doc(alias = "zone_for_pfn_range")]
    #[doc(alias = "default_zone_for_pfn")]
    fn zone_for(&self, number: u64, to: OnlineTo) -> Result<ZoneIndex, BlockError> {
        let node = self.block(number)?.node;
        let pfns = self.block_pfns(number);
        let zones = self.allocator.profile().zones;
        let index = |kind| zones.index_of(kind).unwrap_or_default();
        let (normal, movable) = (index(ZoneKind::Normal), index(ZoneKind::Movable));
        let touches = |zone: ZoneIndex| {
            let found = self.map().geometry().node(node);
            found
                .and_then(|node| node.zones.get(zone.index()))
                .is_some_and(|zone| zone.span().overlaps(pfns))
        };
        let kernel = zones
            .iter()
            .take_while(|(_, kind)| *kind <= ZoneKind::Normal)
            .map(|(zone, _)| zone)
            .find(|zone| touches(*zone))
            .unwrap_or(normal);
        Ok(match to {
            OnlineTo::Movable => movable,
            OnlineTo::Kernel => kernel,
            OnlineTo::Auto => match (touches(kernel), touches(movable)) {
                (true, false) => kernel,
                (false, true) => movable,
                _ if self.options.movable_node => movable,
                _ => kernel,
            },
        })
    }

    /// Puts a block to use. Returns its zone.
    ///
    /// # Errors
    /// [`BlockError::Absent`], [`BlockError::Online`] for a block that is not there or online.
    ///
    /// Linux: mm/memory_hotplug.c, `online_pages`.
    #[doc(alias = "online_pages")]
    pub fn online(&mut self, number: u64, to: OnlineTo) -> Result<ZoneIndex, BlockError> {
        self.online_with(number, to, &Template::DETECT)
    }

    /// As [`Hotplug::online`], its struct pages written by `writer`.
    ///
    /// # Errors
    /// As [`Hotplug::online`].
    pub fn online_with(
        &mut self,
        number: u64,
        to: OnlineTo,
        writer: &dyn PageWriter,
    ) -> Result<ZoneIndex, BlockError> {
        let MemoryBlock {
            node,
            state,
            memmap,
            ..
        } = self.block(number)?;
        if state != BlockState::Offline {
            return Err(BlockError::Online(number));
        }
        let zone = self.zone_for(number, to)?;
        let pfns = self.block_pfns(number);
        let free = PfnRange::new(pfns.start().saturating_add(memmap), pfns.end());
        let map = &mut self.allocator.pages;
        map.move_to_zone(node, zone, pfns)?;
        let hosted = PfnRange::new(pfns.start(), free.start());
        if !hosted.is_empty() {
            map.write_hot(node, zone, hosted, true, writer);
        }
        map.write_hot(node, zone, free, false, writer);
        map.set_sections_online(pfns, true);
        map.adjust_present(node, zone, pfns.len() as i64)?;
        for section in self.sections(pfns).collect::<alloc::vec::Vec<_>>() {
            self.allocator.blocks.add(section, MigrateType::Unmovable);
        }
        self.free_isolated(node, zone, free);
        self.set_state(number, BlockState::Online(zone));
        self.refresh();
        Ok(zone)
    }

    /// Frees pages into isolated pageblocks and ends the isolation.
    #[doc(alias = "online_pages_range")]
    #[doc(alias = "undo_isolate_page_range")]
    fn free_isolated(&self, node: NodeId, zone: ZoneIndex, free: PfnRange) {
        let allocator = &self.allocator;
        let Some(found) = allocator.zones.get(&(node, zone)) else {
            return;
        };
        let rules = allocator.rules();
        let mut locked = found.lock(&allocator.pages, &allocator.words);
        allocator.blocks.set(free, MigrateType::Isolate);
        for block in blocks(free, allocator.profile.max_page_order) {
            locked.free_block(rules, block, true);
        }
        locked.counters.managed += free.len();
        for start in pageblocks(free, allocator.profile.pageblock_pages()) {
            locked.unisolate(rules, start, MigrateType::Movable);
        }
    }

    /// Takes a block out of use: all its pages must be free.
    ///
    /// # Errors
    /// - [`BlockError::Absent`], [`BlockError::Offline`] for a block that is not there or offline.
    /// - [`BlockError::Mixed`] for a block with a hole, or of several zones.
    /// - [`BlockError::Busy`] where a page is in use or reserved.
    ///
    /// Linux: mm/memory_hotplug.c, `offline_pages`.
    #[doc(alias = "offline_pages")]
    pub fn offline(&mut self, number: u64) -> Result<(), BlockError> {
        let MemoryBlock {
            node,
            state,
            memmap,
            ..
        } = self.block(number)?;
        if state == BlockState::Offline {
            return Err(BlockError::Offline(number));
        }
        let pfns = self.block_pfns(number);
        let free = PfnRange::new(pfns.start().saturating_add(memmap), pfns.end());
        let zone = self.only_zone(number, node, free)?;
        self.check_free(number, node, zone, free)?;
        let allocator = &self.allocator;
        if let Some(found) = allocator.zones.get(&(node, zone)) {
            let rules = allocator.rules();
            let mut locked = found.lock(&allocator.pages, &allocator.words);
            for start in pageblocks(free, allocator.profile.pageblock_pages()) {
                locked.retype(rules, start, MigrateType::Isolate);
            }
            locked.drop_free(rules, free);
            locked.counters.managed = locked.counters.managed.saturating_sub(free.len());
        }
        let map = &mut self.allocator.pages;
        map.set_sections_online(pfns, false);
        map.adjust_present(node, zone, -(pfns.len() as i64))?;
        map.remove_from_zone(node, zone, pfns)?;
        self.set_state(number, BlockState::Offline);
        self.refresh();
        Ok(())
    }

    /// The zone that every page of `pfns` is in.
    fn only_zone(
        &self,
        number: u64,
        node: NodeId,
        pfns: PfnRange,
    ) -> Result<ZoneIndex, BlockError> {
        let geometry = self.map().geometry();
        let memory = |pfn: Pfn| {
            let at = geometry
                .memory()
                .partition_point(|range| range.pfns.end() <= pfn);
            let range = geometry.memory().get(at)?;
            range.pfns.contains(pfn).then_some(())
        };
        let mut only = None;
        for pfn in (pfns.start().get()..pfns.end().get()).map(Pfn::new) {
            let mixed = BlockError::Mixed { block: number, pfn };
            let there = self.map().was_added(pfn) || memory(pfn).is_some();
            let Some(page) = self.map().read(pfn).ok().filter(|_| there) else {
                return Err(mixed);
            };
            let found = self.allocator.words.zone_of(page.flags());
            if found.0 != node || only.is_some_and(|only| only != found.1) {
                return Err(mixed);
            }
            only = Some(found.1);
        }
        only.ok_or(BlockError::Absent(number))
    }

    fn check_free(
        &self,
        number: u64,
        node: NodeId,
        zone: ZoneIndex,
        pfns: PfnRange,
    ) -> Result<(), BlockError> {
        let allocator = &self.allocator;
        let Some(found) = allocator.zones.get(&(node, zone)) else {
            return Err(BlockError::Absent(number));
        };
        let locked = found.lock(&allocator.pages, &allocator.words);
        let mut at = pfns.start();
        for Block { pfn, order } in locked.free_in(pfns) {
            if pfn != at {
                break;
            }
            at = pfn.saturating_add(1 << order);
        }
        if at < pfns.end() {
            return Err(BlockError::Busy {
                block: number,
                pfn: at,
            });
        }
        Ok(())
    }

    fn memmap_pages(&self) -> Result<u64, BlockError> {
        let profile = self.allocator.profile();
        let bytes = self.block_pages * u64::from(profile.struct_page_bytes);
        let memmap = bytes.div_ceil(profile.page_size());
        let pageblock = profile.pageblock_pages();
        if memmap.is_multiple_of(pageblock) && bytes.is_multiple_of(profile.page_size()) {
            return Ok(memmap);
        }
        Err(BlockError::MemmapOnMemory {
            block: self.block_pages,
            memmap,
            pageblock,
        })
    }

    fn check_whole(&self, pfns: PfnRange) -> Result<(), BlockError> {
        let pages = self.block_pages;
        let whole =
            pfns.start().get().is_multiple_of(pages) && pfns.end().get().is_multiple_of(pages);
        if pfns.is_empty() || !whole {
            return Err(BlockError::Misaligned { pfns, pages });
        }
        Ok(())
    }

    fn block(&self, number: u64) -> Result<MemoryBlock, BlockError> {
        self.blocks
            .get(&number)
            .copied()
            .ok_or(BlockError::Absent(number))
    }

    fn set_state(&mut self, number: u64, state: BlockState) {
        if let Some(block) = self.blocks.get_mut(&number) {
            block.state = state;
        }
    }

    fn numbers(&self, pfns: PfnRange) -> core::ops::Range<u64> {
        pfns.start().get() / self.block_pages..pfns.end().get() / self.block_pages
    }

    fn sections(&self, pfns: PfnRange) -> impl Iterator<Item = SectionNr> + use<> {
        let pages = self.map().geometry().sections().pages_per_section();
        (pfns.start().get() / pages..pfns.end().get() / pages).map(SectionNr)
    }

    fn refresh(&mut self) {
        let nodes: alloc::vec::Vec<Node> = self.map().geometry().nodes().to_vec();
        self.allocator.refresh(&nodes);
    }
}

fn pageblocks(pfns: PfnRange, pages: u64) -> impl Iterator<Item = Pfn> {
    (pfns.start().get()..pfns.end().get())
        .step_by(pages as usize)
        .map(Pfn::new)
}
