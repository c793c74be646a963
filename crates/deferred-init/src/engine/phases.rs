//! The phases in which workers take part: fault, then write.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam::utils::CachePadded;
use memblock::NodeId;
use memmap_core::BackingChoice;
use tracing::{Span, field, info_span, warn};

use super::piece::{InHand, Log};
use super::report::{NodeReport, Outcome, Phases, Report, Volume, WorkerReport};
use super::target::Target;
use super::{FaultPhase, PlacementReport, RunOptions, SpanDetail};
use crate::plan::{Piece, Work};
use crate::schedule::{Flow, Scheduler, Static, Tally};
use crate::workers::{Crew, Seat, Start};

/// Faults and writes all of `work`.
///
/// With `spare`, some CPU has no worker: the caller may be woken while they still write. Elsewhere it
/// would take a worker's CPU away.
pub(super) fn run(
    target: &dyn Target,
    crew: &Crew,
    work: &Work<'_>,
    options: &RunOptions<'_>,
    spare: bool,
) -> Report {
    let run_span = match options.spans {
        SpanDetail::Off => Span::none(),
        SpanDetail::Auto | SpanDetail::EverySection => info_span!(
            "run",
            writer = options.writer.name(),
            scheduler = options.scheduler.name(),
            workers = crew.seats().len(),
            sections = work.sections(),
            bytes = work.sections() * work.shape().bytes,
            ns = field::Empty,
        ),
    };
    if let Some(BackingChoice::HeapInstead(why)) = target.backing() {
        warn!(%why, "struct pages lie on the heap, where no page can be placed");
    }
    let run = Run {
        target,
        crew,
        work,
        options,
        nodes: nodes(work, &run_span, options.spans),
        logs: crew
            .seats()
            .iter()
            .enumerate()
            .map(|(worker, _)| {
                let to_go = if spare { work.fair_share(worker) } else { 0 };
                CachePadded::new(Mutex::new(Log::new(to_go)))
            })
            .collect(),
        end: Mutex::new(None),
    };
    let fault = match options.fault {
        FaultPhase::Before => run.fault(),
        FaultPhase::WhileWriting => Duration::ZERO,
    };
    // memory that is short, or a cancelled run, ends it before anything is written
    let ended = run.ended().is_some();
    let (write, tally) = match ended {
        true => (Duration::ZERO, Tally::default()),
        false => run.write(),
    };
    run_span.record("ns", nanos(write));
    run.report(fault, write, tally)
}

/// A node whose sections are written, with its span.
pub(super) struct NodeRun {
    pub(super) node: NodeId,
    served_by: NodeId,
    pub(super) span: Span,
}

fn nodes(work: &Work<'_>, run_span: &Span, spans: SpanDetail) -> Vec<NodeRun> {
    let mut nodes: Vec<NodeRun> = work
        .groups()
        .iter()
        .flat_map(|group| group.serves.iter().map(move |node| (group, *node)))
        .map(|(group, node)| NodeRun {
            node,
            served_by: group.node,
            span: match spans {
                SpanDetail::Off => Span::none(),
                SpanDetail::Auto | SpanDetail::EverySection => info_span!(
                    parent: run_span,
                    "node",
                    node = node.get(),
                    served_by = group.node.get(),
                    workers = group.workers.len(),
                    sections = field::Empty,
                    bytes = field::Empty,
                    ns = field::Empty,
                ),
            },
        })
        .collect();
    nodes.sort_by_key(|node| node.node);
    nodes
}

/// A run in its phases.
pub(super) struct Run<'a> {
    pub(super) target: &'a dyn Target,
    pub(super) crew: &'a Crew,
    pub(super) work: &'a Work<'a>,
    pub(super) options: &'a RunOptions<'a>,
    pub(super) nodes: Vec<NodeRun>,
    // padded, so that no worker waits for the line of another
    logs: Vec<CachePadded<Mutex<Log>>>,
    // why workers stop early; the first reason stays
    end: Mutex<Option<Outcome>>,
}

impl Run<'_> {
    fn ended(&self) -> MutexGuard<'_, Option<Outcome>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end(&self, why: Outcome) -> Flow {
        self.ended().get_or_insert(why);
        Flow::Stop
    }

    pub(super) fn seat(&self, worker: usize) -> Option<Seat> {
        self.crew.seats().get(worker).copied()
    }

    /// Puts pages behind all sections, each by a worker of the group that serves it.
    fn fault(&self) -> Duration {
        let start = Start::new(self.work.workers());
        Static.run(self.crew, self.work, &start, &|worker, piece| {
            if self.options.cancel.is_cancelled() {
                return self.end(Outcome::Cancelled);
            }
            for shard in self.work.shards(&piece) {
                let populated = self.target.populate(shard.sections.clone());
                if let (Err(error), Some(seat)) = (populated, self.seat(worker)) {
                    return self.end(Outcome::NoMemory { seat, error });
                }
            }
            Flow::Continue
        });
        start
            .started()
            .map_or(Duration::ZERO, |began| began.elapsed())
    }

    fn write(&self) -> (Duration, Tally) {
        let start = Start::new(self.work.workers());
        let stop = AtomicBool::new(false);
        let visit = |worker: usize, piece: Piece| {
            let mut log = lock(&self.logs[worker]);
            let mut hand = InHand::default();
            // once a piece: what a panic finds in hand is logged, and nothing more is done
            let flow = catch_unwind(AssertUnwindSafe(|| {
                self.piece(worker, &piece, &start, &stop, &mut log, &mut hand)
            }));
            let flow = flow.unwrap_or_else(|payload| {
                // who is told of its span may panic, too, but has no second chance
                let mut close = || self.close(worker, &mut hand, &mut log);
                while catch_unwind(AssertUnwindSafe(&mut close)).is_err() {}
                self.panicked(worker, hand.section, &*payload)
            });
            if flow == Flow::Stop {
                stop.store(true, Ordering::Relaxed);
            }
            flow
        };
        let tally = self
            .options
            .scheduler
            .run(self.crew, self.work, &start, &visit);
        let last = self.logs.iter().map(|log| lock(log).end_ns).max();
        (Duration::from_nanos(last.unwrap_or(0)), tally)
    }

    fn panicked(&self, worker: usize, section: u64, payload: &(dyn Any + Send)) -> Flow {
        let seat = self.seat(worker).unwrap_or(self.crew.seats()[0]);
        self.end(Outcome::Panicked {
            seat,
            section,
            message: panic_message(payload),
        })
    }

    fn report(self, fault: Duration, write: Duration, tally: Tally) -> Report {
        let mut nodes: Vec<NodeReport> = self
            .nodes
            .iter()
            .map(|node| NodeReport {
                node: node.node,
                served_by: node.served_by,
                volume: Volume::default(),
                end_ns: 0,
            })
            .collect();
        let mut workers = Vec::new();
        let mut records = Vec::new();
        let mut free = Vec::new();
        let mut skipped = 0;
        for (seat, log) in self.crew.seats().iter().zip(&self.logs) {
            let mut log = lock(log);
            log.end();
            let mut volume = Volume::default();
            for (node, (part, end_ns)) in nodes.iter_mut().zip(&log.nodes) {
                node.volume.add(part);
                node.end_ns = node.end_ns.max(*end_ns);
                volume.add(part);
            }
            workers.push(WorkerReport {
                seat: *seat,
                volume,
                end_ns: log.end_ns,
            });
            records.append(&mut log.records);
            free.append(&mut log.free);
            skipped += log.skipped;
        }
        for (node, run) in nodes.iter().zip(&self.nodes) {
            run.span.record("sections", node.volume.sections);
            run.span.record("bytes", node.volume.bytes);
            run.span.record("ns", node.end_ns);
        }
        records.sort_unstable_by_key(|record| record.section);
        free.sort_unstable_by_key(|free| free.section);
        let outcome = self.ended().take().unwrap_or(Outcome::Complete);
        Report {
            outcome,
            writer: self.options.writer.name(),
            scheduler: self.options.scheduler.name(),
            planned: self.work.sections(),
            skipped,
            phases: Phases {
                map: Duration::ZERO,
                fault,
                write,
                join: Duration::ZERO,
            },
            workers,
            nodes,
            records,
            free,
            tally,
            unpinned: self.crew.unpinned().to_vec(),
            backing: self.target.backing().cloned(),
            placement: PlacementReport::default(),
        }
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    // a log is whole at any time: what can panic is done before it is changed
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What a panic said.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
