//! Whether libhwloc is here.
//!
//! The feature `hwloc` links it; without it topology is read from sysfs, which finds the same
//! nodes and CPUs. Either way the choice is printed, with the line that would change it.

use std::process::Command;

/// Whether pkg-config finds hwloc 2 or later.
pub(crate) fn found() -> bool {
    Command::new("pkg-config")
        .args(["--exists", "hwloc >= 2"])
        .status()
        .is_ok_and(|status| status.success())
}

/// The cargo arguments that use it where it is, after saying which topology reader is built in.
pub(crate) fn cargo_features(package: &str) -> Vec<String> {
    if found() {
        eprintln!("xtask: topology from libhwloc (feature `hwloc`; pkg-config finds hwloc >= 2)");
        vec!["--features".into(), format!("{package}/hwloc")]
    } else {
        eprintln!(
            "xtask: topology from sysfs (pkg-config finds no hwloc >= 2; \
             to use it: apt-get install libhwloc-dev pkg-config)"
        );
        Vec::new()
    }
}
