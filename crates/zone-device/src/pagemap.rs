//! A driver's description of its memory.
//!
//! Plain data: a [`DevPagemap`] is checked against a kernel when its pages are asked for, by
//! [`DeviceRuns::new`](crate::DeviceRuns::new).

use alloc::vec::Vec;

use memblock::PhysRange;
use memmap_core::Behaviours;

use crate::Altmap;

/// What the memory of a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "memory_type")]
#[non_exhaustive]
pub enum MemoryType {
    /// Memory that only the device can reach.
    #[doc(alias = "MEMORY_DEVICE_PRIVATE")]
    Private = 1,
    /// Device memory that CPUs reach coherently.
    #[doc(alias = "MEMORY_DEVICE_COHERENT")]
    Coherent = 2,
    /// Persistent memory under a file system.
    #[doc(alias = "MEMORY_DEVICE_FS_DAX")]
    FsDax = 3,
    /// Memory handed to programs as a character device.
    #[doc(alias = "MEMORY_DEVICE_GENERIC")]
    Generic = 4,
    /// A window of a PCI device that other devices address.
    #[doc(alias = "MEMORY_DEVICE_PCI_P2PDMA")]
    PciP2pdma = 5,
}

impl MemoryType {
    /// Every type, by value.
    pub const ALL: [Self; 5] = [
        Self::Private,
        Self::Coherent,
        Self::FsDax,
        Self::Generic,
        Self::PciP2pdma,
    ];

    /// The references with which a page begins: 0 where the page is handed out by its driver, who
    /// then counts it, and 1 where it is in use from the start. Tails have none.
    pub const fn initial_refcount(self, behaviours: &Behaviours) -> u32 {
        match self {
            Self::Private | Self::Coherent => 0,
            Self::Generic => 1,
            Self::FsDax | Self::PciP2pdma => behaviours.device_page_holds_reference as u32,
        }
    }
}

/// The memory of a device: what it is, where it is, and how its struct pages are made.
///
/// Linux: include/linux/memremap.h.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "dev_pagemap")]
pub struct DevPagemap {
    memory_type: MemoryType,
    address: u64,
    ranges: Vec<PhysRange>,
    vmemmap_shift: u32,
    owner: Option<u64>,
    altmap: Option<Altmap>,
}

impl DevPagemap {
    /// Bit of [`flags`](Self::flags): an altmap is given.
    #[doc(alias = "PGMAP_ALTMAP_VALID")]
    pub const ALTMAP_VALID: u32 = 1;

    /// A device without memory so far, whose description lies at `address` of the modelled kernel:
    /// that is what its pages hold in their second word.
    pub const fn new(memory_type: MemoryType, address: u64) -> Self {
        Self {
            memory_type,
            address,
            ranges: Vec::new(),
            vmemmap_shift: 0,
            owner: None,
            altmap: None,
        }
    }

    /// The same with one more range of memory.
    #[must_use]
    pub fn with_range(mut self, range: PhysRange) -> Self {
        self.ranges.push(range);
        self
    }

    /// The same with compounds of `2^shift` pages; 0, the default, gives single pages.
    #[must_use]
    pub const fn with_vmemmap_shift(mut self, shift: u32) -> Self {
        self.vmemmap_shift = shift;
        self
    }

    /// The same with the mark by which a driver knows its own pages.
    #[must_use]
    pub const fn with_owner(mut self, owner: u64) -> Self {
        self.owner = Some(owner);
        self
    }

    /// The same with its memory map in its own memory.
    #[must_use]
    pub const fn with_altmap(mut self, altmap: Altmap) -> Self {
        self.altmap = Some(altmap);
        self
    }

    /// What the memory is.
    pub const fn memory_type(&self) -> MemoryType {
        self.memory_type
    }

    /// Where the description lies in the modelled kernel.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// The memory.
    pub fn ranges(&self) -> &[PhysRange] {
        &self.ranges
    }

    /// Log2 of the pages of a compound; 0 for single pages.
    pub const fn vmemmap_shift(&self) -> u32 {
        self.vmemmap_shift
    }

    /// The mark by which a driver knows its own pages.
    pub const fn owner(&self) -> Option<u64> {
        self.owner
    }

    /// The part of the device's own memory that holds its memory map.
    pub const fn altmap(&self) -> Option<&Altmap> {
        self.altmap.as_ref()
    }

    /// The same part, to take pages from.
    pub const fn altmap_mut(&mut self) -> Option<&mut Altmap> {
        self.altmap.as_mut()
    }

    /// The flags, as Linux stores them.
    pub const fn flags(&self) -> u32 {
        if self.altmap.is_some() {
            Self::ALTMAP_VALID
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memmap_core::KernelVersion;

    #[test]
    fn references_are_those_of_each_type_and_release() {
        let counts = |version| {
            let behaviours = Behaviours::of(version);
            MemoryType::ALL.map(|memory_type| memory_type.initial_refcount(&behaviours))
        };
        assert_eq!(counts(KernelVersion::V6_1), [0, 0, 1, 1, 1]);
        assert_eq!(counts(KernelVersion::V6_12), [0, 0, 1, 1, 1]);
        assert_eq!(counts(KernelVersion::V6_18), [0, 0, 0, 1, 0]);
        assert_eq!(counts(KernelVersion::V7_3), [0, 0, 0, 1, 0]);
    }

    #[test]
    fn the_only_flag_says_that_an_altmap_is_given() {
        let plain = DevPagemap::new(MemoryType::FsDax, 1).with_owner(7);
        assert_eq!((plain.flags(), plain.owner()), (0, Some(7)));
        let altmap = Altmap::new(memblock::Pfn::new(0), 2, 510);
        assert_eq!(plain.with_altmap(altmap).flags(), DevPagemap::ALTMAP_VALID);
    }
}
