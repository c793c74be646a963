//! Topologies of recorded hosts, against expectations derived by hand from their files.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "a list of blocks may hold one range"
)]

use std::process::Command;

use deferred_init::topology::{Counts, Note, Topology, sysfs};
use memblock::NodeId;

/// Unpacks and reads a tree; `None`, and a line that says so, where it is not there.
fn tree(name: &str) -> Option<Topology> {
    let archive = captures::file("topologies", &format!("{name}.tgz"))?;
    let into = tempfile::tempdir().unwrap();
    let status = Command::new("tar")
        .arg("xzf")
        .arg(&archive)
        .arg("-C")
        .arg(into.path())
        .status()
        .unwrap();
    assert!(status.success(), "{name} is unpacked");
    Some(sysfs::read(into.path()).unwrap())
}

fn counts(topology: &Topology) -> [u32; 4] {
    let Counts {
        packages,
        dies,
        l3_groups,
        cores,
    } = topology.counts();
    [packages, dies, l3_groups, cores]
}

fn node(topology: &Topology, id: u16) -> &deferred_init::topology::Node {
    topology.node(NodeId::new(id)).unwrap()
}

fn distance(topology: &Topology, from: u16, to: u16) -> u32 {
    topology.distance(NodeId::new(from), NodeId::new(to))
}

#[test]
fn an_arm_host_with_uneven_distances_is_read() {
    let Some(host) = tree("128arm-2pa2n8cluster4co") else {
        return;
    };
    assert_eq!(counts(&host), [2, 2, 4, 128]);
    assert_eq!(host.cpus.len(), 128);
    assert_eq!(node(&host, 1).cpus.to_string(), "32-63");
    assert_eq!(node(&host, 0).memory, 131_732_940 * 1024);
    assert_eq!(distance(&host, 1, 2), 25);
    assert_eq!(distance(&host, 0, 3), 33);
    let ids: Vec<_> = host.nodes.iter().map(|node| node.id).collect();
    let near = host.by_distance(NodeId::new(2), &ids);
    assert_eq!(
        near.iter().map(|n| n.get()).collect::<Vec<_>>(),
        [2, 3, 1, 0]
    );
    assert_eq!(host.allowed_cpus.to_string(), "0-127");
    assert_eq!(host.notes, []);
}

#[test]
fn cpus_in_turn_over_nodes_and_a_hole_in_memory_are_read() {
    let Some(host) = tree("40intel64-2g2n4c+pcilocality") else {
        return;
    };
    assert_eq!(counts(&host), [4, 4, 4, 40]);
    assert_eq!(
        node(&host, 0).cpus.to_string(),
        "0,4,8,12,16,20,24,28,32,36"
    );
    assert_eq!(node(&host, 0).blocks, [0..16, 32..1040]);
    assert_eq!(node(&host, 3).blocks, [3088..4112]);
    assert_eq!(host.offline.to_string(), "");
}

#[test]
fn sparse_node_numbers_are_kept() {
    let Some(host) = tree("48amd64-4pa2n6c-sparse") else {
        return;
    };
    let ids: Vec<_> = host.nodes.iter().map(|node| node.id.get()).collect();
    assert_eq!(ids, [0, 1, 2, 33, 34, 45, 72, 73]);
    assert_eq!(counts(&host), [4, 4, 8, 48]);
    assert_eq!(node(&host, 72).cpus.to_string(), "36-41");
    assert_eq!(node(&host, 73).memory, 16_777_216 * 1024);
    assert_eq!(distance(&host, 33, 2), 16);
    assert_eq!(distance(&host, 33, 72), 22);
    assert_eq!(distance(&host, 45, 45), 10);
}

#[test]
fn cores_that_share_a_cache_by_pairs_are_read() {
    let Some(host) = tree("64amd64-4s2n4ca2co") else {
        return;
    };
    // modules of two: what the kernel calls thread siblings
    assert_eq!(counts(&host), [4, 4, 8, 32]);
    let second = host.cpu(1).unwrap();
    assert_eq!((second.core, second.smt), (0, 1));
    assert_eq!(node(&host, 5).memory, 8_388_608 * 1024);
}

#[test]
fn maps_are_read_where_there_are_no_lists() {
    let Some(host) = tree("256ppc-8n8s4t") else {
        return;
    };
    let ids: Vec<_> = host.nodes.iter().map(|node| node.id.get()).collect();
    assert_eq!(ids, [0, 1, 4, 5, 8, 9, 12, 13]);
    assert_eq!(node(&host, 0).cpus.to_string(), "0-31");
    // by its files node 4 holds the sixth word from the right
    assert_eq!(
        host.nodes.iter().map(|node| node.cpus.len()).sum::<usize>(),
        256
    );
    assert!(host.nodes.iter().all(|node| node.cpus.len() == 32));
    assert_eq!(host.counts().cores, 64);
    assert_eq!(host.cpu(7).unwrap().smt, 3);
    assert_eq!(distance(&host, 12, 13), 20);
    assert_eq!(distance(&host, 12, 0), 40);
}

#[test]
fn a_node_without_cpus_is_read() {
    let Some(host) = tree("128ia64-17n4s2c") else {
        return;
    };
    assert_eq!(host.nodes.len(), 17);
    assert!(node(&host, 16).cpus.is_empty());
    assert_eq!(node(&host, 16).memory, 1_020_176 * 1024);
    assert_eq!(distance(&host, 16, 5), 14);
    assert_eq!(host.cpus.len(), 128);
    assert!(host.cpus.iter().all(|cpu| cpu.node.is_some()));
}

#[test]
fn block_lists_of_some_nodes_only_are_read() {
    let Some(host) = tree("memorysidecaches") else {
        return;
    };
    assert_eq!(counts(&host), [2, 2, 2, 40]);
    let blocks = |id| -> u64 { node(&host, id).blocks.iter().map(|b| b.end - b.start).sum() };
    assert_eq!([0, 1, 2, 3].map(blocks), [0, 135, 0, 378]);
    assert_eq!(host.cpu(40).unwrap().smt, 1);
    assert_eq!(host.cpu(40).unwrap().core, host.cpu(0).unwrap().core);
}

#[test]
fn offline_cpus_and_a_missing_node_0_are_read() {
    let Some(host) = tree("offline-cpu0-node0") else {
        return;
    };
    assert_eq!(host.cpus.len(), 17);
    assert_eq!(host.offline.to_string(), "0-3,21-23");
    assert_eq!(host.nodes.len(), 1);
    assert_eq!(host.nodes[0].id, NodeId::new(1));
    // its own list names offline CPUs too
    assert_eq!(host.nodes[0].cpus.to_string(), "5,7,9,11,13,15,17,19");
    let stray = "4,6,8,10,12,14,16,18,20".parse().unwrap();
    assert_eq!(host.notes, [Note::CpusWithoutNode(stray)]);
    assert_eq!(host.home(host.cpu(4).unwrap()), NodeId::new(1));
    assert_eq!(host.allowed_cpus.to_string(), "4-20");
    assert_eq!(host.allowed_nodes.to_string(), "1");
}

#[test]
fn an_offline_cpu_leaves_its_node() {
    let Some(host) = tree("16amd64-8n2c-cpusets") else {
        return;
    };
    assert_eq!(host.nodes.len(), 8);
    assert_eq!(host.offline.to_string(), "4");
    assert_eq!(node(&host, 2).cpus.to_string(), "5");
    assert_eq!(distance(&host, 0, 7), 20);
}

#[test]
fn a_host_without_nodes_is_one_node() {
    let Some(host) = tree("2arm-2c") else { return };
    assert_eq!(host.notes, [Note::NoNuma]);
    assert_eq!(host.nodes.len(), 1);
    assert_eq!(host.nodes[0].cpus.to_string(), "0-1");
    assert!(host.nodes[0].memory > 0);
    assert_eq!(host.counts().cores, 2);
}
