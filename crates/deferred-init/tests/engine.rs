//! The engine leaves the same bytes whatever the writer, scheduler and workers, and says what went
//! wrong where something did.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};

use deferred_init::engine::{
    CancelToken, Engine, EngineError, FaultPhase, Outcome, Placement, Report, RunOptions,
    SpanDetail,
};
use deferred_init::plan::Plan;
use deferred_init::schedule::{self, Deque, Padata, Scheduler};
use deferred_init::topology::{Topology, synthetic};
use deferred_init::workers::{ChooseError, CrewError, Pinning, WorkerChoice};
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::writers::{self, PageWriter};
use memmap_core::{
    BackingKind, BackingOptions, BootOptions, Geometry, HugePages, KernelVersion, MemoryMap,
    PageImage, Profile, SectionNr,
};
use proptest::prelude::*;
use sys::Call;
use sys::seam::Faults;

const MIB: u64 = 1 << 20;

/// A machine of ranges `(start, size, node)` in MiB, with some reservations in KiB.
fn machine(ranges: &[(u64, u64, u16)], reserved: &[(u64, u64)]) -> Geometry {
    let mut memory = Memblock::new(Behaviour::V6_12);
    for &(start, size, node) in ranges {
        let range = PhysRange::from_size(PhysAddr::new(start * MIB), size * MIB);
        memory
            .add_node(range, NodeId::new(node), MemblockFlags::empty())
            .unwrap();
    }
    for &(start, size) in reserved {
        memory
            .reserve(PhysRange::from_size(PhysAddr::new(start << 10), size << 10))
            .unwrap();
    }
    Geometry::new(
        &Profile::amd64(KernelVersion::V6_12),
        &memory,
        &BootOptions::default(),
    )
    .unwrap()
}

fn map(geometry: &Geometry, kind: BackingKind) -> MemoryMap {
    let mut options = BackingOptions::default();
    options.kind = kind;
    options.poison = true;
    MemoryMap::new(geometry.clone(), options).unwrap()
}

/// A number for all bytes of a map; `None` where a section is not ready.
fn bytes_of(map: &mut MemoryMap) -> Option<u64> {
    let sections: Vec<_> = map.geometry().sections().iter().collect();
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for section in sections {
        for word in map.section_words(section)? {
            sum = (sum ^ word)
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(17);
        }
    }
    Some(sum)
}

fn unpinned(threads: usize) -> WorkerChoice {
    WorkerChoice {
        oversubscribe: true,
        pinning: Pinning::Off,
        ..WorkerChoice::threads(threads)
    }
}

fn template() -> &'static dyn PageWriter {
    writers::by_name("template").unwrap()
}

fn run(engine: &Engine, map: &MemoryMap, options: &RunOptions<'_>) -> Report {
    let plan = Plan::new(map.geometry()).unwrap();
    engine.run(map, &plan, options).unwrap()
}

/// What one thread writes section by section.
fn plain(geometry: &Geometry) -> u64 {
    let mut map = map(geometry, BackingKind::Heap);
    for section in geometry.sections().iter() {
        let mut claim = map.claim(section).unwrap();
        claim.write(writers::by_name("memset").unwrap());
        claim.publish();
    }
    bytes_of(&mut map).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]
    #[test]
    fn the_bytes_are_the_same_for_all_schedulers_writers_and_threads(
        pieces in proptest::collection::vec((1_u64..140, 0_u64..70, 0_u16..4), 1..6),
        reserved in proptest::collection::vec((1024_u64..600_000, 1_u64..3000), 0..5),
        seed in any::<u32>(),
    ) {
        let mut ranges = Vec::new();
        let mut at = 1;
        for (size, gap, node) in pieces {
            ranges.push((at, size, node));
            at += size + gap;
        }
        let geometry = machine(&ranges, &reserved);
        let wanted = plain(&geometry);
        // node 3 is no node of this host
        let engine = Engine::new(synthetic::parse("numa:3(memory=1G) core:3").unwrap());
        let mut schedulers = schedule::all().to_vec();
        schedulers.extend([&Deque::ACROSS_NODES as &dyn Scheduler, &Padata::V6_12]);
        let threads = [1, 2, 3, 5, 8];
        let mut turn = seed as usize;
        for scheduler in schedulers {
            for writer in writers::all() {
                turn += 1;
                let mut map = map(&geometry, BackingKind::Heap);
                let mut options = RunOptions::new(*writer).scheduler(scheduler);
                options.workers = unpinned(threads[turn % threads.len()]);
                let report = run(&engine, &map, &options);
                prop_assert_eq!(&report.outcome, &Outcome::Complete);
                prop_assert_eq!(report.left(), 0);
                let total = report.total();
                prop_assert_eq!(total.pages, geometry.sections().count() * 0x8000);
                prop_assert_eq!(total.bytes, total.pages * 64);
                prop_assert_eq!(
                    bytes_of(&mut map), Some(wanted), "{} {}", scheduler.name(), writer.name()
                );
            }
        }
    }
}

#[test]
fn a_plan_follows_nodes_zones_and_holes() {
    let geometry = machine(&[(0, 2048, 0), (4096, 1024, 0), (5120, 512, 3)], &[]);
    let plan = Plan::new(&geometry).unwrap();
    expect_test::expect![[r#"
        28 sections of 32768 pages, 2097152 bytes of struct pages each
        node 0 zone 0 sections 0..1 (1)
        node 0 zone 1 sections 1..16 (15)
        node 0 zone 2 sections 32..40 (8)
        node 3 zone 2 sections 40..44 (4)
    "#]]
    .assert_eq(&plan.to_string());
}

#[test]
fn phases_are_timed_apart_and_every_section_has_a_record() {
    let geometry = machine(&[(0, 1024, 0), (1024, 1024, 1)], &[]);
    let engine = Engine::new(synthetic::parse("numa:2(memory=1G) core:2").unwrap());
    let map = map(&geometry, BackingKind::Mapped);
    let mut options = RunOptions::new(template());
    options.workers = unpinned(4);
    let report = run(&engine, &map, &options);
    assert!(report.phases.fault.as_nanos() > 0 && report.phases.write.as_nanos() > 0);
    let sections: Vec<u64> = report.records.iter().map(|record| record.section).collect();
    assert_eq!(sections, (0..16).collect::<Vec<_>>());
    assert!(
        report
            .workers
            .iter()
            .all(|worker| worker.volume.sections == 4)
    );
    assert_eq!(report.nodes.len(), 2);
    assert!(report.to_string().contains("16 of 16 sections"), "{report}");
    // a second run finds nothing to do
    let again = run(&engine, &map, &options);
    assert_eq!(
        (again.skipped, again.left(), again.total().pages),
        (16, 0, 0)
    );
    assert_eq!(again.phases.write.as_nanos(), 0);
}

/// Panics at the n-th call, else writes.
#[derive(Debug)]
struct Fragile {
    at: u64,
    calls: AtomicU64,
}

impl PageWriter for Fragile {
    fn name(&self) -> &'static str {
        "fragile"
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        assert!(
            self.calls.fetch_add(1, Ordering::Relaxed) != self.at,
            "call {} fails on purpose",
            self.at
        );
        template().write(image, pages);
    }
}

#[test]
fn after_a_panic_or_a_cancel_at_any_section_another_run_completes_the_map() {
    let geometry = machine(&[(0, 512, 0), (512, 640, 1)], &[(3000, 500)]);
    let wanted = plain(&geometry);
    let engine = Engine::new(synthetic::parse("numa:2(memory=1G) core:2").unwrap());
    for scheduler in schedule::all() {
        for at in 0..12 {
            let mut map = map(&geometry, BackingKind::Heap);
            let fragile = Fragile {
                at,
                calls: AtomicU64::new(0),
            };
            let mut options = RunOptions::new(&fragile).scheduler(*scheduler);
            options.workers = unpinned(3);
            let report = run(&engine, &map, &options);
            match &report.outcome {
                Outcome::Panicked { message, .. } => {
                    assert!(message.contains("fails on purpose"), "{message}");
                }
                other => panic!("{}: call {at}: {other:?}", scheduler.name()),
            }
            assert!(report.left() > 0);
            assert_eq!(bytes_of(&mut map), None, "it does not look finished");
            options.writer = template();
            let rest = run(&engine, &map, &options);
            assert_eq!(rest.outcome, Outcome::Complete);
            assert_eq!(rest.total().sections + report.total().sections, 9);
            assert_eq!(bytes_of(&mut map), Some(wanted));
        }
    }
}

#[test]
fn a_cancelled_run_says_what_is_done_and_is_completed_later() {
    #[derive(Debug)]
    struct Cancels(CancelToken);
    impl PageWriter for Cancels {
        fn name(&self) -> &'static str {
            "cancels"
        }
        fn write(&self, image: &PageImage, pages: &mut [u64]) {
            self.0.cancel();
            template().write(image, pages);
        }
    }
    let geometry = machine(&[(0, 1024, 0)], &[]);
    let engine = Engine::new(synthetic::parse("numa(memory=1G) core:2").unwrap());
    let mut map = map(&geometry, BackingKind::Heap);
    let token = CancelToken::new();
    let writer = Cancels(token.clone());
    let mut options = RunOptions::new(&writer);
    options.workers = unpinned(1);
    options.cancel = token;
    let report = run(&engine, &map, &options);
    assert_eq!(report.outcome, Outcome::Cancelled);
    assert_eq!((report.total().sections, report.left()), (1, 7));
    let mut rest = RunOptions::new(template());
    rest.workers = unpinned(2);
    assert_eq!(run(&engine, &map, &rest).total().sections, 7);
    assert_eq!(bytes_of(&mut map), Some(plain(&geometry)));
}

#[test]
fn memory_that_cannot_be_had_ends_the_run_before_anything_is_written() {
    let geometry = machine(&[(0, 1024, 0)], &[]);
    let engine = Engine::new(synthetic::parse("numa(memory=1G) core:2").unwrap());
    let map = map(&geometry, BackingKind::Mapped);
    let mut options = RunOptions::new(template());
    options.workers = unpinned(2);
    for nth in 1..=8 {
        let faults = Faults::new().fail_from(Call::Madvise, nth, 12);
        let scope = faults.enter();
        let report = run(&engine, &map, &options);
        drop(scope);
        engine.release_workers();
        match &report.outcome {
            Outcome::NoMemory { error, .. } => assert_eq!(error.call(), Some(Call::Madvise)),
            other => panic!("fault {nth}: {other:?}"),
        }
        assert_eq!(report.total().sections, 0);
    }
    assert_eq!(run(&engine, &map, &options).outcome, Outcome::Complete);
}

/// Holds the section that it was called for until it is let go, and has not touched it.
#[derive(Debug)]
struct Holds {
    holds: mpsc::Sender<()>,
    until: Mutex<mpsc::Receiver<()>>,
}

impl PageWriter for Holds {
    fn name(&self) -> &'static str {
        "holds"
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        self.holds.send(()).unwrap();
        self.until.lock().unwrap().recv().unwrap();
        template().write(image, pages);
    }
}

#[test]
fn on_a_kernel_that_cannot_populate_a_run_touches_no_section_that_another_one_writes() {
    let geometry = machine(&[(0, 1024, 0)], &[]);
    let engine = Engine::new(synthetic::parse("numa(memory=1G) core:2").unwrap());
    let mut map = {
        let mut options = BackingOptions::default();
        options.kind = BackingKind::Mapped;
        options.huge_pages = HugePages::Never;
        MemoryMap::new(geometry.clone(), options).unwrap()
    };
    let there = |map: &MemoryMap, section: u64| -> Option<usize> {
        let range = map.mapping_range(SectionNr(section)).unwrap();
        let pages: Vec<usize> = range.step_by(sys::page_size()).collect();
        match map.mapping().unwrap().page_nodes(&pages) {
            Ok(nodes) => Some(
                nodes
                    .iter()
                    .filter(|node| matches!(node, sys::PageNode::On(_)))
                    .count(),
            ),
            Err(error) => {
                captures::skipped(&format!("{error}"));
                None
            }
        }
    };
    let (holds, held) = mpsc::channel();
    let (go, until) = mpsc::channel();
    let writer = Holds {
        holds,
        until: Mutex::new(until),
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let mut claim = map.claim(SectionNr(3)).unwrap();
            claim.write(&writer);
            claim.publish();
        });
        held.recv().unwrap();
        let mut options = RunOptions::new(template());
        options.workers = unpinned(2);
        let faults = Faults::new().fail_from(Call::Madvise, 1, 22);
        let faulty = faults.enter();
        let report = run(&engine, &map, &options);
        drop(faulty);
        let (seen, next) = (there(&map, 3), there(&map, 4));
        // whatever was found, the other thread must end
        go.send(()).unwrap();
        first.join().unwrap();
        assert!(faults.calls(Call::Madvise) > 0, "the call was tried");
        assert_eq!(report.outcome, Outcome::Complete, "{report}");
        assert_eq!((report.total().sections, report.skipped), (7, 1));
        if let (Some(seen), Some(next)) = (seen, next) {
            assert_eq!(seen, 0, "the section of the other thread was touched");
            assert!(next > 0);
        }
    });
    engine.release_workers();
    assert_eq!(bytes_of(&mut map), Some(plain(&geometry)));
}

#[test]
fn a_report_says_why_a_map_lies_on_the_heap() {
    let geometry = machine(&[(0, 256, 0)], &[]);
    let engine = Engine::new(synthetic::parse("numa(memory=1G) core:2").unwrap());
    let report_of = |kind| {
        let map = map(&geometry, kind);
        let mut options = RunOptions::new(template());
        options.workers = unpinned(1);
        run(&engine, &map, &options)
    };
    let faults = Faults::new().fail(Call::Mmap, 1, 12);
    let scope = faults.enter();
    let instead = report_of(BackingKind::Auto);
    drop(scope);
    engine.release_workers();
    let why = "struct pages lie on the heap, a section at a time, since one address range is not";
    assert!(instead.to_string().contains(why), "{instead}");
    for kind in [BackingKind::Auto, BackingKind::Heap] {
        let chosen = report_of(kind);
        assert!(!chosen.to_string().contains("heap"), "{chosen}");
    }
}

#[test]
fn wishes_that_cannot_be_met_are_errors_before_anything_is_done() {
    let geometry = machine(&[(0, 256, 0)], &[]);
    let engine = Engine::new(Topology::host().unwrap());
    let map = map(&geometry, BackingKind::Mapped);
    let plan = Plan::new(&geometry).unwrap();
    let refused = |options: &RunOptions<'_>| engine.run(&map, &plan, options).unwrap_err();
    let options = RunOptions::new(template());
    assert_eq!(
        refused(&options.clone().threads(0)),
        EngineError::Choose(ChooseError::NoThreads)
    );
    assert!(matches!(
        refused(&options.clone().threads(1 << 20)),
        EngineError::Choose(ChooseError::TooManyThreads { .. })
    ));
    let faults = Faults::new().fail_from(Call::SchedSetaffinity, 1, 1);
    let scope = faults.enter();
    assert!(matches!(
        refused(&options.clone().threads(1)),
        EngineError::Crew(CrewError::Pin(_))
    ));
    let mut tolerant = options.clone().threads(1);
    tolerant.workers.pinning = Pinning::BestEffort;
    let report = engine.run(&map, &plan, &tolerant).unwrap();
    assert_eq!(report.unpinned.len(), 1);
    assert!(
        report.to_string().contains("could not be pinned"),
        "{report}"
    );
    drop(scope);
    let faults = Faults::new().fail_from(Call::Mbind, 1, 1);
    let scope = faults.enter();
    let error = refused(&options.clone().threads(1).placement(Placement::Bind));
    assert!(
        error.to_string().contains("place by first touch"),
        "{error}"
    );
    drop(scope);
    let on_heap = self::map(&geometry, BackingKind::Heap);
    let placed = options.clone().threads(1).placement(Placement::Bind);
    let error = engine.run(&on_heap, &plan, &placed).unwrap_err();
    assert!(error.to_string().contains("mapped backing"), "{error}");
    let other = Geometry::new(
        &Profile::arm64_16k(KernelVersion::V6_12),
        &{
            let mut memory = Memblock::new(Behaviour::V6_12);
            let range = PhysRange::from_size(PhysAddr::new(1 << 30), 1 << 30);
            memory.add(range).unwrap();
            memory
        },
        &BootOptions::default(),
    )
    .unwrap();
    let plan = Plan::new(&other).unwrap();
    let error = engine.run(&map, &plan, &options).unwrap_err();
    assert!(matches!(error, EngineError::OtherShape { .. }), "{error}");
    // sections of the same size, some of which the map lacks
    let larger = self::machine(&[(0, 4096, 0)], &[]);
    let plan = Plan::new(&larger).unwrap();
    let error = engine.run(&map, &plan, &options).unwrap_err();
    let first = (0..32).find(|section| {
        map.section_state(SectionNr(*section)) == memmap_core::SectionState::Absent
    });
    assert_eq!(
        Some(error),
        first.map(|section| EngineError::NoSuchSection { section })
    );
}

#[test]
fn pinned_workers_place_a_map_on_this_host() {
    let topology = Topology::host().unwrap();
    let nodes = topology.nodes.len();
    let home = topology.nodes[0].id.get();
    let engine = Engine::new(topology);
    let geometry = machine(&[(0, 512, home)], &[]);
    for placement in [
        Placement::FirstTouch,
        Placement::Bind,
        Placement::Interleave,
    ] {
        for fault in [FaultPhase::Before, FaultPhase::WhileWriting] {
            let map = map(&geometry, BackingKind::Mapped);
            let mut options = RunOptions::new(template()).placement(placement);
            options.fault = fault;
            let report = run(&engine, &map, &options);
            assert_eq!(report.outcome, Outcome::Complete);
            if let Some(error) = &report.placement.unknown {
                captures::skipped(&format!("{error}"));
            } else if placement != Placement::Interleave || nodes == 1 {
                assert!(
                    report.to_string().contains("placed 100.0 % on its node"),
                    "{report}"
                );
            }
        }
    }
    if nodes == 1 {
        let map = map(&geometry, BackingKind::Mapped);
        let plan = Plan::new(&geometry).unwrap();
        let options = RunOptions::new(template()).placement(Placement::Remote);
        let error = engine.run(&map, &plan, &options).unwrap_err();
        assert!(error.to_string().contains("no other node"), "{error}");
    }
}

#[test]
fn several_runs_share_a_map() {
    let geometry = machine(&[(0, 2048, 0), (4096, 1024, 1)], &[]);
    let engine = Engine::new(synthetic::parse("numa:2(memory=1G) core:2").unwrap());
    let mut map = map(&geometry, BackingKind::Heap);
    let reports = std::thread::scope(|scope| {
        let one = |count| {
            let (engine, map) = (&engine, &map);
            scope.spawn(move || {
                let mut options = RunOptions::new(template()).scheduler(&Deque::ACROSS_NODES);
                options.workers = unpinned(count);
                run(engine, map, &options)
            })
        };
        [one(2), one(2), one(3)].map(|thread| thread.join().unwrap())
    });
    let written: u64 = reports.iter().map(|report| report.total().sections).sum();
    assert_eq!(written, 24);
    assert_eq!(bytes_of(&mut map), Some(plain(&geometry)));
}

#[test]
fn small_sections_are_claimed_by_runs_unless_every_span_is_wanted() {
    let geometry = machine(&[(0, 512, 0)], &[]);
    let engine = Engine::new(synthetic::parse("numa(memory=1G) core:1").unwrap());
    for (spans, grain) in [(SpanDetail::Auto, 2), (SpanDetail::EverySection, 2)] {
        let map = map(&geometry, BackingKind::Heap);
        let mut options = RunOptions::new(template());
        options.workers = unpinned(1);
        options.grain = Some(grain);
        options.spans = spans;
        let report = run(&engine, &map, &options);
        let counts: Vec<_> = report
            .records
            .iter()
            .map(|r| (r.section, r.count))
            .collect();
        // two at a time, from where a zone begins
        assert_eq!(counts, [(0, 1), (1, 2), (3, 1)]);
    }
}
