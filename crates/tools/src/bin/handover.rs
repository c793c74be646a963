//! How much a large machine's boot costs beyond writing its struct pages.
//!
//! One node, 384 GiB unless told otherwise: 100.7 million struct pages, 6.4 GB. On memory that is
//! populated, two things are timed in pairs: *writing* every section's struct pages, and *booting*,
//! which works out the machine from its memblock, writes the same struct pages, hands free pages
//! over to an allocator and joins its lists. Mapping and faulting are timed once and shown beside.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::Parser;
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::buddy::{Allocator, HandOver, ListHeads, NodeDistances, SectionFree};
use memmap_core::writers::{self, PageWriter};
use memmap_core::{
    BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile, SectionNr,
};
use study::judge::{Rule, Samples};

/// Compares a whole boot with writing struct pages alone.
#[derive(Debug, Parser)]
struct Arguments {
    /// GiB of memory.
    #[arg(long, default_value_t = 384)]
    gib: u64,
    /// Rounds; a verdict needs 61.
    #[arg(long, default_value_t = 61)]
    rounds: usize,
    /// Worker threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The page writer.
    #[arg(long, default_value = "auto")]
    writer: String,
    /// Fail where the upper bound of the ratio is above this.
    #[arg(long, default_value_t = 1.10)]
    at_most: f64,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("handover: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let writer = writers::by_name(&arguments.writer)
        .ok_or_else(|| format!("there is no page writer {:?}", arguments.writer))?;
    let machine = machine(arguments.gib)?;
    let profile = Profile::amd64(KernelVersion::V6_12);
    let options = BootOptions::default();
    let geometry = Geometry::new(&profile, &machine, &options)?;
    let threads = arguments.threads.max(1);

    let start = Instant::now();
    let mut map = MemoryMap::new(geometry, BackingOptions::default())?;
    let mapped = start.elapsed();
    let sections: Vec<_> = map.geometry().sections().iter().collect();
    let start = Instant::now();
    for section in &sections {
        let mut claim = map.claim(*section).ok_or("sections are pending")?;
        claim.populate()?;
    }
    let faulted = start.elapsed();
    println!(
        "{} GiB, {} struct pages, {} MB: map {:.3} ms, fault {:.3} s",
        arguments.gib,
        sections.len() as u64 * map.geometry().sections().pages_per_section(),
        map.bytes() / 1_000_000,
        mapped.as_secs_f64() * 1e3,
        faulted.as_secs_f64()
    );

    let mut last = (0, 0);
    let rule = Rule {
        rounds: arguments.rounds,
        ..Rule::default()
    };
    let samples = Samples::collect(&rule, 2, |contestant, _round| {
        map.reset();
        let start = Instant::now();
        if contestant == 0 {
            each_section(threads, &sections, |section| {
                write(&map, None, section, writer)
            });
        } else {
            last = boot(&map, &machine, &options, &sections, threads, writer);
        }
        start.elapsed().as_nanos() as f64
    })?;
    let cost = samples.cost(1, 0)?;
    let seconds = |contestant| samples.time(contestant).map(|ns| ns / 1e9);
    println!(
        "{threads} threads, writer {}: writing {:.3} s, plan + write + hand-over {:.3} s; {} free \
         pages in {} blocks of the largest size",
        writer.name(),
        seconds(0)?,
        seconds(1)?,
        last.0,
        last.1,
    );
    println!("ratio {cost:?} (wanted: at most {})", arguments.at_most);
    Ok(cost.at_most(arguments.at_most))
}

/// A machine of one node, its memory in the pieces that an x86 PC has.
fn machine(gib: u64) -> Result<Memblock, Box<dyn std::error::Error>> {
    let mut memory = Memblock::new(Behaviour::V6_12);
    let end = (gib << 30) + (1 << 30);
    for (start, end) in [(0x1000, 0x9_f000), (0x10_0000, 0xc000_0000), (1 << 32, end)] {
        let range = PhysRange::new(PhysAddr::new(start), PhysAddr::new(end));
        memory.add_node(range, NodeId::new(0), MemblockFlags::empty())?;
    }
    let memmap = gib << 24;
    for (start, end) in [
        (0, 0x10_0000),
        (0x100_0000, 0x400_0000),
        (end - memmap - 0x12_3000, end - 0x12_3000),
    ] {
        memory.reserve(PhysRange::new(PhysAddr::new(start), PhysAddr::new(end)))?;
    }
    Ok(memory)
}

/// Everything that boot does. Returns free pages, and blocks of the largest order.
fn boot(
    map: &MemoryMap,
    machine: &Memblock,
    options: &BootOptions,
    sections: &[SectionNr],
    threads: usize,
    writer: &dyn PageWriter,
) -> (u64, u64) {
    let Ok(geometry) = Geometry::new(map.profile(), machine, options) else {
        return (0, 0);
    };
    let plan = HandOver::new(&geometry);
    let mut free = each_section(threads, sections, |section| {
        write(map, Some(&plan), section, writer)
    });
    free.sort_unstable_by_key(|free| free.section);
    let allocator = Allocator::new(
        map,
        &geometry,
        NodeDistances::default(),
        ListHeads::default(),
    );
    for free in &free {
        allocator.join(&plan, free);
    }
    let largest = map.profile().max_page_order as u8;
    geometry
        .populated_zones()
        .fold((0, 0), |sum, (node, zone)| {
            let pages = allocator.zone_counts(node.id, zone.index).free;
            let blocks: u64 = memmap_core::buddy::MigrateType::ALL
                .into_iter()
                .map(|migrate| allocator.nr_free(node.id, zone.index, largest, migrate))
                .sum();
            (sum.0 + pages, sum.1 + blocks)
        })
}

/// Writes one section, and with a plan hands it over.
fn write(
    map: &MemoryMap,
    plan: Option<&HandOver<'_>>,
    section: SectionNr,
    writer: &dyn PageWriter,
) -> Option<SectionFree> {
    let mut claim = map.claim(section)?;
    let free = match plan {
        Some(plan) => Some(claim.write_and_hand_over(writer, plan)),
        None => {
            claim.write(writer);
            None
        }
    };
    claim.publish();
    free
}

/// Has `threads` threads take the sections one after the other.
fn each_section(
    threads: usize,
    sections: &[SectionNr],
    work: impl Fn(SectionNr) -> Option<SectionFree> + Sync,
) -> Vec<SectionFree> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        while let Some(section) = sections.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.extend(work(*section));
        }
        done
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let mut done = worker();
        for other in others {
            done.extend(other.join().unwrap_or_default());
        }
        done
    })
}
