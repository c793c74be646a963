//! A study on many hosts under a real scheduler.
//!
//! [`run`] brings a Slurm cluster up on loopback, lets `examples/slurm/submit` run a small study on
//! every node of it, and checks what is left: a set of records a host, equal in every key, joined
//! without loss, and a report that shows all hosts. One task is requeued while it runs, as when a host
//! is taken away, and must go on where its records ended.
//!
//! All nodes are this host, so nothing is said about speed.

mod cluster;
mod install;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use study::record::{self, Key, ReadError, Record};

use cluster::Cluster;
pub use cluster::ClusterError;

/// The study that each node runs: small, with enough rounds that it can be interrupted.
const STUDY: &str = "\
name = \"fleet\"
repeats = 30
machine-nodes = 2

[vary]
threads = [1]
writer = [\"zero\", \"stream\"]
memory = [\"1G\"]
";

/// What to run.
#[derive(Debug, clap::Parser)]
#[command(
    name = "slurm",
    about = "Runs a study as a Slurm job array on a cluster of this host's own, and joins its records",
    after_help = "Exit status:\n  0  all checks hold, or skipped\n  1  a check does not hold\n  \
                  2  the cluster or the study could not be run"
)]
pub struct Options {
    /// Nodes of the cluster
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=16))]
    pub nodes: u16,
    /// Do not install Slurm where it is not here, even where that is possible
    #[arg(long)]
    pub no_install: bool,
    /// The folder with the scripts
    #[arg(long, default_value = "examples/slurm", value_name = "DIR")]
    pub scripts: PathBuf,
    /// The study program [default: the one built beside this]
    #[arg(long, value_name = "FILE")]
    pub study: Option<PathBuf>,
    /// Seconds that all jobs together may take
    #[arg(long, default_value_t = 180)]
    pub timeout: u64,
}

/// How it went.
#[derive(Debug)]
pub enum Outcome {
    /// All checks hold.
    Passed {
        /// How many.
        checks: usize,
        /// How many records were joined.
        records: usize,
    },
    /// Some do not.
    Failed {
        /// What does not hold.
        failed: Vec<String>,
    },
    /// There is no Slurm and it could not be had.
    Skipped {
        /// Why.
        why: String,
    },
}

/// Why it could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlurmError {
    /// The cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A program is not where it was looked for.
    #[error("{} is not built: cargo build --release -p examples -p tools --examples --bins", .0.display())]
    NotBuilt(PathBuf),
    /// A file.
    #[error("{}: {source}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Records.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The jobs did not end.
    #[error("after {seconds} s the jobs had not ended; the queue:\n{queue}")]
    Late {
        /// How long was waited.
        seconds: u64,
        /// What was in the queue.
        queue: String,
    },
}

/// Runs it; `say` gets a line of progress at a time.
///
/// # Errors
/// [`SlurmError`]; a check that does not hold is none.
pub fn run(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Outcome, SlurmError> {
    if let Err(why) = install::ensure(!options.no_install, say) {
        return Ok(Outcome::Skipped { why });
    }
    let study = program(options.study.as_deref(), "examples/numa_study")?;
    let report = program(None, "report")?;
    let merge = program(None, "merge")?;
    let submit = existing(&options.scripts.join("submit"))?;

    let cluster = Cluster::start(options.nodes)?;
    say(&format!(
        "cluster: {} nodes on loopback",
        cluster.nodes().len()
    ));
    let work = cluster.folder().join("work");
    let file = work.join("fleet.toml");
    fs::create_dir(&work)
        .and_then(|()| fs::write(&file, STUDY))
        .map_err(|source| SlurmError::File {
            file: file.clone(),
            source,
        })?;
    let records = work.join("records");
    let output = cluster
        .command(&submit)
        .args([&file, &records])
        .args(cluster.nodes())
        .env("NUMA_STUDY", &study)
        .env("REPORT", &report)
        .env("MERGE", &merge)
        .output()
        .map_err(|source| SlurmError::File {
            file: submit.clone(),
            source,
        })?;
    let said = cluster::said("submit", &output)?;
    say(said.lines().next().unwrap_or_default());

    let requeued = requeue(&cluster, &records, options.timeout)?;
    finish(&cluster, options.timeout)?;
    check(&cluster, &records, requeued)
}

/// Requeues the first node's task once it has recorded something, and says whether it did so before
/// the task was done.
fn requeue(cluster: &Cluster, records: &Path, seconds: u64) -> Result<bool, SlurmError> {
    let began = Instant::now();
    let node = &cluster.nodes()[0];
    loop {
        let some = files(&records.join(node))
            .iter()
            .any(|file| fs::read(file).is_ok_and(|bytes| bytes.contains(&b'\n')));
        let queue = queue(cluster)?;
        let task = queue.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let (job, state, at) = (words.next()?, words.next()?, words.next()?);
            (state == "RUNNING" && at == node).then(|| job.to_owned())
        });
        if let (true, Some(task)) = (some, &task) {
            // it may end between the question and this
            return Ok(cluster.ask("scontrol", &["requeue", task]).is_ok());
        }
        if some {
            return Ok(false);
        }
        if queue.trim().is_empty() || began.elapsed() > Duration::from_secs(seconds) {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn queue(cluster: &Cluster) -> Result<String, SlurmError> {
    Ok(cluster.ask("squeue", &["-h", "-r", "-o", "%A %T %N %r"])?)
}

fn finish(cluster: &Cluster, seconds: u64) -> Result<(), SlurmError> {
    let began = Instant::now();
    loop {
        let queue = queue(cluster)?;
        if queue.trim().is_empty() {
            return Ok(());
        }
        // a requeued task waits two minutes, in which an ill host might come to itself; none is ill
        for job in queue.lines().filter(|line| line.ends_with("BeginTime")) {
            let job = job.split_whitespace().next().unwrap_or_default();
            // it may have begun by itself since
            drop(cluster.ask(
                "scontrol",
                &["update", &format!("JobId={job}"), "StartTime=now"],
            ));
        }
        if began.elapsed() > Duration::from_secs(seconds) {
            return Err(SlurmError::Late { seconds, queue });
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// What must hold of what the jobs left.
fn check(cluster: &Cluster, folder: &Path, requeued: bool) -> Result<Outcome, SlurmError> {
    let mut checks = Checks::default();
    let mut hosts: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    for node in cluster.nodes() {
        let files = files(&folder.join(node));
        checks.that(files.len() == 1, || {
            format!(
                "{node}: one file of records, not {}; {}",
                files.len(),
                log(folder)
            )
        });
        for file in files {
            let read = record::read(&file)?;
            checks.that(read.torn.is_none(), || {
                format!("{node}: a torn line is left")
            });
            checks.that(
                read.records.iter().all(|record| record.host.name == *node),
                || format!("{node}: its records name another host"),
            );
            hosts.entry(node.clone()).or_default().extend(read.records);
        }
    }
    let keys = |records: &[Record]| -> BTreeSet<Key> { records.iter().map(Record::key).collect() };
    let each: Vec<BTreeSet<Key>> = hosts.values().map(|records| keys(records)).collect();
    let first = each.first().cloned().unwrap_or_default();
    checks.that(!first.is_empty(), || "no records".to_owned());
    checks.that(each.iter().all(|keys| *keys == first), || {
        let counts: Vec<String> = each.iter().map(|keys| keys.len().to_string()).collect();
        format!("hosts differ in their runs: {}", counts.join(", "))
    });
    let interrupted = hosts
        .get(&cluster.nodes()[0])
        .is_some_and(|records| records.iter().any(|record| record.session > 0));
    checks.that(requeued == interrupted, || {
        format!("the first host's task was requeued: {requeued}; its records tell of that: {interrupted}")
    });

    let merged = folder.join("merged.jsonl");
    let total: usize = hosts.values().map(Vec::len).sum();
    checks.that(merged.is_file(), || {
        format!("no joined records; {}", log(folder))
    });
    let joined = match merged.is_file() {
        true => record::read(&merged)?.records,
        false => Vec::new(),
    };
    checks.that(joined.len() == total, || {
        format!("{} of {total} records were joined", joined.len())
    });
    let html = fs::read_to_string(folder.join("report.html")).unwrap_or_default();
    for node in cluster.nodes() {
        checks.that(html.contains(&format!("<h3>{node}</h3>")), || {
            format!("the report does not show {node}")
        });
    }
    Ok(match checks.failed.is_empty() {
        true => Outcome::Passed {
            checks: checks.made,
            records: joined.len(),
        },
        false => Outcome::Failed {
            failed: checks.failed,
        },
    })
}

#[derive(Default)]
struct Checks {
    made: usize,
    failed: Vec<String>,
}

impl Checks {
    fn that(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        self.made += 1;
        if !holds {
            self.failed.push(otherwise());
        }
    }
}

/// Files of records in a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .collect()
}

/// What the jobs printed, the end of it.
fn log(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut said = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        if path.extension().is_some_and(|ending| ending == "log") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let from = text.lines().count().saturating_sub(3);
            said.extend(text.lines().skip(from).map(str::to_owned));
        }
    }
    format!("jobs said: {}", said.join(" | "))
}

fn program(given: Option<&Path>, beside: &str) -> Result<PathBuf, SlurmError> {
    if let Some(path) = given {
        return existing(path);
    }
    let own = std::env::current_exe().map_err(|source| SlurmError::File {
        file: "this program".into(),
        source,
    })?;
    existing(&own.parent().unwrap_or(Path::new(".")).join(beside))
}

/// Jobs run elsewhere, so paths are whole.
fn existing(path: &Path) -> Result<PathBuf, SlurmError> {
    path.canonicalize()
        .map_err(|_| SlurmError::NotBuilt(path.to_owned()))
}
