//! What a study is to do: which settings, how often, in which order.
//!
//! A [`Design`] is a value: read from a small TOML file ([`Design::read`]), put together from flags, or
//! built by hand. [`Design::runs`] lays it out for a host before anything is run: every run with its
//! round and place, in an order that the seed decides. So a study that was interrupted can go on, and
//! its length can be estimated before it starts.
//!
//! # Order
//! A round is a block: everything runs once in it. Within it runs that share memory follow each other
//! (memory is placed and touched once for them), the stretches in an order that is shuffled anew each
//! round, and so are the runs of a stretch. Each stretch has its own limit for each number of threads,
//! and one reference, always the same run: what drifts in it is the machine.
//!
//! # Policies
//! [`Policy::Eager`] is what all other factors are about: the whole map is written, on memory that was
//! touched before. The other policies cannot be paired with that. What they are about is when somebody
//! has to wait, so each of their runs is a whole boot ([`deferred_init::policy::boot`]): a map of its
//! own, whose memory is touched as it is written. Boots have a stretch of their own, and their reference
//! there is a boot by the eager policy.

mod boots;
mod cells;
mod file;
mod value;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use deferred_init::schedule::{self, Scheduler};
use machine::size::ByteSize;
use memmap_core::writers::{self, PageWriter};

use crate::judge::MIN_ROUNDS;

pub use boots::Senseless;
pub use cells::{CellsError, Contestant, LIMIT, Planned, Runs, Stretch};
pub use deferred_init::policy::Policy;
pub use file::{DesignError, Fault, MOST_ROUNDS, MOST_SEED};
pub use value::{Nodes, Pages, Place, Threads, Unknown, policy, scheduler, writer};

/// The fewest rounds where a time decides: below, not even a spread can be given.
pub const FEWEST_ROUNDS: usize = 5;

/// What a study is to do.
#[derive(Clone, Debug)]
pub struct Design {
    /// A name, in every record.
    pub name: String,
    /// Seed of the order.
    pub seed: u64,
    /// How often everything is run.
    pub rounds: Rounds,
    /// Runs of each fill in the warm-up that chooses the limit.
    pub warm_up: usize,
    /// How factors are combined.
    pub combine: Combine,
    /// The writer of the reference run; `None` for no reference.
    pub reference: Option<&'static dyn PageWriter>,
    /// Whether every pair of nodes is measured: threads there, memory here.
    pub matrix: bool,
    /// Whose memory map is initialised.
    pub machine: Machine,
    /// Numbers of threads.
    pub threads: Vec<Threads>,
    /// Nodes that threads sit on.
    pub nodes: Vec<Nodes>,
    /// Where struct pages lie.
    pub placements: Vec<Place>,
    /// Who writes what.
    pub schedulers: Vec<&'static dyn Scheduler>,
    /// When sections are initialised: those other than eager are boots.
    pub policies: Vec<Policy>,
    /// With what they are written.
    pub writers: Vec<&'static dyn PageWriter>,
    /// Pages behind struct pages.
    pub pages: Vec<Pages>,
    /// Memory of a made-up machine; none for what `machine` says.
    pub memory: Vec<ByteSize>,
}

/// Whose memory map is initialised.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// This host's.
    Host,
    /// That of a boot log's machine.
    Log(PathBuf),
    /// A made-up one's, evenly on so many nodes; its memory is a factor.
    MadeUp {
        /// Its nodes.
        nodes: u64,
    },
}

/// How factors are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Combine {
    /// Every value with every other.
    #[default]
    Full,
    /// The first value of each factor, and from there one factor changed at a time.
    OneAtATime,
}

impl Combine {
    /// Both, as users name them.
    pub const ALL: [Self; 2] = [Self::Full, Self::OneAtATime];

    /// The name by which users choose it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::OneAtATime => "one-at-a-time",
        }
    }
}

/// How many rounds a study has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounds {
    /// So many, however long they take.
    Exactly(usize),
    /// As many as a verdict needs, or, where those would take longer than this, as many as fit in it; at
    /// least [`FEWEST_ROUNDS`]. What such a study holds depends on the machine: it cannot be resumed.
    Within(Duration),
}

impl Rounds {
    /// The number of rounds where one takes `round`.
    pub fn resolve(self, round: Duration) -> usize {
        match self {
            Self::Exactly(rounds) => rounds.max(1),
            Self::Within(budget) => {
                let fit = budget.as_nanos() / round.as_nanos().max(1);
                usize::try_from(fit)
                    .unwrap_or(usize::MAX)
                    .clamp(FEWEST_ROUNDS, MIN_ROUNDS)
            }
        }
    }
}

impl Default for Design {
    /// This host's memory map, written by `zero` and `stream` on 1, 2, 4, … threads, 61 rounds.
    fn default() -> Self {
        Self {
            name: "study".into(),
            seed: 1,
            rounds: Rounds::Exactly(MIN_ROUNDS),
            warm_up: 3,
            combine: Combine::default(),
            reference: writers::by_name("zero"),
            matrix: false,
            machine: Machine::Host,
            threads: vec![Threads::PowersOfTwo],
            nodes: vec![Nodes::All],
            placements: vec![Place::FIRST_TOUCH],
            schedulers: schedule::by_name("deque").into_iter().collect(),
            policies: vec![Policy::Eager],
            writers: ["zero", "stream"]
                .into_iter()
                .filter_map(writers::by_name)
                .collect(),
            pages: vec![Pages::System],
            memory: Vec::new(),
        }
    }
}

impl Design {
    /// 16 hexadecimal digits that are the same for the same design, on any host and in any version that
    /// has the same fields.
    pub fn fingerprint(&self) -> String {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        self.to_string().hash(&mut hash);
        format!("{:016x}", hash.finish())
    }
}

/// As a study file that means the same.
impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T>(values: &[T], show: impl Fn(&T) -> String) -> String {
            let values: Vec<String> = values.iter().map(show).collect();
            format!("[{}]", values.join(", "))
        }
        let quoted = |text: &str| format!("{text:?}");
        writeln!(f, "name = {:?}", self.name)?;
        writeln!(f, "seed = {}", self.seed)?;
        match self.rounds {
            Rounds::Exactly(rounds) => writeln!(f, "repeats = {rounds}")?,
            Rounds::Within(time) => writeln!(f, "# repeats: what fits in {} s", time.as_secs())?,
        }
        writeln!(f, "warm-up = {}", self.warm_up)?;
        writeln!(f, "factors = {:?}", self.combine.name())?;
        let reference = self.reference.map_or("none", |writer| writer.name());
        writeln!(f, "reference = {reference:?}")?;
        writeln!(f, "matrix = {}", self.matrix)?;
        match &self.machine {
            Machine::Host => {}
            Machine::Log(path) => writeln!(f, "layout = {:?}", path.display().to_string())?,
            Machine::MadeUp { nodes } => writeln!(f, "machine-nodes = {nodes}")?,
        }
        writeln!(f, "\n[vary]")?;
        let threads = list(&self.threads, |threads| match threads {
            Threads::Count(count) => count.to_string(),
            other => quoted(&other.to_string()),
        });
        writeln!(f, "threads = {threads}")?;
        let nodes = list(&self.nodes, |nodes| quoted(&nodes.to_string()));
        writeln!(f, "nodes = {nodes}")?;
        let places = list(&self.placements, |place| quoted(&place.to_string()));
        writeln!(f, "placement = {places}")?;
        let schedulers = list(&self.schedulers, |scheduler| quoted(scheduler.name()));
        writeln!(f, "scheduler = {schedulers}")?;
        let policies = list(&self.policies, |policy| quoted(policy.name()));
        writeln!(f, "policy = {policies}")?;
        let writers = list(&self.writers, |writer| quoted(writer.name()));
        writeln!(f, "writer = {writers}")?;
        let pages = list(&self.pages, |pages| quoted(pages.name()));
        writeln!(f, "pages = {pages}")?;
        if !self.memory.is_empty() {
            let memory = list(&self.memory, |memory| quoted(&memory.to_string()));
            writeln!(f, "memory = {memory}")?;
        }
        Ok(())
    }
}

/// FNV-1a: the same everywhere, unlike the standard library's hash.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_fill_the_time_between_the_fewest_and_what_a_verdict_needs() {
        let within = Rounds::Within(Duration::from_secs(10));
        assert_eq!(within.resolve(Duration::from_millis(1)), MIN_ROUNDS);
        assert_eq!(within.resolve(Duration::from_secs(1)), 10);
        assert_eq!(within.resolve(Duration::from_secs(100)), FEWEST_ROUNDS);
        assert_eq!(Rounds::Exactly(200).resolve(Duration::from_secs(1)), 200);
    }

    #[test]
    fn what_a_design_prints_is_a_study_file_that_means_the_same() {
        let design = Design {
            matrix: true,
            machine: Machine::MadeUp { nodes: 2 },
            memory: vec![ByteSize(1 << 30)],
            threads: vec![Threads::Count(3), Threads::UpToAll],
            combine: Combine::OneAtATime,
            ..Design::default()
        };
        let again = Design::parse("x.toml", &design.to_string()).unwrap();
        assert_eq!(again.to_string(), design.to_string());
        assert_eq!(again.fingerprint(), design.fingerprint());
        let other = Design { seed: 2, ..design };
        assert_ne!(other.fingerprint(), again.fingerprint());
        assert_eq!(other.fingerprint().len(), 16);
    }
}
