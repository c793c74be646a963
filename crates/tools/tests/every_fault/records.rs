//! Records on the disk while calls fail: lines, and those of a study that is interrupted.

use std::error::Error;
use std::io::Write;
use std::path::Path;

use study::record::{Record, Store, parse};
use study::synthetic;

use crate::scenarios::went_on;

/// Lines that are appended, one after the other.
pub(crate) fn lines() -> Result<String, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.jsonl");
    let lines = ["{\"run\":1}\n", "{\"run\":2}\n", "{\"run\":3}\n"];
    for (done, line) in lines.iter().enumerate() {
        let result = sys::append_record(&path, line.as_bytes());
        let held = std::fs::read_to_string(&path).unwrap_or_default();
        let whole = done + usize::from(result.is_ok());
        assert_eq!(held, lines[..whole].concat(), "records on disk are whole");
        result?;
    }
    Ok(went_on(&[]))
}

/// A study that is begun, killed while it writes, and gone on with. After any failure it is gone on
/// with once more, and then has all of its records, each once.
pub(crate) fn study() -> Result<String, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("study.jsonl");
    let records: Vec<Record> = (0..4).map(of_round).collect();
    let mut kept = 0;
    let result =
        begin(&path, &records[..2], &mut kept).and_then(|()| go_on(&path, &records, &mut kept));
    assert_eq!(on_disk(&path), records[..kept], "records on disk are whole");
    if result.is_err() {
        go_on(&path, &records, &mut kept)?;
        assert_eq!(on_disk(&path), records);
    }
    result.map(|()| went_on(&[]))
}

fn of_round(round: u64) -> Record {
    Record {
        round,
        ..synthetic::record()
    }
}

fn begin(path: &Path, records: &[Record], kept: &mut usize) -> Result<(), Box<dyn Error>> {
    let mut store = Store::create(path)?;
    for record in records {
        store.append(record)?;
        *kept += 1;
    }
    drop(store);
    // what a kill in the middle of a record leaves; it is not one of the calls that fail
    let mut file = std::fs::OpenOptions::new().append(true).open(path)?;
    file.write_all(b"{\"schema\":2,\"stu")?;
    Ok(())
}

fn go_on(path: &Path, records: &[Record], kept: &mut usize) -> Result<(), Box<dyn Error>> {
    let first = &records[0];
    let (mut store, recorded) = Store::resume(
        path,
        &first.study,
        &first.design,
        std::slice::from_ref(&first.layout),
    )?;
    assert_eq!(recorded.records, records[..*kept]);
    for record in records {
        if !store.has(&record.key()) {
            store.append(record)?;
            *kept += 1;
        }
    }
    Ok(())
}

/// The whole records; a torn line behind them is none.
fn on_disk(path: &Path) -> Vec<Record> {
    let bytes = std::fs::read(path).unwrap_or_default();
    parse(path, &bytes).expect("records are whole").records
}
