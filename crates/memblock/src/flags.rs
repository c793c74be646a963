//! Flags of a region.
//!
//! The bit values are Linux's, so that a dump can be read and written without a table. Which of
//! them a kernel knows is part of its [`Behaviour`](crate::Behaviour).

use core::fmt;

bitflags::bitflags! {
    /// What is special about a region. `Linux: include/linux/memblock.h, enum memblock_flags`.
    ///
    /// Bits without a name are kept: a dump of a later kernel survives.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[doc(alias = "memblock_flags")]
    pub struct MemblockFlags: u32 {
        /// Memory that may be unplugged; kept for movable pages where `movable_node` asks for it.
        #[doc(alias = "MEMBLOCK_HOTPLUG")]
        const HOTPLUG = 0x1;
        /// Memory that the firmware mirrors.
        #[doc(alias = "MEMBLOCK_MIRROR")]
        const MIRROR = 0x2;
        /// Memory outside the kernel's direct mapping: never free, its pages are reserved.
        #[doc(alias = "MEMBLOCK_NOMAP")]
        const NOMAP = 0x4;
        /// Memory that a driver added and manages; neither free nor reserved.
        #[doc(alias = "MEMBLOCK_DRIVER_MANAGED")]
        const DRIVER_MANAGED = 0x8;
        /// A reservation whose struct pages its owner initialises (since 6.7).
        #[doc(alias = "MEMBLOCK_RSRV_NOINIT")]
        const RSRV_NOINIT = 0x10;
        /// A reservation of the kernel itself, as every allocation is (since 6.16).
        #[doc(alias = "MEMBLOCK_RSRV_KERN")]
        const RSRV_KERN = 0x20;
        /// Memory that a kernel handed over by kexec may allocate from (since 6.16).
        #[doc(alias = "MEMBLOCK_KHO_SCRATCH")]
        const KHO_SCRATCH = 0x40;
        /// A reservation for boot-time huge pages, always with `RSRV_KERN` (since 7.3).
        #[doc(alias = "MEMBLOCK_RSRV_HUGETLB")]
        const RSRV_HUGETLB = 0x80;

        // dumps of kernels that know more must survive
        const _ = !0;
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for MemblockFlags {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.bits())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for MemblockFlags {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::Deserialize::deserialize(deserializer).map(Self::from_bits_retain)
    }
}

/// As the kernel prints them: `0x` and the bits, without leading zeros.
impl fmt::Display for MemblockFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.bits())
    }
}
