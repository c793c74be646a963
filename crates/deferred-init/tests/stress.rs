//! Thousands of small maps, written by everybody at once, with yields at random.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deferred_init::engine::{CancelToken, Engine, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::policy::{Drain, Lazy, LazyOptions, Watermark};
use deferred_init::schedule;
use deferred_init::topology::synthetic;
use deferred_init::workers::{Pinning, WorkerChoice};
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::writers::{self, PageWriter};
use memmap_core::{
    BackingKind, BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, PageImage,
    Profile, SectionNr,
};

const SECTIONS: u64 = 6;
const MAPS: u64 = 2000;

fn geometry() -> Geometry {
    let profile = Profile::ppc64_64k(KernelVersion::V6_12);
    let section = profile.pages_per_section() * profile.page_size();
    let mut memory = Memblock::new(Behaviour::V6_12);
    for (node, start, end) in [(0, 0, 4), (1, 4, SECTIONS)] {
        let range = PhysRange::new(PhysAddr::new(start * section), PhysAddr::new(end * section));
        memory
            .add_node(range, NodeId::new(node), MemblockFlags::empty())
            .unwrap();
    }
    Geometry::new(&profile, &memory, &BootOptions::default()).unwrap()
}

fn map(geometry: &Geometry) -> MemoryMap {
    let mut options = BackingOptions::default();
    options.kind = BackingKind::Heap;
    options.poison = true;
    options.memory_limit = Some(1 << 20);
    MemoryMap::new(geometry.clone(), options).unwrap()
}

fn words(map: &mut MemoryMap) -> Vec<u64> {
    (0..SECTIONS)
        .flat_map(|section| {
            map.section_words(SectionNr(section))
                .expect("ready")
                .to_vec()
        })
        .collect()
}

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Yields now and then before and after it writes, and fails now and then.
#[derive(Debug)]
struct Restless {
    draws: AtomicU64,
}

impl PageWriter for Restless {
    fn name(&self) -> &'static str {
        "restless"
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        let seed = self
            .draws
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
            | 1;
        let mut random = Random(seed);
        for _ in 0..random.next() % 3 {
            std::thread::yield_now();
        }
        if random.next().is_multiple_of(13) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        writers::by_name("zero").unwrap().write(image, pages);
        for _ in 0..random.next() % 3 {
            std::thread::yield_now();
        }
    }
}

fn workers(threads: usize) -> WorkerChoice {
    WorkerChoice {
        oversubscribe: true,
        pinning: Pinning::Off,
        ..WorkerChoice::threads(threads)
    }
}

#[test]
fn thousands_of_maps_written_by_all_at_once_come_out_the_same() {
    let geometry = geometry();
    let plan = Plan::new(&geometry).unwrap();
    let topology = synthetic::parse("numa:2(memory=1G) core:2").unwrap();
    let engine = Engine::new(topology.clone());
    static RESTLESS: Restless = Restless {
        draws: AtomicU64::new(1),
    };
    let wanted = {
        let mut map = map(&geometry);
        for section in 0..SECTIONS {
            let mut claim = map.claim(SectionNr(section)).unwrap();
            claim.write(writers::by_name("memset").unwrap());
            claim.publish();
        }
        words(&mut map)
    };
    let mut random = Random(0x5eed);
    for round in 0..MAPS {
        let options = LazyOptions::new(&RESTLESS).watermark(Watermark {
            low: random.next() % 3,
            high: 2,
        });
        let lazy = Arc::new(Lazy::new(map(&geometry), options));
        // threads cost more than a small map: a drain every now and then
        let drain = (round % 16 == 0).then(|| Drain::start(&lazy, &topology, &workers(2)).unwrap());
        let cancel = CancelToken::new();
        let scheduler = schedule::all()[(random.next() % 4) as usize];
        let seeds = [random.next(), random.next()];
        std::thread::scope(|scope| {
            for seed in seeds {
                let (lazy, cancel) = (&lazy, &cancel);
                scope.spawn(move || {
                    let mut random = Random(seed | 1);
                    for _ in 0..4 {
                        let section = SectionNr(random.next() % SECTIONS);
                        let ask = || lazy.touch(section);
                        // a writer that panics is caught by whoever asked
                        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(ask));
                        if random.next().is_multiple_of(7) {
                            std::thread::yield_now();
                        }
                    }
                    if random.next().is_multiple_of(5) {
                        cancel.cancel();
                    }
                });
            }
            let mut options = RunOptions::new(&RESTLESS).scheduler(scheduler);
            options.workers = workers(1 + (random.next() % 3) as usize);
            options.grain = Some(1 + random.next() % 2);
            options.cancel = cancel.clone();
            let report = engine.run(lazy.map(), &plan, &options).unwrap();
            assert!(report.total().sections + report.skipped <= SECTIONS);
        });
        let stopped = drain.map(Drain::stop);
        assert!(stopped.is_none_or(|report| report.failed.is_none()));
        let mut map = Arc::into_inner(lazy).unwrap().into_pages();
        assert_eq!(map.recover(), 0, "no claim is lost, whatever fails");
        let mut rest = RunOptions::new(writers::by_name("template").unwrap());
        rest.workers = workers(1);
        assert_eq!(engine.run(&map, &plan, &rest).unwrap().left(), 0);
        assert!(words(&mut map) == wanted, "map {round}");
    }
}
