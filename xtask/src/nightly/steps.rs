//! The steps: a name, what it shows, the time it takes, and the line that runs it.

/// One step.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// About how long it takes on two cores, minutes.
    pub(super) minutes: u64,
    /// The arguments of cargo, between spaces.
    pub(super) line: &'static str,
    pub(super) environment: &'static [(&'static str, &'static str)],
}

pub(super) const STEPS: &[Step] = &[
    Step::new(
        "instructions",
        "instructions a page of every writer against the checked-in counts (valgrind)",
        2,
        "run --release -p tools --bin instructions",
    ),
    Step::new(
        "perf",
        "the bounds of the page writers",
        2,
        "run --release -p tools --bin perf -- --check",
    ),
    Step::new(
        "device-perf",
        "the bounds of binding device memory",
        2,
        "run --release -p tools --bin device_perf -- --check",
    ),
    Step::new(
        "capi-perf",
        "what C programs pay for asking the library",
        2,
        "run --release -p tools --bin capi_perf -- --check",
    ),
    Step::new(
        "overhead",
        "what the engine adds to writing",
        2,
        "run --release -p tools --bin overhead -- --check",
    ),
    Step::new(
        "handover",
        "what a whole boot of 384 GiB adds to writing",
        4,
        "run --release -p tools --bin handover",
    ),
    Step::new(
        "tracing",
        "what spans cost, by layer and section size",
        5,
        "run --release -p tools --bin tracing -- --check",
    ),
    Step::new(
        "lazy",
        "a machine of 64 TiB and 64 nodes, ready in 20 ms and 100 MB",
        2,
        "run --release -p tools --bin lazy -- --check",
    ),
    Step::new(
        "span",
        "what a long address span adds",
        2,
        "run --release -p tools --bin span -- --at-most 1.05",
    ),
    Step::new(
        "soak",
        "random machines under random faults",
        32,
        "run --release -p tools --bin soak -- --minutes 30",
    ),
    Step::new(
        "fuzz",
        "every reader of the crate machine, two minutes each",
        25,
        "xtask fuzz --seconds 120",
    ),
    // against Debian's packages; skips, and says so, where they cannot be had
    Step::new(
        "slurm",
        "a study on many hosts, as a job array under a real Slurm",
        4,
        "xtask slurm",
    ),
    Step::new("benches", "all criterion benches", 25, "bench -p benches"),
    Step {
        environment: &[("RUSTFLAGS", "--cfg loom")],
        ..Step::new(
            "loom",
            "interleavings of the small models (LOOM_MAX_PREEMPTIONS=1 makes it short)",
            15,
            "test -p memmap-core -p deferred-init --lib --target-dir target/loom model",
        )
    },
    // The sanitizer is part of the stable compiler but may be asked for by its own developers only.
    // With a target named, build scripts and macros stay without it.
    Step {
        environment: &[
            ("RUSTC_BOOTSTRAP", "1"),
            ("RUSTFLAGS", "-Zsanitizer=address"),
        ],
        ..Step::new(
            "address-sanitizer",
            "the tests of the crate with page writers under AddressSanitizer",
            10,
            "test -p memmap-core --tests --target x86_64-unknown-linux-gnu --target-dir target/asan",
        )
    },
];

impl Step {
    const fn new(
        name: &'static str,
        about: &'static str,
        minutes: u64,
        line: &'static str,
    ) -> Self {
        Self {
            name,
            about,
            minutes,
            line,
            environment: &[],
        }
    }
}
