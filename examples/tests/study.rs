//! Studies as a user runs them: killed, resumed, refused, planned, compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use study::record::{Record, read};

/// The built example; cargo builds all examples before it runs these tests.
fn numa_study(args: &[&str]) -> Command {
    let test = std::env::current_exe().unwrap();
    let mut path: PathBuf = test.parent().unwrap().parent().unwrap().into();
    path.extend(["examples", "numa_study"]);
    let mut command = Command::new(path);
    command.args(args);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A study of one small machine on one thread, kept in `folder` as `small.jsonl`.
fn small(folder: &Path, more: &[&str]) -> Command {
    let small = "run --name small --memory 256M --threads 1 --unpinned";
    let args: Vec<&str> = small.split(' ').collect();
    let out = folder.to_str().unwrap();
    numa_study(&[&args[..], &["--out", out], more].concat())
}

/// Long enough to be killed in the middle; boots among its runs.
const LONG: [&str; 6] = [
    "--repeats",
    "20",
    "--pages",
    "system,hugetlb",
    "--policy",
    "eager,deferred,lazy",
];

fn run(folder: &Path, more: &[&str]) -> Output {
    small(folder, &[&LONG[..], more].concat()).output().unwrap()
}

fn records(folder: &Path) -> Vec<Record> {
    read(&folder.join("small.jsonl")).unwrap().records
}

fn keys(records: &[Record]) -> Vec<(String, String, study::record::Key)> {
    let mut keys: Vec<_> = records
        .iter()
        .map(|record| (record.study.clone(), record.design.clone(), record.key()))
        .collect();
    keys.sort();
    keys
}

#[test]
fn a_study_that_was_killed_and_resumed_has_every_record_of_one_that_was_not() {
    let (killed, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let output = run(whole.path(), &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected = keys(&records(whole.path()));
    // two kinds of pages × (reference, limit, two writers, and three boots of each) × rounds
    assert_eq!(expected.len(), 2 * (4 + 2 * 3) * 20);

    // ended by the system in the middle of a record, wherever that is: a file may grow so far
    let file = killed.path().join("small.jsonl");
    let program = small(killed.path(), &LONG);
    let ended = Command::new("sh")
        .args(["-c", "ulimit -c 0; ulimit -f 128; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(program.get_args())
        .output()
        .unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&ended.status);
    assert!(signal.is_some(), "{} {}", ended.status, text(&ended.stderr));
    let found = records(killed.path()).len();
    assert!(0 < found && found < expected.len(), "{found}");

    // and by SIGKILL, after which nothing can be tidied up either
    let mut child = small(killed.path(), &[&LONG[..], &["--resume"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = || std::fs::read(&file).map_or(0, |all| all.split(|b| *b == b'\n').count());
    while lines() < found + 50 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let _ = child.kill();
    child.wait().unwrap();
    // what a write that was cut short would have left
    let mut torn = std::fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .unwrap();
    std::io::Write::write_all(&mut torn, b"{\"schema\":2,\"study\":\"sma").unwrap();

    let output = run(killed.path(), &["--resume"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("the last record is torn"), "{said}");
    let found = records(killed.path());
    assert_eq!(keys(&found), expected, "every key, and each once");
    let last = found.iter().map(|record| record.session).max();
    assert!(last >= Some(1), "{last:?}");
    assert_eq!(read(&file).unwrap().torn, None);
}

#[test]
fn huge_pages_of_the_pool_are_had_or_visibly_refused() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--repeats", "1", "--pages", "hugetlb"];
    let output = small(folder.path(), &more).output().unwrap();
    let records = records(folder.path());
    assert_eq!(records.len(), 4);
    let none = records.iter().all(|record| record.refused.is_some());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(i32::from(none)), "{said}");
    assert_eq!(said.contains("nothing could be measured"), none, "{said}");
    for record in &records {
        match &record.refused {
            Some(why) => assert!(
                why.contains("nr_hugepages") && record.write_ns == 0,
                "{why}"
            ),
            None => assert!(record.huge_bytes > Some(0) && record.write_ns > 0),
        }
    }
}

#[test]
fn policies_are_booted_beside_an_eager_boot_and_say_what_they_make_one_wait_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let more = [
        "--repeats",
        "2",
        "--policy",
        "eager,deferred,on-demand,lazy",
        "--writer",
        "stream",
        "--trace",
        file.to_str().unwrap(),
    ];
    let output = small(folder.path(), &more).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = records(folder.path());
    // on shared memory reference, limit and writer; an eager boot and three others
    assert_eq!(found.len(), 2 * (3 + 4));
    for record in &found {
        assert!(record.refused.is_none(), "{record:?}");
        let Some(boot) = record.boot else {
            assert!(!record.role.is_boot() && record.write_ns > 0, "{record:?}");
            continue;
        };
        assert!(record.role.is_boot() && record.write_ns == 0, "{record:?}");
        assert_eq!(boot.sections, record.layout.sections, "{record:?}");
        assert!(boot.first_usable_ns > 0 && boot.first_usable_ns <= boot.total_ns);
        assert!(boot.worst_stretch_ns > 0 && boot.sections_first > 0);
        let eager = record.settings.policy == "eager";
        assert_eq!(record.role == study::record::Role::BootReference, eager);
        if eager {
            assert_eq!(boot.sections_first, boot.sections);
        }
    }
    for policy in ["deferred", "on-demand", "lazy"] {
        assert!(
            said.contains(&format!("Booted by the {policy} policy (stream, 1 thread)")),
            "{policy}: {said}"
        );
    }
    assert!(said.contains("boots by policy\npolicy "), "{said}");
    let trace = deferred_init::trace::check(&std::fs::read(&file).unwrap()).unwrap();
    assert!(trace.sections > 0, "{trace:?}");

    // boots alone: no limit, no reference
    let alone = ["--name", "alone", "--repeats", "1", "--policy", "lazy"];
    let args = "run --memory 256M --threads 1 --unpinned --out";
    let mut args: Vec<&str> = args.split(' ').collect();
    args.push(folder.path().to_str().unwrap());
    args.extend(alone);
    let output = numa_study(&args).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let alone = read(&folder.path().join("alone.jsonl")).unwrap().records;
    assert_eq!(alone.len(), 4, "two writers, each beside an eager boot");
    assert!(alone.iter().all(|record| record.boot.is_some()));
    let said = text(&output.stdout);
    assert!(!said.contains("Nothing was measured"), "{said}");
}

#[test]
fn a_policy_with_what_means_nothing_to_it_is_refused_with_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--policy", "lazy", "--placement", "local"];
    let output = small(folder.path(), &more).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("`lazy` with placement `bind` means nothing")
            && said.contains("allowed with `lazy`: placement `first-touch`"),
        "{said}"
    );
    assert!(!folder.path().join("small.jsonl").exists());
}

#[test]
fn a_study_whose_spans_are_printed_says_that_it_was_traced() {
    let folder = tempfile::tempdir().unwrap();
    let output = small(folder.path(), &["--repeats", "1", "-v"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = records(folder.path());
    assert!(!records.is_empty() && records.iter().all(|record| record.traced));
    let said = text(&output.stdout);
    assert!(said.contains("4 of 4 runs were traced"), "{said}");
}

#[test]
fn a_study_is_not_begun_twice_nor_gone_on_with_as_another() {
    let folder = tempfile::tempdir().unwrap();
    let args = |more: &[&str]| small(folder.path(), more).output().unwrap();
    assert!(args(&["--repeats", "1"]).status.success());
    let again = args(&["--repeats", "1"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        text(&again.stderr).contains("--resume"),
        "{}",
        text(&again.stderr)
    );
    let other = args(&["--repeats", "2", "--resume"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(
        text(&other.stderr).contains("has changed"),
        "{}",
        text(&other.stderr)
    );
}

#[test]
fn a_bad_study_file_is_answered_with_every_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(
        &file,
        "repeats = 0\ncolour = 1\n[vary]\nwriter = [\"pencil\"]\n",
    )
    .unwrap();
    let output = numa_study(&["run", file.to_str().unwrap()])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for line in [
        "line 1: repeats",
        "line 2: there is no `colour`",
        "line 4: writer: `pencil`",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(said.matches("allowed:").count() >= 3, "{said}");
}

#[test]
fn plans_comparisons_and_predictions_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let plan = numa_study(&["plan", "--memory", "256M", "--threads", "1", "--unpinned"])
        .output()
        .unwrap();
    let said = text(&plan.stdout);
    assert!(plan.status.success(), "{}", text(&plan.stderr));
    assert!(
        said.contains("[vary]") && said.contains("244 runs in 61 rounds"),
        "{said}"
    );

    let more = ["--repeats", "2", "--matrix"];
    let done = small(folder.path(), &more).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let said = text(&done.stdout);
    assert!(said.contains("rate of initialisation"), "a matrix: {said}");
    assert!(
        text(&done.stderr).contains("runs in 2 rounds"),
        "an estimate before it starts"
    );
    let file = folder.path().join("small.jsonl");
    let file = file.to_str().unwrap();
    let compared = numa_study(&["compare", file, file]).output().unwrap();
    assert!(text(&compared.stdout).contains("no verdict: too few rounds"));

    let by_hand = [
        "model",
        "--core-rate",
        "5",
        "--node-rate",
        "40",
        "--predict",
        "all",
    ];
    let predicted = numa_study(&by_hand).output().unwrap();
    let said = text(&predicted.stdout);
    assert!(predicted.status.success(), "{}", text(&predicted.stderr));
    assert!(
        said.contains("epyc-nps4") && said.contains("extrapolates:"),
        "{said}"
    );
    let wrong = numa_study(&["show", "/no/such/file"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn help_names_every_exit_status() {
    let output = numa_study(&["--help"]).output().unwrap();
    let said = text(&output.stdout);
    assert!(
        said.contains("study merge FILE") && said.contains("\n  3  "),
        "{said}"
    );
    for command in ["run", "plan", "show", "compare", "model"] {
        let output = numa_study(&[command, "--help"]).output().unwrap();
        let said = text(&output.stdout);
        for status in 0..=3 {
            assert!(
                said.contains(&format!("\n  {status}  ")),
                "{command}: {said}"
            );
        }
    }
}

#[test]
fn a_traced_study_leaves_a_timeline_of_every_run_and_records_that_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let traced = |file: &Path| {
        let more = ["--repeats", "2", "--trace", file.to_str().unwrap()];
        small(folder.path(), &more).output().unwrap()
    };
    // before anything has run
    let refused = traced(&folder.path().join("no/such/folder.json"));
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("--trace "),
        "{}",
        text(&refused.stderr)
    );
    assert!(!folder.path().join("small.jsonl").exists());

    let output = traced(&file);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        said.contains("not comparable") && said.contains("8 of 8 runs were traced"),
        "{said}"
    );
    let records = records(folder.path());
    assert!(records.len() == 8 && records.iter().all(|record| record.traced));
    let trace = deferred_init::trace::check(&std::fs::read(&file).unwrap()).unwrap();
    // the runs of the records, and those of the warm-up
    assert!(trace.runs > 8, "{trace:?}");
    assert_eq!(
        trace.sections,
        trace.runs * records[0].layout.sections as usize,
        "{trace:?}"
    );
}

#[test]
fn a_timeline_takes_the_place_of_no_records_nor_of_what_a_refused_study_left() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let traced = |file: &Path, more: &[&str]| {
        let args = ["--repeats", "1", "--trace", file.to_str().unwrap()];
        small(folder.path(), &[&args[..], more].concat())
            .output()
            .unwrap()
    };
    let first = traced(&at("t.json"), &[]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let (kept, line) = (
        std::fs::read(at("small.jsonl")).unwrap(),
        std::fs::read(at("t.json")).unwrap(),
    );
    // there are records: refused, and the timeline of the first study is whole
    let again = traced(&at("t.json"), &[]);
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(std::fs::read(at("t.json")).unwrap(), line);
    // the records themselves, also by a link
    std::os::unix::fs::symlink("small.jsonl", at("link.json")).unwrap();
    for name in ["small.jsonl", "link.json"] {
        let refused = traced(&at(name), &["--resume"]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("name another"), "{said}");
        assert_eq!(std::fs::read(at("small.jsonl")).unwrap(), kept);
    }
    // and one's own study file
    let file = at("own.toml");
    std::fs::write(&file, "").unwrap();
    let path = file.to_str().unwrap();
    let refused = traced(&file, &["--name", "other", path]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert_eq!(std::fs::read(&file).unwrap(), b"");
}

#[test]
fn a_timeline_that_cannot_be_kept_takes_neither_table_nor_place_of_the_records_away() {
    let folder = tempfile::tempdir().unwrap();
    let output = small(folder.path(), &["--repeats", "1", "--trace", "/dev/full"])
        .output()
        .unwrap();
    let (said, why) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{why}");
    assert!(why.contains("--trace /dev/full: "), "{why}");
    assert!(
        said.contains("records: ") && said.contains("stream"),
        "{said}"
    );
}

#[test]
fn a_study_does_not_go_on_over_another_machine_of_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("layout.txt");
    let machine = |end: &str| {
        format!(
            "[    0.000000] Linux version 6.12.1 (x86_64-linux-gnu-gcc) #1 SMP\n\
             [    0.000000] Command line: quiet\n\
             [    0.000000] BIOS-provided physical RAM map:\n\
             [    0.000000] BIOS-e820: [mem 0x0000000000100000-0x{end}] usable\n"
        )
    };
    let out = folder.path().to_str().unwrap();
    let go = |more: &[&str]| {
        let args = "run --name two --threads 1 --unpinned --repeats 1 --layout";
        let args: Vec<&str> = args.split(' ').collect();
        let more = [&args[..], &[log.to_str().unwrap(), "--out", out], more].concat();
        numa_study(&more).output().unwrap()
    };
    std::fs::write(&log, machine("000000000fffffff")).unwrap();
    let first = go(&[]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let records = std::fs::read(folder.path().join("two.jsonl")).unwrap();
    assert!(go(&["--resume"]).status.success(), "the same machine");
    std::fs::write(&log, machine("000000001fffffff")).unwrap();
    let other = go(&["--resume"]);
    let said = text(&other.stderr);
    assert_eq!(other.status.code(), Some(2), "{said}");
    assert!(
        said.contains("sections: 2") && said.contains("sections: 4"),
        "{said}"
    );
    let after = std::fs::read(folder.path().join("two.jsonl")).unwrap();
    assert_eq!(after, records);
}

#[test]
fn flags_have_the_bounds_of_a_study_file() {
    for (args, named) in [
        ("plan --memory 1G,1024M", "--memory"),
        ("plan --memory 1G --placement local,bind", "--placement"),
        ("plan --memory 1G --writer zero,zero", "--writer"),
        (
            "plan --memory 1G --threads 1..=18446744073709551615",
            "1..=18446744073709551615",
        ),
        (
            "plan --memory 1G --oversubscribe --threads 1..=9999999999",
            "1..=9999999999",
        ),
        ("plan --memory 1G --repeats 4294967295", "--repeats"),
        ("plan --memory 1G --seed 18446744073709551615", "--seed"),
        ("model --core-rate 1 --node-rate 1 --knee NaN", "--knee"),
        ("model --core-rate 1 --node-rate 1 --knee 0", "--knee"),
        ("model --core-rate 1 --node-rate 1 --knee=-5", "--knee"),
        ("model --core-rate 1 --node-rate 1 --knee inf", "--knee"),
        ("model --core-rate 1e-300 --node-rate 1e300", "--core-rate"),
        ("model --core-rate 1 --node-rate 1e300", "--node-rate"),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let output = numa_study(&args).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(named), "{args:?}: {said}");
    }
}
