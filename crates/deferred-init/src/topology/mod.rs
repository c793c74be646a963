//! The host: its packages, dies, caches, cores, CPUs and nodes, as plain data.
//!
//! A [`Topology`] comes from sysfs ([`Topology::host`], or a tree under any root), from libhwloc
//! (feature `hwloc`), from a text ([`synthetic`]), or by name ([`presets`]). It can be built by hand,
//! printed and compared. Only one that describes the running machine may be pinned to
//! ([`Topology::is_host`]).
//!
//! Packages, dies, L3 groups and cores are numbered by us, from 0 in the order of their lowest CPU:
//! the system's own numbers repeat, have gaps, or are −1. CPUs and nodes keep the system's numbers.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use memblock::NodeId;

use crate::CpuSet;

#[cfg(feature = "hwloc")]
pub mod hwloc;
pub mod presets;
pub mod synthetic;
pub mod sysfs;

/// Where a topology was taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// `/sys` and `/proc` below this root.
    Sysfs(PathBuf),
    /// libhwloc, completed from sysfs.
    Hwloc,
    /// A text of the [synthetic] grammar.
    Synthetic(String),
    /// A [preset](presets).
    Preset(&'static str),
    /// Put together by hand.
    Manual,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysfs(root) => write!(f, "sysfs under {}", root.display()),
            Self::Hwloc => f.write_str("hwloc"),
            Self::Synthetic(text) => write!(f, "synthetic {text}"),
            Self::Preset(name) => write!(f, "preset {name}"),
            Self::Manual => f.write_str("made by hand"),
        }
    }
}

/// A hardware thread that is online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "PU")]
pub struct Cpu {
    /// The system's number.
    pub id: u32,
    /// Its node; `None` where its node is not online.
    pub node: Option<NodeId>,
    /// Its package, from 0.
    pub package: u32,
    /// Its die, from 0 over the whole host.
    pub die: u32,
    /// Its group of CPUs that share the outermost cache, from 0 over the whole host.
    pub l3: u32,
    /// Its core, from 0 over the whole host.
    pub core: u32,
    /// Which of its core's threads it is, from 0.
    pub smt: u32,
}

/// A NUMA node that is online.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The system's number.
    pub id: NodeId,
    /// Its online CPUs; none for a memory-only node.
    pub cpus: CpuSet,
    /// Its memory in bytes; 0 where it has none, or where nothing says.
    pub memory: u64,
    /// Its memory blocks as ranges of block numbers; a block may belong to two nodes.
    pub blocks: Vec<Range<u64>>,
}

/// Something that the source left out, or contradicted itself in, and what we made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// There is no node directory: all CPUs and all memory are taken as node 0.
    NoNuma,
    /// A node's distances could not be matched with nodes and are unknown.
    DistancesUnknown(NodeId),
    /// These online CPUs belong to no online node.
    CpusWithoutNode(CpuSet),
    /// A file that could not be understood.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What was wrong with it.
        reason: String,
    },
    /// The provider did not see these nodes; they were completed from sysfs.
    NodesCompleted(CpuSet),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNuma => f.write_str("no node directory: all is taken as node 0"),
            Self::DistancesUnknown(node) => write!(f, "the distances of node {node} are unknown"),
            Self::CpusWithoutNode(cpus) => write!(f, "CPUs {cpus} belong to no online node"),
            Self::Unreadable { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::NodesCompleted(nodes) => write!(f, "nodes {nodes} were completed from sysfs"),
        }
    }
}

/// A host's processors and memory nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Where it was taken from.
    pub source: Source,
    /// Online CPUs, by ascending number.
    pub cpus: Vec<Cpu>,
    /// CPUs that are there but not online.
    pub offline: CpuSet,
    /// Online nodes, by ascending number.
    pub nodes: Vec<Node>,
    /// Distances, a row a node in the order of `nodes`; 10 is a node's own memory, 0 unknown.
    pub distances: Vec<Vec<u32>>,
    /// CPUs that this process may run on, a part of `cpus`.
    pub allowed_cpus: CpuSet,
    /// Nodes whose memory this process may use, a part of `nodes`.
    pub allowed_nodes: CpuSet,
    /// Size of a memory block in bytes, where memory blocks are known.
    pub block_bytes: Option<u64>,
    /// Whether it describes the running machine, so that its CPUs may be pinned to.
    pub is_host: bool,
    /// What was missing or contradictory.
    pub notes: Vec<Note>,
}

/// The distance taken for two nodes whose distance is unknown (as the kernel's default).
#[doc(alias = "REMOTE_DISTANCE")]
const UNKNOWN_REMOTE: u32 = 20;
/// A node's distance to itself.
#[doc(alias = "LOCAL_DISTANCE")]
const LOCAL: u32 = 10;

impl Topology {
    /// The running machine, from sysfs.
    ///
    /// Take it once, before any thread is pinned: the allowed CPUs are those of the caller.
    ///
    /// # Errors
    /// [`sysfs::SysfsError`] where not even one CPU can be found.
    pub fn host() -> Result<Self, sysfs::SysfsError> {
        sysfs::read_host()
    }

    /// A CPU by its number.
    pub fn cpu(&self, id: u32) -> Option<&Cpu> {
        let at = self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok()?;
        self.cpus.get(at)
    }

    /// A node by its number.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(self.node_index(id)?)
    }

    /// The place of a node in `nodes`.
    pub fn node_index(&self, id: NodeId) -> Option<usize> {
        self.nodes.binary_search_by_key(&id, |node| node.id).ok()
    }

    /// The node that a CPU's work is counted to: its own, or the lowest where it has none.
    pub fn home(&self, cpu: &Cpu) -> NodeId {
        cpu.node
            .or_else(|| self.nodes.first().map(|node| node.id))
            .unwrap_or_default()
    }

    /// Distance between two nodes; as far as any node where it is unknown.
    #[doc(alias = "node_distance")]
    pub fn distance(&self, from: NodeId, to: NodeId) -> u32 {
        if from == to {
            return LOCAL;
        }
        let known = || {
            let row = self.distances.get(self.node_index(from)?)?;
            row.get(self.node_index(to)?).copied()
        };
        match known() {
            Some(0) | None => UNKNOWN_REMOTE,
            Some(distance) => distance,
        }
    }

    /// `candidates` by ascending distance from a node, equally near ones by number.
    pub fn by_distance(&self, from: NodeId, candidates: &[NodeId]) -> Vec<NodeId> {
        let mut sorted = candidates.to_vec();
        sorted.sort_by_cached_key(|node| (self.distance(from, *node), *node));
        sorted
    }

    /// How many packages, dies, L3 groups and cores there are.
    pub fn counts(&self) -> Counts {
        let count = |of: fn(&Cpu) -> u32| self.cpus.iter().map(of).max().map_or(0, |last| last + 1);
        Counts {
            packages: count(|cpu| cpu.package),
            dies: count(|cpu| cpu.die),
            l3_groups: count(|cpu| cpu.l3),
            cores: count(|cpu| cpu.core),
        }
    }

    /// Gives the threads of each core their ranks by ascending CPU number.
    pub(crate) fn rank_threads(cpus: &mut [Cpu]) {
        cpus.sort_by_key(|cpu| cpu.id);
        let mut seen = std::collections::HashMap::new();
        for cpu in cpus {
            let rank: &mut u32 = seen.entry(cpu.core).or_default();
            cpu.smt = *rank;
            *rank += 1;
        }
    }
}

/// Numbers of things in a [`Topology`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Packages (sockets).
    pub packages: u32,
    /// Dies.
    pub dies: u32,
    /// Groups of CPUs that share the outermost cache.
    pub l3_groups: u32,
    /// Cores.
    pub cores: u32,
}

/// A block of text: a summary, a line a node, the distances, what was noted.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts();
        writeln!(
            f,
            "{}: {} packages, {} dies, {} L3 groups, {} cores, {} CPUs, {} nodes",
            self.source,
            counts.packages,
            counts.dies,
            counts.l3_groups,
            counts.cores,
            self.cpus.len(),
            self.nodes.len()
        )?;
        for (index, node) in self.nodes.iter().enumerate() {
            write!(f, "node {}: {} MiB", node.id, node.memory >> 20)?;
            match node.cpus.is_empty() {
                true => f.write_str(", no CPUs")?,
                false => write!(f, ", CPUs {}", node.cpus)?,
            }
            if let Some(row) = self.distances.get(index) {
                f.write_str(", distances")?;
                for distance in row {
                    match distance {
                        0 => f.write_str(" ?")?,
                        known => write!(f, " {known}")?,
                    }
                }
            }
            if !node.blocks.is_empty() {
                f.write_str(", blocks")?;
                let mut separator = " ";
                for block in &node.blocks {
                    match block.end - block.start {
                        1 => write!(f, "{separator}{}", block.start)?,
                        _ => write!(f, "{separator}{}-{}", block.start, block.end - 1)?,
                    }
                    separator = ",";
                }
            }
            writeln!(f)?;
        }
        if !self.offline.is_empty() {
            writeln!(f, "offline CPUs {}", self.offline)?;
        }
        let online: CpuSet = self.cpus.iter().map(|cpu| cpu.id).collect();
        if self.allowed_cpus != online {
            writeln!(f, "allowed CPUs {}", self.allowed_cpus)?;
        }
        let nodes: CpuSet = self
            .nodes
            .iter()
            .map(|node| u32::from(node.id.get()))
            .collect();
        if self.allowed_nodes != nodes {
            writeln!(f, "allowed nodes {}", self.allowed_nodes)?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}
