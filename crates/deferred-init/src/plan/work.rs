//! A plan laid over groups of workers.

use std::collections::BTreeMap;
use std::ops::Range;

use memblock::NodeId;

use super::{Plan, PlanRun, SectionShape, Shard};
use crate::Topology;
use crate::workers::Seat;

/// Sections that a worker takes at once, by their positions among the sections of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The group whose sections these are.
    pub group: usize,
    /// Positions, half-open, from 0 for the group's first section.
    pub positions: Range<u64>,
}

impl Piece {
    /// Number of sections.
    pub fn len(&self) -> u64 {
        self.positions.end - self.positions.start
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What the workers of one node have to do: that node's sections, and those of nodes without
/// workers that are nearest to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupWork {
    /// The workers' node.
    pub node: NodeId,
    /// Indices of the workers, half-open.
    pub workers: Range<usize>,
    /// Nodes whose sections these are, the own one first.
    pub serves: Vec<NodeId>,
    // runs by served node and section, each with the position of its first section
    runs: Vec<(u64, PlanRun)>,
    sections: u64,
    shape: SectionShape,
}

impl GroupWork {
    /// Number of sections.
    pub fn sections(&self) -> u64 {
        self.sections
    }

    /// Runs in the order of positions, each with the position of its first section.
    pub fn runs(&self) -> &[(u64, PlanRun)] {
        &self.runs
    }

    /// The shards of a range of positions, at most `grain` sections each, cut where runs end.
    pub fn shards(&self, positions: Range<u64>, grain: u64) -> impl Iterator<Item = Shard> + '_ {
        let end = positions.end.min(self.sections);
        let mut at = positions.start;
        let mut index = self
            .runs
            .partition_point(|(start, run)| start + run.len() <= at);
        std::iter::from_fn(move || {
            let (start, run) = self.runs.get(index).filter(|_| at < end)?;
            let first = run.sections.start + (at - start);
            let stop = at
                .saturating_add(grain.max(1))
                .min(end)
                .min(start + run.len());
            let shard = Shard {
                node: run.node,
                zone: run.zone,
                sections: first..first + (stop - at),
                shape: self.shape,
            };
            at = stop;
            if at == start + run.len() {
                index += 1;
            }
            Some(shard)
        })
    }
}

/// A plan laid over workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work<'t> {
    topology: &'t Topology,
    groups: Vec<GroupWork>,
    shape: SectionShape,
    grain: u64,
    // group of each worker
    group_of: Vec<usize>,
}

impl<'t> Work<'t> {
    /// Lays `plan` over workers on `seats` (sorted by node and rank).
    ///
    /// A node's sections go to its own workers; those of a node without workers to the workers of
    /// the node that is nearest by the topology's distances, the lowest of equally near ones.
    /// `grain` is the number of sections that a worker takes at once.
    pub fn new(plan: &Plan, topology: &'t Topology, seats: &[Seat], grain: u64) -> Self {
        let mut groups: Vec<GroupWork> = seats
            .chunk_by(|a, b| a.node == b.node)
            .scan(0, |first, seats| {
                let workers = *first..*first + seats.len();
                *first = workers.end;
                let node = seats.first().map(|seat| seat.node).unwrap_or_default();
                Some(GroupWork {
                    node,
                    workers,
                    serves: Vec::new(),
                    runs: Vec::new(),
                    sections: 0,
                    shape: plan.shape(),
                })
            })
            .collect();
        let nodes: Vec<NodeId> = groups.iter().map(|group| group.node).collect();
        let by_node: BTreeMap<NodeId, usize> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| (*node, index))
            .collect();
        // own nodes first, so that a group serves them before it helps out
        let mut served: Vec<(bool, usize, NodeId, &[PlanRun])> = plan
            .nodes()
            .filter_map(|(node, runs)| match by_node.get(&node) {
                Some(own) => Some((false, *own, node, runs)),
                None => {
                    let near = |other: &&NodeId| (topology.distance(node, **other), **other);
                    let group = nodes.iter().min_by_key(near);
                    let group = group.and_then(|node| by_node.get(node))?;
                    Some((true, *group, node, runs))
                }
            })
            .collect();
        served.sort_by_key(|(helps, group, node, _)| (*helps, *group, *node));
        for (_, group, node, runs) in served {
            let Some(group) = groups.get_mut(group) else {
                continue;
            };
            group.serves.push(node);
            for run in runs {
                group.runs.push((group.sections, run.clone()));
                group.sections += run.len();
            }
        }
        let group_of = groups
            .iter()
            .enumerate()
            .flat_map(|(index, group)| group.workers.clone().map(move |_| index))
            .collect();
        Self {
            topology,
            groups,
            shape: plan.shape(),
            grain: grain.max(1),
            group_of,
        }
    }

    /// The groups, by ascending node.
    pub fn groups(&self) -> &[GroupWork] {
        &self.groups
    }

    /// The other groups, nearest first. Sorted when it is asked for: of all groups at once that would
    /// take longer than the rest of a plan of hundreds of nodes.
    pub fn neighbours(&self, group: usize) -> Vec<usize> {
        let Some(own) = self.groups.get(group) else {
            return Vec::new();
        };
        let nodes = self.groups.iter().map(|group| group.node);
        let others: Vec<NodeId> = nodes.filter(|node| *node != own.node).collect();
        let near = self.topology.by_distance(own.node, &others);
        let place = |node: &NodeId| self.groups.binary_search_by_key(node, |group| group.node);
        near.iter().filter_map(|node| place(node).ok()).collect()
    }

    /// The group that a worker belongs to.
    pub fn group_of(&self, worker: usize) -> Option<usize> {
        self.group_of.get(worker).copied()
    }

    /// Sections that a worker does where its group shares them equally, rounded up.
    pub fn fair_share(&self, worker: usize) -> u64 {
        self.group_of(worker)
            .and_then(|group| self.groups.get(group))
            .map_or(0, |group| {
                group.sections.div_ceil(group.workers.len().max(1) as u64)
            })
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.group_of.len()
    }

    /// Number of sections of all groups.
    pub fn sections(&self) -> u64 {
        self.groups.iter().map(GroupWork::sections).sum()
    }

    /// How many sections a worker takes at once.
    pub fn grain(&self) -> u64 {
        self.grain
    }

    /// The size of a section.
    pub fn shape(&self) -> SectionShape {
        self.shape
    }

    /// The shards of a piece.
    pub fn shards(&self, piece: &Piece) -> impl Iterator<Item = Shard> + '_ {
        self.cut(piece, self.grain)
    }

    /// The parts of a piece that lie in one run each.
    pub fn parts(&self, piece: &Piece) -> impl Iterator<Item = Shard> + '_ {
        self.cut(piece, u64::MAX)
    }

    fn cut(&self, piece: &Piece, grain: u64) -> impl Iterator<Item = Shard> + '_ {
        let positions = piece.positions.clone();
        self.groups
            .get(piece.group)
            .into_iter()
            .flat_map(move |group| group.shards(positions.clone(), grain))
    }
}
