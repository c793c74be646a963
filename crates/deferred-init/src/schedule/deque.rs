//! Work stealing within a node, and beyond it where that is allowed.
//!
//! # Implementation
//! A group's injector holds an equal share for each of its workers, as one range. Before a worker
//! does anything with a range it splits it in halves and puts the far half into its own deque, until
//! what is left has the grain: so a deque never has more than log₂(share) entries, and thieves, who
//! take from the other end, get the largest.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crossbeam::deque::{Injector, Steal, Stealer, Worker};

use super::equal::split_front;
use super::{Hand, HandOut, Next, Scheduler, Source, Tally, Visit, drive, share};
use crate::plan::{Piece, Work};
use crate::workers::{Crew, Start};

/// Work-stealing deques: own deque first, then the node's, then other nodes by distance.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deque {
    /// Whether a worker whose node is done takes from other nodes, nearest first.
    pub across_nodes: bool,
}

impl Deque {
    /// A node's sections are done by that node's workers.
    pub const WITHIN_NODE: Self = Self {
        across_nodes: false,
    };
    /// Workers of a finished node help the nearest others.
    pub const ACROSS_NODES: Self = Self { across_nodes: true };
}

impl Scheduler for Deque {
    fn name(&self) -> &'static str {
        match self.across_nodes {
            false => "deque",
            true => "deque-across",
        }
    }

    fn run(&self, crew: &Crew, work: &Work<'_>, start: &Start, visit: &Visit<'_>) -> Tally {
        drive(self, crew, work, start, visit)
    }
}

impl HandOut for Deque {
    fn begin<'w>(&self, work: &'w Work<'w>) -> Box<dyn Source + 'w> {
        let mut deques = Vec::new();
        let mut stealers = Vec::new();
        let mut groups = Vec::new();
        for (index, group) in work.groups().iter().enumerate() {
            let injector = Injector::new();
            for rank in 0..group.workers.len() {
                let positions = share(group.sections(), group.workers.len(), rank);
                if !positions.is_empty() {
                    injector.push(Piece {
                        group: index,
                        positions,
                    });
                }
                let deque = Worker::new_lifo();
                stealers.push(deque.stealer());
                deques.push(Mutex::new(Some(deque)));
            }
            groups.push(Queue {
                injector,
                left: AtomicU64::new(group.sections()),
            });
        }
        Box::new(Deques {
            work,
            across_nodes: self.across_nodes,
            deques,
            stealers,
            groups,
            steals: AtomicU64::new(0),
            cross_node_steals: AtomicU64::new(0),
            cross_node_sections: AtomicU64::new(0),
        })
    }
}

struct Queue {
    injector: Injector<Piece>,
    // sections of the group that nobody has taken to do them
    left: AtomicU64,
}

struct Deques<'w> {
    work: &'w Work<'w>,
    across_nodes: bool,
    deques: Vec<Mutex<Option<Worker<Piece>>>>,
    stealers: Vec<Stealer<Piece>>,
    groups: Vec<Queue>,
    steals: AtomicU64,
    cross_node_steals: AtomicU64,
    cross_node_sections: AtomicU64,
}

impl Source for Deques<'_> {
    fn hand(&self, worker: usize) -> Box<dyn Hand + '_> {
        let own = self.deques.get(worker).and_then(|slot| {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.take()
        });
        Box::new(Thief {
            source: self,
            worker,
            group: self.work.group_of(worker).unwrap_or_default(),
            own: own.unwrap_or_else(Worker::new_lifo),
            neighbours: OnceCell::new(),
        })
    }

    fn tally(&self) -> Tally {
        // Relaxed: read after all workers are done
        Tally {
            steals: self.steals.load(Ordering::Relaxed),
            cross_node_steals: self.cross_node_steals.load(Ordering::Relaxed),
            cross_node_sections: self.cross_node_sections.load(Ordering::Relaxed),
        }
    }
}

struct Thief<'s> {
    source: &'s Deques<'s>,
    worker: usize,
    group: usize,
    own: Worker<Piece>,
    // asked for by who goes abroad
    neighbours: OnceCell<Vec<usize>>,
}

impl Hand for Thief<'_> {
    fn next(&mut self) -> Next {
        let found = self
            .own
            .pop()
            .or_else(|| self.at_home())
            .or_else(|| self.abroad());
        match found {
            Some(piece) => Next::Piece(self.take(piece)),
            None if self.all_taken() => Next::Done,
            None => Next::Wait,
        }
    }
}

impl Thief<'_> {
    /// Keeps a grain of the piece, puts the rest where others find it.
    fn take(&self, mut piece: Piece) -> Piece {
        let grain = self.source.work.grain();
        while piece.len() > grain {
            let half = (piece.len() / 2)
                .next_multiple_of(grain)
                .min(piece.len() - 1);
            if half == 0 {
                break;
            }
            let front = split_front(&mut piece, half);
            let back = std::mem::replace(&mut piece, front);
            self.own.push(back);
        }
        if let Some(queue) = self.source.groups.get(piece.group) {
            // Relaxed: it only tells when to stop looking; the pieces themselves are handed over by
            // the deques
            queue.left.fetch_sub(piece.len(), Ordering::Relaxed);
        }
        piece
    }

    /// From the node's injector, then from its other workers.
    fn at_home(&self) -> Option<Piece> {
        self.injected(self.group).or_else(|| {
            let piece = self.stolen(self.group)?;
            // Relaxed: a count
            self.source.steals.fetch_add(1, Ordering::Relaxed);
            Some(piece)
        })
    }

    /// From other nodes, nearest first.
    fn abroad(&self) -> Option<Piece> {
        if !self.source.across_nodes {
            return None;
        }
        let work = self.source.work;
        let neighbours = self.neighbours.get_or_init(|| work.neighbours(self.group));
        let piece = neighbours
            .iter()
            .find_map(|group| self.injected(*group).or_else(|| self.stolen(*group)))?;
        // Relaxed: counts
        self.source
            .cross_node_steals
            .fetch_add(1, Ordering::Relaxed);
        self.source
            .cross_node_sections
            .fetch_add(piece.len(), Ordering::Relaxed);
        Some(piece)
    }

    fn injected(&self, group: usize) -> Option<Piece> {
        let queue = self.source.groups.get(group)?;
        certain(|| queue.injector.steal())
    }

    fn stolen(&self, group: usize) -> Option<Piece> {
        let workers = self.source.work.groups().get(group)?.workers.clone();
        // everyone starts at another victim: the one after itself
        let turn = self.worker.saturating_sub(workers.start) + 1;
        (0..workers.len())
            .map(|step| workers.start + (turn + step) % workers.len())
            .filter(|victim| *victim != self.worker)
            .find_map(|victim| certain(|| self.source.stealers[victim].steal()))
    }

    fn all_taken(&self) -> bool {
        // Relaxed: a stale value makes us look once more
        let taken = |queue: &Queue| queue.left.load(Ordering::Relaxed) == 0;
        match self.source.across_nodes {
            true => self.source.groups.iter().all(taken),
            false => self.source.groups.get(self.group).is_none_or(taken),
        }
    }
}

/// Asks again as long as another thread was in the way.
fn certain(ask: impl Fn() -> Steal<Piece>) -> Option<Piece> {
    loop {
        match ask() {
            Steal::Success(piece) => return Some(piece),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}
