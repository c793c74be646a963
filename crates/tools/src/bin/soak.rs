//! Lives of random machines under random faults, for as long as there is time.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use deferred_init::Topology;
use tools::front;
use tools::soak::{self, Census, Lived};

/// Boots, interrupts, resumes, plugs, binds, allocates and drops random machines under random faults.
///
/// Every map and every allocator is checked; files, threads, mappings and memory of the process must
/// be at the end what they were after the first rounds.
///
/// Exit status: 0 without a finding, 1 with one (its seed is printed), 2 where it could not run.
#[derive(Debug, Parser)]
#[command(name = "soak")]
struct Args {
    /// How long, minutes.
    #[arg(long, default_value_t = 5.0, value_parser = minutes, conflicts_with = "rounds")]
    minutes: f64,
    /// How many rounds, in place of a time.
    #[arg(long)]
    rounds: Option<u64>,
    /// The first round's seed; each round has the next one. Without it, the clock's.
    #[arg(long)]
    seed: Option<u64>,
}

/// Rounds after which allocators, caches and thread-locals have what they keep.
const WARM_UP: u64 = 50;
/// How much more memory a process may hold at the end: what the allocator keeps in its own lists.
const SLACK: u64 = 96 << 20;

fn main() -> ExitCode {
    let args = Args::parse();
    front::finish("soak", |out| run(&args, out))
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 && minutes <= 100_000.0 => Ok(minutes),
        _ => Err("give minutes, such as 30 or 0.5".into()),
    }
}

fn run(args: &Args, out: &mut dyn Write) -> io::Result<ExitCode> {
    let topology = match Topology::host() {
        Ok(topology) => topology,
        Err(error) => {
            front::complain(
                "soak",
                format_args!("this host's topology is not known: {error}"),
            );
            return Ok(ExitCode::from(2));
        }
    };
    let first = args.seed.unwrap_or_else(clock);
    let end = Instant::now() + Duration::from_secs_f64(args.minutes * 60.0);
    let mut lived = Lived::default();
    let mut before = None;
    let mut rounds = 0;
    writeln!(out, "seeds from {first}")?;
    while args
        .rounds
        .map_or(Instant::now() < end, |most| rounds < most)
    {
        let seed = first.wrapping_add(rounds);
        match soak::round(seed, &topology) {
            Ok(one) => lived.add(&one),
            Err(finding) => {
                writeln!(out, "FOUND in round {rounds}: {finding}")?;
                writeln!(out, "again: cargo xtask soak --rounds 1 --seed {seed}")?;
                return Ok(ExitCode::from(1));
            }
        }
        rounds += 1;
        if rounds == WARM_UP {
            before = Some(Census::take()?);
        }
    }
    writeln!(
        out,
        "{rounds} machines: {} struct pages checked, {} runs interrupted, {} wishes refused, {} devices bound, {} blocks allocated, {} memory blocks plugged",
        lived.pages,
        lived.interrupted,
        lived.refused,
        lived.devices,
        lived.allocations,
        lived.plugged
    )?;
    let Some(before) = before else {
        writeln!(
            out,
            "what the process holds was not compared: that takes more than {WARM_UP} rounds"
        )?;
        return Ok(ExitCode::SUCCESS);
    };
    let after = Census::take()?;
    writeln!(
        out,
        "after {WARM_UP} rounds: {before}\nat the end:      {after}"
    )?;
    let flat = after.files == before.files
        && after.threads == before.threads
        && after.mappings <= before.mappings + 16
        && after.resident <= before.resident + SLACK;
    if !flat {
        writeln!(out, "FOUND: the process holds more than it did")?;
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

fn clock() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |since| since.as_secs())
}
