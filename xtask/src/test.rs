//! All tests.

use std::process::ExitCode;

use crate::{hwloc, launch};

/// Runs every test of the workspace, with libhwloc where it is here; `args` go to `cargo test`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    if !launch::root().join("../shared/golden").is_dir() {
        eprintln!(
            "xtask: ../shared/golden is not here: tests against captures of real kernels \
             say that they skip; everything else runs"
        );
    }
    let mut line: Vec<String> = vec!["test".into(), "--workspace".into(), "--no-fail-fast".into()];
    line.extend(hwloc::cargo_features("deferred-init"));
    line.extend_from_slice(args);
    launch::cargo(&line)
}
