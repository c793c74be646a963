//! What a study tells a person.

use std::io::{self, Write};
use std::path::Path;

use deferred_init::Topology;
use examples::front::{Failure, complain, unsaid, unusable};
use study::analysis::Analysis;
use study::boots;
use study::compare::compare as side_by_side;
use study::design::Design;
use study::record::{Record, read};
use study::run::{Conditions, Estimate, Machine};
use study::summary::Summary;
use study::words;

/// The runs of a design and how long they would take.
pub(crate) fn plan(
    out: &mut impl Write,
    design: &Design,
    topology: &Topology,
    machines: &[Machine],
    conditions: Conditions,
    estimate: &Estimate,
) -> Result<(), Failure> {
    let memory: Vec<u64> = machines.iter().map(|machine| machine.memory).collect();
    let runs = design
        .runs(topology, &memory, |wishes| conditions.allow(wishes))
        .map_err(unusable)?;
    let mut say = || {
        writeln!(out, "{design}")?;
        for stretch in &runs.stretches {
            writeln!(
                out,
                "{:.2} GiB, {}, {} pages:",
                stretch.memory as f64 / f64::from(1 << 30),
                stretch.place,
                stretch.pages.name()
            )?;
            for run in &stretch.contestants {
                writeln!(out, "  {:<12} {}", run.role.name(), run.settings)?;
            }
        }
        writeln!(out, "\n{estimate}")
    };
    say().map_err(unsaid)
}

/// Table and words of a file of records.
pub(crate) fn study(file: &Path) -> Result<(), Failure> {
    let records = load(file)?;
    records_to(&mut std::io::stdout().lock(), &records, file).map_err(unsaid)
}

/// Table and words of records.
pub(crate) fn records(out: &mut impl Write, records: &[Record], file: &Path) -> io::Result<()> {
    records_to(out, records, file)
}

fn records_to(out: &mut impl Write, records: &[Record], file: &Path) -> io::Result<()> {
    let analysis = Analysis::of(records);
    if let Some(record) = records.first() {
        let host = &record.host;
        writeln!(
            out,
            "host:    {}, {}, kernel {}, {} CPUs allowed, {} nodes, {} {}",
            host.name,
            host.cpu,
            host.kernel,
            host.cpus,
            host.nodes.len(),
            host.version,
            host.commit
        )?;
        if !record.counters.absent.is_empty() {
            writeln!(out, "         counters absent: {}", record.counters.absent)?;
        }
        for boot in &host.boot {
            writeln!(
                out,
                "         its own kernel initialised node {} in {} ms when it booted",
                boot.node, boot.ms
            )?;
        }
    }
    let summary = Summary::of(&analysis);
    if !summary.rows.is_empty() {
        write!(out, "\n{}", summary.table())?;
    }
    let boots = boots::rows(&analysis);
    if !boots.is_empty() {
        write!(out, "\nboots by policy\n{}", boots::table(&boots))?;
    }
    for (name, table) in study::matrix::tables(&analysis) {
        write!(out, "\n{name}\n{table}")?;
    }
    writeln!(out, "\nrecords: {}\n", file.display())?;
    for sentence in words::of(&analysis) {
        writeln!(out, "{sentence}")?;
    }
    Ok(())
}

/// Two studies beside each other.
pub(crate) fn compare(a: &Path, b: &Path) -> Result<(), Failure> {
    let (one, other) = (load(a)?, load(b)?);
    let compared = side_by_side(&one, &other);
    let mut out = std::io::stdout().lock();
    write!(out, "A: {}\nB: {}\n\n{compared}", a.display(), b.display()).map_err(unsaid)
}

/// The records of a file, with a warning where its last line was torn.
pub(crate) fn load(file: &Path) -> Result<Vec<Record>, Failure> {
    let recorded = read(file).map_err(unusable)?;
    if let Some(torn) = &recorded.torn {
        complain(format_args!("warning: {torn}"));
    }
    match recorded.records.is_empty() {
        true => Err(unusable(format!("{}: no records", file.display()))),
        false => Ok(recorded.records),
    }
}
