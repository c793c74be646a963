//! The files under `/sys/kernel/debug/memblock`.

use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

use super::scan::Scan;
use super::{Address, AddressWidth};
use crate::{DebugfsStyle, MemblockFlags, NodeId, PhysAddr, PhysRange, RegionList};

/// One line of such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DebugfsRow {
    /// First address.
    pub start: PhysAddr,
    /// Last address.
    pub last: PhysAddr,
    /// The node, where the file shows one.
    pub node: Option<NodeId>,
    /// The flags that the file shows: none, one or all, by its style.
    pub flags: MemblockFlags,
    /// A flag without a name is set.
    pub unknown: bool,
}

/// A whole file, `memory`, `reserved` or `physmem`. `Display` gives the kernel's bytes.
///
/// ```
/// use memblock::text::DebugfsTable;
/// let text = "   0: 0x0000000040000000..0x000000007fffffff    0 NONE\n";
/// let table = DebugfsTable::parse(text)?;
/// assert_eq!(table.to_string(), text);
/// # Ok::<(), memblock::text::DebugfsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DebugfsTable {
    /// How wide its addresses are.
    pub width: AddressWidth,
    /// How its lines look. A file in which no line has two flags reads as
    /// [`DebugfsStyle::LowestFlag`], which prints it the same.
    pub style: DebugfsStyle,
    /// Its lines.
    pub rows: Vec<DebugfsRow>,
}

/// Why such a file can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DebugfsError {
    /// A line does not read as one of the file.
    #[error("line {line} is none of a memblock debugfs file")]
    Malformed {
        /// Its number, from 1.
        line: usize,
    },
}

const NAMES: [(MemblockFlags, &str); 8] = [
    (MemblockFlags::HOTPLUG, "HOTPLUG"),
    (MemblockFlags::MIRROR, "MIRROR"),
    (MemblockFlags::NOMAP, "NOMAP"),
    (MemblockFlags::DRIVER_MANAGED, "DRV_MNG"),
    (MemblockFlags::RSRV_NOINIT, "RSV_NIT"),
    (MemblockFlags::RSRV_KERN, "RSV_KERN"),
    (MemblockFlags::KHO_SCRATCH, "KHO_SCRATCH"),
    (MemblockFlags::RSRV_HUGETLB, "RSV_HUGETLB"),
];

impl DebugfsTable {
    /// The file that shows `list` in `style`.
    pub fn new(list: &RegionList, style: DebugfsStyle) -> Self {
        let rows = list
            .iter()
            .map(|region| {
                let named = NAMES
                    .iter()
                    .fold(MemblockFlags::empty(), |all, it| all | it.0);
                let lowest = |flags: MemblockFlags| {
                    MemblockFlags::from_bits_retain(flags.bits() & flags.bits().wrapping_neg())
                };
                let flags = match style {
                    DebugfsStyle::Range => MemblockFlags::empty(),
                    DebugfsStyle::LowestFlag => lowest(region.flags()),
                    DebugfsStyle::AllFlags => region.flags(),
                };
                DebugfsRow {
                    start: region.start(),
                    last: PhysAddr::new(region.end().get() - 1),
                    node: region.node().filter(|_| style != DebugfsStyle::Range),
                    flags: flags & named,
                    unknown: !flags.difference(named).is_empty(),
                }
            })
            .collect();
        Self {
            width: AddressWidth::Bits64,
            style,
            rows,
        }
    }

    /// Reads a file of any style.
    ///
    /// # Errors
    /// [`DebugfsError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, DebugfsError> {
        let mut width = None;
        let mut style = None;
        let mut rows = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let malformed = DebugfsError::Malformed { line: index + 1 };
            let (row, found) = row(line, index, &mut width).ok_or(malformed)?;
            style = match (style, found) {
                (None, found) => Some(found),
                (Some(DebugfsStyle::Range), DebugfsStyle::Range) => style,
                (Some(DebugfsStyle::Range), _) | (_, DebugfsStyle::Range) => {
                    return Err(malformed);
                }
                (Some(DebugfsStyle::AllFlags), _) => style,
                (_, found) => Some(found),
            };
            rows.push(row);
        }
        Ok(Self {
            width: width.unwrap_or_default(),
            style: style.unwrap_or(DebugfsStyle::Range),
            rows,
        })
    }
}

impl DebugfsRow {
    /// Its addresses.
    pub const fn range(&self) -> PhysRange {
        PhysRange::from_inclusive(self.start, self.last)
    }
}

fn row(
    line: &str,
    index: usize,
    width: &mut Option<AddressWidth>,
) -> Option<(DebugfsRow, DebugfsStyle)> {
    let mut scan = padded(line)?;
    if scan.decimal::<usize>()? != index {
        return None;
    }
    scan.tag(": ")?;
    let start = PhysAddr::new(scan.address(width)?);
    scan.tag("..")?;
    let last = PhysAddr::new(scan.address(width)?);
    let mut row = DebugfsRow {
        start,
        last,
        node: None,
        flags: MemblockFlags::empty(),
        unknown: false,
    };
    if last < start {
        return None;
    }
    if scan.is_done() {
        return Some((row, DebugfsStyle::Range));
    }
    scan.tag(" ")?;
    let mut scan = padded(scan.0)?;
    if scan.tag("x").is_none() {
        row.node = Some(NodeId::new(scan.decimal()?));
    }
    scan.tag(" ")?;
    if scan.0 == "NONE" {
        return Some((row, DebugfsStyle::LowestFlag));
    }
    let mut names = 0;
    for name in scan.rest().split('|') {
        names += 1;
        match NAMES.iter().find(|it| it.1 == name) {
            Some((flag, _)) if flag.bits() > row.flags.bits() && !row.unknown => row.flags |= *flag,
            None if name == "UNKNOWN" && !row.unknown => row.unknown = true,
            _ => return None,
        }
    }
    let style = if names > 1 {
        DebugfsStyle::AllFlags
    } else {
        DebugfsStyle::LowestFlag
    };
    Some((row, style))
}

/// `text` without the blanks that fill a column of four.
fn padded(text: &str) -> Option<Scan<'_>> {
    let trimmed = text.trim_start_matches(' ');
    let blanks = text.len() - trimmed.len();
    let digits = trimmed
        .bytes()
        .position(|byte| !byte.is_ascii_digit() && byte != b'x')
        .unwrap_or(trimmed.len());
    (blanks == 4usize.saturating_sub(digits)).then_some(Scan(trimmed))
}

impl fmt::Display for DebugfsTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, row) in self.rows.iter().enumerate() {
            let start = Address(row.start.get(), self.width);
            let last = Address(row.last.get(), self.width);
            write!(f, "{index:4}: {start}..{last}")?;
            if self.style == DebugfsStyle::Range {
                writeln!(f)?;
                continue;
            }
            match row.node {
                Some(node) => write!(f, " {:4} ", node.get())?,
                None => f.write_str("    x ")?,
            }
            let mut names = NAMES
                .iter()
                .filter(|it| row.flags.contains(it.0))
                .map(|it| it.1)
                .chain(row.unknown.then_some("UNKNOWN"));
            f.write_str(names.next().unwrap_or("NONE"))?;
            for name in names {
                write!(f, "|{name}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
