//! The project's commands: `cargo xtask NAME`.
//!
//! A launcher and nothing more: what it starts lives in `examples/` and `crates/tools`, is
//! built in release, and can be run by hand with the line that is printed first.

mod dependencies;
mod fuzz;
mod hwloc;
mod install;
mod launch;
mod log;
mod nightly;
mod slurm;
mod soak;
mod study;
mod test;
mod tidy;

use std::process::ExitCode;

/// One command: its name, what it does in a line, and how it is started.
struct Command {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> ExitCode,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "sweep",
        about: "initialise a memory map with every writer on 1 … N pinned threads (the main job)",
        run: |args| launch::example("sweep", args),
    },
    Command {
        name: "report",
        about: "records of sweeps and studies as one HTML page: FILE …",
        run: |args| launch::tool("report", args),
    },
    Command {
        name: "study",
        about: "study how it scales: run, plan, show, compare, model (see --help); merge FILE …",
        run: study::run,
    },
    Command {
        name: "test",
        about: "run all tests",
        run: test::run,
    },
    Command {
        name: "boot",
        about: "what the kernel would print for a boot log, beside what it did print",
        run: |args| launch::example("boot", args),
    },
    Command {
        name: "golden",
        about: "compare memory maps with captures of real kernels (default ../shared/golden)",
        run: |args| launch::tool("golden", args),
    },
    Command {
        name: "corpus",
        about: "check a folder of boot logs (default ../shared/dmesg)",
        run: |args| launch::tool("corpus", args),
    },
    Command {
        name: "perf",
        about: "page writers beside the streaming limit and the kernel's way in C",
        run: |args| launch::tool("perf", args),
    },
    Command {
        name: "device",
        about: "bind device memory in four ways; `device --perf` beside the kernel's way in C",
        run: device,
    },
    Command {
        name: "guest",
        about: "boot an emulated machine with several nodes and check placement in it",
        run: |args| launch::tool("guest", args),
    },
    Command {
        name: "soak",
        about: "lives of random machines under random faults, every map checked",
        run: soak::run,
    },
    Command {
        name: "fuzz",
        about: "fuzz readers and scripts: [TARGET …] [--seconds N], all for 30 s each by default",
        run: fuzz::run,
    },
    Command {
        name: "sim",
        about: "a small simulator: machines that boot, work, grow and change, checked at every step",
        run: |args| launch::example("kernel_sim", args),
    },
    Command {
        name: "codegen",
        about: "write the header of the C interface; --check fails where it is out of date",
        run: |args| launch::tool("codegen", args),
    },
    Command {
        name: "install",
        about: "--prefix DIR: the C library, its header and its pkg-config file",
        run: install::run,
    },
    Command {
        name: "tidy",
        about: "check the pages of docs against the code",
        run: tidy::run,
    },
    Command {
        name: "slurm",
        about: "run a study as a job array on a Slurm cluster of this host's own",
        run: slurm::run,
    },
    Command {
        name: "nightly",
        about: "what CI has no time for: [NAME …] of its steps, all by default",
        run: nightly::run,
    },
];

/// The example, or with `--perf` the measurement.
fn device(args: &[String]) -> ExitCode {
    match args.split_first() {
        Some((first, rest)) if first == "--perf" => launch::tool("device_perf", rest),
        _ => launch::example("zone_device", args),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = args.split_first() else {
        print!("{}", help());
        return ExitCode::SUCCESS;
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(rest),
        None => {
            eprint!("xtask: no command is named `{name}`\n\n{}", help());
            ExitCode::from(2)
        }
    }
}

fn help() -> String {
    let mut text = String::from("Usage: cargo xtask COMMAND [ARGS …]\n\n");
    for command in COMMANDS {
        text.push_str(&format!("  {:<8} {}\n", command.name, command.about));
    }
    text
}
