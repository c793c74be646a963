//! Models of first touch, drains and cancelling, run by loom over every interleaving.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p deferred-init --lib --release model`
//!
//! What runs is the code itself, claims and section states of `memmap-core` included. Beside each
//! section lies a number that whoever writes the section counts up, without any order of its own
//! (relaxed): who was told that a section is ready and sees another number than one has not seen what
//! was written, or it was written twice. A thread that would wait for ever fails a model as well.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::vec::Vec;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;
use memblock::{Behaviour, Memblock, NodeId, PhysAddr, PhysRange};
use memmap_core::writers::{self, PageWriter};
use memmap_core::{
    BackingKind, BackingOptions, BootOptions, Claim, Geometry, KernelVersion, MemoryMap, Profile,
    SectionNr, SectionState,
};

use super::drain::DrainReport;
use super::drain::work;
use super::lazy::{Lazy, LazyOptions, LazyPages, Touched, Watermark};
use crate::engine::CancelToken;

/// As many as it takes for one to be written while another one is asked for.
const SECTIONS: u64 = 2;

/// A machine of small sections, worked out once.
fn geometry() -> Geometry {
    static GEOMETRY: OnceLock<Geometry> = OnceLock::new();
    let new = || {
        let profile = Profile::ppc64_64k(KernelVersion::V6_12);
        let bytes = SECTIONS * profile.pages_per_section() * profile.page_size();
        let mut memory = Memblock::new(Behaviour::V6_12);
        memory
            .add(PhysRange::from_size(PhysAddr::new(0), bytes))
            .expect("fits");
        Geometry::new(&profile, &memory, &BootOptions::default()).expect("a machine")
    };
    GEOMETRY.get_or_init(new).clone()
}

/// A map with a number a section.
#[derive(Debug)]
struct Watched {
    map: MemoryMap,
    written: Vec<AtomicU64>,
    /// The first writer panics.
    fails: AtomicBool,
}

impl LazyPages for Watched {
    fn map(&self) -> &MemoryMap {
        &self.map
    }

    fn complete(&self, mut claim: Claim<'_>, writer: &dyn PageWriter) {
        if self.fails.swap(false, Ordering::Relaxed) {
            // as a page writer's panic, without a message on the terminal
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        claim.write(writer);
        self.written[claim.section().0 as usize].fetch_add(1, Ordering::Relaxed);
        claim.publish();
    }

    fn spare(&self, _: NodeId) -> Option<u64> {
        None
    }
}

fn lazy(watermark: Watermark, fails: bool) -> Arc<Lazy<Watched>> {
    let mut backing = BackingOptions::default();
    backing.kind = BackingKind::Heap;
    backing.memory_limit = Some(1 << 20);
    let watched = Watched {
        map: MemoryMap::new(geometry(), backing).expect("a small map"),
        written: (0..SECTIONS).map(|_| AtomicU64::new(0)).collect(),
        fails: AtomicBool::new(fails),
    };
    let writer = writers::by_name("zero").expect("it exists");
    let options = LazyOptions::new(writer).watermark(watermark);
    Arc::new(Lazy::new(watched, options))
}

impl Lazy<Watched> {
    /// Asks for a section and sees what was written.
    fn ask(&self, section: u64) -> Touched {
        let touched = self.touch(SectionNr(section)).expect("memory");
        self.seen(section);
        touched
    }

    /// What whoever sees a section ready sees.
    fn seen(&self, section: u64) {
        let written = &self.pages().written[section as usize];
        assert_eq!(written.load(Ordering::Relaxed), 1);
    }

    /// Whether a section is ready; nothing is ever left claimed.
    fn is_ready(&self, section: u64) -> bool {
        match self.map().section_state(SectionNr(section)) {
            SectionState::Ready => {
                self.seen(section);
                true
            }
            SectionState::Pending => false,
            other => panic!("section {section} is left {other:?}"),
        }
    }

    /// What an engine's worker does, which knows nothing of who waits.
    fn write_as_worker(&self, section: u64) {
        if let Some(claim) = self.map().claim(SectionNr(section)) {
            let writer = writers::by_name("zero").expect("it exists");
            self.pages().complete(claim, writer);
        }
    }
}

/// Every interleaving, or those with few preemptions where there are too many of them;
/// `LOOM_MAX_PREEMPTIONS` says otherwise for all models, up or down.
fn model(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    builder.check(body);
}

#[test]
fn one_of_those_who_ask_writes_and_all_see_it() {
    model(None, || {
        let lazy = lazy(Watermark::NONE, false);
        let other = {
            let lazy = Arc::clone(&lazy);
            thread::spawn(move || lazy.ask(0))
        };
        let mine = lazy.ask(0);
        let theirs = other.join().expect("no panic");
        let wrote = [mine, theirs]
            .iter()
            .filter(|who| **who == Touched::Wrote)
            .count();
        assert_eq!(wrote, 1);
        assert_eq!(lazy.ask(0), Touched::Ready);
        assert!(!lazy.is_ready(1));
    });
}

#[test]
fn who_waits_for_a_writer_that_fails_writes_instead() {
    model(None, || {
        let lazy = lazy(Watermark::NONE, true);
        let other = {
            let lazy = Arc::clone(&lazy);
            thread::spawn(move || catch_unwind(AssertUnwindSafe(|| lazy.ask(0))).is_err())
        };
        let mine = catch_unwind(AssertUnwindSafe(|| lazy.ask(0))).is_err();
        let theirs = other.join().expect("caught");
        assert!(mine != theirs, "one of the two failed");
        assert!(lazy.is_ready(0));
    });
}

#[test]
fn a_section_that_a_worker_writes_is_waited_for() {
    model(None, || {
        let lazy = lazy(Watermark::NONE, false);
        let worker = {
            let lazy = Arc::clone(&lazy);
            thread::spawn(move || {
                lazy.write_as_worker(0);
                lazy.write_as_worker(1);
            })
        };
        lazy.ask(1);
        lazy.ask(0);
        worker.join().expect("no panic");
        lazy.seen(0);
        lazy.seen(1);
    });
}

/// What a drain's worker does until there is nothing pending or it is stopped.
fn drain(lazy: &Lazy<Watched>, cancel: &CancelToken) -> DrainReport {
    let never = CancelToken::new();
    let mut report = DrainReport::default();
    work(lazy, 0, [cancel, &never], &mut report).expect("memory");
    report
}

#[test]
fn two_drains_and_one_who_asks_write_each_section_once() {
    model(Some(1), || {
        let lazy = lazy(Watermark::ALL, false);
        let drains: Vec<_> = (0..2)
            .map(|_| {
                let lazy = Arc::clone(&lazy);
                thread::spawn(move || drain(&lazy, &CancelToken::new()).sections)
            })
            .collect();
        let asked = u64::from(lazy.ask(1) == Touched::Wrote);
        let drained: u64 = drains
            .into_iter()
            .map(|drain| drain.join().expect("no panic"))
            .sum();
        assert_eq!(asked + drained, SECTIONS);
        assert!((0..SECTIONS).all(|section| lazy.is_ready(section)));
    });
}

#[test]
fn a_drain_that_sleeps_is_woken_by_who_asks() {
    model(Some(2), || {
        // one section ahead, again as soon as it is asked for
        let lazy = lazy(Watermark { low: 1, high: 1 }, false);
        let drain = {
            let lazy = Arc::clone(&lazy);
            thread::spawn(move || drain(&lazy, &CancelToken::new()))
        };
        for section in 0..SECTIONS {
            lazy.ask(section);
        }
        // it ends by itself: nothing is pending any more. A bell that is missed is a deadlock here.
        let report = drain.join().expect("no panic");
        assert!(report.is_complete());
        assert!((0..SECTIONS).all(|section| lazy.is_ready(section)));
    });
}

#[test]
fn two_drains_do_not_write_beyond_the_mark() {
    model(Some(2), || {
        let lazy = lazy(Watermark { low: 1, high: 1 }, false);
        let cancel = CancelToken::new();
        let drains: Vec<_> = (0..2)
            .map(|_| {
                let (lazy, cancel) = (Arc::clone(&lazy), cancel.clone());
                thread::spawn(move || drain(&lazy, &cancel).sections)
            })
            .collect();
        cancel.cancel();
        lazy.bell().ring();
        let drained: u64 = drains
            .into_iter()
            .map(|drain| drain.join().expect("no panic"))
            .sum();
        assert!(drained <= 1, "{drained}");
    });
}

#[test]
fn a_drain_that_is_stopped_leaves_sections_ready_or_pending() {
    model(Some(3), || {
        // it never finishes by itself: one section ahead is enough for it
        let lazy = lazy(Watermark { low: 1, high: 1 }, false);
        let cancel = CancelToken::new();
        let drain = {
            let (lazy, cancel) = (Arc::clone(&lazy), cancel.clone());
            thread::spawn(move || drain(&lazy, &cancel))
        };
        cancel.cancel();
        lazy.bell().ring();
        let report = drain.join().expect("no panic");
        let ready = (0..SECTIONS)
            .filter(|section| lazy.is_ready(*section))
            .count();
        assert_eq!(ready as u64, report.sections);
        assert!(report.cancelled);
        // and whoever asks next completes it
        for section in 0..SECTIONS {
            lazy.ask(section);
        }
    });
}

/// An engine's workers and a cancel: they look at the token before each section.
#[test]
fn a_cancelled_run_leaves_sections_ready_or_pending() {
    model(Some(3), || {
        let lazy = lazy(Watermark::NONE, false);
        let cancel = CancelToken::new();
        let workers: Vec<_> = (0..2_u64)
            .map(|worker| {
                let (lazy, cancel) = (Arc::clone(&lazy), cancel.clone());
                thread::spawn(move || {
                    for at in 0..SECTIONS {
                        if cancel.is_cancelled() {
                            return;
                        }
                        lazy.write_as_worker((at + worker) % SECTIONS);
                    }
                })
            })
            .collect();
        cancel.cancel();
        for worker in workers {
            worker.join().expect("no panic");
        }
        let before = (0..SECTIONS)
            .filter(|section| lazy.is_ready(*section))
            .count();
        let resumed = (0..SECTIONS)
            .filter(|section| lazy.ask(*section) == Touched::Wrote)
            .count();
        assert_eq!((before + resumed) as u64, SECTIONS);
    });
}
