//! A machine's life: boot with interruptions, devices, allocation by several CPUs, memory that
//! comes and goes.

use deferred_init::Topology;
use deferred_init::engine::{CancelToken, Engine, FaultPhase, Outcome, Placement, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::schedule;
use deferred_init::workers::{Pinning, WorkerChoice};
use memblock::{NodeId, Pfn, PfnRange, PhysAddr, PhysRange};
use memmap_core::buddy::{Allocator, HandOver, ListHeads, MigrateType, NodeDistances, Request};
use memmap_core::hotplug::{Hotplug, HotplugOptions, OnlineTo};
use memmap_core::{BackingKind, BackingOptions, Geometry, MemoryMap, Profile, ZoneIndex, writers};
use zone_device::{DevPagemap, Devices, MemoryType};

use super::Finding;
use super::dice::Dice;
use super::faults::{self, Fault};
use super::machine::{self, Machine};

/// What was seen in one life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lived {
    /// Struct pages that were checked.
    pub pages: u64,
    /// Runs of the engine that were interrupted, by a cancel or a fault.
    pub interrupted: u64,
    /// What was refused with an error.
    pub refused: u64,
    /// Devices bound.
    pub devices: u64,
    /// Blocks allocated.
    pub allocations: u64,
    /// Memory blocks that changed their state.
    pub plugged: u64,
}

impl Lived {
    /// Adds another's life.
    pub fn add(&mut self, other: &Self) {
        self.pages += other.pages;
        self.interrupted += other.interrupted;
        self.refused += other.refused;
        self.devices += other.devices;
        self.allocations += other.allocations;
        self.plugged += other.plugged;
    }
}

/// What of a life is lived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// Boot, with its interruptions.
    Boot,
    /// Devices, after a boot that nothing disturbs.
    Devices,
    /// Allocation and memory that comes and goes, likewise.
    Pages,
}

/// Lives a part of the life that `dice` decide, of a machine with about `most` bytes of struct
/// pages. Nothing of it stays.
///
/// # Errors
/// [`Finding`], where anything is not as it must be.
pub fn live(
    dice: &mut Dice<'_>,
    topology: &Topology,
    part: Part,
    most: u64,
) -> Result<Lived, Finding> {
    let mut lived = Lived::default();
    let Machine {
        profile,
        memory,
        options,
    } = machine::draw(dice, most);
    let geometry = Geometry::new(&profile, &memory, &options)
        .map_err(|error| Finding::new(format!("a machine was refused: {error}")))?;
    let mut map = if matches!(part, Part::Whole | Part::Boot) {
        let fault = faults::draw(dice);
        boot(dice, topology, &geometry, fault, &mut lived)?
    } else {
        calm_boot(&geometry)?
    };
    check_map(&map, &mut lived)?;
    let mut one_stays = false;
    if matches!(part, Part::Whole | Part::Devices) {
        one_stays = devices(dice, &mut map, &profile, &mut lived)?;
    }
    if matches!(part, Part::Whole | Part::Pages) {
        let allocator = hand_over(map, &geometry)?;
        allocate(dice, &allocator, &profile, &mut lived)?;
        if !one_stays {
            plug(dice, allocator, &mut lived)?;
        }
    }
    Ok(lived)
}

/// A map that one thread wrote.
fn calm_boot(geometry: &Geometry) -> Result<MemoryMap, Finding> {
    let mut backing = BackingOptions::default();
    backing.kind = BackingKind::Heap;
    backing.poison = true;
    let map = MemoryMap::new(geometry.clone(), backing)
        .map_err(|error| Finding::new(format!("no map: {error}")))?;
    for section in geometry.sections().iter() {
        if let Some(mut claim) = map.claim(section) {
            claim.write(&writers::Template::DETECT);
            claim.publish();
        }
    }
    Ok(map)
}

/// A map that is complete after runs that a fault, a cancel, or nothing interrupted.
fn boot(
    dice: &mut Dice<'_>,
    topology: &Topology,
    geometry: &Geometry,
    fault: Option<Fault>,
    lived: &mut Lived,
) -> Result<MemoryMap, Finding> {
    let plan = Plan::new(geometry)
        .map_err(|error| Finding::new(format!("no plan could be made: {error}")))?;
    let mut backing = BackingOptions::default();
    backing.poison = true;
    backing.kind = match dice.below(4) {
        0 => BackingKind::Heap,
        1 => BackingKind::Mapped,
        _ => BackingKind::Auto,
    };
    let mut map = None;
    if let Some(fault) = fault {
        let faults = fault.faults();
        let _scope = faults.enter();
        // an engine of its own, so that workers are started under the fault
        let engine = Engine::new(topology.clone());
        match MemoryMap::new(geometry.clone(), backing.clone()) {
            Err(_) => lived.refused += 1,
            Ok(new) => {
                run(dice, &engine, &new, &plan, lived);
                map = Some(new);
            }
        }
    }
    let map = match map {
        Some(map) => map,
        None => MemoryMap::new(geometry.clone(), backing)
            .map_err(|error| Finding::new(format!("no map without a fault: {error}")))?,
    };
    let engine = Engine::new(topology.clone());
    run(dice, &engine, &map, &plan, lived);
    let report = engine
        .run(&map, &plan, &RunOptions::new(writer(dice)))
        .map_err(|error| Finding::new(format!("no run without a fault: {error}")))?;
    match &report.outcome {
        Outcome::Complete if map.is_complete() => Ok(map),
        outcome => Err(Finding::new(format!(
            "the last run did not complete the map: {outcome}, {} sections left",
            report.left()
        ))),
    }
}

fn writer(dice: &mut Dice<'_>) -> &'static dyn writers::PageWriter {
    dice.pick(writers::all())
}

/// One run, of any kind, cancelled at any time or never. However it ends, another completes it.
fn run(dice: &mut Dice<'_>, engine: &Engine, map: &MemoryMap, plan: &Plan, lived: &mut Lived) {
    let schedulers = schedule::all();
    let mut options = RunOptions::new(writer(dice)).scheduler(dice.pick(schedulers));
    options.workers = WorkerChoice {
        threads: Some(dice.between(1..=6) as usize),
        oversubscribe: true,
        pinning: dice.pick(&[Pinning::Required, Pinning::BestEffort, Pinning::Off]),
        ..WorkerChoice::default()
    };
    options.placement = dice.pick(&[
        Placement::FirstTouch,
        Placement::Bind,
        Placement::Interleave,
    ]);
    if dice.bool() {
        options.fault = FaultPhase::WhileWriting;
    }
    if dice.bool() {
        options.grain = Some(dice.between(1..=8));
    }
    let cancel = CancelToken::new();
    options.cancel = cancel.clone();
    let turns = dice.bool().then(|| dice.below(2000));
    let report = std::thread::scope(|scope| {
        if let Some(turns) = turns {
            scope.spawn(move || {
                for _ in 0..turns {
                    std::thread::yield_now();
                }
                cancel.cancel();
            });
        }
        engine.run(map, plan, &options)
    });
    match report {
        Err(_) => lived.refused += 1,
        Ok(report) => lived.interrupted += u64::from(report.outcome != Outcome::Complete),
    }
}

fn check_map(map: &MemoryMap, lived: &mut Lived) -> Result<(), Finding> {
    let report = map.check();
    lived.pages += report.pages;
    if report.is_clean() {
        Ok(())
    } else {
        Err(Finding::new(format!("the map is wrong: {report}")))
    }
}

/// Binds and unbinds devices beside and over memory; whether one stays.
fn devices(
    dice: &mut Dice<'_>,
    map: &mut MemoryMap,
    profile: &Profile,
    lived: &mut Lived,
) -> Result<bool, Finding> {
    let mut devices = Devices::new();
    let mut bound = Vec::new();
    let nodes: Vec<NodeId> = map.geometry().nodes().iter().map(|node| node.id).collect();
    let end = map
        .geometry()
        .memory()
        .last()
        .map_or(0, |range| range.pfns.end().get());
    let step = profile.pages_per_subsection();
    for number in 0..dice.below(6) {
        let span = end + 4 * profile.pages_per_section();
        let start = dice.below(span / step) * step;
        let pages = dice.between(1..=2 * profile.pages_per_section() / step) * step;
        let page = profile.page_size();
        let range = PhysRange::new(
            PhysAddr::new(start * page),
            PhysAddr::new((start + pages) * page),
        );
        let kind = dice.pick(&MemoryType::ALL);
        let shift = if dice.bool() {
            0
        } else {
            dice.between(1..=9) as u32
        };
        let pagemap = DevPagemap::new(kind, 0xffff_8880_0000_0000 + number * 4096)
            .with_range(range)
            .with_vmemmap_shift(shift);
        let node = dice.pick(&nodes);
        match devices.bind(map, pagemap, node, writer(dice), None) {
            Ok(id) => {
                lived.devices += 1;
                bound.push(id);
            }
            Err(_) => lived.refused += 1,
        }
        if dice.bool() && !bound.is_empty() {
            let id = bound.swap_remove(dice.below(bound.len() as u64) as usize);
            unbind(&mut devices, map, id)?;
        }
    }
    if dice.bool() {
        for id in bound.drain(..) {
            unbind(&mut devices, map, id)?;
        }
    }
    Ok(!bound.is_empty())
}

fn unbind(
    devices: &mut Devices,
    map: &mut MemoryMap,
    id: zone_device::DeviceId,
) -> Result<(), Finding> {
    match devices.unbind(map, id) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Finding::new("a bound device was unknown".into())),
        Err(error) => Err(Finding::new(format!("a device could not go: {error}"))),
    }
}

fn hand_over(map: MemoryMap, geometry: &Geometry) -> Result<Allocator<MemoryMap>, Finding> {
    let plan = HandOver::new(geometry);
    let allocator = Allocator::new(
        map,
        geometry,
        NodeDistances::default(),
        ListHeads::default(),
    );
    for section in geometry.sections().iter() {
        allocator.hand_over(&plan, section);
    }
    check_allocator(&allocator, || "hand-over".into())?;
    Ok(allocator)
}

/// `after` says what was done to it last.
fn check_allocator(
    allocator: &Allocator<MemoryMap>,
    after: impl FnOnce() -> String,
) -> Result<(), Finding> {
    match allocator.check().as_slice() {
        [] => Ok(()),
        [first, rest @ ..] => Err(Finding::new(format!(
            "the allocator is wrong after {}: {first}, and {} more",
            after(),
            rest.len()
        ))),
    }
}

/// Several CPUs allocate and free; all that was allocated is freed at the end.
fn allocate(
    dice: &mut Dice<'_>,
    allocator: &Allocator<MemoryMap>,
    profile: &Profile,
    lived: &mut Lived,
) -> Result<(), Finding> {
    let free = |allocator: &Allocator<MemoryMap>| {
        let nodes = allocator.pages().geometry().nodes();
        let zones = nodes
            .iter()
            .flat_map(|node| (0..node.zones.len()).map(|zone| (node.id, ZoneIndex(zone as u8))));
        zones
            .map(|(node, zone)| allocator.zone_counts(node, zone).free)
            .sum::<u64>()
    };
    let before = free(allocator);
    let seeds: Vec<u64> = (0..dice.between(1..=3))
        .map(|_| dice.below(u64::MAX))
        .collect();
    let counts: Vec<Result<u64, Finding>> = std::thread::scope(|scope| {
        let cpus: Vec<_> = seeds
            .into_iter()
            .map(|seed| scope.spawn(move || cpu(Dice::seeded(seed), allocator, profile)))
            .collect();
        cpus.into_iter()
            .map(|cpu| {
                cpu.join()
                    .unwrap_or_else(|_| Err(Finding::new("a CPU panicked".into())))
            })
            .collect()
    });
    for count in counts {
        lived.allocations += count?;
    }
    check_allocator(allocator, || "all was given back".into())?;
    match free(allocator) {
        after if after == before => Ok(()),
        after => Err(Finding::new(format!(
            "{before} pages were free before all was given back, {after} after"
        ))),
    }
}

fn cpu(
    mut dice: Dice<'_>,
    allocator: &Allocator<MemoryMap>,
    profile: &Profile,
) -> Result<u64, Finding> {
    let nodes: Vec<NodeId> = allocator
        .pages()
        .geometry()
        .nodes()
        .iter()
        .map(|node| node.id)
        .collect();
    let zones = profile.zones.len() as u64;
    let kinds = [
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
    ];
    let mut held: Vec<(Pfn, u8)> = Vec::new();
    let mut count = 0;
    for _ in 0..dice.below(2000) {
        if !dice.once_in(3) || held.is_empty() {
            let order = dice.below(11) as u8;
            let request = Request {
                order,
                node: dice.pick(&nodes),
                zone: ZoneIndex(dice.below(zones) as u8),
                migrate: dice.pick(&kinds),
            };
            // none left, or none of that kind: nothing to be given back
            if let Ok(pfn) = allocator.alloc_pages(request) {
                count += 1;
                held.push((pfn, order));
            }
        } else {
            let (pfn, order) = held.swap_remove(dice.below(held.len() as u64) as usize);
            give_back(allocator, pfn, order)?;
        }
    }
    for (pfn, order) in held {
        give_back(allocator, pfn, order)?;
    }
    Ok(count)
}

fn give_back(allocator: &Allocator<MemoryMap>, pfn: Pfn, order: u8) -> Result<(), Finding> {
    allocator.free_pages(pfn, order).map_err(|error| {
        Finding::new(format!(
            "{pfn} of order {order} could not be freed: {error}"
        ))
    })
}

/// Memory blocks come, go online and offline, and go.
fn plug(
    dice: &mut Dice<'_>,
    allocator: Allocator<MemoryMap>,
    lived: &mut Lived,
) -> Result<(), Finding> {
    let mut options = HotplugOptions::default();
    options.sections_per_block = dice.between(1..=2);
    options.memmap_on_memory = dice.once_in(4);
    options.movable_node = dice.bool();
    let mut machine = Hotplug::new(allocator, options);
    let nodes: Vec<NodeId> = machine
        .map()
        .geometry()
        .nodes()
        .iter()
        .map(|node| node.id)
        .collect();
    let top = machine.blocks().last().map_or(0, |(number, ..)| number) + 4;
    for _ in 0..dice.below(24) {
        let number = dice.below(top + 1);
        let pfns = machine.block_pfns(number);
        let more = dice.below(2);
        let (what, done) = match dice.below(4) {
            0 => {
                let end = machine.block_pfns(number + more).end();
                let node = dice.pick(&nodes);
                let added = machine.add(node, PfnRange::new(pfns.start(), end));
                ("adding", added.is_ok())
            }
            1 => {
                let to = [OnlineTo::Auto, OnlineTo::Kernel, OnlineTo::Movable];
                let online = machine.online(number, dice.pick(&to));
                ("onlining", online.is_ok())
            }
            2 => ("offlining", machine.offline(number).is_ok()),
            _ => ("removing", machine.remove(pfns).is_ok()),
        };
        if done {
            lived.plugged += 1;
        } else {
            lived.refused += 1;
        }
        check_allocator(machine.allocator(), || {
            let went = if done { "done" } else { "refused" };
            format!("{what} memory block {number} ({pfns:?}, {went})")
        })?;
    }
    Ok(())
}
