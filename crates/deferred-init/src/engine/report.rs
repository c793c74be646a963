//! What a run did, and how fast.

use std::fmt;
use std::time::{Duration, Instant};

use memblock::NodeId;
use memmap_core::BackingChoice;
use memmap_core::buddy::{Allocator, HandOver, SectionFree, StructPages};
use sys::SysError;

use super::PlacementReport;
use crate::schedule::Tally;
use crate::workers::{PinFailure, Seat};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It went through the whole plan: every section that was pending is written. Those that somebody
    /// else had claimed or written are counted as skipped ([`Report::skipped`]); whoever claimed one may
    /// still be writing it, or give it up.
    Complete,
    /// It was cancelled; the map can be completed by another run.
    Cancelled,
    /// A worker panicked; its section is pending again, and the map can be completed by another run.
    Panicked {
        /// The worker.
        seat: Seat,
        /// The section that it was writing.
        section: u64,
        /// What it said.
        message: String,
    },
    /// Memory for struct pages could not be had; the map can be completed by another run.
    NoMemory {
        /// The worker.
        seat: Seat,
        /// What the system said.
        error: SysError,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("complete"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Panicked {
                seat,
                section,
                message,
            } => write!(f, "worker {seat} panicked in section {section}: {message}"),
            Self::NoMemory { seat, error } => write!(f, "worker {seat} had no memory: {error}"),
        }
    }
}

/// The parts of a run's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Saying where struct pages are to lie. Reserving address space is the map's own time.
    pub map: Duration,
    /// Putting pages behind the address space; zero where writers did that as they went.
    pub fault: Duration,
    /// Writing struct pages: from the first worker's start to the last one's end.
    pub write: Duration,
    /// Joining the sections' free lists; zero until [`Report::join`] did that.
    pub join: Duration,
}

/// Sections that were written in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionRecord {
    /// The first section.
    pub section: u64,
    /// How many sections: 1 unless sections are small.
    pub count: u32,
    /// The worker that wrote them.
    pub worker: u32,
    /// When it began, ns after the start.
    pub begin_ns: u64,
    /// How long it took, ns.
    pub ns: u64,
}

/// Work and time of a worker or a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Sections written.
    pub sections: u64,
    /// Struct pages written.
    pub pages: u64,
    /// Bytes of struct pages written.
    pub bytes: u64,
    /// Time spent writing, ns; summed over workers.
    pub busy_ns: u64,
    /// The longest time of one piece of work, ns.
    pub longest_ns: u64,
}

impl Volume {
    /// Time of one worker for a struct page, ns.
    pub fn ns_a_page(&self) -> f64 {
        match self.pages {
            0 => 0.0,
            pages => self.busy_ns as f64 / pages as f64,
        }
    }

    /// Bytes a ns (GB/s) that one worker wrote.
    pub fn gb_a_second(&self) -> f64 {
        match self.busy_ns {
            0 => 0.0,
            ns => self.bytes as f64 / ns as f64,
        }
    }

    /// Adds another's work.
    pub fn add(&mut self, other: &Self) {
        self.sections += other.sections;
        self.pages += other.pages;
        self.bytes += other.bytes;
        self.busy_ns += other.busy_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// What a worker did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerReport {
    /// The worker.
    pub seat: Seat,
    /// What it wrote.
    pub volume: Volume,
    /// When it was done with all, ns after the start; 0 where it did nothing.
    pub end_ns: u64,
}

/// What was written for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The node whose memory holds the struct pages.
    pub node: NodeId,
    /// The node whose workers wrote them.
    pub served_by: NodeId,
    /// What was written.
    pub volume: Volume,
    /// When the last of it was written, ns after the start.
    pub end_ns: u64,
}

/// What a run did, and how fast.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Name of the page writer.
    pub writer: &'static str,
    /// Name of the scheduler.
    pub scheduler: &'static str,
    /// Sections of the plan.
    pub planned: u64,
    /// Sections that somebody else had written, or was writing.
    pub skipped: u64,
    /// The parts of its time.
    pub phases: Phases,
    /// By worker, in the order of nodes and ranks.
    pub workers: Vec<WorkerReport>,
    /// By node, ascending.
    pub nodes: Vec<NodeReport>,
    /// By section, where asked for, in the order of sections.
    pub records: Vec<SectionRecord>,
    /// Free lists of the sections that were handed over and not yet joined, in the order of
    /// sections.
    pub free: Vec<SectionFree>,
    /// What the scheduler counted.
    pub tally: Tally,
    /// Workers that could not be pinned.
    pub unpinned: Vec<PinFailure>,
    /// Which memory struct pages lie in, and why; `None` for a device's.
    pub backing: Option<BackingChoice>,
    /// Where struct pages lie, where asked for.
    pub placement: PlacementReport,
}

impl Report {
    /// What all workers wrote.
    pub fn total(&self) -> Volume {
        let mut total = Volume::default();
        for worker in &self.workers {
            total.add(&worker.volume);
        }
        total
    }

    /// Joins the free lists of all sections that this run handed over to those of `allocator`, in
    /// pfn order: the same lists, and the same links in the heads of free blocks, whoever wrote
    /// which section.
    ///
    /// Where several runs share the work, the order is that of one run only if their lists are put
    /// together first: append the others' [`free`](Self::free), sorted by section, to this one's.
    #[doc(alias = "deferred_free_pages")]
    pub fn join<P: StructPages>(&mut self, allocator: &Allocator<P>, plan: &HandOver<'_>) {
        let began = Instant::now();
        for free in self.free.drain(..) {
            allocator.join(plan, &free);
        }
        self.phases.join += began.elapsed();
    }

    /// Sections of the plan that are still to be written.
    pub fn left(&self) -> u64 {
        self.planned - self.skipped - self.total().sections
    }

    /// The longest time that a worker wrote without a point at which it could be stopped: one piece of
    /// work.
    #[doc(alias = "cond_resched")]
    pub fn worst_stretch(&self) -> Duration {
        let longest = self.workers.iter().map(|worker| worker.volume.longest_ns);
        Duration::from_nanos(longest.max().unwrap_or(0))
    }

    /// Time for a struct page over all workers, ns.
    pub fn ns_a_page(&self) -> f64 {
        match self.total().pages {
            0 => 0.0,
            pages => self.phases.write.as_nanos() as f64 / pages as f64,
        }
    }

    /// Bytes a ns (GB/s) over all workers.
    pub fn gb_a_second(&self) -> f64 {
        match self.phases.write.as_nanos() {
            0 => 0.0,
            ns => self.total().bytes as f64 / ns as f64,
        }
    }
}

/// A line for the whole, a line a node, a line a worker, and where the struct pages lie.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        writeln!(
            f,
            "{}: {} of {} sections, {} pages in {:.3} ms ({:.3} ns a page, {:.2} GB/s), {} on {} workers, writer {}",
            self.outcome,
            total.sections,
            self.planned,
            total.pages,
            self.phases.write.as_secs_f64() * 1e3,
            self.ns_a_page(),
            self.gb_a_second(),
            self.scheduler,
            self.workers.len(),
            self.writer,
        )?;
        write!(
            f,
            "map {:.3} ms, fault {:.3} ms, write {:.3} ms",
            self.phases.map.as_secs_f64() * 1e3,
            self.phases.fault.as_secs_f64() * 1e3,
            self.phases.write.as_secs_f64() * 1e3,
        )?;
        if !self.phases.join.is_zero() {
            write!(f, ", join {:.3} ms", self.phases.join.as_secs_f64() * 1e3)?;
        }
        writeln!(f)?;
        for node in &self.nodes {
            write!(f, "node {}: {} sections", node.node, node.volume.sections)?;
            if node.served_by != node.node {
                write!(f, " by workers of node {}", node.served_by)?;
            }
            writeln!(f, ", done after {:.3} ms", node.end_ns as f64 / 1e6)?;
        }
        for worker in &self.workers {
            writeln!(
                f,
                "{} on CPU {}: {} sections, {:.3} ns a page, {:.2} GB/s",
                worker.seat,
                worker.seat.cpu,
                worker.volume.sections,
                worker.volume.ns_a_page(),
                worker.volume.gb_a_second(),
            )?;
        }
        if self.tally.cross_node_steals > 0 {
            writeln!(
                f,
                "{} sections were taken from other nodes",
                self.tally.cross_node_sections
            )?;
        }
        for failure in &self.unpinned {
            writeln!(f, "{failure}")?;
        }
        if let Some(instead @ BackingChoice::HeapInstead(_)) = &self.backing {
            writeln!(f, "struct pages lie on {instead}")?;
        }
        write!(f, "{}", self.placement)
    }
}
