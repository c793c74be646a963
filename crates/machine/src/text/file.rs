//! A whole file, line by line, with errors that name it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::{Line, Lines};
use crate::error::ReadError;

/// Opens the file `path`; returns it with the name that messages call it by.
pub(crate) fn open(path: &Path) -> Result<(String, BufReader<File>), ReadError> {
    let file = File::open(path).map_err(|source| ReadError::Io {
        file: path.to_owned(),
        source,
    })?;
    Ok((path.display().to_string(), BufReader::new(file)))
}

/// Gives every line of `input`, which messages will call `name`, to `take`.
pub(crate) fn each_line(
    name: &str,
    input: impl BufRead,
    mut take: impl FnMut(&Line),
) -> Result<(), ReadError> {
    let mut lines = Lines::new(input);
    let mut line = Line::default();
    while lines.read(&mut line).map_err(|source| ReadError::Io {
        file: name.into(),
        source,
    })? {
        take(&line);
    }
    Ok(())
}
