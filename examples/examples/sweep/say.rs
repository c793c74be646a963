//! What a sweep tells a person.

use std::path::Path;

use deferred_init::Topology;
use machine::{FigureKind, MachineLayout};
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
pub(crate) fn layout(layout: &MachineLayout, geometry: &Geometry) {
    let profile = geometry.profile();
    let sections = geometry.sections();
    let bytes =
        sections.count() * sections.pages_per_section() * u64::from(profile.struct_page_bytes);
    let with_memory = geometry
        .nodes()
        .iter()
        .filter(|node| node.has_memory())
        .count();
    println!("layout: {}: {}", source(layout), layout.provenance);
    println!(
        "model:  {profile}; {:.2} GiB on {with_memory} node{}, {} sections, memmap {:.1} MiB",
        layout.memory_bytes() as f64 / f64::from(1 << 30),
        if with_memory == 1 { "" } else { "s" },
        sections.count(),
        bytes as f64 / f64::from(1 << 20),
    );
    for node in geometry.nodes() {
        let early = match node.first_deferred {
            Some(pfn) => format!("first_deferred_pfn {pfn}"),
            None => "all early".to_owned(),
        };
        println!(
            "        node {}: {} pages present, {early}",
            node.id, node.present
        );
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
    layout: &MachineLayout,
    measured: &Measured,
    summary: &Summary,
    records: &Path,
) {
    let warm_up = &measured.warm_up;
    println!(
        "host:   {} workers, {}; first touch {:.1} ms; limit {}",
        warm_up.workers.len(),
        warm_up.placement.to_string().trim_end(),
        measured.fault.as_secs_f64() * 1e3,
        measured.limit.name(),
    );
    for failure in &warm_up.unpinned {
        println!("        {failure}");
    }
    print!("\n{}\n", summary.table());
    if summary.rounds < MIN_ROUNDS {
        println!(
            "{} rounds of {}: ratios are indications (~); a verdict takes {MIN_ROUNDS} (--rounds {MIN_ROUNDS})",
            summary.rounds, measured.planned_rounds,
        );
    } else {
        println!(
            "{} rounds; ratios with their 95 % intervals",
            summary.rounds
        );
    }
    for figure in layout.figures.iter() {
        if let FigureKind::DeferredInit { .. } = figure.kind {
            println!("its own kernel: {}", figure.at.text);
        }
    }
    println!("records: {}", records.display());
}
