//! What the engine costs over a plain loop, and what a second worker brings.
//!
//! Both sides write the same sections of the same populated map on the same CPU. The plain loop has
//! claimed all sections before its clock starts and publishes them after it stopped, so that it does
//! nothing but write; the engine's side is all of it: making the plan, handing out work, claiming,
//! publishing, the report. The bound goes by the time on the wall; processor time of the whole process
//! stands beside it, since on a host whose processors are wanted by others a handing over from thread
//! to thread takes as long as they like.
//!
//! What a second worker brings is bounded by what the machine has to give: two CPUs that share a core, or
//! that others use, are not two. So beside the engine's two workers stand two plain loops on the same
//! CPUs, each on its own half of the same memory; where those do not reach the bound either, nothing is
//! said about the engine.

use std::fmt;
use std::time::{Duration, Instant};

use deferred_init::Topology;
use deferred_init::engine::{Engine, FaultPhase, RunOptions, SpanDetail};
use deferred_init::plan::Plan;
use deferred_init::schedule;
use deferred_init::workers::{Crew, Pinning, WorkerChoice, choose};
use memmap_core::writers;
use memmap_core::{KernelVersion, MemoryMap, Profile};
use study::judge::{Ratio, Rule, Samples};
use study::stats;

use crate::populated;

mod plain;
mod scaling;

use plain::plain;

/// The engine may cost so much.
const MOST_COST: f64 = 1.01;
/// Two workers must be so much faster than one where the map is in the cache.
const LEAST_SPEED: f64 = 1.8;

/// What to measure.
#[derive(Debug, clap::Parser)]
#[command(name = "overhead", about = "What the engine costs over a plain loop")]
pub struct Options {
    /// Struct pages to write, MiB
    #[arg(long, default_value_t = 1024)]
    pub mebibytes: u64,
    /// Struct pages that stay in the last-level cache, MiB
    #[arg(long, default_value_t = 16)]
    pub cached: u64,
    /// Struct pages that no cache holds, MiB; 0 to leave that out
    #[arg(long, default_value_t = 1024)]
    pub bound: u64,
    /// Rounds of the judging rule
    #[arg(long, default_value_t = 301)]
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
    processor: Ratio,
    parts: Parts,
    cached: u64,
    /// `None` where there is one CPU only.
    speed: Option<scaling::Speed>,
    bound: u64,
    /// `None` where there is one CPU only, or it was left out.
    scaling: Option<scaling::Scaling>,
}

/// Where a run's time goes beside writing: medians, in µs.
#[derive(Clone, Copy, Debug)]
struct Parts {
    /// Before the first worker starts and after the last one ends: plan, waking, report.
    around: f64,
    /// Between the pieces of work.
    between: f64,
    /// In the pieces of work: all there is to a section beside its struct pages, and noise.
    within: f64,
}

impl Figures {
    /// Whether the bounds hold, as far as they can be judged on this host.
    pub fn holds(&self) -> bool {
        let speed = |speed: scaling::Speed| speed.holds(LEAST_SPEED) != Some(false);
        self.cost.at_most(MOST_COST) && self.speed.is_none_or(speed)
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
        let time = self.processor;
        writeln!(
            f,
            "  in processor time:    {:.4} [{:.4}, {:.4}]",
            time.median, time.low, time.high
        )?;
        writeln!(
            f,
            "  of which before the start and after the end {:.0} us, between sections {:.0} us, \
             in them {:.0} us",
            self.parts.around, self.parts.between, self.parts.within,
        )?;
        match self.speed {
            Some(speed) => writeln!(f, "{} ({} MiB)", speed.against(LEAST_SPEED), self.cached),
            None => writeln!(f, "two workers over one:   not measured, there is one CPU"),
        }?;
        match &self.scaling {
            Some(scaling) => writeln!(f, "{scaling} ({} MiB)", self.bound),
            None => Ok(()),
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
    run_options.spans = SpanDetail::Off;

    let profile = Profile::amd64(KernelVersion::V6_12);
    let mut map = populated(&engine, &profile, options.mebibytes)?;
    let (cost, processor, parts) = cost(&engine, &mut map, &run_options, &rule)?;
    drop(map);

    let several = engine.topology().allowed_cpus.len() > 1;
    let speed = match several {
        false => None,
        true => {
            let mut map = populated(&engine, &profile, options.cached)?;
            Some(scaling::speed(&engine, &mut map, &run_options, &rule)?)
        }
    };
    let scaling = match several && options.bound > 0 {
        false => None,
        true => {
            let mut map = populated(&engine, &profile, options.bound)?;
            let found = scaling::beside_limit(&engine, &mut map, &run_options, &rule)?;
            Some(found)
        }
    };
    Ok(Figures {
        writer: writer.name(),
        scheduler: scheduler.name(),
        mebibytes: options.mebibytes,
        cost,
        processor,
        parts,
        cached: options.cached,
        speed,
        bound: options.bound,
        scaling,
    })
}

/// Time of a whole run, plan included, over that of a plain loop: on the wall, and of processors.
fn cost(
    engine: &Engine,
    map: &mut MemoryMap,
    options: &RunOptions<'_>,
    rule: &Rule,
) -> Result<(Ratio, Ratio, Parts), Error> {
    let one = options.clone().threads(1);
    let seats = choose(engine.topology(), &WorkerChoice::threads(1))?;
    let crew = Crew::new(&seats, Pinning::Required)?;
    let mut failed = None;
    let mut processor = vec![Vec::new(), Vec::new()];
    let mut parts = [Vec::new(), Vec::new(), Vec::new()];
    let samples = Samples::collect(rule, 2, |contestant, _| {
        map.reset();
        let (wall, time) = match contestant {
            0 => {
                let took = plain(map, &crew, options.writer);
                (took.wall, took.processor)
            }
            _ => {
                let (began, used) = (Instant::now(), sys::process_time());
                let done = Plan::new(map.geometry())
                    .map_err(Error::from)
                    .and_then(|plan| Ok(engine.run(map, &plan, &one)?));
                let times = (began.elapsed(), sys::process_time().saturating_sub(used));
                match done {
                    Ok(report) => {
                        let (write, busy) = (report.phases.write, report.total().busy_ns);
                        let busy = Duration::from_nanos(busy);
                        parts[0].push(times.0.saturating_sub(write).as_secs_f64() * 1e6);
                        parts[1].push(write.saturating_sub(busy).as_secs_f64() * 1e6);
                        parts[2].push(busy.as_secs_f64() * 1e6);
                    }
                    Err(error) => failed = failed.take().or(Some(error)),
                }
                times
            }
        };
        processor[contestant].push(time.as_secs_f64());
        wall.as_secs_f64()
    })?;
    let processor = Samples::from_times(rule, processor)?;
    match failed {
        Some(error) => Err(error),
        None => {
            let [around, between, busy] = parts.map(|times| stats::median(&times).unwrap_or(0.0));
            let parts = Parts {
                around,
                between,
                within: busy - samples.time(0)? * 1e6,
            };
            Ok((samples.cost(1, 0)?, processor.cost(1, 0)?, parts))
        }
    }
}
