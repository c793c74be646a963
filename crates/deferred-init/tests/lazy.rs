//! Sections of a lazy map are written when they are first asked for: once, by anybody, or ahead by a
//! drain.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use deferred_init::engine::{Engine, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::policy::{
    Drain, Lazy, LazyCounts, LazyError, LazyOptions, OnDemand, Touched, Watermark,
};
use deferred_init::topology::{Topology, synthetic};
use deferred_init::workers::{ChooseError, Pinning, WorkerChoice};
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, Pfn, PhysAddr, PhysRange};
use memmap_core::buddy::{Allocator, HandOver, ListHeads, MigrateType, NodeDistances, Request};
use memmap_core::writers::{self, PageWriter};
use memmap_core::{
    BackingKind, BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, PageImage, Phase,
    Profile, ReadError, SectionNr, SectionState, ZoneIndex,
};
use sys::Call;
use sys::seam::Faults;

/// Nodes with so many sections each, one behind the other, on small sections (16 MiB of memory and
/// 14 KiB of struct pages).
fn small(nodes: &[u64]) -> MemoryMap {
    let profile = Profile::ppc64_64k(KernelVersion::V6_12);
    map(&profile, nodes, BackingKind::Heap)
}

fn map(profile: &Profile, nodes: &[u64], kind: BackingKind) -> MemoryMap {
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
    options.kind = kind;
    MemoryMap::new(geometry, options).unwrap()
}

fn template() -> &'static dyn PageWriter {
    writers::by_name("template").unwrap()
}

fn host() -> Topology {
    synthetic::parse("numa:2(memory=1G) core:2").unwrap()
}

fn workers(threads: usize) -> WorkerChoice {
    WorkerChoice {
        oversubscribe: true,
        pinning: Pinning::Off,
        ..WorkerChoice::threads(threads)
    }
}

fn all_words(map: &mut MemoryMap) -> Vec<u64> {
    let sections: Vec<SectionNr> = map.geometry().sections().iter().collect();
    let words = sections
        .into_iter()
        .flat_map(|section| map.section_words(section).expect("ready").to_vec());
    words.collect::<Vec<u64>>()
}

/// What one thread writes section by section.
fn plain(mut map: MemoryMap) -> Vec<u64> {
    for section in map.geometry().sections().iter() {
        let mut claim = map.claim(section).unwrap();
        claim.write(template());
        claim.publish();
    }
    all_words(&mut map)
}

/// Counts the calls for each section's first page, so that a section that is written twice shows.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl PageWriter for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::thread::yield_now();
        template().write(image, pages);
    }
}

#[test]
fn an_unasked_page_is_an_error_and_asking_makes_it_right() {
    let lazy = Lazy::new(small(&[6]), LazyOptions::new(template()));
    let wanted = plain(small(&[6]));
    let words = lazy.map().struct_page_size().words();
    for pfn in [3 * 256 + 7, 0, 5 * 256 + 255] {
        let frame = Pfn::new(pfn);
        let section = SectionNr(pfn / 256);
        let not_ready = ReadError::NotReady {
            section,
            state: SectionState::Pending,
        };
        assert_eq!(lazy.peek(frame), Err(not_ready));
        assert_eq!(lazy.map().read(frame), Err(not_ready));
        let page = lazy.read(frame).unwrap();
        let at = pfn as usize * words;
        assert_eq!(page.words(), &wanted[at..at + words]);
        assert_eq!(lazy.peek(frame), Ok(page));
    }
    assert_eq!(lazy.counts().asked, 3);
    assert_eq!(lazy.touch(SectionNr(1)), Ok(Touched::Wrote));
    assert_eq!(lazy.touch(SectionNr(1)), Ok(Touched::Ready));
    // what was not asked for is still pending, for whoever wants it
    let mut map = lazy.into_pages();
    assert_eq!(map.section_state(SectionNr(2)), SectionState::Pending);
    assert_eq!(map.section_words(SectionNr(2)), None);
    let plan = Plan::new(map.geometry()).unwrap();
    let mut options = RunOptions::new(template());
    options.workers = workers(2);
    let report = Engine::new(host()).run(&map, &plan, &options).unwrap();
    assert_eq!((report.total().sections, report.skipped), (2, 4));
    assert_eq!(all_words(&mut map), wanted);
}

#[test]
fn frames_without_struct_pages_are_errors() {
    let lazy = Lazy::new(small(&[6]), LazyOptions::new(template()));
    let beyond = Pfn::new(6 * 256);
    let missing = ReadError::NoStructPage { pfn: beyond };
    assert_eq!(lazy.read(beyond), Err(missing.into()));
    let section = SectionNr(6);
    assert_eq!(lazy.touch(section), Err(LazyError::Absent { section }));
    assert_eq!(lazy.counts(), LazyCounts::default());
}

#[test]
fn many_threads_that_ask_at_once_write_each_section_once() {
    static WRITER: Counting = Counting(AtomicU64::new(0));
    for round in 0..20 {
        let before = WRITER.0.load(Ordering::Relaxed);
        let lazy = Lazy::new(small(&[8]), LazyOptions::new(&WRITER));
        let calls = {
            let counting = Counting::default();
            let map = small(&[8]);
            for section in map.geometry().sections().iter() {
                map.claim(section).unwrap().write(&counting);
            }
            counting.0.into_inner()
        };
        let together = Barrier::new(8);
        let wrote: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8_u64)
                .map(|thread| {
                    let (lazy, together) = (&lazy, &together);
                    scope.spawn(move || {
                        together.wait();
                        (0..8)
                            .map(|at| (at * (2 * thread + 1) + round) % 8)
                            .filter(|at| lazy.touch(SectionNr(*at)) == Ok(Touched::Wrote))
                            .count()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(wrote, 8);
        assert_eq!(lazy.counts().asked, 8);
        assert_eq!(WRITER.0.load(Ordering::Relaxed) - before, calls);
        assert_eq!(all_words(&mut lazy.into_pages()), plain(small(&[8])));
    }
}

/// Panics as often as it is told to.
#[derive(Debug)]
struct Fails(AtomicUsize);

impl PageWriter for Fails {
    fn name(&self) -> &'static str {
        "fails"
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        let less = |left: usize| left.checked_sub(1);
        if self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
        {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        template().write(image, pages);
    }
}

#[test]
fn a_writer_that_panics_leaves_its_section_to_the_next_who_asks() {
    static WRITER: Fails = Fails(AtomicUsize::new(3));
    let lazy = Lazy::new(small(&[4]), LazyOptions::new(&WRITER));
    let failed = std::thread::scope(|scope| {
        let ask = || lazy.touch(SectionNr(2));
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(ask)).collect();
        let failed = threads.into_iter().map(|thread| thread.join());
        failed.filter(Result::is_err).count()
    });
    assert_eq!(failed, 3);
    assert_eq!(lazy.touch(SectionNr(2)), Ok(Touched::Ready));
    assert_eq!(lazy.counts().asked, 1);
}

#[test]
fn memory_that_cannot_be_had_is_an_error_and_asking_again_helps() {
    let profile = Profile::amd64(KernelVersion::V6_12);
    let lazy = Lazy::new(
        map(&profile, &[3], BackingKind::Mapped),
        LazyOptions::new(template()),
    );
    let section = SectionNr(1);
    let faults = Faults::new().fail_from(Call::Madvise, 1, 12);
    let scope = faults.enter();
    let error = lazy.touch(section).unwrap_err();
    drop(scope);
    assert!(matches!(error, LazyError::NoMemory { .. }), "{error}");
    assert!(error.to_string().contains("section 1"), "{error}");
    assert_eq!(lazy.map().section_state(section), SectionState::Pending);
    assert_eq!(lazy.touch(section), Ok(Touched::Wrote));
}

#[test]
fn a_claim_that_was_lost_makes_nobody_wait_for_ever_and_can_be_taken_back() {
    let options = LazyOptions::new(template()).patience(Duration::from_millis(30));
    let lazy = Lazy::new(small(&[4]), options);
    std::mem::forget(lazy.map().claim(SectionNr(3)));
    let error = lazy.touch(SectionNr(3)).unwrap_err();
    assert!(matches!(error, LazyError::Stuck { .. }), "{error}");
    assert!(error.to_string().contains("recover"), "{error}");
    let mut map = lazy.into_pages();
    assert_eq!(map.recover(), 1);
    assert_eq!(map.recover(), 0);
    let lazy = Lazy::new(map, options);
    assert_eq!(lazy.touch(SectionNr(3)), Ok(Touched::Wrote));
}

#[test]
fn a_drain_writes_all_that_nobody_asked_for() {
    let wanted = plain(small(&[20, 30, 10]));
    for threads in [1, 2, 5] {
        let options = LazyOptions::new(template()).watermark(Watermark::ALL);
        let lazy = Arc::new(Lazy::new(small(&[20, 30, 10]), options));
        let drain = Drain::start(&lazy, &host(), &workers(threads)).unwrap();
        let asked: u64 = (0..60)
            .step_by(7)
            .filter(|section| lazy.touch(SectionNr(*section)) == Ok(Touched::Wrote))
            .count() as u64;
        let report = drain.finish();
        assert!(report.is_complete(), "{report}");
        assert_eq!(report.sections + asked, 60, "{report}");
        let counts = lazy.counts();
        assert_eq!((counts.asked, counts.drained), (asked, report.sections));
        let lazy = Arc::into_inner(lazy).unwrap();
        assert_eq!(all_words(&mut lazy.into_pages()), wanted);
    }
}

/// Waits until it is so; a drain that sleeps for good fails here.
fn until(what: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_drain_stays_between_its_watermarks() {
    let watermark = Watermark { low: 3, high: 6 };
    let options = LazyOptions::new(template()).watermark(watermark);
    let lazy = Arc::new(Lazy::new(small(&[40, 40]), options));
    let drain = Drain::start(&lazy, &host(), &workers(2)).unwrap();
    let ready = |from: u64, to: u64| {
        let states = (from..to).map(|section| lazy.map().section_state(SectionNr(section)));
        states.filter(|state| *state == SectionState::Ready).count() as u64
    };
    let ahead = |node| lazy.ahead(NodeId::new(node)).unwrap();
    until("it fills both nodes", || (ahead(0), ahead(1)) == (6, 6));
    // what was written ahead is asked for, which nobody has to write
    for section in 0..4 {
        assert_eq!(lazy.touch(SectionNr(section)), Ok(Touched::Ready));
    }
    until("it fills node 0 again", || {
        ready(0, 40) > 6 && ahead(0) >= 3
    });
    let report = drain.stop();
    assert!(report.cancelled && !report.is_complete(), "{report}");
    // whether it began again before it saw that it was full, nobody can tell; never beyond the mark
    let written = ready(0, 40);
    assert!((7..=10).contains(&written), "{written}");
    assert_eq!((ahead(0), ahead(1)), (written - 4, 6));
    assert_eq!(ready(40, 80), 6);
    assert_eq!(report.sections, written + 6, "{report}");
    assert_eq!(lazy.counts().asked, 0);
    // asked for twice, it counts once
    assert_eq!(lazy.touch(SectionNr(3)), Ok(Touched::Ready));
    assert_eq!(ahead(0), written - 4);
}

#[test]
fn a_drain_that_fails_stops_and_another_one_completes_the_map() {
    static WRITER: Fails = Fails(AtomicUsize::new(0));
    for at in 0..12 {
        let options = LazyOptions::new(&WRITER).watermark(Watermark::ALL);
        let lazy = Arc::new(Lazy::new(small(&[6, 6]), options));
        for section in 0..at {
            lazy.touch(SectionNr(section)).unwrap();
        }
        WRITER.0.store(1, Ordering::Relaxed);
        let report = Drain::start(&lazy, &host(), &workers(3)).unwrap().finish();
        assert_eq!(report.panicked.as_deref(), Some("on purpose"), "{report}");
        assert!(!report.is_complete());
        assert!(report.to_string().contains("panicked"), "{report}");
        let again = Drain::start(&lazy, &host(), &workers(2)).unwrap().finish();
        assert!(again.is_complete(), "{again}");
        assert_eq!(report.sections + again.sections + at, 12);
        let map = Arc::into_inner(lazy).unwrap().into_pages();
        assert!(map.is_complete());
    }
}

#[test]
fn a_drain_without_memory_stops_and_says_for_which_section() {
    let profile = Profile::amd64(KernelVersion::V6_12);
    let options = LazyOptions::new(template()).watermark(Watermark::ALL);
    let map = map(&profile, &[6], BackingKind::Mapped);
    let lazy = Arc::new(Lazy::new(map, options));
    let faults = Faults::new().fail_from(Call::Madvise, 3, 12);
    let scope = faults.enter();
    let report = Drain::start(&lazy, &host(), &workers(1)).unwrap().finish();
    drop(scope);
    assert_eq!(report.sections, 2);
    let section = SectionNr(2);
    assert!(
        matches!(report.failed, Some(LazyError::NoMemory { section: at, .. }) if at == section),
        "{report}"
    );
    let again = Drain::start(&lazy, &host(), &workers(1)).unwrap().finish();
    assert_eq!((again.sections, again.is_complete()), (4, true));
}

#[test]
fn a_drain_that_is_dropped_ends_and_one_that_cannot_start_leaves_nothing() {
    let lazy = Arc::new(Lazy::new(small(&[50]), LazyOptions::new(template())));
    drop(Drain::start(&lazy, &host(), &workers(2)).unwrap());
    assert_eq!(Arc::strong_count(&lazy), 1);
    let refused = Drain::start(&lazy, &host(), &workers(0)).unwrap_err();
    assert_eq!(refused, ChooseError::NoThreads.into());
    let faults = Faults::new().fail_from(Call::Spawn, 2, 11);
    let scope = faults.enter();
    let refused = Drain::start(&lazy, &host(), &workers(1)).unwrap_err();
    drop(scope);
    assert!(refused.to_string().contains("drain"), "{refused}");
    assert_eq!(Arc::strong_count(&lazy), 1);
}

fn allocator(map: MemoryMap) -> Allocator<MemoryMap> {
    let geometry = map.geometry().clone();
    Allocator::new(
        map,
        &geometry,
        NodeDistances::default(),
        ListHeads::default(),
    )
}

fn request(order: u8) -> Request {
    Request {
        order,
        node: NodeId::new(0),
        zone: ZoneIndex(4),
        migrate: MigrateType::Movable,
    }
}

/// Early sections written and handed over.
fn early(map: MemoryMap) -> Allocator<MemoryMap> {
    let plan = Plan::new(map.geometry()).unwrap();
    let plan = plan.part(map.geometry(), Phase::Early);
    let mut options = RunOptions::new(template()).hand_over();
    options.workers = workers(1);
    let mut report = Engine::new(host()).run(&map, &plan, &options).unwrap();
    let allocator = allocator(map);
    let geometry = allocator.pages().geometry().clone();
    report.join(&allocator, &HandOver::new(&geometry));
    allocator
}

/// In a guest with 248 CPUs every allocation before the first watermark once took a block of its own.
#[test]
fn of_248_cpus_that_find_nothing_at_once_one_grows_the_zone() {
    let profile = Profile::amd64(KernelVersion::V6_12);
    let map = map(&profile, &[0, 12], BackingKind::Heap);
    let mut allocator = early(map);
    let request = Request {
        node: NodeId::new(1),
        ..request(10)
    };
    while allocator.alloc_pages(request).is_ok() {}
    let request = Request {
        order: 0,
        ..request
    };
    while allocator.alloc_pages(request).is_ok() {}
    let geometry = allocator.pages().geometry().clone();
    let ready = |allocator: &Allocator<MemoryMap>| {
        let sections = geometry.sections().iter();
        sections
            .filter(|at| allocator.pages().section_state(*at) == SectionState::Ready)
            .count()
    };
    let before = ready(&allocator);
    allocator.set_growth(Some(OnDemand::boxed(&geometry, template())));
    let together = Barrier::new(248);
    let pages: BTreeSet<Pfn> = std::thread::scope(|scope| {
        let cpus: Vec<_> = (0..248)
            .map(|_| {
                scope.spawn(|| {
                    together.wait();
                    allocator.alloc_pages(request).unwrap()
                })
            })
            .collect();
        cpus.into_iter().map(|cpu| cpu.join().unwrap()).collect()
    });
    assert_eq!(pages.len(), 248, "each has a page of its own");
    assert_eq!(ready(&allocator) - before, 1, "one section has 32768 pages");
    assert_eq!(allocator.check(), []);
}

#[test]
fn zones_grow_while_engines_and_lazy_askers_are_at_work() {
    let profile = Profile::ppc64_64k(KernelVersion::V6_12);
    for _ in 0..30 {
        let map = map(&profile, &[40, 25], BackingKind::Heap);
        let geometry = map.geometry().clone();
        let mut allocator = early(map);
        allocator.set_growth(Some(OnDemand::boxed(&geometry, template())));
        let lazy = Lazy::new(allocator, LazyOptions::new(template()));
        let given = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while lazy.alloc_pages(request(2)).is_ok() {
                        given.fetch_add(4, Ordering::Relaxed);
                    }
                });
            }
            scope.spawn(|| {
                for section in geometry.sections().iter() {
                    lazy.touch(section).unwrap();
                    std::thread::yield_now();
                }
            });
            let plan = Plan::new(&geometry).unwrap();
            let mut options = RunOptions::new(template()).hand_over();
            options.workers = workers(2);
            let mut run = Engine::new(host())
                .run(lazy.map(), &plan, &options)
                .unwrap();
            // until then those who allocate wait for what the engine wrote
            run.join(lazy.pages(), &HandOver::new(&geometry));
        });
        let allocator = lazy.into_pages();
        while allocator.alloc_pages(request(2)).is_ok() {
            given.fetch_add(4, Ordering::Relaxed);
        }
        assert!(allocator.pages().is_complete());
        assert_eq!(allocator.check(), []);
        assert_eq!(given.into_inner(), 65 * 256);
    }
}

#[test]
fn allocations_wake_a_drain_that_keeps_pages_free() {
    let profile = Profile::ppc64_64k(KernelVersion::V6_12);
    let map = map(&profile, &[60], BackingKind::Heap);
    let watermark = Watermark { low: 4, high: 8 };
    let options = LazyOptions::new(template()).watermark(watermark);
    let lazy = Arc::new(Lazy::new(allocator(map), options));
    let drain = Drain::start(&lazy, &host(), &workers(2)).unwrap();
    let node = NodeId::new(0);
    until("it fills up", || lazy.ahead(node) >= Some(8));
    let request = Request {
        zone: ZoneIndex(1),
        ..request(8)
    };
    for _ in 0..50 {
        until("there is a free block", || {
            lazy.alloc_pages(request).is_ok()
        });
    }
    assert_eq!(lazy.counts().asked, 0, "nobody who allocates writes");
    assert!(drain.stop().sections >= 50);
    assert_eq!(lazy.pages().check(), []);
}
