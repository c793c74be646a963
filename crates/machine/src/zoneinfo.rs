//! `/proc/zoneinfo`: what zones the kernel has.
//!
//! Linux: `mm/vmstat.c`, `zoneinfo_show_print`.

use std::io::BufRead;
use std::path::Path;

use memblock::{NodeId, Pfn};
use memmap_core::ZoneKind;

use crate::error::ReadError;
use crate::location::Problems;
use crate::text;
use crate::text::scan::Scan;

/// One zone of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneStat {
    /// Line of `Node N, zone NAME`.
    pub line: u64,
    /// The node.
    pub node: NodeId,
    /// The zone.
    pub zone: ZoneKind,
    /// Pages from its first to its last.
    pub spanned: u64,
    /// Pages that exist.
    pub present: u64,
    /// Pages that the buddy allocator has or had. Absent before 3.x.
    pub managed: Option<u64>,
    /// Its first frame; printed only for zones that are populated.
    pub start_pfn: Option<Pfn>,
}

/// All zones, in the order printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneInfo {
    zones: Vec<ZoneStat>,
    /// Lines that could not be read.
    pub problems: Problems,
}

impl ZoneInfo {
    /// Reads `input` as `/proc/zoneinfo`, which messages will call `name`.
    ///
    /// # Errors
    /// [`ReadError::Io`] where the input cannot be read.
    pub fn read(name: &str, input: impl BufRead) -> Result<Self, ReadError> {
        let mut reader = ZoneInfoReader::default();
        text::each_line(name, input, |line| {
            reader.feed(line.number, line.text());
            reader.info.problems.note_cut(line);
        })?;
        Ok(reader.finish())
    }

    /// Reads the file `path`.
    ///
    /// # Errors
    /// [`ReadError::Io`] where it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let (name, input) = text::open(path.as_ref())?;
        Self::read(&name, input)
    }

    /// The zones, in the order printed.
    pub fn zones(&self) -> &[ZoneStat] {
        &self.zones
    }

    /// The zone `zone` of `node`.
    pub fn zone(&self, node: NodeId, zone: ZoneKind) -> Option<&ZoneStat> {
        self.zones
            .iter()
            .find(|stat| stat.node == node && stat.zone == zone)
    }
}

#[derive(Debug, Default)]
pub(crate) struct ZoneInfoReader {
    info: ZoneInfo,
    skip: bool,
}

impl ZoneInfoReader {
    /// Takes one line.
    pub(crate) fn feed(&mut self, line: u64, text: &str) {
        let mut scan = Scan(text);
        if scan.eat("Node ").is_some() {
            let head = scan.node().and_then(|node| {
                scan.eat(", zone")?;
                Some((node, ZoneKind::from_name(scan.word())?))
            });
            self.skip = head.is_none();
            match head {
                Some((node, zone)) => self.info.zones.push(ZoneStat {
                    line,
                    node: NodeId::new(node),
                    zone,
                    spanned: 0,
                    present: 0,
                    managed: None,
                    start_pfn: None,
                }),
                None => self.info.problems.note(line, text, "`Node N, zone NAME`"),
            }
            return;
        }
        if self.skip {
            return;
        }
        let Some(stat) = self.info.zones.last_mut() else {
            return;
        };
        let name = scan.word();
        let wanted = ["spanned", "present", "managed", "start_pfn:"].contains(&name);
        if !wanted {
            return;
        }
        let Some(value) = scan.dec() else {
            self.info.problems.note(line, text, "a number of pages");
            return;
        };
        match name {
            "spanned" => stat.spanned = value,
            "present" => stat.present = value,
            "managed" => stat.managed = Some(value),
            _ => stat.start_pfn = Some(Pfn::new(value)),
        }
    }

    /// The zones.
    pub(crate) fn finish(self) -> ZoneInfo {
        self.info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_read_with_their_sizes_and_a_broken_number_is_a_problem() {
        let text = "Node 0, zone      DMA\n  per-node stats\n      nr_mapped 3\n  pages free     1\n        \
                    spanned  4095\n        present  3998\n        managed  3840\n  start_pfn:           1\n\
                    Node 1, zone   Normal\n        spanned  x\n        present  7\nNode 9, zone Odd\n spanned 5\n";
        let info = ZoneInfo::read("text", text.as_bytes()).unwrap();
        let dma = info.zone(NodeId::new(0), ZoneKind::Dma).unwrap();
        assert_eq!(
            (dma.spanned, dma.present, dma.managed),
            (4095, 3998, Some(3840))
        );
        assert_eq!(dma.start_pfn, Some(Pfn::new(1)));
        let normal = info.zone(NodeId::new(1), ZoneKind::Normal).unwrap();
        assert_eq!(
            (normal.spanned, normal.present, normal.start_pfn),
            (0, 7, None)
        );
        assert_eq!(info.problems.count(), 2);
        assert_eq!(info.zones().len(), 2);
    }
}
