//! Initialises a memory map with every page writer on 1, 2, 4, … pinned threads.

mod args;
mod input;
mod output;
mod report;
mod say;

use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use deferred_init::Topology;
use deferred_init::engine::CancelToken;
use deferred_init::plan::Plan;
use deferred_init::workers::{Pinning, Spread, WorkerChoice, choose};
use memmap_core::{BackingOptions, MapError, MemoryMap};
use study::record::{Host, Layout};
use study::sweep::{self, Design, Rounds, Summary, SweepError};

use args::Args;
use input::Input;
use output::Output;

/// What an automatic number of rounds may take.
const BUDGET: Duration = Duration::from_secs(100);

const FAILED: u8 = 1;
const UNUSABLE: u8 = 2;
const NO_ROOM: u8 = 3;

fn main() -> ExitCode {
    let args = Args::parse();
    say::subscribe(args.verbose);
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err((status, message)) => {
            if !message.is_empty() {
                eprintln!("sweep: {message}");
            }
            ExitCode::from(status)
        }
    }
}

type Failure = (u8, String);

/// Nobody reads what we print any more, or it cannot be kept.
fn unsaid(error: std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => (examples::CLOSED_PIPE, String::new()),
        _ => (FAILED, format!("stdout: {error}")),
    }
}

fn unusable(error: impl ToString) -> Failure {
    (UNUSABLE, error.to_string())
}

fn run(args: &Args) -> Result<(), Failure> {
    // before any thread is pinned: the topology asks for the mask that we were given
    let topology = say::topology().map_err(unusable)?;
    let design = design(args, &topology)?;
    let Input { layout, geometry } = Input::of(args).map_err(unusable)?;
    let mut out = std::io::stdout().lock();
    say::layout(&mut out, &layout, &geometry).map_err(unsaid)?;
    let plan = Plan::new(&geometry).map_err(unusable)?;

    let began = Instant::now();
    let mut map = MemoryMap::new(geometry, BackingOptions::default()).map_err(|error| {
        let status = match error {
            MapError::TooLittleMemory { .. } => NO_ROOM,
            _ => UNUSABLE,
        };
        (status, error.to_string())
    })?;
    let map_time = began.elapsed();
    let described = Layout::of(say::source(&layout).to_owned(), layout.memory_bytes(), &map);

    let cancel = CancelToken::new();
    let interrupted = cancel.clone();
    ctrlc::set_handler(move || interrupted.cancel())
        .map_err(|error| (FAILED, format!("^C could not be caught, which takes a thread: {error}; raise ulimit -u or the pids limit of the cgroup")))?;

    let mut output = Output::new(
        &args.out,
        design.name.clone(),
        described,
        map_time,
        Host::read(&topology),
        args.placement.name(),
    )
    .map_err(|error| unusable(format!("{}: {error}", args.out.display())))?;

    let result = sweep::run(topology, &mut map, &plan, &design, &cancel, &mut output);
    output.finish();
    let measured = result.map_err(|error| match error {
        SweepError::Engine(_) | SweepError::Empty => unusable(error),
        error => (FAILED, error.to_string()),
    })?;
    let summary = Summary::of(&measured, args.seed);
    say::result(&mut out, &layout, &measured, &summary, output.path()).map_err(unsaid)?;
    if summary.rounds > 0 {
        report::write(&mut out, output.path())?;
    }
    if cancel.is_cancelled() {
        return Err((
            FAILED,
            "interrupted; the table shows the rounds that were whole".into(),
        ));
    }
    Ok(())
}

fn design<'a>(args: &Args, topology: &Topology) -> Result<Design<'a>, Failure> {
    let pinning = match args.unpinned {
        true => Pinning::BestEffort,
        false => Pinning::Required,
    };
    let threads = match args.threads.as_slice() {
        [] => sweep::doubling(topology.allowed_cpus.len()),
        threads => distinct(threads, |threads| *threads),
    };
    // every number of threads is looked at before hours are spent on the first
    for &threads in &threads {
        let wishes = WorkerChoice {
            oversubscribe: args.oversubscribe,
            pinning,
            ..WorkerChoice::threads(threads)
        };
        choose(topology, &wishes)
            .map_err(|error| unusable(format!("--threads {threads}: {error}")))?;
    }
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    Ok(Design {
        name: format!("sweep-{seconds}-{}", std::process::id()),
        threads,
        writers: distinct(&args.writers, |writer| writer.name()),
        scheduler: args.scheduler,
        placement: args.placement,
        spread: Spread::default(),
        pinning,
        oversubscribe: args.oversubscribe,
        huge_pages: match args.huge_pages {
            true => sys::HugePages::Always,
            false => sys::HugePages::default(),
        },
        rounds: args.rounds.map_or(Rounds::Within(BUDGET), |rounds| {
            Rounds::Exactly(rounds as usize)
        }),
        seed: args.seed,
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
