//! Folders of files from one machine.

use std::fs;
use std::path::Path;

use machine::{CombineError, MachineLayout, MemorySource, Missing, ReservedSource, check};

const LOG: &str = "Linux version 6.12.9 (a@b) (x86_64-gcc)\nBIOS-provided physical RAM map:\n\
                   BIOS-e820: [mem 0x0000000000001000-0x000000000009ffff] usable\n\
                   BIOS-e820: [mem 0x0000000000100000-0x000000001fffffff] usable\n\
                   last_pfn = 0x20000 max_arch_pfn = 0x400000000\n";

#[test]
fn a_log_counts_and_what_disagrees_with_it_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("dmesg.txt"), LOG).unwrap();
    let agreeing = "00001000-0009ffff : System RAM\n00100000-1fffffff : System RAM\n";
    fs::write(folder.path().join("iomem"), agreeing).unwrap();
    let layout = MachineLayout::from_dir(folder.path()).unwrap();
    assert_eq!(layout.provenance.memory, MemorySource::FirmwareMap);
    assert_eq!(layout.provenance.contradictions, []);
    let other = "00001000-0009ffff : System RAM\n00100000-0fffffff : System RAM\n";
    fs::write(folder.path().join("iomem"), other).unwrap();
    let layout = MachineLayout::from_dir(folder.path()).unwrap();
    let [found] = &layout.provenance.contradictions[..] else {
        panic!("{:?}", layout.provenance.contradictions);
    };
    assert_eq!(
        found.to_string(),
        "[mem 0x0000000010000000-0x000000001fffffff]: firmware map (line 4) has memory of node 0, \
         /proc/iomem (line 2) has no memory; the former is taken"
    );
}

/// Blocks of 128 MiB below `root`: `blocks` are online, all on node 0.
fn sysfs(root: &Path, blocks: &[u32]) {
    let system = root.join("sys/devices/system");
    fs::create_dir_all(system.join("memory")).unwrap();
    fs::write(system.join("memory/block_size_bytes"), "8000000\n").unwrap();
    for block in blocks {
        let folder = system.join(format!("memory/memory{block}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("state"), "online\n").unwrap();
        fs::create_dir_all(system.join(format!("node/node0/memory{block}"))).unwrap();
    }
}

const ZONEINFO: &str = "Node 0, zone      DMA\n        spanned  4095\n        present  3999\n  start_pfn:           1\n\
                        Node 0, zone    DMA32\n        spanned  126976\n        present  126976\n  start_pfn:           4096\n";

#[test]
fn every_source_that_agrees_with_the_log_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put("dmesg", LOG);
    put(
        "iomem",
        "00001000-0009ffff : System RAM\n00100000-1fffffff : System RAM\n",
    );
    put("zoneinfo", ZONEINFO);
    put("meminfo", "MemTotal:         500000 kB\n");
    put(
        "memblock.memory",
        "   0: 0x0000000000001000..0x000000000009ffff    0 NONE\n   1: 0x0000000000100000..0x000000001fffffff    0 NONE\n",
    );
    put(
        "memblock.reserved",
        "   0: 0x0000000000100000..0x0000000000200fff\n",
    );
    sysfs(folder.path(), &[0, 1, 2, 3]);
    let layout = MachineLayout::from_dir(folder.path()).unwrap();
    assert_eq!(layout.provenance.contradictions, []);
    let said = layout.provenance.to_string();
    for source in [
        "debugfs",
        "/proc/iomem",
        "/sys/devices/system/memory",
        "/proc/zoneinfo",
        "/proc/meminfo",
    ] {
        assert!(
            said.contains(&format!("{source} agrees")),
            "{source}: {said}"
        );
    }
    assert_eq!(layout.reserved.len(), 1);
    assert_eq!(layout.provenance.reserved, ReservedSource::Debugfs);
}

#[test]
fn every_source_that_disagrees_is_reported_with_both_lines() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put("dmesg", LOG);
    put(
        "zoneinfo",
        &ZONEINFO.replace("126976\n  start", "126975\n  start"),
    );
    put("meminfo", "MemFree: 1 kB\nMemTotal:         900000 kB\n");
    put(
        "memblock.memory",
        "   0: 0x0000000000001000..0x000000000009ffff    0 NONE\n   1: 0x0000000000100000..0x000000001fffffff    1 NONE\n",
    );
    sysfs(folder.path(), &[0, 1, 3]);
    let layout = MachineLayout::from_dir(folder.path()).unwrap();
    let said: Vec<_> = layout
        .provenance
        .contradictions
        .iter()
        .map(ToString::to_string)
        .collect();
    for expected in [
        "[mem 0x0000000000100000-0x000000001fffffff]: firmware map (line 4) has memory of node 0, memblock in debugfs (line 2) has memory of node 1",
        "[mem 0x0000000010000000-0x0000000017ffffff]: firmware map (line 4) has memory of node 0, /sys/devices/system/memory (line 0) has no memory",
        "node 0: firmware map (line 3) has 130975 pages, /proc/zoneinfo (line 1) has 130974 pages",
        "all memory: firmware map (line 3) has 130975 pages, /proc/meminfo (line 2) has 225000 pages",
    ] {
        assert!(
            said.iter().any(|said| said.starts_with(expected)),
            "{expected}: {said:#?}"
        );
    }
    assert_eq!(said.len(), 4, "{said:#?}");
}

#[test]
fn what_a_log_lost_is_taken_from_the_other_files_and_its_figures_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put(
        "dmesg",
        "Linux version 6.12.9 (a@b) (x86_64-gcc)\nlast_pfn = 0x20000 max_arch_pfn = 0x400000000\n\
                  Zone ranges:\n  DMA      [mem 0x0000000000001000-0x0000000000ffffff]\n  DMA32    [mem 0x0000000001000000-0x000000001fffffff]\n  Normal   empty\n\
                  Memory: 400000K/523900K available (1K kernel code, 1K rwdata, 1K rodata, 1K init, 1K bss, 123900K reserved, 0K cma-reserved)\n",
    );
    put(
        "iomem",
        "00001000-0009ffff : System RAM\n00100000-1fffffff : System RAM\n",
    );
    let layout = MachineLayout::from_dir(folder.path()).unwrap();
    assert_eq!(layout.provenance.memory, MemorySource::Iomem);
    assert!(layout.provenance.missing.contains(&Missing::EarlyRanges));
    let report = check::check(&layout);
    assert!(
        report.agrees() && report.tally().equal >= 5,
        "{:#?}",
        report.figures
    );
}

#[test]
fn files_are_known_by_name_or_content_and_each_kind_is_taken_once() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let iomem = put(
        "a",
        "00001000-0009ffff : System RAM\n00100000-1fffffff : System RAM\n",
    );
    let zones = put("b", ZONEINFO);
    let log = put("c", LOG);
    let layout = MachineLayout::from_files(&[&iomem, &zones, &log]).unwrap();
    assert_eq!(layout.provenance.memory, MemorySource::FirmwareMap);
    assert_eq!(layout.provenance.compared.len(), 2);
    let layout = MachineLayout::from_files(&[&iomem, &zones]).unwrap();
    assert_eq!(layout.provenance.memory, MemorySource::Iomem);
    let toml = put("d", &layout.to_toml().unwrap());
    let again = MachineLayout::from_files(&[&toml, &zones]).unwrap();
    assert_eq!(
        again.memblock().unwrap().memory(),
        layout.memblock().unwrap().memory()
    );
    let other = put("e.iomem.txt", "0-ff : System RAM\n");
    let error = MachineLayout::from_files(&[&iomem, &other]).unwrap_err();
    assert!(matches!(error, CombineError::Twice { .. }), "{error}");
    let meminfo = put("meminfo", "MemTotal: 5 kB\n");
    let error = MachineLayout::from_files(&[&meminfo]).unwrap_err();
    assert!(matches!(error, CombineError::NoMemory { .. }), "{error}");
    assert!(error.to_string().contains("give a boot log"), "{error}");
}

#[test]
fn an_empty_folder_says_what_to_put_there() {
    let folder = tempfile::tempdir().unwrap();
    let error = MachineLayout::from_dir(folder.path()).unwrap_err();
    assert!(matches!(error, CombineError::Nothing { .. }));
    assert!(error.to_string().contains("dmesg.txt"), "{error}");
}
