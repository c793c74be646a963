//! Models of claim, publish and growth, run by loom over every interleaving.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p memmap-core --lib --release model`
//!
//! The struct pages of a section are one cell that loom watches: two accesses that do not happen
//! one after the other fail the model, so what is shown is that a claim is exclusive and that
//! whoever sees "ready" sees what was written.

use std::vec::Vec;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::state::{SectionState, States};

struct Sections {
    states: States,
    pages: Vec<UnsafeCell<u64>>,
}

// SAFETY: the cells are accessed under the states' rules, which is what the models check.
unsafe impl Sync for Sections {}
// SAFETY: as above.
unsafe impl Send for Sections {}

impl Sections {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            states: States::new(count),
            pages: (0..count).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    fn write(&self, rank: usize, value: u64) {
        self.pages[rank].with_mut(|page| {
            // SAFETY: the caller holds the claim; loom fails the model where that is not enough.
            unsafe { *page = value };
        });
    }

    fn read(&self, rank: usize) -> u64 {
        // SAFETY: the caller saw the section ready; loom fails the model where that is not enough.
        self.pages[rank].with(|page| unsafe { *page })
    }
}

#[test]
fn one_of_two_claimants_writes_and_who_sees_ready_sees_it() {
    loom::model(|| {
        let sections = Sections::new(1);
        let workers: Vec<_> = (1..=2)
            .map(|worker| {
                let sections = Arc::clone(&sections);
                thread::spawn(move || {
                    let mine = sections.states.claim(0);
                    if mine {
                        sections.write(0, worker);
                        sections.states.publish(0);
                    }
                    mine
                })
            })
            .collect();
        if sections.states.get(0) == SectionState::Ready {
            assert_ne!(sections.read(0), 0);
        }
        let claims = workers.into_iter().filter_map(|worker| worker.join().ok());
        assert_eq!(claims.filter(|mine| *mine).count(), 1);
        assert_eq!(sections.states.get(0), SectionState::Ready);
        assert_ne!(sections.read(0), 0);
    });
}

#[test]
fn a_claim_after_an_abandoned_one_comes_after_its_writes() {
    loom::model(|| {
        let sections = Sections::new(1);
        let failing = {
            let sections = Arc::clone(&sections);
            thread::spawn(move || {
                if sections.states.claim(0) {
                    sections.write(0, 1);
                    sections.states.abandon(0);
                }
            })
        };
        if sections.states.claim(0) {
            sections.write(0, 2);
            sections.states.publish(0);
        }
        assert!(failing.join().is_ok());
        match sections.states.get(0) {
            // whoever came last wrote last
            SectionState::Ready => assert_eq!(sections.read(0), 2),
            state => assert_eq!(state, SectionState::Pending),
        }
    });
}

/// Growth: every CPU goes through the sections, writes those that it can claim, publishes them and
/// joins them to the zone's lists under the zone's lock; whoever takes from a list sees the pages.
#[test]
fn cpus_that_grow_a_zone_at_once_join_each_section_once() {
    loom::model(|| {
        let sections = Sections::new(2);
        let lists = Arc::new(Mutex::new(Vec::new()));
        let grow = |sections: &Sections, lists: &Mutex<Vec<usize>>| {
            for rank in 0..2 {
                if sections.states.claim(rank) {
                    sections.write(rank, 7);
                    sections.states.publish(rank);
                    if let Ok(mut lists) = lists.lock() {
                        lists.push(rank);
                    }
                }
            }
        };
        let other = {
            let (sections, lists) = (Arc::clone(&sections), Arc::clone(&lists));
            thread::spawn(move || grow(&sections, &lists))
        };
        grow(&sections, &lists);
        let taken = lists.lock().ok().and_then(|lists| lists.last().copied());
        if let Some(rank) = taken {
            assert_eq!(sections.read(rank), 7);
        }
        assert!(other.join().is_ok());
        let mut all = lists.lock().map(|lists| lists.clone()).unwrap_or_default();
        all.sort_unstable();
        assert_eq!(all, [0, 1]);
    });
}
