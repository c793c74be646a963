//! The streaming limit as a contestant.
//!
//! The fastest streaming fill, dressed as a page writer, so that it runs through the same workers,
//! shards and barrier as the writers that are held against it. What it writes is no struct page:
//! a map must be written again before anybody reads it.

use memmap_core::PageImage;
use memmap_core::limit::Fill;
use memmap_core::writers::PageWriter;

/// A streaming fill that stands in for a page writer.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitWriter(pub(super) &'static Fill);

impl PageWriter for LimitWriter {
    fn name(&self) -> &'static str {
        "limit"
    }

    fn write(&self, _image: &PageImage, pages: &mut [u64]) {
        self.0.run(pages);
    }
}
