//! The naive oracle: every struct page by itself, field by field, in the order in which the kernel
//! stores them.
//!
//! It shares nothing with the crate but the profile and the flags layout. A map is a plain list of
//! words that begins as `POISON`; each function stores what one step of the kernel stores, so that
//! later steps overwrite earlier ones as they do there.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;

use memblock::{Pfn, PfnRange, PhysRange};
use memmap_core::{PageFlag, Profile, ZoneKind};
use zone_device::{Altmap, DevPagemap, MemoryType};

pub(crate) const POISON: u64 = u64::MAX;

pub(crate) type Map = BTreeMap<u64, Vec<u64>>;

/// A struct page by byte offsets, little-endian.
struct Page<'a>(&'a mut Vec<u64>);

impl Page<'_> {
    fn u64(&mut self, offset: usize, value: u64) {
        self.0[offset / 8] = value;
    }
    fn u32(&mut self, offset: usize, value: u32) {
        let shift = offset % 8 * 8;
        let word = &mut self.0[offset / 8];
        *word = *word & !(0xffff_ffff << shift) | u64::from(value) << shift;
    }
    fn u8(&mut self, offset: usize, value: u8) {
        let shift = offset % 8 * 8;
        let word = &mut self.0[offset / 8];
        *word = *word & !(0xff << shift) | u64::from(value) << shift;
    }
}

pub(crate) struct Oracle<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) node: u16,
    /// Frames whose sections have a boot-time map, which holds `POISON` here.
    pub(crate) boot: Vec<PfnRange>,
}

/// What the release is, by its number: the oracle does not look at the behaviours.
fn since(profile: &Profile, major: u16, minor: u16) -> bool {
    (profile.version.major, profile.version.minor) >= (major, minor)
}

impl Oracle<'_> {
    fn address(&self, pfn: u64) -> u64 {
        self.profile.vmemmap_base + pfn * u64::from(self.profile.struct_page_bytes)
    }

    fn bit(&self, flag: PageFlag) -> u64 {
        1 << self.profile.flags_layout().numbers().bit(flag).unwrap()
    }

    /// `__init_single_page`, then reserved.
    fn single(&self, map: &mut Map, pfn: u64) {
        let words = self.profile.struct_page_bytes as usize / 8;
        map.insert(pfn, vec![0; words]);
        let page = map.get_mut(&pfn).unwrap();
        let zone = self.profile.zones.index_of(ZoneKind::Device).unwrap();
        let links = self
            .profile
            .flags_layout()
            .links(memblock::NodeId::new(self.node), zone, 0);
        let mut page = Page(page);
        page.u64(0, links | self.bit(PageFlag::Reserved));
        page.u64(8, self.address(pfn) + 8);
        page.u64(16, self.address(pfn) + 8);
        page.u32(48, u32::MAX);
        page.u32(52, 1);
        let mut next = if self.profile.memcg { 64 } else { 56 };
        if let Some(first) = self.profile.page_virtual {
            page.u64(next, first + pfn * self.profile.page_size());
            next += 8;
        }
        if self.profile.numa_balancing && self.profile.flags_layout().last_cpupid().width == 0 {
            let mut bits = 8;
            while 1 << (bits - 8) < self.profile.nr_cpus {
                bits += 1;
            }
            page.u32(next, (1 << bits) - 1);
        }
    }

    fn device(&self, map: &mut Map, pagemap: &DevPagemap, pfn: u64) {
        self.single(map, pfn);
        let mut page = Page(map.get_mut(&pfn).unwrap());
        page.u64(8, pagemap.address());
        page.u64(16, 0);
        let old = !since(self.profile, 6, 15);
        let count = match pagemap.memory_type() {
            MemoryType::Private | MemoryType::Coherent => 0,
            MemoryType::Generic => 1,
            _ if old => 1,
            _ => 0,
        };
        page.u32(52, count);
    }

    fn prepare_head(&self, map: &mut Map, head: u64, order: u32) {
        let mut first = Page(map.get_mut(&(head + 1)).unwrap());
        if !since(self.profile, 6, 12) {
            first.u8(16, 1);
            first.u8(17, order as u8);
            first.u32(20, u32::MAX);
            first.u32(24, 0);
            first.u32(28, 1 << order);
            return;
        }
        first.u8(0, order as u8);
        first.u32(16, u32::MAX);
        if since(self.profile, 6, 15) {
            first.u32(20, 0);
            first.u32(24, u32::MAX);
            first.u32(28, 0);
            first.u32(32, u32::MAX);
            first.u32(36, u32::MAX);
            first.u64(40, 0);
            if self.profile.memcg {
                first.u32(56, 1 << order);
            }
        } else {
            first.u32(20, u32::MAX);
            first.u32(24, 0);
            first.u32(28, 0);
            first.u32(32, 1 << order);
        }
        if order > 1 {
            let list = self.address(head + 2) + 16;
            let mut second = Page(map.get_mut(&(head + 2)).unwrap());
            second.u64(16, list);
            second.u64(24, list);
        }
    }

    fn compound(&self, map: &mut Map, pagemap: &DevPagemap, head: u64, written: u64) {
        let order = pagemap.vmemmap_shift();
        let size = u64::from(self.profile.struct_page_bytes);
        self.device(map, pagemap, head);
        Page(map.get_mut(&head).unwrap()).0[0] |= self.bit(PageFlag::Head);
        // what the head's preparation touches must exist
        for k in 1..3 {
            map.entry(head + k)
                .or_insert_with(|| vec![POISON; size as usize / 8]);
        }
        for k in 1..written {
            let pfn = head + k;
            self.device(map, pagemap, pfn);
            let mut tail = Page(map.get_mut(&pfn).unwrap());
            let name = if since(self.profile, 7, 1) && self.profile.hvo && size.is_power_of_two() {
                !((size << order) - 1)
            } else {
                self.address(head)
            };
            tail.u64(8, name | 1);
            tail.u64(24, self.profile.poison_offset + 0x400);
            tail.u64(40, 0);
            tail.u32(52, 0);
            let early = if since(self.profile, 6, 12) { 1 } else { 2 };
            if !since(self.profile, 6, 18) && k == early {
                self.prepare_head(map, head, order);
            }
        }
        if since(self.profile, 6, 18) {
            self.prepare_head(map, head, order);
        }
        if order == 1 {
            // the third page above belongs to the next compound
            map.remove(&(head + 2));
        }
    }

    /// Every struct page that is written.
    pub(crate) fn map(&self, pagemap: &DevPagemap) -> Map {
        let mut map = Map::new();
        let order = pagemap.vmemmap_shift();
        let pages = 1_u64 << order;
        let size = u64::from(self.profile.struct_page_bytes);
        for range in pagemap.ranges() {
            let pfns = range.pfns_inner(self.profile.page_shift);
            let (start, end) = (pfns.start().get(), pfns.end().get());
            let mut first = start;
            if let Some(altmap) = pagemap.altmap() {
                let mut at = start;
                if start == altmap.base().get() {
                    at += altmap.reserve();
                }
                first = altmap.base().get() + altmap.reserve() + altmap.free();
                for pfn in at..first {
                    self.single(&mut map, pfn);
                }
            }
            if order == 0 {
                for pfn in first..end {
                    self.device(&mut map, pagemap, pfn);
                }
                continue;
            }
            let optimise = pagemap.altmap().is_none()
                && self.profile.dax_hvo
                && size.is_power_of_two()
                && (pages * size) / self.profile.page_size() > 2;
            let bug = since(self.profile, 6, 2)
                && !since(self.profile, 7, 2)
                && !(self.profile.version.major == 6 && self.profile.version.minor == 12);
            let mut head = first;
            while head < end {
                let early = self.boot.iter().any(|r| r.contains(Pfn::new(head)));
                let written = if optimise && early && bug {
                    2 * self.profile.page_size() / size
                } else {
                    // written, or the same memory as a tail that is
                    pages
                };
                self.compound(&mut map, pagemap, head, written);
                head += pages;
            }
        }
        map
    }
}

/// A map of one range at `start` of `pages` pages.
pub(crate) fn pagemap(
    profile: &Profile,
    memory_type: MemoryType,
    pfns: PfnRange,
    order: u32,
    altmap: Option<Altmap>,
) -> DevPagemap {
    let range: PhysRange = pfns.phys(profile.page_shift);
    let map = DevPagemap::new(memory_type, 0xffff_8881_0279_13c0)
        .with_range(range)
        .with_vmemmap_shift(order);
    match altmap {
        Some(altmap) => map.with_altmap(altmap),
        None => map,
    }
}
