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

#[test]
fn a_page_takes_the_place_of_none_of_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("a.jsonl"), records()).unwrap();
    std::fs::write(at("b.html"), records()).unwrap();
    std::os::unix::fs::symlink("a.jsonl", at("link.html")).unwrap();
    let out = Path::new("--out");
    let (a, b, link) = (at("a.jsonl"), at("b.html"), at("link.html"));
    for args in [
        &[&*a, out, &*a][..],
        &[&*a, out, &*link],
        &[&*b],
        &[&*a, &*b, out, &*b],
    ] {
        let output = report(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--out"), "{said}");
        for file in [&a, &b] {
            assert_eq!(std::fs::read(file).unwrap(), records());
        }
    }
}

#[test]
fn a_page_that_cannot_be_finished_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("a.jsonl"), records()).unwrap();
    std::fs::write(at("a.html"), "the old page").unwrap();
    // a file may grow so far, which is what a full disk is, and the signal for it is ignored
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_report"))
        .arg(at("a.jsonl"))
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("a.html: "), "{said}");
    assert_eq!(std::fs::read(at("a.html")).unwrap(), b"the old page");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "nothing half lies about");
}
