//! A boot by a policy as a run of a study.
//!
//! Nothing is shared with other runs but the workers: the map is made anew, its memory is touched as it
//! is written, and both are given back before the next run.

use deferred_init::engine::{EngineError, RunOptions};
use deferred_init::policy::{Boot, BootError, BootOutcome, boot};
use memmap_core::MapError;

use super::world::engine_placement;
use super::{Runner, StudyError, backing, now_ms};
use crate::design::{Pages, Planned};
use crate::record::{Booted, Record};

impl Runner<'_> {
    /// Boots once and says what that took, or why the system refuses it; `None` where it was cancelled.
    pub(super) fn boot(&mut self, run: &Planned) -> Result<Option<Record>, StudyError> {
        let stretch = &self.runs.stretches[run.stretch];
        let (pages, place) = (stretch.pages, stretch.place);
        let contestant = &stretch.contestants[run.contestant];
        let Some(writer) = contestant.writer else {
            return Ok(None);
        };
        let machine = &self.machines[stretch.machine];
        let mut options = RunOptions::new(writer)
            .scheduler(contestant.scheduler)
            .placement(engine_placement(place));
        options.workers = self.conditions.allow(contestant.workers());
        options.cancel = self.cancel.clone();
        let mut record = self.record(run);
        self.counting.begin();
        record.began_ms = now_ms();
        let booted = boot(
            contestant.policy,
            &Boot {
                engine: &self.engine,
                kernel: machine.geometry.profile(),
                memory: &machine.memblock,
                options: machine.options.clone(),
                backing: backing(pages),
                run: options,
            },
        );
        record.counters = self.counting.end();
        let settings = || Box::new(run.key.settings.clone());
        let (report, allocator) = match booted {
            Ok(booted) => booted,
            Err(BootError::Map(error @ MapError::System { .. })) if pages == Pages::Hugetlb => {
                return Ok(Some(refused(record, &error)));
            }
            Err(BootError::Engine(EngineError::Placement(error))) => {
                return Ok(Some(refused(record, &error)));
            }
            Err(BootError::Map(error)) => return Err(error.into()),
            Err(source) => {
                return Err(StudyError::Boot {
                    settings: settings(),
                    source: Box::new(source),
                });
            }
        };
        match &report.outcome {
            BootOutcome::Complete => {}
            BootOutcome::Cancelled => return Ok(None),
            BootOutcome::NoMemory { error } => return Ok(Some(refused(record, error))),
            outcome => {
                return Err(StudyError::Booting {
                    settings: settings(),
                    outcome: Box::new(outcome.clone()),
                });
            }
        }
        let mapping = allocator.pages().mapping();
        record.huge_bytes = mapping
            .and_then(sys::Mapping::memory_use)
            .map(|used| used.huge);
        record.boot = Some(Booted::of(&report));
        Ok(Some(record))
    }
}

fn refused(record: Record, why: &dyn std::fmt::Display) -> Record {
    Record {
        refused: Some(why.to_string()),
        ..record
    }
}
