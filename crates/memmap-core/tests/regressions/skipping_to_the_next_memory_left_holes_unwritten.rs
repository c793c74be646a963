//! Linux 4.12 to 4.17: the walk jumped from a frame without memory to the next one with memory.
//! Struct pages of gaps in between, in sections and pageblocks that do have memory, were left as
//! they were, and `move_freepages` found two zones in one block.

use memblock::Pfn;
use memmap_core::{KernelVersion, PageKind};

use crate::support::Layout;

#[test]
fn every_struct_page_of_a_pageblock_with_memory_is_written() {
    // RAM, a big hole, and a usable tail of 480 KiB that begins inside a pageblock
    let geometry = Layout::of(&[
        (0, 0x100, 0x4_bfac),
        (0, 0x4_bfac, 0x6_46b2),
        (0, 0x7_b788, 0x7_b800),
    ])
    .amd64(KernelVersion::V6_12);
    // the pageblock of the tail: its front is a gap, and reserved
    for pfn in 0x7_b600..0x7_b788 {
        let run = geometry
            .page_run(Pfn::new(pfn))
            .expect("its section is present");
        assert_eq!((run.kind, run.zone.0), (PageKind::Hole, 1), "{pfn:#x}");
    }
    // and no pageblock of a present section has a page that nobody writes
    assert!(
        geometry
            .page_runs()
            .iter()
            .all(|run| run.kind != PageKind::Untouched)
    );
}
