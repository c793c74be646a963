//! Zones as `/proc/zoneinfo` shows them.

use core::fmt;

use memblock::{NodeId, Pfn};

use crate::geometry::Geometry;
use crate::profile::ZoneKind;

/// The figures of a zone that do not change once boot is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZoneFigures {
    /// The node.
    pub node: NodeId,
    /// The zone.
    pub zone: ZoneKind,
    /// Pages from first to last.
    pub spanned: u64,
    /// Pages that are there.
    pub present: u64,
    /// Pages that the page allocator got at hand-over.
    pub managed: u64,
    /// The first frame, where there are pages.
    pub start_pfn: Option<Pfn>,
}

/// Prints like `/proc/zoneinfo`, with what depends on memory alone.
#[derive(Clone, Copy, Debug)]
pub struct ZoneInfoDump<'a>(&'a Geometry);

impl Geometry {
    /// The figures of every zone of every online node, as `/proc/zoneinfo` lists them.
    pub fn zone_figures(&self) -> impl Iterator<Item = ZoneFigures> + '_ {
        let online = self.nodes().iter().filter(|node| node.online);
        online.flat_map(move |node| {
            node.zones.iter().map(move |zone| ZoneFigures {
                node: node.id,
                zone: zone.kind,
                spanned: zone.spanned,
                present: zone.present,
                managed: self.managed_pages(node, zone),
                start_pfn: zone.is_populated().then_some(zone.start),
            })
        })
    }

    /// A `/proc/zoneinfo`-like text.
    pub const fn zoneinfo(&self) -> ZoneInfoDump<'_> {
        ZoneInfoDump(self)
    }
}

impl fmt::Display for ZoneInfoDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for zone in self.0.zone_figures() {
            writeln!(f, "Node {}, zone {:>8}", zone.node, zone.zone.name())?;
            writeln!(f, "        spanned  {}", zone.spanned)?;
            writeln!(f, "        present  {}", zone.present)?;
            writeln!(f, "        managed  {}", zone.managed)?;
            if let Some(start) = zone.start_pfn {
                writeln!(f, "  start_pfn:           {}", start.get())?;
            }
        }
        Ok(())
    }
}
