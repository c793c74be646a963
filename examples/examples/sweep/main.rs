//! Initialises a memory map with every page writer on 1, 2, 4, … pinned threads.

mod args;
mod report;
mod say;

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use deferred_init::Topology;
use deferred_init::workers::{Pinning, choose};
use examples::front::{self, FAILED, Failure, unsaid, unusable};
use examples::keep::Keep;
use examples::machines::{self, Input, InputError};
use examples::trace::Trace;
use study::analysis::Analysis;
use study::design::{Design, Machine, Pages, Place, Rounds, Threads};
use study::record::Host;
use study::run::{self, Conditions, Ended, Study};

use args::Args;

/// What an automatic number of rounds may take.
const BUDGET: Duration = Duration::from_secs(100);

fn main() -> ExitCode {
    let args = Args::parse();
    let trace = front::subscribe(args.verbose, args.trace.as_deref());
    front::end("sweep", run(&args, trace))
}

fn run(args: &Args, mut trace: Option<Trace>) -> Result<(), Failure> {
    // before any thread is pinned: the topology asks for the mask that we were given
    let topology = front::topology().map_err(unusable)?;
    let conditions = Conditions {
        pinning: match args.unpinned {
            true => Pinning::BestEffort,
            false => Pinning::Required,
        },
        oversubscribe: args.oversubscribe,
        counters: args.counters,
        traced: front::is_traced(args.verbose, trace.as_ref()),
        ..Conditions::default()
    };
    let design = design(args, &topology, conditions)?;
    let input = layout(args)
        .and_then(|layout| Input::of(layout, args.kernel))
        .map_err(unusable)?;
    let mut out = std::io::stdout().lock();
    front::layout(&mut out, &input.layout, &input.geometry).map_err(unsaid)?;
    let machines = [input.machine().map_err(unusable)?];

    let cancel = front::cancelled_by_interrupt()?;

    let path = args.out.join(format!("{}.jsonl", design.name));
    let mut keep = Keep::begin(&path).map_err(unusable)?;
    if let Some(trace) = &mut trace {
        let page = path.with_extension("html");
        let mut others = vec![path.as_path(), page.as_path()];
        others.extend(args.layout.as_deref());
        if let Err(failure) = trace.create(&others) {
            keep.finish();
            return Err(failure);
        }
    }
    let study = Study {
        design: &design,
        machines: &machines,
        host: Host::read(&topology),
        topology,
        conditions,
        session: 0,
        fill: None,
    };
    let result = run::run(study, &cancel, &mut keep);
    keep.finish();
    let ended = match result.map_err(front::ended) {
        Ok(ended) => show(&mut out, &input.layout, &keep, ended),
        Err(failure) => Err(failure),
    };
    let traced = trace.map_or(Ok(()), |trace| trace.finish(&mut out));
    front::all([ended, traced])
}

/// What was measured, and whether that is all of it.
fn show(
    out: &mut impl Write,
    layout: &machine::MachineLayout,
    keep: &Keep,
    ended: Ended,
) -> Result<(), Failure> {
    let analysis = Analysis::of(&keep.records);
    say::result(out, layout, keep, &analysis, ended).map_err(unsaid)?;
    if !keep.records.is_empty() {
        report::write(out, keep.path())?;
    }
    if ended.cancelled {
        return Err((
            FAILED,
            "interrupted; the table shows what was measured".into(),
        ));
    }
    front::measured(&keep.records)
}

fn layout(args: &Args) -> Result<machine::MachineLayout, InputError> {
    if let Some(file) = &args.layout {
        return machines::of_log(file);
    }
    if let Some(memory) = args.memory {
        return machines::made_up(memory, args.nodes);
    }
    if args.node.is_empty() {
        return machines::this_host();
    }
    machines::of_ranges(&args.node)
}

fn design(args: &Args, topology: &Topology, conditions: Conditions) -> Result<Design, Failure> {
    // every number of threads is looked at before hours are spent on the first
    for &threads in &args.threads {
        let wishes = deferred_init::workers::WorkerChoice::threads(threads);
        choose(topology, &conditions.allow(wishes))
            .map_err(|error| unusable(format!("--threads {threads}: {error}")))?;
    }
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    Ok(Design {
        name: format!("sweep-{seconds}-{}", std::process::id()),
        seed: args.seed,
        rounds: args.rounds.map_or(Rounds::Within(BUDGET), |rounds| {
            Rounds::Exactly(rounds as usize)
        }),
        reference: None,
        machine: Machine::Host,
        threads: match args.threads.as_slice() {
            [] => vec![Threads::PowersOfTwo],
            threads => distinct(threads, |threads| *threads)
                .into_iter()
                .map(Threads::Count)
                .collect(),
        },
        placements: vec![Place::By(args.placement)],
        schedulers: vec![args.scheduler],
        writers: distinct(&args.writers, |writer| writer.name()),
        pages: vec![match args.huge_pages {
            true => Pages::Transparent,
            false => Pages::System,
        }],
        ..Design::default()
    })
}

/// Each once, in the order in which they were first named.
fn distinct<T: Copy, K: PartialEq>(items: &[T], key: impl Fn(&T) -> K) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for item in items {
        if !kept.iter().any(|other| key(other) == key(item)) {
            kept.push(*item);
        }
    }
    kept
}
