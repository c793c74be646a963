//! What changed between kernel releases.
//!
//! Each field is one difference in behaviour, named for what it decides. Code asks the field,
//! never the version; only [`Behaviours::of`] knows in which release a change came.
//! References such as "3.4" are to sections of the behavioural specification that this crate
//! was written from.

use super::KernelVersion;

/// How long a node is taken to be (3.4, step 6). It decides where deferral may begin, since the
/// node's end is its start plus this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "node_spanned_pages")]
pub enum NodeSpanned {
    /// The sum of its zones' spans.
    SumOfZones,
    /// From its first to its last page of memory.
    EndMinusStart,
}

/// How `movable_node` rounds the start of a hot-pluggable region that is not page aligned (3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MovableStart {
    /// To the page that holds the first byte.
    RoundDown,
    /// To the first whole page.
    RoundUp,
}

/// How arm64 derives its DMA limits (3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arm64DmaLimit {
    /// From a number of address bits.
    Bits,
    /// From the highest address.
    Address,
}

/// In which order the tests of the deferral rule run (5.4). It matters where nodes interleave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "defer_init")]
pub enum DeferOrder {
    /// The page count starts over before it is known whether the zone is the node's last.
    ResetFirst,
    /// Zones that are not their node's last leave the page count alone.
    ZoneTestFirst,
}

/// Whose node a reserved page gets (2.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "memmap_init_reserved_pages")]
pub enum ReservedNode {
    /// Each page is looked up in memory; what lies outside gets the first online node.
    PerPfn,
    /// The reserved region says it, after it was split along the memory regions.
    PerRegion,
}

/// How a hole's pages are found to have a struct page (5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "init_unavailable_range")]
pub enum HoleTest {
    /// By the first page of their pageblock.
    PageblockStart,
    /// One by one.
    EachPage,
}

/// What becomes of the end of a FLATMEM map behind the last page of memory (5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlatmemTail {
    /// Nobody writes it.
    Untouched,
    /// It is initialised as a hole, up to the next multiple of the largest block.
    Initialised,
}

/// How the work of deferred initialisation is cut into jobs (5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeferredJobs {
    /// One for each group of free ranges that end in the same section.
    PerRangeGroup,
    /// One for the whole zone.
    PerZone,
}

/// How many threads deferred initialisation gets (5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "deferred_page_init_max_threads")]
pub enum DeferredThreads {
    /// The node's CPUs on amd64, one anywhere else.
    OneButOnAmd64,
    /// The node's CPUs.
    CpusOfNode,
}

/// What `first_deferred_pfn` becomes when growing has used up the zone (5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "deferred_grow_zone")]
pub enum GrowEnd {
    /// "Nothing deferred".
    Done,
    /// The next section's start, which may lie above the zone's end (a bug of those releases).
    MayPassZoneEnd,
}

/// What the page allocator takes where no block of the wanted type is free.
///
/// The specification is silent here; the rule is general knowledge of the releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "__rmqueue_fallback")]
pub enum FallbackRule {
    /// The largest block of another type; only movable allocations look for the smallest where
    /// the largest is small.
    StealLargest,
    /// A whole pageblock if one can be claimed, else the smallest block.
    ClaimThenStealSmallest,
}

/// How a page's type is stored where its map count was (6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "page_type")]
pub enum PageTypeWord {
    /// All ones with the type's bit cleared: a free block's head holds `0xffffff7f`.
    ClearedBits,
    /// The type in the top byte: a free block's head holds `0xf0000000`.
    TopByte,
}

/// The state of a page that memory hotplug has just added (6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HotAdded {
    /// Reserved.
    Reserved,
    /// Of the type "offline".
    Offline,
}

/// Which numbers the page flags have (6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlagNumbers {
    /// `reserved` is 12, `head` 16.
    V6_1,
    /// `reserved` is 13, `head` 6.
    V6_12,
    /// As 6.12, and `dropbehind` is 19.
    V6_18,
}

/// What the first tail pages of a compound page hold (6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FirstTails {
    /// Destructor, order, map count and size at offset 16 to 31.
    V6_1,
    /// Order in the flags word, map counts at 16 to 24, size at 32.
    V6_12,
    /// As 6.12 with the map ids of 6.15.
    V6_18,
}

/// How the batch of the per-CPU page lists is rounded (7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "zone_batchsize")]
pub enum LifoBatch {
    /// A tiny zone gets 0.
    ZeroForTiny,
    /// A tiny zone gets 1.
    OneForTiny,
}

/// How many managed pages a zone is taken to have before hand-over (3.4, step 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManagedEstimate {
    /// Present pages less those that the memory map itself takes.
    LessMemmap,
    /// Present pages.
    Present,
}

/// How many struct pages of a deduplicated device compound are initialised (6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "compound_nr_pages")]
pub enum EarlySectionDedup {
    /// All, where the section had a boot-time map that is not deduplicated.
    AllTails,
    /// Only the first two pages' worth, even there (a bug of those releases).
    FirstTailsOnly,
}

/// What the third page of a compound device page holds (6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "_deferred_list")]
pub enum TailTwo {
    /// What every later tail holds: it is written after the head was prepared, or the head's
    /// preparation does not touch it.
    OrdinaryTail,
    /// An empty list: the head is prepared when all tails are written.
    EmptyList,
}

/// How many pages of memory map a device range is counted with (6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "nr_memmap_pages")]
pub enum DeviceMemmapCount {
    /// Those that its struct pages would fill.
    Whole,
    /// Those that are not shared.
    Unshared,
}

/// Which pageblocks of a device range become movable (6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DevicePageblocks {
    /// All.
    Every,
    /// Those whose first struct page was initialised on its own.
    OnlyInitialised,
}

/// Every behaviour that differs between the releases this crate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Behaviours {
    /// 3.4: the node's length. 6.1 and 6.15 to 7.1 sum; late 6.12 and 7.2 on do not.
    pub node_spanned: NodeSpanned,
    /// 3.4 and 5.2: with `kernelcore=mirror`, Normal and Movable overlap (up to 7.2).
    pub mirror_overlap: bool,
    /// 3.5: `kernelcore=mirror` is ignored without mirrored memory or under kdump (6.12 on).
    pub mirror_needs_mirror: bool,
    /// 3.5: rounding of a hot-pluggable region's start (6.12 on: up).
    pub movable_start: MovableStart,
    /// 3.2: arm64's DMA limits (6.12 on: by address).
    pub arm64_dma_limit: Arm64DmaLimit,
    /// 3.4, step 7: nodes without memory are zeroed by a path of their own (6.12 on). Before,
    /// possible nodes that are not online are announced (7.1, line 7b).
    pub announce_offline_nodes: bool,
    /// 3.4, step 8: what managed pages are before hand-over (6.12 on: present).
    pub managed_estimate: ManagedEstimate,
    /// 4.5: bits of the pageblock bitmap a block, with memory isolation (4; 8 from 6.17).
    pub pageblock_bits: u8,
    /// 4.5: "isolated" is a bit of its own beside the type (6.17 on).
    pub isolated_is_a_bit: bool,
    /// 5.1: the end of a FLATMEM map (6.15 on: initialised).
    pub flatmem_tail: FlatmemTail,
    /// 5.3: test for a hole's struct pages (6.16 on: each page).
    pub hole_test: HoleTest,
    /// 5.4: order of the deferral tests.
    pub defer_order: DeferOrder,
    /// 2.10: node of reserved pages (6.5 on: per region).
    pub reserved_node: ReservedNode,
    /// 5.5: the block of a reserved page in the deferred part becomes movable (6.15 on).
    pub reserved_block_movable: bool,
    /// 5.6: jobs (6.18: per zone).
    pub deferred_jobs: DeferredJobs,
    /// 5.6: threads.
    pub deferred_threads: DeferredThreads,
    /// 5.6: the value left when a grown zone is used up.
    pub grow_end: GrowEnd,
    /// A free list holds only blocks that lie in pageblocks of its type (6.12 on): large blocks
    /// are freed a pageblock at a time, and what merges takes one type. Seen in the list poison of
    /// free blocks of several pageblocks; the release that brought it was not read.
    pub strict_free_lists: bool,
    /// What is taken where no block of the wanted type is free (6.15 on: claim, then steal).
    pub fallback: FallbackRule,
    /// 6.3: how a page's type is stored.
    pub page_type: PageTypeWord,
    /// 6.3: state of hot-added pages.
    pub hot_added: HotAdded,
    /// 6.4: first tails of a compound page.
    pub first_tails: FirstTails,
    /// 6.4: the third page of a compound device page (6.18 on: an empty list).
    pub tail_two: TailTwo,
    /// 6.1 (the layout): the last CPU, where it is a word of its own, is the last word (6.1).
    pub last_cpupid_at_end: bool,
    /// 6.5: numbers of the page flags.
    pub flag_numbers: FlagNumbers,
    /// 6.5: bits of a hardware KASAN tag (8; 4 from 6.17).
    pub kasan_hw_bits: u8,
    /// 6.6: pages of file systems and peer-to-peer memory begin with one reference (up to 6.14).
    pub device_page_holds_reference: bool,
    /// 6.6: pageblocks of device ranges.
    pub device_pageblocks: DevicePageblocks,
    /// 6.7: device compounds in sections with a boot-time map.
    pub early_section_dedup: EarlySectionDedup,
    /// 6.7: pages of memory map that a device range is counted with.
    pub device_memmap_count: DeviceMemmapCount,
    /// 6.7: a tail holds a mask instead of its head's address where the vmemmap of huge pages is
    /// optimised (7.1 on).
    pub tail_holds_mask: bool,
    /// 7.1, lines 9 and 10: "pages used for memmap" and "pages reserved" are printed (6.1).
    pub prints_memmap_pages: bool,
    /// 7.4: rounding of the batch.
    pub lifo_batch: LifoBatch,
}

impl Behaviours {
    /// The behaviour of release `version`: 6.1 and 6.12 as in their late stable releases, others
    /// as first released, as far as the specification dates a change; older ones as 6.1.
    pub const fn of(version: KernelVersion) -> Self {
        let v = version;
        // `since(6, 12)` reads: "6.12 or later".
        const fn at_least(v: KernelVersion, major: u16, minor: u16) -> bool {
            v.major > major || (v.major == major && v.minor >= minor)
        }
        macro_rules! since {
            ($major:literal, $minor:literal, $new:expr, $old:expr) => {
                if at_least(v, $major, $minor) {
                    $new
                } else {
                    $old
                }
            };
        }
        // Fixes that first came in 7.2 and that late 6.1 and 6.12 carry.
        let backported =
            at_least(v, 7, 2) || (v.major == 6 && v.minor == 12) || (v.major == 6 && v.minor == 1);
        // Likewise, but of 6.12 only.
        let backported_to_6_12 = at_least(v, 7, 2) || (v.major == 6 && v.minor == 12);
        Self {
            node_spanned: if backported_to_6_12 {
                NodeSpanned::EndMinusStart
            } else {
                NodeSpanned::SumOfZones
            },
            mirror_overlap: since!(7, 3, false, true),
            mirror_needs_mirror: since!(6, 12, true, false),
            movable_start: since!(6, 12, MovableStart::RoundUp, MovableStart::RoundDown),
            arm64_dma_limit: since!(6, 12, Arm64DmaLimit::Address, Arm64DmaLimit::Bits),
            announce_offline_nodes: since!(6, 12, false, true),
            managed_estimate: since!(6, 12, ManagedEstimate::Present, ManagedEstimate::LessMemmap),
            pageblock_bits: since!(6, 17, 8, 4),
            isolated_is_a_bit: since!(6, 17, true, false),
            flatmem_tail: since!(6, 15, FlatmemTail::Initialised, FlatmemTail::Untouched),
            hole_test: since!(6, 16, HoleTest::EachPage, HoleTest::PageblockStart),
            defer_order: since!(6, 12, DeferOrder::ZoneTestFirst, DeferOrder::ResetFirst),
            reserved_node: since!(6, 5, ReservedNode::PerRegion, ReservedNode::PerPfn),
            reserved_block_movable: since!(6, 15, true, false),
            deferred_jobs: since!(6, 18, DeferredJobs::PerZone, DeferredJobs::PerRangeGroup),
            deferred_threads: since!(
                6,
                12,
                DeferredThreads::CpusOfNode,
                DeferredThreads::OneButOnAmd64
            ),
            grow_end: if at_least(v, 6, 18) && !at_least(v, 7, 2) {
                GrowEnd::MayPassZoneEnd
            } else {
                GrowEnd::Done
            },
            strict_free_lists: since!(6, 12, true, false),
            fallback: since!(
                6,
                15,
                FallbackRule::ClaimThenStealSmallest,
                FallbackRule::StealLargest
            ),
            page_type: since!(6, 12, PageTypeWord::TopByte, PageTypeWord::ClearedBits),
            hot_added: since!(6, 11, HotAdded::Offline, HotAdded::Reserved),
            first_tails: if at_least(v, 6, 15) {
                FirstTails::V6_18
            } else if at_least(v, 6, 12) {
                FirstTails::V6_12
            } else {
                FirstTails::V6_1
            },
            tail_two: since!(6, 18, TailTwo::EmptyList, TailTwo::OrdinaryTail),
            last_cpupid_at_end: since!(6, 12, false, true),
            flag_numbers: if at_least(v, 6, 14) {
                FlagNumbers::V6_18
            } else if at_least(v, 6, 12) {
                FlagNumbers::V6_12
            } else {
                FlagNumbers::V6_1
            },
            kasan_hw_bits: since!(6, 17, 4, 8),
            device_page_holds_reference: since!(6, 15, false, true),
            device_pageblocks: if backported {
                DevicePageblocks::Every
            } else {
                DevicePageblocks::OnlyInitialised
            },
            early_section_dedup: if backported {
                EarlySectionDedup::AllTails
            } else {
                EarlySectionDedup::FirstTailsOnly
            },
            device_memmap_count: if backported_to_6_12 {
                DeviceMemmapCount::Unshared
            } else {
                DeviceMemmapCount::Whole
            },
            tail_holds_mask: since!(7, 1, true, false),
            prints_memmap_pages: since!(6, 10, false, true),
            lifo_batch: since!(6, 19, LifoBatch::OneForTiny, LifoBatch::ZeroForTiny),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_ported_fixes_are_in_the_late_stable_releases_and_not_between() {
        let of = Behaviours::of;
        let spans = |v| of(v).node_spanned;
        assert_eq!(spans(KernelVersion::V6_1), NodeSpanned::SumOfZones);
        assert_eq!(spans(KernelVersion::V6_12), NodeSpanned::EndMinusStart);
        assert_eq!(spans(KernelVersion::V6_18), NodeSpanned::SumOfZones);
        assert_eq!(spans(KernelVersion::V7_3), NodeSpanned::EndMinusStart);
        assert_eq!(of(KernelVersion::V6_18).grow_end, GrowEnd::MayPassZoneEnd);
        assert_eq!(of(KernelVersion::V7_3).grow_end, GrowEnd::Done);
    }

    #[test]
    fn releases_older_than_the_specification_behave_as_the_oldest_known() {
        assert_eq!(
            Behaviours {
                // dated by a back-port to 6.1's stable series only
                device_pageblocks: DevicePageblocks::Every,
                early_section_dedup: EarlySectionDedup::AllTails,
                ..Behaviours::of(KernelVersion::new(5, 15))
            },
            Behaviours::of(KernelVersion::V6_1)
        );
    }
}
