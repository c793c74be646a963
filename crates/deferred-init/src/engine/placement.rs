//! Where struct pages are to lie, and where they do.
//!
//! # Implementation
//! Policies are set on runs of sections before anything is faulted. A section's struct pages need not
//! be whole pages of memory (14 KiB on some hosts): ranges are widened to page boundaries, and a page
//! on a border goes to the later node.

use std::fmt;
use std::ops::Range;

use memblock::NodeId;
use sys::{HugePages, MemoryPolicy, PageNode, SysError};

use super::target::Target;
use crate::Topology;
use crate::plan::{Plan, PlanRun, SectionShape};

/// Where struct pages are to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Placement {
    /// On the node of the worker that first touches them. The node's own workers do, so it is their
    /// own node where that has workers.
    #[default]
    FirstTouch,
    /// Bound to their own node.
    Bind,
    /// Page by page over all nodes that we may use.
    Interleave,
    /// Bound to the farthest node that we may use: what wrong placement costs.
    Remote,
}

impl Placement {
    /// Every way, in the order in which tables show them.
    pub const ALL: [Self; 4] = [Self::FirstTouch, Self::Bind, Self::Interleave, Self::Remote];

    /// The name by which users choose it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstTouch => "first-touch",
            Self::Bind => "bind",
            Self::Interleave => "interleave",
            Self::Remote => "remote",
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why struct pages cannot be placed as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// The map's memory is not ours to place.
    #[error(
        "this map does not lie in mapped memory, and cannot be placed; give it a mapped backing, or place by first touch"
    )]
    NotMapped,
    /// There is no other node.
    #[error("there is no other node with memory than node {0} to place remotely on")]
    NoRemote(NodeId),
    /// The system refused.
    #[error("struct pages of node {node} could not be placed: {source}")]
    Refused {
        /// The node of the sections.
        node: NodeId,
        /// What the system said.
        source: SysError,
    },
}

/// Sets policies for all runs of a plan.
pub(super) fn apply(
    placement: Placement,
    huge_pages: HugePages,
    target: &dyn Target,
    plan: &Plan,
    topology: &Topology,
) -> Result<(), PlacementError> {
    if placement == Placement::FirstTouch && huge_pages == HugePages::System {
        return Ok(());
    }
    for run in plan.runs() {
        let refused = |source| PlacementError::Refused {
            node: run.node,
            source,
        };
        let Some((memory, bytes)) = target.memory(run.sections.clone()) else {
            if placement == Placement::FirstTouch {
                continue;
            }
            return Err(PlacementError::NotMapped);
        };
        let bytes = widen(bytes, memory.len());
        memory
            .huge_pages(bytes.clone(), huge_pages)
            .map_err(refused)?;
        let (policy, nodes) = match placement {
            Placement::FirstTouch => continue,
            Placement::Bind => (MemoryPolicy::Bind, vec![run.node.get()]),
            Placement::Interleave => {
                let all = usable(topology);
                (
                    MemoryPolicy::Interleave,
                    all.iter().map(|n| n.get()).collect(),
                )
            }
            Placement::Remote => {
                let far = farthest(topology, run.node).ok_or(PlacementError::NoRemote(run.node))?;
                (MemoryPolicy::Bind, vec![far.get()])
            }
        };
        memory.bind(bytes, policy, &nodes).map_err(refused)?;
    }
    Ok(())
}

/// Nodes with memory that we may use.
fn usable(topology: &Topology) -> Vec<NodeId> {
    topology
        .nodes
        .iter()
        .filter(|node| node.memory > 0)
        .map(|node| node.id)
        .filter(|id| topology.allowed_nodes.contains(u32::from(id.get())))
        .collect()
}

fn farthest(topology: &Topology, from: NodeId) -> Option<NodeId> {
    let others: Vec<NodeId> = usable(topology)
        .into_iter()
        .filter(|node| *node != from)
        .collect();
    topology.by_distance(from, &others).last().copied()
}

/// A byte range widened to whole pages, at most to the mapping's end.
pub(super) fn widen(bytes: Range<usize>, len: usize) -> Range<usize> {
    let page = sys::page_size();
    let start = bytes.start - bytes.start % page;
    start..bytes.end.next_multiple_of(page).min(len)
}

/// Where a sample of struct pages lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementReport {
    /// For each node: of how many sampled pages it is the own node, and of these how many lie on
    /// each node.
    pub nodes: Vec<NodePlacement>,
    /// Why nothing could be asked, where that is so.
    pub unknown: Option<SysError>,
}

/// Where the sampled struct pages of one node lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlacement {
    /// The node that they belong to.
    pub node: NodeId,
    /// Pages on each node where some lie, ascending.
    pub on: Vec<(NodeId, usize)>,
    /// Pages that are not there, or whose place the system would not tell.
    pub absent: usize,
}

impl NodePlacement {
    /// Sampled pages.
    pub fn sampled(&self) -> usize {
        self.on.iter().map(|(_, count)| count).sum::<usize>() + self.absent
    }

    /// Pages on their own node.
    pub fn own(&self) -> usize {
        self.on
            .iter()
            .filter(|(node, _)| *node == self.node)
            .map(|(_, count)| count)
            .sum()
    }
}

impl PlacementReport {
    /// The share of sampled pages that lie on their own node; `None` where none was sampled.
    pub fn own_share(&self) -> Option<f64> {
        let sampled: usize = self.nodes.iter().map(NodePlacement::sampled).sum();
        let own: usize = self.nodes.iter().map(NodePlacement::own).sum();
        (sampled > 0).then(|| own as f64 / sampled as f64)
    }
}

/// `placed 100.0 % on its node`, and where else the rest lies.
impl fmt::Display for PlacementReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = &self.unknown {
            return writeln!(f, "placement unknown: {error}");
        }
        let Some(share) = self.own_share() else {
            return Ok(());
        };
        writeln!(f, "placed {:.1} % on its node", share * 100.0)?;
        for node in &self.nodes {
            if node.own() == node.sampled() {
                continue;
            }
            write!(f, "struct pages of node {}:", node.node)?;
            for (on, count) in &node.on {
                write!(f, " {count} on node {on}")?;
            }
            match node.absent {
                0 => writeln!(f)?,
                absent => writeln!(f, " {absent} nowhere")?,
            }
        }
        Ok(())
    }
}

/// Asks where about `pages` pages lie, evenly over all runs.
pub(super) fn sample(target: &dyn Target, plan: &Plan, pages: usize) -> PlacementReport {
    let mut report = PlacementReport::default();
    let total = plan.sections();
    if pages == 0 || total == 0 {
        return report;
    }
    for (node, runs) in plan.nodes() {
        let mut found = NodePlacement {
            node,
            on: Vec::new(),
            absent: 0,
        };
        for run in runs {
            let share = (pages as u64 * run.len() / total).max(1);
            match ask(target, plan.shape(), run, share as usize) {
                Ok(nodes) => {
                    for page in nodes {
                        count(&mut found, page);
                    }
                }
                Err(error) => {
                    report.unknown = Some(error);
                    return report;
                }
            }
        }
        found.on.sort_unstable();
        if found.sampled() > 0 {
            report.nodes.push(found);
        }
    }
    report
}

fn ask(
    target: &dyn Target,
    shape: SectionShape,
    run: &PlanRun,
    pages: usize,
) -> Result<Vec<PageNode>, SysError> {
    let Some((memory, bytes)) = target.memory(run.sections.clone()) else {
        return Ok(Vec::new());
    };
    let page = sys::page_size();
    // A page on the border of two runs belongs to both: only pages that this run alone uses tell.
    let border = usize::from(run.len() * shape.bytes != bytes.len() as u64);
    let first = bytes.start / page + border;
    let last = bytes.end / page - border;
    let count = last.saturating_sub(first);
    let step = count.div_ceil(pages.max(1)).max(1);
    let offsets: Vec<usize> = (first..last).step_by(step).map(|at| at * page).collect();
    memory.page_nodes(&offsets)
}

fn count(found: &mut NodePlacement, page: PageNode) {
    let PageNode::On(node) = page else {
        found.absent += 1;
        return;
    };
    let node = NodeId::new(node);
    match found.on.iter_mut().find(|(on, _)| *on == node) {
        Some((_, count)) => *count += 1,
        None => found.on.push((node, 1)),
    }
}
