//! Records of one study on many hosts, joined: `cargo xtask study merge FILE…`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use study::merge::{self, MergeError};
use study::record::{self, ReadError};
use study::replace::{Replacement, is_same};
use tools::front;

/// Joins the record files of one study, a file a host, into one: by host, each run once.
#[derive(Debug, Parser)]
#[command(name = "merge", version, after_help = EXIT_CODES)]
struct Args {
    /// Files of records
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Where they go; a file that is there is replaced when all is written
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

const EXIT_CODES: &str = "\
Exit status:
  0  done
  1  the joined records cannot be written
  2  the files cannot be read, or are not of one study, or have different records of one run";

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Merge(#[from] MergeError),
    #[error("--out {} is one of the files to join; name another", .0.display())]
    Itself(PathBuf),
    #[error("{}: {source}", file.display())]
    Output { file: PathBuf, source: io::Error },
}

fn main() -> ExitCode {
    let args = Args::parse();
    front::finish("merge", |out| match run(&args) {
        Ok((runs, hosts)) => {
            let (runs, hosts) = (count(runs, "run"), count(hosts, "host"));
            writeln!(out, "{runs} of {hosts}: {}", args.out.display())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            front::complain("merge", &error);
            Ok(match error {
                Failure::Output { .. } => ExitCode::FAILURE,
                _ => ExitCode::from(2),
            })
        }
    })
}

/// Runs and hosts that were joined.
fn run(args: &Args) -> Result<(usize, usize), Failure> {
    let mut files = Vec::new();
    for file in &args.files {
        if is_same(file, &args.out) {
            return Err(Failure::Itself(args.out.clone()));
        }
        let read = record::read(file)?;
        if let Some(torn) = &read.torn {
            front::complain("merge", torn);
        }
        files.push((file.clone(), read));
    }
    let merged = merge::merge(&files)?;
    for note in &merged.notes {
        front::complain("merge", note);
    }
    write(&args.out, &merged.records).map_err(|source| Failure::Output {
        file: args.out.clone(),
        source,
    })?;
    let mut hosts: Vec<&str> = merged
        .records
        .iter()
        .map(|record| record.host.name.as_str())
        .collect();
    hosts.dedup();
    Ok((merged.records.len(), hosts.len()))
}

fn write(path: &Path, records: &[record::Record]) -> io::Result<()> {
    let mut file = Replacement::begin(path)?;
    for record in records {
        file.write_all(&record.to_line())?;
    }
    file.finish()
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
