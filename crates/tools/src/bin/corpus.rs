//! Checks a folder of boot logs: every figure that their kernels printed against ours.
//!
//! One line a log, what differs below it, then a summary by verdict, by age of the kernel and by
//! kind of figure, with the reasons for what was not compared. `NAME.iomem.txt` and the like beside
//! `NAME.txt` are files of the same machine and are laid beside its log. Exit status 0 where nothing
//! differs, 1 where something does, 2 where the folder cannot be read or there is no boot log in it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use machine::check::{self, CheckReport, Tally, Verdict};
use machine::{CombineError, MachineError, MachineLayout, ReadError};
use tools::front;

/// Checks a folder of boot logs.
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder, or single logs.
    #[arg(default_value = "../shared/dmesg")]
    paths: Vec<PathBuf>,
    /// Say what became of every figure.
    #[arg(long)]
    all: bool,
    /// Say how what the log does not say was inferred.
    #[arg(long)]
    why: bool,
    /// List every figure that could not be known, by the rule that excuses it.
    #[arg(long)]
    excused: bool,
    /// Least share of equal figures among those compared, in percent, for exit status 0.
    #[arg(long, default_value_t = 100.0, value_name = "PERCENT", value_parser = front::percent,
          allow_negative_numbers = true)]
    least: f64,
}

/// What became of one file.
enum Outcome {
    Checked(Box<(MachineLayout, CheckReport)>),
    /// Recognised, and refused or read as far as it goes.
    NotChecked(String),
    /// Not a log at all.
    NotALog(String),
}

/// Sums over all files.
#[derive(Default)]
struct Summary {
    all: Tally,
    ages: BTreeMap<(&'static str, String), Tally>,
    kinds: BTreeMap<&'static str, Tally>,
    reasons: BTreeMap<String, usize>,
    excused: BTreeMap<&'static str, Vec<String>>,
    checked: usize,
    not_checked: usize,
    not_a_log: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let files = match files(&arguments.paths) {
        Ok(files) => files,
        Err(error) => {
            front::complain("corpus", error);
            return ExitCode::from(2);
        }
    };
    if files.is_empty() {
        let paths = &arguments.paths;
        front::complain(
            "corpus",
            format_args!("there is no log (*.txt, *.log, dmesg) in {paths:?}"),
        );
        return ExitCode::from(2);
    }
    front::finish("corpus", |out| check_all(out, &files, &arguments))
}

fn check_all(
    out: &mut dyn Write,
    files: &[PathBuf],
    arguments: &Arguments,
) -> io::Result<ExitCode> {
    let mut summary = Summary::default();
    for file in files {
        let name = file
            .file_name()
            .unwrap_or(file.as_os_str())
            .to_string_lossy();
        match outcome(file) {
            Outcome::Checked(found) => {
                summary.checked += 1;
                show(out, &name, &found.0, &found.1, arguments)?;
                summary.add(&name, &found.0, &found.1);
            }
            Outcome::NotChecked(why) => {
                summary.not_checked += 1;
                writeln!(out, "{name}: not checked: {why}")?;
            }
            Outcome::NotALog(why) => {
                summary.not_a_log += 1;
                writeln!(out, "{name}: no boot log: {why}")?;
            }
        }
    }
    summary.print(out, arguments.excused)?;
    if summary.checked + summary.not_checked == 0 {
        let count = files.len();
        front::complain(
            "corpus",
            format_args!("none of {count} files is a boot log"),
        );
        return Ok(ExitCode::from(2));
    }
    Ok(if summary.all.equal_share() >= arguments.least {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The logs in `paths`; files that are of another kind by their name are left out.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, ReadError> {
    let mut out = Vec::new();
    for path in paths {
        let io = |source| ReadError::Io {
            file: path.clone(),
            source,
        };
        if !std::fs::metadata(path).map_err(io)?.is_dir() {
            out.push(path.clone());
            continue;
        }
        for entry in std::fs::read_dir(path).map_err(io)? {
            let path = entry.map_err(io)?.path();
            if is_log(&path) {
                out.push(path);
            }
        }
    }
    out.sort();
    Ok(out)
}

/// Whether the name is that of a log; `NAME.iomem.txt` and the like are companions.
fn is_log(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let companion = ["iomem", "zoneinfo", "buddyinfo", "pagetypeinfo", "meminfo"]
        .iter()
        .any(|kind| name.ends_with(&format!(".{kind}.txt")));
    (name.ends_with(".txt") || name.ends_with(".log") || name == "dmesg") && !companion
}

fn outcome(file: &Path) -> Outcome {
    let mut files = vec![file.to_owned()];
    let stem = file.with_extension("");
    for kind in ["iomem", "zoneinfo", "meminfo"] {
        let mut name = stem.clone().into_os_string();
        name.push(format!(".{kind}.txt"));
        let companion = PathBuf::from(name);
        if companion.is_file() {
            files.push(companion);
        }
    }
    let read = match files.as_slice() {
        [one] => MachineLayout::open(one).map_err(CombineError::Machine),
        several => MachineLayout::from_files(several),
    };
    match read {
        Ok(layout) => {
            let report = check::check(&layout);
            Outcome::Checked(Box::new((layout, report)))
        }
        Err(CombineError::Machine(MachineError::Read(error))) => {
            Outcome::NotALog(error.to_string())
        }
        Err(error) => Outcome::NotChecked(error.to_string()),
    }
}

/// How old a kernel is: what must hold differs.
fn age(layout: &MachineLayout) -> &'static str {
    match layout.release.as_ref().map(|release| release.number()) {
        None => "unknown",
        Some(number) if number >= (5, 12) => "5.12 and later",
        Some(number) if number >= (4, 0) => "4.0 to 5.11",
        Some(_) => "before 4.0",
    }
}

fn show(
    out: &mut dyn Write,
    name: &str,
    layout: &MachineLayout,
    report: &CheckReport,
    arguments: &Arguments,
) -> io::Result<()> {
    let release = layout.release.as_ref().map_or("?", |release| &release.text);
    let arch = layout.architecture.map_or("?", |arch| arch.name());
    writeln!(
        out,
        "{name}: {arch} {release}: {}; {}",
        report.tally(),
        layout.provenance
    )?;
    if let Some(error) = &report.error {
        writeln!(out, "    no memory map: {error}")?;
    }
    for contradiction in &layout.provenance.contradictions {
        writeln!(out, "    contradiction: {contradiction}")?;
    }
    for problem in layout.problems.iter() {
        writeln!(out, "    unreadable: {problem}")?;
    }
    if arguments.why {
        for inference in &report.inferences {
            writeln!(out, "    {inference}")?;
        }
    }
    for figure in &report.figures {
        match &figure.verdict {
            Verdict::Differs { ours } => writeln!(
                out,
                "    differs: {}: {}; ours: {}",
                figure.what,
                if figure.at.line == 0 {
                    "not printed".to_owned()
                } else {
                    figure.at.to_string()
                },
                ours.as_deref().unwrap_or("not printed"),
            )?,
            Verdict::CannotKnow(reason) if arguments.all => {
                writeln!(
                    out,
                    "    cannot know: {}: {}: {reason}",
                    figure.what, figure.at
                )?;
            }
            verdict if arguments.all => {
                writeln!(
                    out,
                    "    {}: {}: {}",
                    verdict.name(),
                    figure.what,
                    figure.at
                )?;
            }
            _ => {}
        }
    }
    Ok(())
}

impl Summary {
    fn add(&mut self, name: &str, layout: &MachineLayout, report: &CheckReport) {
        let tally = report.tally();
        self.all.add(tally);
        let arch = layout.architecture.map_or("?", |arch| arch.name());
        let age = (age(layout), arch.to_owned());
        self.ages.entry(age).or_default().add(tally);
        for figure in &report.figures {
            let kind = self.kinds.entry(figure.what).or_default();
            kind.add(Tally::of(&figure.verdict));
            if let Verdict::CannotKnow(reason) = figure.verdict {
                let text = format!("{}: {reason}", figure.what);
                *self.reasons.entry(text).or_default() += 1;
                let place = format!("{name}: {}: {}", figure.what, figure.at);
                self.excused.entry(reason.rule()).or_default().push(place);
            }
        }
    }

    fn print(&self, out: &mut dyn Write, excused: bool) -> io::Result<()> {
        writeln!(out)?;
        writeln!(
            out,
            "{} logs checked, {} recognised and not checked, {} no logs",
            self.checked, self.not_checked, self.not_a_log
        )?;
        writeln!(
            out,
            "{}; {:.2} % of {} compared are equal",
            self.all,
            self.all.equal_share(),
            self.all.equal + self.all.differs
        )?;
        writeln!(
            out,
            "\n{:15} {:8} {:>6} {:>6} {:>6} {:>8}  equal of",
            "kernel", "", "equal", "differ", "input", "unknown"
        )?;
        writeln!(out, "{:56} compared / all but inputs", "")?;
        for ((age, arch), tally) in &self.ages {
            row(out, age, arch, tally)?;
        }
        let mut sums: BTreeMap<&str, Tally> = BTreeMap::new();
        for ((age, _), tally) in &self.ages {
            sums.entry(age).or_default().add(*tally);
        }
        for (age, tally) in &sums {
            row(out, age, "all", tally)?;
        }
        writeln!(
            out,
            "\n{:31} {:>7} {:>7} {:>7} {:>7}",
            "figure", "equal", "differ", "input", "unknown"
        )?;
        for (kind, tally) in &self.kinds {
            writeln!(
                out,
                "{kind:31} {:>7} {:>7} {:>7} {:>7}",
                tally.equal, tally.differs, tally.input, tally.cannot_know
            )?;
        }
        writeln!(out)?;
        for (reason, count) in &self.reasons {
            writeln!(out, "cannot know {count:>4} × {reason}")?;
        }
        if excused {
            for (rule, places) in &self.excused {
                writeln!(out, "\nrule {rule} excuses {}", places.len())?;
                for place in places {
                    writeln!(out, "    {place}")?;
                }
            }
        }
        Ok(())
    }
}

fn row(out: &mut dyn Write, age: &str, arch: &str, tally: &Tally) -> io::Result<()> {
    let all = tally.equal + tally.differs + tally.cannot_know;
    writeln!(
        out,
        "{age:15} {arch:8} {:>6} {:>6} {:>6} {:>8}  {:>6.2} % / {:>6.2} %",
        tally.equal,
        tally.differs,
        tally.input,
        tally.cannot_know,
        tally.equal_share(),
        tally.equal as f64 * 100.0 / all.max(1) as f64
    )
}
