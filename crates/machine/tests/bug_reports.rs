//! Public bug reports whose machine can be typed in: the right map, or the right diagnosis, comes
//! out of the reading.

use machine::check::{self, Verdict, Warning};
use machine::{BootLog, Iomem, LayoutError, MachineLayout, NodeSource, host};
use memblock::{MemblockFlags, NodeId, Pfn, PhysAddr, PhysRange};
use memmap_core::{Geometry, ZoneKind};

fn layout(text: &str) -> MachineLayout {
    let log = BootLog::read("report", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    MachineLayout::from_log(&log).unwrap_or_else(|error| panic!("{error}"))
}

fn geometry(layout: &MachineLayout) -> Geometry {
    let memblock = layout.memblock().unwrap();
    Geometry::new(&layout.profile(), &memblock, &layout.boot_options()).unwrap()
}

fn warnings(layout: &MachineLayout) -> Vec<Warning> {
    check::warnings(layout, &layout.memblock().unwrap(), &geometry(layout))
}

/// A host that shows only this in `/proc/iomem`.
fn host_with(iomem: &str) -> MachineLayout {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
    std::fs::write(root.path().join("proc/iomem"), iomem).unwrap();
    std::fs::write(root.path().join("proc/sys/kernel/osrelease"), "6.12.9\n").unwrap();
    host::read_below(root.path()).unwrap_or_else(|error| panic!("{error}"))
}

/// Zone and node of the hole page `pfn`.
fn hole(geometry: &Geometry, pfn: u64) -> Option<(NodeId, Option<ZoneKind>)> {
    let hole = geometry
        .holes()
        .iter()
        .find(|hole| hole.pfns.contains(Pfn::new(pfn)))?;
    Some((hole.node, geometry.profile().zones.kind(hole.zone)))
}

fn memory(layout: &MachineLayout) -> Vec<(u16, u64, u64)> {
    let row = |memory: &machine::MemoryRange| {
        let node = memory.node.map_or(u16::MAX, NodeId::get);
        (node, memory.range.start().get(), memory.range.end().get())
    };
    layout.memory.iter().map(row).collect()
}

/// Case 1: holes of firmware got zone 0 and node 0.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_hole_of_firmware_inside_dma32_is_dma32_s() {
    let layout = host_with(
        "00001000-0009ffff : System RAM\n00100000-7a17afff : System RAM\n\
         7a17b000-7a216fff : Unknown E820 type\n7a217000-7bffffff : System RAM\n",
    );
    let geometry = geometry(&layout);
    for pfn in [0x7a17b, 0x7a216] {
        assert_eq!(
            hole(&geometry, pfn),
            Some((NodeId::new(0), Some(ZoneKind::Dma32)))
        );
    }
    assert_eq!(
        hole(&geometry, 0x80000),
        None,
        "a section without memory has no struct pages"
    );
}

/// Case 2: a tail of memory that is not aligned to a pageblock, behind a big hole.
#[test]
fn the_hole_before_an_unaligned_tail_is_initialised() {
    let layout = layout(
        "Linux version 5.10.1 (a@b) (x86_64-gcc)\nBIOS-provided physical RAM map:\n\
         BIOS-e820: [mem 0x0000000000100000-0x000000004bfabfff] usable\n\
         BIOS-e820: [mem 0x000000004bfac000-0x00000000646b1fff] usable\n\
         BIOS-e820: [mem 0x00000000646b2000-0x00000000793fefff] reserved\n\
         BIOS-e820: [mem 0x00000000793ff000-0x000000007b3fefff] ACPI NVS\n\
         BIOS-e820: [mem 0x000000007b3ff000-0x000000007b787fff] ACPI data\n\
         BIOS-e820: [mem 0x000000007b788000-0x000000007b7fffff] usable\n\
         last_pfn = 0x7b800 max_arch_pfn = 0x400000000\n",
    );
    let geometry = geometry(&layout);
    for pfn in [0x7b600, 0x7b787] {
        assert_eq!(
            hole(&geometry, pfn),
            Some((NodeId::new(0), Some(ZoneKind::Dma32)))
        );
    }
    assert_eq!(hole(&geometry, 0x7b788), None, "that is memory");
}

/// Case 4: s390x with `mem=2050M`: the last section was only partly initialised.
#[test]
fn the_tail_of_the_last_section_is_initialised_on_s390x() {
    let layout = layout(
        "Linux version 6.12.1 (a@b) (s390x-linux-gnu-gcc)\nMEMBLOCK configuration:\n memory.cnt  = 0x1\n\
         memory[0x0]\t[0x0000000000000000-0x00000000801fffff], 0x0000000080200000 bytes flags: 0x0\n reserved.cnt  = 0x0\n",
    );
    let geometry = geometry(&layout);
    let section = geometry.profile().pages_per_section();
    let end = Pfn::new(0x80200);
    let tail = geometry
        .holes()
        .iter()
        .find(|hole| hole.pfns.start() == end);
    assert_eq!(
        tail.map(|tail| tail.pfns.end()),
        Some(end.align_up(section))
    );
}

/// Case 5: memory without a mapping (arm64).
#[test]
fn ranges_without_a_mapping_are_marked_and_have_struct_pages() {
    let layout = layout(
        "Linux version 6.1.5 (a@b) (aarch64-linux-gnu-gcc)\n\
         OF: reserved mem: 0x0000000080040000..0x000000008004ffff (64 KiB) nomap non-reusable a@80040000\n\
         Early memory node ranges\n  node   0: [mem 0x0000000080000000-0x000000008003ffff]\n\
         \x20 node   0: [mem 0x0000000080040000-0x000000008004ffff]\n  node   0: [mem 0x0000000080050000-0x000000009fffffff]\n",
    );
    assert_eq!(layout.memory[1].flags, MemblockFlags::NOMAP.bits());
    let geometry = geometry(&layout);
    assert!(geometry.page_run(Pfn::new(0x80045)).is_some());
    assert_eq!(geometry.nodes()[0].present, 0x20000);
}

/// Case 10: 61 GiB between two banks of a PolarFire board were counted as unavailable.
#[test]
fn a_hole_of_61_gib_is_counted_with_one_array_and_not_with_sections() {
    let log = |pages: &str| {
        format!(
            "Linux version 5.19.0 (a@b) (riscv64-gcc)\nZone ranges:\n  DMA32    [mem 0x0000000080200000-0x00000000ffffffff]\n\
             \x20 Normal   [mem 0x0000000100000000-0x000000103fffffff]\nEarly memory node ranges\n\
             \x20 node   0: [mem 0x0000000080200000-0x00000000adffffff]\n  node   0: [mem 0x0000001000000000-0x000000103fffffff]\n\
             On node 0, zone Normal: {pages} pages in unavailable ranges\n"
        )
    };
    let verdicts = |log: &str| -> Vec<_> {
        let report = check::check(&layout(log));
        let of_holes = report
            .figures
            .into_iter()
            .filter(|figure| figure.what == "unavailable pages");
        of_holes.map(|figure| figure.verdict.name()).collect()
    };
    // Which of the two a kernel has nothing but the line itself tells, so it is not called wrong.
    assert_eq!(verdicts(&log("16064512")), ["cannot know"]);
    assert!(verdicts(&log("16064513")).contains(&"differs"));
}

/// Case 11: nodes whose spans overlap got the wrong node.
#[test]
fn interleaved_nodes_keep_their_own_ranges() {
    let layout = layout(
        "Linux version 5.2.0 (a@b) (aarch64-gcc)\nEarly memory node ranges\n\
         \x20 node   0: [mem 0x0000000080000000-0x00000000bfffffff]\n  node   1: [mem 0x0000000100000000-0x000000013fffffff]\n\
         \x20 node   0: [mem 0x0000000180000000-0x00000001bfffffff]\n  node   1: [mem 0x0000000200000000-0x000000023fffffff]\n",
    );
    let geometry = geometry(&layout);
    for (pfn, node) in [(0x80000, 0), (0x100000, 1), (0x180000, 0), (0x23ffff, 1)] {
        let found = geometry.memory_at(Pfn::new(pfn)).map(|memory| memory.node);
        assert_eq!(found, Some(NodeId::new(node)), "{pfn:#x}");
    }
    let spans: Vec<_> = geometry.nodes().iter().map(|node| node.span).collect();
    assert!(spans[0].overlaps(spans[1]));
    assert!(geometry.nodes().iter().all(|node| node.present == 0x80000));
}

/// Case 13: nodes 1 and 2 of a kdump kernel vanish.
#[test]
fn a_kdump_kernel_of_four_nodes_has_two_and_its_holes_are_charged_as_it_printed() {
    let layout = layout(
        "Linux version 5.16.0 (a@b) (x86_64-gcc)\nZone ranges:\n  DMA      [mem 0x0000000000001000-0x0000000000ffffff]\n\
         \x20 DMA32    [mem 0x0000000001000000-0x00000000ffffffff]\n  Normal   [mem 0x0000000100000000-0x000003c2bef5cfff]\n  Device   empty\n\
         Movable zone start for each node\nEarly memory node ranges\n  node   0: [mem 0x0000000000001000-0x000000000009ffff]\n\
         \x20 node   0: [mem 0x000000001d000000-0x000000002cffffff]\n  node   3: [mem 0x000003c27f000000-0x000003c2bef5cfff]\n\
         On node 0, zone DMA: 1 pages in unavailable ranges\nOn node 0, zone DMA32: 53088 pages in unavailable ranges\n\
         On node 3, zone Normal: 40960 pages in unavailable ranges\nOn node 3, zone Normal: 4259 pages in unavailable ranges\n",
    );
    assert_eq!(layout.nodes(), [NodeId::new(0), NodeId::new(3)]);
    let geometry = geometry(&layout);
    let online = geometry.nodes().iter().filter(|node| node.online);
    let online: Vec<_> = online.map(|node| node.id.get()).collect();
    assert_eq!(online, [0, 3]);
    let report = check::check(&layout);
    let holes = report
        .figures
        .iter()
        .filter(|figure| figure.what == "unavailable pages");
    assert!(
        holes.clone().count() == 4 && holes.clone().all(|hole| hole.verdict == Verdict::Equal),
        "{report:#?}"
    );
}

/// Case 14: node 0 of a POWER9 has CPUs and no memory.
#[test]
fn a_memoryless_node_0_is_online_and_takes_from_node_1() {
    let layout = layout(
        "Linux version 6.12.0 (a@b) (powerpc64le-gcc)\nnuma: Node 0 CPUs: 0-3\nnuma: Node 1 CPUs: 4-7\n\
         Early memory node ranges\n  node   1: [mem 0x0000000000000000-0x00000000ffffffff]\n\
         \x20 node   1: [mem 0x0000200000000000-0x00002000ffffffff]\nInitmem setup node 0 as memoryless\n\
         Initmem setup node 1 [mem 0x0000000000000000-0x00002000ffffffff]\nFallback order for Node 0: 1\nFallback order for Node 1: 1\n\
         Built 2 zonelists, mobility grouping on.  Total pages: 131072\n",
    );
    assert_eq!(layout.memoryless, [NodeId::new(0)]);
    let report = check::check(&layout);
    let lists = report
        .figures
        .iter()
        .filter(|figure| ["fallback order", "zonelists"].contains(&figure.what));
    assert!(
        lists.clone().count() == 3 && lists.clone().all(|list| list.verdict == Verdict::Equal),
        "{report:#?}"
    );
}

const SRAT: &str = "Linux version 6.12.9 (x@y) (x86_64-gcc)\nBIOS-provided physical RAM map:\n\
     BIOS-e820: [mem 0x0000000000001000-0x000000000009ffff] usable\nBIOS-e820: [mem 0x0000000000100000-0x00000000bfffffff] usable\n\
     BIOS-e820: [mem 0x0000000100000000-0x00000001ffffffff] usable\nlast_pfn = 0x200000 max_arch_pfn = 0x400000000\n";

/// Case 17: the firmware's table puts all memory on node 0 of four.
#[test]
fn a_table_that_gives_all_memory_to_one_node_is_pointed_at() {
    let cpus: String = (0..4)
        .map(|n| format!("ACPI: SRAT: PXM {n} -> APIC 0x0{n} -> Node {n}\n"))
        .collect();
    let layout = layout(&format!(
        "{SRAT}{cpus}ACPI: SRAT: Node 0 PXM 0 [mem 0x00000000-0x1ffffffff]\n"
    ));
    assert_eq!(layout.provenance.nodes, NodeSource::Affinity);
    assert_eq!(layout.memoryless.len(), 3);
    let said = warnings(&layout);
    assert_eq!(said, [Warning::AllMemoryOnOneNode { bare: 3 }]);
    assert!(said[0].to_string().contains("SRAT"));
}

/// Case 19: ranges whose last byte and first byte meet do not overlap.
#[test]
fn a_window_that_begins_behind_the_last_byte_of_a_node_does_not_overlap_it() {
    let meet = format!(
        "{SRAT}ACPI: SRAT: Node 0 PXM 0 [mem 0x100000000-0xffffffffff]\nACPI: SRAT: Node 0 PXM 0 [mem 0x00000000-0xffffffff]\n\
         ACPI: SRAT: Node 1 PXM 1 [mem 0x10000000000-0x1ffffffffff] hotplug\n"
    );
    assert_eq!(layout(&meet).nodes(), [NodeId::new(0)]);
    let overlap = meet.replace("[mem 0x10000000000-", "[mem 0xffffffffff-");
    let log = BootLog::read("report", overlap.as_bytes()).unwrap();
    let error = MachineLayout::from_log(&log).unwrap_err();
    assert!(
        matches!(error, LayoutError::OverlappingNodes { .. }),
        "{error}"
    );
}

/// Case 20: soft-reserved CXL memory is no memory at boot.
#[test]
fn soft_reserved_ranges_are_devices_and_hotplug_windows_add_no_memory() {
    let text = SRAT.replace(
        "last_pfn",
        "BIOS-e820: [mem 0x0000000280000000-0x00000002ffffffff] soft reserved\nlast_pfn",
    );
    let layout = layout(&format!(
        "{text}ACPI: SRAT: Node 0 PXM 0 [mem 0x00000000-0x17fffffff]\nACPI: SRAT: Node 1 PXM 1 [mem 0x180000000-0x1ffffffff]\n\
         ACPI: SRAT: Node 3 PXM 3 [mem 0x300000000-0x6bfffffff] hotplug\n"
    ));
    assert_eq!(
        memory(&layout),
        [
            (0, 0x1000, 0xa_0000),
            (0, 0x10_0000, 0xc000_0000),
            (0, 0x1_0000_0000, 0x1_8000_0000),
            (1, 0x1_8000_0000, 0x2_0000_0000),
        ]
    );
    assert_eq!(layout.devices.len(), 1);
    assert!(!layout.devices[0].persistent);
}

/// Case 22: eight nodes, memory for one.
#[test]
fn a_kdump_kernel_of_eight_nodes_has_all_its_memory_on_one() {
    let nodes: String = (0..8u64)
        .map(|n| {
            format!(
                "ACPI: SRAT: Node {n} PXM {n} [mem {:#x}-{:#x}]\n",
                n << 37,
                ((n + 1) << 37) - 1
            )
        })
        .collect();
    let layout = layout(&format!(
        "Linux version 4.19.57 (a@b) (x86_64-gcc)\nBIOS-provided physical RAM map:\n\
         BIOS-e820: [mem 0x0000000000001000-0x000000000008efff] usable\nBIOS-e820: [mem 0x0000000027000000-0x0000000036f6dfff] usable\n\
         last_pfn = 0x36f6e max_arch_pfn = 0x400000000\n{nodes}"
    ));
    assert_eq!(
        memory(&layout),
        [(0, 0x1000, 0x8_f000), (0, 0x2700_0000, 0x36f6_e000)]
    );
    let map =
        geometry(&layout).sections().count() * geometry(&layout).profile().pages_per_section() * 64;
    // Sections 0 and 4 to 6, 2 MiB of struct pages each.
    assert_eq!(map, 4 << 21);
}

/// Case 23: a reservation that no memory covers.
#[test]
fn a_reservation_outside_memory_is_diagnosed() {
    let layout = layout(
        " memory[0x0]     [0x0000000000200000-0x000000000effffff], 0x000000000ee00000 bytes on node 0 flags: 0x0\n \
         memory[0x1]     [0x0000000090000000-0x00000000fdffffff], 0x000000006e000000 bytes on node 0 flags: 0x0\n \
         reserved.cnt  = 0x1f\n reserved[0x0]   [0x0000000000000000-0x000000000190c80a], 0x000000000190c80b bytes flags: 0x0\n",
    );
    let memblock = layout.memblock().unwrap();
    // Its architecture is not told, so a profile that warns is given.
    let profile = memmap_core::Profile::arm64_4k(memmap_core::KernelVersion::V6_12);
    let geometry = Geometry::new(&profile, &memblock, &layout.boot_options()).unwrap();
    let found = check::warnings(&layout, &memblock, &geometry);
    let range = PhysRange::new(PhysAddr::ZERO, PhysAddr::new(0x20_0000));
    assert_eq!(found, [Warning::ReservedOutsideMemory { range }]);
}

/// Case 29: the table of an SEV-SNP host ends in the middle of a block of 2 MiB.
#[test]
fn memory_behind_an_rmp_table_is_no_memory_once_the_map_says_so() {
    let log = |edit: &str| {
        format!(
            "Linux version 6.9.0 (a@b) (x86_64-gcc)\nBIOS-provided physical RAM map:\n\
             BIOS-e820: [mem 0x0000000000100000-0x000000007fffffff] usable\nBIOS-e820: [mem 0x0000028357f00000-0x0000028357ffffff] usable\n\
             {edit}last_pfn = 0x28358000 max_arch_pfn = 0x400000000\n"
        )
    };
    let end = |layout: &MachineLayout| layout.memory.last().map(|memory| memory.range.end().get());
    assert_eq!(end(&layout(&log(""))), Some(0x283_5800_0000));
    let edit = "e820: update [mem 0x28357e00000-0x28357ffffff] usable ==> reserved\n";
    assert_eq!(end(&layout(&log(edit))), Some(0x8000_0000));
}

/// Cases 31 and 32: memory and persistent memory in one section.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_section_that_memory_shares_with_a_device_has_the_border_where_iomem_shows_it() {
    let text = "00001000-0009ffff : System RAM\n00100000-bfffffff : System RAM\n100000000-1fbffffff : System RAM\n\
                1fc000000-2fbffffff : Persistent Memory\n  1fc000000-2fbffffff : namespace0.0\n";
    let layout = host_with(text);
    assert_eq!(
        layout.memory.last().map(|memory| memory.range.end().get()),
        Some(0x1_fc00_0000)
    );
    assert_eq!(layout.devices.len(), 1);
    assert_eq!(layout.devices[0].range.start().get(), 0x1_fc00_0000);
    let geometry = geometry(&layout);
    assert!(geometry.memory_at(Pfn::new(0x1f_bfff)).is_some());
    assert!(geometry.memory_at(Pfn::new(0x1f_c000)).is_none());
    assert!(
        geometry.sections().is_valid(Pfn::new(0x1f_c000)),
        "the section is there all the same"
    );
    assert_eq!(
        Iomem::read("x", text.as_bytes()).unwrap().problems.count(),
        0
    );
}

/// Case 40: a crash kernel with memory on node 0 alone.
#[test]
fn a_crash_kernel_whose_node_1_is_empty_has_it_as_a_memoryless_node() {
    let layout = layout(
        "Linux version 5.4.0 (a@b) (aarch64-gcc)\nEarly memory node ranges\n  node   0: [mem 0x0000000088300000-0x00000000bfffffff]\n\
         Zeroed struct page in unavailable ranges: 625 pages\nInitmem setup node 0 [mem 0x0000000088300000-0x00000000bfffffff]\n\
         Initmem setup node 1 [mem 0x0000000000000000-0x0000000000000000]\n",
    );
    assert_eq!(layout.memoryless, [NodeId::new(1)]);
    assert_eq!(layout.memory_bytes() >> 20, 893);
}

/// Case 41: a DMA limit that is a mask where an address was meant.
#[test]
fn a_dma_limit_of_the_platform_is_taken_from_the_log_and_the_zones_above_follow() {
    let text = "Linux version 6.11.0 (a@b) (aarch64-gcc)\nZone ranges:\n  DMA      [mem 0x0000000080000000-0x0000000affffffff]\n\
                \x20 DMA32    empty\n  Normal   empty\nEarly memory node ranges\n  node   0: [mem 0x0000000080000000-0x00000000ffffffff]\n\
                \x20 node   0: [mem 0x0000000880000000-0x0000000affffffff]\nPolicy zone: DMA\n";
    let verdicts = |text: &str| -> Vec<_> {
        let report = check::check(&layout(text));
        report
            .figures
            .iter()
            .map(|figure| figure.verdict.name())
            .collect()
    };
    assert_eq!(
        verdicts(text),
        ["input", "equal", "equal", "input", "input", "equal"]
    );
    let wrong = text.replace(
        "Normal   empty",
        "Normal   [mem 0x0000000100000000-0x0000000affffffff]",
    );
    assert!(verdicts(&wrong).contains(&"differs"));
}

/// Case 44: a CMA area in two zones.
#[test]
fn a_cma_area_across_two_zones_is_diagnosed_with_the_border() {
    let layout = layout(
        "Linux version 5.5.0 (a@b) (aarch64-gcc)\ncma: Reserved 1024 MiB at 0x00000000a0000000\nZone ranges:\n\
         \x20 DMA      [mem 0x0000000080000000-0x00000000bfffffff]\n  DMA32    [mem 0x00000000c0000000-0x00000000ffffffff]\n\
         \x20 Normal   [mem 0x0000000100000000-0x000000017fffffff]\nEarly memory node ranges\n\
         \x20 node   0: [mem 0x0000000080000000-0x00000000ffffffff]\n  node   0: [mem 0x0000000100000000-0x000000017fffffff]\n",
    );
    let mut options = layout.boot_options();
    options.lowest_zone_end = Some(PhysAddr::new(0xc000_0000));
    let memblock = layout.memblock().unwrap();
    let geometry = Geometry::new(&layout.profile(), &memblock, &options).unwrap();
    let said = check::warnings(&layout, &memblock, &geometry);
    assert!(
        matches!(said[..], [Warning::CmaAcrossZones { border, .. }] if border.get() == 0xc000_0000),
        "{said:?}"
    );
    assert!(said[0].to_string().contains("(line 2)"), "{}", said[0]);
}
