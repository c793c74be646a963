//! Topology by libhwloc: the same host as sysfs shows, and another one that is never pinned to.
#![cfg(feature = "hwloc")]

use deferred_init::Topology;
use deferred_init::topology::{Source, hwloc};

/// Set for the copy of this test program that libhwloc shows another machine.
const CHILD: &str = "DEFERRED_INIT_TEST_CHILD";

#[test]
fn this_host_is_the_one_that_sysfs_shows() {
    let seen = hwloc::read().unwrap();
    let host = Topology::host().unwrap();
    assert!(seen.is_host);
    assert_eq!(seen.source, Source::Hwloc);
    assert_eq!(seen.cpus.len(), host.cpus.len());
    assert_eq!(seen.nodes, host.nodes);
    assert_eq!(seen.distances, host.distances);
    assert_eq!(seen.allowed_cpus, host.allowed_cpus);
    assert_eq!(seen.counts().cores, host.counts().cores);
}

#[test]
fn another_machine_is_seen_as_another() {
    if std::env::var_os(CHILD).is_some() {
        let seen = hwloc::read().unwrap();
        assert!(!seen.is_host, "pinning to it would silently do nothing");
        let counts = seen.counts();
        assert_eq!((counts.packages, counts.cores), (2, 6));
        assert_eq!(seen.cpus.len(), 12);
        assert_eq!(seen.nodes.len(), 2);
        return;
    }
    // libhwloc reads its variables when it loads: only a process of its own can be shown another
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "another_machine_is_seen_as_another"])
        .env(CHILD, "1")
        .env("HWLOC_SYNTHETIC", "pack:2 [numa] core:3 pu:2")
        .status()
        .unwrap();
    assert!(status.success());
}
