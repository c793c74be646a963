//! Compares memory maps with captures of real kernels.
//!
//! For every capture in a folder: zone figures, unavailable ranges, and every listed struct page
//! that still shows its initialisation. The rules are in `docs/golden.md`.

mod classify;
mod compare;
mod later;
mod pages;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use compare::Outcome;

/// Compares memory maps with captures of real kernels.
#[derive(Debug, Parser)]
struct Arguments {
    /// A folder of captures, or single captures.
    #[arg(default_value = "../shared/golden")]
    paths: Vec<PathBuf>,
    /// Fail where fewer per cent of an amd64 capture's listed pages are compared.
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    at_least: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut captures = Vec::new();
    for path in &arguments.paths {
        match list(path) {
            Ok(found) => captures.extend(found),
            Err(error) => {
                eprintln!("golden: {}: {error}", path.display());
                return ExitCode::from(2);
            }
        }
    }
    if captures.is_empty() {
        eprintln!(
            "golden: there is no capture (*.txt) in {:?}",
            arguments.paths
        );
        return ExitCode::from(2);
    }
    let mut failed = 0;
    for path in &captures {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match compare::capture(path) {
            Ok(outcome) => failed += u32::from(!show(&name, &outcome, arguments.at_least)),
            Err(error) => {
                failed += 1;
                println!("{name:28} not read: {error}");
            }
        }
    }
    println!("{} captures, {failed} not equal", captures.len());
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
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
fn show(name: &str, outcome: &Outcome, at_least: f64) -> bool {
    let enough = outcome.arch != "amd64" || outcome.listed == 0 || outcome.share() >= at_least;
    let verdict = match (outcome.is_equal(), enough) {
        (true, true) => "equal",
        (true, false) => "TOO FEW COMPARED",
        (false, _) => "UNEQUAL",
    };
    println!(
        "{name:28} {verdict}: zone figures {}/{}, gaps {}/{}; listed {}, compared {} ({:.2} %), \
         equal {} ({} changed since, as the log says), in use since {}, block heads {}, unequal {}",
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
    );
    if outcome.device.1 > 0 {
        let (equal, compared) = outcome.device;
        println!("    struct pages of devices: {equal} of {compared} equal");
    }
    for note in &outcome.notes {
        println!("    {note}");
    }
    outcome.is_equal() && enough
}
