//! What each policy makes one wait for: time to the first usable memory and the worst uninterrupted
//! stretch of one CPU, beside the total.
//!
//! `cargo run --release --example policies -- --memory 24 --trace target/policies.json`
//!
//! ^C stops workers at the next section; the report says what is done.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use deferred_init::Topology;
use deferred_init::engine::{Engine, RunOptions};
use deferred_init::policy::{Boot, BootOutcome, Policy, boot};
use deferred_init::trace::Aggregate;
use examples::front::{self, FAILED, Failure, unsaid, unusable};
use examples::trace::Trace;
use memblock::{Behaviour, Memblock, MemblockFlags, PhysAddr, PhysRange};
use memmap_core::writers;
use memmap_core::{BackingOptions, BootOptions, KernelVersion, Profile};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Boots a machine under every policy.
#[derive(Debug, Parser)]
#[command(after_help = EXIT_CODES)]
struct Args {
    /// Memory of the machine, in GiB, spread over the nodes of this host: up to 64 TiB, all that its
    /// addresses reach.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=64 << 10))]
    memory: u64,
    /// The policies: eager, deferred, on-demand, lazy.
    #[arg(long, value_delimiter = ',', value_parser = policy)]
    policies: Vec<Policy>,
    /// Workers; all allowed CPUs by default.
    #[arg(long)]
    threads: Option<usize>,
    /// Page writer.
    #[arg(long, default_value = "template")]
    writer: String,
    /// Writes a timeline for Perfetto or chrome://tracing.
    #[arg(long)]
    trace: Option<PathBuf>,
}

const EXIT_CODES: &str = "\
Exit status:
  0  done
  1  a boot did not complete, or what came of it cannot be written
  2  the arguments cannot be used, or a machine cannot be booted";

fn policy(name: &str) -> Result<Policy, String> {
    let names = Policy::ALL.map(Policy::name).join(", ");
    Policy::by_name(name).ok_or_else(|| format!("there are {names}"))
}

fn main() -> ExitCode {
    front::end("policies", run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let topology = Topology::host().map_err(unusable)?;
    let mut memory = Memblock::new(Behaviour::V6_12);
    let nodes = topology.nodes.len() as u64;
    let each = ((args.memory << 30) / nodes).next_multiple_of(128 << 20);
    for (at, node) in topology.nodes.iter().enumerate() {
        let range = PhysRange::from_size(PhysAddr::new(at as u64 * each), each);
        memory
            .add_node(range, node.id, MemblockFlags::empty())
            .map_err(unusable)?;
    }
    let writer = writers::by_name(&args.writer)
        .ok_or_else(|| unusable(format!("there is no page writer {:?}", args.writer)))?;
    let mut run = RunOptions::new(writer);
    run.workers.threads = args.threads;
    run.cancel = front::cancelled_by_interrupt()?;

    let figures = Aggregate::new();
    let mut trace = args.trace.as_deref().map(Trace::new);
    if let Some(trace) = &mut trace {
        trace.create(&[])?;
        tracing_subscriber::registry()
            .with(figures.clone())
            .with(trace.timeline())
            .try_init()
            .map_err(unusable)?;
    }
    let machine = Boot {
        engine: &Engine::new(topology),
        kernel: &Profile::amd64(KernelVersion::V6_12),
        memory: &memory,
        options: BootOptions::default(),
        backing: BackingOptions::default(),
        run,
    };
    let policies = match args.policies.as_slice() {
        [] => &Policy::ALL,
        chosen => chosen,
    };
    let mut out = std::io::stdout().lock();
    let mut complete = true;
    for policy in policies {
        let (report, _) = boot(*policy, &machine).map_err(unusable)?;
        writeln!(out, "{report}").map_err(unsaid)?;
        complete &= report.outcome == BootOutcome::Complete;
    }
    if let (Some(mut trace), Some(path)) = (trace, &args.trace) {
        write!(out, "{}", figures.report()).map_err(unsaid)?;
        trace.write()?;
        writeln!(out, "timeline: {}", path.display()).map_err(unsaid)?;
    }
    match complete {
        true => Ok(()),
        false => Err((FAILED, "a boot did not complete".into())),
    }
}
