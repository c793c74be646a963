//! What becomes of pages at hand-over.

use crate::common::{bounds, f, n, r, regions};
use crate::{ALL, free_pfns, mem_pfns, memory, pfns};
use memblock::{
    Behaviour, FreeBlock, LateFree, Memblock, MemblockError, MemblockFlags, Pfn, ReservedRun, Which,
};

/// E-20: ACPI tables behind the last memory page.
#[test]
fn a_reservation_outside_memory_has_the_node_of_the_firmware_or_none() {
    for behaviour in ALL {
        let mut m = memory(behaviour, &[(0x10_0000, 0x7ffe_0000)]);
        m.set_node(r(0, u64::MAX), Which::Memory, n(1)).unwrap();
        m.reserve(r(0x7ffe_0000, 0x7ffe_2000)).unwrap();
        let without = m.clone().hand_over(12).unwrap();
        assert_eq!(
            without,
            [ReservedRun {
                pfns: pfns(0x7ffe0, 0x7ffe2),
                node: None,
                nomap: false
            }]
        );
        // with an SRAT the range of the node covers the tables too
        m.set_node(r(0, 0x8000_0000), Which::Reserved, n(1))
            .unwrap();
        let with = m.hand_over(12).unwrap();
        let node = (behaviour != Behaviour::V6_1).then_some(n(1));
        assert_eq!(with[0].node, node, "{behaviour:?}");
    }
}

/// E-21
#[test]
fn memory_outside_the_direct_mapping_is_present_and_reserved_and_never_free() {
    for behaviour in ALL {
        let mut m = memory(behaviour, &[(0x10_0000, 0x50_0000)]);
        m.set_node(r(0, u64::MAX), Which::Memory, n(0)).unwrap();
        m.mark_nomap(r(0x20_0000, 0x20_1800)).unwrap();
        assert_eq!(
            mem_pfns(&m),
            [(0x100, 0x200), (0x200, 0x201), (0x202, 0x500)]
        );
        assert_eq!(free_pfns(&m), [(0x100, 0x200), (0x202, 0x500)]);
        assert_eq!(m.mem_ranges().count(), 2);
        let run = ReservedRun {
            pfns: pfns(0x200, 0x202),
            node: Some(n(0)),
            nomap: true,
        };
        let frames: u64 = m
            .hand_over(12)
            .unwrap()
            .iter()
            .map(|it| {
                assert!(it.nomap);
                it.pfns.len()
            })
            .sum();
        assert_eq!(frames, run.pfns.len());
    }
}

/// E-22
#[test]
fn driver_managed_memory_is_neither_free_nor_reserved() {
    for behaviour in ALL {
        let mut m = memory(behaviour, &[(0x10_0000, 0x20_0000)]);
        m.add_node(r(0x20_0000, 0x30_0000), n(0), MemblockFlags::DRIVER_MANAGED)
            .unwrap();
        assert_eq!(mem_pfns(&m), [(0x100, 0x200), (0x200, 0x300)]);
        assert_eq!(free_pfns(&m), [(0x100, 0x200)]);
        assert_eq!(m.mem_ranges().count(), 2);
        assert_eq!(m.hand_over(12).unwrap(), []);
    }
}

/// E-23
#[test]
fn partial_pages_are_no_memory_and_wholly_reserved() {
    let mut m = memory(Behaviour::V6_12, &[(0x1800, 0x5800)]);
    m.reserve(r(0x3100, 0x3200)).unwrap();
    assert_eq!(mem_pfns(&m), [(2, 5)]);
    assert_eq!(m.hand_over(12).unwrap()[0].pfns, pfns(3, 4));
    assert_eq!(free_pfns(&m), [(2, 3), (4, 5)]);
}

/// E-24
#[test]
fn memory_without_a_whole_page_counts_in_the_size_alone() {
    let m = memory(Behaviour::V6_12, &[(0x1800, 0x2800)]);
    assert_eq!(mem_pfns(&m), []);
    assert_eq!(free_pfns(&m), []);
    assert_eq!(m.phys_mem_size(), 0x1000);
}

/// E-31
#[test]
fn freeing_late_loses_deferred_pages_and_since_7_1_refuses_them() {
    let range = r(0x2800, 0x6000);
    let mut m = memory(Behaviour::V6_18, &[(0, 0x10000)]);
    m.reserve(range).unwrap();
    let late = LateFree {
        pfns: pfns(3, 6),
        counted: true,
        refused: false,
    };
    assert_eq!(m.free_late(range, 12, true).unwrap(), late);
    assert_eq!(bounds(m.reserved()), [(0x2800, 0x6000)]);

    let mut m = memory(Behaviour::V7_3, &[(0, 0x10000)]);
    m.reserve(range).unwrap();
    let mut unkept = m.clone();
    unkept.settings_mut().keep_memblock = false;
    assert_eq!(m.free_late(range, 12, false).unwrap(), late);
    assert!(m.reserved().is_empty());
    let refused = LateFree {
        counted: false,
        refused: true,
        ..late
    };
    assert_eq!(unkept.free_late(range, 12, true).unwrap(), refused);
    assert_eq!(bounds(unkept.reserved()), [(0x2800, 0x6000)]);
}

/// E-41
#[test]
fn a_reservation_over_two_nodes_is_cut_between_them() {
    for behaviour in ALL {
        let mut m = Memblock::new(behaviour);
        m.add_node(r(0x10_0000, 0x20_0000), n(0), f(0)).unwrap();
        m.add_node(r(0x20_0000, 0x30_0000), n(1), f(0)).unwrap();
        m.reserve(r(0x1f_c000, 0x20_4000)).unwrap();
        let runs = m.hand_over(12).unwrap();
        let run = |pfns, node| ReservedRun {
            pfns,
            node: Some(n(node)),
            nomap: false,
        };
        assert_eq!(
            runs,
            [run(pfns(0x1fc, 0x200), 0), run(pfns(0x200, 0x204), 1)]
        );
        let pieces = if behaviour == Behaviour::V6_1 { 1 } else { 2 };
        assert_eq!(m.reserved().len(), pieces);
    }
}

/// The size that 6.5 to 6.14 got wrong reaches reservations outside memory alone.
#[test]
fn the_wrong_size_of_6_5_gives_nodes_to_reservations_outside_memory() {
    let mut behaviour = Behaviour::V6_12;
    behaviour.reserved_node = memblock::ReservedNode::PerRegion { end_as_size: true };
    let mut m = Memblock::new(behaviour);
    m.add_node(r(0x10_0000, 0x20_0000), n(0), f(0)).unwrap();
    m.add_node(r(0x20_0000, 0x30_0000), n(1), f(0)).unwrap();
    m.reserve(r(0x1f_c000, 0x20_4000)).unwrap();
    m.reserve(r(0x38_0000, 0x38_1000)).unwrap();
    m.hand_over(12).unwrap();
    assert_eq!(
        regions(m.reserved()),
        [
            (0x1f_c000, 0x20_0000, Some(0), 0),
            (0x20_0000, 0x20_4000, Some(1), 0),
            (0x38_0000, 0x38_1000, Some(1), 0),
        ]
    );
}

/// E-64
#[test]
fn reservations_whose_owner_makes_the_struct_pages_are_not_marked() {
    let mut m = memory(Behaviour::V6_12, &[(0, 0x8000_0000)]);
    m.reserve(r(0x4000_0000, 0x8000_0000)).unwrap();
    m.reserved_mark_noinit(r(0x4000_1000, 0x8000_0000)).unwrap();
    let runs = m.hand_over(12).unwrap();
    assert_eq!(
        runs.iter().map(|run| run.pfns).collect::<Vec<_>>(),
        [pfns(0x40000, 0x40001)]
    );
    assert_eq!(free_pfns(&m), [(0, 0x40000)]);
    assert_eq!(
        Memblock::new(Behaviour::V6_1).reserved_mark_noinit(r(0, 1)),
        Err(MemblockError::UnknownFlag {
            flags: MemblockFlags::RSRV_NOINIT
        })
    );
}

#[test]
fn hot_pluggable_memory_is_left_alone_with_movable_node_until_hand_over() {
    let mut m = memory(Behaviour::V6_12, &[(0x1000, 0x10000)]);
    m.mark_hotplug(r(0x8000, 0x10000)).unwrap();
    assert_eq!(free_pfns(&m), [(1, 8), (8, 16)]);
    m.settings_mut().movable_node = true;
    assert_eq!(free_pfns(&m), [(1, 8)]);
    m.hand_over(12).unwrap();
    assert_eq!(free_pfns(&m), [(1, 16)]);
}

#[test]
fn free_blocks_are_the_largest_aligned_ones() {
    let mut m = memory(Behaviour::V6_12, &[(0, 0x0180_7000)]);
    m.reserve(r(0x1000, 0x2000)).unwrap();
    let blocks: Vec<_> = m
        .free_blocks(12, 10, None)
        .map(|FreeBlock { pfn, order }| (pfn.get(), order))
        .collect();
    assert_eq!(blocks[..4], [(0, 0), (2, 1), (4, 2), (8, 3)]);
    assert_eq!(blocks[9..12], [(0x200, 9), (0x400, 10), (0x800, 10)]);
    assert_eq!(
        blocks[blocks.len() - 3..],
        [(0x1800, 2), (0x1804, 1), (0x1806, 0)]
    );
    let total: u64 = blocks.iter().map(|it| 1 << it.1).sum();
    assert_eq!(total, 0x1806);
    let low = m.free_blocks(12, 10, Some(Pfn::new(4)));
    assert_eq!(low.count(), 2);
    let whole = memory(Behaviour::V6_1, &[(0, 0x80_0000)]);
    assert_eq!(
        whole.free_blocks(12, 10, None).next().map(|it| it.order),
        Some(10)
    );
}
