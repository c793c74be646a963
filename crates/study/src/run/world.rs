//! The memory of a stretch: mapped, placed and touched once for all its runs.

use std::time::{Duration, Instant};

use deferred_init::engine::{EngineError, Outcome, Placement, RunOptions};
use deferred_init::workers::WorkerChoice;
use memblock::NodeId;
use memmap_core::limit::{self, Fill};
use memmap_core::{MapError, MemoryMap};
use sys::MemoryPolicy;

use super::limit::LimitWriter;
use super::{Runner, StudyError};
use crate::design::{Contestant, Pages, Place, Stretch};
use crate::record::Placed;
use crate::stats;

/// Pages that are asked where they lie.
const SAMPLE: usize = 1024;

/// The memory of a stretch, or why there is none.
#[derive(Debug)]
pub(super) struct World {
    pub(super) map: Option<MemoryMap>,
    pub(super) mapped: Duration,
    pub(super) faulted: Duration,
    pub(super) huge_bytes: Option<u64>,
    pub(super) placed: Vec<Placed>,
    /// Why its runs cannot be had.
    pub(super) refused: Option<String>,
    /// What a person should know.
    pub(super) notes: Vec<String>,
}

impl World {
    fn refused(stretch: &Stretch, why: &dyn std::fmt::Display) -> Self {
        let why = why.to_string();
        Self {
            map: None,
            mapped: Duration::ZERO,
            faulted: Duration::ZERO,
            huge_bytes: None,
            placed: Vec::new(),
            notes: vec![format!(
                "refused: {} on {} pages: {why}",
                stretch.place,
                stretch.pages.name()
            )],
            refused: Some(why),
        }
    }
}

/// How the engine is to place what [`World`] has not placed itself.
pub(super) fn engine_placement(place: Place) -> Placement {
    match place {
        Place::By(placement) => placement,
        // bound before it was touched
        Place::Node(_) => Placement::FirstTouch,
    }
}

impl Runner<'_> {
    /// Maps, places and touches the memory of a stretch; `None` where the study was cancelled.
    pub(super) fn make(&mut self, at: usize) -> Result<Option<World>, StudyError> {
        let stretch = &self.runs.stretches[at];
        let machine = &self.machines[stretch.machine];
        let options = super::backing(stretch.pages);
        let began = Instant::now();
        let map = match MemoryMap::new(machine.geometry.clone(), options) {
            Ok(map) => map,
            Err(error @ MapError::System { .. }) if stretch.pages == Pages::Hugetlb => {
                return Ok(Some(World::refused(stretch, &error)));
            }
            Err(error) => return Err(error.into()),
        };
        let mapped = began.elapsed();
        if let Place::Node(node) = stretch.place {
            let bound = match map.mapping() {
                Some(mapping) => mapping
                    .bind(0..mapping.len(), MemoryPolicy::Bind, &[node.get()])
                    .map_err(|error| error.to_string()),
                None => Err("the map does not lie in mapped memory".to_owned()),
            };
            if let Err(why) = bound {
                return Ok(Some(World::refused(stretch, &why)));
            }
        }
        let Some(first) = stretch.contestants.first() else {
            return Ok(None);
        };
        let writer = self
            .design
            .writers
            .first()
            .copied()
            .or(first.writer)
            .unwrap_or(memmap_core::writers::all()[0]);
        let mut run = RunOptions::new(writer).placement(engine_placement(stretch.place));
        run.workers = self.conditions.allow(touching(stretch));
        run.records = false;
        run.sample_pages = SAMPLE;
        run.cancel = self.cancel.clone();
        let report = match self.engine.run(&map, &machine.plan, &run) {
            Ok(report) => report,
            Err(EngineError::Placement(error)) => {
                return Ok(Some(World::refused(stretch, &error)));
            }
            Err(source) => {
                return Err(StudyError::Engine {
                    settings: Box::new(first.settings.clone()),
                    source: Box::new(source),
                });
            }
        };
        match report.outcome {
            Outcome::Complete => {}
            Outcome::Cancelled => return Ok(None),
            ref outcome @ Outcome::NoMemory { .. } => {
                return Ok(Some(World::refused(stretch, outcome)));
            }
            ref outcome => {
                return Err(StudyError::Run {
                    settings: Box::new(first.settings.clone()),
                    outcome: Box::new(outcome.clone()),
                });
            }
        }
        let mut notes: Vec<String> = report.unpinned.iter().map(ToString::to_string).collect();
        if map.mapping().is_none() {
            notes.push(
                "no address range is long enough: one allocation a section, first touch and \
                 placement are not known"
                    .to_owned(),
            );
        }
        let huge_bytes = map
            .mapping()
            .and_then(sys::Mapping::memory_use)
            .map(|used| used.huge);
        if stretch.pages == Pages::Transparent && huge_bytes == Some(0) {
            notes.push("transparent huge pages were asked for, and none came".to_owned());
        }
        Ok(Some(World {
            map: Some(map),
            mapped,
            faulted: report.phases.fault,
            huge_bytes,
            placed: report.placement.nodes.iter().flat_map(Placed::of).collect(),
            refused: None,
            notes,
        }))
    }

    /// Chooses the fill that is fastest with one of the contestant's threads; `false` where the study
    /// was cancelled.
    pub(super) fn choose_limit(&mut self, contestant: &Contestant) -> Result<bool, StudyError> {
        let mut alone = contestant.clone();
        alone.settings.threads = 1;
        let mut best: Option<(f64, &'static Fill)> = None;
        for fill in limit::fills().iter().filter(|fill| fill.is_available()) {
            let mut times = Vec::with_capacity(self.design.warm_up);
            for _ in 0..self.design.warm_up.max(1) {
                let Some(report) = self.timed(&alone, &LimitWriter(fill), false)? else {
                    return Ok(false);
                };
                times.push(report.phases.write.as_nanos() as f64);
            }
            let time = stats::median(&times).unwrap_or(f64::INFINITY);
            if best.is_none_or(|(least, _)| time < least) {
                best = Some((time, fill));
            }
        }
        self.fill = best.map(|(_, fill)| fill);
        Ok(self.fill.is_some())
    }
}

/// The workers that touch a stretch's memory first: the most that it has on its nodes.
fn touching(stretch: &Stretch) -> WorkerChoice {
    let most = stretch
        .contestants
        .iter()
        .max_by_key(|run| run.settings.threads)
        .map(Contestant::workers)
        .unwrap_or_default();
    let nodes = match stretch.nodes.is_empty() {
        true => None,
        false => Some(
            stretch
                .nodes
                .iter()
                .map(|node| NodeId::new(u16::try_from(*node).unwrap_or(u16::MAX)))
                .collect(),
        ),
    };
    WorkerChoice { nodes, ..most }
}
