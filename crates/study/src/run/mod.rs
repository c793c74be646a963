//! A design carried out: maps made, runs timed, a record each.
//!
//! Runs that are recorded already are passed over, so a study that was interrupted goes on where it
//! stood. What the system refuses (huge pages that are not there, a node that cannot be bound to) is
//! recorded as refused, run by run, and the study goes on.

mod boots;
mod counters;
mod estimate;
mod limit;
mod world;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use deferred_init::Topology;
use deferred_init::engine::{CancelToken, Engine, EngineError, Outcome, Report, RunOptions};
use deferred_init::plan::{Plan, PlanError};
use deferred_init::policy::{BootError, BootOutcome};
use deferred_init::workers::{Pinning, Spread, WorkerChoice};
use memblock::Memblock;
use memmap_core::limit::Fill;
use memmap_core::writers::PageWriter;
use memmap_core::{BackingOptions, BootOptions, Geometry, HugePages, MapError};

use crate::design::{CellsError, Contestant, Design, Pages, Planned, Runs};
use crate::record::{
    Counters, Host, Key, Layout, NodeTime, Record, SCHEMA, SectionTime, Settings, WorkerTime,
};
use counters::Counting;
use limit::LimitWriter;
use world::World;

pub use estimate::{Estimate, estimate};

/// A machine whose memory map is initialised.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Where it was read from, in words.
    pub source: String,
    /// Its memory, bytes.
    pub memory: u64,
    /// Its memory map.
    pub geometry: Geometry,
    plan: Plan,
    // for boots, whose geometry is the policy's
    memblock: Memblock,
    options: BootOptions,
}

impl Machine {
    /// A machine with `memory` bytes, which `memblock` has, and the memory map `geometry` under the boot
    /// options `options`.
    ///
    /// # Errors
    /// [`PlanError`] where it cannot be planned.
    pub fn new(
        source: String,
        memory: u64,
        geometry: Geometry,
        memblock: Memblock,
        options: BootOptions,
    ) -> Result<Self, PlanError> {
        let plan = Plan::new(&geometry)?;
        Ok(Self {
            source,
            memory,
            geometry,
            plan,
            memblock,
            options,
        })
    }

    /// As records have it.
    pub fn layout(&self) -> Layout {
        Layout::of(self.source.clone(), self.memory, &self.geometry)
    }
}

/// What a host lets us do, beside the design.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// Whether workers are pinned.
    pub pinning: Pinning,
    /// How workers are laid over caches.
    pub spread: Spread,
    /// Whether several workers may share a CPU.
    pub oversubscribe: bool,
    /// Whether hardware counters are read.
    pub counters: bool,
    /// Whether spans of runs are kept or printed meanwhile, which costs time; records say so.
    pub traced: bool,
}

impl Conditions {
    /// Wishes for workers under these conditions.
    pub fn allow(self, wishes: WorkerChoice) -> WorkerChoice {
        WorkerChoice {
            pinning: self.pinning,
            spread: self.spread,
            oversubscribe: self.oversubscribe,
            ..wishes
        }
    }
}

/// A study that is about to be carried out.
#[derive(Debug)]
pub struct Study<'a> {
    /// What is to be done.
    pub design: &'a Design,
    /// On which machines, in the order of the design's memory.
    pub machines: &'a [Machine],
    /// Where.
    pub topology: Topology,
    /// What records say of that.
    pub host: Host,
    /// Under which conditions.
    pub conditions: Conditions,
    /// How often it was interrupted before.
    pub session: u64,
    /// The fill that was the limit before it was interrupted.
    pub fill: Option<&'static Fill>,
}

/// Where a study is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Runs that are recorded, earlier sessions' too.
    pub done: usize,
    /// Runs in all; 0 before the number of rounds is known.
    pub of: usize,
}

/// What is told while a study goes on.
pub trait Observer {
    /// Whether a run is recorded already.
    fn has(&self, key: &Key) -> bool {
        let _ = key;
        false
    }

    /// A run has ended. Refusing ends the study.
    ///
    /// # Errors
    /// Whatever the observer could not do, such as writing the record.
    fn ran(&mut self, record: Record, report: Option<&Report>) -> Result<(), std::io::Error>;

    /// The study is here.
    fn progress(&mut self, progress: Progress) {
        let _ = progress;
    }

    /// Something that a person should know.
    fn note(&mut self, note: &str) {
        let _ = note;
    }
}

/// How a study ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whether it was cancelled after some run.
    pub cancelled: bool,
    /// Rounds that were planned.
    pub rounds: usize,
}

/// Why a study ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// It cannot be laid out on this host.
    #[error(transparent)]
    Cells(#[from] CellsError),
    /// A map cannot be had.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The engine refused a run.
    #[error("{settings}: {source}")]
    Engine {
        /// The run.
        settings: Box<Settings>,
        /// Why not.
        source: Box<EngineError>,
    },
    /// A run did not end well.
    #[error("{settings}: {outcome}")]
    Run {
        /// The run.
        settings: Box<Settings>,
        /// How it ended.
        outcome: Box<Outcome>,
    },
    /// A boot could not begin.
    #[error("{settings}: {source}")]
    Boot {
        /// The boot.
        settings: Box<Settings>,
        /// Why not.
        source: Box<BootError>,
    },
    /// A boot did not end well.
    #[error("{settings}: {outcome}")]
    Booting {
        /// The boot.
        settings: Box<Settings>,
        /// How it ended.
        outcome: Box<BootOutcome>,
    },
    /// The observer refused.
    #[error("the record of a run could not be kept: {0}")]
    Observer(#[from] std::io::Error),
}

/// Carries a study out.
///
/// A cancelled study ends after the run under way.
///
/// # Errors
/// [`StudyError`].
pub fn run(
    study: Study<'_>,
    cancel: &CancelToken,
    observer: &mut dyn Observer,
) -> Result<Ended, StudyError> {
    let memory: Vec<u64> = study
        .machines
        .iter()
        .map(|machine| machine.memory)
        .collect();
    let conditions = study.conditions;
    let runs = study
        .design
        .runs(&study.topology, &memory, |wishes| conditions.allow(wishes))?;
    // counters are inherited by threads that begin later: before the first worker
    let counting = match conditions.counters {
        true => Counting::open(),
        false => Counting::absent("not asked for"),
    };
    if let Some(why) = counting.why_absent().filter(|_| conditions.counters) {
        observer.note(&format!("hardware counters: {why}"));
    }
    let mut runner = Runner {
        engine: Engine::new(study.topology),
        design: study.design,
        fingerprint: study.design.fingerprint(),
        machines: study.machines,
        host: study.host,
        conditions,
        session: study.session,
        fill: study.fill,
        runs,
        world: None,
        counting,
        cancel,
        told: Vec::new(),
    };
    runner.rounds(observer)
}

struct Runner<'a> {
    engine: Engine,
    design: &'a Design,
    fingerprint: String,
    machines: &'a [Machine],
    host: Host,
    conditions: Conditions,
    session: u64,
    fill: Option<&'static Fill>,
    runs: Runs,
    // the memory of one stretch
    world: Option<(usize, World)>,
    counting: Counting,
    cancel: &'a CancelToken,
    told: Vec<String>,
}

impl Runner<'_> {
    fn rounds(&mut self, observer: &mut dyn Observer) -> Result<Ended, StudyError> {
        let a_round = self.runs.a_round();
        let fixed = matches!(self.design.rounds, crate::design::Rounds::Exactly(_));
        let mut planned = self.design.rounds.resolve(std::time::Duration::MAX);
        let (mut done, mut round) = (0, 0);
        let mut of = if fixed { planned * a_round } else { 0 };
        while round < planned {
            let began = Instant::now();
            for run in self.runs.round(round as u64) {
                done += 1;
                if observer.has(&run.key) {
                    continue;
                }
                if self.cancel.is_cancelled() || !self.one(&run, observer)? {
                    return Ok(Ended {
                        cancelled: true,
                        rounds: planned,
                    });
                }
                observer.progress(Progress { done, of });
            }
            if round == 0 && !fixed {
                planned = self.design.rounds.resolve(began.elapsed());
                of = planned * a_round;
            }
            round += 1;
        }
        Ok(Ended {
            cancelled: false,
            rounds: planned,
        })
    }

    /// Carries one run out and records it; `false` where it was cancelled.
    fn one(&mut self, run: &Planned, observer: &mut dyn Observer) -> Result<bool, StudyError> {
        if run.key.role.is_boot() {
            // before it makes its own: memory may not hold two
            self.world = None;
            let Some(record) = self.boot(run)? else {
                return Ok(false);
            };
            if let Some(why) = &record.refused {
                self.tell(observer, &format!("refused: {}: {why}", record.settings));
            }
            observer.ran(record, None)?;
            return Ok(true);
        }
        if self.world.as_ref().is_none_or(|(at, _)| *at != run.stretch) {
            // before the next one is made: memory may not hold two
            self.world = None;
            let Some(world) = self.make(run.stretch)? else {
                return Ok(false);
            };
            for note in &world.notes {
                self.tell(observer, note);
            }
            self.world = Some((run.stretch, world));
        }
        let contestant = self.runs.stretches[run.stretch].contestants[run.contestant].clone();
        let refused = self
            .world
            .as_ref()
            .and_then(|(_, world)| world.refused.clone());
        let mut record = self.record(run);
        if refused.is_some() {
            record.refused = refused;
            observer.ran(record, None)?;
            return Ok(true);
        }
        if contestant.writer.is_none() && self.fill.is_none() && !self.choose_limit(&contestant)? {
            return Ok(false);
        }
        let limit = self.fill.map(LimitWriter);
        let writer: &dyn PageWriter = match (contestant.writer, &limit) {
            (Some(writer), _) => writer,
            (None, Some(limit)) => limit,
            (None, None) => return Ok(false),
        };
        self.counting.begin();
        record.began_ms = now_ms();
        let report = self.timed(&contestant, writer, run.key.round == 0)?;
        record.counters = self.counting.end();
        let Some(report) = report else {
            return Ok(false);
        };
        if contestant.writer.is_none() {
            record.fill = self.fill.map(|fill| fill.name().to_owned());
        }
        record.write_ns = nanoseconds(report.phases.write);
        record.nodes = report.nodes.iter().map(NodeTime::of).collect();
        record.workers = report.workers.iter().map(WorkerTime::of).collect();
        record.sections = report.records.iter().map(SectionTime::of).collect();
        observer.ran(record, Some(&report))?;
        Ok(true)
    }

    /// Tells a person, once.
    fn tell(&mut self, observer: &mut dyn Observer, note: &str) {
        if !self.told.iter().any(|told| told == note) {
            observer.note(note);
            self.told.push(note.to_owned());
        }
    }

    /// What is known of a run before it begins.
    fn record(&self, run: &Planned) -> Record {
        let machine = &self.machines[self.runs.stretches[run.stretch].machine];
        let world = self.world.as_ref().map(|(_, world)| world);
        Record {
            schema: SCHEMA,
            study: self.design.name.clone(),
            design: self.fingerprint.clone(),
            session: self.session,
            round: run.key.round,
            place: run.key.place,
            began_ms: now_ms(),
            role: run.key.role,
            layout: machine.layout(),
            settings: run.key.settings.clone(),
            fill: None,
            refused: None,
            map_ns: world.map_or(0, |world| nanoseconds(world.mapped)),
            fault_ns: world.map_or(0, |world| nanoseconds(world.faulted)),
            huge_bytes: world.and_then(|world| world.huge_bytes),
            write_ns: 0,
            boot: None,
            nodes: Vec::new(),
            workers: Vec::new(),
            sections: Vec::new(),
            placed: world.map_or_else(Vec::new, |world| world.placed.clone()),
            counters: Counters::default(),
            traced: self.conditions.traced,
            host: self.host.clone(),
        }
    }

    /// One run on the memory of the stretch; `None` where it was cancelled.
    fn timed(
        &mut self,
        contestant: &Contestant,
        writer: &dyn PageWriter,
        records: bool,
    ) -> Result<Option<Report>, StudyError> {
        let Some((stretch, world)) = &mut self.world else {
            return Ok(None);
        };
        let stretch = &self.runs.stretches[*stretch];
        let Some(map) = &mut world.map else {
            return Ok(None);
        };
        map.reset();
        let mut options = RunOptions::new(writer)
            .scheduler(contestant.scheduler)
            .placement(world::engine_placement(stretch.place));
        options.workers = self.conditions.allow(contestant.workers());
        options.records = records;
        options.sample_pages = 0;
        options.cancel = self.cancel.clone();
        let settings = || Box::new(contestant.settings.clone());
        let plan = &self.machines[stretch.machine].plan;
        let report = self
            .engine
            .run(map, plan, &options)
            .map_err(|source| StudyError::Engine {
                settings: settings(),
                source: Box::new(source),
            })?;
        match report.outcome {
            Outcome::Complete => Ok(Some(report)),
            Outcome::Cancelled => Ok(None),
            ref outcome => Err(StudyError::Run {
                settings: settings(),
                outcome: Box::new(outcome.clone()),
            }),
        }
    }
}

/// How memory for struct pages is asked for.
fn backing(pages: Pages) -> BackingOptions {
    let mut options = BackingOptions::default();
    options.huge_pages = match pages {
        Pages::System => HugePages::System,
        Pages::Small => HugePages::Never,
        Pages::Transparent => HugePages::Always,
        Pages::Hugetlb => HugePages::Reserved,
    };
    options
}

/// A page writer by the name of a fill.
pub fn fill_by_name(name: &str) -> Option<&'static Fill> {
    memmap_core::limit::fills()
        .iter()
        .find(|fill| fill.name() == name && fill.is_available())
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}
