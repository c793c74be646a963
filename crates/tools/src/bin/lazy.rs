//! A machine of 64 TiB and 64 nodes, lazily: how soon it is ready, in how much memory, and whether
//! whatever is asked for is right.
//!
//! Ready means that geometry, map and [`Lazy`] are there and any page may be asked for. Sections that
//! are asked for are compared, struct page by struct page, with what another page writer leaves in a
//! map of the same machine. The same is done with more memory, and with more ranges: the first must
//! change nothing, the second may cost what ranges cost.

#![forbid(unsafe_code)]

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use deferred_init::policy::{Lazy, LazyOptions, Touched, Watermark};
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, Pfn, PhysAddr, PhysRange};
use memmap_core::{
    BackingKind, BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile,
    SectionNr, writers,
};
use tools::soak::Census;

/// A machine of many terabytes, lazily.
#[derive(Debug, Parser)]
struct Arguments {
    /// Memory, in TiB; 64 at most.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=64))]
    tebibytes: u64,
    /// Nodes.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: u16,
    /// Sections to ask for, spread over the machine.
    #[arg(long, default_value_t = 192)]
    ask: u64,
    /// Fail where it is not ready in 20 ms (best of five) and in 100 MB, where more memory costs
    /// more, or where more ranges cost more than twice their number.
    #[arg(long)]
    check: bool,
}

const READY: Duration = Duration::from_millis(20);
const RESIDENT: u64 = 100_000_000;

/// What one machine cost until it was ready.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Ranges of memory that a node has.
    ranges: u64,
    time: Duration,
    /// Memory that it took, in bytes.
    bytes: u64,
}

impl Cost {
    /// What is too little to tell one machine from another: ticks of a clock, pages of a heap.
    const TIME: f64 = 1e-3;
    const BYTES: f64 = 1e6;

    /// Whether this machine costs what `other` does, although it has more memory: at most twice as
    /// much, for the noise of five tries.
    fn is_that_of(self, other: Self) -> bool {
        self.time.as_secs_f64() <= 2.0 * other.time.as_secs_f64() + Self::TIME
            && self.bytes as f64 <= 2.0 * other.bytes as f64 + Self::BYTES
    }

    /// Whether what this machine costs beyond `one`, of one range a node, is at most twice what
    /// `some` does for each range. A cost that grew with the square of ranges would be as many
    /// times as there are more ranges.
    fn grows_with_ranges(self, some: Self, one: Self) -> bool {
        let more = 2.0 * (self.ranges - one.ranges) as f64 / (some.ranges - one.ranges) as f64;
        let time = |cost: Self| cost.time.as_secs_f64() - one.time.as_secs_f64();
        let bytes = |cost: Self| cost.bytes as f64 - one.bytes as f64;
        time(self) <= more * time(some).max(Self::TIME)
            && bytes(self) <= more * bytes(some).max(Self::BYTES)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) if arguments.check => ExitCode::FAILURE,
        Ok(false) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lazy: {error}");
            ExitCode::from(2)
        }
    }
}

/// Nodes of equal size, each in so many ranges with a hole of a section behind each.
fn memory(tebibytes: u64, nodes: u16, ranges: u64) -> Result<Memblock, Box<dyn Error>> {
    const SECTION: u64 = 128 << 20;
    let mut memory = Memblock::new(Behaviour::V6_12);
    let node_bytes = (tebibytes << 40) / u64::from(nodes) / SECTION * SECTION;
    let range_bytes = node_bytes / ranges / SECTION * SECTION;
    for node in 0..nodes {
        for range in 0..ranges {
            let start = u64::from(node) * node_bytes + range * range_bytes;
            let hole = if ranges > 1 { SECTION } else { 0 };
            let bytes = PhysRange::from_size(PhysAddr::new(start), range_bytes - hole);
            memory.add_node(bytes, NodeId::new(node), MemblockFlags::empty())?;
        }
    }
    Ok(memory)
}

fn map(geometry: Geometry) -> Result<MemoryMap, Box<dyn Error>> {
    let mut backing = BackingOptions::default();
    backing.kind = BackingKind::Mapped;
    backing.memory_limit = Some(u64::MAX);
    Ok(MemoryMap::new(geometry, backing)?)
}

fn geometry(memory: &Memblock) -> Result<Geometry, Box<dyn Error>> {
    let profile = Profile::amd64(KernelVersion::V6_12);
    Ok(Geometry::new(&profile, memory, &BootOptions::default())?)
}

/// A machine, how long it took, and bytes that became resident meanwhile.
fn ready(memory: &Memblock) -> Result<(Lazy, Duration, u64), Box<dyn Error>> {
    let writer = writers::by_name("template").ok_or("there is no page writer template")?;
    let before = Census::take()?.resident;
    let began = Instant::now();
    let options = LazyOptions::new(writer).watermark(Watermark::NONE);
    let lazy = Lazy::new(map(geometry(memory)?)?, options);
    let took = began.elapsed();
    let after = Census::take()?.resident;
    Ok((lazy, took, after.saturating_sub(before)))
}

/// The last of five, the best time, and the most memory. One is there at a time: each has as many
/// mappings as ranges, and a process may not have them twice.
fn best(memory: &Memblock) -> Result<(Lazy, Duration, u64), Box<dyn Error>> {
    let (mut time, mut bytes) = (Duration::MAX, 0);
    for _ in 1..5 {
        let (_, took, more) = ready(memory)?;
        (time, bytes) = (time.min(took), bytes.max(more));
    }
    let (lazy, took, more) = ready(memory)?;
    Ok((lazy, time.min(took), bytes.max(more)))
}

/// Asks for a section and compares it with what `memset` leaves; the time of asking.
fn ask(lazy: &Lazy, other: &MemoryMap, section: SectionNr) -> Result<Duration, Box<dyn Error>> {
    let pages = section.pfns(lazy.map().geometry().sections().pages_per_section());
    if lazy.peek(pages.start()).is_ok() {
        return Err(format!("section {section} is there before it was asked for").into());
    }
    let began = Instant::now();
    if lazy.touch(section)? != Touched::Wrote {
        return Err(format!("section {section} was written by nobody").into());
    }
    let took = began.elapsed();
    let mut claim = other.claim(section).ok_or("it cannot be claimed")?;
    claim.write(writers::by_name("memset").ok_or("there is no page writer memset")?);
    claim.publish();
    for pfn in (pages.start().get()..pages.end().get()).map(Pfn::new) {
        if lazy.peek(pfn)? != other.read(pfn)? {
            return Err(format!("frame {pfn} has another struct page than it should").into());
        }
    }
    Ok(took)
}

fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let memory = memory(arguments.tebibytes, arguments.nodes, 1)?;
    let (lazy, time, bytes) = best(&memory)?;
    let resident = Census::take()?.resident;
    let sections = lazy.map().geometry().sections().count();
    let holds = time <= READY && resident <= RESIDENT;
    println!(
        "{} TiB, {} nodes, {sections} sections, {:.1} GiB of struct pages: ready in {:.3} ms, {:.1} MB \
         resident ({:.1} MB of it the machine's); at most {} ms and {} MB: {}",
        arguments.tebibytes,
        arguments.nodes,
        lazy.map().bytes() as f64 / f64::from(1 << 30),
        time.as_secs_f64() * 1e3,
        resident as f64 / 1e6,
        bytes as f64 / 1e6,
        READY.as_millis(),
        RESIDENT / 1_000_000,
        if holds { "holds" } else { "DOES NOT HOLD" },
    );
    let cost = |what: &str, tebibytes: u64, ranges: u64| -> Result<Cost, Box<dyn Error>> {
        let memory = self::memory(tebibytes, arguments.nodes, ranges)?;
        let (_, time, bytes) = best(&memory)?;
        println!(
            "{what}: ready in {:.3} ms, {:.1} MB more",
            time.as_secs_f64() * 1e3,
            bytes as f64 / 1e6
        );
        Ok(Cost {
            ranges,
            time,
            bytes,
        })
    };
    let quarter = arguments.tebibytes.div_ceil(4);
    let quarter = cost("a quarter of the memory", quarter, 1)?;
    let some = cost("16 ranges a node", arguments.tebibytes, 16)?;
    let many = cost("256 ranges a node", arguments.tebibytes, 256)?;
    let whole = Cost {
        ranges: 1,
        time,
        bytes,
    };
    let verdict = |what: &str, holds: bool| {
        println!("{what}: {}", if holds { "holds" } else { "DOES NOT HOLD" });
        holds
    };
    let holds = holds
        & verdict("more memory costs no more", whole.is_that_of(quarter))
        & verdict(
            "16 times the ranges cost at most twice 16 times as much",
            many.grows_with_ranges(some, whole),
        );
    let other = map(geometry(&memory)?)?;
    let mut longest = Duration::ZERO;
    let asked = arguments.ask.clamp(1, sections);
    for at in 0..asked {
        // a step that meets every place inside a node; the last one is the last section
        let rank = (at + 1) * sections / asked - 1;
        let section = lazy.map().geometry().sections().by_rank(rank);
        let section = section.ok_or("a section is missing")?;
        longest = longest.max(ask(&lazy, &other, section)?);
    }
    println!(
        "{asked} sections asked for, all their struct pages right; the longest took {:.3} ms",
        longest.as_secs_f64() * 1e3
    );
    Ok(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(ranges: u64, millis: u64, kilobytes: u64) -> Cost {
        Cost {
            ranges,
            time: Duration::from_millis(millis),
            bytes: kilobytes * 1000,
        }
    }

    #[test]
    fn what_grows_with_memory_or_with_the_square_of_ranges_does_not_hold() {
        assert!(cost(1, 5, 3000).is_that_of(cost(1, 4, 3000)));
        assert!(!cost(1, 16, 3000).is_that_of(cost(1, 4, 3000)));
        assert!(!cost(1, 4, 12_000).is_that_of(cost(1, 4, 3000)));
        let (one, some) = (cost(1, 1, 3000), cost(16, 4, 7000));
        assert!(cost(256, 52, 71_000).grows_with_ranges(some, one));
        assert!(!cost(256, 768, 71_000).grows_with_ranges(some, one));
        assert!(!cost(256, 52, 800_000).grows_with_ranges(some, one));
    }
}
