//! Layouts of public bug reports, and what a correct memory map yields for them.

mod support;

use memblock::{MemblockFlags, NodeId, Pfn, PhysAddr};
use memmap_core::{
    KernelConfig, KernelVersion, MemoryModel, PageKind, Profile, SectionNr, ZoneKind, ZoneSet,
};
use support::*;

const V6_12: KernelVersion = KernelVersion::V6_12;

fn profile(base: Profile, change: impl FnOnce(&mut KernelConfig)) -> Profile {
    let mut config = base.config().clone();
    change(&mut config);
    config.build().expect("the profile builds")
}

#[test]
fn arm64_frames_that_are_not_mapped_have_reserved_struct_pages() {
    // ranges without a map, smaller than a block, inside RAM
    let mut layout = Layout::of(&[]);
    layout
        .mem(0, 0x4_0000, 0x4_0123, MemblockFlags::empty())
        .mem(0, 0x4_0123, 0x4_0130, MemblockFlags::NOMAP)
        .mem(0, 0x4_0130, 0x5_0000, MemblockFlags::empty());
    let geometry = layout.under(&Profile::arm64_4k(V6_12));
    assert_eq!(page(&geometry, 0x4_0123), "0 DMA NoMap");
    assert_eq!(page(&geometry, 0x4_0130), "0 DMA Free");
    assert!(
        geometry
            .page_runs()
            .iter()
            .all(|run| run.kind != PageKind::Untouched)
    );
}

#[test]
fn half_a_section_is_online_only_where_its_2_mib_have_memory() {
    let geometry = Layout::of(&[(0, 0x9_8000, 0x9_d200)]).amd64(V6_12);
    for (pfn, online) in [
        (0x9_8000, true),
        (0x9_d1ff, true),
        (0x9_d200, false),
        (0x9_ffff, false),
    ] {
        assert_eq!(
            geometry.subsection_has_memory(Pfn::new(pfn)),
            online,
            "{pfn:#x}"
        );
        assert!(
            geometry.sections().is_valid(Pfn::new(pfn)),
            "a boot-time section is valid whole"
        );
    }
}

#[test]
fn alpha_zone_limits_cover_all_memory_with_pages_of_8_kib() {
    let profile = profile(Profile::amd64(V6_12), |c| {
        c.page_shift = 13;
        c.section_bits = 30;
        c.zones = ZoneSet::new(&[ZoneKind::Dma]);
    });
    let mut layout = Layout::new(13);
    layout
        .mem_bytes(0, 0, 0x2_0000_0000, MemblockFlags::empty())
        .mem_bytes(0, 0x4_0000_0000, 0x6_0000_0000, MemblockFlags::empty());
    let geometry = layout.under(&profile);
    let present: u64 = geometry.nodes().iter().map(|node| node.present).sum();
    assert_eq!(present, (16 << 30) >> 13);
    assert_eq!(page(&geometry, 0x2f_fc3f), "0 Normal Free");
}

#[test]
fn polarfire_counts_61_gib_of_a_gap_only_with_one_flat_array() {
    let mut layout = Layout::new(12);
    layout
        .mem_bytes(0, 0x8020_0000, 0xae00_0000, MemblockFlags::empty())
        .mem_bytes(0, 0x10_0000_0000, 0x10_4000_0000, MemblockFlags::empty());
    let version = KernelVersion::new(5, 19);
    let flat = profile(Profile::riscv64(version), |c| {
        c.memory_model = MemoryModel::Flat;
        c.nodes_shift = 0;
        c.numa_balancing = false;
        c.deferred_init = false;
    });
    assert_eq!(
        holes(&layout.under(&flat)),
        [(0, ZoneKind::Normal, 16_064_512)]
    );
    // with sections only what lies in present ones is counted
    let sparse = layout.under(&Profile::riscv64(version));
    assert_eq!(
        holes(&sparse),
        [(0, ZoneKind::Dma32, 0x200), (0, ZoneKind::Normal, 0x2000)]
    );
}

#[test]
fn nodes_whose_spans_overlap_keep_their_own_frames() {
    // node 0: 0000 xxxx 0000 xxxx, node 1: xxxx 1111 xxxx 1111
    let n = 0x10_0000;
    let layout = Layout::of(&[
        (0, n, n + 0x8000),
        (1, n + 0x8000, n + 0x1_0000),
        (0, n + 0x1_0000, n + 0x1_8000),
        (1, n + 0x1_8000, n + 0x2_0000),
    ]);
    for version in VERSIONS {
        let geometry = layout.amd64(version);
        for stripe in 0..4 {
            let expected = format!("{} Normal Free", stripe % 2);
            for pfn in [n + stripe * 0x8000, n + stripe * 0x8000 + 0x7fff] {
                assert_eq!(page(&geometry, pfn), expected, "{version}");
            }
        }
        assert_eq!(zones(&geometry, 0)[0].1, 0x1_8000);
        assert_eq!(zones(&geometry, 0)[0].2, 0x1_0000);
    }
}

#[test]
fn power9_node_0_without_memory_has_empty_zones() {
    let mut layout = Layout::new(16);
    layout
        .mem_bytes(1, 0, 0x1_0000_0000, MemblockFlags::empty())
        .mem_bytes(
            1,
            0x2000_0000_0000,
            0x2001_0000_0000,
            MemblockFlags::empty(),
        );
    layout.options.memoryless = vec![NodeId::new(0)];
    let geometry = layout.under(&Profile::ppc64_64k(V6_12));
    let node = geometry.node(NodeId::new(0)).expect("it is online");
    assert_eq!(
        (node.present, node.spanned, node.first_deferred),
        (0, 0, None)
    );
    assert!(!node.has_memory() && !node.has_normal_memory());
    let lines: Vec<_> = geometry
        .boot_lines()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(lines.contains(&"Initmem setup node 0 as memoryless".to_owned()));
    assert!(lines.contains(&"On node 1 totalpages: 131072".to_owned()));
}

#[test]
fn firmware_that_puts_all_memory_on_one_node_gives_three_without() {
    let mut layout = Layout::of(&[(0, 0x100, 0xc_0000), (0, 0x10_0000, 0x200_0000)]);
    layout.options.memoryless = (1..4).map(NodeId::new).collect();
    let geometry = layout.amd64(V6_12);
    let with: Vec<_> = geometry
        .nodes()
        .iter()
        .map(|node| node.has_memory())
        .collect();
    assert_eq!(with, [true, false, false, false]);
}

#[test]
fn an_inclusive_end_is_no_overlap_of_the_next_node() {
    // node 0 [0x100000000-0xffffffffff], window of node 1 [0x10000000000-0x1ffffffffff]
    let geometry =
        Layout::of(&[(0, 0x10_0000, 0x1000_0000), (1, 0x1000_0000, 0x1001_0000)]).amd64(V6_12);
    assert_eq!(page(&geometry, 0xfff_ffff), "0 Normal Free");
    assert_eq!(page(&geometry, 0x1000_0000), "1 Normal Free");
}

#[test]
fn a_reservation_below_all_memory_has_no_node_and_harms_nothing() {
    // loongson64: memory starts at 2 MiB, reserved from 0
    for version in VERSIONS {
        let mut layout = Layout::of(&[(0, 0x200, 0xf000), (1, 0x9_0000, 0xb_0000)]);
        layout.reserve_bytes(0, 0x190_c80a);
        let geometry = layout.amd64(version);
        assert_eq!(page(&geometry, 0), "0 DMA Hole");
        assert_eq!(page(&geometry, 0x1ff), "0 DMA Hole");
        assert_eq!(page(&geometry, 0x200), "0 DMA Reserved");
        assert_eq!(page(&geometry, 0x190c), "0 DMA32 Reserved");
        assert_eq!(page(&geometry, 0x190d), "0 DMA32 Free");
    }
}

#[test]
fn a_dma_limit_below_the_start_of_memory_leaves_zone_dma_empty_or_whole() {
    // RAM from 2 GiB, devices reach 30 bits
    let mut layout = Layout::new(12);
    layout.mem_bytes(0, 0x8000_0000, 0x4_0000_0000, MemblockFlags::empty());
    layout.options.dma_limit = Some(PhysAddr::new(0x3fff_ffff));
    let zone = |version| {
        let geometry = layout.under(&Profile::arm64_4k(version));
        zones(&geometry, 0)
            .iter()
            .map(|zone| zone.0)
            .collect::<Vec<_>>()
    };
    use ZoneKind::{Dma, Dma32, Normal};
    assert_eq!(zone(KernelVersion::V6_1), [Dma, Normal]);
    assert_eq!(zone(V6_12), [Dma32, Normal]);
}

#[test]
fn a_contiguous_area_over_two_zones_is_seen_at_its_first_frame_of_the_second() {
    // Stingray: DMA32 starts at 0xc0000000, the area is 0xa0000000-0xdfffffff
    let mut layout = Layout::new(12);
    layout.mem_bytes(0, 0x8000_0000, 0x1_0000_0000, MemblockFlags::empty());
    layout.options.dma_limit = Some(PhysAddr::new(0xbfff_ffff));
    let geometry = layout.under(&Profile::arm64_4k(V6_12));
    let zone_of = |pfn| {
        geometry.nodes()[0]
            .zone_of(Pfn::new(pfn))
            .map(|zone| zone.kind)
    };
    let first = (0xa_0000..0xe_0000).find(|pfn| zone_of(*pfn) != zone_of(0xa_0000));
    assert_eq!(first, Some(0xc_0000));
}

#[test]
fn a_twelve_terabyte_machine_has_its_published_figures() {
    // 16 nodes of 768 GiB, struct pages of 56 bytes
    let node_pages = 201_326_592;
    let mut layout = Layout::of(&[]);
    for node in 0..16 {
        let start = 0x10_0000 + u64::from(node) * node_pages;
        layout.mem(node, start, start + node_pages, MemblockFlags::empty());
    }
    let profile = profile(Profile::amd64(KernelVersion::V6_1), |c| {
        c.struct_page_bytes = 56;
        c.memcg = false;
    });
    let geometry = layout.under(&profile);
    for node in geometry.nodes() {
        assert_eq!(node.present, node_pages);
        let first = node.first_deferred.expect("most of it is late");
        assert_eq!(first.get() - node.span.start().get(), 0x8000);
    }
    let lines: Vec<_> = geometry
        .boot_lines()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(lines.contains(&"  Normal zone: 2752512 pages used for memmap".to_owned()));
    // the geometry of 12 TiB is a few runs
    assert!(
        geometry.page_runs().len() <= 3 * 16,
        "{}",
        geometry.page_runs().len()
    );
}

#[test]
fn a_crash_kernel_on_a_fragment_has_one_node_and_its_gap() {
    // Ampere: node 0 [0x88300000-0xbfffffff] alone, node 1 without memory
    let mut layout = Layout::new(12);
    layout.mem_bytes(0, 0x8830_0000, 0xc000_0000, MemblockFlags::empty());
    layout.options.memoryless = vec![NodeId::new(1)];
    let geometry = layout.under(&Profile::arm64_4k(V6_12));
    assert_eq!(
        geometry.nodes()[0].present,
        (0xc000_0000u64 - 0x8830_0000) >> 12
    );
    assert_eq!(holes(&geometry), [(0, ZoneKind::Dma, 0x300)]);
    assert!(!geometry.nodes()[1].has_memory());
}

#[test]
fn absent_sections_are_skipped_and_the_highest_one_follows_from_the_last_frame() {
    let geometry = Layout::of(&[(0, 0x100, 0x8_0000), (0, 0x100_0000, 0x101_0001)]).amd64(V6_12);
    let last = geometry.sections().iter().last();
    assert_eq!(last, Some(SectionNr(0x101_0000 / 0x8000)));
    assert_eq!(geometry.sections().count(), 16 + 3);
    assert_eq!(geometry.section_table_node(SectionNr(0x20)), None);
}
