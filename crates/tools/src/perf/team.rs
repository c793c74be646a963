//! Pinned workers that run one contestant at a time together.
//!
//! Workers are spawned and pinned before the first measurement. A measurement sends every worker
//! the contestant's number; each of them fetches its next window, meets the others at a barrier
//! that spins, and only then reads the clock. The time is that from the first start to the last
//! end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::PerfError;
use super::arena::Ring;
use super::contestants::Contestant;

/// Workers that wait for the number of a contestant.
pub(super) struct Team {
    orders: Vec<Sender<usize>>,
    times: Receiver<(Instant, Instant)>,
}

impl Team {
    /// Runs one contestant on every worker's next window and returns the nanoseconds it took, or
    /// `None` where a worker is gone.
    pub(super) fn measure(&mut self, contestant: usize) -> Option<f64> {
        for order in &self.orders {
            order.send(contestant).ok()?;
        }
        let (mut first, mut last) = self.times.recv().ok()?;
        for _ in 1..self.orders.len() {
            let (start, end) = self.times.recv().ok()?;
            first = first.min(start);
            last = last.max(end);
        }
        Some(last.duration_since(first).as_nanos() as f64)
    }
}

/// Spawns a worker per CPU and ring, pins it, and lets `body` measure with them.
pub(super) fn with_team<T>(
    cpus: &[usize],
    rings: Vec<Ring<'_>>,
    contestants: &[Contestant],
    body: impl FnOnce(&mut Team) -> T,
) -> Result<T, PerfError> {
    let gate = Gate::new(cpus.len());
    std::thread::scope(|scope| {
        let (report, times) = channel();
        let (ready, pinned) = channel();
        let mut orders = Vec::new();
        for (&cpu, mut ring) in cpus.iter().zip(rings) {
            let (order, inbox) = channel::<usize>();
            orders.push(order);
            let (report, ready, gate) = (report.clone(), ready.clone(), &gate);
            scope.spawn(move || {
                let mut mask = vec![0_u64; cpu / 64 + 1];
                mask[cpu / 64] = 1 << (cpu % 64);
                let pinned = sys::set_affinity(&mask);
                let fine = pinned.is_ok();
                if ready.send(pinned).is_err() || !fine {
                    return;
                }
                while let Ok(contestant) = inbox.recv() {
                    let Some(window) = ring.pop_front() else {
                        return;
                    };
                    gate.wait();
                    let start = Instant::now();
                    contestants[contestant].run(window);
                    let end = Instant::now();
                    ring.push_back(window);
                    if report.send((start, end)).is_err() {
                        return;
                    }
                }
            });
        }
        drop((report, ready));
        for _ in cpus {
            pinned.recv().map_err(|_| PerfError::WorkerLost)??;
        }
        Ok(body(&mut Team { orders, times }))
    })
}

/// A barrier that spins: a sleeping thread would start tens of microseconds late.
struct Gate {
    threads: usize,
    arrived: AtomicUsize,
}

impl Gate {
    fn new(threads: usize) -> Self {
        let arrived = AtomicUsize::new(0);
        Self { threads, arrived }
    }

    /// Returns when every worker has called it as often as this one.
    fn wait(&self) {
        // Relaxed: the barrier orders nothing but time.
        let before = self.arrived.fetch_add(1, Ordering::Relaxed);
        let needed = (before / self.threads + 1) * self.threads;
        let mut turns = 0_u32;
        while self.arrived.load(Ordering::Relaxed) < needed {
            turns += 1;
            if turns.is_multiple_of(1 << 14) {
                // somebody else may have to run on this CPU before the last one can arrive
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }
}
