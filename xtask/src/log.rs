//! How often each thing was tried, for how long, how it ended, and what it counted: a line a run,
//! kept over nights.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::launch;

/// Where lines are kept: `DATE COMMIT NAME SECONDS ok|failed|skipped [COUNT=NUMBER …]`, one a run.
pub(crate) struct Log(PathBuf);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Ok,
    Failed,
    /// What it needs is not there.
    Skipped,
}

/// One run.
pub(crate) struct Run<'a> {
    pub(crate) name: &'a str,
    pub(crate) took: Duration,
    pub(crate) ended: Ended,
    /// What it counted, by words without spaces.
    pub(crate) counts: &'a [(&'a str, u64)],
}

/// The runs of one name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Total {
    runs: u64,
    failed: u64,
    skipped: u64,
    seconds: u64,
    counts: BTreeMap<String, u64>,
}

/// The totals of all names.
pub(crate) struct Totals(BTreeMap<String, Total>);

impl Log {
    /// The workspace's, under its target folder.
    pub(crate) fn of_workspace() -> Self {
        Self::of(&launch::root())
    }

    fn of(root: &Path) -> Self {
        Self(root.join("target/nightly/log.txt"))
    }

    /// Adds a run; says on standard error where the file cannot be written.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn add(&self, run: &Run<'_>) -> io::Result<()> {
        self.append(&commit(), run).inspect_err(|error| {
            eprintln!("xtask: {} could not be written: {error}", self.0.display());
        })
    }

    fn append(&self, commit: &str, run: &Run<'_>) -> io::Result<()> {
        if let Some(folder) = self.0.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let date = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let ended = match run.ended {
            Ended::Ok => "ok",
            Ended::Failed => "failed",
            Ended::Skipped => "skipped",
        };
        let mut line = format!(
            "{date} {commit} {} {} {ended}",
            run.name,
            run.took.as_secs()
        );
        for (name, count) in run.counts {
            line.push_str(&format!(" {name}={count}"));
        }
        line.push('\n');
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.0)?
            .write_all(line.as_bytes())
    }

    /// What the file says; lines that say something else are passed over.
    pub(crate) fn totals(&self) -> Totals {
        Totals::read(&std::fs::read_to_string(&self.0).unwrap_or_default())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
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

impl Totals {
    /// Only names for which `keep` says so.
    pub(crate) fn only(mut self, keep: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|name, _| keep(name));
        self
    }

    fn read(text: &str) -> Self {
        let mut totals = BTreeMap::<String, Total>::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, _, name, seconds, ended, counts @ ..] = words.as_slice() else {
                continue;
            };
            let Ok(seconds) = seconds.parse::<u64>() else {
                continue;
            };
            let total = totals.entry((*name).to_owned()).or_default();
            total.runs += 1;
            total.failed += u64::from(*ended == "failed");
            total.skipped += u64::from(*ended == "skipped");
            total.seconds = total.seconds.saturating_add(seconds);
            for count in counts {
                if let Some((name, count)) = count.split_once('=')
                    && let Ok(count) = count.parse::<u64>()
                {
                    let sum = total.counts.entry(name.to_owned()).or_default();
                    *sum = sum.saturating_add(count);
                }
            }
        }
        Self(totals)
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, total) in &self.0 {
            write!(
                f,
                "{name:<22} {:>5} runs {:>3} failed {:>3} skipped {:>7.1} min",
                total.runs,
                total.failed,
                total.skipped,
                total.seconds as f64 / 60.0
            )?;
            for (name, count) in &total.counts {
                write!(f, "  {name} {count}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_several_nights_are_added_up_and_other_lines_passed_over() {
        let totals = Totals::read(
            "1 abc perf 60 ok\n2 abc perf 120 failed\n2 abc soak 1800 ok machines=7\nnoise\n\
             3 abc perf x ok\n4 abc soak 60 ok machines=5 found=x\n5 abc valgrind 0 skipped\n",
        );
        let perf = &totals.0["perf"];
        assert_eq!((perf.runs, perf.failed, perf.seconds), (2, 1, 180));
        let soak = &totals.0["soak"];
        assert_eq!((soak.seconds, soak.counts["machines"]), (1860, 12));
        assert_eq!(soak.counts.len(), 1);
        assert_eq!(totals.0["valgrind"].skipped, 1);
        assert_eq!(totals.0.len(), 3);
    }

    #[test]
    fn a_line_written_is_a_line_read() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::of(folder.path());
        for (seconds, ended, machines) in [(90, Ended::Failed, 3), (30, Ended::Ok, 4)] {
            let run = Run {
                name: "soak",
                took: Duration::from_secs(seconds),
                ended,
                counts: &[("machines", machines)],
            };
            log.append("abc", &run).unwrap();
        }
        let totals = log.totals();
        let total = &totals.0["soak"];
        assert_eq!((total.runs, total.failed, total.seconds), (2, 1, 120));
        assert_eq!(total.counts["machines"], 7);
        assert!(totals.only(|name| name == "fuzz").0.is_empty());
    }
}
