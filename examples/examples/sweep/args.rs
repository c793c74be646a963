//! The command line.

use std::path::PathBuf;

use clap::Parser;
use deferred_init::engine::Placement;
use deferred_init::schedule::Scheduler;
use examples::front::EXIT_CODES;
use examples::machines::kernel;
use machine::size::ByteSize;
use memmap_core::KernelVersion;
use memmap_core::writers::PageWriter;

/// Initialises a memory map with every page writer on 1, 2, 4, … pinned threads.
///
/// Without --layout or --memory the map is that of this host. All writers run once a round in a
/// shuffled order on the same populated memory; figures are medians, ratios are paired within a
/// round.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Memory layout of the machine whose boot log this is
    #[arg(long, value_name = "FILE", conflicts_with_all = ["memory", "node"])]
    pub(crate) layout: Option<PathBuf>,

    /// A made-up machine with so much memory (K, M, G, T)
    #[arg(long, value_name = "SIZE", conflicts_with = "node")]
    pub(crate) memory: Option<ByteSize>,

    /// Nodes of the made-up machine, evenly
    #[arg(long, value_name = "N", requires = "memory", default_value_t = 1)]
    pub(crate) nodes: u64,

    /// A range of a made-up machine's memory, such as 0:0-4G; may be repeated
    #[arg(long, value_name = "NODE:START-END")]
    pub(crate) node: Vec<String>,

    /// The kernel to model, instead of the layout's own: 4.0 to 7.3
    #[arg(long, value_name = "VERSION", value_parser = kernel)]
    pub(crate) kernel: Option<KernelVersion>,

    /// Numbers of threads [default: 1, 2, 4, … all allowed CPUs]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) threads: Vec<usize>,

    /// Let several threads share a CPU where there are more of them than CPUs
    #[arg(long)]
    pub(crate) oversubscribe: bool,

    /// Page writers: memset, zero, template, stream, auto
    #[arg(long, value_name = "NAME,…", value_delimiter = ',',
          default_value = "memset,zero,template,stream", value_parser = study::design::writer)]
    pub(crate) writers: Vec<&'static dyn PageWriter>,

    /// Who writes what: static, padata, deque, rayon
    #[arg(long, value_name = "NAME", default_value = "deque", value_parser = study::design::scheduler)]
    pub(crate) scheduler: &'static dyn Scheduler,

    /// Rounds [default: 61, or as many as fit in about 100 s, at least 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(study::design::MOST_ROUNDS)))]
    pub(crate) rounds: Option<u32>,

    /// Where struct pages lie: first-touch, bind, interleave, remote
    #[arg(long, value_name = "NAME", default_value = "first-touch", value_parser = placement)]
    pub(crate) placement: Placement,

    /// Ask for huge pages behind the struct pages
    #[arg(long)]
    pub(crate) huge_pages: bool,

    /// Run also where the system refuses to pin threads
    #[arg(long)]
    pub(crate) unpinned: bool,

    /// Read hardware counters (cache, TLB and remote misses) where the system lets us
    #[arg(long)]
    pub(crate) counters: bool,

    /// Seed of the order of runs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=study::design::MOST_SEED))]
    pub(crate) seed: u64,

    /// Folder for the records
    #[arg(long, value_name = "DIR", default_value = "target/sweep")]
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

fn placement(name: &str) -> Result<Placement, String> {
    let mut all = Placement::ALL.into_iter();
    all.find(|placement| placement.name() == name)
        .ok_or_else(|| unknown("placement", Placement::ALL.map(Placement::name).into_iter()))
}

fn unknown(what: &str, names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<&str> = names.collect();
    format!("no {what} has this name; there are {}", names.join(", "))
}
