//! Fuzzing of readers and scripts: `cargo xtask fuzz [TARGET …] [--seconds N]`.
//!
//! Coverage counters and the address sanitizer are part of the stable compiler but may be asked for
//! by its own developers only, hence `RUSTC_BOOTSTRAP`, for this build alone. What is found to be
//! interesting is kept in `target/fuzz/corpus`, what breaks a reader in `target/fuzz/artifacts`.
//! Each target's run is a line of the log of nights, with the inputs tried, those that reached what
//! none had reached before, and findings.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::launch::{self, Stream};
use crate::log::{Ended, Log, Run};

/// Flags that make a program tell the fuzzer where it goes, and stop where it touches what is not
/// its own.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address \
                     -Ccodegen-units=1";

/// Seconds that each target gets where nobody says otherwise.
const SECONDS: u64 = 30;

/// Bytes of the longest input: a boot log of some hundred lines.
const LONGEST: u64 = 64 << 10;

/// Runs the named targets, or all; fails if one breaks, after all have run.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let folder = launch::root().join("fuzz");
    let known = targets(&folder);
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!(
            "Usage: cargo xtask fuzz [--seconds N] [TARGET …]\n\n\
             All targets without a name, {SECONDS} seconds each without a number: {}",
            known.join(" ")
        );
        return ExitCode::SUCCESS;
    }
    let asked = match asked(args) {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("xtask fuzz: {error}");
            return ExitCode::from(2);
        }
    };
    if let Some(unknown) = asked.targets.iter().find(|name| !known.contains(name)) {
        eprintln!(
            "xtask fuzz: no target is named `{unknown}`; targets: {}",
            known.join(" ")
        );
        return ExitCode::from(2);
    }
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let out = launch::root().join("target/fuzz");
    let chosen: Vec<String> = known
        .into_iter()
        .filter(|name| asked.targets.is_empty() || asked.targets.contains(name))
        .collect();
    let mut line: Vec<String> = [
        "build",
        "--release",
        "--locked",
        "--manifest-path",
        &folder.join("Cargo.toml").to_string_lossy(),
        "--target-dir",
        &out.to_string_lossy(),
        "--target",
        &triple,
    ]
    .map(String::from)
    .into();
    line.extend(
        chosen
            .iter()
            .flat_map(|name| ["--bin".into(), name.clone()]),
    );
    let built = launch::cargo_with(&line, &[("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", FLAGS)]);
    if built != ExitCode::SUCCESS {
        return built;
    }
    let mut failed = Vec::new();
    for name in chosen {
        let program = out.join(&triple).join("release").join(&name);
        if !fuzz(&program, &name, &folder, &out, asked.seconds) {
            failed.push(name);
        }
    }
    let log = Log::of_workspace();
    let totals = log.totals().only(|name| name.starts_with("fuzz/"));
    println!("totals of {}:\n{totals}", log.path().display());
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "xtask fuzz: broken: {}; the inputs are in {}",
        failed.join(" "),
        out.join("artifacts").display()
    );
    ExitCode::FAILURE
}

/// What is asked for.
struct Asked {
    targets: Vec<String>,
    seconds: u64,
}

fn asked(args: &[String]) -> Result<Asked, String> {
    let mut asked = Asked {
        targets: Vec::new(),
        seconds: SECONDS,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--seconds" {
            let value = args.next().map_or("", String::as_str);
            asked.seconds = match value.parse() {
                Ok(seconds) if seconds > 0 => seconds,
                _ => {
                    return Err(format!(
                        "`{value}` is no number of seconds; try --seconds 30"
                    ));
                }
            };
        } else if arg.starts_with('-') {
            return Err(format!("`{arg}` is no option; there is --seconds N"));
        } else {
            asked.targets.push(arg.clone());
        }
    }
    Ok(asked)
}

/// The targets there are, ascending.
fn targets(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder.join("fuzz_targets"));
    let mut names: Vec<String> = files
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Runs one target; whether it lived.
fn fuzz(program: &Path, name: &str, folder: &Path, out: &Path, seconds: u64) -> bool {
    let own: PathBuf = out.join("corpus").join(name);
    let artifacts = out.join("artifacts");
    for made in [&own, &artifacts] {
        if let Err(error) = std::fs::create_dir_all(made) {
            eprintln!("xtask fuzz: {}: {error}", made.display());
            return false;
        }
    }
    eprintln!("xtask fuzz: {name}, {seconds} s");
    let mut program = Command::new(program);
    program
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={LONGEST}"))
        .arg(format!("-artifact_prefix={}/{name}-", artifacts.display()))
        .args([
            "-timeout=20",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            "-verbosity=0",
        ])
        .arg(own)
        .arg(folder.join("corpus").join(name));
    let begin = Instant::now();
    let mut stats = Stats::default();
    let status = launch::watch(&mut program, Stream::Error, |line| stats.read(line));
    let lived = match status {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("xtask fuzz: {}: {error}", program.get_program().display());
            false
        }
    };
    let logged = Log::of_workspace().add(&Run {
        name: &format!("fuzz/{name}"),
        took: begin.elapsed(),
        ended: if lived { Ended::Ok } else { Ended::Failed },
        counts: &[
            ("inputs", stats.inputs),
            ("new", stats.new),
            ("findings", u64::from(!lived)),
        ],
    });
    lived && logged.is_ok()
}

/// What the fuzzer counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stats {
    inputs: u64,
    /// Inputs that reached what none had reached before.
    new: u64,
}

impl Stats {
    fn read(&mut self, line: &str) {
        let Some((name, number)) = line
            .strip_prefix("stat::")
            .and_then(|line| line.split_once(':'))
        else {
            return;
        };
        let Ok(number) = number.trim().parse() else {
            return;
        };
        match name {
            "number_of_executed_units" => self.inputs = number,
            "new_units_added" => self.new = number,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_fuzzer_counted_is_read_from_what_it_prints() {
        let mut stats = Stats::default();
        for line in [
            "INFO: Seed: 7",
            "stat::number_of_executed_units: 262144",
            "stat::new_units_added:          31",
            "stat::slowest_unit_time_sec:    0",
            "stat::new_units_added:          many",
        ] {
            stats.read(line);
        }
        let (inputs, new) = (262_144, 31);
        assert_eq!(stats, Stats { inputs, new });
    }

    #[test]
    fn every_target_has_seeds_and_a_line_in_the_manifest() {
        let folder = launch::root().join("fuzz");
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let targets = targets(&folder);
        assert!(!targets.is_empty());
        for name in targets {
            let seeds = std::fs::read_dir(folder.join("corpus").join(&name)).unwrap();
            assert!(seeds.count() > 0, "{name}");
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        }
    }
}
