//! First touch and writing, fused and apart.
//!
//! Memory that nobody has touched yet costs a fault per page, far more than writing struct pages
//! does. Whoever faults 2 MiB and writes them at once finds the zeroed lines in the cache; whoever
//! faults everything first does not. Both start from the same memory, given back to the system
//! before each measurement.

use std::ops::Range;
use std::time::Instant;

use memmap_core::PageImage;
use memmap_core::writers::{PageWriter, Stream, Template};
use study::judge::{Rule, Samples};
use sys::{Mapping, SysError};

use super::PerfError;
use super::arena;
use super::contestants::{Kind, free_pages};
use super::options::Plan;
use super::report::Report;

/// Bytes that are faulted and then written at a time.
const CHUNK: usize = 2 << 20;
/// Bytes of one measurement.
const REGION: usize = 8 << 20;

/// One way of touching and writing memory for the first time.
struct Way {
    name: &'static str,
    writer: &'static dyn PageWriter,
    fused: bool,
}

const WAYS: [Way; 4] = [
    Way {
        name: "fault+stream",
        writer: &Stream::DETECT,
        fused: true,
    },
    Way {
        name: "fault,stream",
        writer: &Stream::DETECT,
        fused: false,
    },
    Way {
        name: "fault+template",
        writer: &Template::DETECT,
        fused: true,
    },
    Way {
        name: "fault,template",
        writer: &Template::DETECT,
        fused: false,
    },
];

/// Measures all ways and adds them to `report`, each fused one beside its twin.
pub(super) fn measure(plan: &Plan, report: &mut Report) -> Result<(), PerfError> {
    let page = plan.size.bytes();
    // chunks hold whole pages of any size only if they are cut at common multiples
    let chunk = CHUNK / page * page;
    let bytes = REGION / chunk * chunk;
    let mut map = arena::map(bytes.next_multiple_of(CHUNK), plan.huge)?;
    let image = free_pages(plan.size).image(plan.size);
    let rule = Rule {
        rounds: plan.rounds.min(91),
        ..Rule::default()
    };
    let mut failed = None;
    let samples = Samples::collect(&rule, WAYS.len(), |way, _| {
        once(&mut map, &WAYS[way], &image, bytes, chunk).unwrap_or_else(|error| {
            failed.get_or_insert(error);
            f64::NAN
        }) / (bytes / page) as f64
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    let samples = samples?;
    for (index, way) in WAYS.iter().enumerate() {
        let time = samples.time(index)?;
        report.add_alone(way.name, Kind::Rust, time, plan.size);
        if way.fused {
            let ratio = samples.cost(index, index + 1)?;
            report.add_interval(way.name, WAYS[index + 1].name, 1, ratio);
        }
    }
    Ok(())
}

/// Gives the memory back, then touches and writes all of it; nanoseconds of the latter.
fn once(
    map: &mut Mapping,
    way: &Way,
    image: &PageImage,
    bytes: usize,
    chunk: usize,
) -> Result<f64, SysError> {
    map.discard(0..map.len())?;
    let step = if way.fused { chunk } else { bytes };
    let start = Instant::now();
    for at in (0..bytes).step_by(step) {
        fault_and_write(map, at..(at + step).min(bytes), way.writer, image)?;
    }
    Ok(start.elapsed().as_nanos() as f64)
}

fn fault_and_write(
    map: &mut Mapping,
    range: Range<usize>,
    writer: &dyn PageWriter,
    image: &PageImage,
) -> Result<(), SysError> {
    let first = range.start / image.size().bytes();
    let page = sys::page_size();
    map.fault_in(range.start / page * page..range.end.next_multiple_of(page))?;
    writer.write(&image.advance(first as u64), map.words_mut(range)?);
    Ok(())
}
