//! Linux's ways of initialising the struct pages of devices, in C.
//!
//! As [`kernel`](crate::kernel), for pages that hold their device's description in place of links to
//! themselves, and for the tails of compounds. Each way is a [`PageWriter`], so that it can write
//! whatever runs a device consists of; pages with more in them than that, the first tails of
//! compounds, are written by the page writer `zero`.
//!
//! | name | what it does |
//! |---|---|
//! | `c-zero` | word zeroing merged with the field stores (since 5.2) |
//! | `c-memset-words` | a call that clears by a word loop, then the fields |
//! | `c-memset-stosq` | a call that clears by `rep stosq`, then the fields |
//! | `c-memset-stosb` | a call that clears by `rep stosb`, then the fields |

use std::fmt;

use memmap_core::PageImage;
use memmap_core::writers::{PageWriter, Zero};

/// What pages that are all alike hold, as the C side takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct DeviceRun {
    flags: u64,
    pagemap: u64,
    mapping: u64,
    mapcount: u32,
    refcount: u32,
}

impl DeviceRun {
    /// The run that `image` is, where it is one.
    fn of(image: &PageImage) -> Option<Self> {
        let [flags, pagemap, 0, mapping, 0, 0, counts, rest @ ..] = image.words() else {
            return None;
        };
        let alike = image.strides().iter().chain(rest).all(|&word| word == 0);
        alike.then_some(Self {
            flags: *flags,
            pagemap: *pagemap,
            mapping: *mapping,
            mapcount: *counts as u32,
            refcount: (*counts >> 32) as u32,
        })
    }
}

type Entry = unsafe extern "C" fn(*mut u64, usize, *const DeviceRun);

/// One of Linux's ways.
#[derive(Clone, Copy)]
pub struct DeviceWriter {
    name: &'static str,
    sized: [Entry; 6],
}

impl fmt::Debug for DeviceWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceWriter({})", self.name)
    }
}

impl PageWriter for DeviceWriter {
    fn name(&self) -> &'static str {
        self.name
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        let words = image.size().words();
        assert!(pages.len().is_multiple_of(words), "not whole struct pages");
        let Some(run) = DeviceRun::of(image) else {
            return Zero.write(image, pages);
        };
        let (start, count) = (pages.as_mut_ptr().cast::<u64>(), pages.len() / words);
        // SAFETY: 1. `start` is the start of `count` pages of this size, ours alone and aligned to
        //         words. 2. `DeviceRun` is laid out as the C side has it. 3. the function is the
        //         one compiled for this size.
        unsafe { self.sized[words - 7](start, count, &raw const run) }
    }
}

/// Declares the six functions of one way, and the way.
macro_rules! way {
    ($label:literal: $($sized:ident)*) => {{
        unsafe extern "C" {
            $(fn $sized(pages: *mut u64, count: usize, run: *const DeviceRun);)*
        }
        DeviceWriter { name: $label, sized: [$($sized),*] }
    }};
}

static ALL: &[DeviceWriter] = &[
    way!("c-zero":
        kernel_device_zero_7 kernel_device_zero_8 kernel_device_zero_9
        kernel_device_zero_10 kernel_device_zero_11 kernel_device_zero_12),
    way!("c-memset-words":
        kernel_device_memset_words_7 kernel_device_memset_words_8 kernel_device_memset_words_9
        kernel_device_memset_words_10 kernel_device_memset_words_11 kernel_device_memset_words_12),
    #[cfg(target_arch = "x86_64")]
    way!("c-memset-stosq":
        kernel_device_memset_stosq_7 kernel_device_memset_stosq_8 kernel_device_memset_stosq_9
        kernel_device_memset_stosq_10 kernel_device_memset_stosq_11 kernel_device_memset_stosq_12),
    #[cfg(target_arch = "x86_64")]
    way!("c-memset-stosb":
        kernel_device_memset_stosb_7 kernel_device_memset_stosb_8 kernel_device_memset_stosb_9
        kernel_device_memset_stosb_10 kernel_device_memset_stosb_11 kernel_device_memset_stosb_12),
];

/// Every way that this architecture has, in the order of the list above.
pub fn all() -> &'static [DeviceWriter] {
    ALL
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;
    use memmap_core::StructPageSize;

    #[test]
    fn every_way_writes_the_bytes_that_page_writers_write_and_no_others() {
        for way in all() {
            for size in StructPageSize::ALL {
                let page = [
                    7,
                    0xffff_8881_0000_0000,
                    0,
                    9,
                    0,
                    0,
                    0x1_ffff_ffff,
                    0,
                    0,
                    0,
                    0,
                    0,
                ];
                let alike = PageImage::constant(size, page);
                // a first tail: more in it than the C side knows
                for image in [
                    alike,
                    alike.with_word(2, u64::MAX, 0),
                    alike.with_word(1, 0, 64),
                ] {
                    let length = 5 * size.words();
                    let mut ours = vec![0x5a_u64; length + 32];
                    let mut theirs = ours.clone();
                    Zero.write(&image, &mut ours[16..16 + length]);
                    way.write(&image, &mut theirs[16..16 + length]);
                    let value = |word: &u64| *word;
                    let same = ours.iter().map(value).eq(theirs.iter().map(value));
                    assert!(same, "{way:?} {size:?}");
                }
            }
        }
    }
}
