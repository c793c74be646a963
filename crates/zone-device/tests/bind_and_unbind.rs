//! Devices on a memory map: beside memory, over each other, and gone again.

use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, Pfn, PfnRange, PhysRange};
use memmap_core::writers::Stream;
use memmap_core::{
    BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile, SectionFlags,
    SectionNr, ZoneKind,
};
use zone_device::{Altmap, BindError, DevPagemap, DeviceError, Devices, MemoryType};

const SECTION: u64 = 0x8000;
const NODE: NodeId = NodeId::new(0);

fn pfns(start: u64, end: u64) -> PfnRange {
    PfnRange::new(Pfn::new(start), Pfn::new(end))
}

/// Memory up to the middle of a section, and from a sub-section in it on.
fn map(version: KernelVersion) -> MemoryMap {
    let mut memblock = Memblock::new(Behaviour::V7_3);
    for range in [
        pfns(0x100, 2 * SECTION + 0x4000),
        pfns(2 * SECTION + 0x6000, 4 * SECTION),
    ] {
        memblock
            .add_node(range.phys(12), NODE, MemblockFlags::empty())
            .expect("memory is added");
    }
    let profile = Profile::amd64(version);
    let geometry = Geometry::new(&profile, &memblock, &BootOptions::default()).expect("a machine");
    let map = MemoryMap::new(geometry, BackingOptions::default()).expect("memory for it");
    for section in map.geometry().sections().iter() {
        let mut claim = map.claim(section).expect("nobody else claims");
        claim.write(&Stream::DETECT);
        claim.publish();
    }
    map
}

fn device(range: PfnRange) -> DevPagemap {
    let range: PhysRange = range.phys(12);
    DevPagemap::new(MemoryType::FsDax, 0xffff_8881_0150_d8b8).with_range(range)
}

fn device_span(map: &MemoryMap) -> PfnRange {
    let node = map.geometry().nodes().iter().find(|node| node.id == NODE);
    let zone = node.and_then(|node| node.zones.iter().find(|zone| zone.kind == ZoneKind::Device));
    zone.map_or(PfnRange::default(), |zone| zone.span())
}

#[test]
fn struct_pages_of_a_bound_device_are_those_that_its_runs_say() {
    for version in [
        KernelVersion::V6_12,
        KernelVersion::V6_18,
        KernelVersion::V7_3,
    ] {
        let mut map = map(version);
        let mut devices = Devices::new();
        // from the middle of one new section to the middle of another
        let range = pfns(10 * SECTION + 0x400, 12 * SECTION + 0x1c00);
        let pagemap = device(range).with_vmemmap_shift(9);
        let id = devices
            .bind(&mut map, pagemap, NODE, &Stream::DETECT, None)
            .expect("free");
        let (_, _, runs) = devices.iter().next().expect("it is bound");
        for pfn in range.iter() {
            let page = map.read(pfn).expect("it has a struct page");
            assert_eq!(
                page.words(),
                runs.page(pfn).expect("written").words(),
                "{pfn}"
            );
        }
        assert_eq!(devices.device_at(range.start()), Some(id));
        assert_eq!(devices.device_at(range.end()), None);
        assert_eq!(device_span(&map), range);
        assert!(map.pfn_valid(range.start()));
        assert!(
            !map.pfn_valid(Pfn::new(10 * SECTION)),
            "its sub-section was not added"
        );
        let flags = map.section_flags(SectionNr(10));
        let hot = SectionFlags::PRESENT | SectionFlags::HAS_MEM_MAP;
        assert_eq!(flags, hot | SectionFlags::TAINT_ZONE_DEVICE);
        assert_eq!(map.section_flags(SectionNr(11)), hot);
    }
}

#[test]
fn a_device_in_a_section_with_memory_uses_its_struct_pages_and_taints_it() {
    let mut map = map(KernelVersion::V7_3);
    let mut devices = Devices::new();
    let range = pfns(2 * SECTION + 0x4000, 2 * SECTION + 0x6000);
    let before = map.pfn_to_online_page(Pfn::new(2 * SECTION));
    assert!(before.is_some());
    let id = devices
        .bind(&mut map, device(range), NODE, &Stream::DETECT, None)
        .expect("a hole");
    assert_eq!(map.section_flags(SectionNr(2)).bits(), 0x1f);
    assert_eq!(map.pfn_to_online_page(range.start()), None);
    assert_eq!(map.pfn_to_online_page(Pfn::new(2 * SECTION)), before);
    let bound = map.read(range.start()).expect("a struct page");
    assert_eq!(bound.next(), 0xffff_8881_0150_d8b8);
    devices.unbind(&mut map, id).expect("it was added");
    // as running kernels show: the words stay, the sub-sections go
    assert_eq!(map.read(range.start()).expect("it stays"), bound);
    assert!(!map.has_subsection(range.start()));
}

#[test]
fn what_is_there_already_is_named_and_nothing_changes() {
    let mut map = map(KernelVersion::V7_3);
    let mut devices = Devices::new();
    let first = pfns(10 * SECTION, 11 * SECTION);
    devices
        .bind(&mut map, device(first), NODE, &Stream::DETECT, None)
        .expect("free");
    let span = device_span(&map);

    let wanted = pfns(11 * SECTION - 0x200, 12 * SECTION);
    // a range that could be added comes before the one that cannot
    let two = device(pfns(8 * SECTION, 9 * SECTION)).with_range(wanted.phys(12));
    let refused = devices.bind(&mut map, two, NODE, &Stream::DETECT, None);
    assert!(
        matches!(
            refused,
            Err(BindError::OverDevice { device, other, .. }) if device == wanted && other == first
        ),
        "{refused:?}"
    );
    assert!(!map.pfn_valid(Pfn::new(8 * SECTION)));

    let over = pfns(2 * SECTION + 0x3e00, 2 * SECTION + 0x4400);
    let refused = devices.bind(&mut map, device(over), NODE, &Stream::DETECT, None);
    let memory = pfns(2 * SECTION + 0x3e00, 2 * SECTION + 0x4000);
    assert!(
        matches!(refused, Err(BindError::OverMemory { memory: found, .. }) if found == memory),
        "{refused:?}"
    );
    let elsewhere = device(pfns(20 * SECTION, 21 * SECTION));
    let refused = devices.bind(&mut map, elsewhere, NodeId::new(7), &Stream::DETECT, None);
    assert!(matches!(refused, Err(BindError::Map(_))));
    assert!(!map.pfn_valid(Pfn::new(20 * SECTION)));
    assert_eq!(devices.iter().count(), 1);
    assert_eq!(device_span(&map), span);
}

#[test]
fn an_altmap_gives_the_pages_of_the_memory_map_or_the_bind_is_refused() {
    let mut map = map(KernelVersion::V7_3);
    let mut devices = Devices::new();
    let range = pfns(16 * SECTION, 24 * SECTION);
    let altmap = Altmap::of_namespace(range, map.profile());
    let pagemap = device(range).with_altmap(altmap);
    let id = devices
        .bind(&mut map, pagemap.clone(), NODE, &Stream::DETECT, None)
        .expect("free");
    let (_, bound, _) = devices.iter().next().expect("it is bound");
    let taken = bound
        .altmap()
        .map(|altmap| (altmap.alloc(), altmap.align()));
    assert_eq!(taken, Some((4096, 510)));
    let back = devices.unbind(&mut map, id).expect("it was added");
    assert_eq!(back, Some(pagemap));

    let small = device(range).with_altmap(Altmap::new(range.start(), 2, 1022));
    let refused = devices.bind(&mut map, small, NODE, &Stream::DETECT, None);
    assert!(matches!(
        refused,
        Err(BindError::Device(DeviceError::AltmapFull(_)))
    ));
}

#[test]
fn a_thousand_rebinds_leave_the_map_as_after_the_first() {
    let mut map = map(KernelVersion::V7_3);
    let mut devices = Devices::new();
    let range = pfns(10 * SECTION + 0x200, 11 * SECTION + 0x600);
    let state = |map: &MemoryMap| {
        let flags: Vec<_> = (0..14)
            .map(|nr| map.section_flags(SectionNr(nr)).bits())
            .collect();
        let node = &map.geometry().nodes()[0];
        let added: Vec<_> = map.added_sections().collect();
        (flags, added, node.span, device_span(map))
    };
    let boot = state(&map);
    let mut after = None;
    for round in 0..1000 {
        let id = devices
            .bind(&mut map, device(range), NODE, &Stream::DETECT, None)
            .unwrap_or_else(|error| panic!("bind {round}: {error}"));
        devices.unbind(&mut map, id).expect("it was added");
        assert_eq!(devices.unbind(&mut map, id).expect("nothing to do"), None);
        let now = state(&map);
        assert_eq!(
            &now,
            after.get_or_insert_with(|| now.clone()),
            "bind {round}"
        );
    }
    let after = after.expect("a thousand rounds");
    // sections are as at boot; spans are as they grew, which is what running kernels show
    assert_eq!((&after.0, &after.1), (&boot.0, &boot.1));
    assert_eq!(after.3, range);
    assert_eq!(map.read(range.start()).ok(), None);
}
