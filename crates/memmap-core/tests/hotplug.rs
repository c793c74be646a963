//! Memory that comes and goes, beside what a running kernel showed.

use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, Pfn, PfnRange, PhysAddr, PhysRange};
use memmap_core::buddy::{Allocator, HandOver, ListHeads, MigrateType, NodeDistances, Request};
use memmap_core::hotplug::{BlockError, BlockState, Hotplug, HotplugOptions, OnlineTo};
use memmap_core::{
    BackingKind, BackingOptions, BootOptions, Geometry, HotplugError, KernelVersion, MemoryMap,
    Profile, ReadError, SectionFlags, SectionNr, ZoneIndex, writers,
};
use proptest::prelude::*;

const NODE0: NodeId = NodeId::new(0);
const NODE1: NodeId = NodeId::new(1);
const NORMAL: ZoneIndex = ZoneIndex(2);
const MOVABLE: ZoneIndex = ZoneIndex(3);

/// A guest of 256 MiB in two nodes, everything above 4 GiB to be plugged.
fn guest(version: KernelVersion) -> Allocator<MemoryMap> {
    let mut memory = Memblock::new(Behaviour::V6_12);
    for (start, end, node) in [
        (0x1000, 0x9_f000, NODE0),
        (0x10_0000, 0x800_0000, NODE0),
        (0x800_0000, 0xffe_0000, NODE1),
    ] {
        let range = PhysRange::new(PhysAddr::new(start), PhysAddr::new(end));
        memory
            .add_node(range, node, MemblockFlags::empty())
            .expect("fits");
    }
    let reserved = PhysRange::new(PhysAddr::new(0), PhysAddr::new(0x10_0000));
    memory.reserve(reserved).expect("fits");
    let profile = Profile::amd64(version);
    let geometry = Geometry::new(&profile, &memory, &BootOptions::default()).expect("a machine");
    let mut options = BackingOptions::default();
    options.kind = BackingKind::Heap;
    let map = MemoryMap::new(geometry.clone(), options).expect("small");
    let plan = HandOver::new(&geometry);
    let writer = writers::by_name("template").expect("it exists");
    let mut free = Vec::new();
    for section in geometry.sections().iter() {
        let mut claim = map.claim(section).expect("pending");
        claim.write(writer);
        free.push(claim.write_and_hand_over(writer, &plan));
        claim.publish();
    }
    let allocator = Allocator::new(
        map,
        &geometry,
        NodeDistances::default(),
        ListHeads::default(),
    );
    for free in &free {
        allocator.join(&plan, free);
    }
    assert_eq!(allocator.check(), []);
    allocator
}

fn plugged(version: KernelVersion) -> Hotplug {
    let mut hotplug = Hotplug::new(guest(version), HotplugOptions::default());
    hotplug
        .add(NODE0, blocks(&hotplug, 32, 40))
        .expect("nothing is there");
    hotplug
}

fn blocks(hotplug: &Hotplug, from: u64, to: u64) -> PfnRange {
    PfnRange::new(
        hotplug.block_pfns(from).start(),
        hotplug.block_pfns(to).start(),
    )
}

/// Start, spanned, present and managed pages of a zone.
fn zone(hotplug: &Hotplug, node: NodeId, zone: ZoneIndex) -> [u64; 4] {
    let found = hotplug.map().geometry().node(node).expect("a node").zones[zone.index()];
    let counts = hotplug.allocator().zone_counts(node, zone);
    [
        found.start.get(),
        found.spanned,
        found.present,
        counts.managed,
    ]
}

/// What a 6.12.117 guest showed in `/proc/zoneinfo` and as valid zones of memory blocks, step by
/// step: 1 GiB added to node 0 at 4 GiB, then 512 MiB to node 1.
#[test]
fn zones_span_what_a_running_kernel_shows_at_every_step() {
    let mut guest = plugged(KernelVersion::V6_12);
    let normal = |guest: &Hotplug| zone(guest, NODE0, NORMAL);
    let movable = |guest: &Hotplug| zone(guest, NODE0, MOVABLE);
    assert_eq!(normal(&guest), [0; 4]);

    for number in [32, 33] {
        assert_eq!(
            guest.online(number, OnlineTo::Kernel).expect("offline"),
            NORMAL
        );
    }
    assert_eq!(normal(&guest), [1_048_576, 65536, 65536, 65536]);
    for number in 36..40 {
        assert_eq!(
            guest.online(number, OnlineTo::Movable).expect("offline"),
            MOVABLE
        );
    }
    assert_eq!(normal(&guest), [1_048_576, 65536, 65536, 65536]);
    assert_eq!(movable(&guest), [1_179_648, 131_072, 131_072, 131_072]);
    assert_eq!(
        guest.allocator().pageblock_counts(NODE0, MOVABLE)[MigrateType::Movable as usize],
        256
    );

    // next to Normal, next to nothing of Movable; then between the two
    for number in [34, 35] {
        assert_eq!(guest.valid_zones(number).expect("there"), [NORMAL, MOVABLE]);
        assert_eq!(
            guest.online(number, OnlineTo::Auto).expect("offline"),
            NORMAL
        );
    }
    assert_eq!(normal(&guest), [1_048_576, 131_072, 131_072, 131_072]);
    guest.offline(35).expect("free");
    assert_eq!(normal(&guest), [1_048_576, 98304, 98304, 98304]);
    guest.online(35, OnlineTo::Movable).expect("offline");
    assert_eq!(movable(&guest), [1_146_880, 163_840, 163_840, 163_840]);

    // the middle of a zone leaves a gap; its start and its end move the span
    guest.offline(33).expect("free");
    assert_eq!(normal(&guest), [1_048_576, 98304, 65536, 65536]);
    guest.offline(37).expect("free");
    assert_eq!(movable(&guest), [1_146_880, 163_840, 131_072, 131_072]);
    assert_eq!(guest.valid_zones(37).expect("there"), [MOVABLE, NORMAL]);
    guest.offline(35).expect("free");
    assert_eq!(movable(&guest), [1_179_648, 131_072, 98304, 98304]);
    guest.offline(39).expect("free");
    assert_eq!(movable(&guest), [1_179_648, 98304, 65536, 65536]);

    // Normal may reach over Movable
    guest.online(39, OnlineTo::Kernel).expect("offline");
    assert_eq!(normal(&guest), [1_048_576, 262_144, 98304, 98304]);
    assert_eq!(guest.valid_zones(37).expect("there"), [NORMAL, MOVABLE]);
    guest.offline(39).expect("free");
    assert_eq!(normal(&guest), [1_048_576, 98304, 65536, 65536]);
    guest.online(37, OnlineTo::Movable).expect("offline");
    assert_eq!(movable(&guest), [1_179_648, 98304, 98304, 98304]);

    guest
        .add(NODE1, blocks(&guest, 40, 44))
        .expect("nothing is there");
    for number in [40, 41] {
        guest.online(number, OnlineTo::Movable).expect("offline");
    }
    assert_eq!(
        zone(&guest, NODE1, MOVABLE),
        [1_310_720, 65536, 65536, 65536]
    );
    guest.online(43, OnlineTo::Kernel).expect("offline");
    assert_eq!(
        zone(&guest, NODE1, NORMAL),
        [1_409_024, 32768, 32768, 32768]
    );
    for number in [40, 41] {
        guest.offline(number).expect("free");
    }
    assert!(matches!(guest.offline(42), Err(BlockError::Offline(42))));
    assert_eq!(zone(&guest, NODE1, MOVABLE), [0; 4]);

    guest.offline(34).expect("free");
    assert_eq!(normal(&guest), [1_048_576, 32768, 32768, 32768]);
    assert_eq!(guest.allocator().check(), []);
}

/// What the same kernel showed when 1 GiB of node 1 went away block by block, and the same place
/// came back as node 0's.
#[test]
fn a_span_that_shrinks_passes_over_gaps_to_the_nearest_online_memory() {
    let mut guest = Hotplug::new(guest(KernelVersion::V6_12), HotplugOptions::default());
    guest
        .add(NODE1, blocks(&guest, 32, 40))
        .expect("nothing is there");
    let movable = |guest: &Hotplug| zone(guest, NODE1, MOVABLE);
    for number in 32..40 {
        guest.online(number, OnlineTo::Movable).expect("offline");
    }
    assert_eq!(movable(&guest), [1_048_576, 262_144, 262_144, 262_144]);
    for (number, shown) in [
        (32, [1_081_344, 229_376, 229_376, 229_376]),
        (39, [1_081_344, 196_608, 196_608, 196_608]),
        (35, [1_081_344, 196_608, 163_840, 163_840]),
        (33, [1_114_112, 163_840, 131_072, 131_072]),
        (34, [1_179_648, 98304, 98304, 98304]),
    ] {
        guest.offline(number).expect("free");
        assert_eq!(movable(&guest), shown, "block {number}");
    }
    for number in 36..39 {
        guest.offline(number).expect("free");
    }
    assert_eq!(movable(&guest), [0; 4]);
    guest.remove(blocks(&guest, 32, 40)).expect("offline");
    guest
        .add(NODE0, blocks(&guest, 32, 36))
        .expect("nothing is there");
    guest.online(34, OnlineTo::Movable).expect("offline");
    assert_eq!(
        zone(&guest, NODE0, MOVABLE),
        [1_114_112, 32768, 32768, 32768]
    );
    assert_eq!(guest.allocator().check(), []);
}

/// Words 1 and 2 of every struct page of the first block that a 6.12 guest onlined: heads of
/// blocks of order 10 in a list, and list poison half way, where the second pageblock was taken
/// off the isolated list; all others point to themselves.
#[test]
fn onlined_pages_keep_poison_where_isolation_ended() {
    let mut guest = plugged(KernelVersion::V6_12);
    guest.online(36, OnlineTo::Movable).expect("offline");
    let pfns = guest.block_pfns(36);
    let (mut heads, mut poisoned) = (0, 0);
    for pfn in pfns.start().get()..pfns.end().get() {
        let page = guest.map().read(Pfn::new(pfn)).expect("online");
        let own = guest.map().pfn_to_page(Pfn::new(pfn)).expect("online") + 8;
        match pfn % 1024 {
            0 => {
                assert_eq!((page.mapcount(), page.private()), (0xf000_0000, 10));
                heads += 1;
            }
            512 => {
                assert_eq!(page.next(), 0xdead_0000_0000_0100);
                assert_eq!(page.prev(), 0xdead_0000_0000_0122);
                poisoned += 1;
            }
            _ => assert_eq!((page.next(), page.prev()), (own, own)),
        }
        assert_eq!((page.refcount(), page.flags()), (0, 0x1f_ffff_c000_0000));
    }
    assert_eq!((heads, poisoned), (32, 32));
    let list = guest
        .allocator()
        .free_list(NODE0, MOVABLE, 10, MigrateType::Movable);
    assert!(list.is_sorted() && list.len() == 32);
}

#[test]
fn a_block_with_a_page_in_use_stays_online_and_nothing_changes() {
    let mut guest = plugged(KernelVersion::V6_12);
    guest.online(32, OnlineTo::Kernel).expect("offline");
    let request = Request {
        order: 3,
        node: NODE0,
        zone: NORMAL,
        migrate: MigrateType::Unmovable,
    };
    let pfn = guest.allocator().alloc_pages(request).expect("free memory");
    let before = (zone(&guest, NODE0, NORMAL), guest.allocator().buddyinfo());
    match guest.offline(32) {
        Err(BlockError::Busy {
            block: 32,
            pfn: busy,
        }) => assert_eq!(busy, pfn),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        before,
        (zone(&guest, NODE0, NORMAL), guest.allocator().buddyinfo())
    );
    guest.allocator().free_pages(pfn, 3).expect("in use");
    guest.offline(32).expect("free");
    guest.remove(blocks(&guest, 32, 40)).expect("offline");
    let gone = guest.block_pfns(32).start();
    assert!(matches!(
        guest.map().read(gone),
        Err(ReadError::NoStructPage { .. })
    ));
}

#[test]
fn a_memory_map_in_the_memory_itself_is_present_but_not_managed() {
    let mut options = HotplugOptions::default();
    options.memmap_on_memory = true;
    let mut guest = Hotplug::new(guest(KernelVersion::V6_12), options);
    guest
        .add(NODE0, blocks(&guest, 32, 33))
        .expect("nothing is there");
    guest.online(32, OnlineTo::Movable).expect("offline");
    assert_eq!(
        zone(&guest, NODE0, MOVABLE),
        [1_048_576, 32768, 32768, 32768 - 512]
    );
    let first = guest
        .map()
        .read(guest.block_pfns(32).start())
        .expect("online");
    assert_eq!(first.refcount(), 1);
    guest.offline(32).expect("free");
    assert_eq!(zone(&guest, NODE0, MOVABLE), [0; 4]);
}

#[test]
fn sections_come_with_the_flags_of_their_state() {
    let mut guest = plugged(KernelVersion::V6_12);
    let flags = |guest: &Hotplug, nr| guest.map().section_flags(SectionNr(nr)).bits();
    assert_eq!(
        (flags(&guest, 0), flags(&guest, 32), flags(&guest, 31)),
        (0xf, 0x3, 0)
    );
    guest.online(32, OnlineTo::Auto).expect("offline");
    assert_eq!(flags(&guest, 32), 0x7);
    assert!(
        guest
            .map()
            .pfn_to_online_page(guest.block_pfns(32).start())
            .is_some()
    );
    assert!(
        guest
            .map()
            .pfn_to_online_page(guest.block_pfns(33).start())
            .is_none()
    );
    assert!(guest.map().pfn_valid(guest.block_pfns(33).start()));
}

#[test]
fn a_device_in_an_unused_sub_section_taints_the_section_that_it_shares() {
    let mut memory = Memblock::new(Behaviour::V6_12);
    let range = PhysRange::new(PhysAddr::new(0x10_0000), PhysAddr::new(0x7c0_0000));
    memory
        .add_node(range, NODE0, MemblockFlags::empty())
        .expect("fits");
    let profile = Profile::amd64(KernelVersion::V6_12);
    let geometry = Geometry::new(&profile, &memory, &BootOptions::default()).expect("a machine");
    let mut map = MemoryMap::new(geometry, BackingOptions::default()).expect("small");
    let pfns = |a, b| PfnRange::new(Pfn::new(a), Pfn::new(b));
    let device = ZoneIndex(4);

    assert!(matches!(
        map.activate(pfns(0x7c10, 0x7e00)),
        Err(HotplugError::Misaligned { .. })
    ));
    let taken = map.activate(pfns(0x7a00, 0x8000));
    assert!(matches!(taken, Err(HotplugError::AlreadyThere { pfn }) if pfn == Pfn::new(0x7a00)));
    map.activate(pfns(0x7c00, 0x7e00)).expect("a hole");
    map.move_to_zone(NODE0, device, pfns(0x7c00, 0x7e00))
        .expect("a zone");
    let flags = map.section_flags(SectionNr(0));
    assert!(flags.contains(SectionFlags::EARLY | SectionFlags::TAINT_ZONE_DEVICE));
    assert_eq!(flags.bits(), 0x1f);
    assert!(map.pfn_to_online_page(Pfn::new(0x7c00)).is_none());
    assert!(map.pfn_to_online_page(Pfn::new(0x7bff)).is_some());
    assert!(
        map.pfn_valid(Pfn::new(0x7fff)),
        "early sections have all their struct pages"
    );
    let zone = map.geometry().node(NODE0).expect("a node").zones[4];
    assert_eq!(
        (zone.start, zone.spanned, zone.present),
        (Pfn::new(0x7c00), 0x200, 0)
    );

    let again = map.activate(pfns(0x7c00, 0x7e00));
    assert!(matches!(again, Err(HotplugError::AlreadyThere { .. })));
    map.deactivate(pfns(0x7c00, 0x7e00)).expect("added");
    let absent = map.deactivate(pfns(0x7c00, 0x7e00));
    assert!(matches!(absent, Err(HotplugError::NotThere { .. })));
}

#[test]
fn struct_pages_of_added_sections_are_valid_by_sub_section() {
    let mut map = guest(KernelVersion::V7_3).into_pages();
    let pfns = PfnRange::new(Pfn::new(0x10_0200), Pfn::new(0x10_0600));
    map.activate(pfns).expect("nothing is there");
    assert!(!map.pfn_valid(Pfn::new(0x10_01ff)) && map.pfn_valid(Pfn::new(0x10_0200)));
    assert_eq!(
        map.next_valid_pfn(Pfn::new(0xf_0000)),
        Some(Pfn::new(0x10_0200))
    );
    assert_eq!(
        map.valid_pfns().filter(|pfn| *pfn >= pfns.start()).count(),
        0x400
    );
    assert!(map.struct_pages_mut(pfns).is_some());
    assert!(map.read(Pfn::new(0x10_05ff)).is_ok());
    map.activate(PfnRange::new(Pfn::new(0x10_0600), Pfn::new(0x10_0800)))
        .expect("a hole");
    map.deactivate(PfnRange::new(Pfn::new(0x10_0200), Pfn::new(0x10_0800)))
        .expect("added");
    assert_eq!(map.added_sections().count(), 0);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Online(u64, u8),
    Offline(u64),
    Alloc(u8, u8),
    Free(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (32_u64..36, 0_u8..3).prop_map(|(block, to)| Step::Online(block, to)),
        (32_u64..36).prop_map(Step::Offline),
        (0_u8..=10, 0_u8..3).prop_map(|(order, migrate)| Step::Alloc(order, migrate)),
        any::<usize>().prop_map(Step::Free),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn no_page_is_lost_while_memory_comes_and_goes(
        old in any::<bool>(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let version = if old { KernelVersion::V6_1 } else { KernelVersion::V7_3 };
        let mut machine = plugged(version);
        let mut used: Vec<(Pfn, u8)> = Vec::new();
        let online = |machine: &Hotplug| {
            machine.blocks().filter(|(_, _, state)| matches!(state, BlockState::Online(_))).count() as u64
        };
        let total = |machine: &Hotplug| -> (u64, u64) {
            let zones = (0..2).flat_map(|node| (0..4).map(move |zone| (NodeId::new(node), ZoneIndex(zone))));
            zones.map(|(node, zone)| machine.allocator().zone_counts(node, zone))
                .fold((0, 0), |sum, zone| (sum.0 + zone.managed, sum.1 + zone.free))
        };
        let boot = total(&machine).0;
        for step in steps {
            match step {
                Step::Online(block, to) => {
                    let to = [OnlineTo::Auto, OnlineTo::Kernel, OnlineTo::Movable][usize::from(to)];
                    let _ = machine.online(block, to);
                }
                Step::Offline(block) => {
                    let pfns = machine.block_pfns(block);
                    let busy = used.iter().any(|(pfn, _)| pfns.contains(*pfn));
                    let state = machine.blocks().find(|(number, ..)| *number == block).map(|found| found.2);
                    let result = machine.offline(block);
                    let expected = matches!(state, Some(BlockState::Online(_))) && !busy;
                    prop_assert_eq!(result.is_ok(), expected, "{:?}", result);
                }
                Step::Alloc(order, migrate) => {
                    let request = Request {
                        order,
                        node: NODE0,
                        zone: if migrate == 1 { MOVABLE } else { NORMAL },
                        migrate: MigrateType::ALL[usize::from(migrate)],
                    };
                    if let Ok(pfn) = machine.allocator().alloc_pages(request) {
                        used.push((pfn, order));
                    }
                }
                Step::Free(which) => if !used.is_empty() {
                    let (pfn, order) = used.swap_remove(which % used.len());
                    prop_assert!(machine.allocator().free_pages(pfn, order).is_ok());
                },
            }
            prop_assert_eq!(machine.allocator().check(), []);
            let in_use: u64 = used.iter().map(|(_, order)| 1_u64 << order).sum();
            let (managed, free) = total(&machine);
            prop_assert_eq!(managed, boot + online(&machine) * machine.block_pages());
            prop_assert_eq!(free + in_use, managed);
        }
    }
}
