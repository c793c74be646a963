//! Compares memory maps with captures of real kernels.
//!
//! For every capture in a folder: zone figures, unavailable ranges, and every listed struct page
//! that still shows its initialisation. Exit status 0 where all captures are equal, 1 where one is
//! not or lacks something, 2 where one cannot be read. The rules are in `docs/golden.md`.

mod classify;
mod compare;
mod later;
mod pages;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use tools::front;

use compare::Outcome;

/// Compares memory maps with captures of real kernels.
#[derive(Debug, Parser)]
struct Arguments {
    /// A folder of captures, or single captures.
    #[arg(default_value = "../shared/golden")]
    paths: Vec<PathBuf>,
    /// Fail where fewer per cent of an amd64 capture's listed pages are compared.
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT", value_parser = front::percent,
          allow_negative_numbers = true)]
    at_least: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut captures = Vec::new();
    for path in &arguments.paths {
        match list(path) {
            Ok(found) => captures.extend(found),
            Err(error) => {
                front::complain("golden", format_args!("{}: {error}", path.display()));
                return ExitCode::from(2);
            }
        }
    }
    if captures.is_empty() {
        let paths = &arguments.paths;
        front::complain(
            "golden",
            format_args!("there is no capture (*.txt) in {paths:?}"),
        );
        return ExitCode::from(2);
    }
    front::finish("golden", |out| {
        compare_all(out, &captures, arguments.at_least)
    })
}

fn compare_all(out: &mut dyn Write, captures: &[PathBuf], at_least: f64) -> io::Result<ExitCode> {
    let (mut failed, mut unread) = (0, 0);
    for path in captures {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy();
        match compare::capture(path) {
            Ok(outcome) => failed += u32::from(!show(out, &name, &outcome, at_least)?),
            Err(error) => {
                unread += 1;
                writeln!(out, "{name:28} not read: {error}")?;
            }
        }
    }
    let count = captures.len();
    writeln!(
        out,
        "{count} captures, {failed} not equal, {unread} not read"
    )?;
    Ok(match (failed, unread) {
        (0, 0) => ExitCode::SUCCESS,
        (_, 0) => ExitCode::FAILURE,
        _ => ExitCode::from(2),
    })
}

/// The captures of a folder, by name; a file is a capture itself.
fn list(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        path.metadata()?;
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Prints one capture's line; true where all is well.
fn show(out: &mut dyn Write, name: &str, outcome: &Outcome, at_least: f64) -> io::Result<bool> {
    let enough = outcome.arch != "amd64" || outcome.share() >= at_least;
    let missing = outcome.missing.join(", ");
    let verdict = match (outcome.is_equal(), missing.is_empty()) {
        (true, true) if enough => "equal".to_owned(),
        (true, true) => "TOO FEW COMPARED".to_owned(),
        (true, false) => format!("incomplete: {missing} missing"),
        (false, true) => "UNEQUAL".to_owned(),
        (false, false) => format!("UNEQUAL and incomplete: {missing} missing"),
    };
    let unexplained = match outcome.unexplained {
        0 => String::new(),
        pages => format!(" unexplained (log ends early) {pages},"),
    };
    writeln!(
        out,
        "{name:28} {verdict}: zone figures {}/{}, gaps {}/{}; listed {}, compared {} ({:.2} %), \
         equal {} ({} changed since, as the log says), in use since {}, block heads {},\
         {unexplained} unequal {}",
        outcome.zones.0,
        outcome.zones.1,
        outcome.gaps.0,
        outcome.gaps.1,
        outcome.listed,
        outcome.compared,
        outcome.share(),
        outcome.equal,
        outcome.explained,
        outcome.in_use,
        outcome.heads,
        outcome.unequal,
    )?;
    if outcome.device.1 > 0 {
        let (equal, compared) = outcome.device;
        writeln!(
            out,
            "    struct pages of devices: {equal} of {compared} equal"
        )?;
    }
    let blocks = &outcome.blocks;
    if blocks.listed > 0 || blocks.managed.is_some() {
        write!(out, "    {blocks}")?;
    }
    for note in outcome.notes.iter().chain(&blocks.notes) {
        writeln!(out, "    {note}")?;
    }
    Ok(outcome.is_equal() && missing.is_empty() && enough)
}
