//! What the struct pages of a device hold.
//!
//! Single pages of a device are all alike: flags, the address of the device's description where a
//! normal page has its list, counts. Of a compound the head is such a page, the first tail keeps
//! what is known of the whole, the second may head a list, and all others are alike. What the first
//! tails hold, and how a tail names its head, depends on the release.
//!
//! Linux: mm/mm_init.c, `__init_zone_device_page` and `memmap_init_compound`.

use memblock::{NodeId, Pfn};
use memmap_core::{
    ByteOrder, FirstTails, KernelConfig, MAX_WORDS, PageFlag, PageImage, Profile, StructPageSize,
    TailTwo, ZoneIndex,
};

/// Offset of the word that is 0 in pages of a device and a link in others.
#[doc(alias = "zone_device_data")]
const ZONE_DEVICE_DATA: usize = 2;
const MAPPING: usize = 3;
const INDEX: usize = 4;
const MEMCG: usize = 7;
/// What a tail holds as its mapping, above the offset of poison values.
const TAIL_MAPPING: u64 = 0x400;
/// Destructor 1: that of compounds.
const COMPOUND_DTOR: u64 = 1;

/// How struct pages of one device differ from others: everything that does not depend on the pfn.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) size: StructPageSize,
    flags: u64,
    head_flag: u64,
    pagemap: u64,
    refcount: u32,
    order: u32,
    little: bool,
    memmap_base: u64,
    /// Word that holds the frame's address, that of frame 0, and the page size.
    virtual_word: Option<(usize, u64, u64)>,
    /// Word that holds the last CPU, and its value.
    cpupid_word: Option<(usize, u64)>,
    tail_mapping: u64,
    first_tails: FirstTails,
    tail_two: TailTwo,
    /// The word by which every tail of the order names its head, where it is the same for all.
    mask: Option<u64>,
    has_memcg: bool,
}

impl Content {
    pub(crate) fn new(
        profile: &Profile,
        size: StructPageSize,
        node: NodeId,
        zone: ZoneIndex,
        pagemap: u64,
        order: u32,
        refcount: u32,
    ) -> Self {
        let layout = profile.flags_layout();
        let numbers = layout.numbers();
        let behaviours = &profile.behaviours;
        let mut next = MEMCG + usize::from(profile.memcg);
        let virtual_word = profile.page_virtual.map(|first| {
            next += 1;
            (next - 1, first, profile.page_size())
        });
        let in_flags = layout.last_cpupid().width > 0;
        let cpupid_word = (profile.numa_balancing && !in_flags).then(|| {
            let cpus = u64::from(profile.nr_cpus.max(1)).next_power_of_two();
            (next, (256 * cpus) - 1)
        });
        let power_of_two = size.bytes().is_power_of_two();
        let masked = order > 0 && behaviours.tail_holds_mask && profile.hvo && power_of_two;
        Self {
            size,
            flags: layout.links(node, zone, 0) | numbers.mask(PageFlag::Reserved),
            head_flag: numbers.mask(PageFlag::Head),
            pagemap,
            refcount,
            order,
            little: profile.byte_order == ByteOrder::Little,
            memmap_base: profile.vmemmap_base,
            virtual_word,
            cpupid_word,
            tail_mapping: profile.poison_offset.wrapping_add(TAIL_MAPPING),
            first_tails: behaviours.first_tails,
            tail_two: behaviours.tail_two,
            mask: masked.then(|| u64::MAX << (order + size.bytes().trailing_zeros()) | 1),
            has_memcg: profile.memcg,
        }
    }

    /// The same for a memory map whose frame 0 has its struct page at `base`.
    pub(crate) fn with_memmap_base(mut self, base: u64) -> Self {
        self.memmap_base = base;
        self
    }

    /// Whether tails name their head by a mask, the same for all.
    pub(crate) const fn is_masked(&self) -> bool {
        self.mask.is_some()
    }

    /// Whether struct pages hold their frame's address.
    pub(crate) const fn has_virtual(&self) -> bool {
        self.virtual_word.is_some()
    }

    pub(crate) const fn refcount(&self) -> u32 {
        self.refcount
    }

    /// The address of the struct page of `pfn`.
    fn address(&self, pfn: Pfn) -> u64 {
        self.memmap_base
            .wrapping_add(pfn.get().wrapping_mul(self.size.bytes() as u64))
    }

    /// The word whose halves lie at lower and higher addresses.
    fn halves(&self, lower: u32, higher: u32) -> u64 {
        let (lower, higher) = (u64::from(lower), u64::from(higher));
        if self.little {
            lower | higher << 32
        } else {
            lower << 32 | higher
        }
    }

    /// A run from `pfn` on with `words`, and what every struct page has behind its first fields.
    fn image(&self, pfn: Pfn, words: [u64; 8]) -> PageImage {
        let mut all = [0; MAX_WORDS];
        all[..8].copy_from_slice(&words);
        let mut image = PageImage::constant(self.size, all);
        if let Some((word, first, page)) = self.virtual_word {
            let address = first.wrapping_add(pfn.get().wrapping_mul(page));
            image = image.with_word(word, address, page);
        }
        if let Some((word, value)) = self.cpupid_word {
            let value = self.halves(value as u32, 0);
            image = image.with_word(word, value, 0);
        }
        image
    }

    /// Pages of an altmap: reserved pages as every zone has them.
    pub(crate) fn altmap(&self, pfn: Pfn) -> PageImage {
        let link = self.address(pfn).wrapping_add(8);
        let step = self.size.bytes() as u64;
        let counts = self.halves(u32::MAX, 1);
        self.image(pfn, [self.flags, link, link, 0, 0, 0, counts, 0])
            .with_word(1, link, step)
            .with_word(2, link, step)
    }

    /// Single pages, or the head of a compound.
    pub(crate) fn head(&self, pfn: Pfn) -> PageImage {
        let head = if self.order > 0 { self.head_flag } else { 0 };
        let counts = self.halves(u32::MAX, self.refcount);
        self.image(
            pfn,
            [self.flags | head, self.pagemap, 0, 0, 0, 0, counts, 0],
        )
    }

    /// Tails from `pfn` on, of the compound at `head`.
    pub(crate) fn tail(&self, head: Pfn, pfn: Pfn) -> PageImage {
        let name = self.mask.unwrap_or_else(|| self.address(head) | 1);
        let counts = self.halves(u32::MAX, 0);
        let words = [self.flags, name, 0, self.tail_mapping, 0, 0, counts, 0];
        self.image(pfn, words)
    }

    /// The first tail.
    pub(crate) fn first_tail(&self, head: Pfn) -> PageImage {
        let pfn = head.saturating_add(1);
        let tail = self.tail(head, pfn);
        let order = u64::from(self.order);
        let pages = 1_u32.checked_shl(self.order).unwrap_or(0);
        let minus_one = u32::MAX;
        let set = |image: PageImage, word, value| image.with_word(word, value, 0);
        match self.first_tails {
            // 6.1 prepares the head when it comes to its second tail: with two pages, never
            FirstTails::V6_1 if self.order < 2 => tail,
            FirstTails::V6_1 => {
                let lower = if self.little {
                    COMPOUND_DTOR | order << 8
                } else {
                    COMPOUND_DTOR << 24 | order << 16
                };
                let first = self.halves(lower as u32, minus_one);
                let tail = set(tail, ZONE_DEVICE_DATA, first);
                set(tail, MAPPING, self.halves(0, pages))
            }
            FirstTails::V6_12 => {
                let tail = set(tail, 0, self.flags & !0xff | order);
                let tail = set(tail, ZONE_DEVICE_DATA, self.halves(minus_one, minus_one));
                let tail = set(tail, MAPPING, 0);
                set(tail, INDEX, self.halves(pages, 0))
            }
            FirstTails::V6_18 => {
                let tail = set(tail, 0, self.flags & !0xff | order);
                let tail = set(tail, ZONE_DEVICE_DATA, self.halves(minus_one, 0));
                let tail = set(tail, MAPPING, self.halves(minus_one, 0));
                let tail = set(tail, INDEX, self.halves(minus_one, minus_one));
                if self.has_memcg {
                    set(tail, MEMCG, self.halves(pages, 0))
                } else {
                    tail
                }
            }
        }
    }

    /// The second tail, where it differs from those behind it.
    pub(crate) fn second_tail(&self, head: Pfn) -> Option<PageImage> {
        if self.order < 2 || self.tail_two == TailTwo::OrdinaryTail {
            return None;
        }
        let pfn = head.saturating_add(2);
        let list = self.address(pfn).wrapping_add(8 * ZONE_DEVICE_DATA as u64);
        let tail = self.tail(head, pfn).with_word(ZONE_DEVICE_DATA, list, 0);
        Some(tail.with_word(MAPPING, list, 0))
    }
}

/// The largest compound: a folio of 16 GiB.
pub(crate) const fn max_order(config: &KernelConfig) -> u32 {
    34_u32.saturating_sub(config.page_shift)
}
