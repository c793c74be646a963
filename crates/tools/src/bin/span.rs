//! Does the address span cost anything? The same memory in one piece, and scattered over a span
//! a thousand times as long.
//!
//! Both maps live in one process, on memory of their own that was populated before; whole maps
//! are written by one thread in shuffled pairs of rounds. What is timed is everything from the
//! first claim to the last publication.

#![forbid(unsafe_code)]

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::{
    BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile, writers,
};
use study::judge::{MIN_ROUNDS, Rule, Samples};

/// Compares memory in one piece with the same memory scattered over a long span.
#[derive(Debug, Parser)]
struct Arguments {
    /// Memory, in GiB.
    #[arg(long, default_value_t = 64)]
    present: u64,
    /// Span of the scattered memory, in GiB.
    #[arg(long, default_value_t = 65_536)]
    span: u64,
    /// Rounds; 61 at least.
    #[arg(long, default_value_t = MIN_ROUNDS)]
    rounds: usize,
    /// The page writer.
    #[arg(long, default_value = "template")]
    writer: String,
    /// Fail where the scattered memory is slower by more than this ratio.
    #[arg(long)]
    at_most: Option<f64>,
}

/// A section of amd64.
const SECTION: u64 = 128 << 20;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("span: {error}");
            ExitCode::from(2)
        }
    }
}

/// A populated map of `sections` sections, one every `stride` bytes.
fn map(sections: u64, stride: u64) -> Result<MemoryMap, Box<dyn Error>> {
    let mut memory = Memblock::new(Behaviour::V6_12);
    for section in 0..sections {
        let range = PhysRange::from_size(PhysAddr::new((4 << 30) + section * stride), SECTION);
        memory.add_node(range, NodeId::new(0), MemblockFlags::empty())?;
    }
    let mut config = Profile::amd64(KernelVersion::V6_12).config().clone();
    config.max_physmem_bits = 52;
    let geometry = Geometry::new(&config.build()?, &memory, &BootOptions::default())?;
    let map = MemoryMap::new(geometry, BackingOptions::default())?;
    for section in map.geometry().sections().iter() {
        if let Some(mut claim) = map.claim(section) {
            claim.populate()?;
        }
    }
    Ok(map)
}

/// Seconds that one thread takes to write all of `map`.
fn write(map: &mut MemoryMap, writer: &dyn writers::PageWriter) -> f64 {
    map.reset();
    let begin = Instant::now();
    for section in map.geometry().sections().iter() {
        if let Some(mut claim) = map.claim(section) {
            claim.write(writer);
            claim.publish();
        }
    }
    begin.elapsed().as_secs_f64()
}

fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let sections = (arguments.present << 30) / SECTION;
    if sections == 0 || arguments.span < arguments.present {
        return Err("the span must hold the memory, and there must be some".into());
    }
    let stride = (arguments.span << 30) / sections / SECTION * SECTION;
    let writer = writers::by_name(&arguments.writer)
        .ok_or_else(|| format!("there is no page writer {:?}", arguments.writer))?;
    let mut maps = [map(sections, SECTION)?, map(sections, stride)?];
    for map in &mut maps {
        write(map, writer);
    }
    let rule = Rule {
        rounds: arguments.rounds,
        ..Rule::default()
    };
    let samples = Samples::collect(&rule, 2, |which, _| write(&mut maps[which], writer))?;
    let cost = samples.cost(1, 0)?;
    println!(
        "{} GiB in {sections} sections, writer {}: in one piece {:.1} ms, over {} GiB {:.1} ms; \
         ratio {:.4} (95 % {:.4} to {:.4}, {} rounds)",
        arguments.present,
        arguments.writer,
        samples.time(0)? * 1e3,
        arguments.span,
        samples.time(1)? * 1e3,
        cost.median,
        cost.low,
        cost.high,
        cost.rounds,
    );
    Ok(arguments.at_most.is_none_or(|bound| cost.at_most(bound)))
}
