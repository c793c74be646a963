//! What CI has no time for, step by step.

use std::process::ExitCode;

use crate::launch;

/// One step: its name and the cargo line it stands for.
struct Step {
    name: &'static str,
    line: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const STEPS: &[Step] = &[
    Step::tool(
        "instructions",
        &["run", "--release", "-p", "tools", "--bin", "instructions"],
    ),
    Step::tool(
        "perf",
        &[
            "run",
            "--release",
            "-p",
            "tools",
            "--bin",
            "perf",
            "--",
            "--check",
        ],
    ),
    Step::tool(
        "device-perf",
        &[
            "run",
            "--release",
            "-p",
            "tools",
            "--bin",
            "device_perf",
            "--",
            "--check",
        ],
    ),
    // what the engine adds to writing, what a whole boot adds, and what a long span adds
    Step::tool(
        "overhead",
        &[
            "run",
            "--release",
            "-p",
            "tools",
            "--bin",
            "overhead",
            "--",
            "--rounds",
            "181",
        ],
    ),
    Step::tool(
        "handover",
        &["run", "--release", "-p", "tools", "--bin", "handover"],
    ),
    Step::tool(
        "span",
        &[
            "run",
            "--release",
            "-p",
            "tools",
            "--bin",
            "span",
            "--",
            "--at-most",
            "1.05",
        ],
    ),
    Step::tool("benches", &["bench", "-p", "benches"]),
    // all interleavings of claim, publish, abandon and growth
    Step {
        name: "loom",
        line: &[
            "test",
            "-p",
            "memmap-core",
            "--lib",
            "model",
            "--target-dir",
            "target/loom",
        ],
        environment: &[("RUSTFLAGS", "--cfg loom")],
    },
    // The sanitizer is part of the stable compiler but may be asked for by its own developers only.
    // With a target named, build scripts and macros stay without it.
    Step {
        name: "address-sanitizer",
        line: &[
            "test",
            "-p",
            "memmap-core",
            "--tests",
            "--target",
            TARGET,
            "--target-dir",
            "target/asan",
        ],
        environment: &[
            ("RUSTC_BOOTSTRAP", "1"),
            ("RUSTFLAGS", "-Zsanitizer=address"),
        ],
    },
];

impl Step {
    const fn tool(name: &'static str, line: &'static [&'static str]) -> Self {
        Self {
            name,
            line,
            environment: &[],
        }
    }
}

/// The target that sanitizers are run on.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the named steps, or all of them; fails if one does, after all have run.
pub(crate) fn run(args: &[String]) -> ExitCode {
    if let Some(unknown) = args
        .iter()
        .find(|name| !STEPS.iter().any(|step| step.name == *name))
    {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        eprintln!(
            "xtask nightly: no step is named `{unknown}`; steps: {}",
            names.join(" ")
        );
        return ExitCode::from(2);
    }
    let mut failed = Vec::new();
    for step in STEPS {
        if !args.is_empty() && !args.iter().any(|name| name == step.name) {
            continue;
        }
        let line: Vec<String> = step.line.iter().map(|word| (*word).into()).collect();
        if launch::cargo_with(&line, step.environment) != ExitCode::SUCCESS {
            failed.push(step.name);
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("xtask nightly: failed: {}", failed.join(" "));
    ExitCode::FAILURE
}
