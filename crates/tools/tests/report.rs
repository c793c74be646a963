//! The report program as a user runs it: what it writes, what it says, how it ends.

use std::path::Path;
use std::process::{Command, Output};

use study::synthetic;

fn report(args: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_report"));
    command.args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn records() -> Vec<u8> {
    let records = synthetic::study(8, |settings, _| Some(1e6 / settings.threads as f64));
    records
        .iter()
        .flat_map(study::record::Record::to_line)
        .collect()
}

#[test]
fn a_page_lies_beside_its_records_and_its_summary_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    std::fs::write(&file, records()).unwrap();
    let output = report(&[&file]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = folder.path().join("a.html");
    let last = said.lines().last().unwrap();
    assert_eq!(last, format!("report: {}", page.display()));
    assert!(said.lines().count() >= 4, "three lines of summary: {said}");
    let html = std::fs::read_to_string(page).unwrap();
    assert!(
        html.contains("<code>a.jsonl</code>"),
        "the file by its name alone"
    );
    assert!(
        !html.contains(&folder.path().display().to_string()),
        "no folder of ours"
    );
}

#[test]
fn a_torn_line_is_warned_of_on_the_page_and_in_print() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    let mut bytes = records();
    bytes.extend_from_slice(b"{\"schema\":");
    std::fs::write(&file, bytes).unwrap();
    let output = report(&[&file]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("the last record is torn"));
    let html = std::fs::read_to_string(folder.path().join("a.html")).unwrap();
    assert!(html.contains("the last record is torn"));
}

#[test]
fn what_cannot_be_read_or_written_is_told_with_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("broken.jsonl"), b"{}\n{\n").unwrap();
    std::fs::write(path("empty.jsonl"), b"").unwrap();
    std::fs::write(path("good.jsonl"), records()).unwrap();
    for (file, status, complaint) in [
        ("missing.jsonl", 2, "missing.jsonl"),
        ("broken.jsonl", 2, "line 1"),
        ("empty.jsonl", 2, "no records"),
    ] {
        let output = report(&[&path(file)]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{file}: {said}");
        assert!(said.contains(complaint), "{file}: {said}");
    }
    let nowhere = path("no-such-folder").join("x.html");
    let output = report(&[&path("good.jsonl"), Path::new("--out"), &nowhere]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("no-such-folder"));
}
