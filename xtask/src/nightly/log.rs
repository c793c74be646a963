//! How often each step was run, for how long, and how it ended: a line a run, kept over nights.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where lines are kept: `DATE COMMIT STEP SECONDS ok|failed`, one a run.
pub(super) struct Log(PathBuf);

/// The runs of one step.
#[derive(Debug, Default, PartialEq, Eq)]
struct Total {
    runs: u64,
    failed: u64,
    seconds: u64,
}

/// The totals of all steps.
pub(super) struct Totals(BTreeMap<String, Total>);

impl Log {
    /// Under the workspace's target folder.
    pub(super) fn of(root: &Path) -> Self {
        Self(root.join("target/nightly/log.txt"))
    }

    /// Adds a run.
    pub(super) fn add(&self, commit: &str, step: &str, took: Duration, ok: bool) -> io::Result<()> {
        if let Some(folder) = self.0.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let date = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let outcome = if ok { "ok" } else { "failed" };
        let line = format!("{date} {commit} {step} {} {outcome}\n", took.as_secs());
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.0)?
            .write_all(line.as_bytes())
    }

    /// What the file says; lines that say something else are passed over.
    pub(super) fn totals(&self) -> Totals {
        Totals::read(&std::fs::read_to_string(&self.0).unwrap_or_default())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Totals {
    fn read(text: &str) -> Self {
        let mut totals = BTreeMap::<String, Total>::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let &[_, _, step, seconds, outcome] = words.as_slice() else {
                continue;
            };
            let Ok(seconds) = seconds.parse::<u64>() else {
                continue;
            };
            let total = totals.entry(step.to_owned()).or_default();
            total.runs += 1;
            total.failed += u64::from(outcome != "ok");
            total.seconds = total.seconds.saturating_add(seconds);
        }
        Self(totals)
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (step, total) in &self.0 {
            writeln!(
                f,
                "{step:<18} {:>5} runs {:>5} failed {:>7} min",
                total.runs,
                total.failed,
                total.seconds / 60
            )?;
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
            "1 abc perf 60 ok\n2 abc perf 120 failed\n2 abc soak 1800 ok\nnoise\n3 abc perf x ok\n",
        );
        let perf = Total {
            runs: 2,
            failed: 1,
            seconds: 180,
        };
        assert_eq!(totals.0["perf"], perf);
        assert_eq!(totals.0["soak"].seconds, 1800);
        assert_eq!(totals.0.len(), 2);
    }

    #[test]
    fn a_line_written_is_a_line_read() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::of(folder.path());
        log.add("abc", "loom", Duration::from_secs(90), false)
            .unwrap();
        log.add("abc", "loom", Duration::from_secs(30), true)
            .unwrap();
        let total = &log.totals().0["loom"];
        assert_eq!((total.runs, total.failed, total.seconds), (2, 1, 120));
    }
}
