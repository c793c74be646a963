//! Cutting memory down: `mem=`, crash kernels, and whole pages.

use core::ops::Range;

use super::{Memblock, Which};
use crate::{MemblockError, MemblockFlags, PhysAddr, PhysRange};

impl Memblock {
    /// Shrinks every region of memory to whole multiples of `align` bytes (a power of two; any
    /// other value does nothing); what becomes empty is removed.
    ///
    /// # Differences from Linux
    /// None. The counter of [`phys_mem_size`](Self::phys_mem_size) goes down by whole removals
    /// alone and may be too high afterwards.
    #[doc(alias = "memblock_trim_memory")]
    pub fn trim_memory(&mut self, align: u64) {
        tracing::trace!(op = "memblock_trim_memory", align);
        if align.is_power_of_two() {
            self.memory.trim(align);
        }
    }

    /// Where memory of `limit` bytes ends, counted from the lowest region; `None` where there is
    /// less than that.
    #[doc(alias = "__find_max_addr")]
    pub fn max_address(&self, limit: u64) -> Option<PhysAddr> {
        let mut left = limit;
        for region in self.memory() {
            if left <= region.range().len() {
                return Some(region.start().saturating_add(left));
            }
            left -= region.range().len();
        }
        None
    }

    /// Keeps the lowest `limit` bytes of memory, and no reservation above them. A limit of zero,
    /// or one that memory does not reach, changes nothing.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    #[doc(alias = "memblock_enforce_memory_limit")]
    pub fn enforce_memory_limit(&mut self, limit: u64) -> Result<(), MemblockError> {
        tracing::trace!(op = "memblock_enforce_memory_limit", limit);
        let Some(max) = self.limit_address(limit) else {
            return Ok(());
        };
        let above = PhysRange::new(max, PhysAddr::MAX);
        self.take_out(Which::Memory, above)?;
        self.take_out(Which::Reserved, above)
    }

    /// As [`enforce_memory_limit`](Self::enforce_memory_limit), but memory outside the direct
    /// mapping stays.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    #[doc(alias = "memblock_mem_limit_remove_map")]
    pub fn mem_limit_remove_map(&mut self, limit: u64) -> Result<(), MemblockError> {
        match self.limit_address(limit) {
            Some(max) => self.cap_memory_range(PhysRange::new(PhysAddr::ZERO, max)),
            None => Ok(()),
        }
    }

    fn limit_address(&self, limit: u64) -> Option<PhysAddr> {
        (limit != 0).then(|| self.max_address(limit)).flatten()
    }

    /// Keeps the memory in `window` and that outside the direct mapping, and the reservations in
    /// `window`. An empty window, or one given before there is memory, changes nothing.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    #[doc(alias = "memblock_cap_memory_range")]
    pub fn cap_memory_range(&mut self, window: PhysRange) -> Result<(), MemblockError> {
        tracing::trace!(op = "memblock_cap_memory_range", ?window);
        if window.is_empty() {
            return Ok(());
        }
        if self.memory.is_empty() {
            tracing::warn!("memory is capped before there is any");
            return Ok(());
        }
        self.prepare_isolate(Which::Memory, window)?;
        let outside = [
            PhysRange::new(PhysAddr::ZERO, window.start()),
            PhysRange::new(window.end(), PhysAddr::MAX),
        ];
        for side in outside {
            let mapped: ::alloc::vec::Vec<_> = self
                .memory
                .overlapping(side)
                .filter(|region| !region.flags().contains(MemblockFlags::NOMAP))
                .filter_map(|region| region.range().intersection(side))
                .collect();
            for range in mapped {
                self.memory.remove(range);
            }
        }
        for side in outside {
            self.take_out(Which::Reserved, side)?;
        }
        Ok(())
    }

    /// Cuts the regions of `which` that cross a bound of `range`, and gives the numbers of those
    /// that lie inside; `0..0` where there are none.
    ///
    /// As in Linux the pieces stay apart until a later operation there merges them.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    #[doc(alias = "memblock_isolate_range")]
    pub fn isolate(
        &mut self,
        range: PhysRange,
        which: Which,
    ) -> Result<Range<usize>, MemblockError> {
        self.prepare_isolate(which, range)?;
        Ok(self.list_mut(which, range)?.isolate(range))
    }
}
