//! A boot log that was made with `memblock=debug`, played back.
//!
//! The log's last `MEMBLOCK configuration:` dump is the start; every operation that it prints
//! after it is done again, until the kernel hands its memory to the page allocator.
//!
//! # What a log does not show
//! Operations before the option is parsed (they are in the dump), trimming, nodes and flags that
//! are set, and which of the two ways to say "no node" a region uses. Lines can be lost, or cut.
//! What could not be known is in [`Replay::unknown`]: an empty list means that the reservations
//! are those of the kernel.

mod debugfs;
mod lines;

pub use debugfs::{DebugfsDifference, SilentFree};
pub use lines::{GivenBack, MemoryLine};

use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

use crate::text::{
    DebugEvent, DebugLine, DumpError, DumpReader, FreeCall, LineError, PrintedRange, printed_node,
    strip_time,
};
use crate::{
    Behaviour, Memblock, MemblockError, MemblockFlags, NodeMark, Pfn, PfnRange, PhysRange,
};

/// A log, played back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replay {
    /// The kernel's behaviour: the one that was asked for, else by the log's version.
    pub behaviour: Behaviour,
    /// The state at hand-over, before the kernel changes anything for it: see
    /// [`Memblock::hand_over`].
    pub at_hand_over: Memblock,
    /// Reservations that the log shows given back after hand-over, in its order.
    pub later_frees: Vec<LaterFree>,
    /// `Freeing … memory: …K` lines, in the log's order.
    pub given_back: Vec<GivenBack>,
    /// The kernel's `Memory:` line.
    pub memory_line: Option<MemoryLine>,
    /// log2 of the page size in bytes, where a line of the log gives it away.
    pub page_shift: Option<u32>,
    /// What could not be known.
    pub unknown: Vec<Unknown>,
}

/// A reservation given back after hand-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaterFree {
    /// What was freed.
    pub range: PhysRange,
    /// The call.
    pub call: FreeCall,
    /// Who called.
    pub caller: String,
    /// The line's number in the log, from 1.
    pub line: usize,
}

/// Something that a log does not tell. Lines are numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unknown {
    /// No line shows the hand-over: it is taken to follow the last reservation, and reservations
    /// after that may be missing.
    #[error("no line of the log shows the hand-over; reservations may be missing")]
    HandOverNotSeen,
    /// Messages were lost.
    #[error("line {line}: the log says that messages were lost")]
    LostMessages {
        /// The line that says so.
        line: usize,
    },
    /// A dump after the first good one can't be read, so the replay goes on from that one.
    #[error("line {line}: {error}")]
    BrokenDump {
        /// Where the dump ends.
        line: usize,
        /// Why it can't be read.
        error: DumpError,
    },
    /// An operation can't be read.
    #[error("line {line}: {error}")]
    BrokenLine {
        /// The line.
        line: usize,
        /// Why it can't be read.
        error: LineError,
    },
    /// An allocation lies outside the memory that was free: something before it is missing.
    #[error("line {line}: {range:?} was allocated, but was not free memory")]
    NotFree {
        /// The line.
        line: usize,
        /// What was allocated.
        range: PhysRange,
    },
    /// An operation was refused.
    #[error("line {line}: {error}")]
    Refused {
        /// The line.
        line: usize,
        /// Why.
        error: MemblockError,
    },
    /// Something was reserved after hand-over; it is not in the state at hand-over.
    #[error("line {line}: {range:?} was reserved after the hand-over")]
    LateReservation {
        /// The line.
        line: usize,
        /// What was reserved.
        range: PhysRange,
    },
}

/// Why a log can't be played back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The log shows no dump.
    #[error("the log shows no \"MEMBLOCK configuration:\": boot with memblock=debug")]
    NoDump,
    /// Its only dumps can't be read.
    #[error("line {line}: {error}")]
    Dump {
        /// Where the last dump ends.
        line: usize,
        /// Why it can't be read.
        error: DumpError,
    },
    /// The log does not say, before its dump, which kernel it is of.
    #[error("no line \"Linux version X.Y\" before the dump: say which behaviour to use")]
    NoVersion,
}

/// What the `Memory:` line says beside what was replayed, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryCheck {
    /// Pages of memory that are not free at hand-over, as replayed.
    pub replayed: u64,
    /// The same as the log prints it: reserved, CMA, and what was given back before the line.
    pub printed: u64,
}

impl MemoryCheck {
    /// Whether both are equal.
    pub fn holds(self) -> bool {
        self.replayed == self.printed
    }
}

/// Plays a log back: lines in, with or without time stamps.
///
/// # Errors
/// [`ReplayError`]: no readable dump, or no version where `behaviour` is not given.
///
/// ```
/// let log = "\
/// Linux version 6.12.1
/// MEMBLOCK configuration:
///  memory size = 0x0000000000100000 reserved size = 0x0000000000001000
///  memory.cnt  = 0x1
///  memory[0x0]\t[0x0000000000000000-0x00000000000fffff], 0x0000000000100000 bytes flags: 0x0
///  reserved.cnt  = 0x1
///  reserved[0x0]\t[0x0000000000000000-0x0000000000000fff], 0x0000000000001000 bytes flags: 0x0
/// memblock_reserve: [0x0000000000002000-0x00000000000027ff] setup_arch+0x1/0x2
/// SLUB: HWalign=64
/// memblock_phys_free: [0x0000000000002000-0x00000000000027ff] free_it+0x1/0x2
/// ";
/// let replay = memblock::replay::replay(log.lines(), None)?;
/// assert_eq!(replay.at_hand_over.reserved().total_size(), 0x1800);
/// assert_eq!(replay.later_frees.len(), 1);
/// assert!(replay.unknown.is_empty());
/// # Ok::<(), memblock::replay::ReplayError>(())
/// ```
pub fn replay<'a>(
    lines: impl IntoIterator<Item = &'a str>,
    behaviour: Option<Behaviour>,
) -> Result<Replay, ReplayError> {
    let mut replayer = Replayer::new(behaviour);
    for line in lines {
        replayer.feed(line);
    }
    replayer.finish()
}

/// Plays a log back line by line.
#[derive(Clone, Debug, Default)]
pub struct Replayer {
    asked: Option<Behaviour>,
    of_log: Option<Behaviour>,
    line: usize,
    /// The state belongs to a kernel whose version was not known when it was dumped.
    of_unknown_kernel: bool,
    dump: Option<DumpReader>,
    bad_dump: Option<(usize, DumpError)>,
    /// The state now, and as it was after the last reservation.
    now: Option<Memblock>,
    handed_over: bool,
    /// Frees since the last reservation: later frees, if no hand-over is seen.
    frees: Vec<LaterFree>,
    /// The state before those frees.
    before_frees: Option<Memblock>,
    given_back: Vec<GivenBack>,
    memory_line: Option<MemoryLine>,
    page_shift: Option<u32>,
    unknown: Vec<Unknown>,
}

impl Replayer {
    /// A replayer for a kernel of `behaviour`, or of the version that the log names.
    pub fn new(behaviour: Option<Behaviour>) -> Self {
        Self {
            asked: behaviour,
            ..Self::default()
        }
    }

    fn behaviour(&self) -> Option<Behaviour> {
        self.asked.or(self.of_log)
    }

    /// Takes the next line of the log.
    pub fn feed(&mut self, line: &str) {
        self.line += 1;
        let line = strip_time(line);
        if line == DumpReader::TITLE {
            self.end_dump();
            self.dump = Some(DumpReader::new());
            return;
        }
        if let Some(reader) = &mut self.dump {
            match reader.feed(line) {
                Ok(true) => return,
                Ok(false) => self.end_dump(),
                Err(error) => {
                    self.dump = None;
                    self.dump_failed(error);
                    return;
                }
            }
        }
        match DebugLine::parse(line) {
            Ok(Some(parsed)) => self.operation(&parsed),
            Ok(None) => self.other(line),
            Err(error) if self.now.is_some() => {
                let line = self.line;
                self.unknown.push(Unknown::BrokenLine { line, error });
            }
            // before the dump nothing is replayed
            Err(_) => {}
        }
    }

    fn end_dump(&mut self) {
        let Some(reader) = self.dump.take() else {
            return;
        };
        match reader.finish() {
            Ok(dump) => {
                // some logs dump once before their version; `finish` fails if that was all
                self.of_unknown_kernel = self.behaviour().is_none();
                let behaviour = self.behaviour().unwrap_or(Behaviour::V6_1);
                self.now = Some(dump.to_memblock(behaviour));
                self.bad_dump = None;
                self.unknown.clear();
                self.frees.clear();
                self.before_frees = None;
                self.handed_over = false;
            }
            Err(error) => self.dump_failed(error),
        }
    }

    fn dump_failed(&mut self, error: DumpError) {
        let line = self.line;
        self.bad_dump = Some((line, error));
        if self.now.is_some() {
            self.unknown.push(Unknown::BrokenDump { line, error });
        }
    }

    fn operation(&mut self, line: &DebugLine<'_>) {
        let Some(now) = &mut self.now else { return };
        let at = self.line;
        let range = |printed: PrintedRange| printed.range(line.width);
        let done = match line.event {
            DebugEvent::Add(printed) => now.add(range(printed)),
            DebugEvent::AddNode {
                range: printed,
                nid,
                flags,
            } => add_node(now, range(printed), nid, flags),
            DebugEvent::Remove(printed) => now.remove(range(printed)),
            DebugEvent::PhysmemAdd(printed) => {
                now.enable_physmem();
                now.physmem_add(range(printed))
            }
            DebugEvent::Reserve {
                range: printed,
                detail,
            } => {
                let range = range(printed);
                if self.handed_over {
                    let line = at;
                    self.unknown.push(Unknown::LateReservation { line, range });
                    return;
                }
                if line.caller.starts_with("memblock_alloc_range_nid+") && !is_free(now, range) {
                    let line = at;
                    self.unknown.push(Unknown::NotFree { line, range });
                }
                // what was freed before a reservation was freed before hand-over
                self.frees.clear();
                self.before_frees = None;
                reserve(now, range, detail)
            }
            DebugEvent::Free {
                call,
                range: printed,
            } => {
                let range = range(printed);
                if self.before_frees.is_none() && !self.handed_over {
                    self.before_frees = Some(now.clone());
                }
                self.frees.push(LaterFree {
                    range,
                    call,
                    caller: line.caller.into(),
                    line: at,
                });
                if self.handed_over || call == FreeCall::FreeLate {
                    return;
                }
                now.free(range)
            }
            DebugEvent::PhysAlloc { .. }
            | DebugEvent::Alloc { .. }
            | DebugEvent::Hugetlb { .. }
            | DebugEvent::Doubled { .. } => Ok(()),
        };
        if let Err(error) = done {
            self.unknown.push(Unknown::Refused { line: at, error });
        }
    }

    fn other(&mut self, line: &str) {
        if let Some((major, minor)) = lines::version(line) {
            self.of_log
                .get_or_insert(Behaviour::for_version(major, minor));
        }
        if lines::says_lost(line) && self.now.is_some() {
            let line = self.line;
            self.unknown.push(Unknown::LostMessages { line });
        }
        if let Some(shift) = lines::page_shift(line) {
            self.page_shift.get_or_insert(shift);
        }
        if let Some(memory) = MemoryLine::parse(line) {
            self.memory_line.get_or_insert(MemoryLine {
                given_back_kib: self.given_back.iter().map(|it| it.kib).sum(),
                ..memory
            });
        }
        if let Some(back) = GivenBack::parse(line, self.line) {
            self.given_back.push(back);
        }
        if lines::shows_hand_over(line) && self.now.is_some() && !self.handed_over {
            self.handed_over = true;
            self.frees.clear();
            self.before_frees = None;
        }
    }

    /// The log, played back.
    ///
    /// # Errors
    /// [`ReplayError`]: no readable dump, or no version where none was given.
    pub fn finish(mut self) -> Result<Replay, ReplayError> {
        self.end_dump();
        let mut at_hand_over = match (self.now, self.bad_dump) {
            (Some(now), _) => self.before_frees.unwrap_or(now),
            (None, Some((line, error))) => return Err(ReplayError::Dump { line, error }),
            (None, None) => return Err(ReplayError::NoDump),
        };
        let behaviour = self
            .asked
            .or(self.of_log)
            .filter(|_| !self.of_unknown_kernel)
            .ok_or(ReplayError::NoVersion)?;
        if !self.handed_over {
            self.unknown.push(Unknown::HandOverNotSeen);
        }
        if let Some(shift) = self.page_shift {
            at_hand_over.settings_mut().page_shift = shift;
        }
        Ok(Replay {
            behaviour,
            at_hand_over,
            later_frees: self.frees,
            given_back: self.given_back,
            memory_line: self.memory_line,
            page_shift: self.page_shift,
            unknown: self.unknown,
        })
    }
}

fn add_node(
    now: &mut Memblock,
    range: PhysRange,
    nid: i32,
    flags: MemblockFlags,
) -> Result<(), MemblockError> {
    let node = match (printed_node(nid), nid) {
        (Some(node), _) => node.into(),
        (None, -1) => NodeMark::NO_NODE,
        (None, _) => NodeMark::UNSET,
    };
    now.add_node(range, node, flags)
}

fn reserve(
    now: &mut Memblock,
    range: PhysRange,
    detail: Option<(i32, MemblockFlags)>,
) -> Result<(), MemblockError> {
    match detail {
        None => now.reserve(range),
        Some((nid, flags)) => now.reserve_with(range, printed_node(nid), flags),
    }
}

/// Whether all of `range` is memory and none of it reserved.
fn is_free(now: &Memblock, range: PhysRange) -> bool {
    now.memory().gaps_in(range).next().is_none() && !now.is_region_reserved(range)
}

impl Replay {
    /// Pages of memory that are not free at hand-over: reserved (partly reserved pages
    /// included), outside the direct mapping, or driver-managed.
    pub fn reserved_pages(&self, page_shift: u32) -> u64 {
        reserved_pages(&self.at_hand_over, page_shift)
    }

    /// What the `Memory:` line says beside what was replayed; `None` where there is no such line.
    pub fn check_memory_line(&self, page_shift: u32) -> Option<MemoryCheck> {
        let line = self.memory_line?;
        Some(MemoryCheck {
            replayed: (self.reserved_pages(page_shift) << page_shift) >> 10,
            printed: line.reserved_kib + line.cma_kib + line.given_back_kib,
        })
    }

    /// The state after hand-over and the later frees of the log, as debugfs would show it.
    ///
    /// # Errors
    /// As [`Memblock::hand_over`].
    pub fn after_later_frees(&self, page_shift: u32) -> Result<Memblock, MemblockError> {
        let mut after = self.at_hand_over.clone();
        after.hand_over(page_shift)?;
        for free in &self.later_frees {
            if free.call != FreeCall::FreeLate {
                after.free(free.range)?;
            }
        }
        Ok(after)
    }
}

/// Whole pages of memory less its whole free pages.
fn reserved_pages(memblock: &Memblock, page_shift: u32) -> u64 {
    let present: u64 = memblock
        .mem_pfn_ranges(page_shift, None)
        .map(|(pfns, _, _)| pfns.len())
        .sum();
    let everything = PfnRange::new(Pfn::ZERO, Pfn::MAX);
    // hot-pluggable memory is free at hand-over, so the mark must not hide it
    let mut unmarked = memblock.clone();
    unmarked.settings_mut().movable_node = false;
    let free: u64 = unmarked
        .free_pfn_ranges(page_shift, everything, None)
        .map(PfnRange::len)
        .sum();
    present - free.min(present)
}
