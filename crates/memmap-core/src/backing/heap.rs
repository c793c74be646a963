//! One allocation a section.
//!
//! For kernels without an operating system below them, for memory checkers, and for spans that no
//! address range can hold.

use alloc::alloc::{alloc_zeroed, dealloc};
use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;

use super::MapError;

/// Zeroed memory for each present section, by rank.
#[derive(Debug)]
pub(super) struct Heap {
    sections: Vec<NonNull<u64>>,
    /// Addresses and ranks, by address.
    by_address: Vec<(usize, usize)>,
    layout: Layout,
}

impl Heap {
    pub(super) fn new(sections: usize, words: usize) -> Result<Self, MapError> {
        let bytes = words.saturating_mul(8);
        let refused = |taken: usize| MapError::Refused {
            section: bytes as u64,
            taken: taken.saturating_mul(bytes) as u64,
            needed: sections.saturating_mul(bytes) as u64,
        };
        let layout = Layout::from_size_align(bytes, 64).map_err(|_| refused(0))?;
        if bytes == 0 {
            return Err(refused(0));
        }
        // Dropping it gives back what was taken before a failure.
        let mut heap = Self {
            sections: Vec::new(),
            by_address: Vec::new(),
            layout,
        };
        heap.sections
            .try_reserve_exact(sections)
            .map_err(|_| refused(0))?;
        heap.by_address
            .try_reserve_exact(sections)
            .map_err(|_| refused(0))?;
        for rank in 0..sections {
            // SAFETY: the layout's size is not zero.
            let memory = unsafe { alloc_zeroed(layout) };
            let memory = NonNull::new(memory.cast::<u64>()).ok_or_else(|| refused(rank))?;
            heap.sections.push(memory);
            heap.by_address.push((memory.as_ptr() as usize, rank));
        }
        heap.by_address.sort_unstable();
        Ok(heap)
    }

    pub(super) fn section(&self, rank: usize) -> NonNull<u64> {
        self.sections[rank]
    }

    /// The rank of the section whose memory holds `address`, and the offset in bytes.
    pub(super) fn find(&self, address: usize) -> Option<(usize, usize)> {
        let after = self.by_address.partition_point(|(at, _)| *at <= address);
        let (at, rank) = self.by_address[..after].last()?;
        let offset = address - at;
        (offset < self.layout.size()).then_some((*rank, offset))
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        for memory in self.sections.drain(..) {
            // SAFETY: it was allocated with this layout, and is given back once.
            unsafe { dealloc(memory.as_ptr().cast(), self.layout) };
        }
    }
}
