//! The writer `template`: copies of a finished page.
//!
//! The first page of the run is made up in full, held in vector registers, and stored again and
//! again; the words that depend on the pfn grow by one vector addition between two stores. The
//! stores are ordinary ones: the run is in the cache afterwards, as far as it fits.

#[cfg(target_arch = "x86_64")]
use super::vector::{self, by_block};
use super::{PageWriter, Path, by_size, portable, whole_pages};
use crate::image::PageImage;

/// Vector copies of a finished page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Template {
    path: Option<Path>,
}

impl Template {
    /// The writer on the best path of this processor.
    pub const DETECT: Self = Self { path: None };

    /// The writer on `path`, or on the best that the processor has where it lacks that one.
    pub const fn forced(path: Path) -> Self {
        Self { path: Some(path) }
    }
}

impl PageWriter for Template {
    fn name(&self) -> &'static str {
        match self.path {
            None => "template",
            Some(Path::Portable) => "template-portable",
            Some(Path::Sse2) => "template-sse2",
            Some(Path::Avx2) => "template-avx2",
        }
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        whole_pages(image, pages);
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

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(image: &PageImage, pages: &mut [u64]) {
    use vector::copy_avx2;
    by_block!(image, 4, copy_avx2(image, pages));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn sse2(image: &PageImage, pages: &mut [u64]) {
    use vector::copy_sse2;
    by_block!(image, 2, copy_sse2(image, pages));
}
