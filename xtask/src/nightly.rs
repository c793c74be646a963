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
    Step {
        name: "instructions",
        line: &[
            "run",
            "--release",
            "--package",
            "tools",
            "--bin",
            "instructions",
        ],
        environment: &[],
    },
    // The sanitizer is part of the stable compiler but may be asked for by its own developers only.
    // With a target named, build scripts and macros stay without it.
    Step {
        name: "address-sanitizer",
        line: &[
            "test",
            "--package",
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
