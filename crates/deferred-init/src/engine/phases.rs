//! The phases in which workers take part: fault, then write.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam::utils::CachePadded;
use memblock::NodeId;
use memmap_core::BackingChoice;
use memmap_core::buddy::SectionFree;
use tracing::{Span, debug_span, field, info_span, warn};

use super::report::{NodeReport, Outcome, Phases, Report, SectionRecord, Volume, WorkerReport};
use super::target::Target;
use super::{FaultPhase, PlacementReport, RunOptions, SpanDetail};
use crate::plan::{Piece, Shard, Work};
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
                CachePadded::new(Mutex::new(Log {
                    to_go: if spare { work.fair_share(worker) } else { 0 },
                    ..Log::default()
                }))
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
struct NodeRun {
    node: NodeId,
    served_by: NodeId,
    span: Span,
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

/// What one worker has done so far; its own, locked only against the report.
///
/// Between two sections a worker finds little in its caches: what it needs there is kept together.
#[derive(Default)]
struct Log {
    current: Option<Current>,
    // sections until it has done as many as others of its group, if all do equally many, and it is
    // time to wake the caller; 0 where it is not to be woken
    to_go: u64,
    skipped: u64,
    end_ns: u64,
    records: Vec<SectionRecord>,
    // of sections that were handed over
    free: Vec<SectionFree>,
    // by the place of the node, but for the current one
    nodes: Vec<(Volume, u64)>,
}

/// The node of the last shard, and what was written for it since the one before it was another's.
struct Current {
    node: NodeId,
    place: usize,
    started: Instant,
    volume: Volume,
    end_ns: u64,
}

impl Log {
    /// Goes on with another node, or with none.
    fn turn_to(&mut self, next: Option<Current>) {
        let Some(last) = std::mem::replace(&mut self.current, next) else {
            return;
        };
        if self.nodes.len() <= last.place {
            self.nodes.resize(last.place + 1, Default::default());
        }
        let (volume, end_ns) = &mut self.nodes[last.place];
        volume.add(&last.volume);
        *end_ns = last.end_ns.max(*end_ns);
    }
}

struct Run<'a> {
    target: &'a dyn Target,
    crew: &'a Crew,
    work: &'a Work<'a>,
    options: &'a RunOptions<'a>,
    nodes: Vec<NodeRun>,
    // padded, so that no worker waits for the line of another
    logs: Vec<CachePadded<Mutex<Log>>>,
    // why workers stop early; the first reason stays
    end: Mutex<Option<Outcome>>,
}

impl Run<'_> {
    fn ended(&self) -> MutexGuard<'_, Option<Outcome>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, why: Outcome) -> Flow {
        self.ended().get_or_insert(why);
        Flow::Stop
    }

    fn seat(&self, worker: usize) -> Option<Seat> {
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
        let stop = std::sync::atomic::AtomicBool::new(false);
        let visit = |worker: usize, piece: Piece| {
            use std::sync::atomic::Ordering;
            let mut log = lock(&self.logs[worker]);
            for shard in self.work.shards(&piece) {
                // Relaxed: a worker that sees it late does one shard more
                if stop.load(Ordering::Relaxed) {
                    return Flow::Stop;
                }
                if (1..=shard.count()).contains(&log.to_go) {
                    self.crew.soon();
                }
                log.to_go = log.to_go.saturating_sub(shard.count());
                let flow = match self.options.cancel.is_cancelled() {
                    true => self.end(Outcome::Cancelled),
                    // a page writer's panic ends in there; this is for anybody's whose code it calls
                    false => catch_unwind(AssertUnwindSafe(|| {
                        self.shard(worker, &shard, &start, &mut log)
                    }))
                    .unwrap_or_else(|payload| {
                        self.panicked(worker, shard.sections.start, &*payload)
                    }),
                };
                if flow == Flow::Stop {
                    stop.store(true, Ordering::Relaxed);
                    return flow;
                }
            }
            Flow::Continue
        };
        let tally = self
            .options
            .scheduler
            .run(self.crew, self.work, &start, &visit);
        let last = self.logs.iter().map(|log| lock(log).end_ns).max();
        (Duration::from_nanos(last.unwrap_or(0)), tally)
    }

    /// Writes a shard and logs it.
    fn shard(&self, worker: usize, shard: &Shard, start: &Start, log: &mut Log) -> Flow {
        if log
            .current
            .as_ref()
            .is_none_or(|own| own.node != shard.node)
        {
            // nodes are sorted, and there may be hundreds
            let place = self
                .nodes
                .binary_search_by_key(&shard.node, |node| node.node);
            let (Ok(place), Some(started)) = (place, start.started()) else {
                return Flow::Continue;
            };
            log.turn_to(Some(Current {
                node: shard.node,
                place,
                started,
                volume: Volume::default(),
                end_ns: 0,
            }));
        }
        let Some((place, started)) = log.current.as_ref().map(|own| (own.place, own.started))
        else {
            return Flow::Continue;
        };
        let span = match self.options.spans {
            SpanDetail::Auto => {
                self.span(place, worker, shard, shard.sections.start, shard.count())
            }
            SpanDetail::EverySection | SpanDetail::Off => Span::none(),
        };
        let began = Instant::now();
        let mut pages = 0;
        let mut written = 0;
        let mut flow = Flow::Continue;
        for section in shard.sections.clone() {
            let one = match self.options.spans {
                SpanDetail::EverySection => self.span(place, worker, shard, section, 1),
                SpanDetail::Auto | SpanDetail::Off => Span::none(),
            };
            let outcome = match one.is_disabled() {
                true => catch_unwind(AssertUnwindSafe(|| {
                    self.target.write(section, self.options.writer)
                })),
                false => {
                    let began = Instant::now();
                    let outcome = catch_unwind(AssertUnwindSafe(|| {
                        self.target.write(section, self.options.writer)
                    }));
                    one.record("ns", nanos(began.elapsed()));
                    outcome
                }
            };
            match outcome {
                Ok(Some(section)) => {
                    pages += section.pages;
                    written += 1;
                    log.free.extend(section.free);
                }
                Ok(None) => log.skipped += 1,
                Err(payload) => {
                    flow = self.panicked(worker, section, &*payload);
                    break;
                }
            }
        }
        let ns = nanos(began.elapsed());
        span.record("ns", ns);
        if written > 0 {
            let began_ns = nanos(began.saturating_duration_since(started));
            self.log(log, worker, shard, (pages, written), (began_ns, ns));
        }
        flow
    }

    fn panicked(&self, worker: usize, section: u64, payload: &(dyn Any + Send)) -> Flow {
        let seat = self.seat(worker).unwrap_or(self.crew.seats()[0]);
        self.end(Outcome::Panicked {
            seat,
            section,
            message: panic_message(payload),
        })
    }

    fn log(
        &self,
        log: &mut Log,
        worker: usize,
        shard: &Shard,
        (pages, written): (u64, u64),
        (began_ns, ns): (u64, u64),
    ) {
        log.end_ns = began_ns + ns;
        if let Some(own) = &mut log.current {
            own.volume.add(&Volume {
                sections: written,
                pages,
                bytes: written * self.work.shape().bytes,
                busy_ns: ns,
                longest_ns: ns,
            });
            own.end_ns = log.end_ns;
        }
        if self.options.records {
            if log.records.is_empty() {
                // at once, and by the worker, whose node's memory it then is
                let share = self.work.fair_share(worker).div_ceil(self.work.grain());
                log.records.reserve(usize::try_from(share).unwrap_or(0));
            }
            log.records.push(SectionRecord {
                section: shard.sections.start,
                count: written as u32,
                worker: worker as u32,
                begin_ns: began_ns,
                ns,
            });
        }
    }

    fn span(&self, place: usize, worker: usize, shard: &Shard, first: u64, count: u64) -> Span {
        let pages = self.work.shape().pages;
        let seat = self.seat(worker);
        debug_span!(
            parent: &self.nodes[place].span,
            "section",
            node = shard.node.get(),
            zone = shard.zone,
            section = first,
            sections = count,
            first_pfn = first * pages,
            pages = count * pages,
            worker,
            home = seat.map_or(0, |seat| seat.node.get()),
            cpu = seat.map_or(0, |seat| seat.cpu),
            writer = self.options.writer.name(),
            bytes = count * self.work.shape().bytes,
            ns = field::Empty,
        )
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
            log.turn_to(None);
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

fn nanos(time: Duration) -> u64 {
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
