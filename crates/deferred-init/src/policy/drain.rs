//! Sections written in the background, ahead of those who ask.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use sys::SysError;

use super::lazy::{Lazy, LazyError, LazyPages, Step};
use crate::Topology;
use crate::engine::{CancelToken, panic_message};
use crate::workers::{ChooseError, Crew, CrewError, Traced, WorkerChoice, choose};

/// Why there is no drain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DrainError {
    /// The wishes for workers cannot be met.
    #[error(transparent)]
    Choose(#[from] ChooseError),
    /// The workers could not be started or pinned.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// The thread that waits for them could not be started.
    #[error("the drain could not be started: {0}")]
    Spawn(#[from] SysError),
}

/// What a drain did, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct DrainReport {
    /// Sections that it wrote.
    pub sections: u64,
    /// Whether it was stopped before nothing was pending any more.
    pub cancelled: bool,
    /// The first section for which there was no memory, or whose claim was lost.
    pub failed: Option<LazyError>,
    /// What the first worker that panicked said; its section is pending again.
    pub panicked: Option<String>,
}

impl DrainReport {
    /// Whether nothing was left to write.
    pub fn is_complete(&self) -> bool {
        !self.cancelled && self.failed.is_none() && self.panicked.is_none()
    }

    fn add(&mut self, other: Self) {
        self.sections += other.sections;
        self.cancelled |= other.cancelled;
        self.failed = self.failed.take().or(other.failed);
        self.panicked = self.panicked.take().or(other.panicked);
    }
}

impl fmt::Display for DrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sections drained", self.sections)?;
        if self.cancelled {
            f.write_str(", then cancelled")?;
        }
        if let Some(error) = &self.failed {
            write!(f, ", then failed: {error}")?;
        }
        if let Some(message) = &self.panicked {
            write!(f, ", then panicked: {message}")?;
        }
        Ok(())
    }
}

/// Workers that write sections of a [`Lazy`] map as its watermark asks for them, each those of its own
/// node first.
///
/// A drain that is dropped stops at the next section. One whose worker panics or finds no memory stops
/// as a whole; those who ask write for themselves then, and another drain may be started.
#[derive(Debug)]
pub struct Drain {
    cancel: CancelToken,
    wake: Waker,
    thread: Option<JoinHandle<DrainReport>>,
}

/// Wakes the workers of a drain, whatever kind of map theirs is.
struct Waker(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

impl Drain {
    /// Starts workers as wished on the host of `topology`. They go on until nothing is pending, or
    /// until they are stopped.
    ///
    /// # Errors
    /// [`DrainError`], with nothing left running.
    pub fn start<P: LazyPages + 'static>(
        lazy: &Arc<Lazy<P>>,
        topology: &Topology,
        workers: &WorkerChoice,
    ) -> Result<Self, DrainError> {
        let seats = choose(topology, workers)?;
        // its own crew: an engine's would be busy for as long as the drain lives
        let crew = Crew::new(&seats, workers.pinning)?;
        let cancel = CancelToken::new();
        let traced = Traced::here();
        let (mine, token) = (Arc::clone(lazy), cancel.clone());
        let body = move || traced.scope(|| drain(&mine, &crew, &token));
        let thread = sys::spawn("drain", body)?;
        let woken = Arc::clone(lazy);
        Ok(Self {
            cancel,
            wake: Waker(Box::new(move || woken.bell().ring())),
            thread: Some(thread),
        })
    }

    /// Waits until nothing is pending any more. With a watermark other than [`Watermark::ALL`] that
    /// may be never: it takes others to ask.
    ///
    /// [`Watermark::ALL`]: super::Watermark::ALL
    pub fn finish(mut self) -> DrainReport {
        self.join()
    }

    /// Stops it at the next section.
    pub fn stop(mut self) -> DrainReport {
        self.cancel();
        self.join()
    }

    fn cancel(&self) {
        self.cancel.cancel();
        (self.wake.0)();
    }

    fn join(&mut self) -> DrainReport {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(report)) => report,
            Some(Err(payload)) => DrainReport {
                panicked: Some(panic_message(&*payload)),
                ..DrainReport::default()
            },
            None => DrainReport::default(),
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.cancel();
            let _ = self.join();
        }
    }
}

/// All workers until there is nothing to do, or one of them fails.
pub(super) fn drain<P: LazyPages>(
    lazy: &Lazy<P>,
    crew: &Crew,
    cancel: &CancelToken,
) -> DrainReport {
    let total = Mutex::new(DrainReport::default());
    let failed = CancelToken::new();
    crew.each(&|worker| {
        let home = crew.seats().get(worker).map(|seat| seat.node);
        let first = lazy.place_or_first(home.unwrap_or_default());
        let mut own = DrainReport::default();
        let work = || work(lazy, first, [cancel, &failed], &mut own);
        let done = catch_unwind(AssertUnwindSafe(work));
        match done {
            Ok(Ok(())) => {}
            Ok(Err(error)) => own.failed = Some(error),
            Err(payload) => own.panicked = Some(panic_message(&*payload)),
        }
        if !own.is_complete() {
            // the others must not wait for a bell that nobody rings
            failed.cancel();
            lazy.bell().ring();
        }
        lock(&total).add(own);
    });
    lock(&total).clone()
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // what is in it is whole at any time: it is changed by single calls
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One worker.
pub(super) fn work<P: LazyPages>(
    lazy: &Lazy<P>,
    first: usize,
    stop: [&CancelToken; 2],
    report: &mut DrainReport,
) -> Result<(), LazyError> {
    loop {
        // before anything is looked at, so that what changes afterwards is not slept through
        let rung = lazy.bell().rung();
        if stop.iter().any(|stop| stop.is_cancelled()) {
            report.cancelled = true;
            return Ok(());
        }
        match lazy.drain_step(first)? {
            Step::Wrote => report.sections += 1,
            Step::Passed => {}
            Step::Enough => lazy.bell().wait(rung),
            Step::Done => {
                // who waits for more learns that there is none
                lazy.bell().ring();
                return Ok(());
            }
        }
    }
}
