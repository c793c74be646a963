//! The lines of `memblock=debug`.

use core::fmt;

use thiserror::Error;

use super::scan::Scan;
use super::{Address, AddressWidth};
use crate::{Behaviour, MemblockFlags, NodeId, NodeMark, PhysAddr, PhysRange, ReserveLine, Which};

/// A range as the kernel prints it: its base, and `base + size - 1`, which wraps around where the
/// size passes the top of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrintedRange {
    /// The base.
    pub start: PhysAddr,
    /// The last byte, wrapped around.
    pub last: PhysAddr,
}

impl PrintedRange {
    /// `size` bytes from `start`.
    pub const fn new(start: PhysAddr, size: u64, width: AddressWidth) -> Self {
        let last = start.get().wrapping_add(size).wrapping_sub(1) & width.max();
        Self {
            start,
            last: PhysAddr::new(last),
        }
    }

    /// The size that the caller gave, in bytes.
    pub const fn size(self, width: AddressWidth) -> u64 {
        self.last
            .get()
            .wrapping_sub(self.start.get())
            .wrapping_add(1)
            & width.max()
    }

    /// The range that the operation worked on: cut off at the top of the address space.
    pub const fn range(self, width: AddressWidth) -> PhysRange {
        PhysRange::from_size(self.start, self.size(width))
    }
}

/// What freed a reservation, by the name that is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FreeCall {
    /// `memblock_phys_free`
    PhysFree,
    /// `memblock_free`, the name of old kernels.
    Free,
    /// `memblock_free_late` (up to 6.19): pages go to the buddy allocator, the reservation stays.
    FreeLate,
}

/// Which call allocated, by the name that is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AllocCall {
    /// `memblock_alloc_try_nid`
    TryNid,
    /// `memblock_alloc_try_nid_raw`
    TryNidRaw,
    /// `memblock_alloc_exact_nid_raw`
    ExactNidRaw,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DebugEvent {
    /// `memblock_add`
    Add(PrintedRange),
    /// `memblock_add_node`
    AddNode {
        /// What was added.
        range: PrintedRange,
        /// The node; negative or too large for none.
        nid: i32,
        /// The flags.
        flags: MemblockFlags,
    },
    /// `memblock_remove`
    Remove(PrintedRange),
    /// `memblock_reserve`, since 6.16 `__memblock_reserve` with node and flags.
    Reserve {
        /// What was reserved.
        range: PrintedRange,
        /// Node and flags, where the line has them.
        detail: Option<(i32, MemblockFlags)>,
    },
    /// A reservation was given back.
    Free {
        /// The call.
        call: FreeCall,
        /// What was freed.
        range: PrintedRange,
    },
    /// `memblock_physmem_add`
    PhysmemAdd(PrintedRange),
    /// `memblock_phys_alloc_range`; a line of the reservation follows where it succeeded.
    PhysAlloc {
        /// Bytes.
        size: u64,
        /// Bytes.
        align: u64,
        /// The lowest address.
        from: PhysAddr,
        /// The end; 0 is the current limit.
        max: PhysAddr,
    },
    /// An allocation; a line of the reservation follows where it succeeded.
    Alloc {
        /// The call.
        call: AllocCall,
        /// Bytes.
        size: u64,
        /// Bytes.
        align: u64,
        /// The node, -1 for any.
        nid: i32,
        /// The lowest address.
        from: PhysAddr,
        /// The end; 0 and 1 are the current limit.
        max: PhysAddr,
    },
    /// `memblock_alloc_hugetlb` (7.3)
    Hugetlb {
        /// Bytes.
        size: u64,
        /// The node, -1 for any.
        nid: i32,
        /// Whether no other node will do.
        exact: bool,
    },
    /// `memblock: … is doubled to …`
    Doubled {
        /// Which array.
        which: Which,
        /// How many regions it holds now.
        max: u64,
        /// Where it lies now.
        place: PrintedRange,
    },
}

/// One line of `memblock=debug`, without the time stamp.
///
/// ```
/// use memblock::text::{DebugEvent, DebugLine};
/// let text = "memblock_reserve: [0x0000000000001000-0x0000000000001fff] setup_arch+0x1/0x2";
/// let line = DebugLine::parse(text)?.expect("a line of memblock");
/// assert!(matches!(line.event, DebugEvent::Reserve { .. }));
/// assert_eq!(line.to_string(), text);
/// # Ok::<(), memblock::text::LineError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DebugLine<'a> {
    /// How wide its addresses are.
    pub width: AddressWidth,
    /// What it says.
    pub event: DebugEvent,
    /// Who called, as `symbol+0xoffset/0xsize`; empty in lines that name nobody.
    pub caller: &'a str,
}

/// Why a line that begins as one of memblock is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LineError {
    /// What follows the name does not read on.
    #[error(
        "the line begins with {call} but does not go on as such a line does, {left} bytes before \
         its end: it was cut or mixed with another"
    )]
    Malformed {
        /// The name of the call that the line begins with.
        call: &'static str,
        /// Bytes of the line that were left when it failed.
        left: usize,
    },
}

/// `line` without a time stamp (`[    0.000000] `) and without a caller's id (`[    T0] `).
pub fn strip_time(line: &str) -> &str {
    let mut rest = line.trim_end_matches(['\r', '\n']);
    if let Some(after) = rest.strip_prefix('<')
        && let Some((level, after)) = after.split_once('>')
        && !level.is_empty()
        && level.bytes().all(|byte| byte.is_ascii_digit())
    {
        rest = after;
    }
    for _ in 0..2 {
        let Some((stamp, after)) = rest.strip_prefix('[').and_then(|it| it.split_once(']')) else {
            break;
        };
        let inside = stamp.trim_start_matches(' ');
        let is_stamp = inside.starts_with(|it: char| it.is_ascii_digit() || it == 'T' || it == 'C')
            && inside[1..]
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.');
        if !is_stamp {
            break;
        }
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    rest
}

const CALLS: [&str; 14] = [
    "memblock_add",
    "memblock_add_node",
    "memblock_remove",
    "memblock_reserve",
    "__memblock_reserve",
    "memblock_phys_free",
    "memblock_free",
    "memblock_free_late",
    "memblock_physmem_add",
    "memblock_phys_alloc_range",
    "memblock_alloc_try_nid",
    "memblock_alloc_try_nid_raw",
    "memblock_alloc_exact_nid_raw",
    "memblock_alloc_hugetlb",
];

impl<'a> DebugLine<'a> {
    /// Reads a line; `None` where it is none of memblock's.
    ///
    /// # Errors
    /// [`LineError::Malformed`] where it begins as one and does not go on so.
    pub fn parse(line: &'a str) -> Result<Option<Self>, LineError> {
        if let Some(rest) = line.strip_prefix("memblock: ") {
            return Ok(Self::doubled(Scan(rest)));
        }
        let Some((name, rest)) = line.split_once(": ") else {
            return Ok(None);
        };
        let Some(&call) = CALLS.iter().find(|&&call| call == name) else {
            return Ok(None);
        };
        let mut scan = Scan(rest);
        let mut width = None;
        match event(call, &mut scan, &mut width) {
            Some(event) => Ok(Some(Self {
                width: width.unwrap_or_default(),
                event,
                caller: scan.rest(),
            })),
            None => Err(LineError::Malformed {
                call,
                left: scan.0.len(),
            }),
        }
    }

    fn doubled(mut scan: Scan<'a>) -> Option<Self> {
        let which = [Which::Memory, Which::Reserved, Which::Physmem]
            .into_iter()
            .find(|which| scan.tag(which.name()).is_some())?;
        scan.tag(" is doubled to ")?;
        let max = scan.decimal()?;
        scan.tag(" at ")?;
        let mut width = None;
        let place = bracketed(&mut scan, &mut width)?;
        scan.is_done().then_some(Self {
            width: width.unwrap_or_default(),
            event: DebugEvent::Doubled { which, max, place },
            caller: "",
        })
    }

    /// The line that `behaviour` prints for a reservation.
    pub fn reserve(
        behaviour: &Behaviour,
        range: PhysRange,
        node: NodeMark,
        flags: MemblockFlags,
        caller: &'a str,
    ) -> Self {
        let detail = match behaviour.reserve_line {
            ReserveLine::Plain => None,
            ReserveLine::NodeAndFlags => {
                Some((node.get().map_or(-1, |node| i32::from(node.get())), flags))
            }
        };
        let width = AddressWidth::Bits64;
        Self {
            width,
            event: DebugEvent::Reserve {
                range: PrintedRange::new(range.start(), range.len(), width),
                detail,
            },
            caller,
        }
    }
}

fn bracketed(scan: &mut Scan<'_>, width: &mut Option<AddressWidth>) -> Option<PrintedRange> {
    scan.tag("[")?;
    let start = PhysAddr::new(scan.address(width)?);
    scan.tag("-")?;
    let last = PhysAddr::new(scan.address(width)?);
    scan.tag("]")?;
    Some(PrintedRange { start, last })
}

fn flags(scan: &mut Scan<'_>) -> Option<MemblockFlags> {
    let bits = u32::try_from(scan.bare_hex()?).ok()?;
    Some(MemblockFlags::from_bits_retain(bits))
}

fn node_and_flags(scan: &mut Scan<'_>) -> Option<(i32, MemblockFlags)> {
    scan.tag("nid=")?;
    let nid = scan.decimal()?;
    scan.tag(" flags=")?;
    let flags = flags(scan)?;
    scan.tag(" ")?;
    Some((nid, flags))
}

fn event(call: &str, scan: &mut Scan<'_>, width: &mut Option<AddressWidth>) -> Option<DebugEvent> {
    if call.contains("alloc") {
        return allocation(call, scan, width);
    }
    let range = bracketed(scan, width)?;
    scan.tag(" ")?;
    Some(match call {
        "memblock_add" => DebugEvent::Add(range),
        "memblock_add_node" => {
            let (nid, flags) = node_and_flags(scan)?;
            DebugEvent::AddNode { range, nid, flags }
        }
        "memblock_remove" => DebugEvent::Remove(range),
        "memblock_reserve" => DebugEvent::Reserve {
            range,
            detail: None,
        },
        "__memblock_reserve" => DebugEvent::Reserve {
            range,
            detail: Some(node_and_flags(scan)?),
        },
        "memblock_physmem_add" => DebugEvent::PhysmemAdd(range),
        "memblock_phys_free" => free(FreeCall::PhysFree, range),
        "memblock_free" => free(FreeCall::Free, range),
        "memblock_free_late" => free(FreeCall::FreeLate, range),
        _ => return None,
    })
}

fn free(call: FreeCall, range: PrintedRange) -> DebugEvent {
    DebugEvent::Free { call, range }
}

fn allocation(
    call: &str,
    scan: &mut Scan<'_>,
    width: &mut Option<AddressWidth>,
) -> Option<DebugEvent> {
    let size = scan.decimal()?;
    if call == "memblock_alloc_hugetlb" {
        scan.tag(" bytes, nid=")?;
        let nid = scan.decimal()?;
        scan.tag(", exact_nid=")?;
        let exact = match scan.decimal::<u8>()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        scan.tag(" ")?;
        return Some(DebugEvent::Hugetlb { size, nid, exact });
    }
    scan.tag(" bytes align=")?;
    let align = scan.hex()?;
    let call = match call {
        "memblock_alloc_try_nid" => Some(AllocCall::TryNid),
        "memblock_alloc_try_nid_raw" => Some(AllocCall::TryNidRaw),
        "memblock_alloc_exact_nid_raw" => Some(AllocCall::ExactNidRaw),
        _ => None,
    };
    let nid = match call {
        Some(_) => {
            scan.tag(" nid=")?;
            scan.decimal()?
        }
        None => -1,
    };
    scan.tag(" from=")?;
    let from = PhysAddr::new(scan.address(width)?);
    scan.tag(" max_addr=")?;
    let max = PhysAddr::new(scan.address(width)?);
    scan.tag(" ")?;
    Some(match call {
        Some(call) => DebugEvent::Alloc {
            call,
            size,
            align,
            nid,
            from,
            max,
        },
        None => DebugEvent::PhysAlloc {
            size,
            align,
            from,
            max,
        },
    })
}

/// The node of a printed id: `None` for -1 and for `MAX_NUMNODES` and above.
pub(crate) fn printed_node(nid: i32) -> Option<NodeId> {
    u16::try_from(nid).ok().map(NodeId::new)
}

impl fmt::Display for DebugLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let caller = self.caller;
        let at = |address: PhysAddr| Address(address.get(), self.width);
        let brackets = |f: &mut fmt::Formatter<'_>, range: PrintedRange| {
            write!(f, "[{}-{}]", at(range.start), at(range.last))
        };
        let simple = |f: &mut fmt::Formatter<'_>, call: &str, range| {
            write!(f, "{call}: ")?;
            brackets(f, range)?;
            write!(f, " {caller}")
        };
        let detailed =
            |f: &mut fmt::Formatter<'_>, call: &str, range, nid, flags: MemblockFlags| {
                write!(f, "{call}: ")?;
                brackets(f, range)?;
                write!(f, " nid={nid} flags={:x} {caller}", flags.bits())
            };
        match self.event {
            DebugEvent::Add(range) => simple(f, "memblock_add", range),
            DebugEvent::AddNode { range, nid, flags } => {
                detailed(f, "memblock_add_node", range, nid, flags)
            }
            DebugEvent::Remove(range) => simple(f, "memblock_remove", range),
            DebugEvent::Reserve {
                range,
                detail: None,
            } => simple(f, "memblock_reserve", range),
            DebugEvent::Reserve {
                range,
                detail: Some((nid, flags)),
            } => detailed(f, "__memblock_reserve", range, nid, flags),
            DebugEvent::Free { call, range } => {
                let call = match call {
                    FreeCall::PhysFree => "memblock_phys_free",
                    FreeCall::Free => "memblock_free",
                    FreeCall::FreeLate => "memblock_free_late",
                };
                simple(f, call, range)
            }
            DebugEvent::PhysmemAdd(range) => simple(f, "memblock_physmem_add", range),
            DebugEvent::PhysAlloc {
                size,
                align,
                from,
                max,
            } => write!(
                f,
                "memblock_phys_alloc_range: {size} bytes align={align:#x} from={} max_addr={} {caller}",
                at(from),
                at(max)
            ),
            DebugEvent::Alloc {
                call,
                size,
                align,
                nid,
                from,
                max,
            } => {
                let call = match call {
                    AllocCall::TryNid => "memblock_alloc_try_nid",
                    AllocCall::TryNidRaw => "memblock_alloc_try_nid_raw",
                    AllocCall::ExactNidRaw => "memblock_alloc_exact_nid_raw",
                };
                write!(
                    f,
                    "{call}: {size} bytes align={align:#x} nid={nid} from={} max_addr={} {caller}",
                    at(from),
                    at(max)
                )
            }
            DebugEvent::Hugetlb { size, nid, exact } => write!(
                f,
                "memblock_alloc_hugetlb: {size} bytes, nid={nid}, exact_nid={} {caller}",
                u8::from(exact)
            ),
            DebugEvent::Doubled { which, max, place } => {
                write!(f, "memblock: {which} is doubled to {max} at ")?;
                brackets(f, place)
            }
        }
    }
}
