//! What CI has no time for, step by step.
//!
//! A night can be split: by names, or by the minutes that there are. What ran is added to a log,
//! whose totals say how much each step has seen so far.

mod log;
mod steps;

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::launch;
use log::Log;
use steps::{STEPS, Step};

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Help,
    Run {
        names: Vec<String>,
        /// Steps are begun while there is time left for them.
        minutes: Option<u64>,
    },
}

/// Runs the named steps, or all of them; fails if one does, after all have run.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let (names, minutes) = match read(args) {
        Ok(Wish::Help) => {
            print!("{}", help());
            return ExitCode::SUCCESS;
        }
        Ok(Wish::Run { names, minutes }) => (names, minutes),
        Err(error) => {
            eprintln!("xtask nightly: {error}\n\n{}", help());
            return ExitCode::from(2);
        }
    };
    let log = Log::of(&launch::root());
    let commit = commit();
    let began = Instant::now();
    let mut failed = Vec::new();
    let mut left = Vec::new();
    for step in STEPS {
        if !names.is_empty() && !names.iter().any(|name| name == step.name) {
            continue;
        }
        if minutes.is_some_and(|minutes| !fits(step, minutes, began.elapsed())) {
            left.push(step.name);
            continue;
        }
        let line: Vec<String> = step.line.split(' ').map(String::from).collect();
        let start = Instant::now();
        let ok = launch::cargo_with(&line, step.environment) == ExitCode::SUCCESS;
        if !ok {
            failed.push(step.name);
        }
        if let Err(error) = log.add(&commit, step.name, start.elapsed(), ok) {
            eprintln!(
                "xtask nightly: {} could not be written: {error}",
                log.path().display()
            );
            return ExitCode::from(2);
        }
    }
    println!("totals of {}:\n{}", log.path().display(), log.totals());
    if !left.is_empty() {
        eprintln!("xtask nightly: no time was left for: {}", left.join(" "));
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("xtask nightly: failed: {}", failed.join(" "));
    ExitCode::FAILURE
}

fn fits(step: &Step, minutes: u64, gone: Duration) -> bool {
    gone + Duration::from_secs(60 * step.minutes) <= Duration::from_secs(minutes.saturating_mul(60))
}

fn read(args: &[String]) -> Result<Wish, String> {
    let mut names = Vec::new();
    let mut minutes = None;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" | "--list" => return Ok(Wish::Help),
            "--minutes" => {
                let number = words.next().and_then(|text| text.parse().ok());
                minutes = Some(number.ok_or("--minutes wants a whole number of minutes")?);
            }
            name if STEPS.iter().any(|step| step.name == name) => names.push(name.to_owned()),
            other => return Err(format!("`{other}` is neither a step nor an option")),
        }
    }
    Ok(Wish::Run { names, minutes })
}

fn help() -> String {
    let mut text = String::from(
        "Usage: cargo xtask nightly [--minutes N] [STEP …]\n\n\
         Without a name all steps are run; with --minutes those that still fit. Exit 0 where all that\n\
         ran succeeded, 1 where one failed, 2 where the command line or the log is at fault.\n\n",
    );
    for step in STEPS {
        text.push_str(&format!(
            "  {:<18} {:>3} min  {}\n",
            step.name, step.minutes, step.about
        ));
    }
    text
}

/// The commit that is tried, `-` where git does not say.
fn commit() -> String {
    let output = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .current_dir(launch::root())
        .output();
    let text = output
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| "-".into(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn a_night_is_split_by_names_and_by_time() {
        let wish = read(&words("loom --minutes 30 perf")).unwrap();
        let names = words("loom perf");
        let minutes = Some(30);
        assert_eq!(wish, Wish::Run { names, minutes });
        assert!(read(&words("--minutes soon")).is_err());
        assert!(read(&words("loop")).unwrap_err().contains("`loop`"));
    }

    #[test]
    fn a_step_is_begun_only_where_it_fits_into_the_time_left() {
        let step = &STEPS[0];
        assert!(fits(step, step.minutes, Duration::ZERO));
        assert!(!fits(step, step.minutes, Duration::from_secs(1)));
        assert!(fits(step, u64::MAX, Duration::from_secs(1)));
    }

    #[test]
    fn help_names_every_step_once() {
        let help = help();
        for step in STEPS {
            let begin = format!("  {} ", step.name);
            let lines = help.lines().filter(|line| line.starts_with(&begin));
            assert_eq!(lines.count(), 1, "{}", step.name);
        }
    }
}
