//! Records as a page to look at and to hand on: `cargo xtask report FILE…`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use study::record::{self, ReadError};
use study::replace::{is_same, replace};
use study::report::{Options, PlotError, Report, ReportError};
use tools::front;

/// Writes one HTML file that shows what record files hold: of one host, or of several beside each
/// other. The file needs no network and holds its data.
#[derive(Debug, Parser)]
#[command(name = "report", version, after_help = EXIT_CODES)]
struct Args {
    /// Files of records, as `sweep` and `numa_study` leave them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Where the page goes [default: beside the first file, with the ending html]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Its title [default: the names of the studies]
    #[arg(long)]
    title: Option<String>,
}

const EXIT_CODES: &str = "\
Exit status:
  0  done
  1  the page cannot be written
  2  the arguments cannot be used, or the files cannot be read or hold no records";

#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Empty(#[from] ReportError),
    #[error("{}: {source}", file.display())]
    Output { file: PathBuf, source: io::Error },
    #[error(
        "the page would take the place of {}, which it is made from; name another by --out",
        .0.display()
    )]
    Itself(PathBuf),
    #[error(transparent)]
    Plot(#[from] PlotError),
}

impl Unusable {
    fn status(&self) -> ExitCode {
        match self {
            Self::Read(_) | Self::Empty(_) | Self::Itself(_) => ExitCode::from(2),
            Self::Output { .. } | Self::Plot(_) => ExitCode::FAILURE,
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    front::finish("report", |out| match run(&args) {
        Ok((report, path)) => {
            for line in report.summary() {
                writeln!(out, "{line}")?;
            }
            for line in report.warnings() {
                writeln!(out, "warning: {line}")?;
            }
            writeln!(out, "report: {}", path.display())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            front::complain("report", &error);
            Ok(error.status())
        }
    })
}

fn run(args: &Args) -> Result<(Report, PathBuf), Unusable> {
    let path = match &args.out {
        Some(path) => path.clone(),
        None => args.files[0].with_extension("html"),
    };
    if let Some(file) = args.files.iter().find(|file| is_same(file, &path)) {
        return Err(Unusable::Itself(file.clone()));
    }
    let mut options = Options {
        title: args.title.clone(),
        ..Options::default()
    };
    let mut records = Vec::new();
    for file in &args.files {
        let read = record::read(file)?;
        options.files.push(name(file));
        options
            .warnings
            .extend(read.torn.map(|torn| torn.to_string()));
        records.extend(read.records);
    }
    let report = Report::of(&records, &options)?;
    let html = report.html()?;
    replace(&path, html.as_bytes()).map_err(|source| Unusable::Output {
        file: path.clone(),
        source,
    })?;
    Ok((report, path))
}

/// Its last part: the page is handed on, and folders are nobody's business.
fn name(file: &Path) -> String {
    let last = file.file_name().unwrap_or(file.as_os_str());
    last.to_string_lossy().into_owned()
}
