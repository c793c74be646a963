//! Binds a device again and again: four ways of initialising its struct pages, on 1 … N threads.
//!
//! The procedure is that of the template series of 2026: bind once, then unbind and rebind 30 times;
//! the first bind, which pays for touching the memory, is reported apart from the mean of the rest.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use deferred_init::Topology;
use deferred_init::engine::{Engine, Outcome, RunOptions};
use examples::front::{self, Failure, unsaid, unusable};
use memblock::{NodeId, PhysAddr, PhysRange};
use memmap_core::{KernelVersion, Profile};
use study::table::{Align, Table};
use sys::HugePages;
use zone_device::{Altmap, Bound, DevPagemap, DeviceMemmap, DeviceRuns, MemoryType, Site, Way};

/// The size of the published measurements, in GiB.
const DEFAULT_GIB: u64 = 100;
/// Where the device lies.
const START: u64 = 1 << 40;

/// What others published: other machines, so not to be compared but to stand beside.
const PUBLISHED: &str = "\
published, on other machines (Intel Ice Lake, virtual; 100 GB; one thread; before -> after):
  fsdax, single pages    template                       221.07 ->  155.00 ms
  fsdax, single pages    template, non-temporal (v1)    273.52 ->  104.59 ms
  fsdax, single pages    template, non-temporal (v5)    244.28 ->   96.79 ms
  devdax, 2 MiB          template, non-temporal (v5)    273.31 ->  119.04 ms
  first binds there took 1270 to 1490 ms, before and after
";

/// Struct pages of device memory, bound in four ways.
#[derive(Debug, Parser)]
#[command(name = "zone_device")]
struct Args {
    /// Size of the device in GiB; by default 100, or what fits the memory that is available.
    #[arg(long)]
    gib: Option<u64>,
    /// What the device's memory is.
    #[arg(long = "type", value_enum, default_value_t = Type::Fsdax)]
    memory_type: Type,
    /// Bytes of a compound (4K, 2M, 1G, …); a page for single pages.
    #[arg(long, default_value = "4K")]
    align: String,
    /// Where the memory map lies: in memory, or in the device itself.
    #[arg(long, value_enum, default_value_t = Map::Mem)]
    map: Map,
    /// The kernel's release, 4.0 to 7.3.
    #[arg(long, default_value = "7.3", value_parser = examples::machines::kernel)]
    kernel: KernelVersion,
    /// Ways, of slow, template, stream and cow.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "slow,template,stream,cow"
    )]
    ways: Vec<String>,
    /// Numbers of threads; all CPUs that we may use beside 1 by default.
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// Rebinds after the first bind.
    #[arg(long, default_value_t = 30)]
    rebinds: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Type {
    Private,
    Coherent,
    Fsdax,
    Devdax,
    P2pdma,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Map {
    Mem,
    Dev,
}

/// What one row of the table says.
struct Row {
    first: Duration,
    rebind: Duration,
    unbind: Duration,
    /// Of 4 KiB of memory map.
    read: Duration,
    write: Duration,
}

fn main() -> ExitCode {
    front::end("zone_device", run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let (rows, refusals) = rows(args, &mut out)?;
    let mut say = || {
        writeln!(out, "\n{rows}")?;
        for refusal in &refusals {
            writeln!(out, "{refusal}")?;
        }
        writeln!(
            out,
            "read, write: the first of each, after a bind, of every 4 KiB of the memory map\n"
        )?;
        write!(out, "{PUBLISHED}")
    };
    say().map_err(unsaid)
}

/// Binds in every way; a row each, and why some ways were not taken.
fn rows(args: &Args, out: &mut impl Write) -> Result<(Table, Vec<String>), Failure> {
    // before any thread is pinned: the topology asks for the mask that we were given
    let topology = Topology::host().map_err(unusable)?;
    let profile = Profile::amd64(args.kernel);
    let gib = args.size().map_err(unusable)?;
    let runs = DeviceRuns::new(
        &profile,
        &args.pagemap(&profile, gib).map_err(unusable)?,
        &Site::on_node(NodeId::new(0)),
    )
    .map_err(unusable)?;
    let bytes: u64 = runs.ranges().iter().map(|range| range.len() * 64).sum();
    let used = runs.vmemmap();
    writeln!(
        out,
        "{} GiB, {} device pages, {} MiB of struct pages; a kernel that shares them saves {} of {} \
         pages of memory map",
        gib,
        runs.device_pages(),
        bytes >> 20,
        used.saved,
        used.whole,
    )
    .map_err(unsaid)?;
    let engine = Engine::new(topology);
    let threads = args.threads(engine.topology());
    let mut table = Table::new([
        ("way", Align::Left),
        ("threads", Align::Right),
        ("first bind ms", Align::Right),
        ("rebind ms", Align::Right),
        ("ns/page", Align::Right),
        ("unbind ms", Align::Right),
        ("read ns/4K", Align::Right),
        ("write ns/4K", Align::Right),
    ]);
    let mut refusals = Vec::new();
    for name in &args.ways {
        let way = Way::by_name(name)
            .ok_or_else(|| unusable(format!("--ways {name}: there is no such way")))?;
        for &threads in &threads {
            // nothing is written by a bind of copies, so there is nothing to share out
            if way == Way::Cow && threads > 1 {
                continue;
            }
            let mut memmap =
                DeviceMemmap::new(runs.clone(), HugePages::System).map_err(unusable)?;
            let row = measure(
                &engine,
                &profile,
                &mut memmap,
                way,
                threads,
                args.rebinds,
                &mut refusals,
            )
            .map_err(unusable)?;
            let ms = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
            let pages = runs.device_pages().max(1) as f64;
            table.row([
                way.name().into(),
                threads.to_string(),
                ms(row.first),
                ms(row.rebind),
                format!("{:.2}", row.rebind.as_nanos() as f64 / pages),
                ms(row.unbind),
                row.read.as_nanos().to_string(),
                row.write.as_nanos().to_string(),
            ]);
        }
    }
    Ok((table, refusals))
}

fn measure(
    engine: &Engine,
    profile: &Profile,
    memmap: &mut DeviceMemmap,
    way: Way,
    threads: usize,
    rebinds: u32,
    refusals: &mut Vec<String>,
) -> Result<Row, Box<dyn std::error::Error>> {
    let mut bind = |memmap: &mut DeviceMemmap| -> Result<Duration, Box<dyn std::error::Error>> {
        if threads == 1 {
            let start = Instant::now();
            let bound = memmap.bind(way, None)?;
            let time = start.elapsed();
            note(way, &bound, refusals);
            return Ok(time);
        }
        let options = RunOptions::new(way.writer()).threads(threads);
        let report = engine.run_device(memmap, profile.pages_per_section(), &options, None)?;
        match report.outcome {
            Outcome::Complete => Ok(report.phases.write),
            other => Err(format!("the run ended early: {other:?}").into()),
        }
    };
    let first = bind(memmap)?;
    let (mut rebind, mut unbind) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..rebinds {
        let start = Instant::now();
        memmap.unbind()?;
        unbind += start.elapsed();
        rebind += bind(memmap)?;
    }
    let (read, write) = touch(memmap)?;
    Ok(Row {
        first,
        rebind: rebind.checked_div(rebinds).unwrap_or_default(),
        unbind: unbind.checked_div(rebinds).unwrap_or_default(),
        read,
        write,
    })
}

/// Keeps why a way was not taken, once.
fn note(asked: Way, bound: &Bound, refusals: &mut Vec<String>) {
    if let Some(refusal) = &bound.refusal {
        let line = format!("{asked}: {refusal}; {} instead", bound.way);
        if !refusals.contains(&line) {
            refusals.push(line);
        }
    }
}

/// Times of reading and of writing a struct page of every 4 KiB of memory map, each a page.
fn touch(memmap: &mut DeviceMemmap) -> Result<(Duration, Duration), Box<dyn std::error::Error>> {
    let range = memmap.runs().ranges()[0];
    let pages = (range.len() / 64).max(1) as u32;
    let mut sum = 0;
    let start = Instant::now();
    for k in (0..range.len()).step_by(64) {
        let words = memmap.read(range.start().saturating_add(k));
        sum ^= words.map_or(0, |words| words[1]);
    }
    std::hint::black_box(sum);
    let read = start.elapsed();
    let bytes = memmap.bytes();
    let words = memmap.mapping_mut().words_mut(0..bytes)?;
    let start = Instant::now();
    for page in words.chunks_exact_mut(512) {
        page[5] = 1;
    }
    Ok((read / pages, start.elapsed() / pages))
}

impl Args {
    /// The size in GiB, whose struct pages fit the memory that is available.
    fn size(&self) -> Result<u64, String> {
        let available = sys::available_memory();
        // a GiB takes 16 MiB of struct pages; a tenth is left for everybody else
        let most = available.bytes / 10 * 9 / (16 << 20);
        match self.gib {
            Some(gib) if gib == 0 || gib > most => Err(format!(
                "--gib {gib}: give 1 to {most}, whose struct pages fit {available}"
            )),
            Some(gib) => Ok(gib),
            None if most == 0 => Err(format!("not even a device of 1 GiB fits {available}")),
            None => Ok(DEFAULT_GIB.min(most)),
        }
    }

    fn pagemap(
        &self,
        profile: &Profile,
        gib: u64,
    ) -> Result<DevPagemap, Box<dyn std::error::Error>> {
        let memory_type = match self.memory_type {
            Type::Private => MemoryType::Private,
            Type::Coherent => MemoryType::Coherent,
            Type::Fsdax => MemoryType::FsDax,
            Type::Devdax => MemoryType::Generic,
            Type::P2pdma => MemoryType::PciP2pdma,
        };
        let align = bytes(&self.align).ok_or_else(|| {
            format!(
                "--align {}: give a power of two from 4K up, as 2M",
                self.align
            )
        })?;
        let range = PhysRange::from_size(PhysAddr::new(START), gib << 30);
        let pagemap = DevPagemap::new(memory_type, 0xffff_8881_0279_13c0)
            .with_range(range)
            .with_vmemmap_shift((align >> profile.page_shift).max(1).ilog2());
        if self.map == Map::Mem {
            return Ok(pagemap);
        }
        // the device's own pages begin where a compound may begin
        let pfns = range.pfns_inner(profile.page_shift);
        let altmap = Altmap::of_namespace(pfns, profile);
        let offset = altmap
            .offset()
            .next_multiple_of((align >> profile.page_shift).max(1));
        let free = offset - altmap.reserve();
        Ok(pagemap.with_altmap(Altmap::new(pfns.start(), altmap.reserve(), free)))
    }

    fn threads(&self, topology: &Topology) -> Vec<usize> {
        if !self.threads.is_empty() {
            return self.threads.clone();
        }
        let cpus = topology.allowed_cpus.len();
        let mut threads = vec![1];
        threads.extend((cpus > 1).then_some(cpus));
        threads
    }
}

/// `2M` in bytes.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    (bytes.is_power_of_two() && bytes >= 4096).then_some(bytes)
}
