//! Hand-over by many workers leaves the bytes of one: struct pages, block heads and their links.

use deferred_init::engine::{CancelToken, Engine, Outcome, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::schedule::{self, Deque, Padata, Scheduler};
use deferred_init::topology::synthetic;
use deferred_init::workers::{Pinning, WorkerChoice};
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::buddy::{Allocator, HandOver, ListHeads, NodeDistances};
use memmap_core::writers::{self, PageWriter};
use memmap_core::{
    BackingKind, BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Phase, Profile,
};
use proptest::prelude::*;

/// A machine of ranges `(start, size, node)` and reservations in KiB whose kernel has sections of
/// 16 MiB, so that small machines have many.
fn machine(
    version: KernelVersion,
    ranges: &[(u64, u64, u16)],
    reserved: &[(u64, u64)],
) -> Geometry {
    let mut memory = Memblock::new(Behaviour::V6_12);
    let range =
        |start: u64, size: u64| PhysRange::from_size(PhysAddr::new(start << 10), size << 10);
    for &(start, size, node) in ranges {
        memory
            .add_node(
                range(start, size),
                NodeId::new(node),
                MemblockFlags::empty(),
            )
            .unwrap();
    }
    for &(start, size) in reserved {
        memory.reserve(range(start, size)).unwrap();
    }
    let mut config = Profile::amd64(version).config().clone();
    config.section_bits = 24;
    Geometry::new(&config.build().unwrap(), &memory, &BootOptions::default()).unwrap()
}

fn map(geometry: &Geometry) -> MemoryMap {
    let mut options = BackingOptions::default();
    options.kind = BackingKind::Heap;
    options.poison = true;
    MemoryMap::new(geometry.clone(), options).unwrap()
}

fn allocator(map: MemoryMap, geometry: &Geometry) -> Allocator<MemoryMap> {
    let distances = NodeDistances::default();
    Allocator::new(map, geometry, distances, ListHeads::default())
}

/// When struct pages are initialised.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Policy {
    /// All at once.
    Eager,
    /// First the early part; the rest once the allocator is up, which may have grown by some
    /// sections by then.
    Deferred { grown: u8 },
}

/// What each policy writes in one go.
fn parts(policy: Policy, geometry: &Geometry) -> Vec<Plan> {
    let plan = Plan::new(geometry).unwrap();
    match policy {
        Policy::Eager => vec![plan],
        Policy::Deferred { .. } => [Phase::Early, Phase::Deferred]
            .into_iter()
            .map(|phase| plan.part(geometry, phase))
            .collect(),
    }
}

/// Boots by `rest`, which initialises and hands over what is pending of a plan.
fn boot(
    policy: Policy,
    geometry: &Geometry,
    rest: impl Fn(&Allocator<MemoryMap>, &Plan),
) -> Vec<u64> {
    let allocator = allocator(map(geometry), geometry);
    for (turn, part) in parts(policy, geometry).iter().enumerate() {
        if let (Policy::Deferred { grown }, 1) = (policy, turn) {
            for _ in 0..grown {
                grow(&allocator, geometry);
            }
        }
        rest(&allocator, part);
    }
    assert_eq!(allocator.check(), []);
    let report = allocator.pages().check();
    assert!(report.is_clean(), "{report}");
    words(allocator)
}

/// Grows the last zone of every node by at least a page.
fn grow(allocator: &Allocator<MemoryMap>, geometry: &Geometry) {
    for node in geometry.nodes() {
        if let Some(zone) = node.zones.iter().rfind(|zone| zone.is_populated()) {
            let _ = allocator.deferred_grow_zone(node.id, zone.index, 0, &writers::Zero);
        }
    }
}

/// One thread, section by section: all struct pages first, then every word of every head through
/// the allocator.
fn one_by_one(policy: Policy, geometry: &Geometry) -> Vec<u64> {
    let plan = HandOver::new(geometry);
    boot(policy, geometry, |allocator, part| {
        let mut sections: Vec<u64> = part
            .runs()
            .iter()
            .flat_map(|run| run.sections.clone())
            .collect();
        sections.sort_unstable();
        for section in sections.into_iter().map(memmap_core::SectionNr) {
            let Some(mut claim) = allocator.pages().claim(section) else {
                assert!(allocator.is_handed_over(section));
                continue;
            };
            claim.write(&writers::Memset);
            claim.publish();
            allocator.hand_over(&plan, section);
        }
    })
}

/// The same by an engine.
fn by_engine(
    engine: &Engine,
    policy: Policy,
    geometry: &Geometry,
    options: &RunOptions<'_>,
) -> Vec<u64> {
    let plan = HandOver::new(geometry);
    boot(policy, geometry, |allocator, part| {
        let mut report = engine.run(allocator.pages(), part, options).unwrap();
        assert_eq!(report.outcome, Outcome::Complete);
        assert_eq!(report.left(), 0);
        assert_eq!(report.free.len() as u64, part.sections() - report.skipped);
        report.join(allocator, &plan);
        assert!(report.free.is_empty());
    })
}

fn words(allocator: Allocator<MemoryMap>) -> Vec<u64> {
    let mut map = allocator.into_pages();
    let sections: Vec<_> = map.geometry().sections().iter().collect();
    sections
        .into_iter()
        .flat_map(|section| map.section_words(section).expect("ready").to_vec())
        .collect()
}

/// A host of two nodes with workers; memory of other nodes is served by the nearer of these.
fn engine() -> Engine {
    Engine::new(synthetic::parse("numa:2(memory=1G) core:2").unwrap())
}

fn schedulers() -> Vec<&'static dyn Scheduler> {
    let mut schedulers = schedule::all().to_vec();
    schedulers.extend([&Deque::ACROSS_NODES as &dyn Scheduler, &Padata::V6_12]);
    schedulers
}

fn options<'a>(
    writer: &'a dyn PageWriter,
    scheduler: &'a dyn Scheduler,
    threads: usize,
) -> RunOptions<'a> {
    let mut options = RunOptions::new(writer).scheduler(scheduler).hand_over();
    options.workers = WorkerChoice {
        oversubscribe: true,
        pinning: Pinning::Off,
        ..WorkerChoice::threads(threads)
    };
    options.sample_pages = 0;
    options
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn bytes_and_links_are_those_of_one_thread_on_any_machine(
        version in prop::sample::select(vec![
            KernelVersion::V6_1, KernelVersion::V6_12, KernelVersion::V6_18, KernelVersion::V7_3,
        ]),
        pieces in prop::collection::vec((4_u64..160_000, 0_u64..40_000, 0_u16..4), 1..6),
        reserved in prop::collection::vec((0_u64..400_000, 1_u64..3000), 0..8),
        grown in 0_u8..4,
        seed in any::<u32>(),
    ) {
        let mut ranges = Vec::new();
        let mut at = 4;
        for (size, gap, node) in pieces {
            ranges.push((at, size, node));
            at += size + gap;
        }
        let geometry = machine(version, &ranges, &reserved);
        let engine = engine();
        let mut turn = seed as usize;
        for policy in [Policy::Eager, Policy::Deferred { grown }] {
            let wanted = one_by_one(policy, &geometry);
            for scheduler in schedulers() {
                for writer in writers::all() {
                    turn = turn.wrapping_add(1);
                    let threads = 1 + turn % 16;
                    let options = options(*writer, scheduler, threads);
                    let found = by_engine(&engine, policy, &geometry, &options);
                    prop_assert!(
                        found == wanted,
                        "{policy:?} {} {} {threads} threads", scheduler.name(), writer.name()
                    );
                }
            }
        }
    }
}

#[test]
fn bytes_and_links_are_the_same_for_all_writers_and_schedulers_on_1_to_16_threads() {
    // three nodes, holes, and reservations that leave blocks of every order
    let geometry = machine(
        KernelVersion::V6_12,
        &[
            (4, 636, 0),
            (1024, 64_000, 0),
            (65_536, 50_000, 1),
            (131_072, 40_004, 5),
        ],
        &[
            (0, 64),
            (5000, 3),
            (40_000, 1),
            (70_000, 12_345),
            (140_000, 7),
        ],
    );
    let deferred: u64 = parts(Policy::Deferred { grown: 0 }, &geometry)[1].sections();
    assert!(deferred > 3, "{deferred} sections are late");
    let engine = engine();
    for policy in [Policy::Eager, Policy::Deferred { grown: 1 }] {
        let wanted = one_by_one(policy, &geometry);
        for scheduler in schedulers() {
            for writer in writers::all() {
                for threads in 1..=16 {
                    let options = options(*writer, scheduler, threads);
                    let found = by_engine(&engine, policy, &geometry, &options);
                    assert!(
                        found == wanted,
                        "{policy:?} {} {} {threads} threads",
                        scheduler.name(),
                        writer.name()
                    );
                }
            }
        }
    }
}

#[test]
fn what_a_cancelled_run_handed_over_is_joined_with_what_completes_it() {
    let geometry = machine(KernelVersion::V6_12, &[(0, 200_000, 0)], &[(0, 1024)]);
    let wanted = one_by_one(Policy::Eager, &geometry);
    /// Writes, and cancels the run at its third section.
    #[derive(Debug)]
    struct Cancelling(CancelToken, std::sync::atomic::AtomicU32);
    impl PageWriter for Cancelling {
        fn name(&self) -> &'static str {
            "cancelling"
        }
        fn write(&self, image: &memmap_core::PageImage, pages: &mut [u64]) {
            writers::Zero.write(image, pages);
        }
        fn write_series(&self, series: &mut dyn writers::Series, pages: &mut [u64]) {
            if self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 2 {
                self.0.cancel();
            }
            writers::Zero.write_series(series, pages);
        }
    }
    let engine = engine();
    let plan = Plan::new(&geometry).unwrap();
    let allocator = allocator(map(&geometry), &geometry);
    let cancel = CancelToken::new();
    let writer = Cancelling(cancel.clone(), 0.into());
    let mut first = options(&writer, &schedule::Static, 3);
    first.cancel = cancel;
    let first = engine.run(allocator.pages(), &plan, &first).unwrap();
    assert_eq!(first.outcome, Outcome::Cancelled);
    assert!(!first.free.is_empty() && first.left() > 0);
    let rest = options(&writers::Zero, &schedule::Static, 2);
    let mut rest = engine.run(allocator.pages(), &plan, &rest).unwrap();
    assert_eq!(rest.skipped, first.free.len() as u64);
    rest.free.extend(first.free);
    rest.free.sort_by_key(|free| free.section);
    rest.join(&allocator, &HandOver::new(&geometry));
    assert_eq!(allocator.check(), []);
    assert!(words(allocator) == wanted);
}
