//! What CI has no time for, step by step.
//!
//! A night can be split: by names, or by the minutes that there are. What ran is added to a log,
//! whose totals say how much each step has seen so far.

mod steps;

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::launch;
use crate::log::{Ended, Log, Run};
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
    let log = Log::of_workspace();
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
        let start = Instant::now();
        let ended = take(step);
        if ended == Ended::Failed {
            failed.push(step.name);
        }
        let run = Run {
            name: step.name,
            took: start.elapsed(),
            ended,
            counts: &[],
        };
        if log.add(&run).is_err() {
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

/// Takes a step, where what it needs is there.
fn take(step: &Step) -> Ended {
    if let Some((program, install)) = step.needs
        && !is_there(program)
    {
        eprintln!(
            "xtask nightly: {} skipped: there is no {program}; {install}",
            step.name
        );
        return Ended::Skipped;
    }
    eprintln!("xtask nightly: {}: {}", step.name, step.about);
    let line: Vec<String> = step.line.split_whitespace().map(String::from).collect();
    match launch::cargo_with(&line, step.environment) == ExitCode::SUCCESS {
        true => Ended::Ok,
        false => Ended::Failed,
    }
}

/// Whether a program can be started.
fn is_there(program: &str) -> bool {
    let tried = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
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
         Without a name all steps are run; with --minutes those that still fit. A step whose program is\n\
         not there is skipped, with the line that installs it. Exit 0 where all that ran succeeded, 1\n\
         where one failed, 2 where the command line or the log is at fault.\n\n",
    );
    for step in STEPS {
        text.push_str(&format!(
            "  {:<18} {:>3} min  {}\n",
            step.name, step.minutes, step.about
        ));
    }
    text
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
    fn a_step_without_its_program_is_skipped() {
        let step = Step {
            needs: Some(("no-such-program-anywhere", "apt-get install it")),
            ..STEPS[0]
        };
        assert_eq!(take(&step), Ended::Skipped);
        assert!(is_there("cargo"));
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
