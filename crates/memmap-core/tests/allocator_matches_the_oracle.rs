//! The allocator beside a naive one that keeps sets of blocks and nothing else.

mod support {
    pub(crate) mod table;
}

use std::collections::{BTreeMap, BTreeSet};

use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, Pfn, PhysAddr, PhysRange};
use memmap_core::buddy::{
    AllocError, Allocator, FreeError, HandOver, ListHeads, MigrateType, NodeDistances, Request,
};
use memmap_core::{BootOptions, Geometry, KernelVersion, PageKind, Profile, ZoneIndex};
use proptest::prelude::*;
use support::table::Table;

const SECTION: u64 = 128 << 20;

/// Two nodes of a section and a half each, with holes and reservations.
fn machine(version: KernelVersion) -> Geometry {
    let mut memory = Memblock::new(Behaviour::V6_12);
    let nodes = [
        (0x1000, 0x9_f000, 0),
        (0x10_0000, SECTION + SECTION / 2 + 0x5000, 0),
        (SECTION + SECTION / 2 + 0x5000, 3 * SECTION - 0x3000, 1),
    ];
    for (start, end, node) in nodes {
        let range = PhysRange::new(PhysAddr::new(start), PhysAddr::new(end));
        memory
            .add_node(range, NodeId::new(node), MemblockFlags::empty())
            .expect("fits");
    }
    for (start, end) in [
        (0, 0x1_0000),
        (0x100_0000, 0x3c1_1000),
        (SECTION + 0x123_4567, SECTION + 0x133_0000),
    ] {
        memory
            .reserve(PhysRange::new(PhysAddr::new(start), PhysAddr::new(end)))
            .expect("fits");
    }
    let mut config = Profile::amd64(version).config().clone();
    config.deferred_init = true;
    let profile = config.build().expect("a preset");
    Geometry::new(&profile, &memory, &BootOptions::default()).expect("a machine")
}

fn handed_over(geometry: &Geometry) -> Allocator<Table> {
    let table = Table::new(geometry);
    let allocator = Allocator::new(
        table,
        geometry,
        NodeDistances::default(),
        ListHeads::default(),
    );
    let plan = HandOver::new(geometry);
    for section in geometry.sections().iter() {
        allocator.hand_over(&plan, section);
    }
    allocator
}

/// Free pages of a zone as single frames, and blocks in use.
#[derive(Debug)]
struct Naive {
    free: BTreeMap<(NodeId, ZoneIndex), BTreeSet<u64>>,
    used: BTreeMap<u64, u8>,
}

impl Naive {
    fn new(geometry: &Geometry) -> Self {
        let mut free: BTreeMap<_, BTreeSet<u64>> = BTreeMap::new();
        for run in geometry
            .page_runs()
            .iter()
            .filter(|run| run.kind == PageKind::Free)
        {
            let pages = run.pfns.start().get()..run.pfns.end().get();
            free.entry((run.node, run.zone)).or_default().extend(pages);
        }
        Self {
            free,
            used: BTreeMap::new(),
        }
    }

    /// Whether an aligned block of that order is free in any zone of the list.
    fn has(&self, nodes: &[NodeId], highest: ZoneIndex, order: u8) -> bool {
        nodes.iter().any(|node| {
            self.free
                .range((*node, ZoneIndex(0))..=(*node, highest))
                .any(|(_, free)| {
                    free.iter().any(|pfn| {
                        pfn % (1 << order) == 0
                            && free.range(*pfn..pfn + (1 << order)).count() == 1 << order
                    })
                })
        })
    }

    /// The zone that `pfns` were free in; they are in use from now on.
    fn take(&mut self, pfn: u64, order: u8) -> Option<(NodeId, ZoneIndex)> {
        let pfns = pfn..pfn + (1 << order);
        let (zone, free) = self
            .free
            .iter_mut()
            .find(|(_, free)| pfns.clone().all(|pfn| free.contains(&pfn)))?;
        for pfn in pfns {
            free.remove(&pfn);
        }
        self.used.insert(pfn, order);
        Some(*zone)
    }

    fn give(&mut self, zone: (NodeId, ZoneIndex), pfn: u64, order: u8) {
        self.used.remove(&pfn);
        self.free
            .entry(zone)
            .or_default()
            .extend(pfn..pfn + (1 << order));
    }

    /// What merging leaves of the free pages of a zone: blocks by order.
    fn blocks(&self, zone: (NodeId, ZoneIndex)) -> [u64; 11] {
        let mut orders = [0; 11];
        let Some(free) = self.free.get(&zone) else {
            return orders;
        };
        let mut left = free.clone();
        for order in (0..=10).rev() {
            let mut at = 0;
            while let Some(&pfn) = left.range(at..).next() {
                let start = pfn.next_multiple_of(1 << order);
                if start == pfn && left.range(pfn..pfn + (1 << order)).count() == 1 << order {
                    orders[order as usize] += 1;
                    for page in pfn..pfn + (1 << order) {
                        left.remove(&page);
                    }
                }
                at = pfn + 1;
            }
        }
        orders
    }
}

fn compare(allocator: &Allocator<Table>, naive: &Naive) {
    assert_eq!(allocator.check(), []);
    for (&(node, zone), free) in &naive.free {
        assert_eq!(allocator.zone_counts(node, zone).free, free.len() as u64);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc {
        order: u8,
        node: u16,
        zone: u8,
        migrate: u8,
    },
    Free {
        which: usize,
    },
    FreeAgain {
        which: usize,
    },
    FreeWrongOrder {
        which: usize,
        order: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u8..=10, 0_u16..2, 0_u8..4, 0_u8..3)
            .prop_map(|(order, node, zone, migrate)| Step::Alloc { order, node, zone, migrate }),
        4 => any::<usize>().prop_map(|which| Step::Free { which }),
        1 => any::<usize>().prop_map(|which| Step::FreeAgain { which }),
        1 => (any::<usize>(), 0_u8..12)
            .prop_map(|(which, order)| Step::FreeWrongOrder { which, order }),
    ]
}

fn run(version: KernelVersion, steps: &[Step]) {
    let geometry = machine(version);
    let allocator = handed_over(&geometry);
    let mut naive = Naive::new(&geometry);
    let mut zones = BTreeMap::new();
    let before = allocator.buddyinfo();
    compare(&allocator, &naive);
    for step in steps {
        match *step {
            Step::Alloc {
                order,
                node,
                zone,
                migrate,
            } => {
                let request = Request {
                    order,
                    node: NodeId::new(node),
                    zone: ZoneIndex(zone),
                    migrate: MigrateType::ALL[usize::from(migrate)],
                };
                let nodes = allocator
                    .fallback_order(request.node)
                    .expect("online")
                    .to_vec();
                let possible = naive.has(&nodes, request.zone, order);
                match allocator.alloc_pages(request) {
                    Ok(pfn) => {
                        let zone = naive.take(pfn.get(), order).expect("given twice");
                        assert!(zone.1 <= request.zone);
                        zones.insert(pfn.get(), zone);
                    }
                    Err(AllocError::NoMemory { .. }) => assert!(!possible, "{request:?}"),
                    Err(other) => panic!("{other}"),
                }
            }
            Step::Free { which } => {
                let used: Vec<_> = naive
                    .used
                    .iter()
                    .map(|(pfn, order)| (*pfn, *order))
                    .collect();
                if let Some(&(pfn, order)) = used.get(which % used.len().max(1)) {
                    allocator.free_pages(Pfn::new(pfn), order).expect("in use");
                    naive.give(zones[&pfn], pfn, order);
                }
            }
            Step::FreeAgain { which } => {
                let all: Vec<u64> = naive.free.values().flatten().copied().collect();
                if !all.is_empty() {
                    let pfn = Pfn::new(all[which % all.len()]);
                    let refused = allocator.free_pages(pfn, 0);
                    assert_eq!(refused, Err(FreeError::NotInUse { pfn }));
                }
            }
            Step::FreeWrongOrder { which, order } => {
                let used: Vec<_> = naive
                    .used
                    .iter()
                    .map(|(pfn, order)| (*pfn, *order))
                    .collect();
                if let Some(&(pfn, own)) = used.get(which % used.len().max(1))
                    && order > own
                {
                    assert!(allocator.free_pages(Pfn::new(pfn), order).is_err());
                }
            }
        }
        compare(&allocator, &naive);
    }
    for zone in naive.free.keys() {
        let blocks = naive.blocks(*zone);
        for (order, expected) in blocks.into_iter().enumerate() {
            let found: u64 = MigrateType::ALL
                .into_iter()
                .map(|migrate| allocator.nr_free(zone.0, zone.1, order as u8, migrate))
                .sum();
            assert_eq!(found, expected, "{zone:?} order {order}");
        }
    }
    for (pfn, order) in core::mem::take(&mut naive.used) {
        allocator.free_pages(Pfn::new(pfn), order).expect("in use");
        naive.give(zones[&pfn], pfn, order);
    }
    compare(&allocator, &naive);
    assert_eq!(allocator.buddyinfo(), before);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn no_page_is_lost_or_given_twice_under_strict_lists(steps in prop::collection::vec(step(), 1..40)) {
        run(KernelVersion::V6_12, &steps);
    }

    #[test]
    fn no_page_is_lost_or_given_twice_under_lists_that_are_not_strict(steps in prop::collection::vec(step(), 1..40)) {
        run(KernelVersion::V6_1, &steps);
    }

    #[test]
    fn no_page_is_lost_or_given_twice_where_blocks_are_claimed(steps in prop::collection::vec(step(), 1..40)) {
        run(KernelVersion::V7_3, &steps);
    }
}

/// Two nodes of which one lies in a pageblock of the other, between pages of that one.
fn interleaved(version: KernelVersion) -> Geometry {
    let mut memory = Memblock::new(Behaviour::V6_12);
    for (start, end, node) in [
        (0x1_0000_0000, 0x1_0000_1000, 1),
        (0x1_0002_0000, 0x1_0006_d000, 0),
        (0x1_0007_9000, 0x1_003f_7000, 1),
    ] {
        let range = PhysRange::new(PhysAddr::new(start), PhysAddr::new(end));
        memory
            .add_node(range, NodeId::new(node), MemblockFlags::empty())
            .expect("fits");
    }
    Geometry::new(&Profile::amd64(version), &memory, &BootOptions::default()).expect("a machine")
}

#[test]
fn nodes_that_share_a_pageblock_do_not_change_what_it_is_for() {
    for version in [
        KernelVersion::V6_1,
        KernelVersion::V6_12,
        KernelVersion::V6_18,
        KernelVersion::V7_3,
    ] {
        let geometry = interleaved(version);
        let allocator = handed_over(&geometry);
        let types = [
            MigrateType::Unmovable,
            MigrateType::Movable,
            MigrateType::Reclaimable,
        ];
        let mut given = BTreeSet::new();
        // large ones first, so that every fallback finds something to claim
        for order in (0..=6).rev() {
            for turn in 0..400 {
                let request = Request {
                    order,
                    node: NodeId::new(turn % 2),
                    zone: ZoneIndex(2),
                    migrate: types[usize::from(turn) % types.len()],
                };
                let Ok(pfn) = allocator.alloc_pages(request) else {
                    continue;
                };
                for page in 0..1 << order {
                    assert!(given.insert(pfn.get() + page), "{version}: {pfn} twice");
                }
                assert_eq!(allocator.check(), [], "{version}: {request:?}");
                // some come back, so that there is a choice the next time
                if turn % 5 < 2 {
                    allocator.free_pages(pfn, order).expect("in use");
                    for page in 0..1 << order {
                        given.remove(&(pfn.get() + page));
                    }
                    assert_eq!(allocator.check(), [], "{version}: {pfn} given back");
                }
            }
        }
        let pages: u64 = geometry
            .page_runs()
            .iter()
            .map(|run| match run.kind {
                PageKind::Free => run.pfns.len(),
                _ => 0,
            })
            .sum();
        assert_eq!(given.len() as u64, pages, "{version}");
    }
}

#[test]
fn lists_hold_blocks_in_pfn_order_after_hand_over() {
    let geometry = machine(KernelVersion::V6_12);
    let allocator = handed_over(&geometry);
    let mut blocks = 0;
    for (node, zone) in geometry.populated_zones() {
        for order in 0..=10 {
            for migrate in [MigrateType::Unmovable, MigrateType::Movable] {
                let list = allocator.free_list(node.id, zone.index, order, migrate);
                assert!(list.is_sorted());
                blocks += list.len();
            }
        }
    }
    assert!(blocks > 90, "{blocks}");
}

#[test]
fn the_order_in_which_sections_are_written_leaves_no_trace() {
    let geometry = machine(KernelVersion::V6_12);
    let straight = handed_over(&geometry);
    let table = Table::new(&geometry);
    let allocator = Allocator::new(
        table,
        &geometry,
        NodeDistances::default(),
        ListHeads::default(),
    );
    let plan = HandOver::new(&geometry);
    // Heads are written from the last section to the first, by edits alone; only then joined.
    let free: Vec<_> = geometry
        .sections()
        .iter()
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .map(|section| plan.section(section, |edit| allocator.apply(edit)))
        .collect();
    for free in free.iter().rev() {
        allocator.join(&plan, free);
    }
    assert_eq!(allocator.pages().words(), straight.pages().words());
}

#[test]
fn cpus_that_allocate_at_once_are_given_different_pages() {
    let geometry = machine(KernelVersion::V6_12);
    let allocator = handed_over(&geometry);
    let before = allocator.buddyinfo();
    let given: Vec<Vec<(u64, u8)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u16)
            .map(|cpu| {
                let allocator = &allocator;
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for i in 0..300_u16 {
                        let order = ((i * 7 + cpu) % 6) as u8;
                        let request = Request {
                            order,
                            node: NodeId::new(cpu % 2),
                            zone: ZoneIndex(2),
                            migrate: MigrateType::ALL[usize::from(i % 3)],
                        };
                        if let Ok(pfn) = allocator.alloc_pages(request) {
                            mine.push((pfn.get(), order));
                        }
                        if i % 4 == 0
                            && let Some((pfn, order)) = mine.pop()
                        {
                            allocator.free_pages(Pfn::new(pfn), order).expect("mine");
                        }
                    }
                    mine
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert_eq!(allocator.check(), []);
    let mut seen = BTreeSet::new();
    for &(pfn, order) in given.iter().flatten() {
        for page in pfn..pfn + (1 << order) {
            assert!(seen.insert(page), "{page:#x} was given twice");
        }
    }
    for &(pfn, order) in given.iter().flatten() {
        allocator.free_pages(Pfn::new(pfn), order).expect("in use");
    }
    assert_eq!(allocator.check(), []);
    assert_eq!(allocator.buddyinfo(), before);
}
