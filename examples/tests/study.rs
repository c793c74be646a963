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

/// Long enough to be killed in the middle.
const LONG: [&str; 4] = ["--repeats", "60", "--pages", "system,hugetlb"];

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

/// A study that was killed after about 30 records, resumed, and killed again after about 200, each time
/// with what a write that was cut short would have left. `None` where it was over before it was killed.
fn killed_twice(records_of_all: usize) -> Option<tempfile::TempDir> {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.jsonl");
    for stop_at in [30, 200] {
        let mut child = small(folder.path(), &[&LONG[..], &["--resume"]].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = || std::fs::read(&file).map_or(0, |all| all.split(|b| *b == b'\n').count());
        while lines() < stop_at && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // SIGKILL: nothing can be tidied up
        child.kill().unwrap();
        child.wait().unwrap();
        if records(folder.path()).len() == records_of_all {
            return None;
        }
        let mut torn = std::fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .unwrap();
        torn.write_all(b"{\"schema\":2,\"study\":\"sma").unwrap();
    }
    Some(folder)
}

#[test]
fn a_study_that_was_killed_and_resumed_has_every_record_of_one_that_was_not() {
    let whole = tempfile::tempdir().unwrap();
    let output = run(whole.path(), &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected = keys(&records(whole.path()));
    // two kinds of pages × (reference, limit, two writers) × rounds
    assert_eq!(expected.len(), 2 * 4 * 60);

    // on a busy machine it may be us who are too late
    let killed = (0..20).find_map(|_| killed_twice(expected.len()));
    let killed = killed.expect("a study that lives long enough to be killed");
    let output = run(killed.path(), &["--resume"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("the last record is torn"), "{said}");
    let found = records(killed.path());
    assert_eq!(keys(&found), expected, "every key, and each once");
    let last = found.iter().map(|record| record.session).max();
    assert_eq!(last, Some(2));
    assert_eq!(read(&killed.path().join("small.jsonl")).unwrap().torn, None);
}

#[test]
fn huge_pages_of_the_pool_are_had_or_visibly_refused() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--repeats", "1", "--pages", "hugetlb"];
    let output = small(folder.path(), &more).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = records(folder.path());
    assert_eq!(records.len(), 4);
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
