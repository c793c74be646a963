//! Linux before 5.x: late pages were initialised with the number of whichever node's thread came
//! by, and the pages that decide where the late part begins were counted over all nodes.

use memblock::Pfn;
use memmap_core::{KernelVersion, PageKind, Phase};

use crate::support::{Layout, VERSIONS, deferred};

#[test]
fn each_node_counts_for_itself_and_late_pages_keep_their_node() {
    let n = 0x10_0000;
    let mut memory = Vec::new();
    for stripe in 0..8 {
        let node = (stripe % 2) as u16;
        memory.push((node, n + stripe * 0x1_0000, n + (stripe + 1) * 0x1_0000));
    }
    for version in VERSIONS {
        let geometry = Layout::of(&memory).amd64(version);
        assert_eq!(deferred(&geometry, 0), Some(n + 0x8000), "{version}");
        assert_eq!(deferred(&geometry, 1), Some(n + 0x1_8000), "{version}");
        for (node, start, end) in &memory {
            for pfn in [*start, end - 1] {
                let run = geometry.page_run(Pfn::new(pfn)).expect("it is valid");
                assert_eq!((run.node.get(), run.kind), (*node, PageKind::Free));
                let late = pfn >= deferred(&geometry, *node).expect("both have a late part");
                assert_eq!(run.phase == Phase::Deferred, late, "{pfn:#x}");
            }
        }
    }
}

#[test]
fn a_node_that_comes_back_after_its_late_part_began_stays_late() {
    let n = 0x10_0000;
    let geometry = Layout::of(&[
        (0, n, n + 0x1_0000),
        (1, n + 0x1_0000, n + 0x2_0000),
        (0, n + 0x2_0000, n + 0x2_0100),
    ])
    .amd64(KernelVersion::V6_12);
    let run = geometry
        .page_run(Pfn::new(n + 0x2_0000))
        .expect("it is valid");
    assert_eq!(run.phase, Phase::Deferred);
}
