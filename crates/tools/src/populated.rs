//! A map whose struct pages have memory behind them, to measure on.

use std::error::Error;

use deferred_init::engine::{Engine, Outcome, RunOptions};
use deferred_init::plan::Plan;
use memblock::{Behaviour, Memblock, MemblockFlags, PhysAddr, PhysRange};
use memmap_core::writers::Zero;
use memmap_core::{BackingOptions, BootOptions, Geometry, MemoryMap, Profile};

/// A map of about `mebibytes` MiB of struct pages, at least a section's, on the first node of the
/// engine's host, written once.
///
/// # Errors
/// Where the host has no node, there is no room for the map, or the run does not complete.
pub fn populated(
    engine: &Engine,
    profile: &Profile,
    mebibytes: u64,
) -> Result<MemoryMap, Box<dyn Error>> {
    let host = engine.topology();
    let node = host.nodes.first().ok_or("the host has no node")?.id;
    let section = profile.pages_per_section() * profile.page_size();
    let memmap = profile.pages_per_section() * u64::from(profile.struct_page_bytes);
    let bytes = ((mebibytes << 20) / memmap).max(1) * section;
    let mut memory = Memblock::new(Behaviour::V6_12);
    let range = PhysRange::from_size(PhysAddr::new(4 << 30), bytes);
    memory.add_node(range, node, MemblockFlags::empty())?;
    let geometry = Geometry::new(profile, &memory, &BootOptions::default())?;
    let map = MemoryMap::new(geometry, BackingOptions::default())?;
    let plan = Plan::new(map.geometry())?;
    let report = engine.run(&map, &plan, &RunOptions::new(&Zero).threads(1))?;
    match report.outcome {
        Outcome::Complete => Ok(map),
        outcome => Err(outcome.to_string().into()),
    }
}
