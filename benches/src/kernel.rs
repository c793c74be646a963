//! Linux's ways of initialising struct pages, in C.
//!
//! Each is a function of its own in `c/`, compiled by the C compiler with a kernel's options (no
//! vector registers), so that nobody has to trust a Rust version of the baseline. They write the
//! normal page of `__init_single_page`: flags, links to itself, counts, zero elsewhere.
//!
//! | name | what it does |
//! |---|---|
//! | `c-zero` | word zeroing merged with the field stores (since 5.2) |
//! | `c-memset-words` | a call that clears by a word loop, then the fields |
//! | `c-memset-stosq` | a call that clears by `rep stosq`, then the fields |
//! | `c-memset-stosb` | a call that clears by `rep stosb`, then the fields |
//! | `c-template` | a template refreshed in memory, copied through general registers |
//! | `c-movnti` | the same copy by non-temporal word stores, one fence a run |

use memmap_core::{MAX_WORDS, PageImage, StructPageSize};

/// What a run of normal pages has in common, as the C side takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct LinkedRun {
    /// The flags word.
    pub flags: u64,
    /// Both `lru` words of the first page.
    pub link: u64,
    /// What they grow by from page to page.
    pub step: u64,
    /// `_mapcount` or a page type, as stored.
    pub mapcount: u32,
    /// `_refcount`.
    pub refcount: u32,
}

impl LinkedRun {
    /// The run whose first struct page lies at `first_page` of the modelled address space.
    pub const fn new(
        size: StructPageSize,
        flags: u64,
        first_page: u64,
        mapcount: u32,
        refcount: u32,
    ) -> Self {
        Self {
            flags,
            link: first_page.wrapping_add(8),
            step: size.bytes() as u64,
            mapcount,
            refcount,
        }
    }

    /// The same run for page writers in Rust.
    pub const fn image(&self, size: StructPageSize) -> PageImage {
        let first_page = self.link.wrapping_sub(8);
        PageImage::linked(size, self.flags, first_page, self.mapcount, self.refcount)
            .with_word(1, self.link, self.step)
            .with_word(2, self.link, self.step)
    }
}

/// The functions of one way, by words of a struct page, less seven. The last parameter is room for
/// a template page.
type BySize = [unsafe extern "C" fn(*mut u64, usize, *const LinkedRun, *mut u64); 6];

/// One of Linux's ways.
#[derive(Clone, Copy)]
pub struct KernelWriter {
    name: &'static str,
    sized: BySize,
}

impl std::fmt::Debug for KernelWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KernelWriter({})", self.name)
    }
}

impl KernelWriter {
    /// The name in the list above.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Writes as many struct pages of `size` as `pages` has room for, `run` saying what is in them.
    ///
    /// # Panics
    /// Where `pages` is not a whole number of struct pages.
    pub fn write(&self, size: StructPageSize, run: &LinkedRun, pages: &mut [u64]) {
        let words = size.words();
        assert!(pages.len().is_multiple_of(words), "not whole struct pages");
        let (start, count) = (pages.as_mut_ptr().cast::<u64>(), pages.len() / words);
        let mut template = [0_u64; MAX_WORDS];
        let function = self.sized[words - 7];
        // SAFETY: 1. `start` is the start of `count` pages of this size, ours alone and aligned to
        //         words. 2. `LinkedRun` is laid out as the C side has it. 3. the function is the
        //         one compiled for this size. 4. the template has room for the largest page.
        unsafe { function(start, count, run, template.as_mut_ptr()) }
    }
}

/// Declares the six functions of one way, and the way.
macro_rules! way {
    ($label:literal: $($sized:ident)*) => {{
        unsafe extern "C" {
            $(fn $sized(
                pages: *mut u64,
                count: usize,
                run: *const LinkedRun,
                template: *mut u64,
            );)*
        }
        KernelWriter {
            name: $label,
            sized: [$($sized),*],
        }
    }};
}

static ALL: &[KernelWriter] = &[
    way!("c-zero":
        kernel_zero_7 kernel_zero_8 kernel_zero_9
        kernel_zero_10 kernel_zero_11 kernel_zero_12),
    way!("c-memset-words":
        kernel_memset_words_7 kernel_memset_words_8 kernel_memset_words_9
        kernel_memset_words_10 kernel_memset_words_11 kernel_memset_words_12),
    #[cfg(target_arch = "x86_64")]
    way!("c-memset-stosq":
        kernel_memset_stosq_7 kernel_memset_stosq_8 kernel_memset_stosq_9
        kernel_memset_stosq_10 kernel_memset_stosq_11 kernel_memset_stosq_12),
    #[cfg(target_arch = "x86_64")]
    way!("c-memset-stosb":
        kernel_memset_stosb_7 kernel_memset_stosb_8 kernel_memset_stosb_9
        kernel_memset_stosb_10 kernel_memset_stosb_11 kernel_memset_stosb_12),
    way!("c-template":
        kernel_template_7 kernel_template_8 kernel_template_9
        kernel_template_10 kernel_template_11 kernel_template_12),
    #[cfg(target_arch = "x86_64")]
    way!("c-movnti":
        kernel_movnti_7 kernel_movnti_8 kernel_movnti_9
        kernel_movnti_10 kernel_movnti_11 kernel_movnti_12),
];

/// Every way that this architecture has, in the order of the list above.
pub fn all() -> &'static [KernelWriter] {
    ALL
}

/// The way called `name`, or `None`.
pub fn by_name(name: &str) -> Option<&'static KernelWriter> {
    ALL.iter().find(|way| way.name() == name)
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use memmap_core::writers::{self, PageWriter};

    use super::*;

    const CANARY: u64 = 0x5a5a_a5a5_1234_4321;

    fn runs(size: StructPageSize) -> [LinkedRun; 3] {
        [
            LinkedRun::new(size, 0x17_ffff_c000_2000, 0xffff_ea00_0000_0000, !0, 1),
            LinkedRun::new(size, 1, u64::MAX - 1000, 0xf000_0000, 0),
            LinkedRun {
                flags: 2,
                link: 3,
                step: 0,
                mapcount: 4,
                refcount: 5,
            },
        ]
    }

    #[test]
    fn every_way_writes_the_bytes_that_page_writers_write_and_no_others() {
        for way in all() {
            for size in StructPageSize::ALL {
                for run in runs(size) {
                    for count in 0..9 {
                        let length = count * size.words();
                        let mut ours = vec![CANARY; length + 32];
                        let mut theirs = ours.clone();
                        writers::Zero.write(&run.image(size), &mut ours[16..16 + length]);
                        way.write(size, &run, &mut theirs[16..16 + length]);
                        let word = |word: &u64| *word;
                        let ours: Vec<u64> = ours.iter().map(word).collect();
                        let theirs: Vec<u64> = theirs.iter().map(word).collect();
                        assert_eq!(ours, theirs, "{way:?} {size:?} {count} pages");
                    }
                }
            }
        }
    }

    #[test]
    fn every_way_is_found_by_its_name() {
        assert!(all().len() >= 3);
        for way in all() {
            assert_eq!(
                by_name(way.name()).map(KernelWriter::name),
                Some(way.name())
            );
        }
        assert!(by_name("zero").is_none());
    }
}
