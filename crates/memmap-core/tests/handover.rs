//! Hand-over: which blocks, whose links, whoever does it.

use std::sync::atomic::{AtomicUsize, Ordering};

use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, Pfn, PfnRange, PhysAddr, PhysRange};
use memmap_core::buddy::{
    AllocError, Allocator, GrowDeferred, Growth, HandOver, ListHeads, MigrateType, NodeDistances,
    Request, SectionFree, initial_type, is_contiguous,
};
use memmap_core::writers::{self, PageWriter};
use memmap_core::{
    AddressSpace, BackingKind, BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap,
    MemoryModel, PageKind, Profile, SectionNr, ZoneIndex,
};

const NODE0: NodeId = NodeId::new(0);

fn bytes(start: u64, end: u64) -> PhysRange {
    PhysRange::new(PhysAddr::new(start), PhysAddr::new(end))
}

/// Memory and reservations by frames of 4 KiB, on node 0.
fn geometry(profile: &Profile, memory: &[(u64, u64)], reserved: &[(u64, u64)]) -> Geometry {
    let mut memblock = Memblock::new(Behaviour::V6_12);
    for (start, end) in memory {
        let range = bytes(start << 12, end << 12);
        memblock
            .add_node(range, NODE0, MemblockFlags::empty())
            .expect("fits");
    }
    for (start, end) in reserved {
        memblock
            .reserve(bytes(start << 12, end << 12))
            .expect("fits");
    }
    Geometry::new(profile, &memblock, &BootOptions::default()).expect("a machine")
}

/// 768 MiB on amd64 with holes and reservations, also in the deferred part.
fn machine(version: KernelVersion) -> Geometry {
    geometry(
        &Profile::amd64(version),
        &[(1, 0x9f), (0x100, 0x2_ffe0)],
        &[
            (0, 0x10),
            (0x1000, 0x3c11),
            (0x1_8200, 0x1_8201),
            (0x2_1003, 0x2_1777),
            (0x2_f000, 0x2_ffe0),
        ],
    )
}

fn map(geometry: &Geometry, space: AddressSpace) -> MemoryMap {
    let mut options = BackingOptions::default();
    options.kind = BackingKind::Heap;
    options.poison = true;
    options.address_space = space;
    MemoryMap::new(geometry.clone(), options).expect("small")
}

fn write(
    map: &MemoryMap,
    plan: &HandOver<'_>,
    section: SectionNr,
    writer: &dyn PageWriter,
) -> SectionFree {
    let mut claim = map.claim(section).expect("pending");
    let free = claim.write_and_hand_over(writer, plan);
    claim.publish();
    free
}

#[test]
fn memory_beyond_all_zones_is_no_violation() {
    let mut memblock = Memblock::new(Behaviour::V6_12);
    let memory = bytes(0x10_0000, 0x1800_0000);
    memblock
        .add_node(memory, NODE0, MemblockFlags::empty())
        .expect("fits");
    let mut options = BootOptions::default();
    options.max_low_pfn = Some(Pfn::new(0x1_4000));
    for version in [
        KernelVersion::V6_1,
        KernelVersion::V6_12,
        KernelVersion::V7_3,
    ] {
        let geometry =
            Geometry::new(&Profile::amd64(version), &memblock, &options).expect("a machine");
        let map = map(&geometry, AddressSpace::Kernel);
        for section in geometry.sections().iter() {
            let mut claim = map.claim(section).expect("pending");
            claim.write(writers::by_name("template").expect("it exists"));
            claim.publish();
        }
        let report = map.check();
        assert!(report.is_clean(), "{version}: {report}");
        assert_eq!(report.pages, 0x1_8000, "{version}: all were looked at");
    }
}

/// Everything eagerly, by `threads` threads that take sections as they come.
fn eager(geometry: &Geometry, writer: &dyn PageWriter, threads: usize) -> Allocator<MemoryMap> {
    let map = map(geometry, AddressSpace::Kernel);
    let plan = HandOver::new(geometry);
    let sections: Vec<_> = geometry.sections().iter().collect();
    let next = AtomicUsize::new(0);
    let mut free: Vec<SectionFree> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    while let Some(section) = sections.get(next.fetch_add(1, Ordering::Relaxed)) {
                        mine.push(write(&map, &plan, *section, writer));
                    }
                    mine
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("no panic"))
            .collect()
    });
    free.sort_by_key(|free| free.section);
    let report = map.check();
    assert!(report.is_clean(), "not yet joined: {report}");
    let allocator = joined(map, geometry, &plan, &free);
    assert_eq!(allocator.check(), []);
    allocator
}

/// The allocator of a map whose sections gave these lists.
fn joined(
    map: MemoryMap,
    geometry: &Geometry,
    plan: &HandOver<'_>,
    free: &[SectionFree],
) -> Allocator<MemoryMap> {
    let allocator = Allocator::new(
        map,
        geometry,
        NodeDistances::default(),
        ListHeads::default(),
    );
    for free in free {
        allocator.join(plan, free);
    }
    allocator
}

/// Early sections only.
fn early(geometry: &Geometry) -> Allocator<MemoryMap> {
    let map = map(geometry, AddressSpace::Kernel);
    let plan = HandOver::new(geometry);
    let pages = geometry.sections().pages_per_section();
    let first = geometry.first_deferred(NODE0).expect("deferred").get() / pages;
    let writer = writers::by_name("zero").expect("it exists");
    let free: Vec<_> = geometry
        .sections()
        .iter()
        .take_while(|section| section.0 < first)
        .map(|section| write(&map, &plan, section, writer))
        .collect();
    joined(map, geometry, &plan, &free)
}

fn all_words(allocator: Allocator<MemoryMap>) -> Vec<u64> {
    let mut map = allocator.into_pages();
    let sections: Vec<_> = map.geometry().sections().iter().collect();
    let words = |section| map.section_words(section).expect("ready").to_vec();
    sections.into_iter().flat_map(words).collect()
}

#[test]
fn bytes_do_not_depend_on_writer_or_threads() {
    for version in [KernelVersion::V6_1, KernelVersion::V6_12] {
        let geometry = machine(version);
        let reference = all_words(eager(&geometry, &writers::Zero, 1));
        for writer in writers::all() {
            for threads in [1, 2, 3, 5, 8, 16] {
                let words = all_words(eager(&geometry, *writer, threads));
                assert!(
                    words == reference,
                    "{} with {threads} threads",
                    writer.name()
                );
            }
        }
    }
}

#[test]
fn growing_and_finishing_later_leaves_the_bytes_of_one_go() {
    let geometry = machine(KernelVersion::V6_12);
    let reference = all_words(eager(&geometry, &writers::Zero, 1));
    let allocator = early(&geometry);
    let zone = ZoneIndex(1);
    let before = allocator.zone_counts(NODE0, zone).free;
    let growth = allocator.deferred_grow_zone(NODE0, zone, 0, &writers::Zero);
    let after = allocator.zone_counts(NODE0, zone).free;
    assert_eq!(growth, Growth::Pages(after - before));
    assert!(after - before >= 0x8000 - 0x1000);
    while allocator.deferred_grow_zone(NODE0, zone, 10, &writers::Zero) != Growth::Nothing {}
    assert_eq!(allocator.first_deferred(NODE0), None);
    assert_eq!(allocator.check(), []);
    assert!(all_words(allocator) == reference);
}

#[test]
fn an_allocation_that_finds_nothing_grows_its_zone() {
    let geometry = machine(KernelVersion::V7_3);
    let mut allocator = early(&geometry);
    let request = Request {
        order: 10,
        node: NODE0,
        zone: ZoneIndex(3),
        migrate: MigrateType::Movable,
    };
    let mut given = 0;
    while allocator.alloc_pages(request).is_ok() {
        given += 1;
    }
    allocator.set_growth(Some(GrowDeferred::boxed(writers::all()[2])));
    let mut grown = 0;
    while allocator.alloc_pages(request).is_ok() {
        grown += 1;
    }
    let blocks = |from: u64, to: u64| -> u64 {
        let runs = geometry.page_runs_within(PfnRange::new(Pfn::new(from), Pfn::new(to)));
        runs.filter(|run| run.kind == PageKind::Free)
            .flat_map(|run| memmap_core::buddy::blocks(run.pfns, 10))
            .filter(|block| block.order == 10)
            .count() as u64
    };
    let first = geometry.first_deferred(NODE0).expect("deferred").get();
    assert_eq!((given, grown), (blocks(0, first), blocks(first, 0x3_0000)));
    assert_eq!(allocator.first_deferred(NODE0), None);
    assert!(matches!(
        allocator.alloc_pages(request),
        Err(AllocError::NoMemory { .. })
    ));
    assert_eq!(allocator.check(), []);
}

#[test]
fn cpus_that_grow_at_once_share_the_sections() {
    let geometry = machine(KernelVersion::V6_18);
    for _ in 0..20 {
        let mut allocator = early(&geometry);
        allocator.set_growth(Some(GrowDeferred::boxed(writers::all()[2])));
        let request = Request {
            order: 10,
            node: NODE0,
            zone: ZoneIndex(3),
            migrate: MigrateType::Movable,
        };
        let given: usize = std::thread::scope(|scope| {
            let cpus: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        std::iter::from_fn(|| allocator.alloc_pages(request).ok()).count()
                    })
                })
                .collect();
            cpus.into_iter()
                .map(|cpu| cpu.join().expect("no panic"))
                .sum()
        });
        let free: u64 = geometry
            .page_runs()
            .iter()
            .filter(|run| run.kind == PageKind::Free)
            .flat_map(|run| memmap_core::buddy::blocks(run.pfns, 10))
            .filter(|block| block.order == 10)
            .count() as u64;
        assert_eq!(given as u64, free);
        assert_eq!(allocator.check(), []);
    }
}

#[test]
fn a_zone_that_is_not_its_nodes_last_does_not_grow() {
    let geometry = machine(KernelVersion::V6_12);
    let allocator = early(&geometry);
    let first = allocator.first_deferred(NODE0);
    assert_eq!(
        allocator.deferred_grow_zone(NODE0, ZoneIndex(0), 0, &writers::Zero),
        Growth::Nothing
    );
    assert_eq!(allocator.first_deferred(NODE0), first);
}

#[test]
fn sections_that_are_reserved_whole_are_passed_when_growing() {
    let profile = Profile::amd64(KernelVersion::V7_3);
    let memory = [(0x100, 0x3_0000)];
    let geometry = geometry(&profile, &memory, &[(0x1_0000, 0x2_0000)]);
    let allocator = early(&geometry);
    assert_eq!(allocator.first_deferred(NODE0), Some(Pfn::new(0x1_0000)));
    let growth = allocator.deferred_grow_zone(NODE0, ZoneIndex(1), 0, &writers::Zero);
    assert_eq!(growth, Growth::Pages(0x8000));
    assert_eq!(allocator.first_deferred(NODE0), Some(Pfn::new(0x2_8000)));
    let geometry = self::geometry(&profile, &memory, &[(0x1_0000, 0x3_0000)]);
    let allocator = early(&geometry);
    let growth = allocator.deferred_grow_zone(NODE0, ZoneIndex(1), 0, &writers::Zero);
    assert_eq!(
        (growth, allocator.first_deferred(NODE0)),
        (Growth::Nothing, None)
    );
}

fn is_poisoned(allocator: &Allocator<MemoryMap>, pfn: u64) -> bool {
    let page = allocator.pages().read(Pfn::new(pfn)).expect("ready");
    (page.next(), page.prev()) == (0xdead_0000_0000_0100, 0xdead_0000_0000_0122)
}

#[test]
fn pages_freed_one_by_one_in_the_deferred_part_keep_list_poison_at_every_second_one() {
    for (version, whole_pageblock) in [(KernelVersion::V6_1, false), (KernelVersion::V6_12, true)] {
        let allocator = eager(&machine(version), &writers::Zero, 1);
        // 0x18200 is reserved: the region [0x18000, 0x18400) is not whole
        assert!(is_poisoned(&allocator, 0x1_8204 + 2));
        assert!(!is_poisoned(&allocator, 0x1_8204 + 1));
        assert_eq!(
            is_poisoned(&allocator, 0x1_8002),
            whole_pageblock,
            "{version}"
        );
        // whole regions and the early part have none
        assert!((0x1_8401..0x1_8800).all(|pfn| !is_poisoned(&allocator, pfn)));
        assert!((0x3c11..0x4000).all(|pfn| !is_poisoned(&allocator, pfn)));
    }
}

#[test]
fn pages_that_headed_a_pageblock_keep_list_poison_where_blocks_are_larger() {
    let profile = Profile::ppc64_64k(KernelVersion::V6_12);
    let mut memblock = Memblock::new(Behaviour::V6_12);
    memblock
        .add_node(bytes(0, 1 << 30), NODE0, MemblockFlags::empty())
        .expect("fits");
    let geometry = Geometry::new(&profile, &memblock, &BootOptions::default()).expect("a machine");
    let allocator = eager(&geometry, &writers::Zero, 1);
    for pfn in 0x400..0x800 {
        let page = allocator.pages().read(Pfn::new(pfn)).expect("ready");
        let poisoned = page.next() == 0x5dea_dbee_f000_0100;
        assert_eq!(poisoned, pfn % 64 == 0 && pfn % 256 != 0, "{pfn:#x}");
    }
}

#[test]
fn only_pageblocks_whose_first_page_is_initialised_as_memory_become_movable() {
    for (version, reserved) in [
        (KernelVersion::V6_1, MigrateType::Unmovable),
        (KernelVersion::V6_12, MigrateType::Unmovable),
        (KernelVersion::V6_18, MigrateType::Movable),
        (KernelVersion::V7_3, MigrateType::Movable),
    ] {
        let geometry = machine(version);
        let of = |pfn| initial_type(&geometry, true, Pfn::new(pfn));
        // frame 0 is no memory; reserved memory in the early part is
        assert_eq!(
            (of(0), of(0x200), of(0x1000)),
            (
                MigrateType::Unmovable,
                MigrateType::Movable,
                MigrateType::Movable
            )
        );
        assert_eq!(
            of(0x1_8200),
            reserved,
            "{version}: reserved in the deferred part"
        );
        assert_eq!(of(0x2_0000), MigrateType::Movable);
        let counts = eager(&geometry, &writers::Zero, 1).pageblock_counts(NODE0, ZoneIndex(0));
        assert_eq!(counts[..3], [1, 7, 0]);
    }
}

#[test]
fn tiny_machines_keep_all_free_blocks_together() {
    let profile = Profile::amd64(KernelVersion::V6_12);
    let geometry = geometry(&profile, &[(0x100, 0x900)], &[]);
    let allocator = eager(&geometry, &writers::Zero, 1);
    assert!(!allocator.groups_by_mobility());
    let movable = Request {
        order: 0,
        node: NODE0,
        zone: ZoneIndex(3),
        migrate: MigrateType::Movable,
    };
    let pfn = allocator.alloc_pages(movable).expect("free memory");
    allocator.free_pages(pfn, 0).expect("in use");
    assert_eq!(allocator.check(), []);
}

#[test]
fn a_zone_is_contiguous_unless_a_gap_covers_an_end_of_a_pageblock() {
    let profile = Profile::amd64(KernelVersion::V6_12);
    let dma32 = ZoneIndex(1);
    let holes =
        |memory: &[(u64, u64)]| is_contiguous(&geometry(&profile, memory, &[]), NODE0, dma32);
    assert!(holes(&[(1, 0x1_0000)]));
    // inside a block; over its end; a whole section
    assert!(holes(&[(1, 0x2010), (0x2020, 0x1_0000)]));
    assert!(
        holes(&[(1, 0x21f0), (0x2200, 0x1_0000)]),
        "gaps belong to the zone above them"
    );
    assert!(
        !holes(&[(1, 0x2000), (0x2400, 0x1_0000)]),
        "a sub-section without memory is not online"
    );
    assert!(!holes(&[(1, 0x8000), (0x1_0000, 0x2_0000)]));
    // the gap below 4 GiB lies in DMA32's span, at the end of a block, and is of zone Normal
    let memory = [(1, 0x9f), (0x100, 0xf_ffe0), (0x10_0000, 0x10_8000)];
    let two = geometry(&profile, &memory, &[]);
    assert!(!is_contiguous(&two, NODE0, dma32) && is_contiguous(&two, NODE0, ZoneIndex(2)));
    assert!(!is_contiguous(&two, NODE0, ZoneIndex(3)));
}

#[test]
fn in_host_addresses_lists_can_be_followed_by_pointers() {
    let geometry = machine(KernelVersion::V6_12);
    let map = map(&geometry, AddressSpace::Host);
    let plan = HandOver::new(&geometry);
    let free: Vec<_> = geometry
        .sections()
        .iter()
        .map(|section| write(&map, &plan, section, &writers::Zero))
        .collect();
    let allocator = Allocator::new(map, &geometry, NodeDistances::default(), ListHeads::Host);
    for free in &free {
        allocator.join(&plan, free);
    }
    assert_eq!(allocator.check(), []);
    let list = allocator.free_list(NODE0, ZoneIndex(1), 10, MigrateType::Movable);
    for pair in list.windows(2) {
        let page = allocator.pages().read(pair[0]).expect("ready");
        assert_eq!(
            Some(page.next() - 8),
            allocator.pages().pfn_to_page(pair[1])
        );
    }
}

/// A kernel without an MMU once set its highest map number too late: `pfn_valid` said no for
/// every page when reserved ranges were marked, and none of them was.
#[test]
fn reserved_ranges_of_a_flat_map_are_marked() {
    let mut config = Profile::amd64_small(KernelVersion::V6_12).config().clone();
    config.memory_model = MemoryModel::Flat;
    config.nodes_shift = 0;
    config.numa_balancing = false;
    config.deferred_init = false;
    config.hvo = false;
    let profile = config.build().expect("a flat kernel");
    let geometry = geometry(
        &profile,
        &[(0, 0x4000)],
        &[(0x100, 0x180), (0x3000, 0x3001)],
    );
    for (pfn, kind) in [
        (0x100, PageKind::Reserved),
        (0x17f, PageKind::Reserved),
        (0x180, PageKind::Free),
        (0x3000, PageKind::Reserved),
    ] {
        assert_eq!(
            geometry.page_run(Pfn::new(pfn)).map(|run| run.kind),
            Some(kind),
            "{pfn:#x}"
        );
    }
    let reserved: u64 = geometry
        .page_runs()
        .iter()
        .filter(|run| run.kind == PageKind::Reserved)
        .map(|run| run.pfns.len())
        .sum();
    assert_eq!(reserved, 0x81);
}
