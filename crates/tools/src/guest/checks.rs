//! What must hold inside the machine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;

use deferred_init::engine::{Engine, Outcome, Placement, Report, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::schedule::{self, Deque, Scheduler};
use deferred_init::trace::{Timeline, TraceSummary, check};
use deferred_init::workers::{ChooseError, Crew, Pinning, WorkerChoice, choose};
use deferred_init::{CpuSet, Topology};
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::writers::{self, PageWriter};
use memmap_core::{
    BackingKind, BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile,
};
use tracing_subscriber::layer::SubscriberExt;

use super::{Shape, TRACE, say};

type Verdict = Result<String, String>;

/// Runs all checks as the machine's first program, and switches it off.
pub fn inside() -> ! {
    for (kind, on) in [("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/tmp")] {
        if let Err(error) = sys::mount(kind, Path::new(on)) {
            say(format_args!("FAILED {error}"));
        }
    }
    // a check that panics is one that does not hold
    std::panic::set_hook(Box::new(|panic| say(format_args!("panic: {panic}"))));
    match machine() {
        Ok(machine) => {
            for (name, check) in CHECKS {
                match catch_unwind(AssertUnwindSafe(|| check(&machine))) {
                    Ok(Ok(figure)) => say(format_args!("ok {name}: {figure}")),
                    Ok(Err(why)) => say(format_args!("FAILED {name}: {why}")),
                    Err(_) => say(format_args!("FAILED {name}: it panicked")),
                }
            }
        }
        Err(why) => say(format_args!("FAILED the machine: {why}")),
    }
    say("end");
    loop {
        if let Err(error) = sys::power_off() {
            say(format_args!("{error}"));
        }
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

struct Machine {
    shape: Shape,
    topology: Topology,
    geometry: Geometry,
    /// What one thread writes.
    wanted: u64,
}

type Check = fn(&Machine) -> Verdict;

const CHECKS: &[(&str, Check)] = &[
    ("topology by sysfs", by_sysfs),
    #[cfg(feature = "hwloc")]
    ("topology by hwloc", by_hwloc),
    ("workers are on their CPUs", pinned),
    ("bound to the own node", bound),
    ("placed by first touch", first_touch),
    ("remote placement is seen as remote", remote),
    ("all schedulers leave the same bytes", schedulers),
    ("all writers leave the same bytes without AVX", without_avx),
    ("a run is traced", traced),
    ("a restricted mask is respected", restricted),
];

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn machine() -> Result<Machine, String> {
    let shape = std::fs::read_to_string("/shape").map_err(text)?;
    let shape = Shape::from_text(&shape).ok_or("its shape cannot be read")?;
    let topology = Topology::host().map_err(text)?;
    // a gibibyte a node with a gap behind the second: 16 MiB of struct pages each
    let mut memory = Memblock::new(Behaviour::V6_12);
    for node in 0..shape.nodes.len() as u64 {
        let gap = if node > 1 { 2 << 30 } else { 0 };
        let range = PhysRange::from_size(PhysAddr::new((node << 30) + gap), 1 << 30);
        memory
            .add_node(range, NodeId::new(node as u16), MemblockFlags::empty())
            .map_err(text)?;
    }
    let profile = Profile::amd64(KernelVersion::V6_12);
    let geometry = Geometry::new(&profile, &memory, &BootOptions::default()).map_err(text)?;
    let mut machine = Machine {
        shape,
        topology,
        geometry,
        wanted: 0,
    };
    let mut map = machine.map()?;
    let writer = writer("memset")?;
    for section in machine.geometry.sections().iter() {
        let mut claim = map
            .claim(section)
            .ok_or("a fresh section cannot be claimed")?;
        claim.write(writer);
        claim.publish();
    }
    machine.wanted = sum(&mut map)?;
    Ok(machine)
}

fn writer(name: &str) -> Result<&'static dyn PageWriter, String> {
    writers::by_name(name).ok_or_else(|| format!("no writer is named {name}"))
}

/// A number for all bytes of a map.
fn sum(map: &mut MemoryMap) -> Result<u64, String> {
    let sections: Vec<_> = map.geometry().sections().iter().collect();
    let mut sum = 0_u64;
    for section in sections {
        let words = map
            .section_words(section)
            .ok_or_else(|| format!("section {section} is not ready"))?;
        for word in words {
            sum = (sum ^ word)
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(17);
        }
    }
    Ok(sum)
}

impl Machine {
    fn map(&self) -> Result<MemoryMap, String> {
        let mut options = BackingOptions::default();
        options.kind = BackingKind::Mapped;
        MemoryMap::new(self.geometry.clone(), options).map_err(text)
    }

    /// Runs an engine over a fresh map, checks that it is complete and right.
    fn run(&self, options: &RunOptions<'_>) -> Result<Report, String> {
        let engine = Engine::new(self.topology.clone());
        let plan = Plan::new(&self.geometry).map_err(text)?;
        let mut map = self.map()?;
        let report = engine.run(&map, &plan, options).map_err(text)?;
        if report.outcome != Outcome::Complete || report.left() > 0 {
            return Err(format!("{report}"));
        }
        match sum(&mut map)? == self.wanted {
            true => Ok(report),
            false => Err(format!("other bytes than one thread leaves\n{report}")),
        }
    }

    fn placed(&self, placement: Placement) -> Result<Report, String> {
        self.run(&RunOptions::new(writer("template")?).placement(placement))
    }
}

/// Holds what a topology says against what the machine was given.
fn compare(machine: &Machine, topology: &Topology) -> Verdict {
    let ids: Vec<u16> = topology.nodes.iter().map(|node| node.id.get()).collect();
    let wanted: Vec<u16> = (0..machine.shape.nodes.len() as u16).collect();
    if ids != wanted {
        return Err(format!("nodes {ids:?} instead of {wanted:?}"));
    }
    for (from, (node, given)) in topology.nodes.iter().zip(&machine.shape.nodes).enumerate() {
        let cpus: CpuSet = given.cpus.clone().collect();
        if node.cpus != cpus {
            return Err(format!(
                "node {} has CPUs {} instead of {cpus}",
                node.id, node.cpus
            ));
        }
        // the kernel keeps some for itself before it counts
        let (least, most) = (given.mebibytes * 7 / 10, given.mebibytes);
        if !(least..=most).contains(&(node.memory >> 20)) {
            return Err(format!(
                "node {} has {} of {most} MiB",
                node.id,
                node.memory >> 20
            ));
        }
        for (to, distance) in topology.distances[from].iter().enumerate() {
            if *distance != Shape::distance(from, to) {
                return Err(format!("distance {from} to {to} is {distance}"));
            }
        }
    }
    if !topology.is_host {
        return Err("it does not count as this machine".to_owned());
    }
    Ok(format!("{} nodes, {} CPUs", ids.len(), topology.cpus.len()))
}

fn by_sysfs(machine: &Machine) -> Verdict {
    compare(machine, &machine.topology)
}

#[cfg(feature = "hwloc")]
fn by_hwloc(machine: &Machine) -> Verdict {
    let topology = deferred_init::topology::hwloc::read().map_err(text)?;
    compare(machine, &topology)
}

fn pinned(machine: &Machine) -> Verdict {
    let seats = choose(&machine.topology, &WorkerChoice::default()).map_err(text)?;
    if seats.len() != machine.topology.cpus.len() {
        return Err(format!("{} workers", seats.len()));
    }
    let crew = Crew::new(&seats, Pinning::Required).map_err(text)?;
    let wrong = Mutex::new(Vec::new());
    crew.each(&|worker| {
        let seat = seats[worker];
        let (cpu, node) = sys::current_cpu().unwrap_or((u32::MAX, u32::MAX));
        if cpu != seat.cpu || node != u32::from(seat.node.get()) {
            let mut wrong = wrong
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            wrong.push(format!("{seat} on CPU {cpu} of node {node}"));
        }
    });
    let wrong = wrong.into_inner().unwrap_or_default();
    match wrong.is_empty() {
        true => Ok(format!("{} workers", seats.len())),
        false => Err(wrong.join(", ")),
    }
}

fn bound(machine: &Machine) -> Verdict {
    let report = machine.placed(Placement::Bind)?;
    match report.placement.own_share() {
        Some(1.0) => Ok("placed 100.0 % on its node".to_owned()),
        _ => Err(report.placement.to_string()),
    }
}

/// Struct pages lie on the node of the workers that serve theirs.
fn first_touch(machine: &Machine) -> Verdict {
    let report = machine.placed(Placement::FirstTouch)?;
    let mut helped = 0;
    for (node, placed) in report.nodes.iter().zip(&report.placement.nodes) {
        if placed.node != node.node || placed.on != [(node.served_by, placed.sampled())] {
            return Err(report.placement.to_string());
        }
        helped += usize::from(node.served_by != node.node);
    }
    let without: usize = machine
        .shape
        .nodes
        .iter()
        .filter(|n| n.cpus.is_empty())
        .count();
    match helped == without && report.placement.nodes.len() == machine.shape.nodes.len() {
        true => Ok(format!(
            "100.0 % on the node of its workers, {helped} node without CPUs served by the nearest"
        )),
        false => Err(report.to_string()),
    }
}

fn remote(machine: &Machine) -> Verdict {
    if machine.shape.nodes.len() < 2 {
        return match machine.placed(Placement::Remote) {
            Ok(_) => Err("one node has a remote one".to_owned()),
            Err(why) => Ok(why),
        };
    }
    let report = machine.placed(Placement::Remote)?;
    match report.placement.own_share() {
        Some(0.0) => Ok("placed 0.0 % on its node".to_owned()),
        _ => Err(report.placement.to_string()),
    }
}

fn schedulers(machine: &Machine) -> Verdict {
    let mut all = schedule::all().to_vec();
    all.push(&Deque::ACROSS_NODES as &dyn Scheduler);
    let mut names = Vec::new();
    for scheduler in all {
        for threads in [1, machine.topology.cpus.len()] {
            let options = RunOptions::new(writer("template")?)
                .scheduler(scheduler)
                .threads(threads);
            let report = machine.run(&options)?;
            if threads > 1
                && scheduler.name() != "deque-across"
                && report.tally.cross_node_steals > 0
            {
                return Err(format!("{} stole across nodes", scheduler.name()));
            }
        }
        names.push(scheduler.name());
    }
    Ok(names.join(", "))
}

fn without_avx(machine: &Machine) -> Verdict {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        return Err("this processor has AVX".to_owned());
    }
    let mut names = Vec::new();
    for writer in writers::all() {
        let report = machine.run(&RunOptions::new(*writer))?;
        names.push(report.writer);
    }
    Ok(names.join(", "))
}

/// A run on all nodes leaves a timeline with a track a worker, grouped by node; it is told to who
/// booted us, line by line.
fn traced(machine: &Machine) -> Verdict {
    let timeline = Timeline::new();
    let layers = tracing_subscriber::registry().with(timeline.clone());
    let report = tracing::subscriber::with_default(layers, || machine.placed(Placement::Bind))?;
    let mut json = Vec::new();
    timeline.write(&mut json).map_err(text)?;
    let found = check(&json).map_err(text)?;
    let homes: std::collections::BTreeSet<_> = report
        .workers
        .iter()
        .map(|worker| worker.seat.node)
        .collect();
    let wanted = TraceSummary {
        runs: 1,
        nodes: machine.shape.nodes.len(),
        sections: report.total().sections as usize,
        workers: report.workers.len(),
        groups: homes.len(),
    };
    if found != wanted {
        return Err(format!("{found:?} instead of {wanted:?}"));
    }
    for line in String::from_utf8_lossy(&json).lines() {
        say(format_args!("{TRACE} {line}"));
    }
    Ok(format!(
        "{} sections on tracks of {} workers in {} groups",
        found.sections, found.workers, found.groups
    ))
}

/// A thread that may run on some CPUs only gets workers on those only.
fn restricted(machine: &Machine) -> Verdict {
    let all: Vec<u32> = machine.topology.cpus.iter().map(|cpu| cpu.id).collect();
    let mask: CpuSet = all.iter().skip(1).copied().collect();
    if mask.is_empty() {
        return Ok("one CPU: nothing to restrict".to_owned());
    }
    let words = mask.words().to_vec();
    let body = move || -> Verdict {
        sys::set_affinity(&words).map_err(text)?;
        let topology = Topology::host().map_err(text)?;
        if topology.allowed_cpus != mask {
            return Err(format!("allowed are {}", topology.allowed_cpus));
        }
        let seats = choose(&topology, &WorkerChoice::default()).map_err(text)?;
        let cpus: CpuSet = seats.iter().map(|seat| seat.cpu).collect();
        if cpus != mask {
            return Err(format!("workers on {cpus}"));
        }
        let more = choose(&topology, &WorkerChoice::threads(mask.len() + 1));
        match more {
            Err(ChooseError::TooManyThreads { .. }) => {
                Ok(format!("workers on {cpus} of {}", topology.cpus.len()))
            }
            other => Err(format!("one worker more: {other:?}")),
        }
    };
    sys::spawn("restricted", body)
        .map_err(text)?
        .join()
        .map_err(|_| "it panicked".to_owned())?
}
