//! What programs tell a person, and how they end.

use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use deferred_init::Topology;
use deferred_init::engine::CancelToken;
use machine::{MachineLayout, MemorySource};
use memmap_core::{Geometry, MapError};
use study::record::Record;
use study::run::StudyError;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::CLOSED_PIPE;
use crate::trace::Trace;

/// Done with an exit status other than 0, and why; nothing is printed of an empty message.
pub type Failure = (u8, String);

/// Interrupted, a run failed, or all were refused.
pub const FAILED: u8 = 1;
/// What was asked for cannot be used.
pub const UNUSABLE: u8 = 2;
/// The struct pages do not fit in the memory that is available.
pub const NO_ROOM: u8 = 3;

/// What those mean, for `--help`.
pub const EXIT_CODES: &str = "\
Exit status:
  0  done
  1  interrupted, a run failed, or all were refused; what was measured is kept
  2  the arguments, the study file or the layout cannot be used
  3  the struct pages do not fit in the memory that is available";

/// Nobody reads what we print any more, or it cannot be kept.
pub fn unsaid(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => (CLOSED_PIPE, String::new()),
        _ => (FAILED, format!("stdout: {error}")),
    }
}

/// What was asked for cannot be used.
pub fn unusable(error: impl ToString) -> Failure {
    (UNUSABLE, error.to_string())
}

/// Why a study ended early, with the status for it.
pub fn ended(error: StudyError) -> Failure {
    let status = match error {
        StudyError::Map(MapError::TooLittleMemory { .. }) => NO_ROOM,
        StudyError::Map(_)
        | StudyError::Engine { .. }
        | StudyError::Boot { .. }
        | StudyError::Cells(_) => UNUSABLE,
        _ => FAILED,
    };
    (status, error.to_string())
}

/// Several things of which none keeps the others from being done: the status of the first that failed, and
/// what is wrong with any.
///
/// # Errors
/// Where one of them failed.
pub fn all<const N: usize>(done: [Result<(), Failure>; N]) -> Result<(), Failure> {
    let failures: Vec<Failure> = done.into_iter().filter_map(Result::err).collect();
    let Some(&(status, _)) = failures.first() else {
        return Ok(());
    };
    let messages: Vec<String> = failures
        .into_iter()
        .map(|(_, message)| message)
        .filter(|message| !message.is_empty())
        .collect();
    Err((status, messages.join("\n")))
}

/// Says something on standard error; where that cannot be said, nothing more is done.
pub fn complain(what: impl std::fmt::Display) {
    // whoever closed standard error does not want to know
    drop(writeln!(io::stderr(), "{what}"));
}

/// Says why a program ended, and ends it.
pub fn end(program: &str, done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err((status, message)) => {
            if !message.is_empty() {
                complain(format_args!("{program}: {message}"));
            }
            ExitCode::from(status)
        }
    }
}

/// A study of which nothing could be measured has failed, however well it was written down.
///
/// # Errors
/// [`FAILED`] where all of some records are of runs that were refused.
pub fn measured(records: &[Record]) -> Result<(), Failure> {
    match records.first().map(|record| &record.refused) {
        Some(Some(why)) if records.iter().all(|record| record.refused.is_some()) => Err((
            FAILED,
            format!("nothing could be measured; the first run was refused: {why}"),
        )),
        _ => Ok(()),
    }
}

/// Spans on stderr: none, those of runs and nodes, or those of sections too. With the name of a file all
/// of them are kept for it, whatever is printed.
pub fn subscribe(verbose: u8, trace: Option<&Path>) -> Option<Trace> {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let close = tracing_subscriber::fmt::format::FmtSpan::CLOSE;
    let Some(path) = trace else {
        // by a level for the whole program, so that spans that nobody sees cost nothing
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_span_events(close)
            .with_writer(std::io::stderr)
            // it would panic where stderr is full
            .log_internal_errors(false)
            .init();
        return None;
    };
    let trace = Trace::new(path);
    let printed = tracing_subscriber::fmt::layer()
        .with_span_events(close)
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .with_filter(level);
    tracing_subscriber::registry()
        .with(printed)
        .with(trace.timeline())
        .init();
    Some(trace)
}

/// Whether spans of runs cost time: they are printed, or kept.
pub fn is_traced(verbose: u8, trace: Option<&Trace>) -> bool {
    verbose > 0 || trace.is_some()
}

/// This host, by libhwloc where that is built in.
///
/// # Errors
/// In words.
pub fn topology() -> Result<Topology, String> {
    #[cfg(feature = "hwloc")]
    let read = deferred_init::topology::hwloc::read();
    #[cfg(not(feature = "hwloc"))]
    let read = Topology::host();
    read.map_err(|error| error.to_string())
}

/// Prints where a layout comes from, and what it is.
///
/// # Errors
/// Where it cannot be printed.
pub fn layout(out: &mut impl Write, layout: &MachineLayout, geometry: &Geometry) -> io::Result<()> {
    let profile = geometry.profile();
    let sections = geometry.sections();
    let with_memory = geometry.nodes().iter().filter(|node| node.has_memory());
    let source = crate::machines::source(layout);
    writeln!(out, "layout: {source}: {}", layout.provenance)?;
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

/// `12.0 MiB`.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// `1 node`, `2 nodes`.
pub fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// A token that ^C cancels.
///
/// # Errors
/// What keeps ^C from being caught, and what to do.
pub fn cancelled_by_interrupt() -> Result<CancelToken, Failure> {
    let cancel = CancelToken::new();
    let interrupted = cancel.clone();
    ctrlc::set_handler(move || interrupted.cancel()).map_err(|error| {
        let what = format!(
            "^C could not be caught, which takes a thread: {error}; raise ulimit -u or the pids \
             limit of the cgroup"
        );
        (FAILED, what)
    })?;
    Ok(cancel)
}
