//! One start for all: nobody runs before everybody is there.
//!
//! # Implementation
//! Whoever sleeps wakes up late: on an idle or a virtual CPU tens of microseconds after it was woken,
//! which is a tenth of writing a small map. So workers first spin for the last one, giving way to
//! whoever else wants their CPU, and sleep only where that takes long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a worker spins before it sleeps: longer than it takes to wake up hundreds of others.
const SPIN: Duration = Duration::from_millis(1);

/// Looks for something again and again for a short time, giving way to other threads.
pub(super) fn spin<T>(look: impl Fn() -> Option<T>) -> Option<T> {
    const LOOKS: usize = 64;
    let began = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if let Some(found) = look() {
                return Some(found);
            }
            std::hint::spin_loop();
        }
        if began.elapsed() > SPIN {
            return None;
        }
        std::thread::yield_now();
    }
}

/// The barrier that all workers of a crew pass before the clock starts.
#[derive(Debug)]
pub struct Start {
    workers: usize,
    arrived: AtomicUsize,
    clock: OnceLock<Instant>,
    // how many sleep
    sleepers: Mutex<usize>,
    started: Condvar,
}

impl Start {
    /// For so many workers.
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            arrived: AtomicUsize::new(0),
            clock: OnceLock::new(),
            sleepers: Mutex::new(0),
            started: Condvar::new(),
        }
    }

    /// Waits for all workers; gives the moment at which the last of them came.
    pub fn wait(&self) -> Instant {
        // AcqRel: the last one comes after what all others did before, and by the clock (a Release
        // that all others acquire) all of them come after that
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.workers {
            let now = *self.clock.get_or_init(Instant::now);
            let sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
            if *sleepers > 0 {
                self.started.notify_all();
            }
            return now;
        }
        spin(|| self.started()).unwrap_or_else(|| self.sleep())
    }

    fn sleep(&self) -> Instant {
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        *sleepers += 1;
        loop {
            // looked at under the lock that the last one takes after it set the clock
            if let Some(now) = self.started() {
                return now;
            }
            sleepers = self
                .started
                .wait(sleepers)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// That moment, where it has come.
    pub fn started(&self) -> Option<Instant> {
        self.clock.get().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_sleeps_is_woken_and_all_see_the_same_moment() {
        // longer than anybody spins: the first ones sleep, whatever the machine is busy with
        let start = Start::new(3);
        let asleep = || *start.sleepers.lock().unwrap();
        let moments = std::thread::scope(|scope| {
            let first = [scope.spawn(|| start.wait()), scope.spawn(|| start.wait())];
            while asleep() < 2 {
                std::thread::yield_now();
            }
            assert_eq!(start.started(), None);
            let last = start.wait();
            let [a, b] = first.map(|thread| thread.join().unwrap());
            [a, b, last]
        });
        assert_eq!(moments, [start.started().unwrap(); 3]);
        // who comes later need not wait
        assert_eq!(start.wait(), moments[0]);
    }

    #[test]
    fn nobody_goes_on_before_the_last_one_is_there() {
        for workers in [1, 2, 7] {
            let start = Start::new(workers);
            let there = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..workers {
                    scope.spawn(|| {
                        there.fetch_add(1, Ordering::Relaxed);
                        start.wait();
                        assert_eq!(there.load(Ordering::Relaxed), workers);
                    });
                }
            });
        }
    }
}
