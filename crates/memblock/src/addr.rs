//! Addresses and frame numbers.
//!
//! Newtypes without operators: every calculation is a named method, and the ones that can
//! leave the address space say so in their return type.

use core::fmt;

/// A physical address, in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[doc(alias = "phys_addr_t")]
pub struct PhysAddr(u64);

/// A page frame number: a physical address divided by the page size.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[doc(alias = "pfn")]
pub struct Pfn(u64);

impl PhysAddr {
    /// The lowest address.
    pub const ZERO: Self = Self(0);
    /// The highest address; as a half-open end it leaves the very last byte out, as Linux does.
    #[doc(alias = "PHYS_ADDR_MAX")]
    pub const MAX: Self = Self(u64::MAX);

    /// The address `bytes` from zero.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The address as a number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `self + bytes`, or `None` beyond the address space.
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// `self + bytes`, at most [`PhysAddr::MAX`].
    #[must_use]
    pub const fn saturating_add(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    /// Bytes from `lower` to `self`, or `None` where `lower` is above.
    pub const fn checked_offset_from(self, lower: Self) -> Option<u64> {
        self.0.checked_sub(lower.0)
    }

    /// The largest multiple of `align` (a power of two) that is not above `self`.
    ///
    /// # Panics
    /// In debug builds where `align` is not a power of two.
    #[must_use]
    pub const fn align_down(self, align: u64) -> Self {
        debug_assert!(align.is_power_of_two());
        Self(self.0 & !(align - 1))
    }

    /// The smallest multiple of `align` (a power of two) that is not below `self`, or `None`
    /// beyond the address space.
    ///
    /// # Panics
    /// In debug builds where `align` is not a power of two.
    pub const fn checked_align_up(self, align: u64) -> Option<Self> {
        debug_assert!(align.is_power_of_two());
        match self.0.checked_add(align - 1) {
            Some(sum) => Some(Self(sum & !(align - 1))),
            None => None,
        }
    }

    /// The frame that holds this address.
    #[doc(alias = "PFN_DOWN")]
    #[doc(alias = "PHYS_PFN")]
    pub const fn pfn_down(self, page_shift: u32) -> Pfn {
        Pfn(self.0 >> page_shift)
    }

    /// The first frame that starts at or above this address.
    #[doc(alias = "PFN_UP")]
    pub const fn pfn_up(self, page_shift: u32) -> Pfn {
        let down = self.0 >> page_shift;
        Pfn(down + (self.0 & ((1 << page_shift) - 1) != 0) as u64)
    }
}

impl Pfn {
    /// Frame zero.
    pub const ZERO: Self = Self(0);
    /// The highest number, used as "none above".
    pub const MAX: Self = Self(u64::MAX);

    /// Frame `number`.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The frame's number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `self + pages`, or `None` beyond 64 bits.
    pub const fn checked_add(self, pages: u64) -> Option<Self> {
        match self.0.checked_add(pages) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// `self + pages`, at most [`Pfn::MAX`].
    #[must_use]
    pub const fn saturating_add(self, pages: u64) -> Self {
        Self(self.0.saturating_add(pages))
    }

    /// Pages from `lower` to `self`, or `None` where `lower` is above.
    pub const fn checked_offset_from(self, lower: Self) -> Option<u64> {
        self.0.checked_sub(lower.0)
    }

    /// The largest multiple of `align` (a power of two) that is not above `self`.
    ///
    /// # Panics
    /// In debug builds where `align` is not a power of two.
    #[must_use]
    pub const fn align_down(self, align: u64) -> Self {
        debug_assert!(align.is_power_of_two());
        Self(self.0 & !(align - 1))
    }

    /// The smallest multiple of `align` (a power of two) that is not below `self`, at most the
    /// highest such multiple.
    ///
    /// # Panics
    /// In debug builds where `align` is not a power of two.
    #[must_use]
    pub const fn align_up(self, align: u64) -> Self {
        debug_assert!(align.is_power_of_two());
        match self.0.checked_add(align - 1) {
            Some(sum) => Self(sum & !(align - 1)),
            None => Self(!(align - 1)),
        }
    }

    /// Whether `self` is a multiple of `align` (a power of two).
    pub const fn is_aligned(self, align: u64) -> bool {
        debug_assert!(align.is_power_of_two());
        self.0 & (align - 1) == 0
    }

    /// The address of the frame's first byte, or `None` beyond the address space.
    #[doc(alias = "PFN_PHYS")]
    pub const fn checked_phys(self, page_shift: u32) -> Option<PhysAddr> {
        if self.0 > u64::MAX >> page_shift {
            None
        } else {
            Some(PhysAddr(self.0 << page_shift))
        }
    }

    /// The address of the frame's first byte, at most [`PhysAddr::MAX`].
    pub const fn phys(self, page_shift: u32) -> PhysAddr {
        match self.checked_phys(page_shift) {
            Some(address) => address,
            None => PhysAddr::MAX,
        }
    }
}

impl fmt::Debug for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// As the kernel prints it: `0x` and 16 hexadecimal digits.
impl fmt::Display for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl fmt::Debug for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pfn:{:#x}", self.0)
    }
}

impl fmt::Display for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pfn_up_rounds_partial_pages_up_and_never_overflows() {
        assert_eq!(PhysAddr::new(0x1800).pfn_up(12), Pfn::new(2));
        assert_eq!(PhysAddr::new(0x2000).pfn_up(12), Pfn::new(2));
        assert_eq!(PhysAddr::MAX.pfn_up(12), Pfn::new(1 << 52));
    }

    #[test]
    fn align_up_stops_at_the_top() {
        assert_eq!(Pfn::MAX.align_up(0x1000), Pfn::new(!0xfff));
        assert_eq!(PhysAddr::MAX.checked_align_up(0x1000), None);
    }

    #[test]
    fn a_frame_beyond_the_address_space_has_no_address() {
        assert_eq!(Pfn::new(1 << 52).checked_phys(12), None);
        assert_eq!(Pfn::new(1 << 52).phys(12), PhysAddr::MAX);
    }
}
