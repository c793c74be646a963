//! One struct page, taken out of a map.

use core::fmt;

use crate::flags::FlagsLayout;
use crate::image::{MAX_WORDS, StructPageSize};
use crate::profile::{ByteOrder, Profile};

/// A copy of a struct page, as native 64-bit words.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "struct page")]
pub struct StructPage {
    size: StructPageSize,
    byte_order: ByteOrder,
    words: [u64; MAX_WORDS],
}

impl StructPage {
    /// The struct page of these words under `profile`'s byte order; words that it has no room for
    /// are ignored.
    pub fn new(size: StructPageSize, byte_order: ByteOrder, words: &[u64]) -> Self {
        let mut own = [0; MAX_WORDS];
        let len = words.len().min(size.words());
        own[..len].copy_from_slice(&words[..len]);
        Self {
            size,
            byte_order,
            words: own,
        }
    }

    /// Its words, as numbers of the modelled machine.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.size.words()]
    }

    /// The flags word.
    pub const fn flags(&self) -> u64 {
        self.words[0]
    }

    /// The first link: next on its list, its compound page's head, or its device's pagemap.
    #[doc(alias = "compound_head")]
    pub const fn next(&self) -> u64 {
        self.words[1]
    }

    /// The second link.
    pub const fn prev(&self) -> u64 {
        self.words[2]
    }

    /// What it is mapped from.
    pub const fn mapping(&self) -> u64 {
        self.words[3]
    }

    /// Its place in that.
    pub const fn index(&self) -> u64 {
        self.words[4]
    }

    /// Private data; the order of a free block's head.
    pub const fn private(&self) -> u64 {
        self.words[5]
    }

    /// Map count, or page type as it is stored.
    #[doc(alias = "_mapcount")]
    #[doc(alias = "page_type")]
    pub const fn mapcount(&self) -> u32 {
        self.halves().0
    }

    /// Reference count.
    #[doc(alias = "_refcount")]
    pub const fn refcount(&self) -> i32 {
        self.halves().1 as i32
    }

    const fn halves(&self) -> (u32, u32) {
        let (low, high) = (self.words[6] as u32, (self.words[6] >> 32) as u32);
        match self.byte_order {
            ByteOrder::Little => (low, high),
            ByteOrder::Big => (high, low),
        }
    }

    /// Whether every word is poison: nobody has written it.
    #[doc(alias = "PagePoisoned")]
    pub fn is_poisoned(&self) -> bool {
        self.words().iter().all(|word| *word == crate::POISON)
    }

    /// It in words, for people: `self_address` is its own address, by which links to itself are
    /// recognised.
    pub fn display<'a>(
        &'a self,
        profile: &'a Profile,
        self_address: u64,
    ) -> impl fmt::Display + 'a {
        Described {
            page: self,
            layout: profile.flags_layout(),
            list: self_address.wrapping_add(8),
        }
    }
}

/// The word with `mapcount` and `refcount` in a byte order.
pub(crate) const fn counts_word(byte_order: ByteOrder, mapcount: u32, refcount: u32) -> u64 {
    match byte_order {
        ByteOrder::Little => mapcount as u64 | (refcount as u64) << 32,
        ByteOrder::Big => refcount as u64 | (mapcount as u64) << 32,
    }
}

struct Described<'a> {
    page: &'a StructPage,
    layout: &'a FlagsLayout,
    list: u64,
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = self.page;
        if page.is_poisoned() {
            return f.write_str("poison (never written)");
        }
        write!(f, "{}", self.layout.decode(page.flags()))?;
        write!(f, " refcount={}", page.refcount())?;
        match page.mapcount() {
            u32::MAX => write!(f, " mapcount=-1")?,
            other => write!(f, " type={other:#x}")?,
        }
        if page.next() == self.list && page.prev() == self.list {
            write!(f, " lru=self")?;
        } else {
            write!(f, " lru={:#x},{:#x}", page.next(), page.prev())?;
        }
        for (name, word) in [
            ("mapping", page.mapping()),
            ("index", page.index()),
            ("private", page.private()),
        ] {
            if word != 0 {
                write!(f, " {name}={word:#x}")?;
            }
        }
        for (i, word) in page.words().iter().enumerate().skip(7) {
            if *word != 0 {
                write!(f, " word{i}={word:#x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for StructPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StructPage[")?;
        for (i, word) in self.words().iter().enumerate() {
            let blank = if i == 0 { "" } else { " " };
            write!(f, "{blank}{word:x}")?;
        }
        f.write_str("]")
    }
}
