//! A study under a real scheduler.

use std::process::ExitCode;

use crate::launch;

/// Builds what its jobs run, then runs it.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let build = [
        "build",
        "--release",
        "--package",
        "examples",
        "--package",
        "tools",
        "--example",
        "numa_study",
        "--bin",
        "report",
        "--bin",
        "merge",
    ];
    let built = launch::cargo(&build.map(String::from));
    if built != ExitCode::SUCCESS {
        return built;
    }
    launch::tool("slurm", args)
}
