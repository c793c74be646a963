//! Properties beside naive oracles: arrays that end, frames by sections, and texts.

mod common;

use common::r;
use memblock::text::{
    AddressWidth, AllocCall, DebugEvent, DebugLine, DebugfsTable, FreeCall, MemblockDump,
    PrintedRange, strip_time,
};
use memblock::{
    Behaviour, DebugfsStyle, Growth, Memblock, MemblockFlags, NodeId, Pfn, PfnRange, PfnRuns,
    PhysAddr, PhysRange, Which, for_each_valid_pfn, present_sections,
};
use proptest::prelude::*;

const BEHAVIOURS: [Behaviour; 4] = [
    Behaviour::V6_1,
    Behaviour::V6_12,
    Behaviour::V6_18,
    Behaviour::V7_3,
];

/// Reservations below this, arrays above.
const LOW: u64 = 0x1_0000;

fn covered(m: &Memblock, which: Which) -> Vec<bool> {
    let list = m.list(which).unwrap();
    (0..LOW / 64)
        .map(|at| list.at(PhysAddr::new(at * 64)).is_some())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// A memblock with an array that ends holds what one without end holds, and its array beside.
    ///
    /// One array ends at a time: see `an_array_may_land_on_one_that_is_just_moving`.
    #[test]
    fn arrays_that_grow_hold_the_same_and_reserve_themselves(
        behaviour in 0..4usize,
        ends in 1..6usize,
        memory_ends in any::<bool>(),
        ops in prop::collection::vec((0..6u8, 0..LOW / 64, 1..40u64), 1..80),
    ) {
        let behaviour = BEHAVIOURS[behaviour];
        let growth = Growth::Kernel {
            memory: if memory_ends { ends } else { 1000 },
            reserved: if memory_ends { 1000 } else { ends },
            physmem: 4,
        };
        let mut grown = Memblock::with_growth(behaviour, growth);
        let mut endless = Memblock::new(behaviour);
        grown.allow_resize();
        for m in [&mut grown, &mut endless] {
            m.add(r(LOW * 2, LOW * 16)).unwrap();
        }
        for (op, at, len) in ops {
            let range = r(at * 64, ((at + len) * 64).min(LOW));
            for m in [&mut grown, &mut endless] {
                match op {
                    0 => m.add(range),
                    1 => m.remove(range),
                    2..=3 => m.reserve(range),
                    4 => m.free(range),
                    _ => m.set_node(range, Which::Reserved, NodeId::new(at as u16 % 3)),
                }
                .unwrap();
            }
            for which in [Which::Memory, Which::Reserved] {
                let capacity = grown.capacity(which).unwrap();
                prop_assert!(grown.list(which).unwrap().len() <= capacity);
                prop_assert_eq!(covered(&grown, which), covered(&endless, which));
                if let Some(array) = grown.array_place(which) {
                    prop_assert_eq!(array.start().get() % 4096, 0);
                    prop_assert_eq!(array.len(), (capacity as u64 * 24).next_multiple_of(4096));
                    prop_assert!(grown.reserved().contains_range(array));
                    prop_assert!(array.start().get() >= LOW * 2);
                }
            }
            let arrays: u64 = [Which::Memory, Which::Reserved]
                .into_iter()
                .filter_map(|which| grown.array_place(which))
                .map(PhysRange::len)
                .sum();
            // above LOW nothing is reserved but the array that is in use
            let above = grown
                .reserved()
                .overlapping(r(LOW, u64::MAX))
                .map(|it| it.range().len())
                .sum::<u64>();
            prop_assert_eq!(above, arrays);
        }
    }

    #[test]
    fn valid_frames_are_those_of_present_sections(
        ranges in prop::collection::vec((0..600u64, 1..60u64), 0..6),
        from in 0..700u64,
        len in 0..700u64,
    ) {
        let mut m = Memblock::new(Behaviour::V7_3);
        for (start, len) in ranges {
            m.add(r(start * 16, (start + len) * 16)).unwrap();
        }
        // frames of 32 bytes, sections of 8 frames
        let runs = present_sections(&m, 5, 3);
        let whole = |pfn: u64| m.memory().iter().any(|it| {
            it.range().pfns_inner(5).contains(Pfn::new(pfn))
        });
        let span = PfnRange::new(Pfn::new(from), Pfn::new(from + len));
        let expected: Vec<u64> = (from..from + len)
            .filter(|pfn| (pfn / 8 * 8..pfn / 8 * 8 + 8).any(whole))
            .collect();
        let found: Vec<u64> = for_each_valid_pfn(&runs, span).map(Pfn::get).collect();
        prop_assert_eq!(&found, &expected);
        let mut walk = for_each_valid_pfn(&runs, span);
        let mut by_range = Vec::new();
        while let Some(range) = walk.next_range() {
            by_range.extend(range.iter().map(Pfn::get));
        }
        prop_assert_eq!(&by_range, &expected);
        for pfn in 0..700 {
            let run = runs.run_from(Pfn::new(pfn));
            prop_assert!(run.is_none_or(|run| run.end() > Pfn::new(pfn)));
        }
    }

    #[test]
    fn no_text_does_harm_and_what_reads_is_written_again(text in "\\PC*", tail in "[\\PC\n]*") {
        let _ = strip_time(&text);
        if let Ok(Some(line)) = DebugLine::parse(&text) {
            prop_assert_eq!(line.to_string(), text.as_str());
        }
        let _ = DebugfsTable::parse(&tail);
        let _ = format!("MEMBLOCK configuration:\n{tail}").parse::<MemblockDump>();
        let log = format!("Linux version 6.12\nMEMBLOCK configuration:\n{tail}\n{text}");
        let _ = memblock::replay::replay(log.lines(), None);
    }

    #[test]
    fn damaged_lines_do_no_harm_and_what_still_reads_is_written_again(
        which in 0..SAMPLES.len(),
        at in any::<prop::sample::Index>(),
        with in any::<char>(),
    ) {
        let mut chars: Vec<char> = SAMPLES[which].chars().collect();
        let at = at.index(chars.len());
        chars[at] = with;
        let text: String = chars.into_iter().collect();
        if let Ok(Some(line)) = DebugLine::parse(&text) {
            prop_assert_eq!(line.to_string(), text);
        }
    }

    #[test]
    fn every_line_reads_as_what_was_written(
        kind in 0..11u8,
        start in any::<u64>(),
        size in any::<u64>(),
        nid in any::<i32>(),
        bits in any::<u32>(),
        wide in any::<bool>(),
        caller in "[a-z_]{1,20}\\+0x[0-9a-f]{1,4}/0x[0-9a-f]{1,4}",
    ) {
        let width = if wide { AddressWidth::Bits64 } else { AddressWidth::Bits32 };
        let address = |it: u64| PhysAddr::new(it & width.max());
        let range = PrintedRange::new(address(start), size, width);
        let flags = MemblockFlags::from_bits_retain(bits);
        let (from, max) = (address(size), address(start ^ size));
        let align = start | 1;
        let event = match kind {
            0 => DebugEvent::Add(range),
            1 => DebugEvent::AddNode { range, nid, flags },
            2 => DebugEvent::Remove(range),
            3 => DebugEvent::Reserve { range, detail: None },
            4 => DebugEvent::Reserve { range, detail: Some((nid, flags)) },
            5 => DebugEvent::Free { call: FreeCall::PhysFree, range },
            6 => DebugEvent::Free { call: FreeCall::FreeLate, range },
            7 => DebugEvent::PhysmemAdd(range),
            8 => DebugEvent::PhysAlloc { size, align, from, max },
            9 => DebugEvent::Alloc { call: AllocCall::ExactNidRaw, size, align, nid, from, max },
            // this line has no address, so none to tell its width
            _ => DebugEvent::Hugetlb { size, nid, exact: wide },
        };
        prop_assert_eq!(range.size(width), size & width.max());
        let width = if kind == 10 { AddressWidth::Bits64 } else { width };
        let line = DebugLine { width, event, caller: &caller };
        let text = line.to_string();
        prop_assert_eq!(DebugLine::parse(&text), Ok(Some(line)));
    }

    #[test]
    fn dumps_and_debugfs_files_read_as_they_were_written(
        behaviour in 0..4usize,
        memory in prop::collection::vec((0..1000u64, 1..50u64, 0..4u16, 0..0x100u32), 0..12),
        reserved in prop::collection::vec((0..1000u64, 1..50u64), 0..12),
    ) {
        let mut behaviour = BEHAVIOURS[behaviour];
        behaviour.known_flags = MemblockFlags::all();
        let mut m = Memblock::new(behaviour);
        for (start, len, node, flags) in memory {
            let flags = MemblockFlags::from_bits_retain(flags);
            m.add_node(r(start, start + len), NodeId::new(node), flags).unwrap();
        }
        for (start, len) in reserved {
            m.reserve(r(start, start + len)).unwrap();
        }
        let text = m.dump().to_string();
        let dump: MemblockDump = text.parse().unwrap();
        prop_assert_eq!(dump.to_string(), text);
        let back = dump.to_memblock(behaviour);
        prop_assert_eq!(back.memory(), m.memory());
        prop_assert_eq!(back.reserved(), m.reserved());
        for style in [DebugfsStyle::Range, DebugfsStyle::LowestFlag, DebugfsStyle::AllFlags] {
            let text = DebugfsTable::new(m.memory(), style).to_string();
            prop_assert_eq!(DebugfsTable::parse(&text).unwrap().to_string(), text);
        }
    }
}

/// One line of every kind, in our own words.
const SAMPLES: [&str; 7] = [
    "memblock_add: [0x0000000000001000-0x0000000000001fff] f+0x1/0x2",
    "memblock_add_node: [0x00001000-0x00001fff] nid=3 flags=1 f+0x1/0x2",
    "__memblock_reserve: [0x0000000000001000-0x0000000000001fff] nid=-1 flags=20 f+0x1/0x2",
    "memblock_phys_alloc_range: 12 bytes align=0x40 from=0x00000000 max_addr=0x00100000 f+0x1/0x2",
    "memblock_alloc_try_nid_raw: 12 bytes align=0x40 nid=-1 from=0x00000000 max_addr=0x00100000 f+0x1/0x2",
    "memblock_alloc_hugetlb: 2097152 bytes, nid=1, exact_nid=1 f+0x1/0x2",
    "memblock: reserved is doubled to 256 at [0x0000000000001000-0x0000000000002fff]",
];

#[test]
fn the_sample_lines_read() {
    for sample in SAMPLES {
        let line = DebugLine::parse(sample).unwrap().unwrap();
        assert_eq!(line.to_string(), sample);
    }
    let doubled = DebugLine::parse(SAMPLES[6]).unwrap().unwrap().event;
    assert!(matches!(
        doubled,
        DebugEvent::Doubled { which: Which::Reserved, max: 256, place } if place.size(AddressWidth::Bits64) == 0x2000
    ));
}

#[test]
fn time_stamps_of_all_sorts_are_taken_off() {
    for stamped in [
        "[    0.000000] text",
        "<6>[    0.000000] text\r",
        "[ 8149.348948][    T0] text",
        "[    0.000000][T1234] text\n",
        "text",
    ] {
        assert_eq!(strip_time(stamped), "text");
    }
    assert_eq!(strip_time("[mem 0x0-0x1] text"), "[mem 0x0-0x1] text");
    assert_eq!(strip_time("[]"), "[]");
    assert_eq!(strip_time("[ é] x"), "[ é] x");
}

#[test]
fn a_removal_that_wraps_around_is_the_rest_of_the_address_space() {
    let text = "memblock_remove: [0x0001000000000000-0x0000fffffffffffe] f+0x1/0x2";
    let line = DebugLine::parse(text).unwrap().unwrap();
    let DebugEvent::Remove(range) = line.event else {
        panic!("a removal")
    };
    assert_eq!(
        range.range(line.width),
        PhysRange::new(PhysAddr::new(1 << 48), PhysAddr::MAX)
    );
    assert_eq!(line.to_string(), text);
}
