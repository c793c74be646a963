//! What the layers make of the spans of runs.

#![cfg(feature = "trace")]

use std::sync::atomic::{AtomicU64, Ordering};

use deferred_init::engine::{Engine, Outcome, Report, RunOptions, SpanDetail};
use deferred_init::plan::Plan;
use deferred_init::schedule::{self, Deque, Scheduler};
use deferred_init::topology::synthetic;
use deferred_init::trace::{Aggregate, Timeline, TraceSummary, check};
use deferred_init::workers::{Pinning, WorkerChoice};
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::writers::{self, PageWriter};
use memmap_core::{
    BackingKind, BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, PageImage,
    Profile, SectionNr, SectionState,
};
use tracing::Subscriber;
use tracing::span::{Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::layer::SubscriberExt;

/// Nodes with so many sections each, one behind the other.
fn map(profile: &Profile, nodes: &[u64]) -> MemoryMap {
    let section = profile.pages_per_section() * profile.page_size();
    let mut memory = Memblock::new(Behaviour::V6_12);
    let mut at = 0;
    for (node, sections) in nodes.iter().enumerate() {
        let range = PhysRange::from_size(PhysAddr::new(at * section), sections * section);
        memory
            .add_node(range, NodeId::new(node as u16), MemblockFlags::empty())
            .unwrap();
        at += sections;
    }
    let geometry = Geometry::new(profile, &memory, &BootOptions::default()).unwrap();
    let mut options = BackingOptions::default();
    options.kind = BackingKind::Heap;
    MemoryMap::new(geometry, options).unwrap()
}

fn amd64() -> Profile {
    Profile::amd64(KernelVersion::V6_12)
}

fn engine() -> Engine {
    Engine::new(synthetic::parse("numa:2(memory=1G) core:2").unwrap())
}

fn options<'a>(writer: &'a dyn PageWriter, threads: usize) -> RunOptions<'a> {
    let mut options = RunOptions::new(writer);
    options.workers = WorkerChoice {
        oversubscribe: true,
        pinning: Pinning::Off,
        ..WorkerChoice::threads(threads)
    };
    options
}

fn zero() -> &'static dyn PageWriter {
    writers::by_name("zero").unwrap()
}

fn run(engine: &Engine, map: &MemoryMap, options: &RunOptions<'_>) -> Report {
    let plan = Plan::new(map.geometry()).unwrap();
    engine.run(map, &plan, options).unwrap()
}

/// What both layers saw of `work`.
fn seen<T>(work: impl FnOnce() -> T) -> (Aggregate, Timeline, T) {
    let (aggregate, timeline) = (Aggregate::new(), Timeline::new());
    let layers = tracing_subscriber::registry()
        .with(aggregate.clone())
        .with(timeline.clone());
    let done = tracing::subscriber::with_default(layers, work);
    (aggregate, timeline, done)
}

fn checked(timeline: &Timeline) -> TraceSummary {
    let mut json = Vec::new();
    timeline.write(&mut json).unwrap();
    check(&json).unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(&json)))
}

#[test]
fn every_scheduler_leaves_a_track_a_worker_grouped_by_node() {
    let engine = engine();
    let mut schedulers = schedule::all().to_vec();
    schedulers.push(&Deque::ACROSS_NODES as &dyn Scheduler);
    for scheduler in schedulers {
        // node 2 is no node of this host: others serve it
        let map = map(&amd64(), &[4, 3, 2]);
        let options = options(zero(), 4).scheduler(scheduler);
        let (aggregate, timeline, report) = seen(|| run(&engine, &map, &options));
        let name = scheduler.name();
        let found = checked(&timeline);
        assert_eq!(
            (found.runs, found.nodes, found.sections),
            (1, 3, 9),
            "{name}"
        );
        let busy = report.workers.iter().filter(|w| w.volume.sections > 0);
        let homes: std::collections::BTreeSet<_> =
            busy.clone().map(|worker| worker.seat.node).collect();
        assert_eq!(found.workers, busy.count(), "{name}");
        assert_eq!(found.groups, homes.len(), "{name}");

        let figures = aggregate.report();
        let total = figures.total();
        assert_eq!((total.sections, total.times.count()), (9, 9), "{name}");
        assert_eq!(total.pages, report.total().pages);
        assert_eq!(total.bytes, report.total().bytes);
        assert_eq!(total.unfinished, 0);
        let nodes: Vec<_> = figures
            .nodes()
            .into_iter()
            .map(|(node, totals)| (node.get(), totals.sections))
            .collect();
        assert_eq!(nodes, [(0, 4), (1, 3), (2, 2)]);
        for (place, worker) in report.workers.iter().enumerate() {
            let own = figures
                .workers
                .iter()
                .filter(|((_, of), _)| *of == place as u32);
            let sections: u64 = own.map(|(_, totals)| totals.sections).sum();
            assert_eq!(sections, worker.volume.sections, "{name}");
        }
        assert_eq!(
            figures.to_string().lines().count(),
            1 + 3 + figures.workers.len()
        );
    }
}

#[test]
fn several_runs_at_once_and_one_after_the_other_stay_apart() {
    let engine = engine();
    let (_, timeline, ()) = seen(|| {
        std::thread::scope(|scope| {
            for threads in [2, 3] {
                let engine = &engine;
                let here = tracing::dispatcher::get_default(Clone::clone);
                scope.spawn(move || {
                    tracing::dispatcher::with_default(&here, || {
                        for scheduler in schedule::all() {
                            let map = map(&amd64(), &[3, 2]);
                            let options = options(zero(), threads).scheduler(*scheduler);
                            assert_eq!(run(engine, &map, &options).left(), 0);
                        }
                    });
                });
            }
        });
    });
    let found = checked(&timeline);
    let runs = 2 * schedule::all().len();
    assert_eq!(
        (found.runs, found.nodes, found.sections),
        (runs, 2 * runs, 5 * runs)
    );
    timeline.clear();
    assert_eq!(checked(&timeline), TraceSummary::default());
}

/// 16 MiB of memory in 256 pages and 14 KiB of struct pages.
fn small_sections() -> Profile {
    let profile = Profile::ppc64_64k(KernelVersion::V6_12);
    assert!(profile.pages_per_section() * u64::from(profile.struct_page_bytes) < 1 << 20);
    profile
}

#[test]
fn small_sections_have_a_span_a_run_and_by_a_switch_one_each() {
    let engine = engine();
    let profile = small_sections();
    for (spans, wanted) in [
        (SpanDetail::Auto, 3),
        (SpanDetail::EverySection, 150),
        (SpanDetail::Off, 0),
    ] {
        let map = map(&profile, &[150]);
        let mut options = options(zero(), 1);
        options.grain = Some(60);
        options.spans = spans;
        let (aggregate, timeline, report) = seen(|| run(&engine, &map, &options));
        let count = report.total().sections;
        assert_eq!(count, 150);
        let found = checked(&timeline);
        let figures = aggregate.report().total();
        assert_eq!(figures.times.count(), wanted, "{spans:?}");
        assert_eq!(found.sections as u64, wanted, "{spans:?}");
        match spans {
            SpanDetail::Off => assert_eq!((found.runs, found.nodes), (0, 0)),
            SpanDetail::Auto | SpanDetail::EverySection => {
                assert_eq!(
                    (found.runs, figures.sections, figures.bytes),
                    (1, 150, report.total().bytes)
                );
            }
        }
    }
}

#[test]
fn a_run_that_panics_leaves_a_whole_trace() {
    #[derive(Debug)]
    struct Fails(AtomicU64);
    impl PageWriter for Fails {
        fn name(&self) -> &'static str {
            "fails"
        }
        fn write(&self, image: &PageImage, pages: &mut [u64]) {
            assert_ne!(self.0.fetch_add(1, Ordering::Relaxed), 5, "on purpose");
            zero().write(image, pages);
        }
    }
    let engine = engine();
    let map = map(&amd64(), &[6, 6]);
    let fails = Fails(AtomicU64::new(0));
    let (aggregate, timeline, report) = seen(|| run(&engine, &map, &options(&fails, 2)));
    assert!(
        matches!(report.outcome, Outcome::Panicked { .. }),
        "{report}"
    );
    let found = checked(&timeline);
    assert_eq!((found.runs, found.nodes), (1, 2));
    assert!(found.sections as u64 >= report.total().sections);
    assert!(aggregate.report().total().times.count() >= report.total().sections);
}

/// Panics when it is told the n-th time how long sections took.
struct Panics {
    told: AtomicU64,
    at: u64,
}

impl<S: Subscriber> Layer<S> for Panics {
    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        // a section has one value, a node several
        if values.len() == 1 && self.told.fetch_add(1, Ordering::Relaxed) == self.at {
            panic!("on purpose");
        }
    }
}

#[test]
fn what_was_written_is_reported_also_where_who_is_told_of_it_panics() {
    let engine = engine();
    for at in 0..4 {
        let map = map(&amd64(), &[6, 6]);
        let panics = Panics {
            told: AtomicU64::new(0),
            at,
        };
        let layers = tracing_subscriber::registry().with(panics);
        let report =
            tracing::subscriber::with_default(layers, || run(&engine, &map, &options(zero(), 1)));
        let Outcome::Panicked { section, .. } = report.outcome else {
            panic!("{at}: {report}");
        };
        let ready = |section: u64| map.section_state(SectionNr(section)) == SectionState::Ready;
        assert!(ready(section), "{at}: {report}");
        assert_eq!(report.total().sections, at + 1, "{report}");
        assert_eq!(report.records.len() as u64, at + 1, "{report}");
    }
}

#[test]
fn nothing_is_seen_of_what_others_trace() {
    let (aggregate, timeline, ()) = seen(|| {
        let _span = tracing::info_span!("section", node = 1, worker = 2).entered();
        let _run = tracing::info_span!("run").entered();
    });
    assert_eq!(checked(&timeline), TraceSummary::default());
    assert!(aggregate.report().workers.is_empty());
}
