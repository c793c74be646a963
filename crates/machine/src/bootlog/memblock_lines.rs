//! Dumps and debug lines of memblock (`memblock=debug`).
//!
//! A dump shows the arrays at one moment; the debug lines behind it say what changed until
//! memory was handed to the buddy allocator. Linux: `mm/memblock.c`, `memblock_dump_all`.

use memblock::{NodeId, PhysAddr, PhysRange};

use crate::location::Problems;
use crate::text::scan::Scan;

/// One region of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpRegion {
    /// Line number.
    pub line: u64,
    /// The region.
    pub range: PhysRange,
    /// Its node, where it has one.
    pub node: Option<NodeId>,
    /// Its flag bits.
    pub flags: u32,
}

/// One array of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpArray {
    /// How many regions it says that it has.
    pub count: Option<u64>,
    /// The regions that were printed.
    pub regions: Vec<DumpRegion>,
    /// Whether one of its lines could not be read.
    pub broken: bool,
}

impl DumpArray {
    /// Whether all regions were printed and read.
    pub fn is_whole(&self) -> bool {
        !self.broken && self.count == Some(self.regions.len() as u64)
    }

    /// Whether every region from the first on was read, though how many there are was not.
    fn is_listed(&self) -> bool {
        !self.broken && self.count.is_none() && !self.regions.is_empty()
    }
}

/// `MEMBLOCK configuration:` and what follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Line of the heading.
    pub line: u64,
    /// Last line that belongs to it.
    pub last_line: u64,
    /// `memory`.
    pub memory: DumpArray,
    /// `reserved`.
    pub reserved: DumpArray,
    /// `physmem` (s390x).
    pub physmem: DumpArray,
}

/// What a debug line did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// `memblock_add`, `memblock_add_node`.
    Add,
    /// `memblock_remove`.
    Remove,
    /// `memblock_reserve`, `__memblock_reserve`.
    Reserve,
    /// `memblock_phys_free`, `memblock_free`.
    Free,
}

/// One debug line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Line number.
    pub line: u64,
    /// What it did.
    pub operation: Operation,
    /// To what.
    pub range: PhysRange,
    /// The node given, where one was.
    pub node: Option<NodeId>,
    /// The flag bits given.
    pub flags: u32,
    /// Whether x86 filled memory from the firmware's map by it.
    pub from_firmware_map: bool,
}

/// Everything that a log says of memblock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemblockLines {
    /// The dumps.
    pub dumps: Vec<Dump>,
    /// The debug lines.
    pub calls: Vec<Call>,
    /// First line printed after memory was handed over: later calls change nothing.
    pub handed_over: Option<u64>,
    /// Whether the allocator that took over was heard: else lines around the hand-over are lost.
    pub takeover_heard: bool,
    open: bool,
}

const CALLS: [(&str, Operation); 9] = [
    ("memblock_add_node:", Operation::Add),
    ("memblock_add:", Operation::Add),
    ("memblock add:", Operation::Add),
    ("memblock_remove:", Operation::Remove),
    ("__memblock_reserve:", Operation::Reserve),
    ("memblock_reserve:", Operation::Reserve),
    ("memblock_phys_free:", Operation::Free),
    ("memblock_free:", Operation::Free),
    ("__memblock_free:", Operation::Free),
];

/// Messages of what starts once memory is handed over; the first belongs to the allocator that
/// takes over, the others are there in case it was lost.
const HANDED_OVER: [&str; 8] = [
    "SLUB: ",
    "SLAB: ",
    "rcu: ",
    "NR_IRQS",
    "Calibrating delay loop",
    "pid_max: ",
    "Mount-cache hash table",
    "Freeing ",
];

impl Dump {
    /// Whether all of memory was printed: the count says so, or the next array follows.
    pub fn has_memory(&self) -> bool {
        let next = self.reserved.count.is_some();
        self.memory.is_whole() || self.memory.is_listed() && next
    }

    /// Whether all of both arrays was printed and read.
    pub fn is_whole(&self) -> bool {
        self.memory.is_whole() && self.reserved.is_whole()
    }
}

impl MemblockLines {
    /// Whether the log says nothing of it.
    pub fn is_empty(&self) -> bool {
        self.dumps.is_empty() && self.calls.is_empty()
    }

    /// The last dump that is whole.
    pub fn last_whole(&self) -> Option<&Dump> {
        self.dumps.iter().rfind(|dump| dump.is_whole())
    }

    /// The last dump that is whole; if none is, the last one that has all of memory.
    pub fn last_with_memory(&self) -> Option<&Dump> {
        let cut = || self.dumps.iter().rfind(|dump| dump.has_memory());
        self.last_whole().or_else(cut)
    }

    /// The calls between `line` and the hand-over.
    pub fn calls_after(&self, line: u64) -> impl Iterator<Item = &Call> {
        let end = self.handed_over.unwrap_or(u64::MAX);
        self.calls
            .iter()
            .filter(move |call| call.line > line && call.line < end)
    }

    /// Takes one message; `true` if it was about memblock.
    pub(super) fn feed(&mut self, line: u64, text: &str, problems: &mut Problems) -> bool {
        if text == "MEMBLOCK configuration:" {
            self.open = true;
            self.dumps.push(Dump {
                line,
                last_line: line,
                ..Dump::default()
            });
            return true;
        }
        if let Some((rest, operation)) = CALLS
            .iter()
            .find_map(|(name, operation)| Some((text.strip_prefix(name)?, *operation)))
        {
            match call(line, operation, rest) {
                Some(call) => self.calls.push(call),
                None => problems.note(line, text, "`[0xSTART-0xEND]` behind a memblock call"),
            }
            return true;
        }
        // A dump that lost its heading is none to build on, but it shows what the file is.
        let headless = !self.open && text.starts_with("memory[0x") && text.contains(" bytes");
        if headless {
            self.open = true;
            self.dumps.push(Dump {
                line,
                last_line: line,
                ..Dump::default()
            });
        }
        if self.open && self.dump_line(line, text, problems) {
            return true;
        }
        if self.handed_over.is_none() && HANDED_OVER.iter().any(|mark| text.starts_with(mark)) {
            self.handed_over = Some(line);
            self.takeover_heard = text.starts_with("SL");
        }
        false
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self) {
        self.open = false;
    }

    fn dump_line(&mut self, line: u64, text: &str, problems: &mut Problems) -> bool {
        let Some(dump) = self.dumps.last_mut() else {
            return false;
        };
        if text.starts_with("memory size =") {
            dump.last_line = line;
            return true;
        }
        let (array, rest) = if let Some(rest) = text.strip_prefix("memory") {
            (&mut dump.memory, rest)
        } else if let Some(rest) = text.strip_prefix("reserved") {
            (&mut dump.reserved, rest)
        } else if let Some(rest) = text.strip_prefix("physmem") {
            (&mut dump.physmem, rest)
        } else {
            // Other CPUs may print in between, so a foreign line does not end the dump; what
            // belongs to it is recognised by its form.
            return false;
        };
        if let Some(rest) = rest.strip_prefix(".cnt") {
            let mut scan = Scan(rest);
            array.count = scan.eat("=").and_then(|()| scan.hex());
        } else if rest.starts_with("[0x") {
            match region(line, Scan(rest)) {
                // A region before it may be lost.
                Some((index, region))
                    if array.count.is_some() || index == array.regions.len() as u64 =>
                {
                    array.regions.push(region);
                }
                Some(_) => array.broken = true,
                None => {
                    array.broken = true;
                    problems.note(
                        line,
                        text,
                        "`[0xI] [0xSTART-0xEND], 0xSIZE bytes` of a memblock dump",
                    );
                }
            }
        } else {
            return false;
        }
        dump.last_line = line;
        true
    }
}

fn call(line: u64, operation: Operation, rest: &str) -> Option<Call> {
    let mut scan = Scan(rest);
    let range = scan.plain_mem().or_else(|| to_the_top(&mut scan))?;
    let after = scan.0;
    let field = |name: &str| after.split_once(name).map(|(_, rest)| Scan(rest));
    Some(Call {
        line,
        operation,
        range,
        // `nid=-1` is no node: nothing is taken.
        node: field("nid=")
            .and_then(|mut scan| scan.node())
            .map(NodeId::new),
        flags: field("flags=")
            .or_else(|| field("flags "))
            .and_then(|mut scan| scan.hex())
            .and_then(|bits| u32::try_from(bits).ok())
            .unwrap_or(0),
        from_firmware_map: after.contains("e820__memblock_setup")
            || after.contains("memblock_x86_fill"),
    })
}

/// A size that reaches beyond the address space prints an end below the start.
fn to_the_top(scan: &mut Scan<'_>) -> Option<PhysRange> {
    let mut ahead = *scan;
    ahead.eat("[")?;
    let start = ahead.hex()?;
    ahead.eat("-")?;
    let last = ahead.hex()?;
    ahead.eat("]")?;
    *scan = ahead;
    (last < start).then(|| PhysRange::new(PhysAddr::new(start), PhysAddr::MAX))
}

fn region(line: u64, mut scan: Scan<'_>) -> Option<(u64, DumpRegion)> {
    scan.eat("[")?;
    let index = scan.hex()?;
    scan.eat("]")?;
    let range = scan.plain_mem()?;
    if scan.eat(",").is_some() {
        // An end of all ones has lost its last byte: the size is what counts then.
        let size = scan.hex()?;
        if size != range.len() && size != range.len().wrapping_add(1) {
            return None;
        }
    }
    let after = scan.0;
    let node = after
        .split_once("on node ")
        .and_then(|(_, rest)| Scan(rest).node())
        .map(NodeId::new);
    let flags = match after.split_once("flags: ") {
        Some((_, rest)) => u32::try_from(Scan(rest).hex()?).ok()?,
        None => 0,
    };
    let region = DumpRegion {
        line,
        range,
        node,
        flags,
    };
    Some((index, region))
}
