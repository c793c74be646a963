//! What a kernel would print, for machines whose lines were published.

mod support;

use expect_test::{Expect, expect};
use memblock::{MemblockFlags, NodeId};
use memmap_core::{CoreSize, Geometry, KernelVersion, Profile};
use support::*;

fn check(geometry: &Geometry, expected: Expect) {
    let lines: Vec<_> = geometry
        .boot_lines()
        .iter()
        .map(|line| format!("{line}\n"))
        .collect();
    expected.assert_eq(&lines.concat());
}

#[test]
fn a_guest_of_32_gib_with_an_old_kernel() {
    let mut layout = Layout::of(&[(0, 1, 0x9f), (0, 0x100, 0xbffd7), (0, 0x10_0000, 0x84_0000)]);
    layout.options.dma_reserve = Some(21);
    check(
        &layout.amd64(KernelVersion::V6_1),
        expect![[r#"
            Zone ranges:
              DMA      [mem 0x0000000000001000-0x0000000000ffffff]
              DMA32    [mem 0x0000000001000000-0x00000000ffffffff]
              Normal   [mem 0x0000000100000000-0x000000083fffffff]
              Device   empty
            Movable zone start for each node
            Early memory node ranges
              node   0: [mem 0x0000000000001000-0x000000000009efff]
              node   0: [mem 0x0000000000100000-0x00000000bffd6fff]
              node   0: [mem 0x0000000100000000-0x000000083fffffff]
            Initmem setup node 0 [mem 0x0000000000001000-0x000000083fffffff]
            On node 0 totalpages: 8388469
              DMA zone: 64 pages used for memmap
              DMA zone: 21 pages reserved
              DMA zone: 3998 pages, LIFO batch:0
              DMA32 zone: 12224 pages used for memmap
              DMA32 zone: 782295 pages, LIFO batch:63
              Normal zone: 118784 pages used for memmap
              Normal zone: 7602176 pages, LIFO batch:63
            On node 0, zone DMA: 1 pages in unavailable ranges
            On node 0, zone DMA: 97 pages in unavailable ranges
            On node 0, zone Normal: 41 pages in unavailable ranges
            Built 1 zonelists, mobility grouping on.  Total pages: 8257376
            Policy zone: Normal
        "#]],
    );
}

#[test]
fn e75_a_tiny_zone_moves_one_page_at_a_time_since_6_19() {
    let layout = Layout::of(&[(0, 1, 0x9f), (0, 0x100, 0x2000)]);
    let batch = |version| {
        let lines: Vec<_> = layout
            .amd64(version)
            .boot_lines()
            .iter()
            .map(ToString::to_string)
            .collect();
        lines
            .into_iter()
            .find(|line| line.contains("LIFO"))
            .expect("there is a zone")
    };
    assert_eq!(
        batch(KernelVersion::V6_18),
        "  DMA zone: 3998 pages, LIFO batch:0"
    );
    assert_eq!(
        batch(KernelVersion::V7_3),
        "  DMA zone: 3998 pages, LIFO batch:1"
    );
}

#[test]
fn nodes_without_memory_and_movable_starts_are_said() {
    let mut layout = Layout::of(&[(1, 0x100, 0xc_0000), (1, 0x10_0000, 0x20_0000)]);
    layout.options.memoryless = vec![NodeId::new(0)];
    layout.options.offline = vec![NodeId::new(2)];
    layout.options.movablecore = Some(CoreSize::Bytes(1 << 30));
    let shown = |version| {
        let lines = layout.amd64(version).boot_lines();
        lines
            .iter()
            .filter(|line| !line.is_debug())
            .map(ToString::to_string)
            .filter(|line| {
                line.contains("ode") && !line.contains("mem 0x0000000000100000-0x00000000b")
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        shown(KernelVersion::V6_12),
        [
            "Movable zone start for each node",
            "  Node 1: 0x00000001c0000000",
            "Early memory node ranges",
            "  node   1: [mem 0x0000000100000000-0x00000001ffffffff]",
            "Initmem setup node 0 as memoryless",
            "Initmem setup node 1 [mem 0x0000000000100000-0x00000001ffffffff]",
            "Initmem setup node 2 as memoryless",
            "On node 1, zone DMA: 256 pages in unavailable ranges",
        ]
    );
    assert!(shown(KernelVersion::V6_1).contains(&"Initializing node 2 as memoryless".to_owned()));
}

#[test]
fn zoneinfo_shows_what_depends_on_memory_alone() {
    let mut layout = Layout::of(&[(0, 1, 0x9f), (0, 0x100, 0x7ffe0)]);
    layout.reserve(0, 0x100).reserve(0x2000, 0x3000);
    let text = layout.amd64(KernelVersion::V6_12).zoneinfo().to_string();
    expect![[r#"
        Node 0, zone      DMA
                spanned  4095
                present  3998
                managed  3840
          start_pfn:           1
        Node 0, zone    DMA32
                spanned  520160
                present  520160
                managed  516064
          start_pfn:           4096
        Node 0, zone   Normal
                spanned  0
                present  0
                managed  0
        Node 0, zone  Movable
                spanned  0
                present  0
                managed  0
        Node 0, zone   Device
                spanned  0
                present  0
                managed  0
    "#]]
    .assert_eq(&text);
}

#[test]
fn arm64_zones_end_where_devices_stop_reaching() {
    let zones = |version, start: u64, end: u64, limit: Option<u64>| {
        let mut layout = Layout::new(12);
        layout.mem_bytes(0, start, end, MemblockFlags::empty());
        layout.options.dma_limit = limit.map(memblock::PhysAddr::new);
        let geometry = layout.under(&Profile::arm64_4k(version));
        let lines = geometry.boot_lines();
        lines[1..4]
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("|")
    };
    let (v6_1, v6_12) = (KernelVersion::V6_1, KernelVersion::V6_12);
    for version in [v6_1, v6_12] {
        // 1 GiB at 1 GiB: all in DMA
        assert_eq!(
            zones(version, 0x4000_0000, 0x8000_0000, None),
            "  DMA      [mem 0x0000000040000000-0x000000007fffffff]|  DMA32    empty|  Normal   empty"
        );
        // a board whose devices reach 1 GiB
        assert_eq!(
            zones(version, 0, 0x2_0000_0000, Some(0x3fff_ffff)),
            "  DMA      [mem 0x0000000000000000-0x000000003fffffff]|\
             \x20 DMA32    [mem 0x0000000040000000-0x00000000ffffffff]|\
             \x20 Normal   [mem 0x0000000100000000-0x00000001ffffffff]"
        );
        // all memory above 4 GiB: no device reaches less
        assert_eq!(
            zones(version, 0x10_0000_0000, 0x11_0000_0000, None),
            "  DMA      [mem 0x0000001000000000-0x00000010ffffffff]|  DMA32    empty|  Normal   empty"
        );
    }
    // memory above a limit of 31 bits: by bits DMA then reaches 4 GiB, by address it is empty
    assert!(
        zones(v6_1, 0x8000_0000, 0x2_0000_0000, Some(0x7fff_ffff))
            .starts_with("  DMA      [mem 0x0000000080000000-0x00000000ffffffff]|  DMA32    empty")
    );
    assert!(
        zones(v6_12, 0x8000_0000, 0x2_0000_0000, Some(0x7fff_ffff))
            .starts_with("  DMA      empty|  DMA32    [mem 0x0000000080000000-0x00000000ffffffff]")
    );
}
