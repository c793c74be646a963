//! In 2018 a skip by ranges of memory left struct pages uninitialised on x86: frames that are not
//! memory but lie in a section that has some. The skip went (4.17); one by sections came in 6.16.

use memblock::{
    Behaviour, Memblock, Pfn, PfnRange, PhysAddr, PhysRange, for_each_valid_pfn, next_valid_pfn,
    present_sections,
};

const SECTION_SHIFT: u32 = 15;

/// A desktop with a firmware hole below the end of its low memory.
fn machine() -> Memblock {
    let mut m = Memblock::new(Behaviour::V6_1);
    for (start, end) in [
        (0x1000, 0x9f000),
        (0x10_0000, 0x7a17_b000),
        (0x7a21_7000, 0x7c00_0000),
        (0x1_0000_0000, 0x1_4000_0000),
    ] {
        m.add(PhysRange::new(PhysAddr::new(start), PhysAddr::new(end)))
            .unwrap();
    }
    m
}

#[test]
fn a_skip_by_memory_misses_holes_in_sections_and_a_walk_by_sections_does_not() {
    let m = machine();
    let max = Pfn::new(0x14_0000);
    let hole = PfnRange::new(Pfn::new(0x7a17b), Pfn::new(0x7a217));

    let mut skipped = 0;
    let mut pfn = Pfn::ZERO;
    while pfn < max {
        assert!(
            pfn == Pfn::ZERO || !hole.contains(pfn),
            "the old skip leaves the hole out"
        );
        skipped += 1;
        pfn = next_valid_pfn(Some(&m), pfn, max, 12);
    }
    let sections = present_sections(&m, 12, SECTION_SHIFT);
    let span = PfnRange::new(Pfn::ZERO, max);
    let walked: Vec<Pfn> = for_each_valid_pfn(&sections, span).collect();
    let missed = walked.len() - skipped;

    // 97 below 1 MiB (frame 0 is where the skip begins), the hole, and the tail of the last section
    let tail = 0x8_0000 - 0x7_c000;
    assert_eq!(missed as u64, 97 + hole.len() + tail);
    assert!(hole.iter().all(|pfn| walked.binary_search(&pfn).is_ok()));
    // and nothing of the absent sections between 2 and 4 GiB
    assert!(!walked.contains(&Pfn::new(0x8_0000)));
    assert!(!walked.contains(&Pfn::new(0xf_ffff)));
}
