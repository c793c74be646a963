//! Which zones are tried, in which order.
//!
//! A node's list names first the node itself, if it has memory, then the others by distance;
//! within a node, higher zones come before lower ones. Nodes at equal distance are shared out, so
//! that not every node falls back to the same one.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use memblock::NodeId;

use crate::geometry::{Geometry, Node};

/// How far nodes are from each other, and which of them have CPUs.
///
/// Unless set, a node is 10 from itself and 20 from any other, and has CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeDistances {
    known: BTreeMap<(NodeId, NodeId), u32>,
    without_cpus: Vec<NodeId>,
}

impl NodeDistances {
    /// Says that `to` is `distance` from `from`; the way back is another matter.
    #[must_use]
    pub fn with(mut self, from: NodeId, to: NodeId, distance: u32) -> Self {
        self.known.insert((from, to), distance);
        self
    }

    /// Says that `node` has no CPUs.
    #[must_use]
    pub fn without_cpus(mut self, node: NodeId) -> Self {
        self.without_cpus.push(node);
        self
    }

    /// How far `to` is from `from`.
    #[doc(alias = "node_distance")]
    pub fn get(&self, from: NodeId, to: NodeId) -> u32 {
        let default = if from == to { 10 } else { 20 };
        self.known.get(&(from, to)).copied().unwrap_or(default)
    }

    fn has_cpus(&self, node: NodeId) -> bool {
        !self.without_cpus.contains(&node)
    }
}

/// For every online node, the nodes with memory in the order in which they are asked.
///
/// The kernel prints each as `Fallback order for Node 1: 1 2 0`.
///
/// Linux: mm/page_alloc.c, `build_zonelists`, `find_next_best_node`.
#[doc(alias = "build_zonelists")]
#[doc(alias = "find_next_best_node")]
pub fn fallback_orders(
    geometry: &Geometry,
    distances: &NodeDistances,
) -> BTreeMap<NodeId, Vec<NodeId>> {
    of_nodes(geometry.nodes(), distances)
}

pub(crate) fn of_nodes(nodes: &[Node], distances: &NodeDistances) -> BTreeMap<NodeId, Vec<NodeId>> {
    let with_memory: Vec<_> = nodes
        .iter()
        .filter(|node| node.has_memory())
        .map(|node| node.id)
        .collect();
    let online: Vec<_> = nodes
        .iter()
        .filter(|node| node.online)
        .map(|node| node.id)
        .collect();
    orders(&online, &with_memory, distances)
}

fn orders(
    online: &[NodeId],
    with_memory: &[NodeId],
    distances: &NodeDistances,
) -> BTreeMap<NodeId, Vec<NodeId>> {
    // How often a node was the first of its distance; it decides among equals.
    let mut load: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut orders = BTreeMap::new();
    for &node in online {
        let mut order = Vec::with_capacity(with_memory.len());
        let mut before = node;
        while let Some(next) = next_best(node, with_memory, &order, &load, distances) {
            if distances.get(node, next) != distances.get(node, before) {
                *load.entry(next).or_default() += 1;
            }
            order.push(next);
            before = next;
        }
        orders.insert(node, order);
    }
    orders
}

fn next_best(
    node: NodeId,
    with_memory: &[NodeId],
    used: &[NodeId],
    load: &BTreeMap<NodeId, u64>,
    distances: &NodeDistances,
) -> Option<NodeId> {
    /// More than any node's load can become.
    const SCALE: u64 = 1 << 20;
    if with_memory.contains(&node) && !used.contains(&node) {
        return Some(node);
    }
    with_memory
        .iter()
        .copied()
        .filter(|other| !used.contains(other))
        .min_by_key(|other| {
            let far = u64::from(distances.get(node, *other))
                // nodes above come first, so that all do not turn to node 0
                + u64::from(*other < node)
                // a node with CPUs has its own use for its memory
                + u64::from(distances.has_cpus(*other));
            (far * SCALE + load.get(other).copied().unwrap_or(0), *other)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[u16]) -> Vec<NodeId> {
        ids.iter().copied().map(NodeId::new).collect()
    }

    #[test]
    fn nodes_at_equal_distance_take_turns_from_the_next_one_up() {
        let nodes = ids(&[0, 1, 2, 3]);
        let orders = orders(&nodes, &nodes, &NodeDistances::default());
        let printed: Vec<_> = orders.values().cloned().collect();
        assert_eq!(
            printed,
            [
                ids(&[0, 1, 2, 3]),
                ids(&[1, 2, 3, 0]),
                ids(&[2, 3, 0, 1]),
                ids(&[3, 0, 1, 2])
            ]
        );
    }

    #[test]
    fn a_node_without_memory_is_in_no_list_but_has_one() {
        let orders = orders(&ids(&[0, 1, 2]), &ids(&[0, 1]), &NodeDistances::default());
        assert_eq!(orders[&NodeId::new(2)], ids(&[0, 1]));
        assert_eq!(orders[&NodeId::new(0)], ids(&[0, 1]));
    }

    #[test]
    fn the_nearest_node_comes_first_and_nodes_without_cpus_before_others() {
        let nodes = ids(&[0, 1, 2]);
        let near = NodeDistances::default().with(NodeId::new(0), NodeId::new(2), 12);
        assert_eq!(
            orders(&nodes, &nodes, &near)[&NodeId::new(0)],
            ids(&[0, 2, 1])
        );
        let expander = NodeDistances::default().without_cpus(NodeId::new(2));
        assert_eq!(
            orders(&nodes, &nodes, &expander)[&NodeId::new(0)],
            ids(&[0, 2, 1])
        );
    }
}
