//! Dumps of the free lists, as the kernel shows them.

use alloc::string::String;
use core::fmt::Write;

use memblock::{NodeId, Pfn};

use crate::profile::ZoneIndex;

use super::allocator::Allocator;
use super::migrate::{MigrateType, MigrateTypes};
use super::pages::{FLAGS, StructPages};
use super::zone::ListId;

/// How many pages a zone has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneCounts {
    /// Under the allocator's care.
    #[doc(alias = "managed_pages")]
    pub managed: u64,
    /// Free.
    #[doc(alias = "NR_FREE_PAGES")]
    pub free: u64,
}

impl<P: StructPages> Allocator<P> {
    /// The page counts of a zone; zero where there is no such zone.
    pub fn zone_counts(&self, node: NodeId, zone: ZoneIndex) -> ZoneCounts {
        self.zones
            .get(&(node, zone))
            .map(|zone| {
                let counters = zone.counters();
                ZoneCounts {
                    managed: counters.managed,
                    free: counters.free_pages,
                }
            })
            .unwrap_or_default()
    }

    /// Free blocks of a zone by order and type; 0 for what there is not.
    pub fn nr_free(&self, node: NodeId, zone: ZoneIndex, order: u8, migrate: MigrateType) -> u64 {
        let known = MigrateTypes::of(&self.profile).index_of(migrate).is_some();
        match self.zones.get(&(node, zone)) {
            Some(zone) if known && order <= zone.max_order => zone
                .lock(&self.pages, &self.words)
                .nr_free(ListId { order, migrate }),
            _ => 0,
        }
    }

    /// The first pages of the free blocks of a list, in list order.
    pub fn free_list(
        &self,
        node: NodeId,
        zone: ZoneIndex,
        order: u8,
        migrate: MigrateType,
    ) -> alloc::vec::Vec<Pfn> {
        let known = MigrateTypes::of(&self.profile).index_of(migrate).is_some();
        match self.zones.get(&(node, zone)) {
            Some(zone) if known && order <= zone.max_order => zone
                .lock(&self.pages, &self.words)
                .blocks(ListId { order, migrate })
                .map(|block| block.pfn)
                .collect(),
            _ => alloc::vec::Vec::new(),
        }
    }

    /// Free blocks by zone and order, as `/proc/buddyinfo` prints them.
    ///
    /// Linux: mm/vmstat.c, `frag_show_print`.
    #[doc(alias = "frag_show_print")]
    pub fn buddyinfo(&self) -> String {
        let mut text = String::new();
        self.each_populated(|node, index| {
            let kind = self.zones[&(node, index)].kind;
            let _ = write!(text, "Node {node}, zone {kind:>8} ");
            for order in 0..=self.profile.max_page_order as u8 {
                let blocks: u64 = self
                    .types()
                    .map(|migrate| self.nr_free(node, index, order, migrate))
                    .sum();
                let _ = write!(text, "{blocks:>6} ");
            }
            text.push('\n');
        });
        text
    }

    /// Free blocks by zone, type and order, and pageblocks by zone and type, as
    /// `/proc/pagetypeinfo` prints them.
    ///
    /// Linux: mm/vmstat.c, `pagetypeinfo_show`.
    #[doc(alias = "pagetypeinfo_show")]
    pub fn pagetypeinfo(&self) -> String {
        let order = self.profile.pageblock_order;
        let mut text = String::new();
        let _ = writeln!(text, "Page block order: {order}");
        let _ = writeln!(text, "Pages per block:  {}\n", 1_u64 << order);
        let _ = write!(
            text,
            "{:<43} ",
            "Free pages count per migrate type at order"
        );
        for order in 0..=self.profile.max_page_order {
            let _ = write!(text, "{order:>6} ");
        }
        text.push('\n');
        self.each_populated(|node, index| {
            let kind = self.zones[&(node, index)].kind;
            for migrate in self.types() {
                let _ = write!(
                    text,
                    "Node {:>4}, zone {kind:>8}, type {migrate:>12} ",
                    node.get()
                );
                for order in 0..=self.profile.max_page_order as u8 {
                    let blocks = self.nr_free(node, index, order, migrate);
                    let _ = write!(text, "{blocks:>6} ");
                }
                text.push('\n');
            }
        });
        let _ = write!(text, "\n{:<23}", "Number of blocks type");
        for migrate in self.types() {
            let _ = write!(text, "{migrate:>12} ");
        }
        text.push('\n');
        self.each_populated(|node, index| {
            let kind = self.zones[&(node, index)].kind;
            let _ = write!(text, "Node {node}, zone {kind:>8} ");
            let counts = self.pageblock_counts(node, index);
            for migrate in self.types() {
                let _ = write!(text, "{:>12} ", counts[migrate as usize]);
            }
            text.push('\n');
        });
        text
    }

    /// Pageblocks of a zone by type, in the order of [`MigrateType::ALL`].
    ///
    /// Linux: mm/vmstat.c, `pagetypeinfo_showblockcount_print`.
    #[doc(alias = "pagetypeinfo_showblockcount_print")]
    pub fn pageblock_counts(&self, node: NodeId, zone: ZoneIndex) -> [u64; 6] {
        let mut counts = [0; 6];
        let Some(span) = self.spans.get(&(node, zone)) else {
            return counts;
        };
        // From the zone's first page in steps of a block, wherever in a block that is.
        let mut at = span.start();
        while at < span.end() {
            let flags = self.pages.load(at, FLAGS);
            if flags.is_some_and(|flags| self.words.zone_of(flags) == (node, zone)) {
                counts[self.blocks.get(at) as usize] += 1;
            }
            at = at.saturating_add(self.profile.pageblock_pages());
        }
        counts
    }

    /// The type of the pageblock that holds `pfn`.
    #[doc(alias = "get_pageblock_migratetype")]
    pub fn pageblock_type(&self, pfn: Pfn) -> MigrateType {
        self.blocks.get(pfn)
    }

    fn types(&self) -> impl Iterator<Item = MigrateType> {
        MigrateTypes::of(&self.profile).iter()
    }

    fn each_populated(&self, mut each: impl FnMut(NodeId, ZoneIndex)) {
        for (&(node, index), zone) in &self.zones {
            if zone.counters().managed > 0 {
                each(node, index);
            }
        }
    }
}
