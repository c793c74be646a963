//! Files of real machines that lie beside the project, for tests; and how any test says that it had
//! nothing to do ([`skipped`]).
//!
//! Captures of kernels, boot logs and topologies are no part of the repository: they lie in
//! `../shared`, seen from the root of the workspace, on some machines and not on others. A test
//! that wants them asks here, and nowhere else, so that all tests treat their absence alike:
//!
//! - The folder is not there: a line on the standard error output says `SKIPPED`, and the test
//!   has nothing to do.
//! - The folder is there without the files that are expected in it: the test panics. An empty
//!   folder would else be a test that passes and has looked at nothing.
//!
//! What a test then counts as compared is its own business; [`files`] only sees to it that there
//! was something to compare.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder beside the project in which all of them lie.
const BESIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");

/// Files of `folder` beside the project whose names end with `.ending`, ascending by name.
///
/// Nothing, and a line that says so, where there is no such folder.
///
/// # Panics
///
/// Where the folder is there, and cannot be read or has no such file.
#[must_use]
pub fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    files_in(&Path::new(BESIDE).join(folder), ending)
}

/// The file `name` of `folder` beside the project.
///
/// `None`, and a line that says so, where there is no such folder.
///
/// # Panics
///
/// Where the folder is there, and the file is not in it.
#[must_use]
pub fn file(folder: &str, name: &str) -> Option<PathBuf> {
    file_in(&Path::new(BESIDE).join(folder), name)
}

/// Says that something was not tested, and why.
///
/// Not by `eprintln!`: the test harness keeps what tests that pass say so.
///
/// # Panics
///
/// Where the standard error output is gone.
pub fn skipped(why: &str) {
    writeln!(std::io::stderr(), "SKIPPED: {why}").expect("somebody is told");
}

/// Whether `folder` is there; where not, says that a test is skipped for it.
fn is_there(folder: &Path) -> bool {
    let there = folder.is_dir();
    if !there {
        skipped(&format!("{} is not there", folder.display()));
    }
    there
}

fn files_in(folder: &Path, ending: &str) -> Vec<PathBuf> {
    if !is_there(folder) {
        return Vec::new();
    }
    let read = std::fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = read.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .iter()
        .map(std::fs::DirEntry::path)
        .filter(|path| path.extension().is_some_and(|own| own == ending))
        .collect();
    let nothing = files.is_empty();
    assert!(!nothing, "{} has no .{ending} file", folder.display());
    files.sort();
    files
}

fn file_in(folder: &Path, name: &str) -> Option<PathBuf> {
    is_there(folder).then(|| {
        let path = folder.join(name);
        assert!(path.is_file(), "{} is not there", path.display());
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_is_skipped() {
        let root = tempfile::tempdir().unwrap();
        let gone = root.path().join("gone");
        assert_eq!(files_in(&gone, "txt"), [""; 0].map(PathBuf::from));
        assert_eq!(file_in(&gone, "one.txt"), None);
    }

    #[test]
    #[should_panic(expected = "has no .txt file")]
    fn a_folder_without_the_files_that_are_expected_is_no_reason_to_pass() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("README.md"), "").unwrap();
        let _ = files_in(root.path(), "txt");
    }

    #[test]
    #[should_panic(expected = "one.txt is not there")]
    fn a_folder_without_the_file_that_is_named_is_no_reason_to_pass() {
        let root = tempfile::tempdir().unwrap();
        let _ = file_in(root.path(), "one.txt");
    }

    #[test]
    fn files_come_by_name_and_by_their_ending() {
        let root = tempfile::tempdir().unwrap();
        for name in ["b.txt", "a.txt", "INDEX.tsv", "a.txt.old"] {
            std::fs::write(root.path().join(name), "").unwrap();
        }
        let found = files_in(root.path(), "txt");
        let wanted = ["a.txt", "b.txt"].map(|name| root.path().join(name));
        assert_eq!(found, wanted);
        assert_eq!(file_in(root.path(), "b.txt"), Some(wanted[1].clone()));
    }
}
