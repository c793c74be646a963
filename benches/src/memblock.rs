//! The kernel's method for regions, in C, and searches over plain arrays.
//!
//! `c/memblock.c` keeps a flat array, walks it to the place, moves what lies behind and merges.
//! Its room is set aside before the clock starts.

use memblock::{PhysAddr, PhysRange};

/// A region as in C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CRegion {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Flags.
    pub flags: u32,
    /// Node.
    pub nid: i32,
}

#[repr(C)]
struct RawArray {
    count: usize,
    total: u64,
    regions: *mut CRegion,
}

unsafe extern "C" {
    fn c_memblock_add(array: *mut RawArray, base: u64, size: u64, nid: i32, flags: u32);
}

/// A flat array of regions, changed by the C function.
#[derive(Clone, Debug)]
pub struct CArray {
    count: usize,
    total: u64,
    /// All of it is room; the first `count` are regions.
    regions: Vec<CRegion>,
}

impl CArray {
    /// An empty array with room for `capacity` regions.
    pub fn new(capacity: usize) -> Self {
        Self {
            count: 0,
            total: 0,
            // an addition is cut by every region that it overlaps, at worst by all
            regions: vec![CRegion::default(); 2 * capacity + 1],
        }
    }

    /// Puts `ranges` in, which are sorted and don't touch, without the walks of [`add`](Self::add).
    ///
    /// # Panics
    /// Where there are regions already, or not enough room.
    pub fn fill(&mut self, ranges: impl IntoIterator<Item = PhysRange>) {
        assert_eq!(self.count, 0, "only an empty array is filled");
        for range in ranges {
            self.regions[self.count] = CRegion {
                base: range.start().get(),
                size: range.len(),
                flags: 0,
                nid: -1,
            };
            self.total += range.len();
            self.count += 1;
        }
    }

    /// Adds `range`.
    ///
    /// # Panics
    /// Where the room may not suffice.
    #[inline]
    pub fn add(&mut self, range: PhysRange) {
        assert!(
            2 * self.count < self.regions.len(),
            "set more room aside for the array"
        );
        let mut raw = RawArray {
            count: self.count,
            total: self.total,
            regions: self.regions.as_mut_ptr(),
        };
        // SAFETY: `regions` points to more than twice `count` regions. The C side reads the first
        // `count` and makes at most `count + 1` more.
        unsafe { c_memblock_add(&raw mut raw, range.start().get(), range.len(), -1, 0) };
        self.count = raw.count;
        self.total = raw.total;
    }

    /// The regions.
    pub fn regions(&self) -> &[CRegion] {
        &self.regions[..self.count]
    }
}

/// Where region `index` of a benchmark lies: 4 KiB in every 16 KiB.
pub const fn place(index: u64) -> PhysRange {
    PhysRange::from_size(PhysAddr::new((index + 1) << 14), 1 << 12)
}

/// The numbers below `len` in a random but always equal order.
pub fn shuffled(len: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..len).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for at in (1..order.len()).rev() {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, (state % (at as u64 + 1)) as usize);
    }
    order
}
