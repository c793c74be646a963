//! Which memory was taken, and why.

use core::fmt;

#[cfg(doc)]
use super::BackingKind;
use super::MapError;

/// Which memory a map's struct pages lie in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackingChoice {
    /// One address range for the whole span.
    Mapped,
    /// One allocation a section, as asked for.
    Heap,
    /// One allocation a section, since there is no address range: for [`BackingKind::Auto`] that is
    /// the second choice.
    HeapInstead(NoAddressRange),
}

/// Why [`BackingKind::Auto`] could not have one address range.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoAddressRange {
    /// It was refused, or would be too long.
    Refused(MapError),
    /// This is a build without the feature `std`, which knows no address ranges.
    NoSystem,
}

impl fmt::Display for BackingChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mapped => f.write_str("one address range"),
            Self::Heap => f.write_str("the heap, a section at a time"),
            Self::HeapInstead(why) => write!(f, "the heap, a section at a time, since {why}"),
        }
    }
}

impl fmt::Display for NoAddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "one address range is not to be had: {error}"),
            Self::NoSystem => f.write_str("there are no address ranges without the feature std"),
        }
    }
}
