//! The page of a sweep, and its summary in words.

use std::io::Write;
use std::path::Path;

use study::record;
use study::replace::replace;
use study::report::{Options, Report};

use crate::{FAILED, Failure, unsaid};

/// Writes the report beside its records, and says in three lines what it shows.
pub(crate) fn write(out: &mut impl Write, records: &Path) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| (FAILED, format!("the report: {error}"));
    // what is on disk is what is shown
    let read = record::read(records).map_err(|error| failed(&error))?;
    let file = records.file_name().unwrap_or(records.as_os_str());
    let options = Options {
        files: vec![file.to_string_lossy().into_owned()],
        ..Options::default()
    };
    let report = Report::of(&read.records, &options).map_err(|error| failed(&error))?;
    let html = report.html().map_err(|error| failed(&error))?;
    let path = records.with_extension("html");
    replace(&path, html.as_bytes())
        .map_err(|error| failed(&format_args!("{}: {error}", path.display())))?;
    let mut say = || {
        writeln!(out, "report:  {}\n", path.display())?;
        for line in report.summary() {
            writeln!(out, "{line}")?;
        }
        Ok(())
    };
    say().map_err(unsaid)
}
