//! `/sys/kernel/debug/memblock/{memory,reserved,physmem}`: the arrays that a kernel keeps.
//!
//! Only some architectures keep them. Up to 6.6 a line is a range; later it names a node and
//! flags too. Linux: `mm/memblock.c`, `memblock_debug_show`.

use std::io::BufRead;
use std::path::Path;

use memblock::{MemblockFlags, NodeId};

use crate::error::ReadError;
use crate::layout::MemoryRange;
use crate::location::Problems;
use crate::text;
use crate::text::scan::Scan;

/// One array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemblockArray {
    regions: Vec<MemoryRange>,
    /// Lines that could not be read.
    pub problems: Problems,
}

impl MemblockArray {
    /// Reads the file `path`.
    ///
    /// # Errors
    /// [`ReadError::Io`] where it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let (name, input) = text::open(path.as_ref())?;
        Self::read(&name, input)
    }

    /// Reads `input`, which messages will call `name`.
    ///
    /// # Errors
    /// [`ReadError::Io`] where it cannot be read.
    pub fn read(name: &str, input: impl BufRead) -> Result<Self, ReadError> {
        let mut array = Self::default();
        text::each_line(name, input, |line| {
            array.feed(line.number, line.text());
            array.problems.note_cut(line);
        })?;
        Ok(array)
    }

    /// Takes one line.
    pub(crate) fn feed(&mut self, line: u64, text: &str) {
        if text.is_empty() {
            return;
        }
        match region(line, Scan(text)) {
            Some(region) => self.regions.push(region),
            None => self
                .problems
                .note(line, text, "`I: 0xSTART..0xEND`, a node and flags"),
        }
    }

    /// The regions, in the kernel's order.
    pub fn regions(&self) -> &[MemoryRange] {
        &self.regions
    }
}

fn region(line: u64, mut scan: Scan<'_>) -> Option<MemoryRange> {
    scan.dec()?;
    scan.eat(":")?;
    let range = scan.inclusive_between("..")?;
    let node = scan.node().map(NodeId::new);
    if node.is_none() {
        let _no_node = scan.eat("x");
    }
    let mut flags = MemblockFlags::empty();
    let names = scan.0.trim();
    for name in names.split('|').filter(|name| !name.is_empty()) {
        flags |= match name {
            "NONE" => MemblockFlags::empty(),
            "HOTPLUG" => MemblockFlags::HOTPLUG,
            "MIRROR" => MemblockFlags::MIRROR,
            "NOMAP" => MemblockFlags::NOMAP,
            "DRV_MNG" => MemblockFlags::DRIVER_MANAGED,
            "RSV_NIT" => MemblockFlags::RSRV_NOINIT,
            "RSV_KERN" => MemblockFlags::RSRV_KERN,
            "KHO_SCRATCH" => MemblockFlags::KHO_SCRATCH,
            "RSV_HUGETLB" => MemblockFlags::RSRV_HUGETLB,
            // A flag of a later kernel, whose name this one does not know.
            "UNKNOWN" => MemblockFlags::empty(),
            _ => return None,
        };
    }
    Some(MemoryRange {
        range,
        node,
        flags: flags.bits(),
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_version_are_read() {
        let text = "   0: 0x0000000000001000..0x000000000009efff\n\
                    \x20  1: 0x0000000100000000..0x000000017fffffff    3 NONE\n\
                    \x20  2: 0x0000000200000000..0x000000027fffffff    x NOMAP\n\
                    \x20  3: 0x0000000300000000..0x000000037fffffff    0 RSV_NIT|RSV_KERN\n\
                    \x20  4: 0x2..0x1 SOME\n";
        let array = MemblockArray::read("text", text.as_bytes()).unwrap();
        let seen: Vec<_> = array
            .regions()
            .iter()
            .map(|region| {
                (
                    region.range.start().get(),
                    region.node.map(NodeId::get),
                    region.flags,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (0x1000, None, 0),
                (0x1_0000_0000, Some(3), 0),
                (0x2_0000_0000, None, 4),
                (0x3_0000_0000, Some(0), 0x30)
            ]
        );
        assert_eq!(array.problems.count(), 1);
    }
}
