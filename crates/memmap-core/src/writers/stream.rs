//! The writer `stream`: a finished page copied past the caches.
//!
//! What `template` does, with non-temporal stores: a line that is written in full goes to memory
//! without being read first and without displacing anything from the caches. That is the fastest
//! way to write a memory map that is larger than the caches, and the wrong one for pages that are
//! read back soon.
//!
//! Non-temporal stores are weakly ordered, so every run, or series of runs, ends with one store
//! fence; after it the pages may be published like any other. Off x86-64 the writer is the plain
//! progression.

#[cfg(target_arch = "x86_64")]
use super::vector::{self, by_block};
use super::{PageWriter, Path, Series, by_size, each_run, portable, whole_pages};
use crate::image::PageImage;

/// Copies of a finished page by non-temporal stores, one fence a run or series.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream {
    path: Option<Path>,
}

impl Stream {
    /// The writer on the best path of this processor.
    pub const DETECT: Self = Self { path: None };

    /// The writer on `path`, or on the best that the processor has where it lacks that one.
    pub const fn forced(path: Path) -> Self {
        Self { path: Some(path) }
    }
}

impl PageWriter for Stream {
    fn name(&self) -> &'static str {
        match self.path {
            None => "stream",
            Some(Path::Portable) => "stream-portable",
            Some(Path::Sse2) => "stream-sse2",
            Some(Path::Avx2) => "stream-avx2",
        }
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        whole_pages(image, pages);
        let _fence = Fence;
        self.store(image, pages);
    }

    fn write_series(&self, series: &mut dyn Series, pages: &mut [u64]) {
        let _fence = Fence;
        each_run(series, pages, |image, run| self.store(image, run));
    }
}

impl Stream {
    /// Stores a run; the stores are not ordered before a [`Fence`] is dropped.
    fn store(&self, image: &PageImage, pages: &mut [u64]) {
        match self.path.map_or_else(Path::detect, Path::or_best) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the path is reached only where `Path::detect` found the instructions.
            Path::Avx2 => unsafe { avx2(image, pages) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 processor has them.
            Path::Sse2 => unsafe { sse2(image, pages) },
            _ => by_size!(image, portable(image, pages)),
        }
    }
}

/// Orders the stores before it with everything after it when it is dropped, by return or panic:
/// non-temporal stores are not ordered with the store that publishes what they wrote.
struct Fence;

impl Drop for Fence {
    fn drop(&mut self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: every x86-64 processor has the instruction.
        unsafe {
            core::arch::x86_64::_mm_sfence();
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(image: &PageImage, pages: &mut [u64]) {
    use vector::stream_avx2;
    by_block!(image, 4, stream_avx2(image, pages));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn sse2(image: &PageImage, pages: &mut [u64]) {
    use vector::stream_sse2;
    by_block!(image, 2, stream_sse2(image, pages));
}
