//! Where an allocation goes, and what it is recorded as.

use crate::common::{f, n, r, regions};
use crate::{ALL, memory};
use memblock::{AllocError, AllocRequest, Behaviour, Memblock, NodeChoice, Pfn, PhysAddr, Which};

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
fn a_kernel_that_knows_of_no_nodes_takes_all_memory_for_node_0() {
    let mut m = Memblock::new(Behaviour::V6_18);
    m.settings_mut().numa = false;
    m.add_node(r(0x1000, 0x8000), n(1), f(0)).unwrap();
    m.set_node(r(0, 0x4000), Which::Memory, n(2)).unwrap();
    assert_eq!(regions(m.memory()), [(0x1000, 0x8000, None, 0)]);
    let request = AllocRequest::new(0x1000, 0x1000);
    let page = m.alloc(request.exact_node(n(0))).unwrap();
    assert_eq!(page, r(0x7000, 0x8000));
    assert_eq!(regions(m.reserved()), [(0x7000, 0x8000, None, 0x20)]);
    assert!(m.alloc(request.exact_node(n(1))).is_err());
    assert_eq!(m.mem_pfn_ranges(12, Some(n(0))).count(), 1);
    assert_eq!(m.mem_pfn_ranges(12, Some(n(1))).count(), 0);
    // and the skip is the same
    assert_eq!(m.next_valid_pfn(Pfn::ZERO, Pfn::MAX, 12), Pfn::new(1));
}
