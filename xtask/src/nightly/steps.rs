//! The steps: a name, what it shows, the time it takes, and the line that runs it.

/// One step.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// About how long it takes on two cores, minutes.
    pub(super) minutes: u64,
    /// The arguments of cargo, between spaces.
    pub(super) line: &'static str,
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// A program without which it is skipped, and the line that installs it.
    pub(super) needs: Option<(&'static str, &'static str)>,
}

const VALGRIND: Option<(&str, &str)> = Some(("valgrind", "apt-get install valgrind"));
const QEMU: Option<(&str, &str)> = Some(("qemu-system-x86_64", "apt-get install qemu-system-x86"));

pub(super) const STEPS: &[Step] = &[
    Step {
        needs: VALGRIND,
        ..Step::new(
            "instructions",
            "instructions a page of every writer against the checked-in counts (callgrind)",
            2,
            "run --release -p tools --bin instructions",
        )
    },
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
        4,
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
        "xtask soak --minutes 30",
    ),
    Step::new(
        "fuzz",
        "readers, scripts and calls of the C interface by coverage, two minutes each",
        32,
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
    // With a target named, build scripts and macros stay without it; std is as it comes, so what it
    // does with memory of ours is seen where it calls the C library. A static library for C does not
    // bring the sanitizer's runtime along, so no C program can link it: `c_programs` is left out, test
    // by test, for libtest knows no names of binaries.
    Step {
        environment: &[
            ("RUSTC_BOOTSTRAP", "1"),
            ("RUSTFLAGS", "-Zsanitizer=address"),
            // pages of a thousand maps are held back otherwise
            ("ASAN_OPTIONS", "quarantine_size_mb=16:detect_leaks=1"),
        ],
        ..Step::new(
            "address-sanitizer",
            "the tests of all libraries but `study` under AddressSanitizer, leaks included",
            20,
            "test --no-fail-fast -p memblock -p memmap-core -p zone-device -p sys -p machine \
             -p deferred-init -p capi --lib --tests --target x86_64-unknown-linux-gnu \
             --target-dir target/asan -- --skip _in_c_ --skip the_fast_path_of_the_header \
             --skip the_header_is_c_plus_plus",
        )
    },
    // Twenty to fifty times slower: few cases a property. Maps lie on the heap, where each section is
    // a block of its own, as tests of these crates have them by default.
    Step {
        environment: &[
            (
                "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER",
                // the test harness still holds a handle of its main thread at exit: "possibly lost"
                "valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite \
                 --errors-for-leak-kinds=definite",
            ),
            ("PROPTEST_CASES", "3"),
        ],
        needs: VALGRIND,
        ..Step::new(
            "valgrind",
            "the tests of writers, allocator, hotplug, devices and C interface under memcheck",
            13,
            "test --no-fail-fast -p memmap-core -p zone-device -p capi --test handover --test hotplug \
             --test writers_match_the_oracle --test bind_and_unbind --test content_equals_the_oracle \
             --test any_calls --test policies",
        )
    },
    guest(
        "guest-1",
        "a guest of one node",
        "run --release -p tools --bin guest -- --nodes 1",
    ),
    guest(
        "guest-2",
        "a guest of two nodes",
        "run --release -p tools --bin guest -- --nodes 2",
    ),
    guest(
        "guest-3",
        "a guest of three nodes, one without CPUs",
        "run --release -p tools --bin guest -- --nodes 3",
    ),
    guest(
        "guest-8",
        "a guest of eight nodes",
        "run --release -p tools --bin guest -- --nodes 8",
    ),
    guest(
        "guest-16",
        "a guest of 16 nodes",
        "run --release -p tools --bin guest -- --nodes 16",
    ),
];

/// An emulated machine; CI boots the one of four nodes.
const fn guest(name: &'static str, about: &'static str, line: &'static str) -> Step {
    Step {
        needs: QEMU,
        ..Step::new(name, about, 4, line)
    }
}

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
            needs: None,
        }
    }
}
