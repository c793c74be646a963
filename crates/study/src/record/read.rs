//! Records read back.
//!
//! A process that was killed while it wrote leaves at most the beginning of a line at the end of its
//! file. That line is dropped, and the reader is told; a broken line anywhere else is an error.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Record, SCHEMA};

/// The records of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// In the order of the file.
    pub records: Vec<Record>,
    /// The beginning of a line that was dropped, where the file ends in one.
    pub torn: Option<Torn>,
}

/// The beginning of a record whose end is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: usize,
    /// Where it begins, bytes from the start of the file.
    pub offset: u64,
    /// How much of it there is.
    pub bytes: u64,
}

/// A warning for a person.
impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: line {}: the last record is torn ({} bytes without an end); it is dropped, and its \
             run is to be done again",
            self.file.display(),
            self.line,
            self.bytes
        )
    }
}

/// Why a file's records cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line that is no record.
    #[error("{}: line {line}: not a record: {source}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A record of another version.
    #[error(
        "{}: line {line}: a record of schema {found}; this program reads schema {SCHEMA}",
        file.display()
    )]
    Schema {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The schema of that record.
        found: u32,
    },
}

/// Reads the records of a file.
///
/// # Errors
/// [`ReadError`]; a torn last line is none, see [`Recorded::torn`].
pub fn read(path: &Path) -> Result<Recorded, ReadError> {
    let bytes = std::fs::read(path).map_err(|source| ReadError::Io {
        file: path.to_owned(),
        source,
    })?;
    parse(path, &bytes)
}

/// As [`read`], of the bytes of a file; `path` is for messages.
///
/// # Errors
/// [`ReadError::Line`], [`ReadError::Schema`].
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Recorded, ReadError> {
    let mut recorded = Recorded::default();
    let mut offset = 0;
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let begin = offset;
        offset += line.len();
        if line.iter().all(u8::is_ascii_whitespace) && line.ends_with(b"\n") {
            continue;
        }
        if !line.ends_with(b"\n") {
            recorded.torn = Some(Torn {
                file: path.to_owned(),
                line: number + 1,
                offset: begin as u64,
                bytes: line.len() as u64,
            });
            break;
        }
        recorded.records.push(record(path, number + 1, line)?);
    }
    Ok(recorded)
}

fn record(path: &Path, line: usize, bytes: &[u8]) -> Result<Record, ReadError> {
    /// The one field that all versions share.
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let wrong = |source| ReadError::Line {
        file: path.to_owned(),
        line,
        source,
    };
    let version: Version = serde_json::from_slice(bytes).map_err(wrong)?;
    if version.schema != SCHEMA {
        return Err(ReadError::Schema {
            file: path.to_owned(),
            line,
            found: version.schema,
        });
    }
    serde_json::from_slice(bytes).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    fn parse(bytes: &[u8]) -> Result<Recorded, ReadError> {
        super::parse(Path::new("x.jsonl"), bytes)
    }

    #[test]
    fn a_file_cut_anywhere_gives_its_whole_lines_and_tells_of_the_rest() {
        let record = synthetic::record();
        let bytes = record.to_line().repeat(2);
        for cut in 0..=bytes.len() {
            let read = parse(&bytes[..cut]).unwrap();
            let whole = cut / record.to_line().len();
            assert_eq!(read.records.len(), whole, "cut at {cut}");
            let left = cut - whole * record.to_line().len();
            assert_eq!(read.torn.as_ref().map_or(0, |torn| torn.bytes), left as u64);
            if let Some(torn) = read.torn {
                assert_eq!(torn.line, whole + 1);
                assert_eq!(torn.offset, (whole * record.to_line().len()) as u64);
                assert!(torn.to_string().contains("is torn"), "{torn}");
            }
        }
    }

    #[test]
    fn a_broken_line_in_the_middle_is_an_error_with_its_number() {
        let mut bytes = synthetic::record().to_line();
        bytes.extend_from_slice(b"{\"schema\":2\n");
        bytes.extend(synthetic::record().to_line());
        let error = parse(&bytes).unwrap_err().to_string();
        assert!(
            error.starts_with("x.jsonl: line 2: not a record:"),
            "{error}"
        );
    }

    #[test]
    fn a_record_of_another_version_is_refused_by_its_number() {
        let error = parse(b"{\"schema\":1,\"sweep\":\"x\"}\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "x.jsonl: line 1: a record of schema 1; this program reads schema 2"
        );
    }

    #[test]
    fn a_field_that_is_not_known_is_passed_over() {
        let line = String::from_utf8(synthetic::record().to_line()).unwrap();
        let line = line.replacen('{', "{\"later\":[1],", 1);
        assert_eq!(
            parse(line.as_bytes()).unwrap().records,
            [synthetic::record()]
        );
    }
}
