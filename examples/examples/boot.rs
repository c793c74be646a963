//! What a kernel would print for a boot log, beside what it did print.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use machine::check::{CheckReport, Verdict, check};
use machine::{MachineError, MachineLayout};
use memmap_core::Geometry;
use study::table::{Align, Table};

/// Builds the memory map of a boot log's machine and compares every figure that the kernel
/// printed about its own with ours.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES)]
struct Args {
    /// Boot logs: output of dmesg, or captures that hold one
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Leave the /proc/zoneinfo-like block out
    #[arg(long)]
    no_zoneinfo: bool,
}

const EXIT_CODES: &str = "\
Verdicts:
  equal        ours is the same
  differs      ours is another, or there is none
  input        the line was read to build the map: finding it again proves nothing
  cannot know  it depends on what no log tells; the reason stands behind it

Exit status:
  0  every figure that can be compared is equal
  1  a figure differs
  2  a file cannot be read, is of a machine that is not modelled, or prints nothing to compare";

const DIFFERENT: u8 = 1;
const UNREADABLE: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    let mut out = std::io::stdout().lock();
    let mut status = 0;
    for file in &args.files {
        match boot(&mut out, file, &args) {
            Ok(one) => status = status.max(one),
            Err(BootError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => {
                return ExitCode::from(examples::CLOSED_PIPE);
            }
            Err(error) => {
                eprintln!("boot: {error}");
                status = UNREADABLE;
            }
        }
    }
    ExitCode::from(status)
}

#[derive(Debug, thiserror::Error)]
enum BootError {
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error("stdout: {0}")]
    Output(#[from] io::Error),
}

/// Prints one machine; its exit status.
fn boot(out: &mut impl Write, file: &Path, args: &Args) -> Result<u8, BootError> {
    let layout = MachineLayout::open(file)?;
    writeln!(out, "{}: {}", layout.file, layout.provenance)?;
    for contradiction in &layout.provenance.contradictions {
        writeln!(out, "  {contradiction}")?;
    }
    let report = check(&layout);
    if let Some(choice) = &report.choice {
        writeln!(out, "model: {}", choice.profile)?;
    }
    write!(out, "\n{}", lines(&report))?;
    let zones = geometry(&layout, &report);
    if let (Some(geometry), false) = (&zones, args.no_zoneinfo) {
        write!(out, "\n{}", geometry.zoneinfo())?;
    }
    let tally = report.tally();
    let (verdict, status) = match (&report.error, tally.differs, tally.equal) {
        (Some(error), ..) => (format!("no memory map: {error}"), UNREADABLE),
        (None, 0, 0) => ("nothing to compare".to_owned(), UNREADABLE),
        (None, 0, _) => ("equal".to_owned(), 0),
        (None, ..) => ("different".to_owned(), DIFFERENT),
    };
    writeln!(out, "\n{}: {verdict} ({tally})\n", layout.file)?;
    Ok(status)
}

/// Our verdict on every line of the kernel's, and our own line where it is another.
fn lines(report: &CheckReport) -> Table {
    let mut table = Table::new([
        ("ours", Align::Left),
        ("line", Align::Right),
        ("the kernel printed", Align::Left),
        ("", Align::Left),
    ]);
    for figure in &report.figures {
        let remark = match &figure.verdict {
            Verdict::Differs { ours: Some(ours) } => format!("we print: {ours}"),
            Verdict::Differs { ours: None } => "we print no such line".to_owned(),
            Verdict::CannotKnow(reason) => reason.to_string(),
            _ => String::new(),
        };
        let (line, text) = match figure.at.line {
            0 => (String::new(), format!("(no line: {})", figure.what)),
            line => (line.to_string(), figure.at.text.trim_end().to_owned()),
        };
        table.row([figure.verdict.name().to_owned(), line, text, remark]);
    }
    table
}

/// The map that the figures were compared with.
fn geometry(layout: &MachineLayout, report: &CheckReport) -> Option<Geometry> {
    let profile = &report.choice.as_ref()?.profile;
    let memblock = layout.memblock().ok()?;
    Geometry::new(profile, &memblock, &layout.boot_options()).ok()
}
