//! The programs as a user runs them: what they print, what they leave, how they end.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use study::record::{Record, SCHEMA};

/// The built example; cargo builds all examples before it runs these tests.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let mut path: PathBuf = test.parent().unwrap().parent().unwrap().into();
    path.extend(["examples", name]);
    Command::new(path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sweep(folder: &Path, args: &[&str]) -> Output {
    let mut command = example("sweep");
    command.arg("--out").arg(folder).args(args);
    command.output().unwrap()
}

/// Runs a sweep that must be refused with `status`; what it says on stderr.
fn refused(args: &[&str], status: i32) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = sweep(folder.path(), args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing was run, so nothing is kept"
    );
    said
}

fn records(folder: &Path) -> Vec<Record> {
    let mut files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let is_records = |file: &std::fs::DirEntry| {
        file.path()
            .extension()
            .is_some_and(|ending| ending == "jsonl")
    };
    let file = files.find(is_records).unwrap();
    let lines = std::fs::read_to_string(file.path()).unwrap();
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn simulated_machines_live_the_same_life_for_the_same_seed_and_another_for_another() {
    let sim = |seed: &str| {
        let args = ["--machines", "2", "--steps", "12", "--seed", seed];
        let output = example("kernel_sim").args(args).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let life = sim("7");
    assert_eq!(sim("7"), life);
    assert_ne!(sim("8"), life);
    let lines = |start: &str| life.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(
        (lines("machine "), lines("  step "), lines("  digest ")),
        (2, 24, 2)
    );
}

#[test]
fn device_memory_is_bound_in_every_way_at_every_alignment_and_place_of_its_map() {
    let (threads, each) = match std::thread::available_parallelism() {
        Ok(cpus) if cpus.get() > 1 => ("1,2", 2),
        _ => ("1", 1),
    };
    for (kind, align, map) in [
        ("fsdax", "4K", "mem"),
        ("fsdax", "4K", "dev"),
        ("devdax", "2M", "dev"),
        ("devdax", "1G", "mem"),
    ] {
        let args = ["--gib", "2", "--rebinds", "1", "--threads", threads];
        let device = ["--type", kind, "--align", align, "--map", map];
        let output = example("zone_device")
            .args(args)
            .args(device)
            .output()
            .unwrap();
        let said = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let rows = |way: &str| said.lines().filter(|line| line.starts_with(way)).count();
        assert_eq!(
            ["slow ", "template ", "stream "].map(rows),
            [each; 3],
            "{said}"
        );
        let refused = said.contains("only single pages can be copies of one block; stream instead");
        assert_eq!(refused, align != "4K", "{said}");
        assert!(said.contains("published, on other machines"), "{said}");
    }
    for bad in [["--gib", "0"], ["--align", "3M"], ["--ways", "fast"]] {
        let output = example("zone_device").args(bad).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
        assert!(text(&output.stderr).contains(bad[0]), "{bad:?}");
    }
}

#[test]
fn a_sweep_prints_every_contestant_and_keeps_a_record_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let output = sweep(
        folder.path(),
        &[
            "--memory",
            "512M",
            "--nodes",
            "2",
            "--threads",
            "1,2",
            "--oversubscribe",
            "--rounds",
            "3",
        ],
    );
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{complained}");
    for writer in ["limit", "memset", "zero", "template", "stream"] {
        let rows = said.lines().filter(|line| {
            let mut words = line.split_whitespace();
            words.next().is_some_and(|word| word.parse::<u64>().is_ok())
                && words.next() == Some(writer)
        });
        assert_eq!(rows.count(), 2, "{writer} with 1 and 2 threads: {said}");
    }
    assert!(
        said.contains("3 rounds of 3: ratios are indications"),
        "{said}"
    );

    let records = records(folder.path());
    assert_eq!(records.len(), 3 * 2 * 5, "rounds × threads × contestants");
    for record in &records {
        assert_eq!(record.schema, SCHEMA);
        assert_eq!(record.layout.nodes, 2);
        assert_eq!(record.layout.pages, record.layout.sections * 32768);
        let by_node: u64 = record.nodes.iter().map(|node| node.pages).sum();
        let by_worker: u64 = record.workers.iter().map(|worker| worker.pages).sum();
        assert_eq!(
            by_node, record.layout.pages,
            "every page by exactly one node"
        );
        assert_eq!(by_worker, record.layout.pages, "and by exactly one worker");
        assert_eq!(record.workers.len() as u64, record.settings.threads);
        assert!(record.write_ns > 0);
        assert!(!record.host.kernel.is_empty());
    }
    let mut places: Vec<u64> = records[..10].iter().map(|record| record.place).collect();
    places.sort_unstable();
    assert_eq!(
        places,
        (0..10).collect::<Vec<_>>(),
        "a round runs everything once"
    );
}

#[test]
fn every_scheduler_sweeps() {
    for scheduler in ["static", "padata", "deque", "rayon"] {
        let folder = tempfile::tempdir().unwrap();
        let args = [
            "--memory",
            "256M",
            "--threads",
            "1",
            "--rounds",
            "1",
            "--writers",
            "zero",
        ];
        let output = sweep(
            folder.path(),
            &[&args[..], &["--scheduler", scheduler]].concat(),
        );
        assert!(
            output.status.success(),
            "{scheduler}: {}",
            text(&output.stderr)
        );
        assert!(
            records(folder.path())
                .iter()
                .all(|record| record.settings.scheduler == scheduler)
        );
    }
}

#[test]
fn no_threads_are_refused() {
    let said = refused(&["--memory", "256M", "--threads", "0"], 2);
    assert!(said.contains("ask for at least 1"), "{said}");
}

#[test]
fn more_threads_than_cpus_are_refused_with_the_cpus() {
    let said = refused(&["--memory", "256M", "--threads", "100000"], 2);
    assert!(
        said.contains("100000 threads") && said.contains("oversubscri"),
        "{said}"
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let said = refused(&["--layout", "/no/such/log"], 2);
    assert!(said.contains("/no/such/log"), "{said}");
}

#[test]
fn a_file_that_is_no_boot_log_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("letter.txt");
    std::fs::write(&file, "Dear Sir,\nno kernel was booted here.\n").unwrap();
    let said = refused(&["--layout", file.to_str().unwrap()], 2);
    assert!(said.contains("letter.txt"), "{said}");
}

#[test]
fn impossible_sizes_are_refused() {
    for size in ["0", "12X", "1M", "1000P"] {
        let said = refused(&["--memory", size], 2);
        assert!(said.len() > 20, "{size}: {said}");
    }
}

#[test]
fn nodes_that_overlap_are_refused_with_both_named() {
    let said = refused(&["--node", "0:0-4G", "--node", "1:3G-6G"], 2);
    assert!(
        said.contains("both claim") && said.contains("0x00000000c0000000"),
        "{said}"
    );
}

#[test]
fn a_map_that_does_not_fit_says_what_would() {
    let said = refused(&["--memory", "48T"], 3);
    assert!(said.contains("bytes") && said.contains("fits"), "{said}");
}

#[test]
fn an_unknown_writer_is_answered_with_those_there_are() {
    let said = refused(&["--memory", "256M", "--writers", "zero,pencil"], 2);
    assert!(
        said.contains("pencil") && said.contains("template"),
        "{said}"
    );
}

/// A boot log of our own making; `unavailable` is what it claims of the hole at 0x9f000.
fn log(unavailable: u64) -> String {
    format!(
        "[    0.000000] Linux version 6.12.1 (x86_64-linux-gnu-gcc) #1 SMP\n\
         [    0.000000] Command line: quiet\n\
         [    0.000000] BIOS-provided physical RAM map:\n\
         [    0.000000] BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable\n\
         [    0.000000] BIOS-e820: [mem 0x000000000009fc00-0x000000000009ffff] reserved\n\
         [    0.000000] BIOS-e820: [mem 0x0000000000100000-0x000000007fffffff] usable\n\
         [    0.000000] e820: update [mem 0x00000000-0x00000fff] usable ==> reserved\n\
         [    0.000000] e820: remove [mem 0x000a0000-0x000fffff] usable\n\
         [    0.000000] Zone ranges:\n\
         [    0.000000]   DMA      [mem 0x0000000000001000-0x0000000000ffffff]\n\
         [    0.000000]   DMA32    [mem 0x0000000001000000-0x000000007fffffff]\n\
         [    0.000000]   Normal   empty\n\
         [    0.000000]   Device   empty\n\
         [    0.000000] Movable zone start for each node\n\
         [    0.000000] Early memory node ranges\n\
         [    0.000000]   node   0: [mem 0x0000000000001000-0x000000000009efff]\n\
         [    0.000000]   node   0: [mem 0x0000000000100000-0x000000007fffffff]\n\
         [    0.000000] Initmem setup node 0 [mem 0x0000000000001000-0x000000007fffffff]\n\
         [    0.000000] On node 0, zone DMA: 1 pages in unavailable ranges\n\
         [    0.000000] On node 0, zone DMA: {unavailable} pages in unavailable ranges\n\
         [    0.000000] Built 1 zonelists, mobility grouping on.  Total pages: 524190\n\
         [    0.000000] Policy zone: DMA32\n"
    )
}

fn boot_with(log: &str, args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.txt");
    std::fs::write(&file, log).unwrap();
    let mut command = example("boot");
    command
        .arg(file)
        .arg("--no-time")
        .args(args)
        .output()
        .unwrap()
}

fn boot(log: &str) -> Output {
    boot_with(log, &[])
}

#[test]
fn a_boot_that_agrees_ends_with_0_and_shows_its_zones() {
    let output = boot(&log(97));
    let said = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{said}{}",
        text(&output.stderr)
    );
    assert!(said.contains(": equal ("), "{said}");
    assert!(
        said.contains("DMA32     0x1000   520192   520192"),
        "{said}"
    );
    assert!(
        said.contains("memory map: 32M, 16 sections of 32768 struct pages of 64 bytes"),
        "{said}"
    );
    assert!(
        said.lines()
            .all(|line| line.chars().count() <= 100 || line.contains("/log.txt")),
        "as wide as a terminal: {said}"
    );
    let output = boot_with(&log(97), &["--zoneinfo"]);
    assert!(text(&output.stdout).contains("Node 0, zone    DMA32\n        spanned  520192"));
}

#[test]
fn a_layout_that_is_printed_as_toml_can_be_read_again() {
    let output = boot_with(&log(97), &["--toml"]);
    let form = text(&output.stdout);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layout.toml");
    std::fs::write(&file, &form).unwrap();
    let again = example("boot").arg(&file).arg("--toml").output().unwrap();
    // The first line names the file.
    let rest = |form: &str| form.split_once('\n').map(|(_, rest)| rest.to_owned());
    assert_eq!(rest(&text(&again.stdout)), rest(&form));
    assert!(
        form.contains("[[memory]]\nstart = 0x100000\nend = 0x80000000"),
        "{form}"
    );
}

#[test]
fn a_boot_as_json_has_what_the_text_has() {
    let output = boot_with(&log(98), &["--json", "--whatif", "movablecore=50%"]);
    assert_eq!(output.status.code(), Some(1));
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["memmap"]["bytes"], 32 << 20);
    assert_eq!(object["tally"]["differs"], 2, "98 printed and 97 not");
    let figures = object["figures"].as_array().unwrap();
    let wrong = figures
        .iter()
        .find(|figure| figure["verdict"] == "differs")
        .unwrap();
    assert!(
        wrong["text"].as_str().unwrap().contains("98 pages"),
        "{wrong}"
    );
    let changed = object["changes"][0]["differences"].as_array().unwrap();
    assert!(
        changed
            .iter()
            .any(|line| line.as_str().unwrap().contains("zone Movable: none → "))
    );
}

#[test]
fn what_would_change_is_told_and_what_cannot_be_is_refused() {
    let said = text(&boot_with(&log(97), &["--whatif", "movable_node"]).stdout);
    assert!(
        said.contains("with movable_node\n  nothing of the memory map would change"),
        "{said}"
    );
    for (change, expected) in [
        ("page=64K", "x86_64 kernels have pages of 4K, not of 64K"),
        ("colour=red", "try kernel=7.3"),
        ("kernel=new", "like 6.12"),
        (
            "kernel=99.9",
            "99.9 is not modelled; name one from 4.0 to 7.3",
        ),
        ("kernel=7.4", "from 4.0 to 7.3"),
        ("kernel=3.19", "from 4.0 to 7.3"),
        ("page=big", "384G"),
        ("movablecore=much", "movablecore"),
    ] {
        let output = boot_with(&log(97), &["--whatif", change]);
        assert_eq!(output.status.code(), Some(2), "{change}");
        assert!(
            text(&output.stderr).contains(expected),
            "{}",
            text(&output.stderr)
        );
    }
    let arm = "Linux version 6.12.1 (x@y) (aarch64-linux-gnu-gcc)\nZone ranges:\n\
               \x20 DMA      [mem 0x0000000040000000-0x000000007fffffff]\n  DMA32    empty\n  Normal   empty\n\
               Early memory node ranges\n  node   0: [mem 0x0000000040000000-0x000000007fffffff]\n";
    let said = text(&boot_with(arm, &["--whatif", "page=64K"]).stdout);
    assert!(said.contains("memory map: 16M → 1M"), "{said}");
    assert!(said.contains("section size: 128M → 512M"), "{said}");
}

#[test]
fn a_boot_says_how_long_each_writer_would_take_here() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.txt");
    std::fs::write(&file, log(97)).unwrap();
    let said = text(&example("boot").arg(&file).output().unwrap().stdout);
    for writer in ["memset", "zero", "template", "stream"] {
        let line = said
            .lines()
            .find(|line| line.trim_start().starts_with(writer));
        let line = line.unwrap_or_else(|| panic!("{writer}: {said}"));
        assert!(line.ends_with(" ms"), "{line}");
    }
}

#[test]
fn files_of_one_machine_are_read_together_and_contradictions_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("dmesg"), log(97)).unwrap();
    let iomem = "00001000-0009efff : System RAM\n00100000-6fffffff : System RAM\n";
    std::fs::write(folder.path().join("iomem"), iomem).unwrap();
    let output = example("boot")
        .arg(folder.path())
        .arg("--no-time")
        .output()
        .unwrap();
    let said = text(&output.stdout).replace("\n    ", " ");
    assert!(
        said.contains(
            "firmware map (line 6) has memory of node 0, /proc/iomem (line 2) has no memory"
        ),
        "{said}"
    );
}

#[test]
fn a_boot_that_differs_ends_with_1_and_shows_where() {
    let output = boot(&log(98));
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let line = said
        .lines()
        .find(|line| line.contains("98 pages in unavailable ranges"))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(line.starts_with("  differs"), "{line}");
}

#[test]
fn a_boot_log_that_is_none_ends_with_2() {
    let output = boot("nothing of the kind\n");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("log.txt"));
}

#[test]
fn a_log_without_figures_is_not_called_equal() {
    let (head, _) = log(97)
        .split_once("Zone ranges")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let output = boot(&head);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("nothing to compare"), "{said}");
}

#[test]
fn threads_and_writers_named_twice_run_once() {
    let folder = tempfile::tempdir().unwrap();
    let output = sweep(
        folder.path(),
        &[
            "--memory",
            "256M",
            "--threads",
            "1,1",
            "--writers",
            "zero,zero",
            "--rounds",
            "1",
        ],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(records(folder.path()).len(), 2, "the limit and zero");
}

#[test]
fn absurd_oversubscription_is_refused() {
    for threads in ["1000000000", "18446744073709551615"] {
        let said = refused(
            &["--memory", "256M", "--oversubscribe", "--threads", threads],
            2,
        );
        assert!(said.contains("ask for at most"), "{said}");
    }
}

#[test]
fn memory_beyond_all_addresses_is_refused() {
    let said = refused(&["--node", "0:60P-61P"], 2);
    assert!(said.contains("46 bits"), "{said}");
}

#[test]
fn kernels_that_are_not_modelled_are_refused() {
    for version in ["2.4", "99.9", "new"] {
        let said = refused(&["--memory", "256M", "--kernel", version], 2);
        assert!(said.contains(version), "{said}");
    }
}

#[test]
fn output_that_cannot_be_kept_is_an_error_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.txt");
    std::fs::write(&file, log(97)).unwrap();
    let full = std::fs::File::create("/dev/full").unwrap();
    let output = example("boot").arg(&file).stdout(full).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("stdout") && !said.contains("panicked"),
        "{said}"
    );
}

#[test]
fn a_traced_sweep_leaves_a_timeline_that_viewers_can_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let args = [
        "--memory",
        "512M",
        "--threads",
        "1,2",
        "--oversubscribe",
        "--unpinned",
        "--rounds",
        "2",
        "--writers",
        "stream",
        "--trace",
    ];
    let output = sweep(
        &folder.path().join("out"),
        &[&args[..], &[file.to_str().unwrap()]].concat(),
    );
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        said.contains("trace.json") && said.contains("not comparable"),
        "{said}"
    );
    let records = records(&folder.path().join("out"));
    assert!(records.iter().all(|record| record.traced));
    let trace = deferred_init::trace::check(&std::fs::read(&file).unwrap()).unwrap();
    assert!(trace.runs > records.len(), "the warm-up, too: {trace:?}");
    assert_eq!(
        trace.sections,
        trace.runs * records[0].layout.sections as usize,
        "{trace:?}"
    );
    assert!(trace.workers >= 2, "{trace:?}");
}

/// Examples with arguments by which they soon have something to say; `holes` is built as its own test here.
const BRIEF: [(&str, &[&str]); 6] = [
    ("policies", &["--memory", "1", "--threads", "1"]),
    (
        "zone_device",
        &[
            "--gib",
            "1",
            "--rebinds",
            "1",
            "--ways",
            "slow",
            "--threads",
            "1",
        ],
    ),
    ("kernel_sim", &["--machines", "1", "--steps", "2"]),
    (
        "sweep",
        &[
            "--memory",
            "256M",
            "--threads",
            "1",
            "--rounds",
            "1",
            "--unpinned",
        ],
    ),
    (
        "numa_study",
        &["plan", "--memory", "256M", "--threads", "1", "--unpinned"],
    ),
    ("boot", &["/no/such/log"]),
];

#[test]
fn no_example_panics_where_nobody_reads_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    for (name, args) in BRIEF {
        let go = |out: std::process::Stdio, error: std::process::Stdio| {
            let mut command = example(name);
            command.args(args).current_dir(folder.path());
            command.stdout(out).stderr(error).output().unwrap()
        };
        let full = || std::fs::File::create("/dev/full").unwrap();
        let pipe = || {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            writer
        };
        let closed = go(pipe().into(), std::process::Stdio::piped());
        let nowhere = go(full().into(), std::process::Stdio::piped());
        if name != "boot" {
            let said = text(&closed.stderr);
            assert_eq!(closed.status.code(), Some(141), "{name}: {said}");
            let said = text(&nowhere.stderr);
            assert_eq!(nowhere.status.code(), Some(1), "{name}: {said}");
            assert!(said.contains("stdout: "), "{name}: {said}");
        }
        for (out, error) in [
            (full().into(), full().into()),
            (pipe().into(), pipe().into()),
        ] {
            let status = go(out, error).status.code();
            assert!(matches!(status, Some(1 | 2 | 141)), "{name}: {status:?}");
        }
    }
}

#[test]
fn a_timeline_of_policies_is_asked_for_before_anything_is_booted() {
    let args = ["--memory", "1", "--trace", "/no/such/folder/t.json"];
    let output = example("policies").args(args).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--trace /no/such/folder/t.json: "), "{said}");
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn memory_of_policies_beyond_what_is_modelled_is_refused() {
    for gib in ["0", "65537", "17179869184", "17179869185"] {
        let output = example("policies")
            .args(["--memory", gib])
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("65536"), "{said}");
    }
}
