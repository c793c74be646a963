//! One start for all: nobody runs before everybody is there.

use std::sync::{Barrier, OnceLock};
use std::time::Instant;

/// The barrier that all workers of a crew pass before the clock starts.
#[derive(Debug)]
pub struct Start {
    barrier: Barrier,
    clock: OnceLock<Instant>,
}

impl Start {
    /// For so many workers.
    pub fn new(workers: usize) -> Self {
        Self {
            barrier: Barrier::new(workers),
            clock: OnceLock::new(),
        }
    }

    /// Waits for all workers; gives the moment at which the first of them went on.
    pub fn wait(&self) -> Instant {
        self.barrier.wait();
        *self.clock.get_or_init(Instant::now)
    }

    /// That moment, where it has come.
    pub fn started(&self) -> Option<Instant> {
        self.clock.get().copied()
    }
}
