//! Linux 4.x to 5.11: struct pages of gaps were zero, or got node 0 and zone 0 whatever spanned
//! them. Compaction asked such a page for its zone and stopped the machine.

use memmap_core::{KernelVersion, PageKind};

use crate::support::{Layout, VERSIONS, holes, page};

#[test]
fn a_firmware_hole_gets_the_zone_around_it_and_is_reserved() {
    // e820: unknown type at 0x7a17b000-0x7a216fff, RAM on both sides
    for version in VERSIONS {
        let geometry = Layout::of(&[(0, 1, 0x9f), (0, 0x100, 0x7_a17b), (0, 0x7_a217, 0x7_c000)])
            .amd64(version);
        for pfn in 0x7_a17b..0x7_a217 {
            assert_eq!(page(&geometry, pfn), "0 DMA32 Hole");
        }
        assert_eq!(holes(&geometry)[2].2, 0x9c);
        // sections without memory have no struct pages
        assert_eq!(page(&geometry, 0x8_0000), "invalid");
    }
}

#[test]
fn no_hole_of_a_machine_is_ever_free_or_without_an_owner() {
    let geometry = Layout::of(&[(2, 0x4_0011, 0x4_1000), (3, 0x10_1234, 0x10_4321)])
        .amd64(KernelVersion::V6_12);
    for run in geometry.page_runs() {
        let memory = geometry.memory_at(run.pfns.start());
        assert_eq!(memory.is_none(), run.kind == PageKind::Hole);
        assert!(geometry.node(run.node).is_some());
        assert_ne!(run.zone.0, 0, "there is no memory below 16 MiB: {run:?}");
    }
}
