//! Known edge cases and historical bugs, each by what went wrong or what surprises.

mod common;

use common::{bounds, f, n, r, regions};
use memblock::{
    AllocError, AllocRequest, Behaviour, FreeBlock, Growth, LateFree, Memblock, MemblockError,
    MemblockFlags, NodeChoice, NodeId, NodeMark, Pfn, PfnRange, PhysAddr, PhysRange, ReservedRun,
    Which,
};

const ALL: [Behaviour; 4] = [
    Behaviour::V6_1,
    Behaviour::V6_12,
    Behaviour::V6_18,
    Behaviour::V7_3,
];

fn pfns(start: u64, end: u64) -> PfnRange {
    PfnRange::new(Pfn::new(start), Pfn::new(end))
}

fn memory(behaviour: Behaviour, ranges: &[(u64, u64)]) -> Memblock {
    let mut m = Memblock::new(behaviour);
    for &(start, end) in ranges {
        m.add(r(start, end)).unwrap();
    }
    m
}

fn mem_pfns(m: &Memblock) -> Vec<(u64, u64)> {
    m.mem_pfn_ranges(12, None)
        .map(|it| (it.0.start().get(), it.0.end().get()))
        .collect()
}

fn free_pfns(m: &Memblock) -> Vec<(u64, u64)> {
    m.free_pfn_ranges(12, pfns(0, u64::MAX), None)
        .map(|it| (it.start().get(), it.end().get()))
        .collect()
}

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

/// E-39: wherever the 129th reservation goes, and although the only other free memory is the one
/// that is being reserved.
#[test]
fn the_grown_array_never_lies_under_the_reservation_that_made_it_grow() {
    for behaviour in ALL {
        for gap in 0..=128u64 {
            let mut m = Memblock::with_growth(behaviour, Growth::KERNEL);
            m.allow_resize();
            m.add(r(0x10_0000, 0x20_0000)).unwrap();
            let place = |index: u64| r(0x10_0000 + index * 0x1000, 0x10_0000 + index * 0x1000 + 8);
            for index in (0..=128).filter(|&index| index != gap) {
                m.reserve(place(index)).unwrap();
            }
            assert_eq!(
                (m.reserved().len(), m.capacity(Which::Reserved)),
                (128, Some(128))
            );
            m.reserve(place(gap)).unwrap();
            assert_eq!(
                (m.reserved().len(), m.capacity(Which::Reserved)),
                (130, Some(256))
            );
            let array = m.array_place(Which::Reserved).unwrap();
            assert_eq!((array.start().get() % 4096, array.len()), (0, 8192));
            assert!(!array.overlaps(place(gap)));
            assert!(m.reserved().contains_range(array));
        }
        // two pages are free above and two below; the upper ones are being reserved
        let mut m = Memblock::with_growth(behaviour, Growth::KERNEL);
        m.allow_resize();
        m.add(r(0x10_0000, 0x10_4000)).unwrap();
        for index in 0..128 {
            m.reserve(r(0x20_0000 + index * 16, 0x20_0008 + index * 16))
                .unwrap();
        }
        m.reserve(r(0x10_2000, 0x10_4000)).unwrap();
        assert_eq!(
            m.array_place(Which::Reserved),
            Some(r(0x10_0000, 0x10_2000))
        );
    }
}

#[test]
fn a_full_array_that_may_not_grow_refuses_and_nothing_changes() {
    for behaviour in ALL {
        let mut m = Memblock::with_growth(behaviour, Growth::KERNEL);
        for index in 0..128 {
            m.add(r(index * 0x2000, index * 0x2000 + 0x1000)).unwrap();
        }
        let before = m.clone();
        let full = MemblockError::ArrayFull {
            which: Which::Memory,
            capacity: 128,
            kernel_panics: behaviour != Behaviour::V6_1,
        };
        assert_eq!(m.add(r(0x100_0000, 0x100_1000)), Err(full));
        // a removal asks for room for two cuts, whether it will need them or not
        assert_eq!(m.remove(r(0, 0x1000)), Err(full));
        assert_eq!(m, before);
        m.allow_resize();
        m.reserve(r(0, u64::MAX)).unwrap();
        assert!(matches!(
            m.add(r(0x100_0000, 0x100_1000)),
            Err(MemblockError::NoRoomForArray {
                which: Which::Memory,
                capacity: 128,
                wanted: 256
            })
        ));
    }
}

#[test]
fn an_array_that_grows_twice_gives_its_first_place_back() {
    let mut m = Memblock::with_growth(
        Behaviour::V6_18,
        Growth::Kernel {
            memory: 8,
            reserved: 128,
            physmem: 4,
        },
    );
    m.allow_resize();
    m.add(r(0, 0x8_0000)).unwrap();
    for index in 0..600 {
        m.add(r(0x10_0000 + index * 0x4000, 0x10_2000 + index * 0x4000))
            .unwrap();
    }
    assert_eq!(m.capacity(Which::Memory), Some(1024));
    let array = m.array_place(Which::Memory).unwrap();
    assert_eq!(array.len(), 1024 * 24);
    assert_eq!(
        regions(m.reserved()),
        [(array.start().get(), array.end().get(), None, 0x20)]
    );
}

/// Linux frees the old place of an array before it reserves the new one; if that freeing makes
/// the other array grow, it may take the very place. Found by a property test; followed here,
/// since a model that is kinder than its kernel hides what would happen to it.
#[test]
fn an_array_may_land_on_one_that_is_just_moving() {
    let mut m = Memblock::with_growth(
        Behaviour::V7_3,
        Growth::Kernel {
            memory: 2,
            reserved: 3,
            physmem: 4,
        },
    );
    m.allow_resize();
    m.add(r(0x10_0000, 0x20_0000)).unwrap();
    m.add(r(0x30_0000, 0x30_1000)).unwrap();
    m.add(r(0x40_0000, 0x40_1000)).unwrap();
    let first = m.array_place(Which::Memory).unwrap();
    m.reserve(r(0x1000, 0x2000)).unwrap();
    m.add(r(0x50_0000, 0x50_1000)).unwrap();
    m.add(r(0x60_0000, 0x60_1000)).unwrap();
    let moved = m.array_place(Which::Memory).unwrap();
    assert_ne!(first, moved);
    let other = m.array_place(Which::Reserved).unwrap();
    assert!(other.overlaps(moved));
}

#[test]
fn arrays_grow_in_slab_memory_once_that_is_there() {
    let mut m = Memblock::with_growth(Behaviour::V7_3, Growth::KERNEL);
    m.allow_resize();
    m.settings_mut().slab_available = true;
    for index in 0..200 {
        m.reserve(r(index * 32, index * 32 + 16)).unwrap();
    }
    assert_eq!(m.capacity(Which::Reserved), Some(256));
    assert_eq!(m.reserved().len(), 200);
    assert_eq!(m.array_place(Which::Reserved), None);
}

/// E-40
#[test]
fn handing_over_goes_on_until_the_array_of_reservations_grows_no_more() {
    for behaviour in [Behaviour::V6_12, Behaviour::V6_18, Behaviour::V7_3] {
        let mut m = Memblock::with_growth(behaviour, Growth::KERNEL);
        m.allow_resize();
        m.add_node(r(0x10_0000, 0x20_0000), n(0), f(0)).unwrap();
        m.add_node(r(0x20_0000, 0x30_0000), n(1), f(0)).unwrap();
        for index in 0..125 {
            m.reserve(r(0x11_0000 + index * 16, 0x11_0008 + index * 16))
                .unwrap();
        }
        m.reserve(r(0x1f_f000, 0x20_1000)).unwrap();
        let runs = m.hand_over(12).unwrap();
        assert_eq!(m.capacity(Which::Reserved), Some(256));
        assert!(m.reserved().iter().all(|region| region.node().is_some()));
        assert!(runs.iter().all(|run| run.node.is_some()));
    }
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
    let behaviour = Behaviour {
        reserved_node: memblock::ReservedNode::PerRegion { end_as_size: true },
        ..Behaviour::V6_12
    };
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

/// E-42
#[test]
fn what_is_reserved_already_keeps_its_node_and_flags() {
    let mut m = Memblock::new(Behaviour::V6_18);
    m.reserve_with(r(0x1000, 0x3000), n(1), f(0x20)).unwrap();
    m.reserve(r(0, 0x4000)).unwrap();
    assert_eq!(
        regions(m.reserved()),
        [
            (0, 0x1000, None, 0),
            (0x1000, 0x3000, Some(1), 0x20),
            (0x3000, 0x4000, None, 0)
        ]
    );
    assert_eq!(m.reserved_size(), 0x4000);
}

/// E-43
#[test]
fn a_range_to_the_top_of_the_address_space_loses_its_last_byte() {
    let mut m = Memblock::new(Behaviour::V6_12);
    let base = u64::MAX - 0x1000;
    m.add(PhysRange::from_size(PhysAddr::new(base), 0x2000))
        .unwrap();
    assert_eq!(bounds(m.memory()), [(base, u64::MAX)]);
    assert!(m.is_memory(PhysAddr::new(u64::MAX - 1)));
    assert!(!m.is_memory(PhysAddr::MAX));
    assert_eq!(m.end_of_dram(), PhysAddr::MAX);
}

/// E-44
#[test]
fn trimming_leaves_the_size_stale() {
    let mut m = memory(Behaviour::V6_12, &[(0x1800, 0x5800), (0x6100, 0x6f00)]);
    m.trim_memory(0x1000);
    assert_eq!(bounds(m.memory()), [(0x2000, 0x5000)]);
    assert_eq!(m.phys_mem_size(), 0x4000);
    assert_eq!(m.memory().covered(), 0x3000);
}

/// E-45
#[test]
fn capping_spares_memory_outside_the_direct_mapping() {
    let mut m = memory(Behaviour::V6_12, &[(0, 0x10000), (0x20000, 0x30000)]);
    m.mark_nomap(r(0x28000, 0x29000)).unwrap();
    m.reserve(r(0x3000, 0x5000)).unwrap();
    m.reserve(r(0x28000, 0x28800)).unwrap();
    m.cap_memory_range(r(0x4000, 0x8000)).unwrap();
    assert_eq!(
        regions(m.memory()),
        [(0x4000, 0x8000, None, 0), (0x28000, 0x29000, None, 4)]
    );
    assert_eq!(bounds(m.reserved()), [(0x4000, 0x5000)]);
}

#[test]
fn capping_before_there_is_memory_or_to_nothing_does_nothing() {
    let mut m = Memblock::new(Behaviour::V6_12);
    m.reserve(r(0, 0x1000)).unwrap();
    m.cap_memory_range(r(0x4000, 0x8000)).unwrap();
    assert_eq!(bounds(m.reserved()), [(0, 0x1000)]);
    m.add(r(0, 0x1000)).unwrap();
    m.cap_memory_range(r(0x4000, 0x4000)).unwrap();
    assert_eq!(bounds(m.memory()), [(0, 0x1000)]);
}

/// E-46
#[test]
fn a_limit_cuts_inside_a_region_at_the_end_or_not_at_all() {
    let m = memory(Behaviour::V6_12, &[(0x1000, 0x5000), (0x8000, 0xa000)]);
    let limited = |limit| {
        let mut m = m.clone();
        m.reserve(r(0x4000, 0x9000)).unwrap();
        m.enforce_memory_limit(limit).unwrap();
        (bounds(m.memory()), bounds(m.reserved()))
    };
    let whole = (
        vec![(0x1000, 0x5000), (0x8000, 0xa000)],
        vec![(0x4000, 0x9000)],
    );
    assert_eq!(
        limited(0x3800),
        (vec![(0x1000, 0x4800)], vec![(0x4000, 0x4800)])
    );
    assert_eq!(
        limited(0x4000),
        (vec![(0x1000, 0x5000)], vec![(0x4000, 0x5000)])
    );
    assert_eq!(limited(0x6000), whole);
    assert_eq!(limited(0x6001), whole);
    assert_eq!(limited(0), whole);
    let mut removed = m.clone();
    removed.mark_nomap(r(0x9000, 0xa000)).unwrap();
    removed.mem_limit_remove_map(0x1000).unwrap();
    assert_eq!(
        bounds(removed.memory()),
        [(0x1000, 0x2000), (0x9000, 0xa000)]
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

/// E-71
#[test]
fn an_allocation_merges_with_its_like_alone() {
    for (behaviour, pieces) in [(Behaviour::V6_12, 1), (Behaviour::V6_18, 3)] {
        let mut m = Memblock::new(behaviour);
        m.add_node(r(0x1000, 0x5000), n(1), f(0)).unwrap();
        m.settings_mut().bottom_up = true;
        m.reserve(r(0x1000, 0x2000)).unwrap();
        let near = m
            .alloc(AllocRequest::new(0x1000, 0x1000).node(n(1)))
            .unwrap();
        assert_eq!(near, r(0x2000, 0x3000));
        m.alloc(AllocRequest::new(0x1000, 0x1000)).unwrap();
        assert_eq!(m.reserved().len(), pieces);
        m.alloc(AllocRequest::new(0x1000, 0x1000)).unwrap();
        assert_eq!(m.reserved().len(), pieces, "two without a node are one");
        m.hand_over(12).unwrap();
        let flags: Vec<_> = m.reserved().iter().map(|it| it.flags().bits()).collect();
        assert_eq!(flags, if pieces == 1 { vec![0] } else { vec![0, 0x20] });
    }
}

/// E-74: arm64 with a 52-bit kernel on a 48-bit processor.
#[test]
fn a_minimum_that_nothing_reaches_is_dropped_and_the_node_kept() {
    let mut m = Memblock::new(Behaviour::V7_3);
    m.add_node(r(0x4000_0000, 0x8000_0000), n(0), f(0)).unwrap();
    m.add_node(r(0x8000_0000, 0xc000_0000), n(1), f(0)).unwrap();
    let request = AllocRequest::new(0x4000, 0x4000)
        .from(PhysAddr::new(0xfff0_8000_4000_0000))
        .node(n(0));
    assert_eq!(m.alloc(request).unwrap(), r(0x7fff_c000, 0x8000_0000));
    assert_eq!(regions(m.reserved())[0].2, Some(0));
    assert!(matches!(
        m.alloc(AllocRequest::phys(0x4000, 0x4000).from(PhysAddr::new(1 << 60))),
        Err(AllocError::NoSpace { .. })
    ));
}

#[test]
fn address_zero_is_never_allocated() {
    for bottom_up in [false, true] {
        let mut m = memory(Behaviour::V6_12, &[(0, 0x2000)]);
        m.settings_mut().bottom_up = bottom_up;
        assert_eq!(
            m.alloc(AllocRequest::new(0x1000, 1)).unwrap(),
            r(0x1000, 0x2000)
        );
        assert!(m.alloc(AllocRequest::new(1, 1)).is_err());
    }
}

#[test]
fn alignment_is_a_power_of_two_or_a_cache_line() {
    let mut m = memory(Behaviour::V6_12, &[(0, 0x10000)]);
    assert_eq!(m.alloc(AllocRequest::new(1, 0)).unwrap(), r(0xffc0, 0xffc1));
    assert_eq!(
        m.alloc(AllocRequest::new(1, 48)),
        Err(AllocError::Align { align: 48 })
    );
    assert!(m.alloc(AllocRequest::new(1, 1 << 63)).is_err());
    assert!(m.alloc(AllocRequest::new(u64::MAX, 1)).is_err());
    let nothing = m.alloc(AllocRequest::new(0, 64)).unwrap();
    assert!(nothing.is_empty());
    assert_eq!(m.reserved().len(), 1);
}

#[test]
fn a_full_node_gives_way_to_another_unless_it_alone_will_do() {
    let mut m = Memblock::new(Behaviour::V6_18);
    m.add_node(r(0x10_0000, 0x10_1000), n(0), f(0)).unwrap();
    m.add_node(r(0x20_0000, 0x30_0000), n(1), f(0)).unwrap();
    let request = AllocRequest::new(0x2000, 0x1000);
    assert!(m.alloc(request.exact_node(n(0))).is_err());
    let other = m.alloc(request.node(n(0))).unwrap();
    assert_eq!(other, r(0x2f_e000, 0x30_0000));
    // found elsewhere, so no node is recorded
    assert_eq!(regions(m.reserved()), [(0x2f_e000, 0x30_0000, None, 0x20)]);
    assert_eq!(
        m.alloc(AllocRequest::low(0x1000, 0x1000)).unwrap(),
        r(0x2f_d000, 0x2f_e000)
    );
}

#[test]
fn mirrored_memory_comes_first_and_then_any() {
    let mut m = memory(Behaviour::V6_18, &[(0x1000, 0x9000)]);
    m.mark_mirror(r(0x2000, 0x3000)).unwrap();
    assert!(!m.settings().has_mirror, "not without kernelcore=mirror");
    m.settings_mut().kernelcore_mirror = true;
    m.mark_mirror(r(0x2000, 0x3000)).unwrap();
    assert_eq!(
        m.alloc(AllocRequest::new(0x1000, 0x1000)).unwrap(),
        r(0x2000, 0x3000)
    );
    assert_eq!(
        m.alloc(AllocRequest::new(0x1000, 0x1000)).unwrap(),
        r(0x8000, 0x9000)
    );
}

#[test]
fn huge_pages_avoid_mirrors_and_scratch_areas() {
    let mut m = memory(Behaviour::V7_3, &[(0, 16 << 20)]);
    m.settings_mut().kernelcore_mirror = true;
    m.mark_mirror(r(14 << 20, 16 << 20)).unwrap();
    let area = r((11 << 20) + 0x1000, (11 << 20) + 0x2000);
    let page = |m: &mut Memblock| m.alloc_hugetlb(2 << 20, NodeChoice::Any, &[area]);
    assert_eq!(
        page(&mut m).unwrap().start().get(),
        14 << 20,
        "not only mirrored memory"
    );
    m.free(r(0, u64::MAX)).unwrap();
    let taken = page(&mut m).unwrap();
    assert_eq!(taken.start().get(), 14 << 20);
    assert_eq!(regions(m.reserved())[0].3, 0xa0);
    assert_eq!(page(&mut m).unwrap().start().get(), 12 << 20);
    assert_eq!(
        page(&mut m).unwrap().start().get(),
        8 << 20,
        "not over the area"
    );
}

#[test]
fn a_kexeced_kernel_allocates_from_scratch_memory_until_hand_over() {
    let mut m = memory(Behaviour::V6_18, &[(0x1000, 0x10000)]);
    m.mark_kho_scratch(r(0x3000, 0x5000)).unwrap();
    m.settings_mut().kho_scratch_only = true;
    assert_eq!(
        m.alloc(AllocRequest::new(0x1000, 0x1000)).unwrap(),
        r(0x4000, 0x5000)
    );
    m.hand_over(12).unwrap();
    assert_eq!(
        m.alloc(AllocRequest::new(0x1000, 0x1000)).unwrap(),
        r(0xf000, 0x10000)
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
fn once_slab_is_up_allocations_are_its_business() {
    for behaviour in ALL {
        let mut m = memory(behaviour, &[(0x1000, 0x10000)]);
        m.settings_mut().slab_available = true;
        assert_eq!(
            m.alloc(AllocRequest::new(8, 8)),
            Err(AllocError::SlabAvailable)
        );
        let phys = m.alloc(AllocRequest::phys(8, 8));
        assert_eq!(phys.is_ok(), behaviour == Behaviour::V6_1);
    }
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

#[test]
fn two_ways_to_have_no_node_do_not_merge() {
    let mut m = Memblock::new(Behaviour::V6_18);
    m.reserve_with(r(0, 0x1000), NodeMark::UNSET, f(0)).unwrap();
    m.reserve(r(0x1000, 0x2000)).unwrap();
    assert_eq!(m.reserved().len(), 2);
    m.set_node(r(0, 0x2000), Which::Reserved, NodeMark::NO_NODE)
        .unwrap();
    assert_eq!(m.reserved().len(), 1);
}

#[test]
fn searching_a_frame_rounds_its_region_down() {
    let mut m = Memblock::new(Behaviour::V6_12);
    m.add_node(r(0x1800, 0x5800), n(3), f(0)).unwrap();
    assert_eq!(
        m.search_pfn_nid(Pfn::new(1), 12),
        None,
        "its first byte is no memory"
    );
    assert_eq!(
        m.search_pfn_nid(Pfn::new(5), 12),
        Some((pfns(1, 5), Some(n(3))))
    );
    assert_eq!(m.search_pfn_nid(Pfn::MAX, 12), None);
    assert_eq!(m.early_pfn_to_nid(Pfn::new(9), 12, n(0)), NodeId::new(0));
}

#[test]
fn estimates_of_free_pages_subtract_what_their_kernel_subtracts() {
    let estimate = |behaviour| {
        let mut m = memory(behaviour, &[(0, 0x10000)]);
        m.reserve(r(0, 0x2000)).unwrap();
        m.reserve_kern(r(0x2000, 0x3000)).unwrap();
        m.estimated_free_pages()
    };
    assert_eq!(ALL.map(estimate), [None, Some(13), Some(15), Some(15)]);
}

#[test]
fn questions_about_ranges_have_the_kernels_answers() {
    let mut m = memory(Behaviour::V6_12, &[(0x1000, 0x3000)]);
    m.add_node(r(0x3000, 0x4000), n(1), f(0)).unwrap();
    assert!(m.is_region_memory(r(0x1000, 0x3000)));
    assert!(
        !m.is_region_memory(r(0x2000, 0x4000)),
        "two regions are not one"
    );
    m.reserve(r(0x2000, 0x2800)).unwrap();
    for (range, reserved) in [
        (r(0x1000, 0x2000), false),
        (r(0x2800, 0x3000), false),
        (r(0x27ff, 0x3000), true),
        (r(0x1000, 0x2001), true),
        (r(0x2100, 0x2100), false),
        (r(0, u64::MAX), true),
    ] {
        assert_eq!(m.is_region_reserved(range), reserved, "{range:?}");
    }
    assert_eq!(m.start_of_dram(), PhysAddr::new(0x1000));
    assert_eq!(m.end_of_dram(), PhysAddr::new(0x4000));
    assert_eq!(
        Memblock::new(Behaviour::V6_12).end_of_dram(),
        PhysAddr::ZERO
    );
}

#[test]
fn isolating_cuts_at_both_bounds_and_names_what_lies_between() {
    let mut m = memory(Behaviour::V6_12, &[(0x1000, 0x5000), (0x8000, 0x9000)]);
    assert_eq!(m.isolate(r(0x2000, 0x3000), Which::Memory).unwrap(), 1..2);
    assert_eq!(bounds(m.memory()).len(), 4);
    assert_eq!(m.isolate(r(0x6000, 0x7000), Which::Memory).unwrap(), 0..0);
    // the next operation there joins them again
    m.clear_nomap(r(0x1000, 0x5000)).unwrap();
    assert_eq!(bounds(m.memory()), [(0x1000, 0x5000), (0x8000, 0x9000)]);
}

#[test]
fn physmem_is_kept_where_it_is_asked_for() {
    let mut m = Memblock::new(Behaviour::V6_12);
    let range = r(0, 0x1000);
    assert_eq!(
        m.physmem_add(range),
        Err(MemblockError::NoPhysmem { range })
    );
    m.enable_physmem();
    m.physmem_add(range).unwrap();
    assert_eq!(m.physmem().map(bounds), Some(vec![(0, 0x1000)]));
    assert!(m.memory().is_empty());
}
