//! A small simulator of machines: what somebody builds on these crates.
//!
//! Several machines boot at once, each on a thread of its own, from boot logs or from made-up
//! layouts, with what a kernel defers left for later. Then each lives through steps of a workload:
//! simulated CPUs allocate and free pages in turn, memory runs short and grows lazily, memory blocks
//! and devices come and go, in the end all that was deferred is initialised. After every step the
//! free lists and the books are checked against each other. A line of a timeline says what happened.
//!
//! Everything is decided by the seed: the same seed gives the same timeline and the same struct
//! pages, whatever the host does meanwhile.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::builder::RangedU64ValueParser;
use deferred_init::Topology;
use deferred_init::engine::{Engine, Outcome, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::workers::Pinning;
use examples::front::{self, Failure, unsaid, unusable};
use fastrand::Rng;
use machine::size::ByteSize;
use machine::{MachineLayout, synthetic};
use memblock::{NodeId, Pfn, PfnRange};
use memmap_core::buddy::{
    AllocError, Allocator, GrowDeferred, HandOver, ListHeads, MigrateType, NodeDistances, Request,
};
use memmap_core::hotplug::{BlockError, Hotplug, HotplugOptions, OnlineTo};
use memmap_core::writers::Stream;
use memmap_core::{BackingOptions, Geometry, MemoryMap, Phase, SectionState, ZoneIndex, ZoneKind};
use zone_device::{BindError, DevPagemap, DeviceId, Devices, MemoryType, Way};

type Error = Box<dyn std::error::Error + Send + Sync>;

fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

/// Simulates machines.
#[derive(Debug, Parser)]
#[command(name = "kernel_sim")]
struct Args {
    /// Boot logs, one machine each; without any, made-up machines.
    logs: Vec<PathBuf>,
    /// How many made-up machines.
    #[arg(long, value_parser = at_least_one(), default_value_t = 3)]
    machines: usize,
    /// Steps of each machine's life.
    #[arg(long, default_value_t = 40)]
    steps: u32,
    /// Simulated CPUs of each machine.
    #[arg(long, value_parser = at_least_one(), default_value_t = 4)]
    cpus: usize,
    /// Decides everything.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    front::end("kernel_sim", run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let layouts = layouts(args).map_err(unusable)?;
    // machines never meet, so each may have a thread of its own
    let lives: Vec<Result<String, Error>> = std::thread::scope(|scope| {
        let threads: Vec<_> = layouts
            .iter()
            .enumerate()
            .map(|(index, layout)| scope.spawn(move || life(args, index, layout)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(life) => life,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    });
    let mut out = std::io::stdout().lock();
    for life in lives {
        std::io::Write::write_all(&mut out, life.map_err(unusable)?.as_bytes()).map_err(unsaid)?;
    }
    Ok(())
}

fn layouts(args: &Args) -> Result<Vec<MachineLayout>, Error> {
    if args.logs.is_empty() {
        let even = |index| {
            let mib = 1024 * (2 + index as u64);
            synthetic::even(ByteSize(mib << 20), 1 + index as u64 % 4)
        };
        return Ok((0..args.machines).map(even).collect::<Result<_, _>>()?);
    }
    let open = |path| MachineLayout::open(path);
    Ok(args.logs.iter().map(open).collect::<Result<_, _>>()?)
}

/// A whole life of a machine; its timeline.
fn life(args: &Args, index: usize, layout: &MachineLayout) -> Result<String, Error> {
    let mut sim = Sim::boot(layout, args.cpus)?;
    let mut dice = Rng::with_seed(args.seed.wrapping_mul(1 << 20).wrapping_add(index as u64));
    let mut timeline = format!(
        "machine {index}: {}; {} {}\n  boot      {}\n",
        layout.file,
        sim.plug.map().profile().arch,
        sim.plug.map().profile().version,
        sim.state()
    );
    for step in 1..=args.steps {
        let what = sim.step(&mut dice)?;
        sim.check()
            .map_err(|wrong| format!("machine {index}, step {step}, {what}: {wrong}"))?;
        let _ = writeln!(timeline, "  step {step:<4} {what}; {}", sim.state());
    }
    let what = sim.finish()?;
    sim.check()
        .map_err(|wrong| format!("machine {index}, at the end: {wrong}"))?;
    let _ = writeln!(timeline, "  finish    {what}; {}", sim.state());
    let _ = writeln!(timeline, "  digest    {:016x}", sim.digest());
    Ok(timeline)
}

/// What a CPU holds: first pages and orders.
type Held = Vec<(Pfn, u8)>;

/// One machine and its books.
struct Sim {
    plug: Hotplug,
    devices: Devices,
    late: Plan,
    cpus: Vec<Held>,
    bound: Vec<(DeviceId, PfnRange)>,
    /// Blocks that were added.
    added: Vec<u64>,
    nodes: Vec<NodeId>,
    /// Frames above everything so far.
    above: Pfn,
}

impl Sim {
    /// Boots with what the kernel defers left for later.
    fn boot(layout: &MachineLayout, cpus: usize) -> Result<Self, Error> {
        let geometry = Geometry::new(
            &layout.profile(),
            &layout.memblock()?,
            &layout.boot_options(),
        )?;
        let plan = Plan::new(&geometry)?;
        let map = MemoryMap::new(geometry.clone(), BackingOptions::default())?;
        let distances = NodeDistances::default();
        let mut allocator = Allocator::new(map, &geometry, distances, ListHeads::default());
        initialise(&allocator, &plan.part(&geometry, Phase::Early))?;
        allocator.set_growth(Some(GrowDeferred::boxed(&Stream::DETECT)));
        let nodes = geometry.nodes().iter().filter(|node| node.has_memory());
        let section = geometry.sections().pages_per_section();
        let last = geometry.sections().runs().last();
        let end = last.map_or(0, |run| (run.first.0 + run.count) * section);
        Ok(Self {
            nodes: nodes.map(|node| node.id).collect(),
            above: Pfn::new(end),
            late: plan.part(&geometry, Phase::Deferred),
            plug: Hotplug::new(allocator, HotplugOptions::default()),
            devices: Devices::new(),
            cpus: vec![Held::new(); cpus.max(1)],
            bound: Vec::new(),
            added: Vec::new(),
        })
    }

    /// Something happens; what it was.
    fn step(&mut self, dice: &mut Rng) -> Result<String, Error> {
        match dice.u64(..10) {
            0 => self.plug_memory(dice),
            1 => self.unplug_memory(dice),
            2 => self.bind(dice),
            3 => self.unbind(dice),
            4 => self.exit(dice),
            _ => self.work(dice),
        }
    }

    /// Every CPU takes some blocks and gives some back, in turn.
    fn work(&mut self, dice: &mut Rng) -> Result<String, Error> {
        let (mut taken, mut freed, mut refused) = (0_u64, 0_u64, 0);
        let deferred = self.deferred();
        for _ in 0..64 {
            for cpu in 0..self.cpus.len() {
                if dice.u64(..3) > 0 {
                    let order = dice.u64(..11) as u8;
                    let request = Request {
                        order,
                        node: self.nodes[cpu % self.nodes.len()],
                        zone: ZoneIndex(u8::MAX),
                        migrate: if dice.u64(..4) == 0 {
                            MigrateType::Unmovable
                        } else {
                            MigrateType::Movable
                        },
                    };
                    match self.plug.allocator().alloc_pages(request) {
                        Ok(pfn) => {
                            self.cpus[cpu].push((pfn, order));
                            taken += 1 << order;
                        }
                        Err(AllocError::NoMemory { .. } | AllocError::OrderTooLarge { .. }) => {
                            refused += 1;
                        }
                        Err(error) => return Err(error.into()),
                    }
                } else if let Some((pfn, order)) = self.drop_one(cpu, dice) {
                    self.plug.allocator().free_pages(pfn, order)?;
                    freed += 1 << order;
                }
            }
        }
        let grown = deferred - self.deferred();
        Ok(format!(
            "{} CPUs take {taken} pages and free {freed}, {refused} refused, {grown} sections grown",
            self.cpus.len()
        ))
    }

    fn drop_one(&mut self, cpu: usize, dice: &mut Rng) -> Option<(Pfn, u8)> {
        let held = &mut self.cpus[cpu];
        let count = held.len() as u64;
        (count > 0).then(|| held.swap_remove(dice.u64(..count) as usize))
    }

    /// A CPU's work ends.
    fn exit(&mut self, dice: &mut Rng) -> Result<String, Error> {
        let cpu = dice.u64(..self.cpus.len() as u64) as usize;
        let held = std::mem::take(&mut self.cpus[cpu]);
        let pages: u64 = held.iter().map(|(_, order)| 1 << order).sum();
        for (pfn, order) in held {
            self.plug.allocator().free_pages(pfn, order)?;
        }
        Ok(format!("CPU {cpu} frees all of its {pages} pages"))
    }

    /// A range of whole sections where nothing ever was.
    fn fresh(&mut self, sections: u64) -> PfnRange {
        let pages = self.plug.block_pages();
        let start = self.above.align_up(pages);
        let end = start.saturating_add(sections * pages);
        self.above = end;
        PfnRange::new(start, end)
    }

    fn plug_memory(&mut self, dice: &mut Rng) -> Result<String, Error> {
        let node = self.nodes[dice.u64(..self.nodes.len() as u64) as usize];
        let pfns = self.fresh(1);
        self.plug.add(node, pfns)?;
        let number = pfns.start().get() / self.plug.block_pages();
        let zone = self.plug.online(number, OnlineTo::Movable)?;
        self.added.push(number);
        let kind = self.plug.map().profile().zones.kind(zone);
        let name = kind.map_or("?", ZoneKind::name);
        Ok(format!(
            "memory block {number} comes to node {node}, zone {name}"
        ))
    }

    fn unplug_memory(&mut self, dice: &mut Rng) -> Result<String, Error> {
        if self.added.is_empty() {
            return Ok("no memory block to take away".into());
        }
        let at = dice.u64(..self.added.len() as u64) as usize;
        let number = self.added[at];
        match self.plug.offline(number) {
            Ok(()) => {
                self.plug.remove(self.plug.block_pfns(number))?;
                self.added.swap_remove(at);
                Ok(format!("memory block {number} goes"))
            }
            Err(error @ BlockError::Busy { .. }) => Ok(format!("{error}")),
            Err(error) => Err(error.into()),
        }
    }

    fn bind(&mut self, dice: &mut Rng) -> Result<String, Error> {
        let profile = self.plug.map().profile().clone();
        if profile.zones.index_of(ZoneKind::Device).is_none() {
            return Ok("a kernel without a zone for devices binds none".into());
        }
        let pfns = self.fresh(1 + dice.u64(..3));
        let node = self.nodes[dice.u64(..self.nodes.len() as u64) as usize];
        let shift = [0, profile.pageblock_order][dice.u64(..2) as usize];
        let pagemap = DevPagemap::new(MemoryType::Generic, 0xffff_8881_0000_0000)
            .with_range(pfns.phys(profile.page_shift))
            .with_vmemmap_shift(shift);
        let writer = Way::Stream.writer();
        let devices = &mut self.devices;
        let bound: Result<DeviceId, BindError> = self
            .plug
            .change_map(|map| devices.bind(map, pagemap, node, writer, None));
        let id = bound?;
        self.bound.push((id, pfns));
        Ok(format!(
            "a device of {} pages comes to node {node}, compounds of order {shift}",
            pfns.len()
        ))
    }

    fn unbind(&mut self, dice: &mut Rng) -> Result<String, Error> {
        if self.bound.is_empty() {
            return Ok("no device to unbind".into());
        }
        let at = dice.u64(..self.bound.len() as u64) as usize;
        let (id, pfns) = self.bound.swap_remove(at);
        let devices = &mut self.devices;
        let gone = self.plug.change_map(|map| devices.unbind(map, id))?;
        gone.ok_or("a device that was bound is not there")?;
        Ok(format!("the device at {pfns} goes"))
    }

    /// Initialises what was deferred and nobody needed.
    fn finish(&mut self) -> Result<String, Error> {
        let before = self.deferred();
        initialise(self.plug.allocator(), &self.late)?;
        Ok(format!("{before} sections are initialised at last"))
    }

    /// Sections that wait.
    fn deferred(&self) -> u64 {
        let map = self.plug.map();
        let pending = |section| map.section_state(section) == SectionState::Pending;
        let sections = map.geometry().sections().iter();
        sections.filter(|section| pending(*section)).count() as u64
    }

    /// What must hold after every step.
    fn check(&self) -> Result<(), Error> {
        if let Some(violation) = self.plug.allocator().check().first() {
            return Err(violation.to_string().into());
        }
        // books and lists agree: what is managed is free or held
        let map = self.plug.map();
        let (mut managed, mut free) = (0, 0);
        for node in map.geometry().nodes() {
            for zone in &node.zones {
                let counts = self.plug.allocator().zone_counts(node.id, zone.index);
                managed += counts.managed;
                free += counts.free;
            }
        }
        let held: u64 = self.held().map(|(_, order)| 1 << order).sum();
        if managed != free + held {
            return Err(format!("{managed} pages are managed, {free} free, {held} held").into());
        }
        // nobody's pages are anybody else's
        let mut owners = BTreeMap::new();
        for (pfn, order) in self.held() {
            owners.insert(pfn, pfn.saturating_add(1 << order));
        }
        let mut end = Pfn::ZERO;
        for (&start, &stop) in &owners {
            if start < end {
                return Err(format!("{start} belongs to two").into());
            }
            end = stop;
        }
        // a device's pages are what its description says, and no allocator's
        for &(id, pfns) in &self.bound {
            let page = map.read(pfns.start())?;
            let known = self.devices.device_at(pfns.start()) == Some(id);
            if !known || page.next() != 0xffff_8881_0000_0000 {
                return Err(format!("the device at {pfns} lost its struct pages").into());
            }
        }
        Ok(())
    }

    fn held(&self) -> impl Iterator<Item = (Pfn, u8)> + '_ {
        self.cpus.iter().flatten().copied()
    }

    fn state(&self) -> String {
        let geometry = self.plug.map().geometry();
        let zones = geometry.nodes().iter().flat_map(|node| {
            let zones = node.zones.iter();
            zones.map(move |zone| (node.id, zone.index))
        });
        let free: u64 = zones
            .map(|(node, zone)| self.plug.allocator().zone_counts(node, zone).free)
            .sum();
        format!(
            "{free} pages free, {} sections deferred, {} devices",
            self.deferred(),
            self.bound.len()
        )
    }

    /// A number of every word of every struct page.
    fn digest(&mut self) -> u64 {
        self.plug.change_map(|map| {
            let boot = map.geometry().sections().iter();
            let mut sections: Vec<_> = boot.chain(map.added_sections()).collect();
            sections.sort_unstable();
            let mut digest = 0xcbf2_9ce4_8422_2325_u64;
            for section in sections {
                for word in map.section_words(section).unwrap_or_default() {
                    digest = (digest ^ word).wrapping_mul(0x0100_0000_01b3);
                }
            }
            digest
        })
    }
}

/// Initialises and hands over what is pending of `plan`, by two threads.
fn initialise(allocator: &Allocator<MemoryMap>, plan: &Plan) -> Result<(), Error> {
    let engine = Engine::new(Topology::host()?);
    let mut options = RunOptions::new(&Stream::DETECT).threads(2).hand_over();
    options.workers.oversubscribe = true;
    options.workers.pinning = Pinning::Off;
    let mut report = engine.run(allocator.pages(), plan, &options)?;
    if report.outcome != Outcome::Complete {
        return Err(format!("initialisation ended early: {}", report.outcome).into());
    }
    report.join(allocator, &HandOver::new(allocator.pages().geometry()));
    Ok(())
}
