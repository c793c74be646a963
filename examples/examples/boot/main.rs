//! The memory map of a boot log's machine: what it is, what its kernel printed of it beside what
//! we work out, how large it is, what it takes to write, and what would change.

mod expect;
mod json;
mod show;
mod whatif;

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use machine::check::{self, BuildError, CheckReport, Warning};
use machine::{CombineError, LayoutError, MachineLayout};
use memmap_core::Geometry;

use expect::Expectation;
use whatif::{Change, ChangeError};

/// Builds the memory map of a machine from its boot log and compares every figure that the kernel
/// printed about its own with ours.
#[derive(Debug, Parser)]
#[command(version, after_help = HELP)]
struct Args {
    /// Boot logs (output of dmesg, captures), layout files (.toml), or folders with the files of
    /// one machine: dmesg, iomem, zoneinfo, meminfo, memblock.memory, proc, sys
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// All FILEs are of one machine
    #[arg(long)]
    together: bool,

    /// Print the layout in the documented TOML form, and nothing else
    #[arg(long, conflicts_with = "json")]
    toml: bool,

    /// Print one JSON object a machine, and nothing else
    #[arg(long)]
    json: bool,

    /// What would change: kernel=7.3, page=64K, movablecore=50%, kernelcore=4G, movable_node
    #[arg(long, value_name = "WHAT=VALUE")]
    whatif: Vec<Change>,

    /// Do not measure how long this host would take
    #[arg(long)]
    no_time: bool,

    /// Print the zones as /proc/zoneinfo would
    #[arg(long)]
    zoneinfo: bool,
}

const HELP: &str = "\
Verdicts:
  equal        ours is the same
  differs      ours is another, or there is none
  input        the line was read to build the map: finding it again proves nothing
  cannot know  it depends on what no log tells; the reason stands below it

Exit status:
  0  every figure that can be compared is equal
  1  a figure differs
  2  a file cannot be read, is of a machine that is not modelled, or prints nothing to compare

What every rule excuses stands in docs/checks.md.";

const DIFFERENT: u8 = 1;
const UNREADABLE: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    let mut out = io::stdout().lock();
    let mut status = 0;
    let machines: Vec<&[PathBuf]> = match args.together {
        true => vec![&args.files],
        false => args.files.chunks(1).collect(),
    };
    for files in machines {
        match boot(&mut out, files, &args) {
            Ok(one) => status = status.max(one),
            Err(BootError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => {
                return ExitCode::from(examples::CLOSED_PIPE);
            }
            Err(error) => {
                examples::front::complain(format_args!("boot: {error}"));
                status = UNREADABLE;
            }
        }
    }
    ExitCode::from(status)
}

#[derive(Debug, thiserror::Error)]
enum BootError {
    #[error(transparent)]
    Read(#[from] CombineError),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error("{file}: no memory map: {error}")]
    Build { file: String, error: BuildError },
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error("stdout: {0}")]
    Output(#[from] io::Error),
}

/// Everything that is shown of one machine.
struct Boot {
    layout: MachineLayout,
    report: CheckReport,
    geometry: Geometry,
    warnings: Vec<Warning>,
    expectation: Option<Expectation>,
}

impl Boot {
    fn of(layout: MachineLayout) -> Result<Self, BootError> {
        let report = check::check(&layout);
        let (memblock, geometry) =
            check::build(&layout, &report.profile).map_err(|error| BootError::Build {
                file: layout.file.clone(),
                error,
            })?;
        Ok(Self {
            warnings: check::warnings(&layout, &memblock, &geometry),
            report,
            geometry,
            layout,
            expectation: None,
        })
    }

    /// Bytes of struct pages: of every present section.
    fn memmap_bytes(&self) -> u64 {
        memmap_bytes(&self.geometry)
    }

    /// In a word, and as an exit status.
    fn verdict(&self) -> (String, u8) {
        let tally = self.report.tally();
        match (&self.report.error, tally.differs, tally.equal) {
            (Some(error), ..) => (format!("no memory map: {error}"), UNREADABLE),
            (None, 0, 0) => ("nothing to compare".to_owned(), UNREADABLE),
            (None, 0, _) => ("equal".to_owned(), 0),
            (None, ..) => ("different".to_owned(), DIFFERENT),
        }
    }
}

fn memmap_bytes(geometry: &Geometry) -> u64 {
    let sections = geometry.sections();
    let pages = sections.count() * sections.pages_per_section();
    pages * u64::from(geometry.profile().struct_page_bytes)
}

/// Prints one machine; its exit status.
fn boot(out: &mut impl Write, files: &[PathBuf], args: &Args) -> Result<u8, BootError> {
    let layout = match files {
        [folder] if folder.is_dir() => MachineLayout::from_dir(folder)?,
        files => MachineLayout::from_files(files)?,
    };
    if args.toml {
        write!(out, "{}", layout.to_toml()?)?;
        return Ok(0);
    }
    let mut boot = Boot::of(layout)?;
    if !args.no_time {
        boot.expectation = Expectation::measure(boot.memmap_bytes(), &boot.geometry);
    }
    let changes = args.whatif.iter().map(|change| change.apply(&boot));
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
    let (verdict, status) = boot.verdict();
    if args.json {
        serde_json::to_writer(&mut *out, &json::object(&boot, &changes))
            .map_err(io::Error::from)?;
        writeln!(out)?;
        return Ok(status);
    }
    show::machine(out, &boot)?;
    if args.zoneinfo {
        write!(out, "\n{}", boot.geometry.zoneinfo())?;
    }
    show::changes(out, &changes)?;
    writeln!(
        out,
        "\n{}: {verdict} ({})\n",
        boot.layout.file,
        boot.report.tally()
    )?;
    Ok(status)
}
