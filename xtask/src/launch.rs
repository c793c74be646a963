//! Cargo, started where the user stands, with the line printed first.

use std::io::{self, BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use crate::hwloc;

/// Runs an example of the package `examples` in release.
pub(crate) fn example(name: &str, args: &[String]) -> ExitCode {
    run("examples", "--example", name, args)
}

/// Runs a program of the package `tools` in release.
pub(crate) fn tool(name: &str, args: &[String]) -> ExitCode {
    run("tools", "--bin", name, args)
}

fn run(package: &str, kind: &str, name: &str, args: &[String]) -> ExitCode {
    let mut line: Vec<String> = ["run", "--release", "--package", package]
        .map(String::from)
        .into();
    line.extend(hwloc::cargo_features(package));
    line.extend([kind.into(), name.into(), "--".into()]);
    line.extend_from_slice(args);
    cargo(&line)
}

/// Runs cargo with `args`; its exit status is ours.
pub(crate) fn cargo(args: &[String]) -> ExitCode {
    cargo_with(args, &[])
}

/// Runs cargo with `args` and additional environment variables; its exit status is ours.
pub(crate) fn cargo_with(args: &[String], environment: &[(&str, &str)]) -> ExitCode {
    eprintln!("xtask: cargo {}", args.join(" "));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(args)
        .envs(environment.iter().copied())
        .status();
    match status {
        Ok(status) => ExitCode::from(
            status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(1),
        ),
        Err(error) => {
            eprintln!("xtask: cargo could not be started: {error}");
            ExitCode::from(2)
        }
    }
}

/// What a program says on one of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Error,
}

/// Runs a program and hands on, and to `see`, each line of one of its streams.
///
/// # Errors
/// Where it cannot be started, or waited for.
pub(crate) fn watch(
    program: &mut Command,
    stream: Stream,
    mut see: impl FnMut(&str),
) -> io::Result<ExitStatus> {
    match stream {
        Stream::Output => program.stdout(Stdio::piped()),
        Stream::Error => program.stderr(Stdio::piped()),
    };
    let mut child = program.spawn()?;
    let pipe: Option<Box<dyn io::Read>> = match stream {
        Stream::Output => child.stdout.take().map(|pipe| Box::new(pipe) as _),
        Stream::Error => child.stderr.take().map(|pipe| Box::new(pipe) as _),
    };
    // lossy: a finding's bytes may be printed as they are
    for line in pipe
        .into_iter()
        .flat_map(|pipe| BufReader::new(pipe).split(b'\n'))
    {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        match stream {
            Stream::Output => println!("{line}"),
            Stream::Error => eprintln!("{line}"),
        }
        see(&line);
    }
    child.wait()
}

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    let mut folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.pop();
    folder
}
