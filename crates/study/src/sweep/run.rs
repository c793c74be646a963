//! The rounds of a sweep.

use std::time::{Duration, Instant};

use deferred_init::Topology;
use deferred_init::engine::{CancelToken, Engine, EngineError, Outcome, Report, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::workers::WorkerChoice;
use memmap_core::MemoryMap;
use memmap_core::limit::{self, Fill};
use memmap_core::writers::PageWriter;

use super::Design;
use super::limit::LimitWriter;
use crate::judge::orders;
use crate::stats;

/// Rounds that each fill of the limit gets in the warm-up.
const WARM_UP: usize = 3;

/// One contestant.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Pinned workers.
    pub threads: usize,
    /// The page writer, or `None` for the streaming limit.
    pub writer: Option<&'static dyn PageWriter>,
}

/// Where a sweep is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Runs done.
    pub done: usize,
    /// Runs in all; 0 before the number of rounds is known.
    pub of: usize,
}

/// What is told while a sweep goes on.
pub trait Observer {
    /// A run has ended; it was number `place` of `round`. Refusing ends the sweep.
    ///
    /// # Errors
    /// Whatever the observer could not do, such as writing a record.
    fn ran(
        &mut self,
        cell: &Cell,
        round: usize,
        place: usize,
        measured: &Measured,
        report: &Report,
    ) -> Result<(), std::io::Error>;

    /// The sweep is here.
    fn progress(&mut self, progress: Progress) {
        let _ = progress;
    }
}

/// Why a sweep ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The engine refused a run.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A run did not end well.
    #[error("{threads} threads, {writer}: {outcome}")]
    Run {
        /// Workers of the run.
        threads: usize,
        /// Its writer.
        writer: &'static str,
        /// How it ended.
        outcome: Outcome,
    },
    /// The observer refused.
    #[error("the record of a run could not be kept: {0}")]
    Observer(#[from] std::io::Error),
    /// There is nothing to do.
    #[error("a sweep needs at least one number of threads and one writer")]
    Empty,
}

/// The times of a sweep.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Contestants: for each number of threads the limit, then the writers.
    pub cells: Vec<Cell>,
    /// `times[cell][round]`, ns from the start barrier to the last worker's end.
    pub times: Vec<Vec<f64>>,
    /// The fill that is the limit.
    pub limit: &'static Fill,
    /// Whether the map lies in one address range: else first touch and placement are not known.
    pub mapped: bool,
    /// Time of the first touch of all struct pages.
    pub fault: Duration,
    /// Struct pages.
    pub pages: u64,
    /// Bytes of struct pages.
    pub bytes: u64,
    /// The warm-up's report: workers, nodes, placement.
    pub warm_up: Report,
    /// Rounds that were planned; fewer were run where the sweep was cancelled.
    pub planned_rounds: usize,
}

impl Measured {
    /// Rounds in which every contestant ran.
    pub fn rounds(&self) -> usize {
        self.times.iter().map(Vec::len).min().unwrap_or(0)
    }
}

/// Runs a sweep over `map`, which is left unwritten.
///
/// A cancelled sweep ends after the run under way and returns what was measured.
///
/// # Errors
/// [`SweepError`].
pub fn run(
    topology: Topology,
    map: &mut MemoryMap,
    plan: &Plan,
    design: &Design<'_>,
    cancel: &CancelToken,
    observer: &mut dyn Observer,
) -> Result<Measured, SweepError> {
    let (Some(&most), Some(&first)) = (design.threads.iter().max(), design.writers.first()) else {
        return Err(SweepError::Empty);
    };
    let mut runner = Runner {
        engine: Engine::new(topology),
        map,
        plan,
        design,
        cancel,
    };
    let warm_up = runner.warm_up(most, first)?;
    let limit = runner.choose_limit()?;
    let cells = cells(design);
    let mut measured = Measured {
        times: vec![Vec::new(); cells.len()],
        cells,
        limit,
        mapped: runner.map.mapping().is_some(),
        fault: warm_up.phases.fault,
        pages: warm_up.total().pages,
        bytes: warm_up.total().bytes,
        warm_up,
        planned_rounds: 0,
    };
    runner.rounds(&mut measured, observer)?;
    runner.map.reset();
    Ok(measured)
}

fn cells(design: &Design<'_>) -> Vec<Cell> {
    let writers = || std::iter::once(None).chain(design.writers.iter().map(|&writer| Some(writer)));
    design
        .threads
        .iter()
        .flat_map(|&threads| writers().map(move |writer| Cell { threads, writer }))
        .collect()
}

/// What all runs of a sweep share.
struct Runner<'r, 'd> {
    engine: Engine,
    map: &'r mut MemoryMap,
    plan: &'r Plan,
    design: &'r Design<'d>,
    cancel: &'r CancelToken,
}

impl Runner<'_, '_> {
    fn run(
        &mut self,
        threads: usize,
        writer: &dyn PageWriter,
        sample_pages: usize,
    ) -> Result<Option<Report>, SweepError> {
        self.map.reset();
        let mut options = RunOptions::new(writer)
            .scheduler(self.design.scheduler)
            .placement(self.design.placement);
        options.workers = WorkerChoice {
            threads: Some(threads),
            nodes: None,
            spread: self.design.spread,
            oversubscribe: self.design.oversubscribe,
            pinning: self.design.pinning,
        };
        options.huge_pages = self.design.huge_pages;
        options.records = false;
        options.sample_pages = sample_pages;
        options.cancel = self.cancel.clone();
        let report = self.engine.run(self.map, self.plan, &options)?;
        match report.outcome {
            Outcome::Complete => Ok(Some(report)),
            Outcome::Cancelled => Ok(None),
            ref outcome => Err(SweepError::Run {
                threads,
                writer: writer.name(),
                outcome: outcome.clone(),
            }),
        }
    }

    /// The first touch, by all workers; a cancel here has nothing to show.
    fn warm_up(&mut self, threads: usize, writer: &dyn PageWriter) -> Result<Report, SweepError> {
        self.run(threads, writer, 1024)?.ok_or(SweepError::Run {
            threads,
            writer: writer.name(),
            outcome: Outcome::Cancelled,
        })
    }

    /// The fill that is fastest with one thread.
    fn choose_limit(&mut self) -> Result<&'static Fill, SweepError> {
        let mut best = (f64::INFINITY, &limit::fills()[limit::fills().len() - 1]);
        for fill in limit::fills().iter().filter(|fill| fill.is_available()) {
            let mut times = Vec::with_capacity(WARM_UP);
            for _ in 0..WARM_UP {
                if let Some(report) = self.run(1, &LimitWriter(fill), 0)? {
                    times.push(report.phases.write.as_nanos() as f64);
                }
            }
            let time = stats::median(&times).unwrap_or(f64::INFINITY);
            if time < best.0 {
                best = (time, fill);
            }
        }
        Ok(best.1)
    }

    fn rounds(
        &mut self,
        measured: &mut Measured,
        observer: &mut dyn Observer,
    ) -> Result<(), SweepError> {
        let mut done = 0;
        let began = Instant::now();
        let mut planned = 1;
        let mut round = 0;
        let mut orders = orders(self.design.seed, measured.cells.len());
        while round < planned {
            let order = orders.next().unwrap_or_default();
            for (place, &index) in order.iter().enumerate() {
                let cell = measured.cells[index];
                let limit = LimitWriter(measured.limit);
                let writer = cell.writer.unwrap_or(&limit);
                let Some(report) = self.run(cell.threads, writer, 0)? else {
                    return Ok(());
                };
                measured.times[index].push(report.phases.write.as_nanos() as f64);
                observer.ran(&cell, round, place, measured, &report)?;
                done += 1;
                observer.progress(Progress {
                    done,
                    of: if round == 0 { 0 } else { planned * order.len() },
                });
            }
            if round == 0 {
                planned = self.design.rounds.resolve(began.elapsed());
                measured.planned_rounds = planned;
            }
            round += 1;
        }
        Ok(())
    }
}
