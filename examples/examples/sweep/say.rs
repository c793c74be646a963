//! What a sweep tells a person.

use std::io::{self, Write};
use std::path::Path;

use deferred_init::Topology;
use machine::{FigureKind, MachineLayout, MemorySource};
use memmap_core::Geometry;
use study::judge::MIN_ROUNDS;
use study::sweep::{Measured, Summary};
use tracing_subscriber::filter::LevelFilter;

/// Spans on stderr: none, those of runs and nodes, or those of sections too.
pub(crate) fn subscribe(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::CLOSE)
        .with_writer(std::io::stderr)
        .init();
}

/// This host, by libhwloc where that is built in.
pub(crate) fn topology() -> Result<Topology, String> {
    #[cfg(feature = "hwloc")]
    let read = deferred_init::topology::hwloc::read();
    #[cfg(not(feature = "hwloc"))]
    let read = Topology::host();
    read.map_err(|error| error.to_string())
}

/// Where the layout comes from, and what it is.
pub(crate) fn layout(
    out: &mut impl Write,
    layout: &MachineLayout,
    geometry: &Geometry,
) -> io::Result<()> {
    let profile = geometry.profile();
    let sections = geometry.sections();
    let with_memory = geometry.nodes().iter().filter(|node| node.has_memory());
    writeln!(out, "layout: {}: {}", source(layout), layout.provenance)?;
    if matches!(
        layout.provenance.memory,
        MemorySource::Sysfs | MemorySource::Zoneinfo
    ) {
        writeln!(
            out,
            "        /proc/iomem hides its addresses from us: holes and reservations of the firmware \
             are missing; root sees them"
        )?;
    }
    writeln!(
        out,
        "model:  {profile}; {:.2} GiB on {}, {}, memmap {}",
        layout.memory_bytes() as f64 / f64::from(1 << 30),
        count(with_memory.count() as u64, "node"),
        count(sections.count(), "section"),
        mebibytes(memmap_bytes(geometry)),
    )?;
    for node in geometry.nodes() {
        let early = match node.first_deferred {
            Some(pfn) => format!("first_deferred_pfn {pfn}"),
            None => "all early".to_owned(),
        };
        writeln!(
            out,
            "        node {}: {} pages present, {early}",
            node.id, node.present
        )?;
    }
    let cache = sys::last_level_cache().map_or(0, |cache| cache.bytes);
    if memmap_bytes(geometry) < 8 * cache {
        writeln!(
            out,
            "        the memmap is less than 8 times the last-level cache ({}): \
             rates are in part the cache's",
            mebibytes(cache),
        )?;
    }
    Ok(())
}

fn memmap_bytes(geometry: &Geometry) -> u64 {
    let sections = geometry.sections();
    let page = u64::from(geometry.profile().struct_page_bytes);
    sections.count() * sections.pages_per_section() * page
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// `1 node`, `2 nodes`.
fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// The layout's name: that of a file, or this host.
pub(crate) fn source(layout: &MachineLayout) -> &str {
    match layout.file.as_str() {
        "/" => "this host",
        file => file,
    }
}

/// The table and what goes with it.
pub(crate) fn result(
    out: &mut impl Write,
    layout: &MachineLayout,
    measured: &Measured,
    summary: &Summary,
    records: &Path,
) -> io::Result<()> {
    let warm_up = &measured.warm_up;
    let workers = count(warm_up.workers.len() as u64, "worker");
    writeln!(out, "host:   {workers}; limit {}", measured.limit.name())?;
    match measured.mapped {
        true => writeln!(
            out,
            "        first touch {:.1} ms; {}",
            measured.fault.as_secs_f64() * 1e3,
            warm_up.placement.to_string().trim_end().replace('\n', "; "),
        )?,
        false => writeln!(
            out,
            "        no address range is long enough: one allocation a section, \
             first touch and placement are not known",
        )?,
    }
    for failure in &warm_up.unpinned {
        writeln!(out, "        {failure}")?;
    }
    if summary.rounds == 0 {
        writeln!(out, "no round was whole: there is nothing to show")?;
    } else {
        write!(out, "\n{}\n", summary.table())?;
        writeln!(out, "{}", basis(measured, summary))?;
    }
    for figure in layout.figures.iter() {
        if let FigureKind::DeferredInit { .. } = figure.kind {
            writeln!(out, "its own kernel: {}", figure.at.text)?;
        }
    }
    writeln!(out, "records: {}", records.display())
}

/// What the ratios rest on.
fn basis(measured: &Measured, summary: &Summary) -> String {
    let rounds = count(summary.rounds as u64, "round");
    let basis = if summary.rounds < MIN_ROUNDS {
        format!(
            "{rounds} of {}: ratios are indications (~); a verdict takes {MIN_ROUNDS} \
             (--rounds {MIN_ROUNDS})",
            measured.planned_rounds,
        )
    } else {
        format!("{rounds}; ratios with their 95 % intervals")
    };
    format!(
        "{basis}\nspeed-up (over the fewest threads) and of limit are medians of ratios within a \
         round; times are medians of all rounds"
    )
}
