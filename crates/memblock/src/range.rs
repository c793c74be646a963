//! Half-open ranges of addresses and frames.

use core::fmt;

use crate::{Pfn, PhysAddr};

/// Addresses `[start, end)`, in bytes. `start <= end` always holds.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PhysRange {
    start: PhysAddr,
    end: PhysAddr,
}

/// Frames `[start, end)`. `start <= end` always holds.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PfnRange {
    start: Pfn,
    end: Pfn,
}

macro_rules! half_open {
    ($range:ident, $point:ident, $unit:literal) => {
        impl $range {
            #[doc = concat!("`[start, end)`; empty at `start` where `end` is below it.")]
            pub const fn new(start: $point, end: $point) -> Self {
                let end = if end.get() < start.get() { start } else { end };
                Self { start, end }
            }

            /// The first element.
            pub const fn start(self) -> $point {
                self.start
            }

            /// One past the last element.
            pub const fn end(self) -> $point {
                self.end
            }

            #[doc = concat!("Its length, in ", $unit, ".")]
            pub const fn len(self) -> u64 {
                self.end.get() - self.start.get()
            }

            /// Whether nothing lies in it.
            pub const fn is_empty(self) -> bool {
                self.start.get() == self.end.get()
            }

            /// Whether `point` lies in it.
            pub const fn contains(self, point: $point) -> bool {
                self.start.get() <= point.get() && point.get() < self.end.get()
            }

            /// Whether all of `other` lies in it.
            pub const fn contains_range(self, other: Self) -> bool {
                self.start.get() <= other.start.get() && other.end.get() <= self.end.get()
            }

            /// Whether the two share an element.
            pub const fn overlaps(self, other: Self) -> bool {
                self.intersection(other).is_some()
            }

            /// What the two share, or `None` where that is nothing.
            pub const fn intersection(self, other: Self) -> Option<Self> {
                let start = if self.start.get() > other.start.get() {
                    self.start
                } else {
                    other.start
                };
                let end = if self.end.get() < other.end.get() {
                    self.end
                } else {
                    other.end
                };
                if start.get() < end.get() {
                    Some(Self { start, end })
                } else {
                    None
                }
            }
        }
    };
}

half_open!(PhysRange, PhysAddr, "bytes");
half_open!(PfnRange, Pfn, "pages");

/// Reads a range, and refuses one whose end lies below its start.
#[cfg(feature = "serde")]
macro_rules! deserialize_checked {
    ($range:ident, $point:ident) => {
        impl<'de> serde::Deserialize<'de> for $range {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                struct Bounds {
                    start: $point,
                    end: $point,
                }
                let Bounds { start, end } = Bounds::deserialize(deserializer)?;
                if end < start {
                    return Err(serde::de::Error::custom("the end lies below the start"));
                }
                Ok(Self { start, end })
            }
        }
    };
}

#[cfg(feature = "serde")]
deserialize_checked!(PhysRange, PhysAddr);
#[cfg(feature = "serde")]
deserialize_checked!(PfnRange, Pfn);

impl PhysRange {
    /// `size` bytes from `start`, cut off at the top of the address space.
    #[doc(alias = "memblock_cap_size")]
    pub const fn from_size(start: PhysAddr, size: u64) -> Self {
        Self {
            start,
            end: start.saturating_add(size),
        }
    }

    /// The range that firmware and boot logs print as `[start-last]`.
    ///
    /// A `last` of all ones gives an end of [`PhysAddr::MAX`]: the last byte is left out.
    pub const fn from_inclusive(start: PhysAddr, last: PhysAddr) -> Self {
        Self::new(start, last.saturating_add(1))
    }

    /// The frames that lie wholly inside.
    pub const fn pfns_inner(self, page_shift: u32) -> PfnRange {
        PfnRange::new(self.start.pfn_up(page_shift), self.end.pfn_down(page_shift))
    }

    /// The frames that it touches. Nothing touches nothing.
    pub const fn pfns_outer(self, page_shift: u32) -> PfnRange {
        if self.is_empty() {
            let at = self.start.pfn_down(page_shift);
            return PfnRange::new(at, at);
        }
        PfnRange::new(self.start.pfn_down(page_shift), self.end.pfn_up(page_shift))
    }
}

impl PfnRange {
    /// The addresses of these frames, cut off at the top of the address space.
    pub const fn phys(self, page_shift: u32) -> PhysRange {
        PhysRange::new(self.start.phys(page_shift), self.end.phys(page_shift))
    }

    /// The frames in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Pfn> {
        (self.start.get()..self.end.get()).map(Pfn::new)
    }
}

impl fmt::Debug for PhysRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}..{:?}", self.start, self.end)
    }
}

/// As the kernel prints it: the last byte is named, and the digits are 16.
impl fmt::Display for PhysRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.end.get().wrapping_sub(1);
        write!(f, "[mem {}-{:#018x}]", self.start, last)
    }
}

impl fmt::Debug for PfnRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pfns:{:#x}..{:#x}", self.start.get(), self.end.get())
    }
}

impl fmt::Display for PfnRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phys(start: u64, end: u64) -> PhysRange {
        PhysRange::new(PhysAddr::new(start), PhysAddr::new(end))
    }

    #[test]
    fn inner_frames_leave_partial_pages_out_and_outer_frames_take_them() {
        let range = phys(0x1800, 0x5800);
        assert_eq!(
            range.pfns_inner(12),
            PfnRange::new(Pfn::new(2), Pfn::new(5))
        );
        assert_eq!(
            range.pfns_outer(12),
            PfnRange::new(Pfn::new(1), Pfn::new(6))
        );
        assert!(phys(0x1800, 0x2800).pfns_inner(12).is_empty());
        assert!(phys(0x1800, 0x1800).pfns_outer(12).is_empty());
    }

    #[test]
    fn a_reversed_range_is_empty() {
        assert!(phys(5, 3).is_empty());
        assert_eq!(phys(5, 3).len(), 0);
    }

    #[test]
    fn the_top_of_the_address_space_loses_its_last_byte() {
        let top = PhysRange::from_size(PhysAddr::new(u64::MAX - 0x1000), 0x2000);
        assert_eq!(top.len(), 0x1000);
        assert_eq!(
            PhysRange::from_inclusive(PhysAddr::ZERO, PhysAddr::MAX).end(),
            PhysAddr::MAX
        );
    }
}
