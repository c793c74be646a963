//! Records of runs: one JSON object a line, one line a run.
//!
//! A record stands alone: it names the study, the host, the layout and the settings, so that files of
//! many hosts can be joined with `cat`. Times are nanoseconds, sizes bytes, moments milliseconds since
//! 1970. The `schema` number grows when a field changes its meaning or goes; fields may be added
//! without, so a reader passes over fields that it does not know. `docs/record.schema.json` is the
//! JSON Schema of a line.
//!
//! What a study is to do is known before it begins: its runs are told apart by their [`Key`], and the
//! same design has the same keys on every host, however often it was interrupted.

mod host;
mod key;
mod read;
#[cfg(test)]
mod schema;
mod store;

use deferred_init::engine::{NodePlacement, NodeReport, SectionRecord, WorkerReport};
use deferred_init::policy::PolicyReport;
use memmap_core::Geometry;
use serde::{Deserialize, Serialize};

pub use host::{BootInit, Host, HostNode, Mitigation};
pub use key::Key;
pub use read::{ReadError, Recorded, Torn, parse, read};
pub use store::{Store, StoreError};

/// The version of [`Record`]'s fields.
pub const SCHEMA: u32 = 2;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Record {
    /// The version of these fields.
    pub schema: u32,
    /// The name of the study that the run belongs to.
    pub study: String,
    /// Fingerprint of the study's design: records of different designs are not put together.
    pub design: String,
    /// How often the study had been interrupted before this run.
    pub session: u64,
    /// The round, from 0; the runs of a round may be compared pair by pair.
    pub round: u64,
    /// Its place in the round, from 0.
    pub place: u64,
    /// When it began, milliseconds since 1970.
    pub began_ms: u64,
    /// What it is there for.
    pub role: Role,
    /// What was initialised.
    pub layout: Layout,
    /// How.
    pub settings: Settings,
    /// The streaming fill that was the limit, where this is a run of the limit.
    pub fill: Option<String>,
    /// Why there was no run, where the system refused what the settings ask for; all times are 0 then.
    pub refused: Option<String>,
    /// Time to reserve the address space of the memory that was written to; once for all runs on it.
    pub map_ns: u64,
    /// Time of the first touch of all of that memory; once for all runs on it.
    pub fault_ns: u64,
    /// How much of it lies in huge pages, bytes; unknown where the system does not say.
    pub huge_bytes: Option<u64>,
    /// From the start barrier to the end of the last worker; 0 for boots, which touch memory as they
    /// write it (see `boot`).
    pub write_ns: u64,
    /// What a boot took; null for runs on memory that was touched before.
    #[serde(default)]
    pub boot: Option<Booted>,
    /// What each node took, by ascending node.
    pub nodes: Vec<NodeTime>,
    /// What each worker did, by worker.
    pub workers: Vec<WorkerTime>,
    /// When each piece of work was done; kept for the first round alone, and empty in the others.
    pub sections: Vec<SectionTime>,
    /// Where a sample of the struct pages lies; once for all runs on the same memory.
    pub placed: Vec<Placed>,
    /// Hardware counters over all workers.
    pub counters: Counters,
    /// Whether its spans were kept or printed meanwhile, which costs time: it is not comparable with runs that
    /// were not traced.
    #[serde(default)]
    pub traced: bool,
    /// Where it ran.
    pub host: Host,
}

/// What a run is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A combination of settings that the study asks about.
    Cell,
    /// The fastest streaming fill with the same workers and memory.
    Limit,
    /// Always the same run, from which drift is seen.
    Reference,
    /// Threads on one node, memory on one node: rate of initialisation.
    Matrix,
    /// The streaming fill of the same pair of nodes: write bandwidth.
    MatrixLimit,
    /// A boot by a policy other than eager, on memory of its own.
    Boot,
    /// A boot by the eager policy, beside which the others are seen.
    BootReference,
}

/// What a run initialises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Layout {
    /// Where it was read from, in words.
    pub source: String,
    /// The kernel that is modelled.
    pub profile: String,
    /// Memory of the machine, bytes.
    pub memory: u64,
    /// Nodes with memory.
    pub nodes: u64,
    /// Present sections.
    pub sections: u64,
    /// Struct pages.
    pub pages: u64,
    /// Bytes of a struct page.
    pub page_struct_bytes: u64,
}

/// How a run initialises it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Settings {
    /// Pinned workers.
    pub threads: u64,
    /// The host's nodes that workers sit on; none for all.
    pub nodes: Vec<u64>,
    /// Where the struct pages lie: `first-touch`, `bind` (local), `interleave`, `remote`, `node:N`.
    pub placement: String,
    /// The scheduler.
    pub scheduler: String,
    /// When sections are initialised: `eager`, `deferred`, `on-demand`, `lazy`.
    pub policy: String,
    /// The page writer, or `limit` for the streaming fill.
    pub writer: String,
    /// Pages behind the struct pages: `system`, `4K`, `thp`, `hugetlb`.
    pub pages: String,
}

/// What a boot took: initialising struct pages, the first touch of their memory, and handing pages
/// over to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Booted {
    /// Until the first page could be allocated.
    pub first_usable_ns: u64,
    /// Until every struct page was written.
    pub total_ns: u64,
    /// The longest time for which one CPU did nothing else.
    pub worst_stretch_ns: u64,
    /// Sections written before the first page could be allocated.
    pub sections_first: u64,
    /// Sections written in all.
    pub sections: u64,
}

/// What one node took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodeTime {
    /// The simulated node.
    pub node: u64,
    /// Struct pages written.
    pub pages: u64,
    /// From the start barrier to its last section.
    pub ns: u64,
}

/// What one worker did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerTime {
    /// Its thread's name.
    pub name: String,
    /// The CPU that it is pinned to.
    pub cpu: u64,
    /// Sections written.
    pub sections: u64,
    /// Struct pages written.
    pub pages: u64,
    /// Time in sections.
    pub busy_ns: u64,
}

/// Sections that were written in one go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SectionTime {
    /// The first section.
    pub section: u64,
    /// How many.
    pub count: u64,
    /// The worker, by its place in `workers`.
    pub worker: u64,
    /// When it began, after the start barrier.
    pub begin_ns: u64,
    /// How long it took.
    pub ns: u64,
}

/// Where sampled struct pages of one node lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Placed {
    /// The simulated node that they belong to.
    pub node: u64,
    /// The host's node.
    pub on: u64,
    /// How many pages of the sample.
    pub pages: u64,
}

/// Hardware counters of a run, over all threads of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counters {
    /// Misses of the last-level cache.
    pub llc_misses: Option<u64>,
    /// Stores that missed the data TLB.
    pub dtlb_store_misses: Option<u64>,
    /// Stores that went to another node's memory.
    pub remote_stores: Option<u64>,
    /// Why those that are absent are so; empty where none is.
    pub absent: String,
}

impl Record {
    /// Its line, with the end of line.
    ///
    /// # Panics
    /// Never: nothing in it can fail to serialise.
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("numbers, texts and lists of them");
        line.push(b'\n');
        line
    }

    /// What tells it apart from the other runs of its study.
    pub fn key(&self) -> Key {
        Key {
            round: self.round,
            place: self.place,
            role: self.role,
            memory: self.layout.memory,
            settings: self.settings.clone(),
        }
    }

    /// What the run took: writing, or for a boot all of it; 0 where there was none.
    pub fn time_ns(&self) -> u64 {
        self.boot.map_or(self.write_ns, |boot| boot.total_ns)
    }

    /// Bytes of struct pages that were written.
    pub fn bytes(&self) -> u64 {
        self.layout
            .pages
            .saturating_mul(self.layout.page_struct_bytes)
    }

    /// Bytes of struct pages a nanosecond (GB/s); 0 where there was no run.
    pub fn gb_a_second(&self) -> f64 {
        match self.write_ns {
            0 => 0.0,
            ns => self.bytes() as f64 / ns as f64,
        }
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            source,
            profile,
            memory,
            nodes,
            sections,
            ..
        } = self;
        write!(
            f,
            "{memory} bytes, nodes: {nodes}, sections: {sections}, {profile} ({source})"
        )
    }
}

impl Layout {
    /// What a map of `geometry` holds: a machine with `memory` bytes that was read from `source`.
    pub fn of(source: String, memory: u64, geometry: &Geometry) -> Self {
        let sections = geometry.sections();
        let nodes = geometry.nodes().iter().filter(|node| node.has_memory());
        Self {
            source,
            profile: geometry.profile().to_string(),
            memory,
            nodes: nodes.count() as u64,
            sections: sections.count(),
            pages: sections.count() * sections.pages_per_section(),
            page_struct_bytes: u64::from(geometry.profile().struct_page_bytes),
        }
    }

    /// Whether it is one machine, wherever it was read.
    pub fn is_same_machine(&self, other: &Self) -> bool {
        let elsewhere = Self {
            source: other.source.clone(),
            ..self.clone()
        };
        elsewhere == *other
    }
}

impl Booted {
    /// What the report of a boot says.
    pub fn of(report: &PolicyReport) -> Self {
        let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            first_usable_ns: ns(report.first_usable),
            total_ns: ns(report.total),
            worst_stretch_ns: ns(report.worst_stretch),
            sections_first: report.sections_first,
            sections: report.sections,
        }
    }
}

impl NodeTime {
    /// What a report says of a node.
    pub fn of(report: &NodeReport) -> Self {
        Self {
            node: u64::from(report.node.get()),
            pages: report.volume.pages,
            ns: report.end_ns,
        }
    }
}

impl WorkerTime {
    /// What a report says of a worker.
    pub fn of(report: &WorkerReport) -> Self {
        Self {
            name: report.seat.to_string(),
            cpu: u64::from(report.seat.cpu),
            sections: report.volume.sections,
            pages: report.volume.pages,
            busy_ns: report.volume.busy_ns,
        }
    }
}

impl SectionTime {
    /// What a report says of a piece of work.
    pub fn of(record: &SectionRecord) -> Self {
        Self {
            section: record.section,
            count: u64::from(record.count),
            worker: u64::from(record.worker),
            begin_ns: record.begin_ns,
            ns: record.ns,
        }
    }
}

impl Placed {
    /// What a report says of a node's sampled pages.
    pub fn of(report: &NodePlacement) -> impl Iterator<Item = Self> {
        report.on.iter().map(|(on, pages)| Self {
            node: u64::from(report.node.get()),
            on: u64::from(on.get()),
            pages: *pages as u64,
        })
    }
}
