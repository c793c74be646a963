//! What a kernel would print for a boot log, beside what it did print.

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
Exit status:
  0  every figure that can be compared is equal
  1  a figure differs
  2  a file cannot be read, or is of a machine that is not modelled";

fn main() -> ExitCode {
    let args = Args::parse();
    let statuses = args.files.iter().map(|file| match boot(file, &args) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            eprintln!("boot: {error}");
            2
        }
    });
    ExitCode::from(statuses.max().unwrap_or(2))
}

/// Prints one machine; whether nothing differs.
fn boot(file: &Path, args: &Args) -> Result<bool, MachineError> {
    let layout = MachineLayout::open(file)?;
    println!("{}: {}", layout.file, layout.provenance);
    for contradiction in &layout.provenance.contradictions {
        println!("  {contradiction}");
    }
    let report = check(&layout);
    if let Some(choice) = &report.choice {
        println!("model: {}", choice.profile);
    }
    print!("\n{}", lines(&report));
    let zones = geometry(&layout, &report);
    if let (Some(geometry), false) = (&zones, args.no_zoneinfo) {
        print!("\n{}", geometry.zoneinfo());
    }
    let agrees = report.agrees();
    if let Some(error) = &report.error {
        println!("\nno memory map: {error}");
    }
    println!(
        "\n{}: {} ({})\n",
        layout.file,
        if agrees { "equal" } else { "different" },
        report.tally()
    );
    Ok(agrees)
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
