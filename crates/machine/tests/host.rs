//! Hosts made of files, in every state of readability.

use std::fs;
use std::path::Path;

use machine::{HostError, MemoryBlocks, MemorySource, NodeSource, Note, host};
use memblock::{NodeId, PhysAddr, PhysRange};

const MIB: u64 = 1 << 20;

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Blocks of 128 MiB: 0 to 3, the last offline; node 1 has block 2 and shares block 1.
fn blocks(root: &Path) {
    put(
        root,
        "sys/devices/system/memory/block_size_bytes",
        "8000000\n",
    );
    for block in 0..4 {
        let state = if block == 3 { "offline\n" } else { "online\n" };
        put(
            root,
            &format!("sys/devices/system/memory/memory{block}/state"),
            state,
        );
    }
    for (node, block) in [(0, 0), (0, 1), (1, 1), (1, 2), (1, 3)] {
        put(
            root,
            &format!("sys/devices/system/node/node{node}/memory{block}/state"),
            "online\n",
        );
    }
    put(root, "sys/devices/system/node/node7/cpulist", "3\n");
}

const ZONES: &str = "Node 0, zone   Normal\n        spanned  49152\n        present  49000\n  start_pfn:           0\n\
                     Node 1, zone   Normal\n        spanned  49152\n        present  49152\n  start_pfn:           49152\n";

fn range(start: u64, end: u64) -> PhysRange {
    PhysRange::new(PhysAddr::new(start), PhysAddr::new(end))
}

fn read(root: &Path) -> machine::MachineLayout {
    host::read_below(root).unwrap_or_else(|error| panic!("{error}"))
}

fn memory(layout: &machine::MachineLayout) -> Vec<(Option<u16>, PhysRange)> {
    let memory = layout.memory.iter();
    memory.map(|m| (m.node.map(NodeId::get), m.range)).collect()
}

#[test]
fn iomem_is_taken_where_it_shows_addresses_and_a_shared_block_is_split_by_zones() {
    let root = tempfile::tempdir().unwrap();
    blocks(root.path());
    put(root.path(), "proc/zoneinfo", ZONES);
    put(
        root.path(),
        "proc/iomem",
        "00001000-0009ffff : System RAM\n00100000-17ffffff : System RAM\n  01000000-01ffffff : Kernel code\n",
    );
    put(
        root.path(),
        "proc/self/smaps",
        "KernelPageSize:        4 kB\n",
    );
    put(
        root.path(),
        "var/log/dmesg",
        "[    0.000000] Linux version 6.12.1\nZone ranges:\n[    0.700000] node 1 deferred pages initialised in 48ms\n",
    );
    let layout = read(root.path());
    assert_eq!(layout.provenance.memory, MemorySource::Iomem);
    assert_eq!(layout.provenance.nodes, NodeSource::Sysfs);
    assert_eq!(
        memory(&layout),
        [
            (Some(0), range(0x1000, 0xa_0000)),
            (Some(0), range(MIB, 192 * MIB)),
            (Some(1), range(192 * MIB, 384 * MIB)),
        ]
    );
    assert_eq!(layout.memoryless, [NodeId::new(7)]);
    assert_eq!(layout.reserved.len(), 1);
    let deferred: Vec<_> = layout.figures.deferred_init().collect();
    assert_eq!(deferred, [(NodeId::new(1), None, 48)]);
}

/// Blocks of 128 MiB, each with its state and nodes.
fn tree(root: &Path, blocks: &[(&str, &[u64])]) {
    let system = "sys/devices/system";
    put(
        root,
        &format!("{system}/memory/block_size_bytes"),
        "8000000\n",
    );
    for (block, (state, nodes)) in blocks.iter().enumerate() {
        put(root, &format!("{system}/memory/memory{block}/state"), state);
        for node in *nodes {
            let file = format!("{system}/node/node{node}/memory{block}/state");
            put(root, &file, state);
        }
    }
}

fn iomem(root: &Path, blocks: u64) {
    let text = format!("00001000-{:08x} : System RAM\n", blocks * 128 * MIB - 1);
    put(root, "proc/iomem", &text);
}

#[test]
fn memory_in_a_block_that_is_offline_is_left_out_and_that_is_told() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let (on, off): (&str, &str) = ("online\n", "offline\n");
    tree(root, &[(on, &[0]), (on, &[0]), (off, &[0]), (on, &[1])]);
    iomem(root, 4);
    put(
        root,
        "var/log/dmesg",
        "Linux version 6.12.1\nZone ranges:\n  Normal   empty\n",
    );
    let layout = read(root);
    assert_eq!(
        memory(&layout),
        [
            (Some(0), range(0x1000, 256 * MIB)),
            (Some(1), range(384 * MIB, 512 * MIB)),
        ]
    );
    assert_eq!(
        layout.provenance.notes,
        [Note::Offline { bytes: 128 * MIB }]
    );
    assert!(layout.figures.is_empty(), "they are of all memory");
    let told = layout.provenance.to_string();
    assert!(
        told.contains("128M in blocks that are offline are left out"),
        "{told}"
    );
    machine::check::build(&layout, &layout.profile()).unwrap();
}

#[test]
fn memory_that_no_block_claims_is_given_to_the_node_beside_and_that_is_told() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let on = "online\n";
    // block 1 is between two nodes; blocks 3 and 4 are not there
    tree(root, &[(on, &[0]), (on, &[]), (on, &[1])]);
    iomem(root, 5);
    let layout = read(root);
    assert_eq!(
        memory(&layout),
        [
            (Some(0), range(0x1000, 256 * MIB)),
            (Some(1), range(256 * MIB, 640 * MIB)),
        ]
    );
    let note = Note::NoBlock {
        bytes: 384 * MIB,
        first: range(128 * MIB, 256 * MIB),
    };
    assert_eq!(layout.provenance.notes, [note]);
    put(root, "proc/zoneinfo", ZONES);
    let layout = read(root);
    assert_eq!(
        memory(&layout),
        [
            (Some(0), range(0x1000, 192 * MIB)),
            (Some(1), range(192 * MIB, 640 * MIB)),
        ]
    );
    machine::check::build(&layout, &layout.profile()).unwrap();
}

#[test]
fn an_entry_of_sysfs_that_is_broken_costs_that_entry_alone_and_is_told() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let on = "online\n";
    tree(root, &[(on, &[0]), (on, &[1]), (on, &[70_000])]);
    iomem(root, 3);
    let nodes = root.join("sys/devices/system/node");
    std::os::unix::fs::symlink("node2", nodes.join("node2")).unwrap();
    put(root, "sys/devices/system/node/node3", "");
    put(root, "sys/devices/system/node/node1024/cpulist", "");
    fs::remove_file(root.join("sys/devices/system/memory/memory1/state")).unwrap();
    let blocks = MemoryBlocks::read(root).unwrap();
    let odd = blocks.oddities.iter();
    let odd: Vec<_> = odd
        .map(|odd| odd.file.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(odd, ["memory1", "node2", "node3", "node1024", "node70000"]);
    let layout = read(root);
    assert_eq!(
        memory(&layout),
        [
            (Some(0), range(0x1000, 128 * MIB)),
            (Some(1), range(128 * MIB, 384 * MIB)),
        ]
    );
    let told = layout.provenance.to_string();
    for part in [
        "node2: left out (",
        "node3: left out (",
        "node70000: left out (a kernel numbers nodes up to 1023)",
        "memory1: taken to be online (",
        "128M in no block of a node",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn blocks_are_taken_where_iomem_hides_its_addresses() {
    let root = tempfile::tempdir().unwrap();
    blocks(root.path());
    put(root.path(), "proc/zoneinfo", ZONES);
    put(
        root.path(),
        "proc/iomem",
        "00000000-00000000 : System RAM\n",
    );
    let layout = read(root.path());
    assert_eq!(layout.provenance.memory, MemorySource::Sysfs);
    assert_eq!(
        memory(&layout),
        [
            (Some(0), range(0, 192 * MIB)),
            (Some(1), range(192 * MIB, 384 * MIB)),
        ]
    );
}

#[test]
fn zones_are_taken_where_there_is_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "proc/zoneinfo", ZONES);
    let layout = read(root.path());
    assert_eq!(layout.provenance.memory, MemorySource::Zoneinfo);
    assert_eq!(layout.memory_bytes(), (49000 + 49152) * 4096);
}

#[test]
fn a_host_that_tells_nothing_is_an_error_that_names_all_three_sources() {
    let root = tempfile::tempdir().unwrap();
    let error = host::read_below(root.path()).unwrap_err();
    assert!(matches!(error, HostError::NothingReadable { .. }));
    let text = error.to_string();
    for source in ["proc/iomem", "sys/devices/system/memory", "proc/zoneinfo"] {
        assert!(text.contains(source), "{text}");
    }
}

#[test]
fn rubbish_in_every_file_does_not_panic() {
    let root = tempfile::tempdir().unwrap();
    put(
        root.path(),
        "sys/devices/system/memory/block_size_bytes",
        "zz\n",
    );
    put(
        root.path(),
        "proc/zoneinfo",
        "Node 99999999999, zone X\nspanned 18446744073709551616\n",
    );
    put(
        root.path(),
        "proc/iomem",
        "ffffffffffffffffff-0 : System RAM\n\0\0-\n",
    );
    assert!(host::read_below(root.path()).is_err());
    put(
        root.path(),
        "sys/devices/system/memory/block_size_bytes",
        "8000000000000000\n",
    );
    put(
        root.path(),
        "sys/devices/system/memory/memory18446744073709551615/state",
        "\n",
    );
    put(
        root.path(),
        "proc/zoneinfo",
        "Node 0, zone DMA\n spanned 18446744073709551615\n present 18446744073709551615\n start_pfn: 18446744073709551615\n",
    );
    let _ = host::read_below(root.path());
}

#[test]
fn this_host_has_memory_or_says_why_not() {
    match host::read() {
        Ok(layout) => {
            eprintln!("{}: {} bytes", layout.provenance, layout.memory_bytes());
            assert!(layout.memory_bytes() > 0);
            assert!(layout.memory.iter().all(|memory| memory.node.is_some()));
            assert!(layout.memblock().is_ok());
        }
        Err(error) => {
            captures::skipped(&format!("{error}"));
            // anyone may read this file, and it suffices
            let zoneinfo = std::fs::read("/proc/zoneinfo");
            assert!(zoneinfo.is_err(), "{error}");
        }
    }
}
