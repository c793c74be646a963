//! The measurement of page writers.
//!
//! Everything runs in one process on one populated stretch of memory, in shuffled rounds, and is
//! judged by [`study::judge`]: our writers, the fastest of the streaming fills, and Linux's ways in
//! C. docs/measuring.md says why it is done so and how to read the table.
//!
//! # Implementation
//! Memory of eight times the last-level cache is cut into windows that every thread goes through
//! in a ring, one window a measurement. So a contestant always meets memory that has left the
//! cache since it was written last, all contestants meet all windows, and a round is short enough
//! for both sides of a ratio to see the same weather.

mod arena;
mod contestants;
mod fault;
mod options;
mod report;
mod team;

use memmap_core::limit;
use study::judge::{JudgeError, Rule, Samples};
use sys::SysError;
use thiserror::Error;

use arena::Arena;
use contestants::Contestant;
pub use options::Options;
pub use report::{Check, Interval, Report, Row};

/// Why there is no report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PerfError {
    /// The system refused something.
    #[error(transparent)]
    System(#[from] SysError),
    /// The rule refused something.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// `--threads` asks for what cannot be.
    #[error("--threads {threads}: give 1 to {allowed}, the CPUs that this process may run on")]
    Threads {
        /// What was asked for.
        threads: usize,
        /// CPUs in our affinity mask.
        allowed: usize,
    },
    /// `--pages` asks for less than a measurement needs.
    #[error("--pages {pages} is too few: {threads} threads need {least} pages of {size} bytes")]
    TooFewPages {
        /// What was asked for.
        pages: u64,
        /// The smallest number that works.
        least: u64,
        /// The most threads asked for.
        threads: usize,
        /// Bytes of a struct page.
        size: usize,
    },
    /// The memory is not there.
    #[error(
        "{wanted} MiB of struct pages do not fit the memory available, {available}; --pages {fits} would fit"
    )]
    Memory {
        /// MiB asked for.
        wanted: u64,
        /// What is available, in words.
        available: String,
        /// Pages that would fit.
        fits: u64,
    },
    /// `--size` is not the size of a struct page.
    #[error("--size {size}: a struct page has 56, 64, 72, 80, 88 or 96 bytes")]
    Size {
        /// What was asked for.
        size: usize,
    },
    /// A worker is gone.
    #[error("a worker thread ended before its measurement did")]
    WorkerLost,
}

/// Measures what `options` ask for; `progress` gets a line now and then.
///
/// # Errors
/// Every variant of [`PerfError`], before anything is measured but for `Judge` and `WorkerLost`.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report, PerfError> {
    let plan = options.plan()?;
    for note in &plan.notes {
        progress(note);
    }
    let mut arena = Arena::new(&plan)?;
    progress(&arena.description());
    let mut report = Report::new(arena.description(), plan.notes.clone());
    for &threads in &plan.threads {
        let (best, samples, contestants) = measure(&mut arena, &plan, threads, progress)?;
        progress(&format!("{threads} thread(s): the limit is {best}"));
        report.add(&contestants, &samples, threads, plan.size)?;
    }
    drop(arena);
    if options.fault {
        progress("first touch: fused with writing, and apart");
        fault::measure(&plan, &mut report)?;
    }
    Ok(report)
}

/// One number of threads: warm-up, choice of the limit, and the rounds that count.
fn measure(
    arena: &mut Arena,
    plan: &options::Plan,
    threads: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<(&'static str, Samples, Vec<Contestant>), PerfError> {
    let fills: Vec<Contestant> = limit::fills().iter().map(Contestant::fill).collect();
    let rings = arena.rings(threads);
    let mut lost = false;
    let best = team::with_team(&plan.cpus[..threads], rings, &fills, |team| {
        limit::fastest(plan.warm_up, &mut |fill| {
            let index = limit::fills().iter().position(|f| f.name() == fill.name());
            let time = index.and_then(|index| team.measure(index));
            lost |= time.is_none();
            time.map_or(u64::MAX, |time| time as u64)
        })
    })?;
    if lost {
        return Err(PerfError::WorkerLost);
    }
    let contestants = contestants::all(best, plan.size);
    progress(&format!(
        "{threads} thread(s): {} contestants, {} rounds",
        contestants.len(),
        plan.rounds
    ));
    let rings = arena.rings(threads);
    let rule = Rule {
        rounds: plan.rounds,
        ..Rule::default()
    };
    let samples = team::with_team(&plan.cpus[..threads], rings, &contestants, |team| {
        for contestant in 0..contestants.len() {
            lost |= team.measure(contestant).is_none();
        }
        Samples::collect(&rule, contestants.len(), |contestant, _| {
            let pages = plan.window_pages * threads;
            // a lost worker gives a time that the rule refuses
            team.measure(contestant)
                .map_or(f64::NAN, |time| time / pages as f64)
        })
    })?;
    if lost {
        return Err(PerfError::WorkerLost);
    }
    Ok((best.name(), samples?, contestants))
}
