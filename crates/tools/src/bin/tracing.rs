//! What spans cost: none at all beside spans without a subscriber, with figures, with a timeline.
//!
//! By the judging rule: whole runs of the engine over one populated map, in shuffled rounds. What
//! everything is compared with is a run that has no spans at all. Identical code differs by up to 2 %
//! from run to run, which is printed as well: "not measurable" is what stays within that.

#![forbid(unsafe_code)]

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use deferred_init::Topology;
use deferred_init::engine::{Engine, FaultPhase, RunOptions, SpanDetail};
use deferred_init::plan::Plan;
use deferred_init::trace::{Aggregate, Timeline};
use memmap_core::{KernelVersion, MemoryMap, Profile, writers};
use study::judge::{MIN_ROUNDS, Ratio, Rule, Samples};
use tools::populated;
use tracing::Dispatch;
use tracing::dispatcher::with_default;
use tracing_subscriber::layer::SubscriberExt;

/// What spans cost.
#[derive(Debug, Parser)]
struct Arguments {
    /// Struct pages to write, in MiB.
    #[arg(long, default_value_t = 256)]
    mebibytes: u64,
    /// Rounds; 61 at least.
    #[arg(long, default_value_t = MIN_ROUNDS)]
    rounds: usize,
    /// Workers.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The page writer.
    #[arg(long, default_value = "stream")]
    writer: String,
    /// Fail where a bound does not hold.
    #[arg(long)]
    check: bool,
}

/// What cannot be told from identical code.
const NOTHING: f64 = 1.02;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) if arguments.check => ExitCode::FAILURE,
        Ok(false) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tracing: {error}");
            ExitCode::from(2)
        }
    }
}

/// Somebody who takes part: what spans it has, and who sees them.
type Contestant<'a> = (SpanDetail, Option<(&'a Dispatch, &'a dyn Fn())>);

/// Times of whole runs, µs.
fn measure(
    engine: &Engine,
    map: &mut MemoryMap,
    options: &RunOptions<'_>,
    rounds: usize,
    contestants: &[Contestant<'_>],
) -> Result<Samples, Box<dyn Error>> {
    let plan = Plan::new(map.geometry())?;
    let rule = Rule {
        rounds,
        ..Rule::default()
    };
    let mut failed = None;
    let samples = Samples::collect(&rule, contestants.len(), |contestant, _| {
        map.reset();
        let (spans, seen) = contestants[contestant];
        let mut options = options.clone();
        options.spans = spans;
        let run = || engine.run(map, &plan, &options);
        let report = match seen {
            Some((dispatch, _)) => with_default(dispatch, run),
            None => run(),
        };
        if let Some((_, forget)) = seen {
            forget();
        }
        match report {
            Ok(report) => report.phases.write.as_secs_f64(),
            Err(error) => {
                failed = failed.take().or(Some(error));
                f64::NAN
            }
        }
    });
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(samples?),
    }
}

fn line(what: &str, cost: &Ratio, bound: Option<f64>) -> bool {
    let holds = bound.is_none_or(|bound| cost.at_most(bound));
    let verdict = match (bound, holds) {
        (None, _) => String::new(),
        (Some(bound), true) => format!(", at most {bound}: holds"),
        (Some(bound), false) => format!(", at most {bound}: DOES NOT HOLD"),
    };
    println!(
        "  {what:<38} {:.4} [{:.4}, {:.4}]{verdict}",
        cost.median, cost.low, cost.high
    );
    holds
}

fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let engine = Engine::new(Topology::host()?);
    let writer = writers::by_name(&arguments.writer)
        .ok_or_else(|| format!("there is no page writer {:?}", arguments.writer))?;
    let mut options = RunOptions::new(writer).threads(arguments.threads);
    options.fault = FaultPhase::WhileWriting;
    options.sample_pages = 0;
    options.records = false;
    let rounds = arguments.rounds;
    let (off, auto, each) = (SpanDetail::Off, SpanDetail::Auto, SpanDetail::EverySection);

    let large = Profile::amd64(KernelVersion::V6_12);
    let small = Profile::ppc64_64k(KernelVersion::V6_12);
    let mut holds = true;
    println!(
        "time over that of a run without spans, {rounds} rounds, writer {}, {} threads",
        arguments.writer, arguments.threads
    );
    // before there is any subscriber: with one alive somewhere, spans look for it
    let mut map = populated(&engine, &large, arguments.mebibytes)?;
    let unseen = [(off, None), (off, None), (auto, None)];
    let samples = measure(&engine, &mut map, &options, rounds, &unseen)?;
    println!("sections of 2 MiB of struct pages, a span each:");
    line("(identical code)", &samples.cost(1, 0)?, None);
    holds &= line("no subscriber", &samples.cost(2, 0)?, Some(NOTHING));
    drop(map);
    let mut map = populated(&engine, &small, arguments.mebibytes)?;
    let unseen = [(off, None), (auto, None), (each, None)];
    let bare = measure(&engine, &mut map, &options, rounds, &unseen)?;
    drop(map);

    let (aggregate, timeline) = (Aggregate::new(), Timeline::new());
    let registry = tracing_subscriber::registry;
    let figures = Dispatch::new(registry().with(aggregate.clone()));
    let drawing = Dispatch::new(registry().with(timeline.clone()));
    let (forget_figures, forget_drawing) = (|| aggregate.clear(), || timeline.clear());
    let figures: Option<(&Dispatch, &dyn Fn())> = Some((&figures, &forget_figures));
    let drawing: Option<(&Dispatch, &dyn Fn())> = Some((&drawing, &forget_drawing));
    let mut map = populated(&engine, &large, arguments.mebibytes)?;
    let seen = [(off, None), (auto, figures), (auto, drawing)];
    let samples = measure(&engine, &mut map, &options, rounds, &seen)?;
    holds &= line("aggregating layer", &samples.cost(1, 0)?, Some(1.03));
    holds &= line("timeline layer", &samples.cost(2, 0)?, Some(1.06));
    drop(map);

    println!("sections of 14 KiB of struct pages:");
    line("a span a run, no subscriber", &bare.cost(1, 0)?, None);
    line("a span a section, no subscriber", &bare.cost(2, 0)?, None);
    let mut map = populated(&engine, &small, arguments.mebibytes)?;
    let seen = [
        (off, None),
        (auto, figures),
        (each, figures),
        (auto, drawing),
        (each, drawing),
    ];
    let samples = measure(&engine, &mut map, &options, rounds, &seen)?;
    for (at, what) in [
        "a span a run, aggregating layer",
        "a span a section, aggregating layer",
        "a span a run, timeline layer",
        "a span a section, timeline layer",
    ]
    .iter()
    .enumerate()
    {
        line(what, &samples.cost(at + 1, 0)?, None);
    }
    Ok(holds)
}
