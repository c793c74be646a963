//! Records of many hosts, joined.
//!
//! The same study on many hosts leaves a file a host. Joined they are one list, by host and then in
//! the order of the study, in which no run stands twice: a file that is given twice, or a copy of it,
//! adds nothing. Two different records of one run on one host are an error, since nothing says which
//! of them is to be believed.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::record::{Key, Record, Recorded};

/// What joining gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merged {
    /// By host, then in the order of the study.
    pub records: Vec<Record>,
    /// What to know of it.
    pub notes: Vec<Note>,
}

/// What to know of joined files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// Runs that were there before: a file was given twice.
    Repeated {
        /// The later file.
        file: PathBuf,
        /// How many of its runs.
        runs: usize,
    },
    /// A host that lacks runs which others have.
    Missing {
        /// The host.
        host: String,
        /// How many runs.
        runs: usize,
        /// How many there should be.
        of: usize,
    },
}

/// A sentence for a person.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repeated { file, runs } => write!(
                f,
                "{}: {runs} runs are in an earlier file, too, and are taken once",
                file.display()
            ),
            Self::Missing { host, runs, of } => write!(
                f,
                "host {host} lacks {runs} of {of} runs; its study can go on there (--resume)"
            ),
        }
    }
}

/// Why files are not joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There is nothing to join.
    #[error("there are no records in these files")]
    NoRecords,
    /// Two designs.
    #[error(
        "{} is of {study}, and {} is of {other_study}: only the same study on several hosts can be \
         joined",
        file.display(), other.display()
    )]
    Designs {
        /// The first file.
        file: PathBuf,
        /// Its study's name and design.
        study: String,
        /// Another file.
        other: PathBuf,
        /// Its study's name and design.
        other_study: String,
    },
    /// Two records of one run.
    #[error(
        "{} and {} have different records of one run on host {host} (round {round}, place {place}); \
         leave one of the files out",
        file.display(), other.display()
    )]
    Conflict {
        /// The first file.
        file: PathBuf,
        /// The other file.
        other: PathBuf,
        /// The host.
        host: String,
        /// The round, from 0.
        round: u64,
        /// The place in it, from 0.
        place: u64,
    },
}

/// Joins the records of files.
///
/// # Errors
/// [`MergeError`].
pub fn merge(files: &[(PathBuf, Recorded)]) -> Result<Merged, MergeError> {
    let all = || {
        let files = files.iter();
        files.flat_map(|(file, read)| read.records.iter().map(move |record| (file, record)))
    };
    let (first_file, first) = all().next().ok_or(MergeError::NoRecords)?;
    let mut merged = Merged::default();
    let mut seen: HashMap<(&str, Key), (&Path, &Record)> = HashMap::new();
    let mut repeated: Vec<(&Path, usize)> = Vec::new();
    for (file, record) in all() {
        if (&record.study, &record.design) != (&first.study, &first.design) {
            return Err(MergeError::Designs {
                file: first_file.clone(),
                study: design(first),
                other: file.clone(),
                other_study: design(record),
            });
        }
        match seen.insert((&record.host.name, record.key()), (file, record)) {
            None => merged.records.push(record.clone()),
            Some((_, earlier)) if earlier == record => match repeated.last_mut() {
                Some((last, runs)) if *last == file.as_path() => *runs += 1,
                _ => repeated.push((file, 1)),
            },
            Some((earlier, _)) => {
                return Err(MergeError::Conflict {
                    file: earlier.to_owned(),
                    other: file.clone(),
                    host: record.host.name.clone(),
                    round: record.round,
                    place: record.place,
                });
            }
        }
    }
    let repeated = repeated.into_iter().map(|(file, runs)| Note::Repeated {
        file: file.to_owned(),
        runs,
    });
    merged.notes.extend(repeated);
    merged.records.sort_by(|one, other| {
        let order = |record: &Record| (record.round, record.place);
        (&one.host.name, order(one)).cmp(&(&other.host.name, order(other)))
    });
    merged.notes.extend(missing(&merged.records));
    Ok(merged)
}

fn design(record: &Record) -> String {
    format!("study `{}` (design {})", record.study, record.design)
}

/// Hosts that lack rounds, by the host that has most runs a round of its own: hosts of different
/// sizes have different runs, so only whole rounds are held against each other.
fn missing(records: &[Record]) -> Vec<Note> {
    let mut hosts: Vec<(&str, Vec<&Record>)> = Vec::new();
    for record in records {
        match hosts.last_mut() {
            Some((name, own)) if *name == record.host.name => own.push(record),
            _ => hosts.push((&record.host.name, vec![record])),
        }
    }
    let rounds = records
        .iter()
        .map(|record| record.round + 1)
        .max()
        .unwrap_or(0);
    hosts
        .into_iter()
        .filter_map(|(host, own)| {
            let mut counts: HashMap<u64, usize> = HashMap::new();
            for record in &own {
                *counts.entry(record.round).or_default() += 1;
            }
            let each = counts.values().copied().max().unwrap_or(0);
            let of = each * usize::try_from(rounds).unwrap_or(usize::MAX);
            (own.len() < of).then(|| Note::Missing {
                host: host.to_owned(),
                runs: of - own.len(),
                of,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    fn file(host: &str, rounds: u64) -> (PathBuf, Recorded) {
        let mut records = synthetic::study(rounds, |_, round| Some(1e6 + round as f64));
        for record in &mut records {
            record.host.name = host.into();
        }
        let read = Recorded {
            records,
            torn: None,
        };
        (format!("{host}.jsonl").into(), read)
    }

    #[test]
    fn hosts_follow_each_other_and_their_runs_keep_their_order() {
        let merged = merge(&[file("b", 3), file("a", 3)]).unwrap();
        assert_eq!(merged.notes, []);
        let order: Vec<(&str, u64, u64)> = merged
            .records
            .iter()
            .map(|record| (record.host.name.as_str(), record.round, record.place))
            .collect();
        assert!(order.is_sorted());
        assert_eq!(order.len(), 2 * 3 * 7);
    }

    #[test]
    fn a_file_given_twice_adds_nothing() {
        let merged = merge(&[file("a", 2), file("a", 2)]).unwrap();
        assert_eq!(merged.records.len(), 14);
        assert_eq!(
            merged.notes[0].to_string(),
            "a.jsonl: 14 runs are in an earlier file, too, and are taken once"
        );
    }

    #[test]
    fn two_truths_of_one_run_are_refused() {
        let (path, mut other) = file("a", 2);
        other.records[9].write_ns += 1;
        let error = merge(&[file("a", 2), (path, other)]).unwrap_err();
        assert!(
            error.to_string().contains("host a (round 1, place 2)"),
            "{error}"
        );
    }

    #[test]
    fn two_designs_are_refused_by_name() {
        let (path, mut other) = file("b", 1);
        for record in &mut other.records {
            record.design = "another".into();
        }
        let error = merge(&[file("a", 1), (path, other)])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("a.jsonl") && error.contains("another"),
            "{error}"
        );
        assert_eq!(merge(&[]), Err(MergeError::NoRecords));
    }

    #[test]
    fn a_host_that_lacks_runs_is_named() {
        let (path, mut short) = file("b", 3);
        short.records.truncate(9);
        let merged = merge(&[file("a", 3), (path, short)]).unwrap();
        assert_eq!(merged.records.len(), 21 + 9);
        assert_eq!(
            merged.notes[0].to_string(),
            "host b lacks 12 of 21 runs; its study can go on there (--resume)"
        );
    }
}
