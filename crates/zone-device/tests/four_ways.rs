//! The four ways on mapped memory: the same struct pages, and what becomes of the memory.

mod common;

use common::{Map, Oracle, pagemap};
use memblock::{Pfn, PfnRange, PhysAddr, PhysRange};
use memmap_core::{KernelVersion, Profile};
use proptest::prelude::*;
use sys::HugePages;
use sys::seam::Faults;
use zone_device::{
    Altmap, CowRefusal, DevPagemap, DeviceMemmap, DeviceRuns, MemoryType, Site, Way,
};

fn memmap(profile: &Profile, pagemap: &DevPagemap) -> DeviceMemmap {
    let runs = DeviceRuns::new(profile, pagemap, &Site::default()).unwrap();
    DeviceMemmap::new(runs, HugePages::Never).unwrap()
}

/// 128 MiB of single pages: 2 MiB of struct pages.
fn single_pages() -> (Profile, DevPagemap) {
    let profile = Profile::amd64(KernelVersion::V7_3);
    let pfns = PfnRange::new(Pfn::new(0x10_0000), Pfn::new(0x10_8000));
    let pagemap = pagemap(&profile, MemoryType::FsDax, pfns, 0, None);
    (profile, pagemap)
}

fn oracle(profile: &Profile, pagemap: &DevPagemap) -> Map {
    let oracle = Oracle {
        profile,
        node: 0,
        boot: Vec::new(),
    };
    oracle.map(pagemap)
}

fn assert_equal(memmap: &DeviceMemmap, map: &Map, what: &str) {
    for range in memmap.runs().ranges() {
        for pfn in range.iter() {
            let found = memmap.read(pfn).expect("a page of the device");
            match map.get(&pfn.get()) {
                Some(expected) => {
                    assert_eq!(found[..expected.len()], expected[..], "{what}: {pfn}")
                }
                // memory of its own, which nobody wrote
                None => assert_eq!(found, [0; 12], "{what}: {pfn}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_way_after_every_other_gives_what_the_oracle_says(
        order in prop_oneof![Just(0_u32), 0_u32..11],
        at in 0_u64..100,
        units in 1_u64..6,
        reserve in prop_oneof![Just(None), (0_u64..5).prop_map(Some)],
        second in proptest::option::of(1_u64..4),
        size in proptest::sample::select(vec![56_u32, 64, 72, 80]),
        ways in proptest::collection::vec(0_usize..4, 1..6),
    ) {
        let mut config = Profile::amd64(KernelVersion::V7_3).config().clone();
        config.struct_page_bytes = size;
        config.memcg = size > 56;
        let profile = config.build().expect("a possible profile");
        let unit = 512.max(1 << order);
        let start = (0x10_0000 / unit + at) * unit;
        let pfns = PfnRange::new(Pfn::new(start), Pfn::new(start + units * unit));
        let altmap = reserve.filter(|_| second.is_none()).map(|reserve| {
            Altmap::new(pfns.start(), reserve, 100_u64.next_multiple_of(1 << order) * 2 - reserve)
        });
        let altmap = altmap.filter(|altmap| altmap.offset() < pfns.len());
        let mut pagemap = pagemap(&profile, MemoryType::Generic, pfns, order, altmap);
        if let Some(units) = second {
            let far = PhysAddr::new((1 << 40) + (start << 12));
            pagemap = pagemap.with_range(PhysRange::from_size(far, (units * unit) << 12));
        }
        let expected = oracle(&profile, &pagemap);
        let mut memmap = memmap(&profile, &pagemap);
        let total: u64 = memmap.runs().ranges().iter().map(|range| range.len()).sum();
        for way in ways.into_iter().map(|way| Way::ALL[way]) {
            let bound = memmap.bind(way, None).expect("there is memory");
            assert_equal(&memmap, &expected, way.name());
            prop_assert_eq!(bound.written + bound.covered, total - reserve.filter(|_| altmap.is_some()).unwrap_or(0));
            if way == Way::Cow && order == 0 && bound.refusal.is_none() {
                prop_assert!(bound.covered > 0 && bound.copies > 0);
            } else if way == Way::Cow {
                prop_assert_eq!(bound.way, Way::Stream);
            }
        }
    }

    #[test]
    fn copies_written_at_random_keep_what_was_written_and_the_rest(
        writes in proptest::collection::vec((0_u64..0x8000, 0_usize..8, any::<u64>()), 0..60),
    ) {
        let (profile, pagemap) = single_pages();
        let mut expected = oracle(&profile, &pagemap);
        let mut memmap = memmap(&profile, &pagemap);
        memmap.bind(Way::Cow, None).expect("there is memory");
        for (k, word, value) in writes {
            let pfn = 0x10_0000 + k;
            prop_assert!(memmap.write(Pfn::new(pfn), word, value));
            expected.get_mut(&pfn).expect("a page of the device")[word] = value;
        }
        assert_equal(&memmap, &expected, "written");
    }
}

#[test]
fn shards_written_by_threads_give_what_one_thread_gives() {
    let (profile, single) = single_pages();
    let compounds = single.clone().with_vmemmap_shift(9);
    for pagemap in [single, compounds] {
        let expected = oracle(&profile, &pagemap);
        for threads in [1, 2, 3, 7, 8] {
            let mut memmap = memmap(&profile, &pagemap);
            memmap.bind(Way::Cow, None).unwrap();
            let shards = memmap.shards(threads).unwrap();
            assert!(shards.len() >= threads);
            std::thread::scope(|scope| {
                for mut shard in shards {
                    scope.spawn(move || shard.write(Way::Stream.writer(), None));
                }
            });
            assert_equal(&memmap, &expected, "shards");
        }
    }
}

#[test]
fn copies_take_memory_as_they_are_written_and_give_all_of_it_back() {
    let (profile, pagemap) = single_pages();
    let mut memmap = memmap(&profile, &pagemap);
    let bound = memmap.bind(Way::Cow, None).unwrap();
    assert_eq!(
        (bound.covered, bound.written, bound.refusal),
        (0x8000, 0, None)
    );
    let Some(used) = memmap.memory_use() else {
        captures::skipped("this system does not say what a mapping takes");
        return;
    };
    assert_eq!(used.private, 0, "nothing was written");
    let page = sys::page_size() as u64;
    for touched in 1..=20 {
        // one struct page on each page of memory, and a second one that is free
        let pfn = Pfn::new(0x10_0000 + touched * (page / 64));
        assert!(memmap.write(pfn, 4, 1) && memmap.write(pfn.saturating_add(1), 4, 1));
        assert_eq!(memmap.memory_use().unwrap().private, touched * page);
    }
    memmap.unbind().unwrap();
    assert_eq!(memmap.memory_use().unwrap().resident, 0);
    assert_eq!(memmap.read(Pfn::new(0x10_0000)), Some([0; 12]));
}

#[test]
fn a_thousand_rebinds_leak_neither_mappings_nor_memory() {
    let (profile, pagemap) = single_pages();
    let mut memmap = memmap(&profile, &pagemap);
    memmap.bind(Way::Cow, None).unwrap();
    memmap.unbind().unwrap();
    // other tests of this process come and go: look at this mapping alone
    let lines = |memmap: &mut DeviceMemmap| {
        let start = memmap.mapping_mut().as_ptr().as_ptr().addr();
        let end = start + memmap.bytes();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let lines = maps.lines().filter(|line| {
            let (from, rest) = line.split_once('-').unwrap();
            let (to, _) = rest.split_once(' ').unwrap();
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            number(from) < end && start < number(to)
        });
        lines.count()
    };
    let before = lines(&mut memmap);
    for round in 0..1000 {
        let bound = memmap.bind(Way::Cow, None).unwrap();
        assert_eq!(bound.refusal, None);
        assert!(memmap.write(Pfn::new(0x10_0000 + round * 13), 5, round));
        memmap.unbind().unwrap();
    }
    assert_eq!(lines(&mut memmap), before);
    if let Some(used) = memmap.memory_use() {
        assert_eq!(used.resident, 0);
    }
    for _ in 0..20 {
        for way in [Way::Slow, Way::Template, Way::Stream] {
            memmap.bind(way, None).unwrap();
        }
    }
    memmap.discard().unwrap();
    assert_eq!(memmap.read(Pfn::new(0x10_0000)), Some([0; 12]));
}

#[test]
fn what_cannot_be_copies_is_written_and_the_reason_given() {
    let (profile, single) = single_pages();
    let expected = oracle(&profile, &single);
    let compounds = single.clone().with_vmemmap_shift(9);
    let bound = memmap(&profile, &compounds).bind(Way::Cow, None).unwrap();
    assert_eq!(
        (bound.way, bound.refusal),
        (Way::Stream, Some(CowRefusal::Compounds))
    );
    assert_eq!(bound.written, 0x8000);

    let mut config = profile.config().clone();
    config.page_virtual = Some(0xffff_8880_0000_0000);
    config.struct_page_bytes = 72;
    let with_address = config.build().unwrap();
    let bound = memmap(&with_address, &single).bind(Way::Cow, None).unwrap();
    assert_eq!(bound.refusal, Some(CowRefusal::NotAlike));

    // the system refuses the file, or a mapping half way: nothing of it is left
    for (call, nth) in [(sys::Call::MemfdCreate, 1), (sys::Call::Mmap, 1)] {
        let mut memmap = memmap(&profile, &single);
        let faults = Faults::new().fail(call, nth, 12);
        let scope = faults.enter();
        let bound = memmap.bind(Way::Cow, None).unwrap();
        drop(scope);
        assert!(
            matches!(bound.refusal, Some(CowRefusal::System(_))),
            "{call}"
        );
        assert_eq!((bound.way, bound.covered), (Way::Stream, 0));
        assert_equal(&memmap, &expected, "fallback");
    }
}

#[test]
fn a_device_whose_description_moved_is_bound_to_the_new_one() {
    let (profile, old) = single_pages();
    let moved =
        DevPagemap::new(MemoryType::FsDax, 0xffff_8880_1234_5678).with_range(old.ranges()[0]);
    let runs = |pagemap| DeviceRuns::new(&profile, pagemap, &Site::default()).unwrap();
    let mut memmap = memmap(&profile, &old);
    for way in Way::ALL {
        memmap.bind(way, None).unwrap();
        let before = memmap.replace_runs(runs(&moved)).unwrap();
        memmap.bind(way, None).unwrap();
        assert_equal(&memmap, &oracle(&profile, &moved), way.name());
        memmap.replace_runs(before).unwrap();
    }
    let elsewhere = old
        .clone()
        .with_range(PhysRange::from_size(PhysAddr::new(0), 2 << 20));
    assert!(memmap.replace_runs(runs(&elsewhere)).is_err());
}
