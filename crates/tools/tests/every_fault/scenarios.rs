//! What is done while calls fail: each builds something, looks at it, and leaves nothing.

use std::error::Error;

use deferred_init::Topology;
use deferred_init::engine::{Engine, Outcome, Placement, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::workers::{Pinning, WorkerChoice};
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::{
    BackingKind, BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile, writers,
};
use zone_device::{DevPagemap, DeviceMemmap, DeviceRuns, MemoryType, Site, Way};

use crate::{c_interface, records};

/// One of them. What it returns says how it went on where it did: in full, or without what.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Result<String, Box<dyn Error>>,
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "boot, bound to nodes",
        run: || boot(Placement::Bind, Pinning::Required),
    },
    Scenario {
        name: "boot, by first touch",
        run: || boot(Placement::FirstTouch, Pinning::BestEffort),
    },
    Scenario {
        name: "device, streamed",
        run: || device(Way::Stream),
    },
    Scenario {
        name: "device, copy-on-write",
        run: || device(Way::Cow),
    },
    Scenario {
        name: "records",
        run: records::lines,
    },
    Scenario {
        name: "records of a study",
        run: records::study,
    },
    Scenario {
        name: "C interface, mapped",
        run: || c_interface::life(1),
    },
    Scenario {
        name: "C interface, heap",
        run: || c_interface::life(2),
    },
];

/// The type of an error, and of what it holds, by the words that `Debug` has for them.
pub(crate) fn kind(error: &(dyn Error + 'static)) -> String {
    let text = format!("{error:?}");
    let words = text.split(['(', ' ', '{']).take(2);
    words
        .filter(|word| !word.is_empty() && word.chars().all(char::is_alphanumeric))
        .collect::<Vec<_>>()
        .join(": ")
}

/// A run that did not complete, as an error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Incomplete(String, #[source] Option<sys::SysError>);

fn range(start: u64, end: u64) -> PhysRange {
    PhysRange::new(PhysAddr::new(start), PhysAddr::new(end))
}

fn boot(placement: Placement, pinning: Pinning) -> Result<String, Box<dyn Error>> {
    let topology = Topology::host()?;
    // a node that the host has, so that memory can be bound to it
    let node = topology
        .nodes
        .first()
        .map_or(NodeId::default(), |node| node.id);
    let mut memory = Memblock::new(Behaviour::V7_3);
    for (start, end) in [(0x10_0000, 0x1800_0000), (1 << 36, (1 << 36) + (1 << 28))] {
        memory.add_node(range(start, end), node, MemblockFlags::empty())?;
    }
    let profile = Profile::amd64(KernelVersion::V7_3);
    let geometry = Geometry::new(&profile, &memory, &BootOptions::default())?;
    let plan = Plan::new(&geometry)?;
    let mut backing = BackingOptions::default();
    backing.kind = BackingKind::Mapped;
    let map = MemoryMap::new(geometry, backing)?;
    let engine = Engine::new(topology);
    let writer = writers::by_name("template").ok_or("no such writer")?;
    let mut options = RunOptions::new(writer).placement(placement);
    options.workers = WorkerChoice {
        threads: Some(3),
        oversubscribe: true,
        pinning,
        ..WorkerChoice::default()
    };
    let report = engine.run(&map, &plan, &options)?;
    match report.outcome {
        Outcome::Complete => {}
        Outcome::NoMemory { error, .. } => {
            // resumed without the fault, the map is what it would have been
            let report = engine.run(&map, &plan, &options)?;
            assert_eq!(report.outcome, Outcome::Complete);
            assert!(map.check().is_clean());
            return Err(Incomplete("the first run had no memory".into(), Some(error)).into());
        }
        outcome => return Err(Incomplete(outcome.to_string(), None).into()),
    }
    let check = map.check();
    assert!(check.is_clean(), "{check}");
    let mut without = Vec::new();
    if !report.unpinned.is_empty() {
        without.push(format!("{} workers not pinned", report.unpinned.len()));
    }
    if let Some(unknown) = &report.placement.unknown {
        without.push(format!(
            "placement not known ({})",
            unknown.call().map_or("", sys::Call::name)
        ));
    }
    Ok(went_on(&without))
}

pub(crate) fn went_on(without: &[String]) -> String {
    match without {
        [] => "goes on, complete".into(),
        without => format!("goes on, complete; {}", without.join("; ")),
    }
}

fn device(way: Way) -> Result<String, Box<dyn Error>> {
    let profile = Profile::amd64(KernelVersion::V7_3);
    let pagemap = DevPagemap::new(MemoryType::FsDax, 0xffff_8881_0000_0000)
        .with_range(range(1 << 32, (1 << 32) + (1 << 28)));
    let runs = DeviceRuns::new(&profile, &pagemap, &Site::default())?;
    let first = runs.runs()[0].pfns().start();
    let mut memmap = DeviceMemmap::new(runs, sys::HugePages::Always)?;
    let bound = memmap.bind(way, None)?;
    let page = memmap.read(first).ok_or("the first page can be read")?;
    assert_ne!(page[0], 0, "it is written");
    assert!(memmap.write(first, 4, 1), "it can be written");
    memmap.unbind()?;
    let refusal = bound
        .refusal
        .map(|refusal| format!("{} in place of {}: {}", bound.way, way, kind(&refusal)));
    Ok(went_on(&refusal.into_iter().collect::<Vec<_>>()))
}
