//! Devices on the engine: the same struct pages whoever writes them, and each range told once.

use std::sync::Mutex;

use deferred_init::engine::{CancelToken, Engine, Outcome, RunOptions};
use deferred_init::schedule;
use deferred_init::topology::synthetic;
use deferred_init::workers::Pinning;
use memblock::{NodeId, Pfn, PhysAddr, PhysRange};
use memmap_core::writers;
use memmap_core::{KernelVersion, Profile};
use sys::HugePages;
use zone_device::{
    DevPagemap, DeviceMemmap, DeviceRuns, Initialised, MemoryType, RangeObserver, Site, Way,
};

/// Two ranges that share a section, the first beginning in the middle of another one.
fn device(order: u32) -> DeviceMemmap {
    let range = |start: u64, mib: u64| PhysRange::from_size(PhysAddr::new(start << 20), mib << 20);
    let pagemap = DevPagemap::new(MemoryType::Generic, 0xffff_8881_0000_0000)
        .with_range(range(4096 + 64, 3 * 128))
        .with_range(range(4096 + 512, 256))
        .with_vmemmap_shift(order);
    let profile = Profile::amd64(KernelVersion::V7_3);
    let runs = DeviceRuns::new(&profile, &pagemap, &Site::on_node(NodeId::new(0))).unwrap();
    DeviceMemmap::new(runs, HugePages::System).unwrap()
}

fn engine() -> Engine {
    Engine::new(synthetic::parse("numa:1(memory=1G) core:4").unwrap())
}

#[derive(Default)]
struct Told(Mutex<Vec<Initialised>>);

impl RangeObserver for Told {
    fn initialised(&self, range: Initialised) {
        self.0.lock().unwrap().push(range);
    }
}

#[test]
fn every_scheduler_writer_and_number_of_threads_leaves_the_same_device() {
    let engine = engine();
    for order in [0, 9] {
        let mut expected = device(order);
        expected.bind(Way::Slow, None).unwrap();
        let mut memmap = device(order);
        for scheduler in schedule::all() {
            for writer in writers::all() {
                for threads in [1, 2, 4] {
                    memmap.discard().unwrap();
                    let told = Told::default();
                    let mut options = RunOptions::new(*writer)
                        .threads(threads)
                        .scheduler(*scheduler);
                    options.workers.pinning = Pinning::Off;
                    let report = engine
                        .run_device(&mut memmap, 0x8000, &options, Some(&told))
                        .unwrap();
                    assert_eq!(report.outcome, Outcome::Complete);
                    let pages = 5 * 0x8000;
                    let mut told = told.0.into_inner().unwrap();
                    told.sort_by_key(|range| range.pfns.start());
                    assert!(
                        told.windows(2)
                            .all(|w| w[0].pfns.end() <= w[1].pfns.start())
                    );
                    assert_eq!(
                        told.iter().map(|range| range.pfns.len()).sum::<u64>(),
                        pages
                    );
                    for range in memmap.runs().ranges() {
                        // every compound's first pages and some of the others
                        for pfn in range
                            .iter()
                            .filter(|pfn| pfn.get() % 512 < 4 || pfn.get() % 97 == 0)
                        {
                            assert_eq!(memmap.read(pfn), expected.read(pfn), "{pfn}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_cancelled_run_says_so_and_another_one_completes_the_device() {
    let engine = engine();
    let mut memmap = device(0);
    let cancel = CancelToken::new();
    cancel.cancel();
    let mut options = RunOptions::new(&writers::Stream::DETECT).threads(1);
    options.workers.pinning = Pinning::Off;
    options.cancel = cancel;
    let report = engine
        .run_device(&mut memmap, 0x8000, &options, None)
        .unwrap();
    assert_eq!(report.outcome, Outcome::Cancelled);
    options.cancel = CancelToken::new();
    let report = engine
        .run_device(&mut memmap, 0x8000, &options, None)
        .unwrap();
    assert_eq!(report.outcome, Outcome::Complete);
    let first = memmap.runs().ranges()[0].start();
    assert!(
        memmap
            .read(first)
            .is_some_and(|words| words[1] == 0xffff_8881_0000_0000)
    );
    assert_eq!(memmap.read(Pfn::new(0)), None);
}
