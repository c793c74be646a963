//! Zones that grow where an allocation finds no free page.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use memblock::NodeId;
use memmap_core::buddy::{Allocator, Grow, Growth, MigrateType};
use memmap_core::writers::PageWriter;
use memmap_core::{Geometry, MemoryMap, ZoneIndex};

/// Growth of zones by their deferred sections, by one CPU at a time.
///
/// Where many CPUs find a zone empty at once, one of them grows it and the others wait and ask the
/// zone again: of 248 CPUs that each want a page one writes a section, not 248 a section each. The
/// lock is the zone's alone and nobody who merely allocates or frees takes it. Workers of an engine,
/// a drain or a lazy map may write sections of the zone meanwhile: a section belongs to who claimed
/// it. What an engine writes with hand-over is free once its report is joined, and an allocation that
/// finds nothing else waits for that.
///
/// Linux: mm/mm_init.c, `deferred_grow_zone`, under the node's resize lock.
#[derive(Debug)]
pub struct OnDemand {
    writer: &'static dyn PageWriter,
    zones: BTreeMap<(NodeId, ZoneIndex), Mutex<()>>,
}

impl OnDemand {
    /// For the zones of a machine; struct pages are written by `writer`.
    pub fn new(geometry: &Geometry, writer: &'static dyn PageWriter) -> Self {
        let zones = geometry
            .nodes()
            .iter()
            .flat_map(|node| node.zones.iter().map(|zone| (node.id, zone.index)));
        Self {
            writer,
            zones: zones.map(|zone| (zone, Mutex::new(()))).collect(),
        }
    }

    /// The same, to be given to [`Allocator::set_growth`].
    pub fn boxed(geometry: &Geometry, writer: &'static dyn PageWriter) -> Box<dyn Grow<MemoryMap>> {
        Box::new(Self::new(geometry, writer))
    }

    /// Makes at least `2^order` pages of a zone free that were deferred, unless somebody else just
    /// did; says what that brought.
    #[doc(alias = "deferred_grow_zone")]
    pub fn grow_zone(
        &self,
        allocator: &Allocator<MemoryMap>,
        node: NodeId,
        zone: ZoneIndex,
        order: u8,
    ) -> Growth {
        let Some(lock) = self.zones.get(&(node, zone)) else {
            return Growth::Nothing;
        };
        // nothing is guarded by it but whose turn it is
        let _turn = lock.lock().unwrap_or_else(PoisonError::into_inner);
        if has_block(allocator, node, zone, order) {
            return Growth::Elsewhere;
        }
        let growth = allocator.deferred_grow_zone(node, zone, order, self.writer);
        if growth == Growth::Elsewhere {
            // others are writing what is left: they may need this CPU
            std::thread::yield_now();
        }
        growth
    }
}

/// Whether a zone has a free block of an order or more that any request may get.
fn has_block(allocator: &Allocator<MemoryMap>, node: NodeId, zone: ZoneIndex, order: u8) -> bool {
    let types = [
        MigrateType::Movable,
        MigrateType::Unmovable,
        MigrateType::Reclaimable,
    ];
    (order..=allocator.profile().max_page_order as u8).any(|order| {
        types
            .iter()
            .any(|migrate| allocator.nr_free(node, zone, order, *migrate) > 0)
    })
}

impl Grow<MemoryMap> for OnDemand {
    fn grow(
        &self,
        allocator: &Allocator<MemoryMap>,
        node: NodeId,
        zone: ZoneIndex,
        order: u8,
    ) -> bool {
        self.grow_zone(allocator, node, zone, order) != Growth::Nothing
    }
}
