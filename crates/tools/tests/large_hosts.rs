//! Hosts of 16 nodes and many terabytes are planned from what their kernels printed.

use std::path::PathBuf;

use deferred_init::plan::{Plan, Work};
use deferred_init::topology::synthetic;
use deferred_init::workers::{Pinning, WorkerChoice, choose};
use machine::MachineLayout;
use memmap_core::{BootOptions, Geometry};

/// Boot logs whose name says that the host has 16 nodes, with what that name says of its memory in
/// TB.
fn hosts() -> Vec<(PathBuf, u64)> {
    let logs = captures::files("dmesg", "txt");
    let there = !logs.is_empty();
    let found: Vec<_> = logs
        .into_iter()
        .filter_map(|path| {
            let name = path.file_stem()?.to_str()?;
            let terabytes = name
                .split('-')
                .find_map(|word| word.strip_suffix("tb")?.parse().ok())?;
            name.contains("-16node-").then_some((path, terabytes))
        })
        .collect();
    assert!(
        !there || !found.is_empty(),
        "no log of a host with 16 nodes"
    );
    found
}

#[test]
fn hosts_of_16_nodes_have_a_plan_in_which_every_cpu_has_work() {
    let host = synthetic::parse("numa:16(memory=1T) core:18").expect("a host of 16 nodes");
    let wishes = WorkerChoice {
        pinning: Pinning::Off,
        ..WorkerChoice::default()
    };
    let seats = choose(&host, &wishes).expect("every node has CPUs");
    let hosts = hosts();
    let mut planned = 0;
    for (path, terabytes) in &hosts {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let geometry = MachineLayout::open(path).ok().and_then(|layout| {
            let memblock = layout.memblock().ok()?;
            Geometry::new(&layout.profile(), &memblock, &BootOptions::default()).ok()
        });
        // some logs are excerpts that name amounts, and no ranges
        let Some(geometry) = geometry else {
            captures::skipped(&format!("{name} gives no ranges of memory"));
            continue;
        };
        let pages: u64 = geometry.memory().iter().map(|range| range.pfns.len()).sum();
        let bytes = pages * geometry.profile().page_size();
        // what people call so many TB: give or take a tenth
        let wanted = terabytes << 40;
        assert!(bytes.abs_diff(wanted) < wanted / 10, "{name}: {bytes}");

        let plan = Plan::new(&geometry).expect("a machine has a plan");
        assert_eq!(plan.sections(), geometry.sections().count(), "{name}");
        assert_eq!(plan.nodes().count(), 16, "{name}");
        // a run a range, and one more where a zone begins inside it
        let (runs, ranges) = (plan.runs().len(), geometry.memory().len());
        assert!(runs <= 2 * ranges, "{name}: {runs} runs of {ranges} ranges");
        let work = Work::new(&plan, &host, &seats, plan.default_grain());
        assert_eq!(work.sections(), plan.sections(), "{name}");
        for group in work.groups() {
            let workers = group.workers.len() as u64;
            assert!(group.sections() >= workers, "{name}: node {}", group.node);
        }
        planned += 1;
    }
    assert!(hosts.is_empty() || planned > 0, "no log gives ranges");
}
