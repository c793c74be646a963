//! Small logs in our own numbers: what is read from them, and what is refused.

use machine::check::{self, Verdict};
use machine::{
    BootLog, FigureKind, LayoutError, MachineError, MachineLayout, MemorySource, Missing,
    NodeSource, NotModelled, ReadError, ReservedSource,
};
use memblock::{NodeId, PhysAddr, PhysRange};

/// Two nodes of a made-up amd64 machine; the second begins in the middle of a range of memory.
const TWO_NODES: &str = "\
Linux version 6.12.9 (x@y) (x86_64-linux-gnu-gcc 12) #1 SMP
Command line: quiet
BIOS-provided physical RAM map:
BIOS-e820: [mem 0x0000000000000000-0x000000000009b7ff] usable
BIOS-e820: [mem 0x000000000009b800-0x000000000009ffff] reserved
BIOS-e820: [mem 0x0000000000100000-0x00000000717fffff] usable
BIOS-e820: [mem 0x0000000071800000-0x0000000071ffffff] ACPI NVS
BIOS-e820: [mem 0x0000000100000000-0x00000002ffff1fff] usable
BIOS-e820: [mem 0x0000000300000000-0x00000003ffffffff] persistent (type 7)
e820: update [mem 0x00000000-0x00000fff] usable ==> reserved
e820: remove [mem 0x000a0000-0x000fffff] usable
last_pfn = 0x2ffff2 max_arch_pfn = 0x400000000
Using GB pages for direct mapping
ACPI: SRAT: Node 0 PXM 0 [mem 0x00000000-0x7fffffff]
ACPI: SRAT: Node 0 PXM 0 [mem 0x100000000-0x1ffffffff]
ACPI: SRAT: Node 1 PXM 1 [mem 0x200000000-0x3ffffffff]
NUMA: Node 0 [mem 0x00001000-0x7fffffff] + [mem 0x100000000-0x1ffffffff] -> [mem 0x00001000-0x1ffffffff]
Zone ranges:
  DMA      [mem 0x0000000000001000-0x0000000000ffffff]
  DMA32    [mem 0x0000000001000000-0x00000000ffffffff]
  Normal   [mem 0x0000000100000000-0x00000002ffff1fff]
  Device   empty
Movable zone start for each node
Early memory node ranges
  node   0: [mem 0x0000000000001000-0x000000000009afff]
  node   0: [mem 0x0000000000100000-0x00000000717fffff]
  node   0: [mem 0x0000000100000000-0x00000001ffffffff]
  node   1: [mem 0x0000000200000000-0x00000002ffff1fff]
Initmem setup node 0 [mem 0x0000000000001000-0x00000001ffffffff]
Initmem setup node 1 [mem 0x0000000200000000-0x00000002ffff1fff]
On node 0, zone DMA: 1 pages in unavailable ranges
On node 0, zone DMA: 101 pages in unavailable ranges
On node 0, zone Normal: 26624 pages in unavailable ranges
On node 1, zone Normal: 14 pages in unavailable ranges
Fallback order for Node 0: 0 1
Fallback order for Node 1: 1 0
Fallback order for Node 5: 0 1
Built 3 zonelists, mobility grouping on.  Total pages: 2561932
Policy zone: Normal
Memory: 9999999K/10247728K available (1K kernel code, 1K rwdata, 1K rodata, 1K init, 1K bss, 77K reserved, 0K cma-reserved)
node 1 deferred pages initialised in 48ms
";

fn log(text: &str) -> BootLog {
    BootLog::read("text", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

fn layout(text: &str) -> MachineLayout {
    MachineLayout::from_log(&log(text)).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> LayoutError {
    MachineLayout::from_log(&log(text)).unwrap_err()
}

fn memory(layout: &MachineLayout) -> Vec<(u16, u64, u64)> {
    let row = |memory: &machine::MemoryRange| {
        let range = memory.range;
        let node = memory.node.map_or(u16::MAX, NodeId::get);
        (node, range.start().get(), range.end().get())
    };
    layout.memory.iter().map(row).collect()
}

const TWO_NODES_MEMORY: [(u16, u64, u64); 4] = [
    (0, 0x1000, 0x9_b000),
    (0, 0x10_0000, 0x7180_0000),
    (0, 0x1_0000_0000, 0x2_0000_0000),
    (1, 0x2_0000_0000, 0x2_ffff_2000),
];

#[test]
fn an_amd64_log_gives_memory_nodes_devices_and_figures_that_agree() {
    let layout = layout(TWO_NODES);
    assert_eq!(memory(&layout), TWO_NODES_MEMORY);
    assert_eq!(layout.provenance.memory, MemorySource::FirmwareMap);
    assert_eq!(layout.provenance.nodes, NodeSource::Affinity);
    assert_eq!(layout.memoryless, [NodeId::new(5)]);
    assert_eq!(layout.devices.len(), 1);
    assert!(layout.devices[0].persistent);
    let report = check::check(&layout);
    for figure in &report.figures {
        let fine = matches!(figure.verdict, Verdict::Equal | Verdict::CannotKnow(_));
        assert!(fine, "{figure:?}");
    }
    assert!(report.tally().equal == 23, "{}", report.tally());
}

#[test]
fn a_wrong_figure_is_found_whichever_it_is() {
    for (right, wrong, what) in [
        (
            "-0x00000002ffff1fff]\n  Device",
            "-0x00000002ffff0fff]\n  Device",
            "zone range",
        ),
        ("DMA: 101 pages", "DMA: 100 pages", "unavailable pages"),
        (
            "Total pages: 2561932",
            "Total pages: 2561930",
            "zonelist total",
        ),
        ("Built 3 zonelists", "Built 2 zonelists", "zonelists"),
        ("last_pfn = 0x2ffff2", "last_pfn = 0x2ffff3", "last pfn"),
        ("for Node 1: 1 0", "for Node 1: 1 2", "fallback order"),
        ("10247728K", "10247736K", "Memory total"),
        ("Policy zone: Normal", "Policy zone: DMA32", "policy zone"),
        (
            "node 1 [mem 0x0000000200000000",
            "node 1 [mem 0x0000000200001000",
            "initmem",
        ),
    ] {
        assert!(TWO_NODES.contains(right), "{right}");
        let report = check::check(&layout(&TWO_NODES.replace(right, wrong)));
        let differs: Vec<_> = report
            .figures
            .iter()
            .filter(|figure| matches!(figure.verdict, Verdict::Differs { .. }))
            .map(|figure| figure.what)
            .collect();
        assert!(differs.contains(&what), "{what}: {differs:?}");
        assert!(!report.agrees());
    }
}

#[test]
fn the_wording_of_7_1_and_the_old_debug_level_say_the_same() {
    let new = TWO_NODES
        .replace("] usable\n", "]  System RAM\n")
        .replace("] reserved\n", "]  device reserved\n")
        .replace("] ACPI NVS\n", "]  ACPI NVS\n")
        .replace("] persistent (type 7)", "]  persistent RAM (type 7)")
        .replace(
            "BIOS-e820: [mem 0x0000000100000000",
            "BIOS-e820: [gap 0x0000000072000000-0x00000000ffffffff]\nBIOS-e820: [mem 0x0000000100000000",
        )
        .replace("usable ==> reserved", "System RAM ==> device reserved");
    assert_eq!(memory(&layout(&new)), TWO_NODES_MEMORY);
    let quiet: String = TWO_NODES
        .lines()
        .filter(|line| !line.starts_with("e820: "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(memory(&layout(&quiet)), TWO_NODES_MEMORY);
}

#[test]
fn every_style_of_stamp_gives_the_same_layout() {
    let plain = layout(TWO_NODES);
    for stamp in [
        "[    0.000000] ",
        "[    0.000000][    T0] ",
        "<6>[    0.000000] ",
        "6,17,0,-;",
        "kern  :info  : [    0.000000] ",
        "[Mon Nov 30 14:40:00 2026] ",
        "2026-11-30T14:40:00,000000+01:00 ",
        "Nov 30 14:40:00 host kernel: ",
        "2026-11-30T14:40:00+0100 host kernel: [    0.000000] ",
        "> [    0.000000] ",
        "\u{1b}[32m[    0.000000] \u{1b}[0m",
        "> > ",
        "<6>[    0.000000][    T0] ",
        "<14>1 2026-11-30T14:40:00Z host kernel: ",
        "[Nov30 14:40] ",
        "[  +0.000012] ",
        "Nov 30 14:40:00 host kernel: [    0.000000] ",
        "> <6>[    0.000000] ",
    ] {
        let stamped: String = TWO_NODES
            .lines()
            .map(|line| format!("{stamp}{line}\r\n"))
            .collect();
        let layout = layout(&format!("```\r\n{stamped}```\r\n"));
        assert_eq!(layout.memory.len(), plain.memory.len(), "{stamp:?}");
        assert_eq!(memory(&layout), TWO_NODES_MEMORY, "{stamp:?}");
        assert_eq!(layout.figures.len(), plain.figures.len(), "{stamp:?}");
        assert!(
            layout.problems.is_empty(),
            "{stamp:?}: {:?}",
            layout.problems
        );
    }
}

#[test]
fn a_user_map_replaces_the_firmwares_and_changes_after_memblock_do_not_count() {
    let user = TWO_NODES
        .replace(
            "e820: update [mem 0x00000000",
            "user-defined physical RAM map:\n\
             user: [mem 0x0000000000000000-0x000000000009b7ff] usable\n\
             user: [mem 0x0000000000100000-0x00000000107fffff] usable\n\
             user: [mem 0x0000000100000000-0x000000013fffffff] persistent (type 12)\n\
             user: [mem 0x0000000140000000-0x00000002ffffffff] usable\n\
             e820: update [mem 0x00000000",
        )
        .replace(
            "ACPI: SRAT: Node 0 PXM 0 [mem 0x00000000",
            "e820: update [mem 0x00100000-0x107fffff] usable ==> reserved\n\
             ACPI: SRAT: Node 0 PXM 0 [mem 0x00000000",
        );
    assert_eq!(
        memory(&layout(&user)),
        [
            (0, 0x1000, 0x9_b000),
            (0, 0x10_0000, 0x1080_0000),
            (0, 0x1_4000_0000, 0x2_0000_0000),
            (1, 0x2_0000_0000, 0x3_0000_0000),
        ]
    );
}

#[test]
fn what_the_log_shows_of_nodes_beats_what_its_command_line_asks_for() {
    let asked = TWO_NODES.replace("quiet", "quiet numa=fake=4");
    assert_eq!(layout(&asked).nodes().len(), 2);
    let faked = asked.replace(
        "Zone ranges:",
        "Faking node 0 at [mem 0x0000000000000000-0x00000000ffffffff] (4096MB)\n\
         Faking node 1 at [mem 0x0000000100000000-0x00000001ffffffff] (4096MB)\n\
         Faking node 2 at [mem 0x0000000200000000-0x00000002ffff1fff] (4096MB)\n\
         Zone ranges:",
    );
    assert_eq!(layout(&faked).provenance.nodes, NodeSource::Emulated);
    assert_eq!(layout(&faked).nodes().len(), 3);
    let single = TWO_NODES.replace(
        "Zone ranges:",
        "Faking a node at [mem 0x0000000000000000-0x00000002ffff1fff]\nZone ranges:",
    );
    assert_eq!(layout(&single).provenance.nodes, NodeSource::Single);
    assert_eq!(layout(&single).nodes(), [NodeId::new(0)]);
}

const DUMP: &str = "\
Linux version 6.12.9 (x@y) (aarch64-linux-gnu-gcc 12) #1 SMP
MEMBLOCK configuration:
 memory size = 0x00000000c0000000 reserved size = 0x0000000001003000
 memory.cnt  = 0x3
 memory[0x0]\t[0x0000000040000000-0x000000007fffffff], 0x0000000040000000 bytes on node 0 flags: 0x0
 memory[0x1]\t[0x0000000080000000-0x00000000800fffff], 0x0000000000100000 bytes on node 0 flags: 0x4
 memory[0x2]\t[0x0000000080100000-0x00000000ffffffff], 0x000000007ff00000 bytes on node 1 flags: 0x0
 reserved.cnt  = 0x2
 reserved[0x0]\t[0x0000000040200000-0x00000000411fffff], 0x0000000001000000 bytes on node 0 flags: 0x0
 reserved[0x1]\t[0x00000000fffff000-0x00000000fffff7ff], 0x0000000000000800 bytes flags: 0x0
memblock_reserve: [0x0000000050000000-0x0000000050000fff] memblock_alloc_range_nid+0x1/0x2
memblock_phys_free: [0x0000000040300000-0x00000000403fffff] somebody+0x1/0x2
memblock_remove: [0x00000000f0000000-0x0000000000000000] somebody+0x1/0x2
SLUB: HWalign=64, Order=0-3, MinObjects=0, CPUs=2, Nodes=2
memblock_phys_free: [0x0000000050000000-0x0000000050000fff] later+0x1/0x2
";

#[test]
fn a_dump_is_taken_with_flags_and_replayed_up_to_the_hand_over() {
    let layout = layout(DUMP);
    assert_eq!(layout.provenance.memory, MemorySource::MemblockDump);
    assert_eq!(layout.provenance.reserved, ReservedSource::MemblockDump);
    assert_eq!(layout.memory[1].flags, 4);
    let memblock = layout.memblock().unwrap();
    assert_eq!(memblock.memory().len(), 3);
    assert_eq!(memblock.end_of_dram(), PhysAddr::new(0xf000_0000));
    let reserved: Vec<_> = memblock
        .reserved()
        .iter()
        .map(|region| (region.range().start().get(), region.range().len()))
        .collect();
    assert_eq!(
        reserved,
        [
            (0x4020_0000, 0x10_0000),
            (0x4040_0000, 0xe0_0000),
            (0x5000_0000, 0x1000),
            (0xffff_f000, 0x800),
        ]
    );
}

#[test]
fn a_dump_that_is_cut_or_edited_is_not_taken() {
    let cut = DUMP.replace(" memory.cnt  = 0x3", " memory.cnt  = 0x4");
    assert!(matches!(refused(&cut), LayoutError::FrontLost { .. }));
    // With its reservations cut, memory is still known, and what is missing is said.
    let cut = layout(&DUMP.replace(" reserved.cnt  = 0x2", " reserved.cnt  = 0x3"));
    assert_eq!(cut.memory, layout(DUMP).memory);
    assert_eq!(cut.provenance.reserved, ReservedSource::CutDump);
    let edited = DUMP.replace(
        "[0x0000000080000000-0x00000000800fffff], 0x0000000000100000",
        "[0x0000000070000000-0x00000000800fffff], 0x0000000010100000",
    );
    assert!(matches!(refused(&edited), LayoutError::OutOfOrder { .. }));
}

#[test]
fn a_dump_and_a_firmware_map_that_disagree_are_both_reported() {
    let other = DUMP.replace("aarch64", "x86_64").replace(
        "MEMBLOCK",
        "BIOS-provided physical RAM map:\n\
         BIOS-e820: [mem 0x0000000040000000-0x00000000efffffff] usable\nMEMBLOCK",
    );
    let layout = layout(&other);
    assert_eq!(layout.provenance.memory, MemorySource::MemblockDump);
    let found = &layout.provenance.contradictions;
    assert!(!found.is_empty());
    let text = found.last().unwrap().to_string();
    assert!(
        text.contains("memblock dump (line 9)") && text.contains("firmware map (line 3)"),
        "{text}"
    );
    assert!(text.contains("no memory"), "{text}");
}

#[test]
fn early_ranges_are_the_last_resort_and_then_prove_nothing() {
    let front = TWO_NODES.split_once("Zone ranges:").unwrap().1;
    let layout = layout(&format!("Zone ranges:{front}"));
    assert_eq!(memory(&layout), TWO_NODES_MEMORY);
    assert!(layout.provenance.uses_early_ranges());
    for figure in layout.figures.iter() {
        let ranges = matches!(
            figure.kind,
            FigureKind::EarlyRange { .. } | FigureKind::Initmem { .. }
        );
        assert_eq!(layout.is_input(figure), ranges, "{figure:?}");
    }
}

#[test]
fn a_garbled_line_of_the_input_is_named_and_nothing_is_called_wrong_for_it() {
    let front = TWO_NODES.split_once("Zone ranges:").unwrap().1.replace(
        "node   0: [mem 0x0000000100000000-0x00000001ffffffff]",
        "node   0: [mem 0x000000010000  node   0: [mem",
    );
    let layout = layout(&format!("Zone ranges:{front}"));
    assert_eq!(layout.provenance.unreadable, 1);
    assert_eq!(layout.problems.count(), 1);
    assert_eq!(check::check(&layout).tally().differs, 0);
}

#[test]
fn a_file_that_is_missing_or_no_log_is_refused_with_its_name() {
    let missing = MachineLayout::open("/nowhere/at/all").unwrap_err();
    assert!(matches!(missing, MachineError::Read(ReadError::Io { .. })));
    assert!(
        missing.to_string().starts_with("/nowhere/at/all: "),
        "{missing}"
    );
    for text in [
        "",
        "\n\n",
        "hello\nworld\n",
        "{\"a\": [1, 2]}\n",
        "\0\0\0\n",
    ] {
        let error = BootLog::read("some.txt", text.as_bytes()).unwrap_err();
        assert!(matches!(error, ReadError::NotABootLog { .. }), "{text:?}");
        let shown = error.to_string();
        assert!(
            shown.contains("some.txt") && shown.contains("dmesg"),
            "{shown}"
        );
    }
    let error = BootLog::read("some.txt", "\nhello\n".as_bytes()).unwrap_err();
    assert!(error.to_string().contains("line 2: `hello`"), "{error}");
}

#[test]
fn a_log_whose_front_is_lost_says_what_is_missing_and_what_is_known() {
    let tail = TWO_NODES.split_once("Fallback order").unwrap().1;
    let LayoutError::FrontLost { missing, known, .. } = refused(tail) else {
        panic!("not refused as it should be");
    };
    assert!(missing.contains(&Missing::EarlyRanges) && missing.contains(&Missing::FirmwareMap));
    assert_eq!(known, [Missing::MemoryLine]);
    let text = refused(tail).to_string();
    assert!(
        text.contains("`Early memory node ranges`") && text.contains("log_buf_len"),
        "{text}"
    );
    // Without its heading a firmware map may have lost its first lines: it is not trusted.
    let cut = TWO_NODES.split_once("physical RAM map:\n").unwrap().1;
    assert!(layout(cut).provenance.uses_early_ranges());
}

#[test]
fn nodes_that_overlap_are_refused_with_both_lines() {
    let overlap = TWO_NODES.replace(
        "Node 1 PXM 1 [mem 0x200000000",
        "Node 1 PXM 1 [mem 0x1f0000000",
    );
    let error = refused(&overlap);
    let LayoutError::OverlappingNodes {
        range,
        first,
        second,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((first.get(), second.get()), (0, 1));
    let expected = PhysRange::new(PhysAddr::new(0x1_f000_0000), PhysAddr::new(0x2_0000_0000));
    assert_eq!(*range, expected);
    assert!(error.to_string().contains("line 15") && error.to_string().contains("line 16"));
}

/// The same machine by UEFI's map alone, in the wording of 3.10 and the later one.
#[test]
fn a_uefi_map_is_taken_where_the_kernels_own_is_lost_and_else_compared() {
    let bios = TWO_NODES.split_once("BIOS-provided").unwrap();
    let (_, rest) = bios.1.split_once("e820: update").unwrap();
    let old = "efi: mem00: type=4, attr=0xf, range=[0x0000000000000000-0x000000000009b800) (0MB)\n\
               efi: mem01: type=7, attr=0xf, range=[0x0000000000100000-0x0000000040000000) (1023MB)\n\
               efi: mem02: type=2, attr=0xf, range=[0x0000000040000000-0x0000000071800000) (792MB)\n\
               efi: mem03: type=10, attr=0xf, range=[0x0000000071800000-0x0000000072000000) (8MB)\n\
               efi: mem04: type=7, attr=0xf, range=[0x0000000100000000-0x00000002ffff2000) (8191MB)\n";
    let alone = format!("{}{old}e820: update{rest}", bios.0);
    let layout_of_uefi = layout(&alone);
    assert_eq!(memory(&layout_of_uefi), TWO_NODES_MEMORY);
    assert_eq!(layout_of_uefi.provenance.memory, MemorySource::EfiMap);
    assert_eq!(check::check(&layout_of_uefi).tally().differs, 0);
    let both = layout(&TWO_NODES.replace("e820: update", &format!("{old}e820: update")));
    assert_eq!(both.provenance.memory, MemorySource::FirmwareMap);
    assert_eq!(both.provenance.contradictions, []);
    let less = old.replace("0000000071800000) (792MB)", "0000000070000000) (768MB)");
    let other = layout(&TWO_NODES.replace("e820: update", &format!("{less}e820: update")));
    let [found] = &other.provenance.contradictions[..] else {
        panic!("{:?}", other.provenance.contradictions);
    };
    assert!(
        found.to_string().contains(
            "firmware map (line 6) has memory without a node, UEFI map (line 12) has no memory"
        ),
        "{found}"
    );
}

#[test]
fn hotpluggable_memory_is_marked_where_the_kernel_is_not_and_mirrored_where_it_was_asked_for() {
    let hot = TWO_NODES
        .replace("0x100000000-0x1ffffffff]\n", "0x100000000-0x1ffffffff] hotplug\n")
        .replace("0x200000000-0x3ffffffff]\n", "0x200000000-0x2bfffffff] hotplug\nACPI: SRAT: Node 1 PXM 1 [mem 0x2c0000000-0x3ffffffff]\n");
    let flags = |layout: &MachineLayout| -> Vec<_> {
        let memory = layout.memory.iter();
        memory
            .map(|memory| (memory.range.start().get(), memory.flags))
            .collect()
    };
    // Node 0 holds the kernel, so it keeps no mark; node 1 is split where the mark ends.
    let expected = [
        (0x1000, 0),
        (0x10_0000, 0),
        (0x1_0000_0000, 0),
        (0x2_0000_0000, 1),
        (0x2_c000_0000, 0),
    ];
    assert_eq!(flags(&layout(&hot)), expected);
    let movable = layout(&hot.replace("quiet", "movable_node"));
    let zones = memmap_core::Geometry::new(
        &movable.profile(),
        &movable.memblock().unwrap(),
        &movable.boot_options(),
    )
    .unwrap();
    let start = zones.nodes()[1].movable_start.map(|pfn| pfn.get());
    assert_eq!(start, Some(0x20_0000), "all of node 1 is movable");
    let mirror = "efi: mem00: [Conventional Memory|   |  |  |MR|  |  |  |  |   |WB|WT|WC|UC] range=[0x0000000000100000-0x000000003fffffff] (1023MB)\n";
    let mirrored = TWO_NODES.replace("e820: update", &format!("{mirror}e820: update"));
    assert!(
        layout(&mirrored)
            .memory
            .iter()
            .all(|memory| memory.flags == 0),
        "nobody asked"
    );
    let asked = layout(&mirrored.replace("quiet", "kernelcore=mirror"));
    assert_eq!(flags(&asked)[1..3], [(0x10_0000, 2), (0x4000_0000, 0)]);
}

#[test]
fn the_page_size_is_inferred_from_what_fits_and_the_figures_that_decide_are_named() {
    // 4 GiB in two banks of a 64 KiB kernel; no hash table, no release that names it.
    let log = "Linux version 6.1.9 (x@y) (aarch64-linux-gnu-gcc 12) #1 SMP\nZone ranges:\n\
               \x20 DMA      [mem 0x0000000040000000-0x00000000ffffffff]\n  DMA32    empty\n\
               \x20 Normal   [mem 0x0000000100000000-0x000000015fffffff]\nMovable zone start for each node\n\
               Early memory node ranges\n  node   0: [mem 0x0000000040000000-0x00000000cfffffff]\n\
               \x20 node   0: [mem 0x0000000100000000-0x000000015fffffff]\n\
               Initmem setup node 0 [mem 0x0000000040000000-0x000000015fffffff]\n\
               On node 0 totalpages: 61440\n  DMA zone: 36864 pages, LIFO batch:3\n\
               \x20 Normal zone: 24576 pages, LIFO batch:3\nOn node 0, zone Normal: 4096 pages in unavailable ranges\n";
    let layout = layout(log);
    let report = check::check(&layout);
    assert_eq!(report.profile.page_size(), 65536);
    let said: Vec<_> = report.inferences.iter().map(ToString::to_string).collect();
    assert_eq!(
        said[0],
        "page size 64 KiB: totalpages, 2 zone pages lines, 2 LIFO batch lines and hole line agree; \
         4 KiB: 0 of 6; 16 KiB: 0 of 6"
    );
    assert!(
        said.iter()
            .any(|said| said.starts_with("NODES_SHIFT 4: the usual one")),
        "{said:?}"
    );
    assert!(report.agrees(), "{:#?}", report.figures);
    // A kind of figure is never judged by a rule that it chose: alone it decides nothing.
    let alone = log
        .split_once("  DMA zone")
        .unwrap()
        .0
        .replace("61440", "983040");
    let report = check::check(&self::layout(&alone));
    assert_eq!(report.profile.page_size(), 4096);
    let lonely = log.split_once("  DMA zone").unwrap().0;
    let report = check::check(&self::layout(lonely));
    assert_eq!(
        report.profile.page_size(),
        65536,
        "for building, all that there is counts"
    );
    let verdicts = report
        .figures
        .iter()
        .filter(|figure| figure.what == "totalpages");
    let verdicts: Vec<_> = verdicts.map(|figure| figure.verdict.name()).collect();
    assert_eq!(verdicts, ["cannot know"], "for scoring it does not");
}

#[test]
fn a_node_beyond_the_usual_ones_widens_node_numbers() {
    let log = "Linux version 6.12.9 (x@y) (riscv64-linux-gnu-gcc 12) #1 SMP\nEarly memory node ranges\n\
               \x20 node   0: [mem 0x0000000080000000-0x00000000bfffffff]\n  node   7: [mem 0x00000000c0000000-0x00000000ffffffff]\n\
               Initmem setup node 0 [mem 0x0000000080000000-0x00000000bfffffff]\nInitmem setup node 7 [mem 0x00000000c0000000-0x00000000ffffffff]\n\
               On node 7 totalpages: 262144\n";
    let report = check::check(&layout(log));
    assert_eq!(report.error, None);
    assert_eq!(report.profile.nodes_shift, 3);
    let said = report.inferences.last().unwrap().to_string();
    assert_eq!(
        said,
        "NODES_SHIFT 3: node 7 is named; the usual 2 would end at node 3"
    );
}

#[test]
fn a_log_that_was_cut_is_read_as_far_as_it_goes_and_says_what_is_missing() {
    let front = TWO_NODES.split_once("Zone ranges:").unwrap().1;
    let front = front.split_once("Fallback order").unwrap().0;
    let cut = layout(&format!(
        "** 17 printk messages dropped **\nZone ranges:{front}"
    ));
    let said = cut.provenance.to_string();
    assert!(
        said.contains(
            "not in the log: `Linux version`, `Command line:`, the firmware's memory map, `Memory:`"
        ),
        "{said}"
    );
    assert!(said.contains("the kernel dropped 17 messages"), "{said}");
    assert!(layout(TWO_NODES).provenance.missing.is_empty());
}

#[test]
fn addresses_of_32_bits_show_a_32_bit_kernel_on_a_64_bit_processor() {
    let log = "Linux version 6.3.0 (x@y) (riscv64-unknown-linux-gnu-gcc 13) #1 SMP\nZone ranges:\n\
               \x20 Normal   [mem 0x0000000060200000-0x0000000067ffffff]\nEarly memory node ranges\n\
               \x20 node   0: [mem 0x0000000060200000-0x0000000067ffffff]\nVirtual kernel memory layout:\n\
               \x20     lowmem : 0xc0000000 - 0xc7e00000   ( 126 MB)\n";
    let error = refused(log);
    assert!(
        matches!(
            error,
            LayoutError::NotModelled {
                what: NotModelled::Bits32,
                ..
            }
        ),
        "{error}"
    );
    let wide = log.replace(
        "0xc0000000 - 0xc7e00000",
        "0xffffffd800000000 - 0xffffffd807e00000",
    );
    assert!(check::check(&layout(&wide)).error.is_none());
}

#[test]
fn numbers_beyond_64_bits_are_problems_not_figures() {
    let huge = TWO_NODES
        .replace(
            "0x00000002ffff1fff] usable",
            "0x123456789abcdef012345] usable",
        )
        .replace("DMA: 101 pages", "DMA: 99999999999999999999 pages");
    let layout = layout(&huge);
    assert_eq!(layout.problems.count(), 2);
    assert!(
        layout.provenance.uses_early_ranges(),
        "a broken map is not taken"
    );
    let top = TWO_NODES.replace("0x00000002ffff1fff] usable", "0xffffffffffffffff] usable");
    let _ = check::check(&self::layout(&top));
}

#[test]
fn machines_that_are_not_modelled_are_refused_in_one_sentence() {
    let narrow = TWO_NODES.replace("max_arch_pfn = 0x400000000", "max_arch_pfn = 0x1000000");
    for (text, expected) in [
        (narrow, NotModelled::Bits32),
        (
            TWO_NODES.replace("BIOS-e820: [mem", "Xen: [mem"),
            NotModelled::XenPv,
        ),
        (
            "Linux version 5.4.0 (a@b) (sparc64-linux-gcc 9)\nEarly memory node ranges\n  node   0: [mem 0x0-0x1fffffff]\n".to_owned(),
            NotModelled::Architecture(machine::Architecture::Sparc64),
        ),
        (
            "Linux version 3.2.0 (a@b) (x86_64-gcc)\nZone PFN ranges:\n  DMA 0x00000010 -> 0x00001000\n".to_owned(),
            NotModelled::PfnFormat,
        ),
    ] {
        match refused(&text) {
            LayoutError::NotModelled { what, .. } => assert_eq!(what, expected),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn what_the_boot_loader_handed_over_is_told_by_edges_in_one_range() {
    let log = |cut: &str| {
        let text = format!(
            "BIOS-provided physical RAM map:\n\
             BIOS-e820: [mem 0x0000000000001000-0x000000000009ffff] usable\n\
             BIOS-e820: [mem 0x0000000000100000-0x000000007fffffff] usable\n\
             BIOS-e820: [mem 0x00000000fe000000-0x00000000ffffffff] reserved\n{cut}"
        );
        let log = BootLog::read("log", text.as_bytes()).expect("a log");
        let found = log.firmware.setup_data();
        let numbers = found
            .iter()
            .map(|(range, line)| (range.start().get(), range.end().get(), *line));
        numbers.collect::<Vec<_>>()
    };
    let heading = "reserve setup_data:";
    let low = format!("{heading} [mem 0x0000000000001000-0x000000000009ffff] usable\n");
    // at the start of a range, and twice inside another
    let at_start = format!(
        "{heading} [mem 0x0000000000001000-0x000000000000106f] usable\n\
         {heading} [mem 0x0000000000001070-0x000000000009ffff] usable\n\
         {heading} [mem 0x0000000000100000-0x000000003fffffff] usable\n\
         {heading} [mem 0x0000000040000000-0x000000004000001f] usable\n\
         {heading} [mem 0x0000000040000020-0x000000005fffffff] usable\n\
         {heading} [mem 0x0000000060000000-0x000000006000001f] usable\n\
         {heading} [mem 0x0000000060000020-0x000000007fffffff] usable\n\
         {heading} [mem 0x00000000fe000000-0x00000000ffffffff] reserved\n"
    );
    assert_eq!(
        log(&at_start),
        [
            (0x1000, 0x1070, 5),
            (0x4000_0000, 0x4000_0020, 8),
            (0x6000_0000, 0x6000_0020, 10)
        ]
    );
    // pieces that do not touch were cut by a change of the map
    let changed = format!(
        "{low}{heading} [mem 0x0000000000100000-0x000000003fffffff] usable\n\
         {heading} [mem 0x0000000040000000-0x0000000040000fff] reserved\n\
         {heading} [mem 0x0000000040001000-0x000000007fffffff] usable\n"
    );
    assert_eq!(log(&changed), []);
    assert_eq!(log(""), []);
}

#[test]
fn last_pfn_lines_may_name_all_memory_and_what_lies_below_4_gib_in_any_order() {
    let (all, low) = (0x2f_fff2, 0x7_1800);
    let verdicts = |pfns: &[u64]| -> Vec<Verdict> {
        let lines: Vec<_> = pfns
            .iter()
            .map(|pfn| format!("last_pfn = {pfn:#x} max_arch_pfn = 0x400000000\n"))
            .collect();
        let line = "last_pfn = 0x2ffff2 max_arch_pfn = 0x400000000\n";
        let text = TWO_NODES.replace(line, &lines.concat());
        let report = check::check(&layout(&text));
        let figures = report.figures.into_iter();
        let figures = figures.filter(|figure| figure.what == "last pfn");
        figures.map(|figure| figure.verdict).collect()
    };
    let differs = |ours: &str| Verdict::Differs {
        ours: Some(ours.to_owned()),
    };
    for right in [
        &[all][..],
        &[all, low],
        &[low, all],
        &[low, all, low],
        &[all, all, low],
    ] {
        assert_eq!(
            verdicts(right),
            vec![Verdict::Equal; right.len()],
            "{right:x?}"
        );
    }
    let either = differs("0x2ffff2 or 0x71800");
    assert_eq!(
        verdicts(&[low + 1, all, low - 1]),
        [either.clone(), Verdict::Equal, either]
    );
    // a kernel that found all memory below 4 GiB is another machine's
    assert_eq!(verdicts(&[low]), [differs("0x2ffff2")]);
    assert_eq!(verdicts(&[low, all + 1]), vec![differs("0x2ffff2"); 2]);
    assert_eq!(verdicts(&[]), []);
}

#[test]
fn a_line_that_is_cut_is_a_problem_with_its_number() {
    let long = "x".repeat(17 << 10);
    let read = log(&TWO_NODES.replace("Using GB pages", &long));
    let problems: Vec<_> = read.problems.iter().collect();
    assert_eq!(problems.len(), 1);
    let told = problems[0].to_string();
    assert!(
        told.starts_with("line 13: ") && told.contains("expected a line end within 16 KiB"),
        "{told}"
    );
    // line ends of another kind make one line of a log
    let cr = format!("{}{}", TWO_NODES, "later\n".repeat(4000)).replace('\n', "\r");
    assert_eq!(
        BootLog::read("cr", cr.as_bytes()).map_or(0, |log| log.problems.count()),
        1
    );
    let iomem = machine::Iomem::read("iomem", format!("0-fff : {long}\n").as_bytes()).unwrap();
    assert_eq!(iomem.problems.count(), 1);
}
