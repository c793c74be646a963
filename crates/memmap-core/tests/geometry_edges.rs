//! Zones, nodes, holes and the deferral rule: the edge cases of the specification (section 9),
//! each under its number.

mod support;

use memblock::{MemblockFlags, Pfn};
use memmap_core::{
    BootOptions, CoreSize, GeometryError, KernelVersion, MemoryModel, PageKind, Profile, SectionNr,
    ZoneKind,
};
use support::*;

use ZoneKind::{Dma, Dma32, Movable, Normal};

const V6_1: KernelVersion = KernelVersion::V6_1;
const V6_12: KernelVersion = KernelVersion::V6_12;
const V6_18: KernelVersion = KernelVersion::V6_18;
const V7_3: KernelVersion = KernelVersion::V7_3;

#[test]
fn e1_gaps_inside_a_section_get_the_zone_above_them() {
    for version in VERSIONS {
        let g = Layout::of(&[(0, 1, 0x9f), (0, 0x100, 0x8000)]).amd64(version);
        assert_eq!(holes(&g), [(0, Dma, 1), (0, Dma, 97)]);
        assert_eq!(page(&g, 0), "0 DMA Hole");
        assert_eq!(page(&g, 0x9f), "0 DMA Hole");
        assert_eq!(page(&g, 0xff), "0 DMA Hole");
    }
}

#[test]
fn e2_a_gap_below_a_zone_boundary_belongs_to_the_zone_above() {
    // 10 GiB guest
    let g =
        Layout::of(&[(0, 1, 0x9f), (0, 0x100, 0xbffe0), (0, 0x10_0000, 0x2c_0000)]).amd64(V6_12);
    assert_eq!(holes(&g), [(0, Dma, 1), (0, Dma, 97), (0, Normal, 32)]);
    assert_eq!(page(&g, 0xbffe0), "0 Normal Hole");
    // spans are not affected
    assert_eq!(
        zones(&g, 0),
        [
            (Dma, 0xfff, 3998, 1),
            (Dma32, 0xff000, 0xbffe0 - 0x1000, 0x1000),
            (Normal, 0x1c_0000, 0x1c_0000, 0x10_0000)
        ]
    );
}

#[test]
fn e3_a_gap_between_nodes_goes_to_the_node_above_and_the_section_to_the_first() {
    let g = Layout::of(&[(0, 0x1000, 0x4100), (1, 0x4200, 0x9000)]).amd64(V6_12);
    assert_eq!(page(&g, 0x40ff), "0 DMA32 Free");
    assert_eq!(page(&g, 0x4100), "1 DMA32 Hole");
    assert_eq!(page(&g, 0x41ff), "1 DMA32 Hole");
    let run = g.sections().run_of(SectionNr(0)).expect("present");
    assert_eq!(run.early_node.get(), 0);
    // The table of kernels that keep nodes there says 1 for the whole section.
    let table = g.section_table_node(SectionNr(0)).expect("present");
    assert_eq!(table.get(), 1);
    assert_eq!(g.section_table_node(SectionNr(5)), None);
}

#[test]
fn e4_sections_without_memory_are_absent_and_their_frames_invalid() {
    let g = Layout::of(&[(0, 0x100, 0xbffe0), (0, 0x10_0000, 0x12_0000)]).amd64(V6_12);
    for section in 0x18..0x20 {
        assert_eq!(g.sections().rank(SectionNr(section)), None);
        assert!(!g.sections().is_valid(Pfn::new(section * 0x8000)));
    }
    assert_eq!(page(&g, 0xc0000), "invalid");
    assert_eq!(
        g.sections().next_valid(Pfn::new(0xc0000)),
        Some(Pfn::new(0x10_0000))
    );
    assert_eq!(g.sections().next_valid(Pfn::new(0x12_0000)), None);
    assert_eq!(g.sections().count(), 0x18 + 4);
}

#[test]
fn e5_the_tail_of_the_last_section_goes_to_the_highest_populated_zone() {
    let g = Layout::of(&[(0, 1, 0x9f), (0, 0x100, 0x7ffd6)]).amd64(V6_12);
    assert_eq!(holes(&g), [(0, Dma, 1), (0, Dma, 97), (0, Dma32, 42)]);
    assert_eq!(
        zones(&g, 0)[1],
        (Dma32, 0x7ffd6 - 0x1000, 0x7ffd6 - 0x1000, 0x1000)
    );
    assert_eq!(page(&g, 0x7ffff), "0 DMA32 Hole");
}

#[test]
fn e6_the_tail_goes_to_the_node_of_the_last_range() {
    let g = Layout::of(&[(1, 0x100, 0x8_0000), (0, 0x10_0000, 0x10_8100)]).amd64(V6_12);
    assert_eq!(holes(&g).last(), Some(&(0, Normal, 0x8000 - 0x100)));
}

#[test]
fn e6_the_tail_takes_the_highest_populated_zone_of_that_node_even_if_the_range_is_lower() {
    // node 0 has a Normal range below the end, node 1's last range is in DMA32 only there
    let g = Layout::of(&[(0, 0x10_0000, 0x11_0000), (1, 0x11_0000, 0x11_0010)]).amd64(V6_12);
    assert_eq!(holes(&g).last(), Some(&(1, Normal, 0x8000 - 0x10)));
}

fn flatmem(version: KernelVersion) -> Profile {
    let mut config = Profile::amd64(version).config().clone();
    config.memory_model = MemoryModel::Flat;
    config.nodes_shift = 0;
    config.numa_balancing = false;
    config.deferred_init = false;
    config.build().expect("flatmem builds")
}

#[test]
fn e7_the_tail_of_a_flatmem_array_is_written_since_6_15() {
    let layout = Layout::of(&[(0, 0x100, 0x10100)]);
    let old = layout.under(&flatmem(V6_1));
    assert_eq!(page(&old, 0x10100), "0 DMA Untouched");
    assert_eq!(page(&old, 0x103ff), "0 DMA Untouched");
    assert_eq!(page(&old, 0x10400), "invalid");
    // the array begins at a multiple of the largest block, and its first pages are a gap
    assert_eq!(holes(&old), [(0, Dma, 0x100)]);
    let new = layout.under(&flatmem(V6_18));
    assert_eq!(page(&new, 0x103ff), "0 DMA32 Hole");
    assert_eq!(holes(&new), [(0, Dma, 0x100), (0, Dma32, 0x300)]);
}

#[test]
fn e8_at_least_one_section_of_the_last_zone_is_early() {
    let g =
        Layout::of(&[(0, 1, 0x9f), (0, 0x100, 0xbffd7), (0, 0x10_0000, 0x84_0000)]).amd64(V6_12);
    assert_eq!(deferred(&g, 0), Some(0x10_8000));
    let g = Layout::of(&[(0, 1, 0x9f), (0, 0x100, 0x7ffd6)]).amd64(V6_12);
    assert_eq!(deferred(&g, 0), Some(0x1_0000));
    // exactly one section: nothing is late; one page more: that page is
    let g = Layout::of(&[(0, 0x10_0000, 0x10_8000)]).amd64(V6_12);
    assert_eq!(deferred(&g, 0), None);
    let g = Layout::of(&[(0, 0x10_0000, 0x10_8001)]).amd64(V6_12);
    assert_eq!(deferred(&g, 0), Some(0x10_8000));
}

#[test]
fn e9_coming_back_to_a_node_counts_anew() {
    let n = 0x10_0000;
    let memory = [
        (0, n, n + 0x6000),
        (1, n + 0x6000, n + 0x1_0000),
        (0, n + 0x1_0000, n + 0x4_0000),
    ];
    for version in VERSIONS {
        // node 1 is smaller than what is early; node 0 counts 0x8000 pages after its return
        let g = Layout::of(&memory).amd64(version);
        assert_eq!(deferred(&g, 0), Some(n + 0x1_8000), "{version}");
    }
}

#[test]
fn e9_a_low_zone_of_another_node_in_between_resets_the_count_in_6_1_only() {
    // node 0's last zone is DMA32, node 1 has a low range in between and its last zone above
    let n = 0x1_0000;
    let memory = [
        (0, n, n + 0x6000),
        (1, n + 0x6000, n + 0x1_0000),
        (0, n + 0x1_0000, n + 0x4_0000),
        (1, 0x10_0000, 0x14_0000),
    ];
    assert_eq!(
        deferred(&Layout::of(&memory).amd64(V6_1), 0),
        Some(n + 0x1_8000)
    );
    // 0x6000 before, 0x2000 more are counted by n + 0x12000: the next boundary is late
    for version in [V6_12, V6_18, V7_3] {
        assert_eq!(
            deferred(&Layout::of(&memory).amd64(version), 0),
            Some(n + 0x1_8000)
        );
    }
    // where the boundaries lie closer to the threshold, the releases differ
    let memory = [
        (0, n, n + 0x6000),
        (1, n + 0x6000, n + 0xe000),
        (0, n + 0xe000, n + 0x4_0000),
        (1, 0x10_0000, 0x14_0000),
    ];
    assert_eq!(
        deferred(&Layout::of(&memory).amd64(V6_1), 0),
        Some(n + 0x1_8000)
    );
    assert_eq!(
        deferred(&Layout::of(&memory).amd64(V6_12), 0),
        Some(n + 0x1_0000)
    );
}

#[test]
fn e10_gaps_do_not_count_and_an_unaligned_range_is_early_up_to_the_next_section() {
    let n = 0x10_0000;
    let g = Layout::of(&[(0, n, n + 0x4000), (0, n + 0x10_0000, n + 0x14_0000)]).amd64(V6_12);
    // 0x4000 pages, a gap, 0x4000 more: the next boundary is late
    assert_eq!(deferred(&g, 0), Some(n + 0x10_8000));
    let g = Layout::of(&[(0, n, n + 0x8000), (0, n + 0x10_0100, n + 0x14_0000)]).amd64(V6_12);
    assert_eq!(deferred(&g, 0), Some(n + 0x10_8000));
    let g = Layout::of(&[(0, n, n + 0x8000), (0, n + 0x10_0000, n + 0x14_0000)]).amd64(V6_12);
    assert_eq!(deferred(&g, 0), Some(n + 0x10_0000));
}

#[test]
fn e16_with_movable_normal_is_early_and_movable_is_late() {
    let mut layout = Layout::of(&[(0, 0x100, 0xc0000), (0, 0x10_0000, 0x50_0000)]);
    layout.options.movablecore = Some(CoreSize::Bytes(4 << 30));
    let g = layout.amd64(V6_12);
    let start = movable(&g)[0];
    assert_eq!(deferred(&g, 0), Some(start + 0x8000));
    assert_eq!(page(&g, start - 1), "0 Normal Free");
}

fn mirrored() -> Layout {
    let mut layout = Layout::of(&[]);
    layout
        .mem(0, 0x100, 0x8_0000, MemblockFlags::MIRROR)
        .mem(0, 0x10_0000, 0x14_0000, MemblockFlags::MIRROR)
        .mem(0, 0x14_0000, 0x18_0000, MemblockFlags::empty())
        .mem(0, 0x18_0000, 0x1a_0000, MemblockFlags::MIRROR)
        .mem(0, 0x1a_0000, 0x20_0000, MemblockFlags::empty());
    layout.options.kernelcore = Some(CoreSize::Mirror);
    layout
}

#[test]
fn e17_where_spans_are_summed_mirror_mode_defers_nothing() {
    for version in [V6_1, V6_18] {
        assert_eq!(deferred(&mirrored().amd64(version), 0), None, "{version}");
    }
    // end - start: the first zone that reaches the node's end, Normal, stops first
    assert_eq!(deferred(&mirrored().amd64(V6_12), 0), Some(0x10_8000));
    // no overlap: only Movable reaches it
    assert_eq!(deferred(&mirrored().amd64(V7_3), 0), Some(0x14_8000));
}

#[test]
fn e18_mirrored_memory_inside_movable_stays_normal_up_to_7_2() {
    for version in [V6_1, V6_12, V6_18] {
        let g = mirrored().amd64(version);
        assert_eq!(
            zones(&g, 0)[2..],
            [
                (Normal, 0x10_0000, 0x6_0000, 0x10_0000),
                (Movable, 0xc_0000, 0xa_0000, 0x14_0000)
            ],
            "{version}"
        );
    }
    let g = mirrored().amd64(V6_18);
    assert_eq!(page(&g, 0x15_0000), "0 Movable Free");
    assert_eq!(page(&g, 0x19_0000), "0 Normal Free");
    let g = mirrored().amd64(V7_3);
    assert_eq!(
        zones(&g, 0)[2..],
        [
            (Normal, 0x4_0000, 0x4_0000, 0x10_0000),
            (Movable, 0xc_0000, 0xc_0000, 0x14_0000)
        ]
    );
    assert_eq!(page(&g, 0x19_0000), "0 Movable Free");
}

#[test]
fn e76_mirrored_memory_above_the_movable_start_is_lost_to_the_kernel_in_7_3() {
    let mut layout = Layout::of(&[]);
    layout
        .mem(0, 0x100, 0x8_0000, MemblockFlags::empty())
        .mem(0, 0x10_0000, 0x14_0000, MemblockFlags::empty())
        .mem(0, 0x14_0000, 0x18_0000, MemblockFlags::MIRROR);
    layout.options.kernelcore = Some(CoreSize::Mirror);
    let g = layout.amd64(V7_3);
    assert_eq!(
        zones(&g, 0)[2..],
        [(Movable, 0x8_0000, 0x8_0000, 0x10_0000)]
    );
    assert_eq!(
        g.warnings(),
        ["This configuration results in unmirrored kernel memory."]
    );
}

#[test]
fn mirror_mode_without_mirrors_is_ignored_since_6_12() {
    let mut layout = Layout::of(&[(0, 0x100, 0x8_0000), (0, 0x10_0000, 0x14_0000)]);
    layout.options.kernelcore = Some(CoreSize::Mirror);
    assert_eq!(movable(&layout.amd64(V6_1)), [0x10_0000]);
    let g = layout.amd64(V6_12);
    assert_eq!(movable(&g), [0]);
    assert!(g.warnings()[0].contains("no mirror memory"));
    let mut kdump = mirrored();
    kdump.options.kdump = true;
    assert_eq!(movable(&kdump.amd64(V6_12)), [0]);
}

#[test]
fn e19_a_reserved_page_in_the_late_part_is_early_by_itself() {
    let mut layout = Layout::of(&[(0, 0x10_0000, 0x14_0000)]);
    layout.reserve(0x10_8200, 0x10_8201);
    let g = layout.amd64(V6_12);
    assert_eq!(deferred(&g, 0), Some(0x10_8000));
    assert_eq!(page(&g, 0x10_8200), "0 Normal Reserved");
    let phase = |pfn| g.page_run(Pfn::new(pfn)).expect("valid").phase;
    assert_eq!(phase(0x10_8200), memmap_core::Phase::Early);
    assert_eq!(phase(0x10_8201), memmap_core::Phase::Deferred);
    assert_eq!(phase(0x10_7fff), memmap_core::Phase::Early);
}

#[test]
fn e20_a_reservation_behind_memory_gets_no_zone_where_its_node_is_late() {
    let mut layout = Layout::of(&[(0, 1, 0x9f), (0, 0x100, 0x7ffe0)]);
    layout.reserve(0x7ffe0, 0x7ffe2);
    for version in VERSIONS {
        let g = layout.amd64(version);
        assert_eq!(page(&g, 0x7ffe1), "0 none Reserved", "{version}");
        assert_eq!(page(&g, 0x7ffe2), "0 DMA32 Hole", "{version}");
    }
}

#[test]
fn e20_with_four_nodes_6_1_takes_the_first_and_later_releases_the_region_s() {
    let mut layout = Layout::of(&[
        (0, 0x100, 0x4_0000),
        (1, 0x4_0000, 0xbffe0),
        (1, 0x10_0000, 0x12_0000),
    ]);
    layout.reserve(0xbffe0, 0xbffe2);
    assert_eq!(page(&layout.amd64(V6_1), 0xbffe0), "0 none Reserved");
    // firmware's range of node 1 covers the gap, so the reservation has its node
    layout
        .memblock
        .set_node(
            bytes(0x4_0000 << 12, 0x10_0000 << 12),
            memblock::Which::Reserved,
            memblock::NodeId::new(1),
        )
        .expect("nodes can be set");
    assert_eq!(page(&layout.amd64(V6_1), 0xbffe0), "0 none Reserved");
    for version in [V6_12, V6_18, V7_3] {
        assert_eq!(page(&layout.amd64(version), 0xbffe0), "1 Normal Hole");
    }
}

#[test]
fn e21_memory_that_is_not_mapped_is_present_and_reserved_early_and_late() {
    let mut layout = Layout::of(&[]);
    layout
        .mem(0, 0x10_0000, 0x10_1000, MemblockFlags::empty())
        .mem(0, 0x10_1000, 0x10_1100, MemblockFlags::NOMAP)
        .mem(0, 0x10_1100, 0x11_0000, MemblockFlags::empty())
        .mem(0, 0x11_0000, 0x11_0100, MemblockFlags::NOMAP)
        .mem(0, 0x11_0100, 0x12_0000, MemblockFlags::empty());
    for version in VERSIONS {
        let g = layout.amd64(version);
        assert_eq!(zones(&g, 0), [(Normal, 0x2_0000, 0x2_0000, 0x10_0000)]);
        assert_eq!(page(&g, 0x10_1000), "0 Normal NoMap");
        assert_eq!(page(&g, 0x11_0000), "0 Normal NoMap");
        assert_eq!(page(&g, 0x11_0100), "0 Normal Free");
    }
}

#[test]
fn e22_memory_of_a_driver_is_initialised_early_and_never_late() {
    let mut layout = Layout::of(&[]);
    layout
        .mem(0, 0x10_0000, 0x10_1000, MemblockFlags::DRIVER_MANAGED)
        .mem(0, 0x10_1000, 0x11_0000, MemblockFlags::empty())
        .mem(0, 0x11_0000, 0x12_0000, MemblockFlags::DRIVER_MANAGED);
    let g = layout.amd64(V6_12);
    assert_eq!(zones(&g, 0), [(Normal, 0x2_0000, 0x2_0000, 0x10_0000)]);
    assert_eq!(page(&g, 0x10_0000), "0 Normal Initialised");
    assert_eq!(page(&g, 0x11_0000), "0 Normal Untouched");
}

#[test]
fn e23_partly_reserved_pages_are_reserved_and_partial_memory_is_none() {
    let mut layout = Layout::new(12);
    layout
        .mem_bytes(0, 0x1800, 0x5800, MemblockFlags::empty())
        .reserve_bytes(0x3100, 0x3200);
    for version in VERSIONS {
        let g = layout.amd64(version);
        assert_eq!(g.memory()[0].pfns, pfns(2, 5));
        assert_eq!(zones(&g, 0), [(Dma, 3, 3, 2)]);
        let kinds: Vec<_> = (1..6).map(|pfn| page(&g, pfn)).collect();
        assert_eq!(
            kinds,
            [
                "0 DMA Hole",
                "0 DMA Free",
                "0 DMA Reserved",
                "0 DMA Free",
                "0 DMA Hole"
            ]
        );
    }
}

#[test]
fn e24_a_region_without_a_whole_page_is_ignored() {
    let mut layout = Layout::new(12);
    layout
        .mem_bytes(0, 0x1800, 0x2800, MemblockFlags::empty())
        .mem_bytes(0, 0x10_0000, 0x20_0000, MemblockFlags::empty());
    let g = layout.amd64(V6_12);
    assert_eq!(g.memory().len(), 1);
    assert_eq!(page(&g, 1), "0 DMA Hole");
    assert_eq!(page(&g, 2), "0 DMA Hole");
    let mut only = Layout::new(12);
    only.mem_bytes(0, 0x1800, 0x2800, MemblockFlags::empty());
    assert_eq!(
        memmap_core::Geometry::new(
            &Profile::amd64(V6_12),
            &only.memblock,
            &BootOptions::default()
        ),
        Err(GeometryError::NoMemory { page_shift: 12 })
    );
}

#[test]
fn e38_every_frame_of_a_boot_time_section_is_valid_even_where_its_sub_section_is_empty() {
    let g = Layout::of(&[(0, 0, 0x100), (0, 0x4000, 0x8000)]).amd64(V6_12);
    assert!(g.sections().is_valid(Pfn::new(0x2000)));
    assert!(!g.subsection_has_memory(Pfn::new(0x2000)));
    assert!(g.subsection_has_memory(Pfn::new(0x1ff)));
    assert!(g.subsection_has_memory(Pfn::new(0x4000)));
    assert!(!g.subsection_has_memory(Pfn::new(0x8000)));
}

#[test]
fn e41_a_reservation_over_two_nodes_gives_each_page_its_own_node() {
    let mut layout = Layout::of(&[(0, 0x10_0000, 0x14_0000), (1, 0x14_0000, 0x18_0000)]);
    layout.reserve(0x14_0000 - 4, 0x14_0004);
    for version in VERSIONS {
        let g = layout.amd64(version);
        assert_eq!(page(&g, 0x13_ffff), "0 Normal Reserved");
        assert_eq!(page(&g, 0x14_0000), "1 Normal Reserved");
    }
}

fn hotplug(regions: &[(u16, u64, u64, bool)]) -> Layout {
    let mut layout = Layout::of(&[]);
    for (node, start, end, hot) in regions {
        let flags = if *hot {
            MemblockFlags::HOTPLUG
        } else {
            MemblockFlags::empty()
        };
        layout.mem(*node, *start, *end, flags);
    }
    layout.options.movable_node = true;
    layout
}

#[test]
fn e47_a_hot_pluggable_node_is_all_movable() {
    let g = hotplug(&[
        (0, 0x100, 0x12_0000, false),
        (1, 0x12_0000, 0x16_0000, true),
    ])
    .amd64(V6_12);
    assert_eq!(zones(&g, 1), [(Movable, 0x4_0000, 0x4_0000, 0x12_0000)]);
    let node = &g.nodes()[1];
    assert!(node.has_memory() && !node.has_normal_memory());
    assert!(g.nodes()[0].has_normal_memory());
    assert_eq!(node.zones[2].start.get(), 0);
    // it is handed over like any other memory
    assert_eq!(page(&g, 0x12_0000), "1 Movable Free");
}

#[test]
fn e48_the_movable_start_is_rounded_up_to_the_largest_block() {
    let g = hotplug(&[
        (0, 0x10_0000, 0x10_0200, false),
        (0, 0x10_0200, 0x12_0000, true),
    ])
    .amd64(V6_12);
    assert_eq!(movable(&g), [0x10_0400]);
    assert_eq!(page(&g, 0x10_03ff), "0 Normal Free");
    assert_eq!(page(&g, 0x10_0400), "0 Movable Free");
}

#[test]
fn an_unaligned_hot_pluggable_region_starts_below_its_first_whole_page_in_6_1() {
    let mut layout = Layout::new(12);
    layout
        .mem_bytes(0, 0x1_0000_0000, 0x1_0040_0000, MemblockFlags::empty())
        .mem_bytes(0, 0x1_0040_0800, 0x1_2000_0000, MemblockFlags::HOTPLUG);
    layout.options.movable_node = true;
    assert_eq!(movable(&layout.amd64(V6_1)), [0x10_0400]);
    assert_eq!(movable(&layout.amd64(V6_12)), [0x10_0800]);
}

#[test]
fn e49_a_movable_start_beyond_its_node_is_none() {
    let g = hotplug(&[
        (0, 0x10_0000, 0x10_0200, false),
        (0, 0x10_0200, 0x10_0300, true),
    ])
    .amd64(V6_12);
    assert_eq!(movable(&g), [0]);
    assert_eq!(zones(&g, 0), [(Normal, 0x300, 0x300, 0x10_0000)]);
}

#[test]
fn e50_kernelcore_is_spread_over_the_nodes_after_what_lies_below_normal() {
    const G: u64 = 1 << 30;
    let a = [
        (0, 1, 0x9f),
        (0, 0x100, 0xc_0000),
        (0, 0x10_0000, 0x14_0000),
        (1, 0x14_0000, 0x24_0000),
    ];
    let b = [(0, 0, 0x4_0000), (1, 0x4_0000, 0x24_0000)];
    let c = [
        (0, 0, 0x40_0000),
        (1, 0x40_0000, 0x80_0000),
        (2, 0x80_0000, 0x84_0000),
    ];
    let core = |memory: &[(u16, u64, u64)], size| {
        let mut layout = Layout::of(memory);
        layout.options.kernelcore = Some(size);
        movable(&layout.amd64(V6_12))
    };
    assert_eq!(core(&a, CoreSize::Bytes(4 * G)), [0x12_0400, 0x16_0400]);
    assert_eq!(core(&a, CoreSize::Percent(50)), [0x12_0400, 0x16_0400]);
    assert_eq!(core(&a, CoreSize::Bytes(6 * G)), [0x10_0400, 0x20_0000]);
    let mut layout = Layout::of(&a);
    layout.options.movablecore = Some(CoreSize::Bytes(2 * G));
    assert_eq!(movable(&layout.amd64(V6_12)), [0x10_0400, 0x20_0000]);
    assert_eq!(core(&b, CoreSize::Bytes(4 * G)), [0, 0x10_0000]);
    assert_eq!(core(&b, CoreSize::Bytes(6 * G)), [0, 0x18_0000]);
    assert_eq!(core(&c, CoreSize::Bytes(12 * G)), [0x16_0000, 0x56_0000, 0]);
    assert_eq!(core(&c, CoreSize::Bytes(24 * G)), [0x2e_0000, 0x6e_0000, 0]);
}

#[test]
fn e51_movablecore_beyond_all_memory_gives_no_movable_zone() {
    let mut layout = Layout::of(&[(0, 0x100, 0xc_0000), (0, 0x10_0000, 0x20_0000)]);
    layout.options.movablecore = Some(CoreSize::Bytes(100 << 30));
    assert_eq!(movable(&layout.amd64(V6_12)), [0]);
    // the larger need of the kernel wins
    layout.options.movablecore = Some(CoreSize::Bytes(1 << 30));
    let alone = movable(&layout.amd64(V6_12));
    layout.options.kernelcore = Some(CoreSize::Bytes(1 << 30));
    assert_eq!(movable(&layout.amd64(V6_12)), alone);
    layout.options.kernelcore = Some(CoreSize::Bytes(100 << 30));
    assert_eq!(movable(&layout.amd64(V6_12)), [0]);
    layout.options.kernelcore = Some(CoreSize::Percent(101));
    assert!(matches!(
        memmap_core::Geometry::new(&Profile::amd64(V6_12), &layout.memblock, &layout.options),
        Err(GeometryError::TooManyPercent {
            option: "kernelcore",
            percent: 101
        })
    ));
}

#[test]
fn e52_a_node_without_memory_has_zones_without_pages() {
    let mut layout = Layout::of(&[(1, 0x100, 0x8_0000)]);
    layout.options.memoryless = vec![memblock::NodeId::new(0)];
    layout.options.offline = vec![memblock::NodeId::new(7)];
    for version in VERSIONS {
        let g = layout.amd64(version);
        assert_eq!(zones(&g, 0), []);
        assert!(g.nodes()[0].online && !g.nodes()[0].has_memory());
        assert_eq!((g.nodes()[2].id.get(), g.nodes()[2].online), (7, false));
        assert_eq!(deferred(&g, 0), None);
    }
}

#[test]
fn e53_memory_above_the_kernel_s_limit_is_in_no_zone() {
    let mut layout = Layout::of(&[(0, 0x100, 0x8_0000), (0, 0x10_0000, 0x20_0000)]);
    layout.options.max_low_pfn = Some(Pfn::new(0x18_0000));
    let sums = layout.amd64(V6_18);
    assert_eq!(
        zones(&sums, 0).last(),
        Some(&(Normal, 0x8_0000, 0x8_0000, 0x10_0000))
    );
    // where spans are summed, the node ends with its last zone, whose end may be late
    assert_eq!(sums.nodes()[0].spanned, 0x18_0000 - 0x100);
    assert_eq!(deferred(&sums, 0), Some(0x10_8000));
    assert_ne!(page(&sums, 0x19_0000), "0 Normal Free");
    let ends = layout.amd64(V6_12);
    assert_eq!(ends.nodes()[0].spanned, 0x20_0000 - 0x100);
    // and where it is end - start, no zone reaches the node's end: nothing is late
    assert_eq!(deferred(&ends, 0), None);
}

#[test]
fn e59_early_page_extensions_forbid_deferral() {
    let mut layout = Layout::of(&[(0, 0x10_0000, 0x20_0000)]);
    assert!(deferred(&layout.amd64(V6_12), 0).is_some());
    layout.options.early_page_ext = true;
    assert_eq!(deferred(&layout.amd64(V6_12), 0), None);
}

#[test]
fn e61_sections_of_alternating_nodes_are_runs_of_their_own() {
    let g = Layout::of(&[
        (0, 0, 0x8000),
        (1, 0x8000, 0x1_8000),
        (0, 0x1_8000, 0x2_0000),
    ])
    .amd64(V6_12);
    let runs: Vec<_> = g
        .sections()
        .runs()
        .iter()
        .map(|r| (r.first.0, r.count, r.early_node.get(), r.rank))
        .collect();
    assert_eq!(runs, [(0, 1, 0, 0), (1, 2, 1, 1), (3, 1, 0, 3)]);
    for (rank, section) in g.sections().iter().enumerate() {
        assert_eq!(g.sections().rank(section), Some(rank as u64));
        assert_eq!(g.sections().by_rank(rank as u64), Some(section));
    }
    assert_eq!(g.sections().by_rank(4), None);
}

#[test]
fn e62_the_alignment_that_tells_nodes_apart() {
    let shift =
        |memory: &[(u16, u64, u64)]| Layout::of(memory).amd64(V6_12).node_map_pfn_alignment();
    // nodes that meet at a multiple of 256 MiB
    assert_eq!(
        shift(&[(0, 0x100, 0x1_0000), (1, 0x1_0000, 0x4_0000)]),
        0x1_0000
    );
    assert_eq!(shift(&[(0, 0x100, 0x1_0000)]), 0);
    // a gap leaves room for a larger multiple, and the tightest border counts
    assert_eq!(
        shift(&[(0, 0x100, 0xc_0000), (1, 0x10_0000, 0x18_0000)]),
        0x10_0000
    );
    assert_eq!(
        shift(&[
            (0, 0x100, 0xc_0000),
            (1, 0x10_0000, 0x18_0100),
            (0, 0x18_0100, 0x20_0000)
        ]),
        0x100
    );
    // starts that are multiples of 2^31 pages
    let far = 1 << 33;
    assert_eq!(shift(&[(0, 0x100, 0x200), (1, far, far + 0x100)]), far);
}

#[test]
fn e65_tables_grow_with_the_address_width_and_usage_with_the_release() {
    let sections = |bits| {
        let mut config = Profile::amd64(V6_12).config().clone();
        config.max_physmem_bits = bits;
        config.nr_mem_sections()
    };
    assert_eq!((sections(46), sections(52)), (1 << 19, 1 << 25));
    assert_eq!(Profile::amd64(V6_12).section_usage_bytes(), 56);
    assert_eq!(Profile::amd64(V6_18).section_usage_bytes(), 88);
    for version in [V6_12, V7_3] {
        assert_eq!(Profile::arm64_16k(version).section_usage_bytes(), 32);
    }
}

#[test]
fn e64_pages_whose_owner_initialises_them_are_not_marked() {
    let mut layout = Layout::of(&[(0, 0x10_0000, 0x14_0000)]);
    for (start, end) in [(0x10_0200, 0x10_0400), (0x10_8200, 0x10_8400)] {
        layout
            .memblock
            .reserve_with(
                bytes(start << 12, end << 12),
                memblock::NodeMark::UNSET,
                MemblockFlags::RSRV_NOINIT,
            )
            .expect("memory can be reserved");
    }
    let g = layout.amd64(V6_12);
    assert_eq!(page(&g, 0x10_0200), "0 Normal Initialised");
    assert_eq!(page(&g, 0x10_8200), "0 Normal Untouched");
    // without deferral both are initialised
    let mut config = Profile::amd64(V6_12).config().clone();
    config.deferred_init = false;
    let g = layout.under(&config.build().expect("builds"));
    assert_eq!(page(&g, 0x10_8200), "0 Normal Initialised");
}

#[test]
fn e65_memory_above_the_address_width_is_clipped_and_reported() {
    let top = 1 << (46 - 12);
    let layout = Layout::of(&[(0, 0x100, 0x8_0000), (0, top - 0x8000, top + 0x8000)]);
    let g = layout.amd64(V6_12);
    assert_eq!(g.sections().beyond(), [pfns(top, top + 0x8000)]);
    assert_eq!(page(&g, top), "invalid");
    assert_ne!(page(&g, top - 1), "invalid");
    let mut config = Profile::amd64(V6_12).config().clone();
    config.max_physmem_bits = 52;
    let g = layout.under(&config.build().expect("five levels build"));
    assert!(g.sections().beyond().is_empty());
    assert_ne!(page(&g, top), "invalid");
}

#[test]
fn e66_arm64_with_64k_pages_counts_8192_pages_a_section() {
    let mut layout = Layout::new(16);
    layout.mem(0, 0x4000, 0x4000 + 4 * 8192 + 5, MemblockFlags::empty());
    let mut config = Profile::arm64_64k(V6_12).config().clone();
    config.zones = memmap_core::ZoneSet::new(&[]);
    let g = layout.under(&config.build().expect("builds"));
    assert_eq!(deferred(&g, 0), Some(0x4000 + 8192));
    assert_eq!(holes(&g), [(0, Normal, 8192 - 5)]);
}

#[test]
fn e69_a_partial_last_page_is_a_gap() {
    let mut layout = Layout::new(12);
    layout
        .mem_bytes(0, 0x1000, 0x9fc00, MemblockFlags::empty())
        .mem_bytes(0, 0x10_0000, 0x800_0000, MemblockFlags::empty());
    let g = layout.amd64(V6_12);
    assert_eq!(g.memory()[0].pfns, pfns(1, 0x9f));
    assert_eq!(page(&g, 0x9f), "0 DMA Hole");
}

#[test]
fn gaps_of_published_boots() {
    // Hyper-V kdump kernel: a gap that begins in node 0's section is charged to node 3
    let g = Layout::of(&[
        (0, 1, 0xa0),
        (0, 0x1d000, 0x2d000),
        (3, 0x3c27_f000, 0x3c2b_ef5d),
    ])
    .amd64(KernelVersion::new(5, 15));
    assert_eq!(
        holes(&g),
        [
            (0, Dma, 1),
            (0, Dma32, 53088),
            (3, Normal, 40960),
            (3, Normal, 4259)
        ]
    );
    // 32-GiB guest
    let g = Layout::of(&[(0, 1, 0x9f), (0, 0x100, 0xbffd7), (0, 0x10_0000, 0x84_0000)]).amd64(V6_1);
    assert_eq!(holes(&g), [(0, Dma, 1), (0, Dma, 97), (0, Normal, 41)]);
    assert_eq!(g.nodes()[0].present, 8_388_469);
    // i.MX8: arm64, one range in zone DMA
    let mut layout = Layout::new(12);
    layout.mem(0, 0x4_0000, 0xb_fe7a, MemblockFlags::empty());
    let g = layout.under(&Profile::arm64_4k(V6_1));
    assert_eq!(holes(&g), [(0, Dma, 390)]);
    assert_eq!(g.nodes()[0].present, 523_898);
}

#[test]
fn memory_without_a_node_is_refused_where_other_memory_has_one() {
    let mut layout = Layout::of(&[(1, 0x10_0000, 0x11_0000)]);
    layout
        .memblock
        .add(bytes(0x2000_0000, 0x3000_0000))
        .expect("memory can be added");
    let error =
        memmap_core::Geometry::new(&Profile::amd64(V6_12), &layout.memblock, &layout.options);
    assert_eq!(
        error.unwrap_err(),
        GeometryError::MemoryWithoutNode {
            pfns: pfns(0x2_0000, 0x3_0000)
        }
    );
    let layout = Layout::of(&[(1024, 0x10_0000, 0x11_0000)]);
    let error =
        memmap_core::Geometry::new(&Profile::amd64(V6_12), &layout.memblock, &layout.options);
    assert!(matches!(error, Err(GeometryError::NodeTooLarge { .. })));
}

#[test]
fn the_kinds_of_a_plain_machine_are_free_reserved_and_hole() {
    let mut layout = Layout::of(&[(0, 1, 0x9f), (0, 0x100, 0x7ffe0)]);
    layout.reserve(0x1000, 0x3c11).reserve(0, 0x100);
    let g = layout.amd64(V6_12);
    assert!(g.page_runs().iter().all(|run| matches!(
        run.kind,
        PageKind::Free | PageKind::Reserved | PageKind::Hole
    )));
    let covered: u64 = g.page_runs().iter().map(|run| run.pfns.len()).sum();
    assert_eq!(covered, g.sections().count() * 0x8000);
}
