//! Struct pages that were read from running kernels.
//!
//! Frames from 0x100000 on, node 0, a distribution's amd64 kernel. `P` stands for the address of
//! the device's description, `H` for that of the head's struct page.

use memblock::{Pfn, PhysAddr, PhysRange};
use memmap_core::{KernelVersion, Profile};
use zone_device::{Altmap, DevPagemap, DeviceError, DeviceRuns, MemoryType, Site};

const P: u64 = 0xffff_8881_40cd_6780;
const START: u64 = 0x10_0000;
const H: u64 = 0xffff_ea00_0400_0000;
const R: u64 = 0x27_ffff_c000_2000;
const ONES: u64 = u64::MAX;
const TAIL: u64 = 0xdead_0000_0000_0400;

const V6_12: KernelVersion = KernelVersion::V6_12;
const V6_18: KernelVersion = KernelVersion::V6_18;
const V7_3: KernelVersion = KernelVersion::V7_3;

fn device(memory_type: MemoryType, order: u32) -> DevPagemap {
    DevPagemap::new(memory_type, P)
        .with_range(PhysRange::from_size(PhysAddr::new(START << 12), 1 << 30))
        .with_vmemmap_shift(order)
}

fn page(version: KernelVersion, pagemap: &DevPagemap, k: u64) -> Option<[u64; 8]> {
    let profile = Profile::amd64(version);
    let runs = DeviceRuns::new(&profile, pagemap, &Site::default()).unwrap();
    let image = runs.page(Pfn::new(START + k))?;
    Some(std::array::from_fn(|i| image.word(0, i)))
}

#[test]
fn pages_of_raw_and_fsdax_devices_hold_a_reference_up_to_6_14() {
    let pagemap = device(MemoryType::FsDax, 0);
    for k in [0, 1, 511, 262_143] {
        let old = Some([R, P, 0, 0, 0, 0, 0x1_ffff_ffff, 0]);
        let new = Some([R, P, 0, 0, 0, 0, 0xffff_ffff, 0]);
        assert_eq!(page(V6_12, &pagemap, k), old);
        assert_eq!(page(V6_18, &pagemap, k), new);
        assert_eq!(page(V7_3, &pagemap, k), new);
    }
}

#[test]
fn pages_of_devdax_with_4_kib_pages_hold_one_always() {
    let pagemap = device(MemoryType::Generic, 0);
    for version in [V6_12, V6_18, V7_3] {
        let expected = Some([R, P, 0, 0, 0, 0, 0x1_ffff_ffff, 0]);
        assert_eq!(page(version, &pagemap, 5), expected);
    }
}

#[test]
fn compounds_of_2_mib_are_those_of_each_release() {
    let pagemap = device(MemoryType::Generic, 9);
    let mask = 0xffff_ffff_ffff_8001;
    for compound in [0, 1, 511] {
        let h = H + compound * 512 * 64;
        let at = |version, k| page(version, &pagemap, compound * 512 + k);
        for version in [V6_12, V6_18, V7_3] {
            let head = Some([R | 0x40, P, 0, 0, 0, 0, 0x1_ffff_ffff, 0]);
            assert_eq!(at(version, 0), head);
        }
        let first = Some([R | 9, h | 1, ONES, 0, 0x200, 0, 0xffff_ffff, 0]);
        assert_eq!(at(V6_12, 1), first);
        let first = |name| {
            let low = 0xffff_ffff;
            Some([R | 9, name, low, low, ONES, 0, low, 0x200])
        };
        assert_eq!(at(V6_18, 1), first(h | 1));
        assert_eq!(at(V7_3, 1), first(mask));
        let tail = |name| Some([R, name, 0, TAIL, 0, 0, 0xffff_ffff, 0]);
        let second = |name| Some([R, name, h + 0x90, h + 0x90, 0, 0, 0xffff_ffff, 0]);
        assert_eq!(at(V6_12, 2), tail(h | 1));
        assert_eq!(at(V6_18, 2), second(h | 1));
        assert_eq!(at(V7_3, 2), second(mask));
        for k in [3, 127, 128, 511] {
            assert_eq!(at(V6_12, k), tail(h | 1));
            assert_eq!(at(V6_18, k), tail(h | 1));
            assert_eq!(at(V7_3, k), tail(mask));
        }
    }
}

#[test]
fn the_first_tail_of_1_gib_names_its_order_and_size() {
    let pagemap = device(MemoryType::Generic, 18);
    let first = |version| page(version, &pagemap, 1).unwrap();
    let (old, new) = (first(V6_18), first(V7_3));
    assert_eq!((old[0], old[1], old[7]), (R | 0x12, H | 1, 0x4_0000));
    assert_eq!(
        (new[0], new[1], new[7]),
        (R | 0x12, 0xffff_ffff_ff00_0001, 0x4_0000)
    );
}

#[test]
fn an_altmap_is_reserved_pages_behind_pages_that_nobody_writes() {
    let altmap = Altmap::new(Pfn::new(START), 2, 4606);
    let pagemap = device(MemoryType::Generic, 0).with_altmap(altmap);
    for version in [V6_12, V6_18, V7_3] {
        assert_eq!(page(version, &pagemap, 0), None);
        assert_eq!(page(version, &pagemap, 1), None);
        for k in [2, 4607] {
            let own = H + k * 64 + 8;
            let expected = Some([R, own, own, 0, 0, 0, 0x1_ffff_ffff, 0]);
            assert_eq!(page(version, &pagemap, k), expected);
        }
        let expected = Some([R, P, 0, 0, 0, 0, 0x1_ffff_ffff, 0]);
        assert_eq!(page(version, &pagemap, 4608), expected);
        let profile = Profile::amd64(version);
        let runs = DeviceRuns::new(&profile, &pagemap, &Site::default()).unwrap();
        assert_eq!(runs.device_pages(), 257_536);
    }
}

#[test]
fn a_compound_of_two_pages_in_6_1_knows_neither_its_order_nor_its_size() {
    let pagemap = device(MemoryType::Generic, 1);
    let reserved = 0x27_ffff_c000_1000;
    let [head, tail] = [0, 1].map(|k| page(KernelVersion::V6_1, &pagemap, k).unwrap());
    assert_eq!(head[0], reserved | 1 << 16);
    assert_eq!(tail, [reserved, H | 1, 0, TAIL, 0, 0, 0xffff_ffff, 0]);
}

#[test]
fn of_a_compound_in_a_boot_time_section_6_18_forgets_all_but_128_struct_pages() {
    let pagemap = device(MemoryType::Generic, 9);
    let section = memblock::PfnRange::new(Pfn::new(START), Pfn::new(START + 0x8000));
    let site = Site::default().with_boot_sections(vec![section]);
    for (version, forgotten) in [(V6_12, false), (V6_18, true), (V7_3, false)] {
        let runs = DeviceRuns::new(&Profile::amd64(version), &pagemap, &site).unwrap();
        for (k, inside) in [
            (127, false),
            (128, true),
            (511, true),
            (512, false),
            (0x8080, false),
        ] {
            let page = runs.page(Pfn::new(START + k));
            assert_eq!(page.is_none(), forgotten && inside, "{k}");
        }
    }
}

#[test]
fn descriptions_that_linux_refuses_or_gets_wrong_are_refused_and_named() {
    let profile = Profile::amd64(V7_3);
    let refused = |pagemap: &DevPagemap| {
        DeviceRuns::new(&profile, pagemap, &Site::default()).expect_err("it must be refused")
    };
    let map = |start: u64, end: u64| {
        let range = PhysRange::new(PhysAddr::new(start << 12), PhysAddr::new(end << 12));
        DevPagemap::new(MemoryType::FsDax, P).with_range(range)
    };
    assert_eq!(
        refused(&DevPagemap::new(MemoryType::FsDax, P)),
        DeviceError::NoRange
    );
    assert!(matches!(
        refused(&map(0x10_0001, 0x10_0200)),
        DeviceError::Unaligned {
            align: 0x20_0000,
            ..
        }
    ));
    assert!(matches!(
        refused(&map(0x200, 0x200)),
        DeviceError::Empty { .. }
    ));
    assert!(matches!(
        refused(&map(0x200, 1 << 40)),
        DeviceError::BeyondMemory { .. }
    ));
    let overlapping =
        map(0, 0x400).with_range(PhysRange::from_size(PhysAddr::new(0x20_0000), 0x20_0000));
    assert!(matches!(refused(&overlapping), DeviceError::Overlap { .. }));
    let two = map(0, 0x200)
        .with_range(PhysRange::from_size(PhysAddr::new(0x40_0000), 0x20_0000))
        .with_altmap(Altmap::new(Pfn::new(0), 0, 8));
    assert_eq!(refused(&two), DeviceError::AltmapWithRanges { ranges: 2 });
    let all = map(0, 0x200).with_altmap(Altmap::new(Pfn::new(0), 0, 0x200));
    assert!(matches!(refused(&all), DeviceError::AltmapOutside { .. }));
    // ends inside a compound; begins inside one because of the altmap
    assert!(matches!(
        refused(&map(0x10_0000, 0x10_0600).with_vmemmap_shift(10)),
        DeviceError::CompoundUnaligned { pages: 1024, .. }
    ));
    let altmap = Altmap::new(Pfn::new(0x10_0000), 2, 100);
    assert!(matches!(
        refused(
            &map(0x10_0000, 0x10_0400)
                .with_vmemmap_shift(9)
                .with_altmap(altmap)
        ),
        DeviceError::CompoundUnaligned { order: 9, .. }
    ));
    assert!(matches!(
        refused(&map(0x10_0000, 0x10_0400).with_vmemmap_shift(23)),
        DeviceError::OrderTooLarge { max: 22, .. }
    ));
    let small = Profile::amd64_small(V7_3);
    let refused = DeviceRuns::new(&small, &map(0, 0x200), &Site::default());
    assert_eq!(refused.err(), Some(DeviceError::NoDeviceZone));
}
