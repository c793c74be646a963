//! A design laid out for a host: every run with its round and place.

use std::collections::HashSet;

use deferred_init::Topology;
use deferred_init::schedule::Scheduler;
use deferred_init::workers::{ChooseError, WorkerChoice, choose};
use memblock::NodeId;
use memmap_core::writers::PageWriter;

use super::{Combine, Design, Pages, Place, Policy, Senseless, Threads};
use crate::judge::orders;
use crate::record::{Key, Role, Settings};

/// The name of the streaming fill among page writers.
pub const LIMIT: &str = "limit";

/// Why a design cannot be laid out on a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CellsError {
    /// Some settings ask for workers that cannot be had.
    #[error("{settings}: {source}")]
    Workers {
        /// The settings.
        settings: Box<Settings>,
        /// Why not.
        source: Box<ChooseError>,
    },
    /// A range of numbers of threads ends beyond those that can be had.
    #[error("threads {threads}: {source}")]
    Range {
        /// The range.
        threads: Threads,
        /// Why not.
        source: Box<ChooseError>,
    },
    /// A policy is combined with what means nothing to it.
    #[error(transparent)]
    Senseless(#[from] Senseless),
    /// There is nothing to do.
    #[error("a study needs at least one value of every factor")]
    Empty,
}

/// One run of the design, without round and place.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// What it is there for.
    pub role: Role,
    /// How it goes, as records have it.
    pub settings: Settings,
    /// The scheduler of the settings.
    pub scheduler: &'static dyn Scheduler,
    /// The policy of the settings.
    pub policy: Policy,
    /// The writer of the settings; `None` for the limit.
    pub writer: Option<&'static dyn PageWriter>,
}

impl Contestant {
    /// The workers that it asks for.
    pub fn workers(&self) -> WorkerChoice {
        worker_choice(self.settings.threads, &self.settings.nodes)
    }
}

/// So many threads on these nodes; on all where none is named.
fn worker_choice(threads: u64, nodes: &[u64]) -> WorkerChoice {
    let node = |node: &u64| NodeId::new(u16::try_from(*node).unwrap_or(u16::MAX));
    WorkerChoice {
        threads: Some(usize::try_from(threads).unwrap_or(usize::MAX)),
        nodes: match nodes.is_empty() {
            true => None,
            false => Some(nodes.iter().map(node).collect()),
        },
        ..WorkerChoice::default()
    }
}

/// Runs that share memory, or boots on the same kind of it.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// Which machine, by its place among those of the design.
    pub machine: usize,
    /// Memory of that machine, bytes.
    pub memory: u64,
    /// Where its struct pages lie.
    pub place: Place,
    /// Pages behind them.
    pub pages: Pages,
    /// Whether its runs are boots, each of which makes memory of its own.
    pub boots: bool,
    /// Nodes whose workers touch it first; none for all.
    pub nodes: Vec<u64>,
    /// What is run on it.
    pub contestants: Vec<Contestant>,
}

/// A run with its round and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What tells it apart.
    pub key: Key,
    /// Its stretch, by place.
    pub stretch: usize,
    /// Its contestant there, by place.
    pub contestant: usize,
}

/// All runs of a design on a host.
#[derive(Clone, Debug)]
pub struct Runs {
    seed: u64,
    /// Stretches, in the order of the design.
    pub stretches: Vec<Stretch>,
}

impl Design {
    /// Lays the design out for a host, on which `machines` (bytes of memory of each) are modelled.
    ///
    /// `allow` changes the wishes for workers before they are looked at, such as to share CPUs.
    ///
    /// # Errors
    /// [`CellsError`].
    pub fn runs(
        &self,
        topology: &Topology,
        machines: &[u64],
        allow: impl Fn(WorkerChoice) -> WorkerChoice,
    ) -> Result<Runs, CellsError> {
        if let Some(senseless) = self.senseless().into_iter().next() {
            return Err(senseless.into());
        }
        let mut layout = Laying {
            design: self,
            topology,
            machines,
            stretches: Vec::new(),
            seen: HashSet::new(),
        };
        layout.ranges(&allow)?;
        layout.cells();
        if self.matrix {
            layout.matrix();
        }
        layout.references();
        let runs = Runs {
            seed: self.seed,
            stretches: layout.stretches,
        };
        if runs.contestants().next().is_none() {
            return Err(CellsError::Empty);
        }
        for contestant in runs.contestants() {
            choose(topology, &allow(contestant.workers())).map_err(|source| {
                CellsError::Workers {
                    settings: Box::new(contestant.settings.clone()),
                    source: Box::new(source),
                }
            })?;
        }
        Ok(runs)
    }
}

impl Runs {
    /// Everything that is run once a round.
    pub fn contestants(&self) -> impl Iterator<Item = &Contestant> {
        self.stretches
            .iter()
            .flat_map(|stretch| &stretch.contestants)
    }

    /// Runs of a round.
    pub fn a_round(&self) -> usize {
        self.contestants().count()
    }

    /// The runs of a round, in their order; the same whenever it is asked.
    pub fn round(&self, round: u64) -> Vec<Planned> {
        let once = |salt: u64, count: usize| {
            let seed = self.seed ^ salt.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let seed = seed ^ round.wrapping_mul(0xd6e8_feb8_6659_fd93);
            orders(seed, count).next().unwrap_or_default()
        };
        let mut planned = Vec::new();
        for stretch in once(u64::MAX - 1, self.stretches.len()) {
            let of = &self.stretches[stretch];
            for contestant in once(stretch as u64, of.contestants.len()) {
                let run = &of.contestants[contestant];
                planned.push(Planned {
                    key: Key {
                        round,
                        place: planned.len() as u64,
                        role: run.role,
                        memory: of.memory,
                        settings: run.settings.clone(),
                    },
                    stretch,
                    contestant,
                });
            }
        }
        planned
    }
}

struct Laying<'d> {
    design: &'d Design,
    topology: &'d Topology,
    machines: &'d [u64],
    stretches: Vec<Stretch>,
    seen: HashSet<(usize, Role, Settings)>,
}

/// One value of each factor, by place; threads after the nodes that they sit on are known.
type Choice = [usize; 8];

impl Laying<'_> {
    /// Ends of ranges of threads can be had: looked at before a range becomes its numbers.
    fn ranges(&self, allow: impl Fn(WorkerChoice) -> WorkerChoice) -> Result<(), CellsError> {
        for set in self.sets() {
            for threads in &self.design.threads {
                let Threads::UpTo(last) = *threads else {
                    continue;
                };
                let wishes = worker_choice(last as u64, &set);
                choose(self.topology, &allow(wishes)).map_err(|source| CellsError::Range {
                    threads: *threads,
                    source: Box::new(source),
                })?;
            }
        }
        Ok(())
    }

    fn sets(&self) -> Vec<Vec<u64>> {
        let nodes = self.design.nodes.iter();
        nodes.flat_map(|nodes| nodes.sets(self.topology)).collect()
    }

    fn cells(&mut self) {
        let design = self.design;
        let sets = self.sets();
        for set in &sets {
            let cpus = self.cpus(set);
            let mut threads: Vec<usize> = Vec::new();
            for count in design
                .threads
                .iter()
                .flat_map(|threads| threads.counts(&cpus))
            {
                if !threads.contains(&count) {
                    threads.push(count);
                }
            }
            let first_set = sets.first() == Some(set);
            let sizes = [
                threads.len(),
                design.placements.len(),
                design.schedulers.len(),
                design.policies.len(),
                design.writers.len(),
                design.pages.len(),
                self.machines.len(),
                1,
            ];
            for choice in choices(sizes) {
                // records tell machines apart by their memory, so one of the same memory is the same
                let machine = choice[6];
                if self.machines[..machine].contains(&self.machines[machine]) {
                    continue;
                }
                let changed = choice.iter().filter(|at| **at > 0).count() + usize::from(!first_set);
                if design.combine == Combine::OneAtATime && changed > 1 {
                    continue;
                }
                self.cell(set, &threads, choice);
            }
        }
    }

    fn cell(&mut self, set: &[u64], threads: &[usize], choice: Choice) {
        let design = self.design;
        let [count, place, scheduler, policy, writer, pages, machine, _] = choice;
        let (place, pages) = (design.placements[place], design.pages[pages]);
        let writer = design.writers[writer];
        let (scheduler, policy) = (design.schedulers[scheduler], design.policies[policy]);
        let settings = Settings {
            threads: threads[count] as u64,
            nodes: set.to_vec(),
            placement: place.to_string(),
            scheduler: scheduler.name().to_owned(),
            policy: policy.name().to_owned(),
            writer: writer.name().to_owned(),
            pages: pages.name().to_owned(),
        };
        if policy != Policy::Eager {
            self.boot(machine, place, pages, settings, (scheduler, policy, writer));
            return;
        }
        let touched_by = match place {
            Place::FIRST_TOUCH => set.to_vec(),
            _ => Vec::new(),
        };
        let cell = Contestant {
            role: Role::Cell,
            settings,
            scheduler,
            policy,
            writer: Some(writer),
        };
        self.add(
            machine,
            place,
            pages,
            &touched_by,
            self.limit(&cell, Role::Limit),
        );
        self.add(machine, place, pages, &touched_by, cell);
    }

    /// A boot by a policy, and one by the eager policy beside it, which is the boot CPU's alone.
    fn boot(
        &mut self,
        machine: usize,
        place: Place,
        pages: Pages,
        settings: Settings,
        (scheduler, policy, writer): (&'static dyn Scheduler, Policy, &'static dyn PageWriter),
    ) {
        let boot = Contestant {
            role: Role::Boot,
            settings,
            scheduler,
            policy,
            writer: Some(writer),
        };
        let mut eager = boot.clone();
        eager.role = Role::BootReference;
        eager.policy = Policy::Eager;
        eager.settings.policy = Policy::Eager.name().to_owned();
        eager.settings.threads = 1;
        if let Some(&scheduler) = self.design.schedulers.first() {
            eager.scheduler = scheduler;
            eager.settings.scheduler = scheduler.name().to_owned();
        }
        self.add(machine, place, pages, &[], eager);
        self.add(machine, place, pages, &[], boot);
    }

    /// Every node's threads on every node's memory, with the first writer.
    fn matrix(&mut self) {
        let design = self.design;
        let (Some(&pages), Some(&writer), Some(&scheduler)) = (
            design.pages.first(),
            design.writers.first(),
            design.schedulers.first(),
        ) else {
            return;
        };
        let usable = |node: u32| self.topology.allowed_nodes.contains(node);
        let memory: Vec<NodeId> = self
            .topology
            .nodes
            .iter()
            .filter(|node| node.memory > 0 && usable(u32::from(node.id.get())))
            .map(|node| node.id)
            .collect();
        for node in self.topology.nodes.clone() {
            let set = vec![u64::from(node.id.get())];
            let threads: usize = self.cpus(&set).iter().sum();
            if threads == 0 {
                continue;
            }
            for here in &memory {
                let place = Place::Node(*here);
                let cell = Contestant {
                    role: Role::Matrix,
                    settings: Settings {
                        threads: threads as u64,
                        nodes: set.clone(),
                        placement: place.to_string(),
                        scheduler: scheduler.name().to_owned(),
                        policy: Policy::Eager.name().to_owned(),
                        writer: writer.name().to_owned(),
                        pages: pages.name().to_owned(),
                    },
                    scheduler,
                    policy: Policy::Eager,
                    writer: Some(writer),
                };
                self.add(0, place, pages, &[], self.limit(&cell, Role::MatrixLimit));
                self.add(0, place, pages, &[], cell);
            }
        }
    }

    /// In each stretch of shared memory the same run: the most threads that it has.
    fn references(&mut self) {
        let Some(writer) = self.design.reference else {
            return;
        };
        for stretch in self.stretches.iter_mut().filter(|stretch| !stretch.boots) {
            let most = stretch
                .contestants
                .iter()
                .max_by_key(|run| run.settings.threads);
            let Some(mut reference) = most.cloned() else {
                continue;
            };
            reference.role = Role::Reference;
            reference.writer = Some(writer);
            reference.settings.writer = writer.name().to_owned();
            stretch.contestants.push(reference);
        }
    }

    /// The limit that a cell is held against: as many threads there, the design's first scheduler.
    fn limit(&self, cell: &Contestant, role: Role) -> Contestant {
        let mut limit = cell.clone();
        limit.role = role;
        limit.writer = None;
        limit.settings.writer = LIMIT.to_owned();
        if let Some(&scheduler) = self.design.schedulers.first() {
            limit.scheduler = scheduler;
            limit.settings.scheduler = scheduler.name().to_owned();
        }
        limit
    }

    fn add(
        &mut self,
        machine: usize,
        place: Place,
        pages: Pages,
        nodes: &[u64],
        contestant: Contestant,
    ) {
        let seen = (machine, contestant.role, contestant.settings.clone());
        if !self.seen.insert(seen) {
            return;
        }
        let boots = contestant.role.is_boot();
        let at = self.stretches.iter().position(|stretch| {
            stretch.machine == machine
                && stretch.boots == boots
                && stretch.place == place
                && stretch.pages == pages
                && stretch.nodes == nodes
        });
        let at = at.unwrap_or_else(|| {
            self.stretches.push(Stretch {
                machine,
                memory: self.machines[machine],
                place,
                pages,
                boots,
                nodes: nodes.to_vec(),
                contestants: Vec::new(),
            });
            self.stretches.len() - 1
        });
        self.stretches[at].contestants.push(contestant);
    }

    /// How many CPUs we may use on each node of a set.
    fn cpus(&self, set: &[u64]) -> Vec<usize> {
        let allowed = &self.topology.allowed_cpus;
        self.topology
            .nodes
            .iter()
            .filter(|node| set.is_empty() || set.contains(&u64::from(node.id.get())))
            .map(|node| {
                node.cpus
                    .iter()
                    .filter(|cpu| allowed.contains(*cpu))
                    .count()
            })
            .collect()
    }
}

/// Every combination of places, the last factor fastest.
fn choices(sizes: [usize; 8]) -> impl Iterator<Item = Choice> {
    let count: usize = sizes.iter().product();
    (0..count).map(move |mut number| {
        let mut choice = [0; 8];
        for (at, size) in sizes.iter().enumerate().rev() {
            choice[at] = number % size;
            number /= size;
        }
        choice
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::Nodes;
    use deferred_init::topology::synthetic;
    use deferred_init::workers::Pinning;

    fn off(wishes: WorkerChoice) -> WorkerChoice {
        WorkerChoice {
            pinning: Pinning::Off,
            ..wishes
        }
    }

    fn runs(design: &Design, host: &str) -> Runs {
        let topology = synthetic::parse(host).unwrap();
        design.runs(&topology, &[1 << 30], off).unwrap()
    }

    fn cells(runs: &Runs) -> Vec<String> {
        runs.contestants()
            .filter(|run| run.role == Role::Cell)
            .map(|run| run.settings.to_string())
            .collect()
    }

    fn place(text: &str) -> Place {
        text.parse().unwrap()
    }

    #[test]
    fn a_full_design_combines_everything_and_one_at_a_time_changes_one() {
        let mut design = Design {
            placements: vec![place("bind"), place("interleave")],
            ..Design::default()
        };
        let full = runs(&design, "numa:2(memory=1G) core:2");
        assert_eq!(cells(&full).len(), 3 * 2 * 2, "threads 1, 2, 4");
        design.combine = Combine::OneAtATime;
        let single = cells(&runs(&design, "numa:2(memory=1G) core:2"));
        let expected = [
            "1 thread, bind, deque, eager, zero, system pages",
            "1 thread, bind, deque, eager, stream, system pages",
            "2 threads, bind, deque, eager, zero, system pages",
            "4 threads, bind, deque, eager, zero, system pages",
            "1 thread, interleave, deque, eager, zero, system pages",
        ];
        for cell in expected {
            assert!(single.contains(&cell.to_owned()), "{cell}: {single:?}");
        }
        assert_eq!(single.len(), expected.len());
    }

    #[test]
    fn each_stretch_has_a_limit_a_number_of_threads_and_one_reference() {
        let design = Design {
            pages: vec![Pages::System, Pages::Small],
            ..Design::default()
        };
        let runs = runs(&design, "core:4");
        assert_eq!(runs.stretches.len(), 2);
        for stretch in &runs.stretches {
            let count = |role| {
                stretch
                    .contestants
                    .iter()
                    .filter(|run| run.role == role)
                    .count()
            };
            assert_eq!(count(Role::Cell), 6, "two writers on 1, 2 and 4 threads");
            assert_eq!(count(Role::Limit), 3);
            assert_eq!(count(Role::Reference), 1);
        }
    }

    #[test]
    fn a_matrix_has_every_pair_of_nodes_with_memory() {
        let design = Design {
            matrix: true,
            threads: vec![Threads::Count(1)],
            ..Design::default()
        };
        let runs = runs(&design, "numa:3(memory=1G) core:2");
        let pairs: Vec<(Vec<u64>, String)> = runs
            .contestants()
            .filter(|run| run.role == Role::Matrix)
            .map(|run| (run.settings.nodes.clone(), run.settings.placement.clone()))
            .collect();
        assert_eq!(pairs.len(), 9);
        assert!(pairs.contains(&(vec![2], "node:0".into())));
        assert!(
            runs.contestants()
                .filter(|run| run.role == Role::Matrix)
                .all(|run| run.settings.threads == 2)
        );
    }

    #[test]
    fn policies_other_than_eager_are_boots_beside_one_eager_boot_a_writer() {
        let design = Design {
            policies: Policy::ALL.to_vec(),
            ..Design::default()
        };
        let runs = runs(&design, "core:4");
        let shared: Vec<bool> = runs
            .stretches
            .iter()
            .map(|stretch| !stretch.boots)
            .collect();
        assert_eq!(shared, [true, false]);
        let boots = &runs.stretches[1].contestants;
        let of = |role| boots.iter().filter(move |run| run.role == role);
        assert_eq!(
            of(Role::Boot).count(),
            3 * 3 * 2,
            "policies, threads, writers"
        );
        assert!(of(Role::Boot).all(|run| run.policy != Policy::Eager));
        let eager: Vec<String> = of(Role::BootReference)
            .map(|run| run.settings.to_string())
            .collect();
        assert_eq!(
            eager,
            [
                "1 thread, first-touch, deque, eager, zero, system pages",
                "1 thread, first-touch, deque, eager, stream, system pages",
            ]
        );
        assert_eq!(
            boots.len(),
            18 + 2,
            "no limit, and no reference on warm memory"
        );
        assert!(
            runs.stretches[0]
                .contestants
                .iter()
                .all(|run| run.policy == Policy::Eager)
        );
        let alone = Design {
            policies: vec![Policy::Lazy],
            placements: vec![Place::FIRST_TOUCH, place("bind")],
            ..Design::default()
        };
        let topology = synthetic::parse("core:4").unwrap();
        let refused = alone.runs(&topology, &[1 << 30], off).unwrap_err();
        assert!(
            refused.to_string().contains("`lazy` with placement `bind`"),
            "{refused}"
        );
    }

    #[test]
    fn a_round_runs_everything_once_and_keeps_stretches_together() {
        let design = Design {
            pages: Pages::ALL.to_vec(),
            ..Design::default()
        };
        let runs = runs(&design, "core:4");
        let mut orders = HashSet::new();
        for round in 0..20 {
            let planned = runs.round(round);
            assert_eq!(planned, runs.round(round), "the same whenever it is asked");
            assert_eq!(planned.len(), runs.a_round());
            let keys: HashSet<&Key> = planned.iter().map(|run| &run.key).collect();
            assert_eq!(keys.len(), planned.len());
            let changes = planned
                .windows(2)
                .filter(|two| two[0].stretch != two[1].stretch);
            assert_eq!(changes.count(), 3, "four stretches, each in one piece");
            orders.insert(
                planned
                    .iter()
                    .map(|run| (run.stretch, run.contestant))
                    .collect::<Vec<_>>(),
            );
        }
        assert_eq!(orders.len(), 20, "each round has an order of its own");
    }

    #[test]
    fn workers_that_cannot_be_had_are_refused_before_anything_runs() {
        let topology = synthetic::parse("numa:2(memory=1G) core:2").unwrap();
        let refused = |design: Design| {
            let error = design.runs(&topology, &[1 << 30], off).unwrap_err();
            error.to_string()
        };
        let many = refused(Design {
            threads: vec![Threads::Count(5)],
            ..Design::default()
        });
        assert!(
            many.contains("5 threads") && many.contains("may use 4 CPUs"),
            "{many}"
        );
        let absent = refused(Design {
            nodes: vec![Nodes::These(vec![7])],
            threads: vec![Threads::Count(1)],
            ..Design::default()
        });
        assert!(absent.contains("node 7 is not one of"), "{absent}");
    }

    #[test]
    fn a_range_of_threads_is_refused_by_its_end_before_it_becomes_numbers() {
        let topology = synthetic::parse("numa:2 core:2").unwrap();
        let shared = |wishes: WorkerChoice| WorkerChoice {
            oversubscribe: true,
            ..off(wishes)
        };
        for last in [257, 300_000_000, usize::MAX] {
            let design = Design {
                threads: vec![Threads::UpTo(last)],
                ..Design::default()
            };
            let error = design.runs(&topology, &[1], shared).unwrap_err();
            let said = error.to_string();
            assert!(said.contains(&format!("1..={last}")), "{said}");
            assert!(said.contains("at most 256"), "{said}");
            assert!(design.runs(&topology, &[1], off).is_err());
        }
    }

    #[test]
    fn the_same_memory_twice_is_one_machine() {
        let topology = synthetic::parse("numa:2 core:2").unwrap();
        let design = Design::default();
        let once = design.runs(&topology, &[1, 2], off).unwrap().a_round();
        let twice = design.runs(&topology, &[1, 2, 1, 1], off).unwrap();
        assert_eq!(twice.a_round(), once);
    }
}
