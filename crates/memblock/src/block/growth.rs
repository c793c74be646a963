//! Arrays that end, and how they grow.
//!
//! Linux keeps its regions in arrays of a fixed size. A full array doubles, and until the slab
//! allocator is up the larger array is itself taken from memblock, which shows in real logs as a
//! reservation that nobody asked for.

use super::{Memblock, Which};
use crate::{MemblockError, MemblockFlags, PhysAddr, PhysRange, Region};

/// Size of a region in Linux's arrays on 64-bit machines, in bytes.
const REGION_BYTES: u64 = 24;

/// How many regions the arrays hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Growth {
    /// As many as it takes; the arrays take no memory from the memblock.
    Unlimited,
    /// So many at first; a full array doubles and reserves its own place, once that is allowed.
    Kernel {
        /// Capacity of the memory array.
        memory: usize,
        /// Capacity of the array of reservations.
        reserved: usize,
        /// Capacity of the physmem array.
        physmem: usize,
    },
}

impl Growth {
    /// 128 regions of memory, 128 reservations, 4 of physmem: all architectures but those below.
    #[doc(alias = "INIT_MEMBLOCK_REGIONS")]
    pub const KERNEL: Self = Self::Kernel {
        memory: 128,
        reserved: 128,
        physmem: 4,
    };

    /// arm64 with EFI and GICv3: 1024 regions of memory, 128 + `nr_cpus` + 1 reservations.
    #[doc(alias = "INIT_MEMBLOCK_RESERVED_REGIONS")]
    pub const fn arm64(nr_cpus: usize) -> Self {
        Self::Kernel {
            memory: 1024,
            reserved: 128usize.saturating_add(nr_cpus).saturating_add(1),
            physmem: 4,
        }
    }

    /// loongarch: 128 regions of memory, 128 + `nr_cpus` reservations.
    pub const fn loongarch(nr_cpus: usize) -> Self {
        Self::Kernel {
            memory: 128,
            reserved: 128usize.saturating_add(nr_cpus),
            physmem: 4,
        }
    }
}

/// The arrays behind the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Arrays {
    limited: bool,
    resize_allowed: bool,
    arrays: [Array; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Array {
    max: usize,
    place: Place,
}

/// Where an array lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum Place {
    /// In the kernel's image.
    Image,
    /// In memory that the memblock itself gave.
    Memblock(PhysRange),
    /// In memory of the slab allocator.
    Slab,
}

impl Arrays {
    pub(super) const fn new(growth: Growth) -> Self {
        const fn array(max: usize) -> Array {
            Array {
                // an array of nothing could never double
                max: if max == 0 { 1 } else { max },
                place: Place::Image,
            }
        }
        match growth {
            Growth::Unlimited => Self {
                limited: false,
                resize_allowed: true,
                arrays: [array(usize::MAX); 3],
            },
            Growth::Kernel {
                memory,
                reserved,
                physmem,
            } => Self {
                limited: true,
                resize_allowed: false,
                arrays: [array(memory), array(reserved), array(physmem)],
            },
        }
    }

    pub(super) const fn are_limited(&self) -> bool {
        self.limited
    }

    fn max(&self, which: Which) -> usize {
        self.arrays[which as usize].max
    }
}

impl Memblock {
    /// Lets the arrays grow from now on.
    #[doc(alias = "memblock_allow_resize")]
    pub fn allow_resize(&mut self) {
        self.arrays.resize_allowed = true;
    }

    /// How many regions the array of `which` holds at present; `None` where it has no end.
    #[doc(alias = "max")]
    pub fn capacity(&self, which: Which) -> Option<usize> {
        self.arrays.limited.then(|| self.arrays.max(which))
    }

    /// Where the array of `which` lies, if this memblock gave the memory for it.
    pub fn array_place(&self, which: Which) -> Option<PhysRange> {
        match self.arrays.arrays[which as usize].place {
            Place::Memblock(range) => Some(range),
            Place::Image | Place::Slab => None,
        }
    }

    fn count(&self, which: Which) -> usize {
        self.list(which).map_or(0, |list| list.len())
    }

    /// Makes room for the parts of `range` that `which` does not cover yet.
    pub(super) fn prepare_insert(
        &mut self,
        which: Which,
        range: PhysRange,
    ) -> Result<(), MemblockError> {
        let pieces = match self.list(which) {
            Some(list) if !list.is_empty() => list.gaps_in(range).count(),
            // the first region takes the slot that every array has
            _ => return Ok(()),
        };
        self.make_room(which, range, pieces)
    }

    /// Makes room for the two regions that cutting at the bounds of `range` may bring.
    ///
    /// Linux asks for both even where nothing will be cut.
    pub(super) fn prepare_isolate(
        &mut self,
        which: Which,
        range: PhysRange,
    ) -> Result<(), MemblockError> {
        if !self.arrays.limited || range.is_empty() {
            return Ok(());
        }
        self.make_room(which, range, 2)
    }

    fn make_room(
        &mut self,
        which: Which,
        range: PhysRange,
        pieces: usize,
    ) -> Result<(), MemblockError> {
        if self.count(which) + pieces <= self.arrays.max(which) {
            return Ok(());
        }
        let before = self.clone();
        while self.count(which) + pieces > self.arrays.max(which) {
            if let Err(error) = self.double(which, range) {
                *self = before;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Doubles an array that has to take `range`. `Linux: memblock_double_array`.
    ///
    /// The old place is freed before the new one is reserved, as in Linux, where that freeing can
    /// make the other array grow onto the new place.
    fn double(&mut self, which: Which, range: PhysRange) -> Result<(), MemblockError> {
        let capacity = self.arrays.max(which);
        if !self.arrays.resize_allowed {
            return Err(MemblockError::ArrayFull {
                which,
                capacity,
                kernel_panics: self.behaviour.full_array_panics,
            });
        }
        let no_room = MemblockError::NoRoomForArray {
            which,
            capacity,
            wanted: capacity.saturating_mul(2),
        };
        let wanted = capacity.checked_mul(2).ok_or(no_room)?;
        let old = self.arrays.arrays[which as usize].place;
        let place = if self.settings.slab_available {
            Place::Slab
        } else {
            let size = self.array_bytes(wanted).ok_or(no_room)?;
            Place::Memblock(self.find_array_place(which, range, size).ok_or(no_room)?)
        };
        self.arrays.arrays[which as usize] = Array { max: wanted, place };
        if let Place::Memblock(range) = old {
            self.free(range)?;
        }
        if let Place::Memblock(range) = place {
            tracing::trace!(op = "memblock_double_array", %which, wanted, ?range);
            let node = self.behaviour.plain_reservation_node;
            let flags = self.behaviour.allocation_flags;
            self.insert(Which::Reserved, Region::new(range, node, flags))?;
        }
        Ok(())
    }

    /// Bytes of an array of `regions`, in whole pages.
    fn array_bytes(&self, regions: usize) -> Option<u64> {
        u64::try_from(regions)
            .ok()?
            .checked_mul(REGION_BYTES)?
            .checked_next_multiple_of(self.page_size())
    }

    /// Free memory for an array of `size` bytes that will not be under `range`.
    fn find_array_place(&self, which: Which, range: PhysRange, size: u64) -> Option<PhysRange> {
        let limit = self.settings.current_limit;
        let find = |from: PhysAddr, to: PhysAddr| {
            self.find_in_range(PhysRange::new(from, to), size, self.page_size())
        };
        match which {
            Which::Reserved => {
                find(range.end(), limit).or_else(|| find(PhysAddr::ZERO, range.start().min(limit)))
            }
            Which::Memory | Which::Physmem => find(PhysAddr::ZERO, limit),
        }
    }

    /// As `memblock_find_in_range`: mirrored memory first, where there is some.
    pub fn find_in_range(&self, range: PhysRange, size: u64, align: u64) -> Option<PhysRange> {
        let flags = self.mirror_or_none();
        self.find_in_range_node(range, size, align, None, flags)
            .or_else(|| {
                let fewer = flags.difference(MemblockFlags::MIRROR);
                if fewer == flags {
                    return None;
                }
                self.find_in_range_node(range, size, align, None, fewer)
            })
    }
}
