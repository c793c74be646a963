//! Records of runs: one JSON object a line, one line a run.
//!
//! A record stands alone: it names the host, the layout and the settings, so that files of many
//! hosts can be joined with `cat`. Times are nanoseconds, sizes bytes. The `schema` number grows
//! when a field changes its meaning or goes; fields may be added without.

use std::time::Duration;

use deferred_init::engine::{NodeReport, WorkerReport};
use memmap_core::MemoryMap;
use serde::{Deserialize, Serialize};

/// The version of [`Record`]'s fields.
pub const SCHEMA: u32 = 1;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The sweep that it belongs to.
    pub sweep: String,
    /// The round of the sweep, from 0; the runs of a round may be compared pair by pair.
    pub round: u64,
    /// Its place in the round, from 0.
    pub place: u64,
    /// What was initialised.
    pub layout: Layout,
    /// How.
    pub settings: Settings,
    /// From the start barrier to the end of the last worker.
    pub write_ns: u64,
    /// What each node took, by ascending node.
    pub nodes: Vec<NodeTime>,
    /// What each worker did, by worker.
    pub workers: Vec<WorkerTime>,
    /// Where it ran.
    pub host: Host,
}

/// What a run initialises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Where it was read from, in words.
    pub source: String,
    /// The kernel that is modelled.
    pub profile: String,
    /// Nodes with memory.
    pub nodes: u64,
    /// Present sections.
    pub sections: u64,
    /// Struct pages.
    pub pages: u64,
    /// Bytes of a struct page.
    pub page_struct_bytes: u64,
    /// Time to reserve the address space, once a sweep.
    pub map_ns: u64,
    /// Time of the first touch of all of it, once a sweep.
    pub fault_ns: u64,
}

/// How a run initialises it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Pinned workers.
    pub threads: u64,
    /// The page writer, or `limit:NAME` for the streaming fill that is the limit.
    pub writer: String,
    /// The scheduler.
    pub scheduler: String,
    /// Where the struct pages lie.
    pub placement: String,
}

/// What one node took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// The host of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Kernel release.
    pub kernel: String,
    /// Machine architecture.
    pub machine: String,
    /// Processor model.
    pub cpu: String,
    /// CPUs that we may run on.
    pub cpus: u64,
    /// NUMA nodes.
    pub nodes: u64,
    /// Where the topology was read.
    pub topology: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Setting of transparent huge pages.
    pub huge_pages: String,
    /// Whether a hypervisor runs below.
    pub virtual_machine: bool,
    /// Our own version.
    pub version: String,
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
}

impl Layout {
    /// What `map` is a map of; `source` in words, `map_time` to reserve its address space.
    pub fn of(source: String, map: &MemoryMap, map_time: Duration) -> Self {
        let geometry = map.geometry();
        let sections = geometry.sections();
        Self {
            source,
            profile: map.profile().to_string(),
            nodes: geometry
                .nodes()
                .iter()
                .filter(|node| node.has_memory())
                .count() as u64,
            sections: sections.count(),
            pages: sections.count() * sections.pages_per_section(),
            page_struct_bytes: map.struct_page_size().bytes() as u64,
            map_ns: u64::try_from(map_time.as_nanos()).unwrap_or(u64::MAX),
            fault_ns: 0,
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
