//! How long this host would take to write a memory map, by a short measurement.
//!
//! A made-up machine's map, small enough to be written in a moment, is written a few times by each
//! writer, in shuffled order on populated memory; what a page took is multiplied. `cargo xtask sweep`
//! measures properly.

use std::fmt;

use deferred_init::Topology;
use deferred_init::engine::{Engine, Outcome, RunOptions};
use deferred_init::plan::Plan;
use machine::size::ByteSize;
use machine::synthetic;
use memmap_core::{BackingOptions, Geometry, MemoryMap, writers};
use study::judge::orders;
use study::stats;

/// Rounds of each writer.
const ROUNDS: usize = 5;

/// Struct pages that are written at most: the map of 8 GiB takes 128 MiB.
const MOST: u64 = 8 << 30;

/// Least memory that a made-up machine is given.
const LEAST: u64 = 256 << 20;

/// What each writer is expected to take.
#[derive(Debug)]
pub(super) struct Expectation {
    /// Bytes of the map that was written.
    pub(super) measured: u64,
    /// Threads: one, and all there are.
    pub(super) threads: Vec<usize>,
    /// Writers with the median time of a page, ns, for each number of threads.
    pub(super) writers: Vec<(&'static str, Vec<f64>)>,
    /// Struct pages of the machine.
    pub(super) pages: u64,
}

impl Expectation {
    /// Measures; `None` where this host will not have it.
    pub(super) fn measure(bytes: u64, geometry: &Geometry) -> Option<Self> {
        let sections = geometry.sections();
        let pages = sections.count() * sections.pages_per_section();
        // No more than the machine itself has: a small map is written to caches, as it would be.
        let memory = (bytes * 64).clamp(LEAST, MOST);
        let layout = synthetic::even(ByteSize(memory), 1).ok()?;
        let geometry = Geometry::new(
            &layout.profile(),
            &layout.memblock().ok()?,
            &layout.boot_options(),
        )
        .ok()?;
        let plan = Plan::new(&geometry).ok()?;
        let map = MemoryMap::new(geometry, BackingOptions::default()).ok()?;
        let topology = Topology::host().ok()?;
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        let mut threads = vec![1, most];
        threads.dedup();
        Self::rounds(Engine::new(topology), map, &plan, threads, pages)
    }

    fn rounds(
        engine: Engine,
        mut map: MemoryMap,
        plan: &Plan,
        threads: Vec<usize>,
        pages: u64,
    ) -> Option<Self> {
        let mut run = |writer: usize, threads: usize| {
            map.reset();
            let mut options = RunOptions::new(writers::all()[writer]).threads(threads);
            options.records = false;
            options.sample_pages = 0;
            let report = engine.run(&map, plan, &options).ok()?;
            let done = report.outcome == Outcome::Complete && report.total().pages > 0;
            let total = report.total();
            done.then(|| {
                let ns = report.phases.write.as_nanos() as f64 / total.pages as f64;
                (ns, total.bytes)
            })
        };
        // The first touch is the host's time, not the writer's.
        let (_, measured) = run(0, *threads.last()?)?;
        let cells: Vec<(usize, usize)> = (0..writers::all().len())
            .flat_map(|writer| (0..threads.len()).map(move |at| (writer, at)))
            .collect();
        let mut times = vec![Vec::new(); cells.len()];
        for order in orders(1, cells.len()).take(ROUNDS) {
            for cell in order {
                let (writer, at) = cells[cell];
                times[cell].push(run(writer, threads[at])?.0);
            }
        }
        let median = |cell: usize| stats::median(&times[cell]).unwrap_or(0.0);
        let writers = writers::all()
            .iter()
            .enumerate()
            .map(|(writer, page_writer)| {
                let of = (0..threads.len()).map(|at| median(writer * threads.len() + at));
                (page_writer.name(), of.collect())
            });
        Some(Self {
            measured,
            writers: writers.collect(),
            threads,
            pages,
        })
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  to write it on this host, expect")?;
        for threads in &self.threads {
            let unit = if *threads == 1 { "thread" } else { "threads" };
            write!(f, "  {:>15}", format!("{threads} {unit}"))?;
        }
        writeln!(f)?;
        for (name, times) in &self.writers {
            write!(f, "    {name:30}")?;
            for ns in times {
                let ms = ns * self.pages as f64 / 1e6;
                write!(f, "  {:>15}", format!("{ms:.1} ms"))?;
            }
            writeln!(f)?;
        }
        writeln!(
            f,
            "  by {ROUNDS} rounds on a map of {} that was there already; `cargo xtask sweep` measures",
            ByteSize(self.measured)
        )
    }
}
