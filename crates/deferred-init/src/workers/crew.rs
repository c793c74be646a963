//! Pinned threads, kept between runs.
//!
//! # Implementation
//! A crew is a rayon pool a node, never one over nodes: a pool's threads steal from each other, and
//! what a node's memory needs done should be done by that node. Schedulers that hand out work
//! themselves use the same threads by broadcasting one task to each. Threads come from
//! [`sys::spawn`], are pinned before they join their pool, and are joined when the crew is dropped.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use memblock::NodeId;
use rayon::{ThreadPool, ThreadPoolBuilder};
use sys::SysError;
use tracing::dispatcher::{self, Dispatch};
use tracing::subscriber::NoSubscriber;

use super::start::spin;
use super::{Pinning, Seat, pin};

/// Why there is no crew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CrewError {
    /// There are no seats.
    #[error("a crew needs at least one worker")]
    NoSeats,
    /// A thread could not be created.
    #[error("worker {seat} could not be started: {source}")]
    Spawn {
        /// The worker.
        seat: Seat,
        /// What the system said.
        source: SysError,
    },
    /// A worker could not be pinned, and had to be.
    #[error(transparent)]
    Pin(#[from] PinFailure),
    /// A pool could not be built for a reason that is not the system's.
    #[error("the pool of node {node} could not be built")]
    Pool {
        /// The node.
        node: NodeId,
    },
}

/// A worker that is not on its CPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("worker {seat} could not be pinned to CPU {}: {source}", seat.cpu)]
pub struct PinFailure {
    /// The worker.
    pub seat: Seat,
    /// What the system said.
    pub source: SysError,
}

struct Group {
    node: NodeId,
    // index of the first of its workers
    first: usize,
    count: usize,
    pool: ThreadPool,
}

/// Where the spans of a thread go, for others to send theirs there too.
#[derive(Debug)]
pub(crate) struct Traced(Option<Dispatch>);

impl Traced {
    /// As this thread does.
    pub(crate) fn here() -> Self {
        let dispatch = dispatcher::get_default(Dispatch::clone);
        // without a subscriber nothing is set: a thread's own one makes every span look for it
        Self((!dispatch.is::<NoSubscriber>()).then_some(dispatch))
    }

    /// Does `work` with spans going there.
    pub(crate) fn scope<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(dispatch) => dispatcher::with_default(dispatch, work),
            None => work(),
        }
    }
}

/// Workers on their seats.
pub struct Crew {
    seats: Vec<Seat>,
    // dropped by hand: pools first, so that their threads end, then the threads are joined
    groups: Vec<Group>,
    threads: Vec<JoinHandle<()>>,
    unpinned: Vec<PinFailure>,
    pinned: bool,
    busy: Mutex<()>,
    end: End,
}

impl Crew {
    /// Spawns and pins a worker a seat; returns when all are on their CPUs.
    ///
    /// # Errors
    /// [`CrewError`]; all threads that were started have then ended.
    pub fn new(seats: &[Seat], pinning: Pinning) -> Result<Self, CrewError> {
        if seats.is_empty() {
            return Err(CrewError::NoSeats);
        }
        let mut seats = seats.to_vec();
        seats.sort_by_key(|seat| (seat.node, seat.rank));
        let mut crew = Self {
            groups: Vec::new(),
            threads: Vec::new(),
            unpinned: Vec::new(),
            pinned: pinning != Pinning::Off,
            busy: Mutex::new(()),
            end: End::default(),
            seats,
        };
        let (report, reports) = mpsc::channel();
        let mut first = 0;
        while first < crew.seats.len() {
            let node = crew.seats[first].node;
            let count = crew.seats[first..]
                .iter()
                .take_while(|seat| seat.node == node)
                .count();
            let pool = crew.pool(node, first, count, pinning, &report)?;
            crew.groups.push(Group {
                node,
                first,
                count,
                pool,
            });
            first += count;
        }
        drop(report);
        // every worker reports once, before it takes any work
        crew.unpinned = reports.iter().flatten().collect();
        crew.unpinned
            .sort_by_key(|failure: &PinFailure| (failure.seat.node, failure.seat.rank));
        match (pinning, crew.unpinned.first()) {
            (Pinning::Required, Some(failure)) => Err(failure.clone().into()),
            _ => Ok(crew),
        }
    }

    fn pool(
        &mut self,
        node: NodeId,
        first: usize,
        count: usize,
        pinning: Pinning,
        report: &mpsc::Sender<Option<PinFailure>>,
    ) -> Result<ThreadPool, CrewError> {
        let (seats, threads) = (&self.seats, &mut self.threads);
        let mut refused = None;
        let pool = ThreadPoolBuilder::new()
            .num_threads(count)
            .spawn_handler(|thread| {
                let seat = seats[first + thread.index()];
                let report = report.clone();
                let body = move || {
                    let failure = match pinning {
                        Pinning::Off => None,
                        _ => pin::pin(seat.cpu).err(),
                    };
                    // nobody listens any more where another worker failed to start
                    let _ = report.send(failure.map(|source| PinFailure { seat, source }));
                    drop(report);
                    thread.run();
                };
                match sys::spawn(&seat.to_string(), body) {
                    Ok(handle) => threads.push(handle),
                    Err(source) => {
                        refused = Some(CrewError::Spawn { seat, source });
                        return Err(std::io::ErrorKind::Other.into());
                    }
                }
                Ok(())
            })
            .build();
        pool.map_err(|_| refused.unwrap_or(CrewError::Pool { node }))
    }

    /// Its workers, sorted by node and rank; a worker's index is its place here.
    pub fn seats(&self) -> &[Seat] {
        &self.seats
    }

    /// Workers that are not on their CPUs.
    pub fn unpinned(&self) -> &[PinFailure] {
        &self.unpinned
    }

    /// Whether pinning was asked for.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Its nodes in ascending order, each with the indices of its workers.
    pub fn groups(&self) -> impl Iterator<Item = (NodeId, std::ops::Range<usize>)> + '_ {
        self.groups
            .iter()
            .map(|group| (group.node, group.first..group.first + group.count))
    }

    /// The rayon pool of the n-th group; its thread `k` is the group's `k`-th worker.
    pub fn node_pool(&self, group: usize) -> Option<&ThreadPool> {
        self.groups.get(group).map(|group| &group.pool)
    }

    /// Calls `task` once on every worker, all at the same time, with the worker's index; returns
    /// when all have returned.
    ///
    /// One caller at a time: tasks that wait for each other must never be mixed with other ones. What
    /// a task traces goes where the caller's thread would send it.
    ///
    /// # Panics
    /// Where `task` panicked on a worker, after all have returned.
    pub fn each(&self, task: &(dyn Fn(usize) + Sync)) {
        let _alone = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let traced = Traced::here();
        self.end.begin(self.seats.len());
        let task = |worker| {
            // also where the task panics
            let _done = self.end.guard();
            traced.scope(|| task(worker));
        };
        nest(&self.groups, &task, &|| self.end.wait());
    }

    /// Says, on a worker, that the tasks of [`each`](Self::each) will soon be done, so that its caller
    /// is awake by then. Calling it too early, never, or where every CPU has a worker costs time, nothing
    /// else.
    pub fn soon(&self) {
        self.end.soon();
    }

    /// Runs `body` with a scope of every group's pool open; returns when all that it spawned is done.
    ///
    /// # Panics
    /// Where a spawned task panicked, after all have returned.
    pub fn scopes<'scope>(&self, body: &dyn Fn(usize, &rayon::Scope<'scope>)) {
        let _alone = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        open(&self.groups, 0, body);
    }
}

/// The end of what all workers do together, seen by who waits for it.
///
/// The scopes of the pools say when everything is over, but who sleeps until then loses the time that
/// waking up takes: on an idle or a virtual CPU as long as writing some hundred kilobytes. So the caller
/// is woken a little earlier, and spins for the rest.
#[derive(Default)]
struct End {
    // workers at work
    left: AtomicUsize,
    soon: AtomicBool,
    sleeper: Mutex<()>,
    bell: Condvar,
}

impl End {
    // One caller at a time, and the broadcast orders this before what workers do: Relaxed.
    fn begin(&self, workers: usize) {
        self.left.store(workers, Ordering::Relaxed);
        self.soon.store(false, Ordering::Relaxed);
    }

    fn soon(&self) {
        // Relaxed: nothing is read that this would have to come before
        if !self.soon.swap(true, Ordering::Relaxed) {
            // taken after the flag is set: the caller sees it, or sleeps already and hears the bell
            drop(self.sleeper.lock().unwrap_or_else(PoisonError::into_inner));
            self.bell.notify_all();
        }
    }

    fn guard(&self) -> impl Drop {
        struct Done<'a>(&'a End);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.left.fetch_sub(1, Ordering::Relaxed);
                self.0.soon();
            }
        }
        Done(self)
    }

    /// Sleeps until the end is near, then spins until it is there, or for long enough.
    fn wait(&self) {
        let mut asleep = self.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.soon.load(Ordering::Relaxed) {
            asleep = self
                .bell
                .wait(asleep)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(asleep);
        let done = spin(|| (self.left.load(Ordering::Relaxed) == 0).then_some(()));
        if done.is_some() {
            // what a pool has to do after a task: it must not find us asleep
            for _ in 0..AFTERMATH {
                std::hint::spin_loop();
            }
        }
    }
}

/// Turns of a spin loop, about a microsecond's.
const AFTERMATH: usize = 32;

/// Broadcasts into one pool after the other without waiting, then waits for all: first as `wait` does,
/// then for the pools.
fn nest(groups: &[Group], task: &(dyn Fn(usize) + Sync), wait: &dyn Fn()) {
    let Some((group, rest)) = groups.split_first() else {
        return wait();
    };
    group.pool.in_place_scope(|scope| {
        scope.spawn_broadcast(|_, context| task(group.first + context.index()));
        nest(rest, task, wait);
    });
}

fn open<'scope>(groups: &[Group], at: usize, body: &dyn Fn(usize, &rayon::Scope<'scope>)) {
    let Some(group) = groups.get(at) else { return };
    group.pool.in_place_scope(|scope| {
        body(at, scope);
        open(groups, at + 1, body);
    });
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.groups.clear();
        for thread in self.threads.drain(..) {
            // a worker's panic was reported where it happened
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew")
            .field("seats", &self.seats)
            .field("unpinned", &self.unpinned)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::Start;
    use sys::seam::Faults;
    use sys::{Call, Errno};

    fn seats(nodes: &[(u16, u32)]) -> Vec<Seat> {
        nodes
            .iter()
            .flat_map(|&(node, count)| {
                (0..count).map(move |rank| Seat {
                    node: NodeId::new(node),
                    rank,
                    cpu: 0,
                })
            })
            .collect()
    }

    #[test]
    fn every_worker_is_called_once_and_knows_its_name() {
        let crew = Crew::new(&seats(&[(0, 2), (4, 3)]), Pinning::Off).unwrap();
        let names = Mutex::new(Vec::new());
        let start = Start::new(5);
        crew.each(&|worker| {
            start.wait();
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            names.lock().unwrap().push((worker, name));
        });
        let mut names = names.into_inner().unwrap();
        names.sort();
        let names: Vec<_> = names.into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["n0/w0", "n0/w1", "n4/w0", "n4/w1", "n4/w2"]);
    }

    #[test]
    fn pinned_workers_are_on_their_cpu() {
        let host = crate::Topology::host().unwrap();
        let cpu = host.allowed_cpus.last().unwrap();
        let seat = Seat {
            node: NodeId::new(0),
            rank: 0,
            cpu,
        };
        let crew = Crew::new(&[seat], Pinning::Required).unwrap();
        let seen = Mutex::new(None);
        crew.each(&|_| *seen.lock().unwrap() = Some(sys::current_cpu().unwrap().0));
        assert_eq!(seen.into_inner().unwrap(), Some(cpu));
    }

    #[test]
    fn a_refused_pin_is_fatal_or_reported_as_asked() {
        let faults = Faults::new().fail_from(Call::SchedSetaffinity, 1, 1);
        let _scope = faults.enter();
        let error = Crew::new(&seats(&[(0, 2)]), Pinning::Required).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("n0/w0 could not be pinned to CPU 0"),
            "{error}"
        );
        let crew = Crew::new(&seats(&[(0, 2)]), Pinning::BestEffort).unwrap();
        assert_eq!(crew.unpinned().len(), 2);
        assert_eq!(crew.unpinned()[0].source.errno(), Some(Errno(1)));
    }

    #[test]
    fn a_thread_that_cannot_be_started_leaves_none_behind() {
        let count = || {
            std::fs::read_dir("/proc/self/task")
                .unwrap()
                .flatten()
                .filter(|task| {
                    std::fs::read_to_string(task.path().join("comm"))
                        .is_ok_and(|name| name.starts_with("n77/"))
                })
                .count()
        };
        for nth in 1..=4 {
            let faults = Faults::new().fail(Call::Spawn, nth, 11);
            let _scope = faults.enter();
            let error = Crew::new(&seats(&[(77, 2), (78, 2)]), Pinning::Off).unwrap_err();
            assert!(matches!(error, CrewError::Spawn { .. }), "{error}");
            assert_eq!(count(), 0, "threads of the crew whose spawn {nth} failed");
        }
    }

    #[test]
    fn a_worker_that_panics_lets_the_others_finish() {
        let crew = Crew::new(&seats(&[(0, 3)]), Pinning::Off).unwrap();
        let done = AtomicUsize::new(0);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            crew.each(&|worker| {
                assert_ne!(worker, 1, "on purpose");
                done.fetch_add(1, Ordering::Relaxed);
            });
        }));
        assert!(outcome.is_err());
        assert_eq!(done.load(Ordering::Relaxed), 2);
        crew.each(&|_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.load(Ordering::Relaxed), 5, "the crew is usable again");
    }

    #[test]
    fn whoever_says_soon_too_early_or_too_often_is_waited_for_all_the_same() {
        let crew = Crew::new(&seats(&[(0, 2), (1, 1)]), Pinning::Off).unwrap();
        for early in 0..3 {
            let done = AtomicUsize::new(0);
            crew.each(&|worker| {
                if worker == early {
                    crew.soon();
                    crew.soon();
                    // longer than the caller spins
                    std::thread::sleep(std::time::Duration::from_millis(3));
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(done.into_inner(), 3);
        }
    }
}
