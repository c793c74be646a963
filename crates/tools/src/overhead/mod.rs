//! What the engine costs over a plain loop, and what a second worker brings.
//!
//! Both sides write the same sections of the same populated map on the same CPU. The plain loop has
//! claimed all sections before its clock starts and publishes them after it stopped, so that it does
//! nothing but write; the engine's side is all of it: making the plan, handing out work, claiming,
//! publishing, the report.

use std::fmt;
use std::sync::Mutex;
use std::time::Instant;

use deferred_init::Topology;
use deferred_init::engine::{Engine, FaultPhase, Outcome, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::schedule;
use deferred_init::workers::{Crew, Pinning, WorkerChoice, choose};
use memblock::{Behaviour, Memblock, MemblockFlags, PhysAddr, PhysRange};
use memmap_core::writers::{self, PageWriter};
use memmap_core::{BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile};
use study::judge::{Ratio, Rule, Samples};

/// The engine may cost so much.
const MOST_COST: f64 = 1.01;
/// Two workers must be so much faster than one where the map is in the cache.
const LEAST_SPEED: f64 = 1.8;

/// What to measure.
#[derive(Debug, clap::Parser)]
#[command(name = "overhead", about = "What the engine costs over a plain loop")]
pub struct Options {
    /// Struct pages to write, MiB
    #[arg(long, default_value_t = 256)]
    pub mebibytes: u64,
    /// Struct pages that stay in the cache, MiB
    #[arg(long, default_value_t = 16)]
    pub cached: u64,
    /// Rounds of the judging rule
    #[arg(long, default_value_t = 61)]
    pub rounds: usize,
    /// Page writer
    #[arg(long, default_value = "template")]
    pub writer: String,
    /// Scheduler
    #[arg(long, default_value = "static")]
    pub scheduler: String,
    /// Exit with 1 where a bound does not hold
    #[arg(long)]
    pub check: bool,
}

/// What was found.
#[derive(Debug)]
pub struct Figures {
    writer: &'static str,
    scheduler: &'static str,
    mebibytes: u64,
    cost: Ratio,
    cached: u64,
    /// `None` where there is one CPU only.
    speed: Option<Ratio>,
}

impl Figures {
    /// Whether the bounds hold.
    pub fn holds(&self) -> bool {
        self.cost.at_most(MOST_COST) && self.speed.is_none_or(|speed| speed.at_least(LEAST_SPEED))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = |holds| if holds { "holds" } else { "DOES NOT HOLD" };
        let cost = self.cost;
        writeln!(
            f,
            "engine over plain loop: {:.4} [{:.4}, {:.4}] of {} rounds, at most {MOST_COST}: {} ({} MiB, writer {}, scheduler {})",
            cost.median,
            cost.low,
            cost.high,
            cost.rounds,
            verdict(cost.at_most(MOST_COST)),
            self.mebibytes,
            self.writer,
            self.scheduler,
        )?;
        match self.speed {
            Some(speed) => writeln!(
                f,
                "two workers over one:   {:.3} [{:.3}, {:.3}] of {} rounds, at least {LEAST_SPEED}: {} ({} MiB)",
                speed.median,
                speed.low,
                speed.high,
                speed.rounds,
                verdict(speed.at_least(LEAST_SPEED)),
                self.cached,
            ),
            None => writeln!(f, "two workers over one:   not measured, there is one CPU"),
        }
    }
}

type Error = Box<dyn std::error::Error>;

/// Measures.
///
/// # Errors
/// Whatever a map, a crew or the judge refuses, in words.
pub fn run(options: &Options) -> Result<Figures, Error> {
    let named = |what: &str, name: &str| format!("no {what} is named {name}");
    let writer =
        writers::by_name(&options.writer).ok_or_else(|| named("page writer", &options.writer))?;
    let scheduler = schedule::by_name(&options.scheduler)
        .ok_or_else(|| named("scheduler", &options.scheduler))?;
    let engine = Engine::new(Topology::host()?);
    let rule = Rule {
        rounds: options.rounds,
        ..Rule::default()
    };
    let mut run_options = RunOptions::new(writer).scheduler(scheduler);
    run_options.fault = FaultPhase::WhileWriting;
    run_options.sample_pages = 0;

    let mut map = map(&engine, options.mebibytes)?;
    let cost = cost(&engine, &mut map, &run_options, &rule)?;
    drop(map);

    let speed = match engine.topology().allowed_cpus.len() {
        0 | 1 => None,
        _ => {
            let mut map = self::map(&engine, options.cached)?;
            Some(speed(&engine, &mut map, &run_options, &rule)?)
        }
    };
    Ok(Figures {
        writer: writer.name(),
        scheduler: scheduler.name(),
        mebibytes: options.mebibytes,
        cost,
        cached: options.cached,
        speed,
    })
}

/// A populated map of so many MiB on the host's first node, written once.
fn map(engine: &Engine, mebibytes: u64) -> Result<MemoryMap, Error> {
    let node = engine
        .topology()
        .nodes
        .first()
        .ok_or("the host has no node")?
        .id;
    // 64 bytes for 4096 bytes
    let memory_bytes = (mebibytes << 20) * 64;
    let mut memory = Memblock::new(Behaviour::V6_12);
    memory.add_node(
        PhysRange::from_size(PhysAddr::new(4 << 30), memory_bytes),
        node,
        MemblockFlags::empty(),
    )?;
    let profile = Profile::amd64(KernelVersion::V6_12);
    let geometry = Geometry::new(&profile, &memory, &BootOptions::default())?;
    let map = MemoryMap::new(geometry, BackingOptions::default())?;
    let plan = Plan::new(map.geometry())?;
    let first = writers::by_name("zero").ok_or("there is no writer zero")?;
    let report = engine.run(&map, &plan, &RunOptions::new(first).threads(1))?;
    match report.outcome {
        Outcome::Complete => Ok(map),
        other => Err(other.to_string().into()),
    }
}

/// Time of a whole run, plan included, over that of a plain loop.
fn cost(
    engine: &Engine,
    map: &mut MemoryMap,
    options: &RunOptions<'_>,
    rule: &Rule,
) -> Result<Ratio, Error> {
    let one = options.clone().threads(1);
    let seats = choose(engine.topology(), &WorkerChoice::threads(1))?;
    let crew = Crew::new(&seats, Pinning::Required)?;
    let mut failed = None;
    let samples = Samples::collect(rule, 2, |contestant, _| {
        map.reset();
        match contestant {
            0 => plain(map, &crew, options.writer),
            _ => {
                let began = Instant::now();
                let done = Plan::new(map.geometry())
                    .map_err(Error::from)
                    .and_then(|plan| Ok(engine.run(map, &plan, &one)?));
                let time = began.elapsed().as_secs_f64();
                failed = failed.take().or(done.err());
                time
            }
        }
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(samples.cost(1, 0)?),
    }
}

/// Seconds of writing all sections one after the other, and nothing else, on the crew's worker.
fn plain(map: &MemoryMap, crew: &Crew, writer: &dyn PageWriter) -> f64 {
    let mut claims: Vec<_> = map
        .geometry()
        .sections()
        .iter()
        .filter_map(|section| map.claim(section))
        .collect();
    let work = Mutex::new((&mut claims, 0.0));
    crew.each(&|_| {
        let mut work = work
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let began = Instant::now();
        for claim in work.0.iter_mut() {
            claim.write(writer);
        }
        work.1 = began.elapsed().as_secs_f64();
    });
    let time = work
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .1;
    for claim in claims {
        claim.publish();
    }
    time
}

/// How much faster two workers write than one, from the first one's start to the last one's end.
fn speed(
    engine: &Engine,
    map: &mut MemoryMap,
    options: &RunOptions<'_>,
    rule: &Rule,
) -> Result<Ratio, Error> {
    let plan = Plan::new(map.geometry())?;
    let mut failed = None;
    let samples = Samples::collect(rule, 2, |contestant, _| {
        map.reset();
        match engine.run(map, &plan, &options.clone().threads(contestant + 1)) {
            Ok(report) => report.phases.write.as_secs_f64(),
            Err(error) => {
                failed = failed.take().or(Some(error));
                f64::NAN
            }
        }
    });
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(samples?.speed(1, 0)?),
    }
}
