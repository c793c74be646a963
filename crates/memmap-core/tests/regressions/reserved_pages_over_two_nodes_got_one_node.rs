//! Linux 6.5: the node of reserved pages was taken once a region instead of once a page. It is
//! right only because regions are first split along the memory they lie in.

use memmap_core::KernelVersion;

use crate::support::{Layout, VERSIONS, page};

#[test]
fn late_reserved_pages_name_the_node_of_their_memory() {
    let mut layout = Layout::of(&[
        (0, 0x10_0000, 0x14_0000),
        (1, 0x14_0000, 0x18_0000),
        (2, 0x18_0000, 0x1c_0000),
    ]);
    // one reservation over the end of node 0, all of node 1 and the start of node 2
    layout.reserve(0x13_fff0, 0x18_0010);
    for version in VERSIONS {
        let geometry = layout.amd64(version);
        for (pfn, node) in [
            (0x13_fff0, 0),
            (0x13_ffff, 0),
            (0x14_0000, 1),
            (0x17_ffff, 1),
            (0x18_0000, 2),
            (0x18_000f, 2),
        ] {
            assert_eq!(
                page(&geometry, pfn),
                format!("{node} Normal Reserved"),
                "{version}"
            );
        }
    }
}

#[test]
fn a_node_that_is_wholly_reserved_is_present_and_manages_nothing() {
    let mut layout = Layout::of(&[(0, 0x10_0000, 0x14_0000), (1, 0x14_0000, 0x18_0000)]);
    layout.reserve(0x14_0000, 0x18_0000);
    let geometry = layout.amd64(KernelVersion::V6_12);
    let node = &geometry.nodes()[1];
    let zone = node
        .zones
        .iter()
        .find(|zone| zone.is_populated())
        .expect("it has pages");
    assert_eq!(
        (zone.present, geometry.managed_pages(node, zone)),
        (0x4_0000, 0)
    );
}
