//! The file that a study's records go to.
//!
//! Each record is appended and made durable before the next run begins, so an end at any moment, by a
//! signal or by the power going, loses the run under way and no other. A study that goes on cuts a torn
//! line off first. The file is locked: two studies never write to one file.

use std::collections::HashSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use sys::{Args, Call};

use super::{Key, Layout, ReadError, Record, Recorded, read};

/// A file that records are appended to.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    // holds the lock
    _file: File,
    done: HashSet<Key>,
    session: u64,
}

/// Why records cannot be kept there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file cannot be made or opened.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There are records already.
    #[error(
        "{} exists: go on with it (--resume), or give the study another name or folder",
        file.display()
    )]
    Exists {
        /// The file.
        file: PathBuf,
    },
    /// Another process writes to it.
    #[error("{} is being written by another process", file.display())]
    Busy {
        /// The file.
        file: PathBuf,
    },
    /// What is in it cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It holds records of another design.
    #[error(
        "{} holds records of study {found_study}, design {found}; this is study {study}, design \
         {design}: what was asked for has changed, so begin a new study",
        file.display()
    )]
    OtherDesign {
        /// The file.
        file: PathBuf,
        /// The study of its records.
        found_study: String,
        /// The design of its records.
        found: String,
        /// Our study.
        study: String,
        /// Our design.
        design: String,
    },
    /// It holds records of a machine that the study is not about.
    #[error(
        "{} holds records of another machine: {found}; what was asked for is now {}: the layout has \
         changed, so begin a new study",
        file.display(),
        listed(machines)
    )]
    OtherMachine {
        /// The file.
        file: PathBuf,
        /// The machine of its records.
        found: Box<Layout>,
        /// Those of the study.
        machines: Vec<Layout>,
    },
}

fn listed(machines: &[Layout]) -> String {
    let all: Vec<String> = machines.iter().map(Layout::to_string).collect();
    all.join(", or ")
}

impl Store {
    /// A new file; it must not exist.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::Io`].
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let file = passes(Call::Open, path)
            .and_then(|()| OpenOptions::new().append(true).create_new(true).open(path))
            .map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => StoreError::Exists {
                    file: path.to_owned(),
                },
                _ => StoreError::Io {
                    file: path.to_owned(),
                    source,
                },
            })?;
        lock(path, &file)?;
        Ok(Self {
            path: path.to_owned(),
            _file: file,
            done: HashSet::new(),
            session: 0,
        })
    }

    /// Goes on with a file, or begins it: cuts a torn line off and returns what is in it. `machines` are those
    /// that the study is about: the design names a layout alone, and what it names may have changed.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn resume(
        path: &Path,
        study: &str,
        design: &str,
        machines: &[Layout],
    ) -> Result<(Self, Recorded), StoreError> {
        let wrong = |source| StoreError::Io {
            file: path.to_owned(),
            source,
        };
        passes(Call::Open, path).map_err(wrong)?;
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(wrong)?;
        lock(path, &file)?;
        passes(Call::Read, path).map_err(wrong)?;
        let recorded = read(path)?;
        if let Some(record) = recorded
            .records
            .iter()
            .find(|record| record.design != design || record.study != study)
        {
            return Err(StoreError::OtherDesign {
                file: path.to_owned(),
                found_study: record.study.clone(),
                found: record.design.clone(),
                study: study.to_owned(),
                design: design.to_owned(),
            });
        }
        let known = |record: &&Record| {
            let mut machines = machines.iter();
            machines.any(|machine| machine.is_same_machine(&record.layout))
        };
        if let Some(record) = recorded.records.iter().find(|record| !known(record)) {
            return Err(StoreError::OtherMachine {
                file: path.to_owned(),
                found: Box::new(record.layout.clone()),
                machines: machines.to_vec(),
            });
        }
        if let Some(torn) = &recorded.torn {
            passes(Call::Write, path)
                .and_then(|()| file.set_len(torn.offset))
                .map_err(wrong)?;
            passes(Call::Fdatasync, path)
                .and_then(|()| file.sync_data())
                .map_err(wrong)?;
        }
        let last = recorded.records.iter().map(|record| record.session).max();
        let store = Self {
            path: path.to_owned(),
            _file: file,
            done: recorded.records.iter().map(Record::key).collect(),
            session: last.map_or(0, |last| last + 1),
        };
        Ok((store, recorded))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How often the study was interrupted before.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// Whether a run is recorded.
    pub fn has(&self, key: &Key) -> bool {
        self.done.contains(key)
    }

    /// Appends a record and waits until it is durable.
    ///
    /// # Errors
    /// What the system said.
    pub fn append(&mut self, record: &Record) -> Result<(), sys::SysError> {
        sys::append_record(&self.path, &record.to_line())?;
        self.done.insert(record.key());
        Ok(())
    }
}

/// Where a test lets one of the calls fail that go through std here.
fn passes(call: Call, path: &Path) -> io::Result<()> {
    let args = || Args::File {
        path: path.to_owned(),
        bytes: 0,
    };
    Ok(sys::seam::check(call, args)?)
}

fn lock(path: &Path, file: &File) -> Result<(), StoreError> {
    match file.try_lock() {
        // a file system without locks keeps nobody out, and nobody in
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(StoreError::Busy {
            file: path.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn going_on_cuts_the_torn_line_and_knows_what_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let record = synthetic::record();
        let mut store = Store::create(&path).unwrap();
        store.append(&record).unwrap();
        drop(store);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(b"{\"schema\":2,\"stu");
        std::fs::write(&path, &bytes).unwrap();

        let (mut store, read) = Store::resume(
            &path,
            &record.study,
            &record.design,
            std::slice::from_ref(&record.layout),
        )
        .unwrap();
        assert_eq!(read.records.len(), 1);
        assert_eq!(read.torn.unwrap().line, 2);
        assert!(store.has(&record.key()));
        assert_eq!(store.session(), 1);
        let second = Record {
            round: 1,
            session: 1,
            ..record.clone()
        };
        assert!(!store.has(&second.key()));
        store.append(&second).unwrap();
        drop(store);
        let read = super::read(&path).unwrap();
        assert_eq!(read.records, [record, second]);
        assert_eq!(read.torn, None);
    }

    #[test]
    fn two_studies_never_share_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let record = synthetic::record();
        let mut store = Store::create(&path).unwrap();
        store.append(&record).unwrap();
        let busy = Store::resume(&path, &record.study, &record.design, &[]).unwrap_err();
        assert!(matches!(busy, StoreError::Busy { .. }), "{busy}");
        drop(store);
        assert!(matches!(
            Store::create(&path),
            Err(StoreError::Exists { .. })
        ));
        let other = Store::resume(&path, &record.study, "another", &[]).unwrap_err();
        assert!(other.to_string().contains("has changed"), "{other}");
        let larger = Layout {
            sections: record.layout.sections + 1,
            ..record.layout.clone()
        };
        let before = std::fs::read(&path).unwrap();
        let other = Store::resume(
            &path,
            &record.study,
            &record.design,
            std::slice::from_ref(&larger),
        )
        .unwrap_err();
        let said = other.to_string();
        for one in [&larger, &record.layout] {
            assert!(said.contains(&one.to_string()), "{said}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
