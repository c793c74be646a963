//! A machine booted under a policy, and what of that hurts.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memblock::{Memblock, NodeId};
use memmap_core::buddy::{
    Allocator, Growth, HandOver, ListHeads, MigrateType, NodeDistances, Request,
};
use memmap_core::{
    BackingOptions, BootOptions, Geometry, GeometryError, MapError, MemoryMap, Phase, Profile,
    ProfileError, SectionNr, SectionState, ZoneIndex,
};
use sys::SysError;

use super::drain::{self, DrainReport};
use super::{Lazy, LazyError, LazyOptions, Policy, Watermark};
use crate::engine::{Engine, EngineError, FaultPhase, Outcome, Report, RunOptions, panic_message};
use crate::plan::{Plan, PlanError};
use crate::workers::Crew;

/// A machine to be booted.
#[derive(Clone, Debug)]
pub struct Boot<'a> {
    /// The host's workers.
    pub engine: &'a Engine,
    /// The kernel. Whether it defers is for the policy to say.
    pub kernel: &'a Profile,
    /// The machine's memory at hand-over.
    pub memory: &'a Memblock,
    /// What its command line says.
    pub options: BootOptions,
    /// Where struct pages are kept.
    pub backing: BackingOptions,
    /// How they are written; hand-over and faulting as they are written are implied. One worker is
    /// the boot CPU, all of them finish.
    pub run: RunOptions<'static>,
}

/// Why a machine could not be booted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootError {
    /// Its kernel cannot defer.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// It makes no geometry.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// There is no memory for its map.
    #[error(transparent)]
    Map(#[from] MapError),
    /// It makes no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Its workers did not start.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// How a boot ended. One that did not complete leaves a map that can be completed or dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BootOutcome {
    /// Every struct page is written.
    Complete,
    /// It was cancelled.
    Cancelled,
    /// A worker panicked; its section is pending.
    Panicked {
        /// What it said.
        message: String,
    },
    /// There was no memory for struct pages.
    NoMemory {
        /// What the system said.
        error: SysError,
    },
    /// A section could not be had.
    Lazy(LazyError),
}

impl fmt::Display for BootOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("complete"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Panicked { message } => write!(f, "a worker panicked: {message}"),
            Self::NoMemory { error } => write!(f, "no memory: {error}"),
            Self::Lazy(error) => error.fmt(f),
        }
    }
}

impl From<Outcome> for BootOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Complete => Self::Complete,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Panicked { message, .. } => Self::Panicked { message },
            Outcome::NoMemory { error, .. } => Self::NoMemory { error },
        }
    }
}

impl From<DrainReport> for BootOutcome {
    fn from(report: DrainReport) -> Self {
        match (report.failed, report.panicked) {
            (Some(LazyError::NoMemory { source, .. }), _) => Self::NoMemory { error: source },
            (Some(error), _) => Self::Lazy(error),
            (None, Some(message)) => Self::Panicked { message },
            (None, None) if report.cancelled => Self::Cancelled,
            (None, None) => Self::Complete,
        }
    }
}

/// How long a boot took, and whom it kept waiting.
///
/// Times are those of initialising struct pages and handing memory over, host page faults included;
/// nothing of working out the geometry or starting threads.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyReport {
    /// The policy.
    pub policy: Policy,
    /// How it ended.
    pub outcome: BootOutcome,
    /// Until the first page could be allocated.
    pub first_usable: Duration,
    /// Until every struct page was written.
    pub total: Duration,
    /// The longest time for which one CPU did nothing else: between two points at which it could have
    /// been stopped or scheduled. Linux complains after 22 s (soft lockup).
    #[doc(alias = "softlockup")]
    pub worst_stretch: Duration,
    /// Sections written before the first page could be allocated.
    pub sections_first: u64,
    /// Sections written in all.
    pub sections: u64,
}

/// One line.
impl fmt::Display for PolicyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "{:<9} first usable memory {:.3} ms ({} sections), total {:.3} ms ({} sections), worst \
             uninterrupted stretch of a CPU {:.3} ms: {}",
            self.policy.name(),
            ms(self.first_usable),
            self.sections_first,
            ms(self.total),
            self.sections,
            ms(self.worst_stretch),
            self.outcome,
        )
    }
}

/// Boots the machine under `policy`, until all of its struct pages are written.
///
/// On demand, all CPUs ask zones to grow until none does any more; lazily, one page is asked for, and a
/// drain writes the rest. The allocator has all memory that was initialised.
///
/// # Errors
/// [`BootError`], with nothing left behind. What happens once workers run is in the report.
pub fn boot(
    policy: Policy,
    boot: &Boot<'_>,
) -> Result<(PolicyReport, Allocator<MemoryMap>), BootError> {
    let geometry = Geometry::new(&policy.profile(boot.kernel)?, boot.memory, &boot.options)?;
    let plan = Plan::new(&geometry)?;
    let map = MemoryMap::new(geometry.clone(), boot.backing.clone())?;
    let mut run = boot.run.clone().hand_over();
    run.fault = FaultPhase::WhileWriting;
    run.sample_pages = 0;
    run.records = false;
    let booting = Booting {
        engine: boot.engine,
        geometry,
        run,
    };
    match policy {
        Policy::Eager => booting.in_parts(policy, map, &plan),
        Policy::Lazy => booting.lazily(map),
        Policy::Deferred | Policy::OnDemand => {
            let early = plan.part(&booting.geometry, Phase::Early);
            booting.in_parts(policy, map, &early)
        }
    }
}

struct Booting<'a> {
    engine: &'a Engine,
    geometry: Geometry,
    run: RunOptions<'static>,
}

impl Booting<'_> {
    fn allocator(&self, map: MemoryMap) -> Allocator<MemoryMap> {
        let distances = NodeDistances::default();
        Allocator::new(map, &self.geometry, distances, ListHeads::default())
    }

    fn crew(&self) -> Result<std::sync::Arc<Crew>, EngineError> {
        self.engine.chosen(&self.run.workers)
    }

    /// The boot CPU does `first`, and whatever is left then the policy's way.
    fn in_parts(
        &self,
        policy: Policy,
        map: MemoryMap,
        first: &Plan,
    ) -> Result<(PolicyReport, Allocator<MemoryMap>), BootError> {
        let plan = HandOver::new(&self.geometry);
        let mut early = self.engine.run(&map, first, &self.run.clone().threads(1))?;
        let complete = early.outcome == Outcome::Complete;
        let late = match policy {
            Policy::Deferred if complete => {
                let rest = Plan::new(&self.geometry)?.part(&self.geometry, Phase::Deferred);
                Some(self.engine.run(&map, &rest, &self.run)?)
            }
            _ => None,
        };
        let allocator = self.allocator(map);
        early.join(&allocator, &plan);
        // the boot CPU does nothing else from its first section until memory is handed over
        let mut report = PolicyReport {
            policy,
            outcome: early.outcome.clone().into(),
            first_usable: time(&early),
            total: time(&early),
            worst_stretch: time(&early),
            sections_first: early.total().sections,
            sections: early.total().sections,
        };
        if let Some(mut late) = late {
            late.join(&allocator, &plan);
            report.outcome = late.outcome.clone().into();
            report.total += time(&late);
            report.sections += late.total().sections;
            report.worst_stretch = report.worst_stretch.max(late.worst_stretch());
        }
        if policy == Policy::OnDemand && complete {
            self.on_demand(&allocator, &mut report)?;
        }
        Ok((report, allocator))
    }

    /// All CPUs ask zones to grow until none does, each its own node's first.
    fn on_demand(
        &self,
        allocator: &Allocator<MemoryMap>,
        report: &mut PolicyReport,
    ) -> Result<(), BootError> {
        let crew = self.crew()?;
        let order = self.geometry.profile().max_page_order as u8;
        let zones: Vec<(NodeId, ZoneIndex)> = self
            .geometry
            .populated_zones()
            .map(|(node, zone)| (node.id, zone.index))
            .collect();
        let ended = Mutex::new(BootOutcome::Complete);
        let worst = Mutex::new(Duration::ZERO);
        let stop = AtomicBool::new(false);
        let end = |why: BootOutcome| {
            let mut ended = drain::lock(&ended);
            if *ended == BootOutcome::Complete {
                *ended = why;
            }
            // Relaxed: who sees it late grows a zone once more
            stop.store(true, Ordering::Relaxed);
        };
        let began = Instant::now();
        crew.each(&|worker| {
            let home = crew.seats().get(worker).map(|seat| seat.node);
            let own = zones.iter().filter(|(node, _)| Some(*node) == home);
            let others = zones.iter().filter(|(node, _)| Some(*node) != home);
            let mut longest = Duration::ZERO;
            let work = || {
                for &(node, zone) in own.chain(others) {
                    loop {
                        if self.run.cancel.is_cancelled() {
                            end(BootOutcome::Cancelled);
                        }
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        let began = Instant::now();
                        let grown =
                            allocator.deferred_grow_zone(node, zone, order, self.run.writer);
                        longest = longest.max(began.elapsed());
                        match grown {
                            Growth::Nothing => break,
                            Growth::Elsewhere => std::thread::yield_now(),
                            Growth::Pages(_) => {}
                        }
                    }
                }
            };
            if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
                let message = panic_message(&*payload);
                end(BootOutcome::Panicked { message });
            }
            let mut worst = drain::lock(&worst);
            *worst = longest.max(*worst);
        });
        report.total += began.elapsed();
        report.worst_stretch = report.worst_stretch.max(*drain::lock(&worst));
        report.outcome = drain::lock(&ended).clone();
        report.sections = ready(allocator.pages());
        Ok(())
    }

    /// The first page is asked for, the rest drained.
    fn lazily(&self, map: MemoryMap) -> Result<(PolicyReport, Allocator<MemoryMap>), BootError> {
        let crew = self.crew()?;
        let allocator = self.allocator(map);
        let options = LazyOptions::new(self.run.writer).watermark(Watermark::ALL);
        let began = Instant::now();
        let lazy = Lazy::new(allocator, options);
        let mut outcome = self.first_page(&lazy);
        let first_usable = began.elapsed();
        let sections_first = lazy.counts().asked;
        if outcome == BootOutcome::Complete {
            outcome = drain::drain(&lazy, &crew, &self.run.cancel).into();
        }
        let total = began.elapsed();
        let counts = lazy.counts();
        let report = PolicyReport {
            policy: Policy::Lazy,
            outcome,
            first_usable,
            total,
            worst_stretch: Duration::from_nanos(counts.longest_ns.max(counts.longest_write_ns)),
            sections_first,
            sections: ready(lazy.map()),
        };
        Ok((report, lazy.into_pages()))
    }

    /// Asks for sections, from where deferral would begin, until a page can be allocated.
    fn first_page(&self, lazy: &Lazy<Allocator<MemoryMap>>) -> BootOutcome {
        let sections = self.geometry.sections();
        let Some(node) = self.geometry.nodes().iter().find(|node| node.has_memory()) else {
            return BootOutcome::Complete;
        };
        let request = Request {
            order: 0,
            node: node.id,
            zone: ZoneIndex(node.zones.len().saturating_sub(1) as u8),
            migrate: MigrateType::Unmovable,
        };
        let first = node.first_deferred.unwrap_or(node.span.start());
        let first = SectionNr::of(first, sections.pages_per_section());
        let from_there = sections.iter().skip_while(|section| *section < first);
        let below = sections.iter().take_while(|section| *section < first);
        for section in from_there.chain(below) {
            if self.run.cancel.is_cancelled() {
                return BootOutcome::Cancelled;
            }
            match catch_unwind(AssertUnwindSafe(|| lazy.touch(section))) {
                Ok(Ok(_)) => {}
                Ok(Err(LazyError::NoMemory { source, .. })) => {
                    return BootOutcome::NoMemory { error: source };
                }
                Ok(Err(error)) => return BootOutcome::Lazy(error),
                Err(payload) => {
                    return BootOutcome::Panicked {
                        message: panic_message(&*payload),
                    };
                }
            }
            if let Ok(page) = lazy.alloc_pages(request) {
                // it was only to see that there is one
                let freed = lazy.pages().free_pages(page, 0);
                debug_assert_eq!(freed, Ok(()), "it was allocated just now");
                break;
            }
        }
        BootOutcome::Complete
    }
}

/// The time of a run.
fn time(report: &Report) -> Duration {
    report.phases.fault + report.phases.write + report.phases.join
}

/// Sections that are written.
fn ready(map: &MemoryMap) -> u64 {
    let sections = map.geometry().sections().iter();
    sections
        .filter(|section| map.section_state(*section) == SectionState::Ready)
        .count() as u64
}
