//! An emulated machine with several nodes, and checks in it that one node cannot make.
//!
//! [`run`] boots a distribution's kernel in QEMU (software emulation, no network) with this very
//! program as its only one; [`inside`] is what it does there. What both must agree on, the nodes, is a
//! [`Shape`] that travels in the initial file system.

mod archive;
mod bundle;
mod checks;
mod kernel;
mod shape;
mod timeline;

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub use checks::inside;
pub use shape::Shape;

/// What to boot.
#[derive(Debug, clap::Parser)]
#[command(
    name = "guest",
    about = "Boots an emulated machine with several nodes and checks placement in it"
)]
pub struct Options {
    /// Nodes of the machine; the last one of more than two has no CPUs
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub nodes: u16,
    /// A kernel image (bzImage); by default the distribution's, fetched once
    #[arg(long)]
    pub kernel: Option<PathBuf>,
    /// Seconds after which the machine is ended
    #[arg(long, default_value_t = 300)]
    pub timeout: u64,
    /// Print all that the machine's console prints
    #[arg(long)]
    pub console: bool,
}

/// How it went.
#[derive(Debug)]
pub enum Outcome {
    /// All checks hold.
    Passed {
        /// How many.
        checks: usize,
        /// Time from start to end of the machine.
        seconds: f64,
    },
    /// Some do not.
    Failed {
        /// How many do not hold.
        failed: usize,
        /// How many there were.
        checks: usize,
    },
    /// It could not be tried.
    Skipped {
        /// What is missing, and how it is had.
        why: String,
    },
}

/// Why nothing was learnt.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A file of ours could not be written or read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program could not be started.
    #[error("{program} could not be started: {source}")]
    Program {
        /// The program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The machine ended, or was ended, before it said how it went.
    #[error("the machine said nothing after {seconds} s; its last lines were:\n{tail}")]
    Silent {
        /// How long it ran.
        seconds: u64,
        /// The end of its console.
        tail: String,
    },
}

impl GuestError {
    fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

/// What the machine prints of itself, for us.
const MARK: &str = "@@ ";

/// What a line of the machine's trace begins with.
const TRACE: &str = "trace";

/// Boots the machine and collects its verdicts; `print` gets them line by line.
///
/// # Errors
/// [`GuestError`].
pub fn run(options: &Options, print: &mut dyn FnMut(&str)) -> Result<Outcome, GuestError> {
    const QEMU: &str = "qemu-system-x86_64";
    if Command::new(QEMU)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        return Ok(Outcome::Skipped {
            why: format!("{QEMU} is not there; apt-get install qemu-system-x86"),
        });
    }
    let folder = folder();
    std::fs::create_dir_all(&folder).map_err(GuestError::file(&folder))?;
    let kernel = match &options.kernel {
        Some(kernel) => kernel.clone(),
        None => match kernel::find(&folder) {
            Ok(kernel) => kernel,
            Err(why) => return Ok(Outcome::Skipped { why }),
        },
    };
    let shape = Shape::uneven(options.nodes);
    let image = folder.join("initrd.img");
    let files = bundle::files(&shape)?;
    std::fs::write(&image, archive::pack(&files)).map_err(GuestError::file(&image))?;
    print(&format!("kernel {}, {}", kernel.display(), shape));
    let mut command = Command::new(QEMU);
    command
        .args([
            "-cpu",
            "qemu64",
            "-accel",
            "tcg,thread=multi",
            "-nic",
            "none",
        ])
        .args(["-nographic", "-no-reboot"])
        .args(shape.qemu())
        .arg("-kernel")
        .arg(&kernel)
        .arg("-initrd")
        .arg(&image)
        .args(["-append", "console=ttyS0 quiet loglevel=3 panic=1 nokaslr"]);
    boot(command, QEMU, options, print)
}

/// Where the kernel is kept and the initial file system is put.
fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target =
        target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    target.join("guest")
}

fn boot(
    mut command: Command,
    program: &str,
    options: &Options,
    print: &mut dyn FnMut(&str),
) -> Result<Outcome, GuestError> {
    let began = Instant::now();
    let failed = |source| GuestError::Program {
        program: program.to_owned(),
        source,
    };
    let mut machine = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(failed)?;
    let (lines, console) = mpsc::channel();
    let reader = machine.stdout.take().map(|output| {
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output
                .read_until(b'\n', &mut line)
                .is_ok_and(|read| read > 0)
            {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if lines.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        })
    });
    let mut tail = std::collections::VecDeque::new();
    let mut verdicts = Verdicts::default();
    let limit = Duration::from_secs(options.timeout);
    while let Ok(line) = console.recv_timeout(limit.saturating_sub(began.elapsed())) {
        if options.console {
            print(&line);
        }
        // the firmware leaves control characters in front of the first line
        if let Some((_, said)) = line.split_once(MARK) {
            verdicts.take(said, print);
        }
        tail.push_back(line);
        if tail.len() > 20 {
            tail.pop_front();
        }
        if verdicts.complete {
            break;
        }
    }
    // it is switching itself off; only a machine that hangs is still there
    let _ = machine.kill();
    let _ = machine.wait();
    if let Some(reader) = reader {
        drop(console);
        let _ = reader.join();
    }
    if !verdicts.complete {
        return Err(GuestError::Silent {
            seconds: began.elapsed().as_secs(),
            tail: tail.into_iter().collect::<Vec<_>>().join("\n"),
        });
    }
    let groups = Shape::uneven(options.nodes).with_cpus();
    verdicts.trace(&folder().join("trace.json"), groups, print)?;
    Ok(match verdicts.failed {
        0 => Outcome::Passed {
            checks: verdicts.checks,
            seconds: began.elapsed().as_secs_f64(),
        },
        failed => Outcome::Failed {
            failed,
            checks: verdicts.checks,
        },
    })
}

#[derive(Default)]
struct Verdicts {
    checks: usize,
    failed: usize,
    complete: bool,
    /// What the machine wrote of a timeline.
    timeline: String,
}

impl Verdicts {
    /// Keeps the machine's timeline, which has so many groups of workers, and holds it against the
    /// format once more: here as a file.
    fn trace(
        &mut self,
        file: &Path,
        groups: usize,
        print: &mut dyn FnMut(&str),
    ) -> Result<(), GuestError> {
        std::fs::write(file, &self.timeline).map_err(GuestError::file(file))?;
        self.checks += 1;
        match timeline::verdict(file, self.timeline.as_bytes(), groups) {
            Ok(said) => print(&format!("ok its timeline, in {}: {said}", file.display())),
            Err(why) => {
                self.failed += 1;
                print(&format!(
                    "FAILED its timeline, in {}: {why}",
                    file.display()
                ));
            }
        }
        Ok(())
    }

    fn take(&mut self, said: &str, print: &mut dyn FnMut(&str)) {
        match said.split(' ').next() {
            Some("ok") => self.checks += 1,
            Some("FAILED") => {
                self.checks += 1;
                self.failed += 1;
            }
            Some("end") => {
                self.complete = true;
                return;
            }
            Some(TRACE) => {
                let line = said.strip_prefix(TRACE).unwrap_or_default();
                self.timeline.push_str(line.trim_start());
                self.timeline.push('\n');
                return;
            }
            _ => {}
        }
        print(said);
    }
}

/// A line of the machine for us.
fn say(what: impl fmt::Display) {
    use std::io::Write;
    // the console is all that there is: where it fails nobody can be told
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{MARK}{what}");
    let _ = out.flush();
}
