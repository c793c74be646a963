//! Who does which sections, and when; never what is done with them.
//!
//! A [`Scheduler`] runs the workers of a [`Crew`] over the [`Work`] and calls a visitor with pieces;
//! every section is visited exactly once unless the visitor says stop. Most schedulers only hand out
//! pieces ([`HandOut`]): they are driven by one loop, and can be [simulated](simulate) without
//! threads for hosts that we do not have.
//!
//! | name | who gets what |
//! |---|---|
//! | `static` | every worker an equal, contiguous share of its node |
//! | `padata` | chunks as the kernel cuts them, taken under a lock by the node's workers |
//! | `deque` | own deque, then the node's other workers, then other nodes where that is allowed |
//! | `rayon` | one rayon pool a node splits the node's sections |

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::plan::{Piece, Work};
use crate::workers::{Crew, Start};

mod deque;
mod equal;
mod padata;
mod rayon_pools;

pub use deque::Deque;
pub use equal::Static;
pub use padata::{Chunks, Padata, PadataJobs, PadataRules};
pub use rayon_pools::RayonPools;

/// Whether a worker goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// With the next piece.
    Continue,
    /// No more: a worker failed, or the run was cancelled.
    Stop,
}

/// What a worker does with a piece; called with the worker's index.
pub type Visit<'a> = dyn Fn(usize, Piece) -> Flow + Sync + 'a;

/// What a scheduler counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pieces that a worker took from another one of its node.
    pub steals: u64,
    /// Pieces that a worker took from another node.
    pub cross_node_steals: u64,
    /// Sections in those.
    pub cross_node_sections: u64,
}

/// Runs workers over sections.
pub trait Scheduler: Send + Sync + Debug {
    /// The name by which users choose it.
    fn name(&self) -> &'static str;

    /// Visits every section of `work` once, on `crew`'s workers, after all of them passed `start`.
    ///
    /// Returns when all workers are done, also where one panicked.
    fn run(&self, crew: &Crew, work: &Work<'_>, start: &Start, visit: &Visit<'_>) -> Tally;
}

/// What a worker is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// This piece.
    Piece(Piece),
    /// There may be more soon; ask again.
    Wait,
    /// There is no more.
    Done,
}

/// A scheduler that hands out pieces to whoever asks.
pub trait HandOut {
    /// Lays out the work for one run.
    fn begin<'w>(&self, work: &'w Work<'w>) -> Box<dyn Source + 'w>;
}

/// The pieces of one run.
pub trait Source: Sync {
    /// The hand of a worker; asked for once a worker, on its own thread.
    fn hand(&self, worker: usize) -> Box<dyn Hand + '_>;

    /// What was counted so far.
    fn tally(&self) -> Tally {
        Tally::default()
    }
}

/// What one worker draws pieces with.
pub trait Hand {
    /// What it is to do next.
    fn next(&mut self) -> Next;
}

/// Drives workers over pieces that are handed out.
fn drive(
    scheduler: &dyn HandOut,
    crew: &Crew,
    work: &Work<'_>,
    start: &Start,
    visit: &Visit<'_>,
) -> Tally {
    let source = scheduler.begin(work);
    let stop = AtomicBool::new(false);
    crew.each(&|worker| {
        start.wait();
        // a worker that waits for others must learn that one of them is gone
        let _gone = StopOnPanic(&stop);
        let mut hand = source.hand(worker);
        // Relaxed: going on for one piece more does no harm
        while !stop.load(Ordering::Relaxed) {
            match hand.next() {
                Next::Piece(piece) => {
                    if visit(worker, piece) == Flow::Stop {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
                // what others hold may come back in parts; there is nothing better to do
                Next::Wait => std::thread::yield_now(),
                Next::Done => return,
            }
        }
    });
    source.tally()
}

struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Sections that each worker gets when all are equally fast: they draw in turn, without threads.
pub fn simulate(scheduler: &dyn HandOut, work: &Work<'_>) -> (Vec<u64>, Tally) {
    let source = scheduler.begin(work);
    let mut sections = vec![0; work.workers()];
    let mut hands: Vec<_> = (0..work.workers())
        .map(|worker| Some(source.hand(worker)))
        .collect();
    while hands.iter().any(Option::is_some) {
        for (worker, slot) in hands.iter_mut().enumerate() {
            let Some(hand) = slot else { continue };
            match hand.next() {
                Next::Piece(piece) => sections[worker] += piece.len(),
                Next::Wait => {}
                Next::Done => *slot = None,
            }
        }
    }
    drop(hands);
    (sections, source.tally())
}

/// The share of worker `index` of `workers` in `[0, total)`; shares differ by at most one.
fn share(total: u64, workers: usize, index: usize) -> std::ops::Range<u64> {
    let (workers, index) = (workers.max(1) as u64, index as u64);
    let (each, rest) = (total / workers, total % workers);
    let start = index * each + index.min(rest);
    start..start + each + u64::from(index < rest)
}

/// A scheduler by its name, with its default settings.
pub fn by_name(name: &str) -> Option<&'static dyn Scheduler> {
    all()
        .iter()
        .copied()
        .find(|scheduler| scheduler.name() == name)
}

/// All schedulers with their default settings, in the order in which tables show them.
pub fn all() -> &'static [&'static dyn Scheduler] {
    static ALL: [&dyn Scheduler; 4] = [&Static, &Padata::LATEST, &Deque::WITHIN_NODE, &RayonPools];
    &ALL
}
