//! Time to plan a host of 216 nodes, by the number of its memory ranges: linear in ranges, whatever
//! the number of sections.
//!
//! What is timed is all that a run does before it wakes its workers: the plan of a geometry, and the plan
//! laid over a worker a core. With `--check` the exit status is 1 where it is not linear.

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use deferred_init::Topology;
use deferred_init::plan::{Plan, Work};
use deferred_init::topology::synthetic;
use deferred_init::workers::{Pinning, Seat, WorkerChoice, choose};
use machine::MachineLayout;
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::{BootOptions, Geometry, KernelVersion, Profile};
use study::judge::{Ratio, Rule, Samples};

type Error = Box<dyn std::error::Error>;

const NODES: u64 = 216;
/// Ranges, and sections of each. The first has a range a node: what it takes does not come of ranges.
const SIZES: [(u64, u64); 7] = [
    (NODES, 2),
    (2048, 2),
    (4096, 2),
    (8192, 2),
    (16384, 2),
    (32768, 2),
    (2048, 200),
];
/// From this place on each size of `SIZES` but the last has twice the ranges of the one before.
const DOUBLES: usize = 2;
/// Twice the ranges may cost so much: a tenth more than twice, for caches that no longer hold them.
const MOST_OF_TWICE: f64 = 2.2;
/// A hundred times the sections may cost so much.
const MOST_OF_SECTIONS: f64 = 1.1;

/// A host's workers, as many as it has cores.
struct Host {
    topology: Topology,
    seats: Vec<Seat>,
}

impl Host {
    fn new(text: &str) -> Result<Self, Error> {
        let topology = synthetic::parse(text)?;
        let wishes = WorkerChoice {
            pinning: Pinning::Off,
            ..WorkerChoice::default()
        };
        let seats = choose(&topology, &wishes)?;
        Ok(Self { topology, seats })
    }

    /// Nanoseconds of planning, and the plan's runs.
    fn plan(&self, geometry: &Geometry) -> Result<(f64, usize), Error> {
        let began = Instant::now();
        let plan = Plan::new(geometry)?;
        let work = Work::new(&plan, &self.topology, &self.seats, plan.default_grain());
        black_box(work.sections());
        let time = began.elapsed();
        Ok((time.as_nanos() as f64, plan.runs().len()))
    }
}

/// A machine of so many ranges on 216 nodes, with a hole of a section after each.
fn machine(ranges: u64, sections: u64) -> Result<Geometry, Error> {
    let profile = Profile::amd64(KernelVersion::V6_12);
    let section = profile.pages_per_section() * profile.page_size();
    let mut memory = Memblock::new(Behaviour::V6_12);
    for range in 0..ranges {
        let start = PhysAddr::new(range * (sections + 1) * section);
        memory.add_node(
            PhysRange::from_size(start, sections * section),
            NodeId::new((range * NODES / ranges) as u16),
            MemblockFlags::empty(),
        )?;
    }
    Ok(Geometry::new(&profile, &memory, &BootOptions::default())?)
}

/// One line, and whether it keeps within `most`.
fn line(what: &str, ratio: &Ratio, most: f64) -> bool {
    let holds = ratio.at_most(most);
    println!(
        "{what}: {:.3} [{:.3}, {:.3}] of {} rounds, at most {most}: {}",
        ratio.median,
        ratio.low,
        ratio.high,
        ratio.rounds,
        if holds { "holds" } else { "DOES NOT HOLD" },
    );
    holds
}

/// Plans made-up hosts, and says whether that is linear in ranges.
fn judge() -> Result<bool, Error> {
    let host = Host::new("numa:216(memory=1T) core:4")?;
    let machines: Vec<Geometry> = SIZES
        .iter()
        .map(|&(ranges, sections)| machine(ranges, sections))
        .collect::<Result<_, _>>()?;
    let mut failed = None;
    let samples = Samples::collect(&Rule::default(), SIZES.len(), |size, _| {
        match host.plan(&machines[size]) {
            Ok((ns, _)) => ns,
            Err(error) => {
                failed = failed.take().or(Some(error));
                f64::NAN
            }
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let samples = samples?;
    println!("ranges  sections     runs  time us  ns a range");
    for (size, &(ranges, sections)) in SIZES.iter().enumerate() {
        let (ns, (_, runs)) = (samples.time(size)?, host.plan(&machines[size])?);
        println!(
            "{ranges:6} {:9} {runs:8} {:8.1} {:11.1}",
            ranges * sections,
            ns / 1e3,
            ns / ranges as f64
        );
    }
    let mut linear = true;
    let last = SIZES.len() - 1;
    for size in DOUBLES..last {
        let what = format!("{} over {} ranges", SIZES[size].0, SIZES[size - 1].0);
        linear &= line(&what, &samples.cost(size, size - 1)?, MOST_OF_TWICE);
    }
    let ratio = samples.cost(last, 1)?;
    linear &= line("a hundred times the sections", &ratio, MOST_OF_SECTIONS);
    Ok(linear)
}

/// Plans the hosts of 16 nodes whose boot logs are there.
fn logs() -> Result<(), Error> {
    let host = Host::new("numa:16(memory=1T) core:18")?;
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/dmesg"));
    let Ok(entries) = std::fs::read_dir(folder) else {
        println!("SKIPPED: there are no boot logs in {}", folder.display());
        return Ok(());
    };
    let mut logs: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    logs.sort();
    for log in logs {
        let name = log.file_name().unwrap_or_default().to_string_lossy();
        if !name.contains("-16node-") {
            continue;
        }
        let geometry = MachineLayout::open(&log).ok().and_then(|layout| {
            let memblock = layout.memblock().ok()?;
            Geometry::new(&layout.profile(), &memblock, &BootOptions::default()).ok()
        });
        let Some(geometry) = geometry else {
            println!("{name}: SKIPPED, it gives no ranges of memory");
            continue;
        };
        let times: Vec<f64> = (0..MEASURED)
            .map(|_| Ok(host.plan(&geometry)?.0))
            .collect::<Result<_, Error>>()?;
        let ns = study::stats::median(&times).unwrap_or(f64::NAN);
        let ranges = geometry.memory().len();
        println!(
            "{name}: {ranges} ranges, {} sections: {:.1} us",
            geometry.sections().count(),
            ns / 1e3
        );
    }
    Ok(())
}

/// How often a boot log's host is planned.
const MEASURED: usize = 61;

fn main() -> ExitCode {
    let check = std::env::args().any(|argument| argument == "--check");
    match judge().and_then(|linear| logs().map(|()| linear)) {
        Ok(linear) if check && !linear => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plan: {error}");
            ExitCode::from(2)
        }
    }
}
