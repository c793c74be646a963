//! The kernel's texts about memblock, read and written byte for byte.
//!
//! Three of them: the `MEMBLOCK configuration:` dump ([`MemblockDump`]), the lines that
//! `memblock=debug` prints ([`DebugLine`]), and the debugfs files ([`DebugfsTable`]). None has
//! the time stamp that a log puts in front.

mod debugfs;
mod dump;
mod line;
mod scan;

pub use debugfs::{DebugfsError, DebugfsRow, DebugfsTable};
pub use dump::{DumpError, DumpList, DumpReader, DumpRegion, MemblockDump};
pub(crate) use line::printed_node;
pub use line::{AllocCall, DebugEvent, DebugLine, FreeCall, LineError, PrintedRange, strip_time};

use core::fmt;

/// How many hexadecimal digits an address is printed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[doc(alias = "phys_addr_t")]
pub enum AddressWidth {
    /// 8 digits: physical addresses of 32 bits.
    Bits32,
    /// 16 digits.
    #[default]
    Bits64,
}

impl AddressWidth {
    const fn of_digits(digits: usize) -> Option<Self> {
        match digits {
            8 => Some(Self::Bits32),
            16 => Some(Self::Bits64),
            _ => None,
        }
    }

    /// The highest address of this width.
    pub const fn max(self) -> u64 {
        match self {
            Self::Bits32 => u32::MAX as u64,
            Self::Bits64 => u64::MAX,
        }
    }
}

/// A number as the kernel prints a physical address: `0x` and all digits.
struct Address(u64, AddressWidth);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            AddressWidth::Bits32 => write!(f, "{:#010x}", self.0 & self.1.max()),
            AddressWidth::Bits64 => write!(f, "{:#018x}", self.0),
        }
    }
}
