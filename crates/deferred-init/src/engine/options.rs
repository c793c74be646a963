//! How a run is to go.

use memmap_core::writers::PageWriter;

use super::{CancelToken, Placement};
use crate::schedule::{Scheduler, Static};
use crate::workers::WorkerChoice;

/// Whether pages are faulted before they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FaultPhase {
    /// In a phase of its own, timed apart, by workers of the page's node.
    #[default]
    Before,
    /// By the page writer as it goes: the first write of a page then takes the fault's time too.
    WhileWriting,
}

/// For what a `tracing` span is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SpanDetail {
    /// A span a section; a span a run of sections where a section has less than 1 MiB to write.
    #[default]
    Auto,
    /// A span a section however small.
    EverySection,
    /// None at all, not even for the run: what spans cost is measured against it.
    Off,
}

/// How a run is to go.
#[derive(Clone, Debug)]
pub struct RunOptions<'a> {
    /// Which workers there are.
    pub workers: WorkerChoice,
    /// What they write with.
    pub writer: &'a dyn PageWriter,
    /// Who writes what.
    pub scheduler: &'a dyn Scheduler,
    /// Where struct pages are to lie.
    pub placement: Placement,
    /// When pages are faulted.
    pub fault: FaultPhase,
    /// Whether huge pages are asked for.
    pub huge_pages: sys::HugePages,
    /// Whether free pages are handed over: heads of free blocks are written as such, and the report
    /// has the sections' free lists for [`Report::join`](super::Report::join). Devices have no free
    /// pages.
    pub hand_over: bool,
    /// Sections that a worker takes at once; `None` for as many as make 1 MiB.
    pub grain: Option<u64>,
    /// For what spans are made.
    pub spans: SpanDetail,
    /// Whether the report has a record a section.
    pub records: bool,
    /// How many pages are asked where they lie after the run; 0 for none.
    pub sample_pages: usize,
    /// What stops the run from outside.
    pub cancel: CancelToken,
}

impl<'a> RunOptions<'a> {
    /// Pinned workers on all allowed CPUs, equal shares, pages faulted first and left where they fall.
    pub fn new(writer: &'a dyn PageWriter) -> Self {
        Self {
            workers: WorkerChoice::default(),
            writer,
            scheduler: &Static,
            placement: Placement::default(),
            fault: FaultPhase::default(),
            huge_pages: sys::HugePages::default(),
            hand_over: false,
            grain: None,
            spans: SpanDetail::default(),
            records: true,
            sample_pages: 1024,
            cancel: CancelToken::new(),
        }
    }

    /// With so many workers.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.workers.threads = Some(threads);
        self
    }

    /// With this scheduler.
    #[must_use]
    pub fn scheduler(mut self, scheduler: &'a dyn Scheduler) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// With struct pages placed so.
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// With free pages handed over.
    #[must_use]
    pub fn hand_over(mut self) -> Self {
        self.hand_over = true;
        self
    }
}
