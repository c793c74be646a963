//! Ours: where one reservation ends and another begins in the same page, only the later one was
//! looked at. If the earlier one's node is late there, Linux writes the struct page for it, and
//! the later one merely marks it.

use memblock::MemblockFlags;
use memmap_core::KernelVersion;

use crate::support::{Layout, deferred, page};

#[test]
fn a_mark_takes_back_nothing_that_an_earlier_one_wrote() {
    // node 1 ends, and node 0 begins, inside page 0x120000, which so is no memory
    let mut layout = Layout::new(12);
    layout
        .mem_bytes(1, 0x1_0000_0000, 0x1_2000_0800, MemblockFlags::empty())
        .mem_bytes(0, 0x1_2000_0800, 0x1_2000_0c00, MemblockFlags::empty())
        .reserve_bytes(0x1_1fff_f000, 0x1_2000_0a00);
    let geometry = layout.amd64(KernelVersion::V6_12);
    assert_eq!(deferred(&geometry, 1), Some(0x10_8000));
    // the page is above node 1's last whole page, so no zone of it holds the page
    assert_eq!(page(&geometry, 0x11_ffff), "1 Normal Reserved");
    assert!(!geometry.sections().is_valid(memblock::Pfn::new(0x12_0000)));

    // the same inside a present section
    let mut layout = Layout::new(12);
    layout
        .mem_bytes(1, 0x1_0000_0000, 0x1_2010_0800, MemblockFlags::empty())
        .mem_bytes(0, 0x1_2010_0800, 0x1_2010_0c00, MemblockFlags::empty())
        .reserve_bytes(0x1_200f_f000, 0x1_2010_0a00);
    let geometry = layout.amd64(KernelVersion::V6_12);
    assert_eq!(page(&geometry, 0x12_00ff), "1 Normal Reserved");
    assert_eq!(page(&geometry, 0x12_0100), "1 none Reserved");
    assert_eq!(page(&geometry, 0x12_0101), "1 Normal Hole");
}
