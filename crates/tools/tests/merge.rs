//! Joining as a user does it: what is written, and what is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use study::record::{self, Record};
use study::synthetic;

fn merge(args: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_merge"));
    command.args(args).output().unwrap()
}

fn write(folder: &Path, host: &str, change: impl Fn(&mut Record)) -> PathBuf {
    let mut records = synthetic::study(3, |_, round| Some(1e6 + round as f64));
    for record in &mut records {
        record.host.name = host.into();
        change(record);
    }
    let path = folder.join(format!("{host}.jsonl"));
    let bytes: Vec<u8> = records.iter().flat_map(Record::to_line).collect();
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn hosts_are_joined_into_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (
        write(folder.path(), "a", |_| {}),
        write(folder.path(), "b", |_| {}),
    );
    let all = folder.path().join("all.jsonl");
    let output = merge(&[&one, &two, Path::new("--out"), &all]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success());
    assert_eq!(said, format!("42 runs of 2 hosts: {}\n", all.display()));
    assert_eq!(record::read(&all).unwrap().records.len(), 42);
}

#[test]
fn what_must_not_be_joined_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let one = write(folder.path(), "a", |_| {});
    let other = write(folder.path(), "b", |record| {
        record.design = "another".into()
    });
    let all = folder.path().join("all.jsonl");
    let output = merge(&[&one, &other, Path::new("--out"), &all]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!all.exists());
    let before = std::fs::read(&one).unwrap();
    let output = merge(&[&one, Path::new("--out"), &one]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        std::fs::read(&one).unwrap(),
        before,
        "an input is never written over"
    );
}
