//! Which CPUs get a worker.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use memblock::NodeId;

use crate::{CpuSet, Topology};

/// How a node's workers are laid over its groups of CPUs that share an outermost cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Spread {
    /// In turn over all groups, so that few workers have much cache and bandwidth each.
    #[default]
    Spread,
    /// One group after the other, so that few workers share a cache.
    Packed,
}

/// What happens to a worker's CPU mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Pinning {
    /// Every worker is pinned, or there is no crew.
    #[default]
    Required,
    /// A worker that cannot be pinned runs where it may; the report says so.
    BestEffort,
    /// No worker is pinned.
    Off,
}

/// Wishes for workers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct WorkerChoice {
    /// How many workers; `None` for one on every allowed CPU.
    pub threads: Option<usize>,
    /// On which nodes; `None` for all that have allowed CPUs.
    pub nodes: Option<Vec<NodeId>>,
    /// How they are laid over caches.
    pub spread: Spread,
    /// Whether several workers may share a CPU where there are more workers than CPUs.
    pub oversubscribe: bool,
    /// Whether they are pinned.
    pub pinning: Pinning,
}

impl WorkerChoice {
    /// `threads` workers, pinned, over all nodes.
    pub fn threads(threads: usize) -> Self {
        Self {
            threads: Some(threads),
            ..Self::default()
        }
    }
}

/// A worker's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    /// The node that it works for.
    pub node: NodeId,
    /// Its number on that node, from 0.
    pub rank: u32,
    /// Its CPU.
    pub cpu: u32,
}

/// The worker's name: `n0/w3`.
impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}/w{}", self.node, self.rank)
    }
}

/// The most workers that may share a CPU.
pub const MOST_ON_A_CPU: usize = 64;

/// Why wishes for workers cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChooseError {
    /// No worker was asked for.
    #[error("0 threads can do no work; ask for at least 1")]
    NoThreads,
    /// More workers than CPUs.
    #[error(
        "{asked} threads were asked for but this process may use {allowed} CPUs ({cpus}) of the chosen nodes; ask for at most {allowed}, or for oversubscription"
    )]
    TooManyThreads {
        /// Workers asked for.
        asked: usize,
        /// CPUs that they may use.
        allowed: usize,
        /// Those CPUs.
        cpus: CpuSet,
    },
    /// More workers on a CPU than could ever be of use.
    #[error(
        "{asked} threads on {allowed} CPUs are more than {MOST_ON_A_CPU} on each; ask for at most {most}",
        most = allowed * MOST_ON_A_CPU
    )]
    FarTooManyThreads {
        /// Workers asked for.
        asked: usize,
        /// CPUs that they may use.
        allowed: usize,
    },
    /// A node that the host does not have.
    #[error("node {node} is not one of the nodes {online}")]
    NoSuchNode {
        /// The node.
        node: NodeId,
        /// Nodes that are online.
        online: CpuSet,
    },
    /// None of the nodes has a CPU that may be used.
    #[error("none of the chosen nodes has a CPU among the allowed ones ({allowed})")]
    NoCpus {
        /// CPUs that may be used.
        allowed: CpuSet,
    },
    /// The topology is of another machine.
    #[error(
        "{source_name} does not describe this machine, and its CPUs cannot be pinned to; switch pinning off to run a simulated host"
    )]
    NotThisHost {
        /// Where the topology came from.
        source_name: String,
    },
}

/// Chooses seats; the same for the same topology and wishes.
///
/// First threads of cores come before second ones, and within that the nodes take turns. The result
/// is sorted by node and rank.
///
/// # Errors
/// [`ChooseError`].
pub fn choose(topology: &Topology, wishes: &WorkerChoice) -> Result<Vec<Seat>, ChooseError> {
    if wishes.pinning != Pinning::Off && !topology.is_host {
        return Err(ChooseError::NotThisHost {
            source_name: topology.source.to_string(),
        });
    }
    for &node in wishes.nodes.iter().flatten() {
        if topology.node(node).is_none() {
            return Err(ChooseError::NoSuchNode {
                node,
                online: topology
                    .nodes
                    .iter()
                    .map(|node| u32::from(node.id.get()))
                    .collect(),
            });
        }
    }
    let order = order(topology, wishes);
    if order.is_empty() {
        return Err(ChooseError::NoCpus {
            allowed: topology.allowed_cpus.clone(),
        });
    }
    let threads = match wishes.threads {
        Some(0) => return Err(ChooseError::NoThreads),
        Some(asked) if asked > order.len() && !wishes.oversubscribe => {
            return Err(ChooseError::TooManyThreads {
                asked,
                allowed: order.len(),
                cpus: order.iter().map(|(_, cpu)| *cpu).collect(),
            });
        }
        Some(asked) if asked.div_ceil(order.len()) > MOST_ON_A_CPU => {
            return Err(ChooseError::FarTooManyThreads {
                asked,
                allowed: order.len(),
            });
        }
        Some(asked) => asked,
        None => order.len(),
    };
    let mut ranks: BTreeMap<NodeId, u32> = BTreeMap::new();
    let mut seats: Vec<Seat> = order
        .iter()
        .cycle()
        .take(threads)
        .map(|&(node, cpu)| {
            let rank = ranks.entry(node).or_default();
            *rank += 1;
            Seat {
                node,
                rank: *rank - 1,
                cpu,
            }
        })
        .collect();
    seats.sort_by_key(|seat| (seat.node, seat.rank));
    Ok(seats)
}

/// All usable CPUs with their nodes, best first.
fn order(topology: &Topology, wishes: &WorkerChoice) -> Vec<(NodeId, u32)> {
    // Ranks count usable threads only: where a mask takes a core's first thread away, its second
    // one is as good.
    let mut used: HashMap<u32, u32> = HashMap::new();
    let mut usable: Vec<(u32, NodeId, u32, u32, u32)> = topology
        .cpus
        .iter()
        .filter(|cpu| topology.allowed_cpus.contains(cpu.id))
        .map(|cpu| (topology.home(cpu), cpu))
        .filter(|(node, _)| wishes.nodes.as_ref().is_none_or(|list| list.contains(node)))
        .map(|(node, cpu)| {
            let thread = used.entry(cpu.core).or_default();
            *thread += 1;
            (*thread - 1, node, cpu.l3, cpu.core, cpu.id)
        })
        .collect();
    // within a thread rank and node: groups one after the other, cores ascending
    usable.sort_unstable();
    let mut turns: HashMap<(u32, NodeId), u32> = HashMap::new();
    let mut in_group: HashMap<(u32, NodeId, u32), u32> = HashMap::new();
    let mut keyed: Vec<_> = usable
        .into_iter()
        .map(|(thread, node, l3, _, id)| {
            let place = in_group.entry((thread, node, l3)).or_default();
            *place += 1;
            let key = match wishes.spread {
                Spread::Packed => (0, l3),
                Spread::Spread => (*place, l3),
            };
            (thread, node, key, id)
        })
        .collect();
    keyed.sort_by_key(|&(thread, node, key, id)| (thread, node, key, id));
    let mut placed: Vec<_> = keyed
        .into_iter()
        .map(|(thread, node, _, id)| {
            let turn = turns.entry((thread, node)).or_default();
            *turn += 1;
            (thread, *turn, node, id)
        })
        .collect();
    placed.sort_unstable();
    placed
        .into_iter()
        .map(|(_, _, node, id)| (node, id))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{presets, synthetic};

    fn seats(text: &str, wishes: WorkerChoice) -> String {
        let host = synthetic::parse(text).unwrap();
        let wishes = WorkerChoice {
            pinning: Pinning::Off,
            ..wishes
        };
        let seats = choose(&host, &wishes).unwrap();
        let words: Vec<_> = seats.iter().map(|s| format!("{s}={}", s.cpu)).collect();
        words.join(" ")
    }

    #[test]
    fn cores_come_before_their_second_threads_and_nodes_take_turns() {
        let host = "pack:2 numa core:2 pu:2";
        let of = |threads| seats(host, WorkerChoice::threads(threads));
        assert_eq!(of(1), "n0/w0=0");
        assert_eq!(of(2), "n0/w0=0 n1/w0=4");
        assert_eq!(of(4), "n0/w0=0 n0/w1=2 n1/w0=4 n1/w1=6");
        assert_eq!(of(5), "n0/w0=0 n0/w1=2 n0/w2=1 n1/w0=4 n1/w1=6");
    }

    #[test]
    fn workers_are_spread_or_packed_over_caches() {
        let host = "numa l3:2 core:3";
        let packed = WorkerChoice {
            spread: Spread::Packed,
            ..WorkerChoice::threads(3)
        };
        assert_eq!(
            seats(host, WorkerChoice::threads(3)),
            "n0/w0=0 n0/w1=3 n0/w2=1"
        );
        assert_eq!(seats(host, packed), "n0/w0=0 n0/w1=1 n0/w2=2");
    }

    #[test]
    fn chosen_nodes_alone_are_used() {
        let wishes = WorkerChoice {
            nodes: Some(vec![NodeId::new(1)]),
            ..WorkerChoice::default()
        };
        assert_eq!(seats("numa:3 core:2", wishes), "n1/w0=2 n1/w1=3");
    }

    #[test]
    fn a_mask_that_takes_first_threads_away_leaves_the_second_ones() {
        let mut host = synthetic::parse("numa core:2 pu:2").unwrap();
        host.allowed_cpus = "1-3".parse().unwrap();
        let wishes = WorkerChoice {
            pinning: Pinning::Off,
            ..WorkerChoice::threads(2)
        };
        let seats = choose(&host, &wishes).unwrap();
        assert_eq!(seats.iter().map(|s| s.cpu).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn wishes_that_cannot_be_met_are_refused_with_numbers() {
        let host = synthetic::parse("numa:2 core:2").unwrap();
        let off = |wishes| WorkerChoice {
            pinning: Pinning::Off,
            ..wishes
        };
        let refused = |wishes: WorkerChoice| choose(&host, &wishes).unwrap_err();
        assert_eq!(
            refused(off(WorkerChoice::threads(0))),
            ChooseError::NoThreads
        );
        let error = refused(off(WorkerChoice::threads(5)));
        assert!(
            error.to_string().contains("may use 4 CPUs (0-3)"),
            "{error}"
        );
        let error = refused(off(WorkerChoice {
            nodes: Some(vec![NodeId::new(7)]),
            ..WorkerChoice::default()
        }));
        assert!(
            error
                .to_string()
                .contains("node 7 is not one of the nodes 0-1"),
            "{error}"
        );
        let error = refused(WorkerChoice::default());
        assert!(error.to_string().contains("switch pinning off"), "{error}");
        let mut nothing = host.clone();
        nothing.allowed_cpus = CpuSet::new();
        assert!(matches!(
            choose(&nothing, &off(WorkerChoice::default())),
            Err(ChooseError::NoCpus { .. })
        ));
        let shared = off(WorkerChoice {
            oversubscribe: true,
            ..WorkerChoice::threads(5)
        });
        assert_eq!(choose(&host, &shared).unwrap().len(), 5);
    }

    #[test]
    fn no_seat_is_outside_the_mask_and_none_is_taken_twice() {
        for preset in presets::ALL {
            let mut host = preset.topology().unwrap();
            host.allowed_cpus = host
                .cpus
                .iter()
                .map(|cpu| cpu.id)
                .filter(|id| id % 3 != 1)
                .collect();
            for threads in [1, 7, host.allowed_cpus.len()] {
                let wishes = WorkerChoice {
                    pinning: Pinning::Off,
                    ..WorkerChoice::threads(threads)
                };
                let seats = choose(&host, &wishes).unwrap();
                let cpus: CpuSet = seats.iter().map(|seat| seat.cpu).collect();
                assert_eq!(cpus.len(), threads, "{}", preset.name);
                assert!(cpus.is_subset(&host.allowed_cpus));
                for seat in &seats {
                    assert_eq!(host.cpu(seat.cpu).unwrap().node, Some(seat.node));
                }
            }
        }
    }
}
