//! Studies, and their records joined.

use std::process::ExitCode;

use crate::launch;

/// `merge` joins record files; all else is the study program's.
pub(crate) fn run(args: &[String]) -> ExitCode {
    match args.split_first() {
        Some((first, files)) if first == "merge" => launch::tool("merge", files),
        _ => launch::example("numa_study", args),
    }
}
