//! Linux up to 7.2: with `kernelcore=mirror` the spans of Normal and Movable overlap, and pages
//! of the overlap are initialised for both; the last one wins. Since spans are summed up for the
//! node's length, no zone seems to be the last one, and nothing is deferred.

use memblock::MemblockFlags;
use memmap_core::{CoreSize, KernelVersion, ZoneKind};

use crate::support::{Layout, deferred, page, zones};

fn layout() -> Layout {
    let mut layout = Layout::of(&[]);
    layout
        .mem(0, 0x10_0000, 0x12_0000, MemblockFlags::MIRROR)
        .mem(0, 0x12_0000, 0x14_0000, MemblockFlags::empty())
        .mem(0, 0x14_0000, 0x16_0000, MemblockFlags::MIRROR);
    layout.options.kernelcore = Some(CoreSize::Mirror);
    layout
}

#[test]
fn present_pages_are_counted_once_even_where_spans_overlap() {
    for version in [KernelVersion::V6_1, KernelVersion::V6_18] {
        let geometry = layout().amd64(version);
        let zones = zones(&geometry, 0);
        assert_eq!(
            zones,
            [
                (ZoneKind::Normal, 0x6_0000, 0x4_0000, 0x10_0000),
                (ZoneKind::Movable, 0x4_0000, 0x2_0000, 0x12_0000)
            ]
        );
        assert_eq!(page(&geometry, 0x13_0000), "0 Movable Free");
        assert_eq!(page(&geometry, 0x15_0000), "0 Normal Free");
        assert_eq!(deferred(&geometry, 0), None);
    }
}

#[test]
fn since_7_3_every_page_above_the_movable_start_is_movable() {
    let geometry = layout().amd64(KernelVersion::V7_3);
    assert_eq!(page(&geometry, 0x15_0000), "0 Movable Free");
    assert_eq!(deferred(&geometry, 0), Some(0x12_8000));
}
