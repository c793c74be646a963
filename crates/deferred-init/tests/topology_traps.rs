//! What sysfs has in store, each in a tree made for it.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "a list of blocks may hold one range"
)]

use std::fmt::Write;
use std::path::Path;

use deferred_init::CpuSet;
use deferred_init::topology::{Note, presets, synthetic, sysfs};
use expect_test::expect;
use memblock::NodeId;

/// Makes files from lines `PATH: TEXT`; `\0` stands for a NUL byte.
fn make(root: &Path, files: &str) {
    for line in files.lines().filter(|line| !line.trim().is_empty()) {
        let (path, text) = line.trim().split_once(": ").unwrap();
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.replace("\\0", "\0") + "\n").unwrap();
    }
}

fn read(files: &str) -> String {
    let root = tempfile::tempdir().unwrap();
    make(root.path(), files);
    let topology = sysfs::read(root.path()).unwrap();
    let text = topology.to_string();
    text.replace(root.path().to_str().unwrap(), "ROOT")
}

#[test]
fn a_nul_byte_ends_a_file() {
    expect![[r#"
        sysfs under ROOT: 1 packages, 1 dies, 1 L3 groups, 2 cores, 2 CPUs, 1 nodes
        node 3: 2 MiB, CPUs 0-1, distances 10
    "#]]
    .assert_eq(&read(
        r"
        sys/devices/system/cpu/online: 0-1
        sys/devices/system/node/has_cpu: 3\0\0
        sys/devices/system/node/possible: 3\0
        sys/devices/system/node/node3/cpulist: 0-1\0rest
        sys/devices/system/node/node3/distance: 10
        sys/devices/system/node/node3/meminfo: Node 3 MemTotal:       2048 kB
        ",
    ));
}

#[test]
fn more_than_1024_cpus_are_read() {
    let root = tempfile::tempdir().unwrap();
    make(
        root.path(),
        "sys/devices/system/cpu/online: 0-2047
         sys/devices/system/node/node0/cpulist: 0-1023
         sys/devices/system/node/node1/cpulist: 1024-2047",
    );
    let topology = sysfs::read(root.path()).unwrap();
    assert_eq!(topology.cpus.len(), 2048);
    assert_eq!(topology.cpu(2047).unwrap().node, Some(NodeId::new(1)));
    assert_eq!(
        topology.notes.len(),
        2,
        "both rows of distances are missing"
    );
    assert_eq!(topology.distance(NodeId::new(0), NodeId::new(1)), 20);
}

#[test]
fn what_we_are_allowed_comes_from_our_own_status() {
    let text = read(
        "sys/devices/system/cpu/online: 0-7
         sys/devices/system/node/node0/cpulist: 0-3
         sys/devices/system/node/node0/distance: 10 21
         sys/devices/system/node/node1/cpulist: 4-7
         sys/devices/system/node/node1/distance: 21 10
         proc/self/status: Cpus_allowed_list:\t2-3,9
         sys/fs/cgroup/cpuset/cpuset.cpus: 0-7",
    );
    assert!(text.contains("allowed CPUs 2-3\n"), "{text}");
    assert!(!text.contains("allowed nodes"), "{text}");
    let restricted = read(
        "sys/devices/system/cpu/online: 0-3
         sys/devices/system/node/node0/cpulist: 0-1
         sys/devices/system/node/node0/distance: 10 21
         sys/devices/system/node/node1/cpulist: 2-3
         sys/devices/system/node/node1/distance: 21 10
         sys/fs/cgroup/cpuset/cpuset.mems: 1",
    );
    assert!(restricted.contains("allowed nodes 1\n"), "{restricted}");
}

#[test]
fn distances_that_fit_no_set_of_nodes_are_unknown() {
    let text = read(
        "sys/devices/system/cpu/online: 0
         sys/devices/system/node/node0/cpulist: 0
         sys/devices/system/node/node0/distance: 10 20 30
         sys/devices/system/node/node2/distance: ten 10",
    );
    assert!(
        text.contains("the distances of node 0 are unknown"),
        "{text}"
    );
    assert!(
        text.contains("node 2: 0 MiB, no CPUs, distances ? ?"),
        "{text}"
    );
}

#[test]
fn an_unreadable_list_is_noted_and_its_map_taken() {
    let root = tempfile::tempdir().unwrap();
    make(
        root.path(),
        "sys/devices/system/cpu/online: 0-3
         sys/devices/system/node/node0/cpulist: zero
         sys/devices/system/node/node0/cpumap: 00000000,0000000f
         sys/devices/system/node/node0/distance: 10",
    );
    let topology = sysfs::read(root.path()).unwrap();
    assert_eq!(topology.nodes[0].cpus.to_string(), "0-3");
    assert!(matches!(&topology.notes[..], [Note::Unreadable { .. }]));
}

#[test]
fn a_hidden_sys_is_an_error_that_says_what_to_do() {
    let error = sysfs::read(Path::new("/nowhere")).unwrap_err();
    assert!(error.to_string().contains("synthetic"), "{error}");
}

#[test]
fn a_synthetic_host_is_built_level_by_level() {
    let host = synthetic::parse("pack:2 die:2 numa(memory=384G) core:26 pu:2").unwrap();
    expect![[r#"
        synthetic pack:2 die:2 numa(memory=384G) core:26 pu:2: 2 packages, 4 dies, 4 L3 groups, 104 cores, 208 CPUs, 4 nodes
        node 0: 393216 MiB, CPUs 0-51, distances 10 12 21 21
        node 1: 393216 MiB, CPUs 52-103, distances 12 10 21 21
        node 2: 393216 MiB, CPUs 104-155, distances 21 21 10 12
        node 3: 393216 MiB, CPUs 156-207, distances 21 21 12 10
    "#]]
    .assert_eq(&host.to_string());
}

#[test]
fn presets_are_as_their_machines() {
    let mut all = String::new();
    for preset in presets::ALL {
        let host = preset.topology().unwrap();
        let counts = host.counts();
        writeln!(
            all,
            "{}: {} packages, {} L3, {} cores, {} CPUs, nodes {}, {} GiB",
            preset.name,
            counts.packages,
            counts.l3_groups,
            counts.cores,
            host.cpus.len(),
            host.allowed_nodes,
            host.nodes.iter().map(|node| node.memory >> 30).sum::<u64>(),
        )
        .unwrap();
        assert!(!host.is_host, "a preset is never pinned to");
    }
    expect![[r#"
        arm64-128: 2 packages, 4 L3, 128 cores, 128 CPUs, nodes 0-3, 512 GiB
        epyc-nps4: 2 packages, 16 L3, 128 cores, 256 CPUs, nodes 0-7, 512 GiB
        opteron-8n: 4 packages, 8 L3, 64 cores, 64 CPUs, nodes 0-7, 255 GiB
        power-8n: 4 packages, 8 L3, 64 cores, 256 CPUs, nodes 0-1,4-5,8-9,12-13, 512 GiB
        snc-pmem: 2 packages, 4 L3, 56 cores, 112 CPUs, nodes 0-5, 1408 GiB
        superdome-64n: 64 packages, 64 L3, 1024 cores, 2048 CPUs, nodes 0-63, 65536 GiB
        xeon-8167m: 2 packages, 2 L3, 52 cores, 104 CPUs, nodes 0-1, 768 GiB
        xeon-4s-512g: 4 packages, 4 L3, 40 cores, 40 CPUs, nodes 0-3, 512 GiB
        xeon-8s-448: 8 packages, 8 L3, 224 cores, 448 CPUs, nodes 0-7, 12288 GiB
    "#]]
    .assert_eq(&all);
}

#[test]
fn neighbouring_nodes_may_share_a_block() {
    let host = presets::by_name("opteron-8n").unwrap().topology().unwrap();
    assert_eq!(host.nodes[0].blocks, [0..16]);
    assert_eq!(host.nodes[1].blocks, [15..32]);
}

#[test]
fn memory_only_nodes_lie_with_their_package() {
    let host = presets::by_name("snc-pmem").unwrap().topology().unwrap();
    let (first, second) = (NodeId::new(4), NodeId::new(5));
    assert!(host.node(first).unwrap().cpus.is_empty());
    assert_eq!(host.node(second).unwrap().memory, 512 << 30);
    assert_eq!(host.distance(first, NodeId::new(0)), 11);
    assert_eq!(host.distance(second, NodeId::new(0)), 21);
    assert_eq!(host.distance(second, NodeId::new(3)), 11);
}

#[test]
fn numbering_settings_give_the_numbers_of_real_hosts() {
    let host = presets::by_name("xeon-4s-512g")
        .unwrap()
        .topology()
        .unwrap();
    assert_eq!(host.nodes[1].cpus.to_string(), "1,5,9,13,17,21,25,29,33,37");
    let smt = presets::by_name("xeon-8167m").unwrap().topology().unwrap();
    assert_eq!(smt.nodes[0].cpus.to_string(), "0-25,52-77");
    let sibling = smt.cpu(52).unwrap();
    assert_eq!((sibling.core, sibling.smt), (0, 1));
}

#[test]
fn texts_that_describe_no_host_say_why() {
    for (text, words) in [
        ("pack:2 socks:3", "no level"),
        ("core:2 pack:2", "lies inside"),
        ("pack:0", "count from 1"),
        ("pack:2 numa(memory=lots)", "memory=SIZE"),
        ("pack:2 numa(memory=1G", "not closed"),
        ("pack:60000 core:60000", "at most 65536"),
        ("pack:18446744073709551615", "count from 1"),
        ("numa:2 ids(0-2)", "for 3 nodes, the host has 2"),
        ("numa:2 matrix(10,20)", "for 1 nodes"),
        ("core(fast)", "attribute"),
        ("numbering(odd)", "smt-last"),
        ("numa blocks(0)", "size"),
    ] {
        let error = synthetic::parse(text).unwrap_err();
        assert!(error.to_string().contains(words), "{text}: {error}");
    }
    assert_eq!(synthetic::parse("").unwrap().cpus.len(), 1);
}

#[test]
fn this_host_is_read_and_may_be_pinned_to() {
    let host = deferred_init::Topology::host().unwrap();
    assert!(host.is_host);
    let mask = CpuSet::from_words(&sys::affinity().unwrap());
    assert!(host.allowed_cpus.is_subset(&mask));
    assert!(!host.allowed_cpus.is_empty());
}
