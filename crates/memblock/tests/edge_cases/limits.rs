//! Cutting memory down, and the top of the address space.

use crate::common::{bounds, r, regions};
use crate::memory;
use memblock::{Behaviour, Memblock, PhysAddr, PhysRange, Which};

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
