//! What a run of struct pages holds: an arithmetic progression per word.
//!
//! Struct pages of one kind that follow each other in the memory map differ only in words that
//! grow by a constant from page to page: the list links of a normal page point into the page
//! itself, a `virtual` field grows by the page size. So a run of any length is said by two small
//! arrays, and page `k` of the run is computed without touching page `k - 1`.
//!
//! A word here is what a 64-bit load on the modelled machine would read; `_mapcount` is the lower
//! half of word 6 and `_refcount` the upper half, as on every little-endian machine.

use core::fmt;

/// Words in the largest struct page.
pub const MAX_WORDS: usize = 12;

/// `sizeof(struct page)`: 56 to 96 bytes in steps of 8.
///
/// Writers are monomorphised over this value, so it is closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StructPageSize {
    /// 56 bytes: neither `memcg_data` nor alignment padding.
    B56,
    /// 64 bytes: what amd64 and arm64 have in practice.
    B64,
    /// 72 bytes.
    B72,
    /// 80 bytes.
    B80,
    /// 88 bytes: as with KMSAN.
    B88,
    /// 96 bytes: as with KMSAN and a `virtual` field.
    B96,
}

impl StructPageSize {
    /// Every size, ascending.
    pub const ALL: [Self; 6] = [
        Self::B56,
        Self::B64,
        Self::B72,
        Self::B80,
        Self::B88,
        Self::B96,
    ];

    /// The size of `bytes` bytes, or `None` where Linux has no such struct page.
    pub const fn from_bytes(bytes: usize) -> Option<Self> {
        match bytes {
            56 => Some(Self::B56),
            64 => Some(Self::B64),
            72 => Some(Self::B72),
            80 => Some(Self::B80),
            88 => Some(Self::B88),
            96 => Some(Self::B96),
            _ => None,
        }
    }

    /// 64-bit words in one struct page: 7 to 12.
    pub const fn words(self) -> usize {
        match self {
            Self::B56 => 7,
            Self::B64 => 8,
            Self::B72 => 9,
            Self::B80 => 10,
            Self::B88 => 11,
            Self::B96 => 12,
        }
    }

    /// Bytes in one struct page.
    pub const fn bytes(self) -> usize {
        self.words() * 8
    }
}

impl fmt::Debug for StructPageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.bytes())
    }
}

/// The content of a run of struct pages: first value and step of every word.
///
/// Word `i` of the `k`-th page of the run is `words[i] + k * strides[i]`, wrapping. Words at and
/// above [`StructPageSize::words`] are zero, so that equal content compares equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageImage {
    size: StructPageSize,
    words: [u64; MAX_WORDS],
    strides: [u64; MAX_WORDS],
}

impl PageImage {
    /// A run whose first page is `words` and whose words grow by `strides` from page to page.
    ///
    /// What lies beyond `size` in the two arrays is ignored.
    pub const fn new(
        size: StructPageSize,
        mut words: [u64; MAX_WORDS],
        mut strides: [u64; MAX_WORDS],
    ) -> Self {
        let mut i = size.words();
        while i < MAX_WORDS {
            words[i] = 0;
            strides[i] = 0;
            i += 1;
        }
        Self {
            size,
            words,
            strides,
        }
    }

    /// A run of pages as `__init_single_page` leaves them: both `lru` words (1 and 2) hold the
    /// address of word 1 of their own page, everything else is zero but the flags and the counts.
    ///
    /// `first_page` is the address of the run's first struct page in the modelled address space;
    /// `mapcount` is `_mapcount` or a page type as stored, `refcount` is `_refcount`.
    ///
    /// Linux: mm/mm_init.c, `__init_single_page`.
    #[doc(alias = "__init_single_page")]
    pub const fn linked(
        size: StructPageSize,
        flags: u64,
        first_page: u64,
        mapcount: u32,
        refcount: u32,
    ) -> Self {
        let link = first_page.wrapping_add(8);
        let step = size.bytes() as u64;
        let counts = mapcount as u64 | (refcount as u64) << 32;
        Self::new(
            size,
            [flags, link, link, 0, 0, 0, counts, 0, 0, 0, 0, 0],
            [0, step, step, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        )
    }

    /// A run of equal pages, as the tails of one compound device page are.
    pub const fn constant(size: StructPageSize, words: [u64; MAX_WORDS]) -> Self {
        Self::new(size, words, [0; MAX_WORDS])
    }

    /// The same run with word `i` starting at `value` and growing by `stride` a page.
    ///
    /// An index beyond the struct page changes nothing.
    #[must_use]
    pub const fn with_word(mut self, i: usize, value: u64, stride: u64) -> Self {
        if i < self.size.words() {
            self.words[i] = value;
            self.strides[i] = stride;
        }
        self
    }

    /// The run that begins `pages` pages later.
    #[must_use]
    pub const fn advance(mut self, pages: u64) -> Self {
        let mut i = 0;
        while i < MAX_WORDS {
            self.words[i] = self.words[i].wrapping_add(self.strides[i].wrapping_mul(pages));
            i += 1;
        }
        self
    }

    /// The struct page's size.
    pub const fn size(&self) -> StructPageSize {
        self.size
    }

    /// The words of the first page.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.size.words()]
    }

    /// What each word grows by from page to page.
    pub fn strides(&self) -> &[u64] {
        &self.strides[..self.size.words()]
    }

    /// Word `i` of page `k` of the run: the oracle that every page writer is checked against.
    ///
    /// Words beyond the struct page are zero.
    pub const fn word(&self, k: u64, i: usize) -> u64 {
        if i < MAX_WORDS {
            self.words[i].wrapping_add(self.strides[i].wrapping_mul(k))
        } else {
            0
        }
    }

    /// Word `j` of the run taken as one array of words.
    pub(crate) const fn flat(&self, j: usize) -> u64 {
        let words = self.size.words();
        self.word((j / words) as u64, j % words)
    }

    /// First values and steps as arrays of the monomorphised size.
    pub(crate) fn arrays<const W: usize>(&self) -> ([u64; W], [u64; W]) {
        (
            core::array::from_fn(|i| self.words[i]),
            core::array::from_fn(|i| self.strides[i]),
        )
    }

    /// First values and steps of the monomorphised size, where they lie; those of a larger struct
    /// page than this one's are zero.
    pub(crate) fn arrays_ref<const W: usize>(&self) -> (&[u64], &[u64]) {
        (&self.words[..W], &self.strides[..W])
    }

    /// Adds `step` to word `i` of every page of the run. An index beyond the struct page changes
    /// nothing.
    pub fn add_to_word(&mut self, i: usize, step: u64) {
        if i < self.size.words() {
            self.words[i] = self.words[i].wrapping_add(step);
        }
    }

    /// Flags, link, link step and counts where that is all there is: the page of
    /// [`PageImage::linked`], for which writers have the kernel's own short sequence of stores.
    pub(crate) fn as_linked(&self) -> Option<Linked> {
        let [flags, link, _, _, _, _, counts, ..] = self.words;
        let step = self.strides[1];
        let mut rebuilt = Self::constant(self.size, [0; MAX_WORDS])
            .with_word(0, flags, 0)
            .with_word(1, link, step)
            .with_word(2, link, step);
        rebuilt = rebuilt.with_word(6, counts, 0);
        (rebuilt == *self).then_some(Linked {
            flags,
            link,
            step,
            counts,
        })
    }
}

impl fmt::Debug for PageImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageImage({:?}", self.size)?;
        for (word, stride) in self.words().iter().zip(self.strides()) {
            write!(f, " {word:x}")?;
            if *stride != 0 {
                write!(f, "+{stride:x}k")?;
            }
        }
        write!(f, ")")
    }
}

/// The varying parts of a run of pages as `__init_single_page` leaves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linked {
    /// Word 0.
    pub(crate) flags: u64,
    /// Words 1 and 2 of the first page.
    pub(crate) link: u64,
    /// What words 1 and 2 grow by.
    pub(crate) step: u64,
    /// Word 6.
    pub(crate) counts: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_page_points_at_its_own_list_word() {
        let image = PageImage::linked(StructPageSize::B64, 0x17, 0xffff_ea00_0000_0000, !0, 1);
        for k in 0..3 {
            let own = 0xffff_ea00_0000_0000 + k * 64 + 8;
            let page: [u64; 8] = core::array::from_fn(|i| image.word(k, i));
            assert_eq!(page, [0x17, own, own, 0, 0, 0, 0x1_ffff_ffff, 0]);
        }
    }

    #[test]
    fn advancing_a_run_is_the_same_as_looking_further_into_it() {
        let image = PageImage::linked(StructPageSize::B56, 1, u64::MAX - 100, 2, 3);
        for k in 0..5 {
            for i in 0..7 {
                assert_eq!(image.advance(k).word(2, i), image.word(k + 2, i));
            }
        }
    }

    #[test]
    fn words_beyond_the_struct_page_do_not_distinguish_two_images() {
        let full = PageImage::constant(StructPageSize::B56, [9; MAX_WORDS]);
        let mut words = [9; MAX_WORDS];
        words[7..].fill(0);
        assert_eq!(full, PageImage::constant(StructPageSize::B56, words));
        assert_eq!(full.with_word(7, 1, 1), full);
        assert_eq!(full.word(0, 7), 0);
    }

    #[test]
    fn only_pages_with_nothing_but_links_and_counts_count_as_linked() {
        let image = PageImage::linked(StructPageSize::B64, 5, 4096, !0, 1);
        assert_eq!(
            image.as_linked(),
            Some(Linked {
                flags: 5,
                link: 4104,
                step: 64,
                counts: 0x1_ffff_ffff
            })
        );
        assert_eq!(image.with_word(5, 9, 0).as_linked(), None);
        assert_eq!(image.with_word(2, 4104, 0).as_linked(), None);
        assert_eq!(image.with_word(0, 5, 1).as_linked(), None);
    }

    #[test]
    fn only_the_sizes_that_linux_has_exist() {
        for bytes in 0..200 {
            let size = StructPageSize::from_bytes(bytes);
            assert_eq!(size.is_some(), (56..=96).contains(&bytes) && bytes % 8 == 0);
            assert!(size.is_none_or(|s| s.bytes() == bytes));
        }
    }
}
