//! Struct pages as the page allocator sees them: words behind atomics.
//!
//! The allocator never holds a reference to a struct page. It loads and stores single words of
//! pages in published sections, each under the lock of the page's zone; whoever else looks at the
//! same page sees one old or one new word.

use memblock::{NodeId, Pfn};

use crate::flags::FlagsLayout;
use crate::page::counts_word;
use crate::profile::{ByteOrder, KernelConfig, PageTypeWord, Profile, ZoneIndex};

use super::section::Edit;

/// Word of the flags.
pub(crate) const FLAGS: usize = 0;
/// Word of `lru.next`, also `buddy_list.next`.
pub(crate) const NEXT: usize = 1;
/// Word of `lru.prev`.
pub(crate) const PREV: usize = 2;
/// Word of `private`: the order of a free block.
pub(crate) const PRIVATE: usize = 5;
/// Word of `_mapcount` or the page type, and `_refcount`.
pub(crate) const COUNTS: usize = 6;
/// `_mapcount` of a page that nothing maps, and the page type "none".
pub(crate) const NO_TYPE: u32 = u32::MAX;

/// Lends words of the struct pages of published sections.
pub trait StructPages {
    /// Word `word` of the struct page of `pfn`; `None` where it has none, or its section is not
    /// published.
    fn load(&self, pfn: Pfn, word: usize) -> Option<u64>;

    /// Stores a word; nothing where [`StructPages::load`] would give `None`.
    fn store(&self, pfn: Pfn, word: usize, value: u64);

    /// The address of the struct page of `pfn` in the chosen address space; `None` where it has
    /// none.
    fn address(&self, pfn: Pfn) -> Option<u64>;

    /// The frame whose struct page is at `address`; `None` for any other address.
    fn at(&self, address: u64) -> Option<Pfn>;
}

impl<P: StructPages> StructPages for &P {
    fn load(&self, pfn: Pfn, word: usize) -> Option<u64> {
        (**self).load(pfn, word)
    }

    fn store(&self, pfn: Pfn, word: usize, value: u64) {
        (**self).store(pfn, word, value);
    }

    fn address(&self, pfn: Pfn) -> Option<u64> {
        (**self).address(pfn)
    }

    fn at(&self, address: u64) -> Option<Pfn> {
        (**self).at(address)
    }
}

/// What the allocator writes into struct pages, by profile.
#[derive(Clone, Debug)]
pub(crate) struct PageWords {
    pub(crate) poison: [u64; 2],
    order: ByteOrder,
    buddy_type: u32,
    reserved: u64,
    flags: FlagsLayout,
}

impl PageWords {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self {
            poison: list_poison(profile.config()),
            order: profile.byte_order,
            buddy_type: match profile.behaviours.page_type {
                PageTypeWord::ClearedBits => !0x80,
                PageTypeWord::TopByte => 0xf000_0000,
            },
            reserved: profile
                .flags_layout()
                .numbers()
                .mask(crate::flags::PageFlag::Reserved),
            flags: profile.flags_layout().clone(),
        }
    }

    /// Word 6 of a page of that type and reference count.
    pub(crate) const fn counts(&self, page_type: u32, references: u32) -> u64 {
        counts_word(self.order, page_type, references)
    }

    /// Page type and reference count of word 6.
    pub(crate) const fn split_counts(&self, word: u64) -> (u32, u32) {
        let (low, high) = (word as u32, (word >> 32) as u32);
        match self.order {
            ByteOrder::Little => (low, high),
            ByteOrder::Big => (high, low),
        }
    }

    /// Word 6 of the head of a free block.
    pub(crate) const fn free_head(&self) -> u64 {
        self.counts(self.buddy_type, 0)
    }

    /// Word 6 of a free page that heads nothing.
    pub(crate) const fn free_page(&self) -> u64 {
        self.counts(NO_TYPE, 0)
    }

    /// Whether word 6 is that of the head of a free block.
    pub(crate) const fn is_free_head(&self, counts: u64) -> bool {
        counts == self.free_head()
    }

    /// The words that `edit` changes, by number and value. `link` gives the address that a list
    /// link to a frame's struct page holds; ends of a section's list are 0 until it is joined.
    pub(crate) fn each_word(
        &self,
        edit: Edit,
        link: impl Fn(Pfn) -> u64,
        mut set: impl FnMut(usize, u64),
    ) {
        match edit {
            Edit::Head { block, links, .. } => {
                let [prev, next] = links.map(|pfn| pfn.map_or(0, &link));
                set(NEXT, next);
                set(PREV, prev);
                set(PRIVATE, u64::from(block.order));
                set(COUNTS, self.free_head());
            }
            Edit::OnceListed(_) => {
                set(NEXT, self.poison[0]);
                set(PREV, self.poison[1]);
            }
        }
    }

    pub(crate) const fn is_reserved(&self, flags: u64) -> bool {
        flags & self.reserved != 0
    }

    pub(crate) const fn without_reserved(&self, flags: u64) -> u64 {
        flags & !self.reserved
    }

    /// Node and zone that a flags word names.
    pub(crate) const fn zone_of(&self, flags: u64) -> (NodeId, ZoneIndex) {
        (
            NodeId::new(self.flags.node().get(flags) as u16),
            ZoneIndex(self.flags.zone().get(flags) as u8),
        )
    }
}

/// What `list_del` leaves in the two links of what it takes off a list.
#[doc(alias = "LIST_POISON1")]
#[doc(alias = "LIST_POISON2")]
pub(crate) const fn list_poison(config: &KernelConfig) -> [u64; 2] {
    [
        config.poison_offset.wrapping_add(0x100),
        config.poison_offset.wrapping_add(0x122),
    ]
}
