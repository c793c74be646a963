//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use deferred_init::policy::Policy;
use deferred_init::schedule::Scheduler;
use examples::front::EXIT_CODES;
use machine::size::ByteSize;
use memmap_core::writers::PageWriter;
use study::design::{self, Combine, Nodes, Pages, Place, Threads};

/// Studies how initialising a memory map scales over threads, nodes, placement and strategy.
///
/// A study is a small TOML file, flags, or both: flags go before what the file says. Each run leaves
/// one durable line of JSON; a study that was interrupted goes on with --resume.
#[derive(Debug, Parser)]
#[command(version, after_help = format!("{ELSEWHERE}\n\n{EXIT_CODES}"))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What other programs do with records.
const ELSEWHERE: &str = "\
Elsewhere:
  cargo xtask study merge FILE… --out FILE   Join the records of one study on many hosts
  cargo xtask report FILE…                   Show records as one HTML page";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a study, or go on with one
    #[command(after_help = EXIT_CODES)]
    Run(Run),
    /// Show what a study would run, and about how long that would take
    #[command(after_help = EXIT_CODES)]
    Plan(Asked),
    /// Show the table and the words of a study's records
    #[command(after_help = EXIT_CODES)]
    Show {
        /// Records of a study
        file: PathBuf,
    },
    /// Compare two studies, setting by setting: how much longer or shorter B takes than A
    #[command(after_help = EXIT_CODES)]
    Compare {
        /// Records of the one study
        a: PathBuf,
        /// Records of the other
        b: PathBuf,
    },
    /// Fit models of scaling to a study, or take one by hand, and predict other hosts
    #[command(after_help = EXIT_CODES)]
    Model(Model),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) asked: Asked,

    /// Go on with records of the same study that are there
    #[arg(long)]
    pub(crate) resume: bool,

    /// Name of this host in the records, as a scheduler has it [default: its own]
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,

    /// Folder for the records
    #[arg(long, value_name = "DIR", default_value = "target/study")]
    pub(crate) out: PathBuf,

    /// Write a timeline of every run for Perfetto or chrome://tracing. Tracing costs time: times of a
    /// traced study are not comparable with those of an untraced one, and its records say `traced`.
    /// About 150 bytes a section and run are held until the end
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Print spans of nodes and runs, and with -vv of sections, on stderr. That costs time: records say
    /// `traced`
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// What a study is to do; see the file format in docs/measuring.md.
#[derive(Debug, Args)]
pub(crate) struct Asked {
    /// A study file
    pub(crate) study: Option<PathBuf>,

    /// Name of the study and of its file of records
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// Rounds: how often everything is run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(design::MOST_ROUNDS)))]
    pub(crate) repeats: Option<u32>,

    /// Seed of the order of runs
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=design::MOST_SEED))]
    pub(crate) seed: Option<u64>,

    /// How factors are combined: full, one-at-a-time
    #[arg(long, value_name = "HOW", value_parser = combine)]
    pub(crate) factors: Option<Combine>,

    /// Measure every node's threads on every node's memory
    #[arg(long)]
    pub(crate) matrix: bool,

    /// Memory layout of the machine whose boot log this is, instead of this host's
    #[arg(long, value_name = "FILE", conflicts_with = "memory")]
    pub(crate) layout: Option<PathBuf>,

    /// Made-up machines with so much memory
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',')]
    pub(crate) memory: Vec<ByteSize>,

    /// Nodes of a made-up machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) machine_nodes: Option<u64>,

    /// Numbers of threads: numbers, 1..=8, 1..=N, powers-of-two, per-node, all
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) threads: Vec<Threads>,

    /// Nodes that threads sit on: all, each, or numbers with + between; may be repeated
    #[arg(long, value_name = "NODES", value_parser = nodes)]
    pub(crate) nodes: Vec<Nodes>,

    /// Where struct pages lie: first-touch, local, interleave, remote, node:N
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) placement: Vec<Place>,

    /// Who writes what: static, padata, deque, rayon
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = design::scheduler)]
    pub(crate) scheduler: Vec<&'static dyn Scheduler>,

    /// When sections are initialised: eager, deferred, on-demand, lazy. All but eager are boots, each on
    /// memory of its own and beside an eager one
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = design::policy)]
    pub(crate) policy: Vec<Policy>,

    /// Page writers: memset, zero, template, stream, auto
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = design::writer)]
    pub(crate) writer: Vec<&'static dyn PageWriter>,

    /// Pages behind the struct pages: system, 4K, thp, hugetlb
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) pages: Vec<Pages>,

    /// Let several threads share a CPU where there are more of them than CPUs
    #[arg(long)]
    pub(crate) oversubscribe: bool,

    /// Run also where the system refuses to pin threads
    #[arg(long)]
    pub(crate) unpinned: bool,

    /// Read no hardware counters
    #[arg(long)]
    pub(crate) no_counters: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Model {
    /// Records of a study to calibrate on
    #[arg(required_unless_present = "core_rate")]
    pub(crate) file: Option<PathBuf>,

    /// By hand: what one core writes, GB/s
    #[arg(
        long,
        value_name = "GB/s",
        requires = "node_rate",
        conflicts_with = "file",
        value_parser = rate
    )]
    pub(crate) core_rate: Option<f64>,

    /// By hand: what one node's memory takes, GB/s
    #[arg(long, value_name = "GB/s", requires = "core_rate", value_parser = rate)]
    pub(crate) node_rate: Option<f64>,

    /// By hand: how sharp the knee between the two is, from 1 (soft) to 100
    #[arg(long, value_name = "P", default_value_t = 2.0, value_parser = knee)]
    pub(crate) knee: f64,

    /// The writer that is modelled [default: the fastest]
    #[arg(long)]
    pub(crate) writer: Option<String>,

    /// Predict these hosts: names of presets, or `all`
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) predict: Vec<String>,
}

fn combine(name: &str) -> Result<Combine, String> {
    let mut all = Combine::ALL.into_iter();
    all.find(|combine| combine.name() == name)
        .ok_or_else(|| "there are full, one-at-a-time".to_owned())
}

/// Commas part values on a command line, so nodes that go together have `+` between them.
fn nodes(text: &str) -> Result<Nodes, design::Unknown> {
    text.replace('+', ",").parse()
}

/// A rate that memory could have.
fn rate(text: &str) -> Result<f64, String> {
    within(text, 1e-3, 1e6)
}

fn knee(text: &str) -> Result<f64, String> {
    within(text, 1.0, 100.0)
}

fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("allowed: a number from {least} to {most}"))
}
