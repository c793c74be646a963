//! Questions, and what merges.

use crate::common::{bounds, f, n, r, regions};
use crate::{ALL, memory, pfns};
use memblock::{Behaviour, Memblock, MemblockError, NodeId, NodeMark, Pfn, PhysAddr, Which};

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
