//! The machine's timeline, as the viewers' own reader and our checker see it.

use std::path::Path;
use std::process::Command;

use deferred_init::trace::{TraceSummary, check};

/// Perfetto's reader, where somebody has installed it.
const READER: &str = "trace_processor_shell";

/// Whether a timeline is one that Perfetto reads: by Perfetto's own trace processor where that is
/// there, by the format in any case. It has to show workers in so many groups.
pub(super) fn verdict(file: &Path, json: &[u8], groups: usize) -> Result<String, String> {
    let found = check(json).map_err(|error| error.to_string())?;
    if found.sections == 0 || found.groups != groups {
        return Err(format!("it should show {groups} groups: {found:?}"));
    }
    let by_format = format!(
        "{} workers in {} groups, {} sections, none outside its parent",
        found.workers, found.groups, found.sections
    );
    match read(file, &found)? {
        true => Ok(format!("{by_format}; {READER} counts the same")),
        false => Ok(format!(
            "{by_format}; by the format alone, {READER} is not installed"
        )),
    }
}

/// What the trace processor counts; false where there is none.
fn read(file: &Path, found: &TraceSummary) -> Result<bool, String> {
    let query = "select (select count(*) from slice where category = 'section'), \
                 (select count(*) from slice s join slice p on s.parent_id = p.id \
                  where s.category = 'section' and s.ts >= p.ts and s.ts + s.dur <= p.ts + p.dur), \
                 (select count(distinct track_id) from slice where category = 'section')";
    let output = Command::new(READER).args(["-Q", query]).arg(file).output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        other => other.map_err(|error| format!("{READER}: {error}"))?,
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let wanted = format!("{0},{0},{1}", found.sections, found.workers);
    match output.status.success() && said.lines().any(|line| line.replace(' ', "") == wanted) {
        true => Ok(true),
        false => Err(format!(
            "{READER} says {said:?} instead of {wanted}\n{}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}
