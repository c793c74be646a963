//! The `MEMBLOCK configuration:` dump.

use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

use super::scan::Scan;
use super::{Address, AddressWidth};
use crate::{
    Behaviour, Memblock, MemblockFlags, NodeId, NodeMark, PhysAddr, PhysRange, Region, RegionList,
    Which,
};

/// One region as the dump prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DumpRegion {
    /// Its first address.
    pub start: PhysAddr,
    /// Its size in bytes; zero for the one region of an empty array of old kernels.
    pub size: u64,
    /// Its node, where one is printed.
    pub node: Option<NodeId>,
    /// Its flags.
    pub flags: MemblockFlags,
}

/// One array as the dump prints it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DumpList {
    /// Which array.
    pub which: Which,
    /// Its regions; their number is printed too.
    pub regions: Vec<DumpRegion>,
}

/// What `memblock_dump_all` prints. `Display` gives the kernel's bytes, a newline after each
/// line.
///
/// ```
/// use memblock::text::MemblockDump;
/// let text = concat!(
///     "MEMBLOCK configuration:\n",
///     " memory size = 0x0000000000002000 reserved size = 0x0000000000000000\n",
///     " memory.cnt  = 0x1\n",
///     " memory[0x0]\t[0x0000000000001000-0x0000000000002fff], 0x0000000000002000 bytes on node 0 flags: 0x0\n",
///     " reserved.cnt  = 0x0\n",
/// );
/// let dump: MemblockDump = text.parse()?;
/// assert_eq!(dump.to_string(), text);
/// # Ok::<(), memblock::text::DumpError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[doc(alias = "memblock_dump_all")]
pub struct MemblockDump {
    /// How wide its addresses are.
    pub width: AddressWidth,
    /// The kernel's counter of memory, in bytes.
    pub memory_size: u64,
    /// The kernel's counter of reservations, in bytes.
    pub reserved_size: u64,
    /// Memory, reservations, and on s390 physmem, in this order.
    pub lists: Vec<DumpList>,
}

/// Why a dump can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DumpError {
    /// No `MEMBLOCK configuration:` line.
    #[error("there is no line \"MEMBLOCK configuration:\": boot with memblock=debug")]
    NoDump,
    /// A line of the dump does not read as one.
    #[error("line {line} of the dump does not read as one: it was cut or mixed with another")]
    Malformed {
        /// Its number, from 1.
        line: usize,
    },
    /// Region lines are missing.
    #[error(
        "the dump promises {promised} regions of {which} and shows {shown}: the log has lost lines"
    )]
    Missing {
        /// Which array.
        which: Which,
        /// How many regions its `.cnt` line says.
        promised: u64,
        /// How many regions follow.
        shown: usize,
    },
    /// A whole array is missing.
    #[error("the dump shows no {which} array: the log has lost lines")]
    NoList {
        /// Which array.
        which: Which,
    },
    /// The last address of a region, its size and its start do not fit, or it overlaps.
    #[error("region {index} of {which} contradicts itself or overlaps the one before")]
    Contradiction {
        /// Which array.
        which: Which,
        /// The region's number.
        index: usize,
    },
}

/// Reads a dump line by line, out of a log that has other lines too.
#[derive(Clone, Debug, Default)]
pub struct DumpReader {
    width: Option<AddressWidth>,
    sizes: Option<(u64, u64)>,
    lists: Vec<(Which, u64, Vec<DumpRegion>)>,
    lines: usize,
}

impl DumpReader {
    /// The dump's first line.
    pub const TITLE: &'static str = "MEMBLOCK configuration:";

    /// A reader for the lines after [`TITLE`](Self::TITLE).
    pub fn new() -> Self {
        Self {
            lines: 1,
            ..Self::default()
        }
    }

    /// Takes the next line; `false` where it is none of a dump, and the dump has ended.
    ///
    /// # Errors
    /// [`DumpError::Malformed`], [`DumpError::Missing`] for a gap in the numbers and
    /// [`DumpError::Contradiction`].
    pub fn feed(&mut self, line: &str) -> Result<bool, DumpError> {
        let mut scan = Scan(line);
        if scan.tag(" memory size = ").is_some() {
            self.lines += 1;
            self.sizes(scan)
                .ok_or(DumpError::Malformed { line: self.lines })?;
            return Ok(true);
        }
        let which = [Which::Memory, Which::Reserved, Which::Physmem]
            .into_iter()
            .find(|which| {
                let mut ahead = scan;
                ahead.tag(" ").is_some()
                    && ahead.tag(which.name()).is_some()
                    && (ahead.0.starts_with(".cnt") || ahead.0.starts_with("[0x"))
            });
        let Some(which) = which else {
            return Ok(false);
        };
        self.lines += 1;
        scan.0 = &scan.0[1 + which.name().len()..];
        let malformed = DumpError::Malformed { line: self.lines };
        if scan.tag(".cnt  = ").is_some() {
            let count = scan.hex().filter(|_| scan.is_done()).ok_or(malformed)?;
            if self.lists.iter().any(|list| list.0 == which) {
                return Err(malformed);
            }
            self.lists.push((which, count, Vec::new()));
            return Ok(true);
        }
        self.region(which, scan, malformed)?;
        Ok(true)
    }

    fn sizes(&mut self, mut scan: Scan<'_>) -> Option<()> {
        let memory = scan.address(&mut self.width)?;
        scan.tag(" reserved size = ")?;
        let reserved = scan.address(&mut self.width)?;
        self.sizes = Some((memory, reserved));
        scan.is_done().then_some(())
    }

    fn region(
        &mut self,
        which: Which,
        mut scan: Scan<'_>,
        malformed: DumpError,
    ) -> Result<(), DumpError> {
        let (index, region, last) = parse_region(&mut scan, &mut self.width).ok_or(malformed)?;
        let (_, promised, regions) = self
            .lists
            .iter_mut()
            .find(|list| list.0 == which)
            .ok_or(malformed)?;
        if index != regions.len() as u64 || index >= *promised {
            return Err(DumpError::Missing {
                which,
                promised: *promised,
                shown: regions.len(),
            });
        }
        let max = self.width.unwrap_or_default().max();
        let end = region.start.get().wrapping_add(region.size);
        let fits = end.wrapping_sub(1) & max == last
            && (region.size == 0 || region.start.get() <= last)
            && regions.last().is_none_or(|before| {
                before.size == 0
                    || before.start.get().wrapping_add(before.size - 1) < region.start.get()
            });
        if !fits {
            let index = regions.len();
            return Err(DumpError::Contradiction { which, index });
        }
        regions.push(region);
        Ok(())
    }

    /// The dump, once its lines are over.
    ///
    /// # Errors
    /// [`DumpError::Missing`] and [`DumpError::NoList`] where lines were lost.
    pub fn finish(self) -> Result<MemblockDump, DumpError> {
        for (which, promised, regions) in &self.lists {
            if *promised != regions.len() as u64 {
                return Err(DumpError::Missing {
                    which: *which,
                    promised: *promised,
                    shown: regions.len(),
                });
            }
        }
        for which in [Which::Memory, Which::Reserved] {
            if !self.lists.iter().any(|list| list.0 == which) {
                return Err(DumpError::NoList { which });
            }
        }
        let (memory_size, reserved_size) = self.sizes.ok_or(DumpError::Malformed { line: 2 })?;
        Ok(MemblockDump {
            width: self.width.unwrap_or_default(),
            memory_size,
            reserved_size,
            lists: self
                .lists
                .into_iter()
                .map(|(which, _, regions)| DumpList { which, regions })
                .collect(),
        })
    }
}

fn parse_region(
    scan: &mut Scan<'_>,
    width: &mut Option<AddressWidth>,
) -> Option<(u64, DumpRegion, u64)> {
    scan.tag("[")?;
    let index = scan.hex()?;
    scan.tag("]")?;
    // the kernel prints a tab, which many a pasted log has lost
    scan.0 = scan.0.trim_start_matches(['\t', ' ']);
    scan.tag("[")?;
    let start = PhysAddr::new(scan.address(width)?);
    scan.tag("-")?;
    let last = scan.address(width)?;
    scan.tag("], ")?;
    let size = scan.address(width)?;
    scan.tag(" bytes")?;
    let node = match scan.tag(" on node ") {
        Some(()) => Some(NodeId::new(scan.decimal()?)),
        None => None,
    };
    scan.tag(" flags: ")?;
    let flags = MemblockFlags::from_bits_retain(u32::try_from(scan.hex()?).ok()?);
    let region = DumpRegion {
        start,
        size,
        node,
        flags,
    };
    scan.is_done().then_some((index, region, last))
}

impl core::str::FromStr for MemblockDump {
    type Err = DumpError;

    /// Reads the first dump of `text`, whose lines have no time stamps.
    fn from_str(text: &str) -> Result<Self, DumpError> {
        let mut lines = text.lines();
        if !lines.any(|line| line == DumpReader::TITLE) {
            return Err(DumpError::NoDump);
        }
        let mut reader = DumpReader::new();
        for line in lines {
            if !reader.feed(line)? {
                break;
            }
        }
        reader.finish()
    }
}

impl MemblockDump {
    /// The array `which`, if the dump shows one.
    pub fn list(&self, which: Which) -> Option<&[DumpRegion]> {
        let list = self.lists.iter().find(|list| list.which == which)?;
        Some(&list.regions)
    }

    /// The memblock that prints this dump, with arrays that have no end.
    ///
    /// Which of the two ways to say "no node" a region uses is not printed. The usual one of its
    /// kernel is taken, the other where two regions touch that would else be one.
    pub fn to_memblock(&self, behaviour: Behaviour) -> Memblock {
        let mut memblock = Memblock::new(behaviour);
        for list in &self.lists {
            let unset = match list.which {
                Which::Reserved => behaviour.plain_reservation_node,
                Which::Memory | Which::Physmem => NodeMark::UNSET,
            };
            memblock.load(list.which, |regions| load(regions, &list.regions, unset));
        }
        memblock.set_total_sizes(self.memory_size, self.reserved_size);
        memblock
    }
}

fn load(list: &mut RegionList, regions: &[DumpRegion], unset: NodeMark) {
    let other = if unset == NodeMark::UNSET {
        NodeMark::NO_NODE
    } else {
        NodeMark::UNSET
    };
    for region in regions {
        let range = PhysRange::from_size(region.start, region.size);
        let mark = region.node.map_or(unset, NodeMark::node);
        let mut region = Region::new(range, mark, region.flags);
        let would_merge = list.last().is_some_and(|last| last.continues_in(region));
        if would_merge && region.node().is_none() {
            region = region.with_node(other);
        }
        // the reader has seen to it that regions are sorted and disjoint; one that was made by
        // hand and is not loses what overlaps
        let _ = list.insert(&region);
    }
}

impl Memblock {
    /// What `memblock_dump_all` would print of it.
    #[doc(alias = "memblock_dump_all")]
    pub fn dump(&self) -> MemblockDump {
        let lists = [Which::Memory, Which::Reserved, Which::Physmem]
            .into_iter()
            .filter_map(|which| {
                let list = self.list(which)?;
                Some(DumpList {
                    which,
                    regions: dump_regions(list, self.behaviour()),
                })
            })
            .collect();
        MemblockDump {
            width: AddressWidth::Bits64,
            memory_size: self.memory().total_size(),
            reserved_size: self.reserved().total_size(),
            lists,
        }
    }
}

fn dump_regions(list: &RegionList, behaviour: &Behaviour) -> Vec<DumpRegion> {
    if list.is_empty() && behaviour.empty_array_counts_one {
        // all zero at first, which reads as node 0; a removal leaves "no node" behind
        return alloc::vec![DumpRegion {
            start: PhysAddr::ZERO,
            size: 0,
            node: (!list.was_emptied()).then_some(NodeId::new(0)),
            flags: MemblockFlags::empty(),
        }];
    }
    list.iter()
        .map(|region| DumpRegion {
            start: region.start(),
            size: region.range().len(),
            node: region.node(),
            flags: region.flags(),
        })
        .collect()
}

impl fmt::Display for MemblockDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |address| Address(address, self.width);
        writeln!(f, "{}", DumpReader::TITLE)?;
        writeln!(
            f,
            " memory size = {} reserved size = {}",
            at(self.memory_size),
            at(self.reserved_size)
        )?;
        for DumpList { which, regions } in &self.lists {
            writeln!(f, " {which}.cnt  = {:#x}", regions.len())?;
            for (index, region) in regions.iter().enumerate() {
                let start = region.start.get();
                let last = start.wrapping_add(region.size).wrapping_sub(1);
                write!(
                    f,
                    " {which}[{index:#x}]\t[{}-{}], {} bytes",
                    at(start),
                    at(last),
                    at(region.size)
                )?;
                if let Some(node) = region.node {
                    write!(f, " on node {node}")?;
                }
                writeln!(f, " flags: {}", region.flags)?;
            }
        }
        Ok(())
    }
}
