//! The measurement of device memory: `device_perf`.
//!
//! The struct pages of one device, rebound again and again on populated memory: our ways beside the
//! fastest streaming fill and beside Linux's ways in C, all in one process and judged by
//! [`study::judge`]. Copy-on-write is measured apart, whole binds against whole binds, since what
//! it saves is not writing.
//!
//! # Implementation
//! As in [`perf`](crate::perf): the device is cut into windows, each measurement writes the one that
//! was written least recently, so all contestants meet memory that has left the cache, and the two
//! sides of a ratio are close in time.

mod report;

use std::time::Instant;

use benches::device;
use memblock::{NodeId, PfnRange, PhysAddr, PhysRange};
use memmap_core::limit::{self, Fill};
use memmap_core::writers::PageWriter;
use memmap_core::{KernelVersion, Profile};
use study::judge::{JudgeError, Rule, Samples};
use sys::{HugePages, SysError};
use zone_device::{DevPagemap, DeviceError, DeviceMemmap, DeviceRuns, MemoryType, Site, Way};

pub use report::{Check, Report, Row};

/// Windows that the struct pages are cut into.
const WINDOWS: u64 = 64;
/// Where the device lies.
const START: u64 = 1 << 40;

/// What is measured.
#[derive(Clone, Debug, clap::Parser)]
#[command(
    name = "device_perf",
    about = "Struct pages of devices: our ways beside Linux's in C"
)]
pub struct Options {
    /// Size of the device in GiB.
    #[arg(long, default_value_t = 100)]
    pub gib: u64,
    /// Rounds of each judgement.
    #[arg(long, default_value_t = study::judge::MIN_ROUNDS)]
    pub rounds: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Fail where a goal is missed.
    #[arg(long)]
    pub check: bool,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevicePerfError {
    /// The system refused something.
    #[error(transparent)]
    System(#[from] SysError),
    /// The rule refused something.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// No such device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The size makes no device, or one whose struct pages do not fit.
    #[error("--gib {gib}: give 1 to {most}, whose struct pages fit the memory that is available")]
    Size {
        /// What was asked for.
        gib: u64,
        /// What fits.
        most: u64,
    },
}

/// A device of one shape.
struct Shape {
    name: &'static str,
    memory_type: MemoryType,
    order: u32,
}

const SHAPES: [Shape; 2] = [
    Shape {
        name: "fsdax 4K",
        memory_type: MemoryType::FsDax,
        order: 0,
    },
    Shape {
        name: "devdax 2M",
        memory_type: MemoryType::Generic,
        order: 9,
    },
];

/// Something that fills the struct pages of a window.
enum Contestant {
    Limit(&'static Fill),
    Writer(&'static dyn PageWriter),
}

impl Contestant {
    /// Name, and who wrote it.
    fn name(&self) -> (&'static str, &'static str) {
        match self {
            Self::Limit(fill) => (fill.name(), "limit"),
            Self::Writer(writer) => {
                let ours = Way::ALL
                    .iter()
                    .find(|way| way.writer().name() == writer.name());
                match ours {
                    Some(way) => (way.name(), "rust"),
                    None => (writer.name(), "c"),
                }
            }
        }
    }
}

/// Measures what `options` ask for; `progress` gets a line now and then.
///
/// # Errors
/// [`DevicePerfError`].
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report, DevicePerfError> {
    // two memory maps at a time, and something for everybody else
    let available = sys::available_memory().bytes;
    let most = available / 3 * 64;
    let gib = options.gib;
    if gib == 0 || gib.checked_mul(1 << 30).is_none_or(|bytes| bytes > most) {
        let most = most >> 30;
        return Err(DevicePerfError::Size { gib, most });
    }
    let rule = Rule {
        rounds: options.rounds,
        ..Rule::default()
    };
    let mut report = Report::new(gib);
    for shape in &SHAPES {
        progress(&format!("{} of {gib} GiB", shape.name));
        let mut memmap = shape.memmap(gib)?;
        memmap.populate()?;
        rebind(&mut memmap, shape, &rule, &mut report)?;
        if shape.order == 0 {
            progress("copy-on-write");
            cow(&mut memmap, shape, gib, &rule, &mut report)?;
        }
    }
    Ok(report)
}

impl Shape {
    fn memmap(&self, gib: u64) -> Result<DeviceMemmap, DevicePerfError> {
        let profile = Profile::amd64(KernelVersion::V7_3);
        let pagemap = DevPagemap::new(self.memory_type, 0xffff_8881_0279_13c0)
            .with_range(PhysRange::from_size(PhysAddr::new(START), gib << 30))
            .with_vmemmap_shift(self.order);
        let runs = DeviceRuns::new(&profile, &pagemap, &Site::on_node(NodeId::new(0)))?;
        Ok(DeviceMemmap::new(runs, HugePages::Always)?)
    }
}

/// Every way of writing, window by window.
fn rebind(
    memmap: &mut DeviceMemmap,
    shape: &Shape,
    rule: &Rule,
    report: &mut Report,
) -> Result<(), DevicePerfError> {
    let runs = memmap.runs().clone();
    let range = runs.ranges()[0];
    let unit = (1_u64 << shape.order).max(512);
    let pages = (range.len() / WINDOWS / unit).max(1) * unit;
    let windows = range.len() / pages;
    let bytes = pages as usize * 64;

    // in the memory that is measured, a window after the other
    let fastest = {
        let words = memmap
            .mapping_mut()
            .words_mut(0..windows as usize * bytes)?;
        let mut window = 0;
        limit::fastest(5, &mut |fill| {
            let at = window % windows as usize * bytes / 8;
            window += 1;
            let start = Instant::now();
            fill.run(&mut words[at..at + bytes / 8]);
            start.elapsed().as_nanos() as u64
        })
    };
    let mut contestants = vec![Contestant::Limit(fastest)];
    let ways = Way::ALL.iter().filter(|way| **way != Way::Cow);
    contestants.extend(ways.map(|way| Contestant::Writer(way.writer())));
    contestants.extend(device::all().iter().map(|way| Contestant::Writer(way)));

    let mut next = 0;
    let mut failed = None;
    let samples = Samples::collect(rule, contestants.len(), |contestant, _| {
        let window = next % windows;
        next += 1;
        let first = range.start().saturating_add(window * pages);
        let pfns = PfnRange::new(first, first.saturating_add(pages));
        let at = window as usize * bytes;
        let words = match memmap.mapping_mut().words_mut(at..at + bytes) {
            Ok(words) => words,
            Err(error) => {
                failed.get_or_insert(error);
                return f64::NAN;
            }
        };
        let run = runs.cut(pfns).next();
        let start = Instant::now();
        match (&contestants[contestant], run) {
            (Contestant::Limit(fill), _) => fill.run(words),
            (Contestant::Writer(writer), Some(run)) => run.write(*writer, words, None),
            (Contestant::Writer(_), None) => return f64::NAN,
        }
        start.elapsed().as_nanos() as f64 / pages as f64
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    let names: Vec<_> = contestants.iter().map(Contestant::name).collect();
    report.add(shape.name, range.len(), &names, &samples?)?;
    Ok(())
}

/// Whole binds by copy-on-write beside whole binds by word zeroing, and what is left for later.
fn cow(
    memmap: &mut DeviceMemmap,
    shape: &Shape,
    gib: u64,
    rule: &Rule,
    report: &mut Report,
) -> Result<(), DevicePerfError> {
    let run = memmap.runs().runs()[0].clone();
    let bytes = run.pfns().len() as usize * 64;
    let mut copies = shape.memmap(gib)?;
    let mut failed = None;
    let samples = Samples::collect(rule, 2, |contestant, _| {
        let mut once = || -> Result<f64, SysError> {
            if contestant == 0 {
                let words = memmap.mapping_mut().words_mut(0..bytes)?;
                let start = Instant::now();
                run.write(&device::all()[0], words, None);
                return Ok(start.elapsed().as_nanos() as f64);
            }
            let start = Instant::now();
            let bound = copies.bind(Way::Cow, None)?;
            let time = start.elapsed().as_nanos() as f64;
            // the block too is made anew at every bind
            copies.unbind()?;
            Ok(if bound.refusal.is_none() {
                time
            } else {
                f64::NAN
            })
        };
        once().unwrap_or_else(|error| {
            failed.get_or_insert(error);
            f64::NAN
        })
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    let samples = samples?;
    let bound = copies.bind(Way::Cow, None)?;
    let (read, write) = touch(&mut copies)?;
    report.add_cow(&samples, &bound, read, write)?;
    Ok(())
}

/// Milliseconds that reading, then writing a struct page of every 4 KiB of memory map take.
fn touch(memmap: &mut DeviceMemmap) -> Result<(f64, f64), SysError> {
    let range = memmap.runs().ranges()[0];
    let step = 64;
    let mut sum = 0;
    let start = Instant::now();
    for k in (0..range.len()).step_by(step) {
        sum ^= memmap
            .read(range.start().saturating_add(k))
            .map_or(0, |words| words[0]);
    }
    std::hint::black_box(sum);
    let read = start.elapsed().as_secs_f64() * 1e3;
    let bytes = memmap.bytes();
    let words = memmap.mapping_mut().words_mut(0..bytes)?;
    let start = Instant::now();
    for page in words.chunks_exact_mut(512) {
        page[4] = 1;
    }
    Ok((read, start.elapsed().as_secs_f64() * 1e3))
}
