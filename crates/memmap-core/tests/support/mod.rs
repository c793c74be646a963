//! Layouts to type in, and geometries to read.
#![allow(dead_code, reason = "every test binary uses a part of it")]

use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, Pfn, PfnRange, PhysAddr, PhysRange};
use memmap_core::{BootOptions, Geometry, KernelVersion, Profile, ZoneKind};

/// Every release that has a profile of its own.
pub(crate) const VERSIONS: [KernelVersion; 4] = [
    KernelVersion::V6_1,
    KernelVersion::V6_12,
    KernelVersion::V6_18,
    KernelVersion::V7_3,
];

/// Frames `[start, end)`.
pub(crate) fn pfns(start: u64, end: u64) -> PfnRange {
    PfnRange::new(Pfn::new(start), Pfn::new(end))
}

/// A machine under construction.
pub(crate) struct Layout {
    pub(crate) memblock: Memblock,
    pub(crate) options: BootOptions,
    page_shift: u32,
}

impl Layout {
    /// A machine with pages of `1 << page_shift` bytes.
    pub(crate) fn new(page_shift: u32) -> Self {
        Self {
            memblock: Memblock::new(Behaviour::V6_12),
            options: BootOptions::default(),
            page_shift,
        }
    }

    /// 4-KiB pages; `memory` as (node, first frame, one past the last).
    pub(crate) fn of(memory: &[(u16, u64, u64)]) -> Self {
        let mut layout = Self::new(12);
        for (node, start, end) in memory {
            layout.mem(*node, *start, *end, MemblockFlags::empty());
        }
        layout
    }

    pub(crate) fn mem(
        &mut self,
        node: u16,
        start: u64,
        end: u64,
        flags: MemblockFlags,
    ) -> &mut Self {
        let shift = self.page_shift;
        self.mem_bytes(node, start << shift, end << shift, flags)
    }

    pub(crate) fn mem_bytes(
        &mut self,
        node: u16,
        start: u64,
        end: u64,
        flags: MemblockFlags,
    ) -> &mut Self {
        self.memblock
            .add_node(bytes(start, end), NodeId::new(node), flags)
            .expect("memory can be added");
        self
    }

    pub(crate) fn reserve(&mut self, start: u64, end: u64) -> &mut Self {
        let shift = self.page_shift;
        self.reserve_bytes(start << shift, end << shift)
    }

    pub(crate) fn reserve_bytes(&mut self, start: u64, end: u64) -> &mut Self {
        self.memblock
            .reserve(bytes(start, end))
            .expect("memory can be reserved");
        self
    }

    /// The geometry under `profile`.
    pub(crate) fn under(&self, profile: &Profile) -> Geometry {
        Geometry::new(profile, &self.memblock, &self.options).expect("the layout has a geometry")
    }

    /// The geometry under a distribution's amd64 kernel.
    pub(crate) fn amd64(&self, version: KernelVersion) -> Geometry {
        self.under(&Profile::amd64(version))
    }
}

pub(crate) fn bytes(start: u64, end: u64) -> PhysRange {
    PhysRange::new(PhysAddr::new(start), PhysAddr::new(end))
}

/// `zone: spanned present start` for every zone of `node` that spans anything.
pub(crate) fn zones(geometry: &Geometry, node: u16) -> Vec<(ZoneKind, u64, u64, u64)> {
    let node = geometry.node(NodeId::new(node)).expect("the node exists");
    node.zones
        .iter()
        .filter(|zone| zone.spanned > 0)
        .map(|zone| (zone.kind, zone.spanned, zone.present, zone.start.get()))
        .collect()
}

/// The gaps as (node, zone, pages), in the order of the log.
pub(crate) fn holes(geometry: &Geometry) -> Vec<(u16, ZoneKind, u64)> {
    geometry
        .holes()
        .iter()
        .map(|hole| {
            let kind = geometry.profile().zones.kind(hole.zone).expect("a zone");
            (hole.node.get(), kind, hole.pages)
        })
        .collect()
}

/// What `pfn` is: node, zone name (or "none"), kind.
pub(crate) fn page(geometry: &Geometry, pfn: u64) -> String {
    match geometry.page_run(Pfn::new(pfn)) {
        None => "invalid".into(),
        Some(run) => {
            let zone = geometry.profile().zones.kind(run.zone);
            let zone = zone.map_or("none", ZoneKind::name);
            format!("{} {zone} {:?}", run.node, run.kind)
        }
    }
}

/// The first deferred frame of `node`.
pub(crate) fn deferred(geometry: &Geometry, node: u16) -> Option<u64> {
    geometry.first_deferred(NodeId::new(node)).map(Pfn::get)
}

/// Where zone Movable begins on each node, 0 for none.
pub(crate) fn movable(geometry: &Geometry) -> Vec<u64> {
    geometry
        .nodes()
        .iter()
        .map(|node| node.movable_start.map_or(0, Pfn::get))
        .collect()
}
