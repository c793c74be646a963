//! Device memory on the engine of boot memory.
//!
//! A device's struct pages are runs like any others: its sections are planned, handed out by the
//! same schedulers to the same workers, timed and traced by the same spans. No kernel does that
//! yet; there a device is one thread's work.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use memblock::PfnRange;
use memmap_core::BackingChoice;
use memmap_core::writers::PageWriter;
use zone_device::{DeviceMemmap, DeviceShard, RangeObserver};

use super::target::{Target, Written};
use super::{Engine, EngineError, Report, RunOptions};
use crate::plan::{Plan, PlanRun, SectionShape};

impl Engine {
    /// Writes all struct pages of a device whose kernel has sections of `pages_per_section` pages,
    /// and tells `observer` of ranges as they are written.
    ///
    /// Memory should be [populated](DeviceMemmap::populate) before: there is no fault phase. A run
    /// that did not complete is completed by another one, which writes everything anew.
    ///
    /// # Errors
    /// [`EngineError`], before anything was written. What happens later is in the report.
    #[doc(alias = "memmap_init_zone_device")]
    pub fn run_device(
        &self,
        memmap: &mut DeviceMemmap,
        pages_per_section: u64,
        options: &RunOptions<'_>,
        observer: Option<&dyn RangeObserver>,
    ) -> Result<Report, EngineError> {
        let runs = memmap.runs();
        let size = runs
            .runs()
            .first()
            .map_or(64, |run| run.page_size().bytes());
        let (node, zone) = (runs.node(), runs.zone().0);
        let shape = SectionShape {
            pages: pages_per_section,
            bytes: pages_per_section.saturating_mul(size as u64),
        };
        let sections = sections(runs.ranges(), pages_per_section.max(1));
        let plan = Plan::from_runs(
            shape,
            sections.into_iter().map(|sections| PlanRun {
                node,
                zone,
                sections,
            }),
        )?;
        let target = DeviceTarget::new(memmap, pages_per_section, observer)?;
        self.run_target(&target, &plan, options)
    }
}

/// The sections that the ranges (ascending) touch, each once.
fn sections(ranges: &[PfnRange], pages: u64) -> Vec<Range<u64>> {
    let mut sections: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let (first, end) = (
            range.start().get() / pages,
            range.end().get().div_ceil(pages),
        );
        match sections.last_mut() {
            Some(last) if last.end >= first => last.end = last.end.max(end),
            _ => sections.push(first..end),
        }
    }
    sections
}

/// Pieces of a device by section, each until somebody takes it.
struct DeviceTarget<'m> {
    pieces: BTreeMap<u64, Mutex<Vec<DeviceShard<'m>>>>,
    observer: Option<&'m dyn RangeObserver>,
}

impl<'m> DeviceTarget<'m> {
    fn new(
        memmap: &'m mut DeviceMemmap,
        pages_per_section: u64,
        observer: Option<&'m dyn RangeObserver>,
    ) -> Result<Self, sys::SysError> {
        let mut pieces: BTreeMap<u64, Mutex<Vec<_>>> = BTreeMap::new();
        for (section, shard) in memmap.section_shards(pages_per_section)? {
            let piece = pieces.entry(section).or_default();
            piece
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner)
                .push(shard);
        }
        Ok(Self { pieces, observer })
    }
}

impl Target for DeviceTarget<'_> {
    fn write(&self, section: u64, writer: &dyn PageWriter) -> Option<Written> {
        let piece = self.pieces.get(&section)?;
        // whoever takes the shards has them alone; a panic loses them, and the section is not done
        let shards = std::mem::take(&mut *piece.lock().unwrap_or_else(PoisonError::into_inner));
        if shards.is_empty() {
            return None;
        }
        let mut pages = 0;
        for mut shard in shards {
            shard.write(writer, self.observer);
            pages += shard.runs().iter().map(|run| run.pfns().len()).sum::<u64>();
        }
        Some(Written { pages, free: None })
    }

    fn memory(&self, _: Range<u64>) -> Option<(&sys::Mapping, Range<usize>)> {
        None
    }
    /// A device's struct pages are [populated](DeviceMemmap::populate) beforehand.
    fn populate(&self, _: Range<u64>) -> Result<(), sys::SysError> {
        Ok(())
    }

    fn backing(&self) -> Option<&BackingChoice> {
        None
    }
}
