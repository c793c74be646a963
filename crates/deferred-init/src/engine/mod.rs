//! Runs a plan: pinned workers, a scheduler, a page writer, and what came of it.
//!
//! [`Engine::run`] goes through three phases that are timed apart: *map* (where struct pages are to
//! lie), *fault* (a page behind every address, by workers of its own node), *write*. Workers claim a
//! section, write it and publish it; a section is never half-written and published. Where a worker
//! panics, memory is short or the run is cancelled, all workers stop at the next section, the
//! [`Report`] says what is done, and another run completes the map.
//!
//! With [`RunOptions::hand_over`] workers write the heads of free blocks on the way and keep each
//! section's own free lists; [`Report::join`] then gives them to an allocator in pfn order, as one
//! thread would have done it.
//!
//! Spans: `run`, a `node` in it, a `section` in that; nothing per page.

mod cancel;
mod device;
mod options;
mod phases;
mod piece;
mod placement;
mod report;
mod target;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub use cancel::CancelToken;
pub use options::{FaultPhase, RunOptions, SpanDetail};
pub(crate) use phases::panic_message;
pub use placement::{NodePlacement, Placement, PlacementError, PlacementReport};
pub use report::{NodeReport, Outcome, Phases, Report, SectionRecord, Volume, WorkerReport};

use memmap_core::{MemoryMap, SectionNr, SectionState};

use crate::Topology;
use crate::plan::{Plan, PlanError, Work};
use crate::workers::{ChooseError, Crew, CrewError, Pinning, Seat, WorkerChoice, choose};
use target::{BootTarget, Target};

/// Why a run did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The wishes for workers cannot be met.
    #[error(transparent)]
    Choose(#[from] ChooseError),
    /// The workers could not be started or pinned.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// Struct pages cannot be placed as asked.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The plan was made for sections of another size than the map's.
    #[error(
        "the plan is for sections of {planned} pages, the map has sections of {mapped}; make the plan from the map's geometry"
    )]
    OtherShape {
        /// Pages of a section by the plan.
        planned: u64,
        /// Pages of a section of the map.
        mapped: u64,
    },
    /// The plan was made for another machine.
    #[error(
        "the map has no section {section}, but the plan has; make the plan from the map's geometry"
    )]
    NoSuchSection {
        /// A section that is only in the plan.
        section: u64,
    },
    /// The device's sections make no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The device's struct pages cannot be lent out.
    #[error(transparent)]
    System(#[from] sys::SysError),
}

/// Workers by their seats and whether they are pinned.
type Crews = HashMap<(Vec<Seat>, Pinning), Arc<Crew>>;

/// Runs plans on the workers of one host; keeps workers between runs.
#[derive(Debug)]
pub struct Engine {
    topology: Topology,
    crews: Mutex<Crews>,
}

impl Engine {
    /// For a host. Take the topology before any thread is pinned.
    pub fn new(topology: Topology) -> Self {
        Self {
            topology,
            crews: Mutex::new(HashMap::new()),
        }
    }

    /// The host.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Ends all workers that are not at work; the next run starts new ones.
    pub fn release_workers(&self) {
        self.crews().clear();
    }

    fn crews(&self) -> MutexGuard<'_, Crews> {
        // the table is whole at any time: crews are made before they are put in
        self.crews.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Workers on these seats, kept from an earlier run or new.
    fn crew(&self, seats: &[Seat], pinning: Pinning) -> Result<Arc<Crew>, CrewError> {
        let key = (seats.to_vec(), pinning);
        if let Some(crew) = self.crews().get(&key) {
            return Ok(Arc::clone(crew));
        }
        let crew = Arc::new(Crew::new(seats, pinning)?);
        Ok(Arc::clone(self.crews().entry(key).or_insert(crew)))
    }

    /// Workers as wished.
    pub(crate) fn chosen(&self, wishes: &WorkerChoice) -> Result<Arc<Crew>, EngineError> {
        let seats = choose(&self.topology, wishes)?;
        Ok(self.crew(&seats, wishes.pinning)?)
    }

    /// Initialises the pending sections of `map` that `plan` names.
    ///
    /// Several runs may share a map: a section is written once, and counted as skipped by the other
    /// run. A run whose report says that it did not complete can be completed by another one.
    ///
    /// # Errors
    /// [`EngineError`], before anything was written. What happens later is in the report.
    #[doc(alias = "deferred_init_memmap")]
    pub fn run(
        &self,
        map: &MemoryMap,
        plan: &Plan,
        options: &RunOptions<'_>,
    ) -> Result<Report, EngineError> {
        let mapped = map.geometry().sections().pages_per_section();
        if plan.shape().pages != mapped {
            return Err(EngineError::OtherShape {
                planned: plan.shape().pages,
                mapped,
            });
        }
        if let Some(section) = missing(map, plan) {
            return Err(EngineError::NoSuchSection { section });
        }
        self.run_target(&BootTarget::new(map, options.hand_over), plan, options)
    }

    /// Runs a plan over whatever it is a plan of.
    fn run_target(
        &self,
        target: &dyn Target,
        plan: &Plan,
        options: &RunOptions<'_>,
    ) -> Result<Report, EngineError> {
        let crew = self.chosen(&options.workers)?;
        let grain = options.grain.unwrap_or_else(|| plan.default_grain());
        let work = Work::new(plan, &self.topology, crew.seats(), grain);
        let began = Instant::now();
        placement::apply(
            options.placement,
            options.huge_pages,
            target,
            plan,
            &self.topology,
        )?;
        let map = began.elapsed();
        let spare = self.topology.allowed_cpus.len() > crew.seats().len();
        let mut report = phases::run(target, &crew, &work, options, spare);
        report.planned = plan.sections();
        report.phases.map = map;
        report.placement = placement::sample(target, plan, options.sample_pages);
        Ok(report)
    }
}

/// The first section of a plan that the map lacks.
fn missing(map: &MemoryMap, plan: &Plan) -> Option<u64> {
    let present = map.geometry().sections();
    let strangers = plan.runs().iter().filter(|run| {
        // between two that were there at boot, as far from each other by number as by rank, all were
        let rank = |section| present.rank(SectionNr(section));
        let ranks = rank(run.sections.start).zip(rank(run.sections.end - 1));
        ranks.is_none_or(|(first, last)| last - first != run.len() - 1)
    });
    // others may have been plugged in since
    let mut sections = strangers.flat_map(|run| run.sections.clone());
    sections.find(|section| map.section_state(SectionNr(*section)) == SectionState::Absent)
}
