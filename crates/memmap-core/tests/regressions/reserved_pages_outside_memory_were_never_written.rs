//! Linux 4.15: firmware reserves ranges that it does not report as memory. Their struct pages
//! were never written, and whoever walked over them read what was in that memory before.

use memblock::Pfn;
use memmap_core::{BackingKind, BackingOptions, MemoryMap, writers};

use crate::support::{Layout, VERSIONS};

#[test]
fn reserved_ranges_beside_memory_have_written_struct_pages() {
    for version in VERSIONS {
        let mut layout = Layout::of(&[(0, 0x200, 0x7000), (0, 0x1_0000, 0x1_7f00)]);
        // below, between, behind memory, and where there is no section at all
        layout
            .reserve(0, 0x100)
            .reserve(0x7100, 0x7200)
            .reserve(0x1_7f80, 0x1_7fc0)
            .reserve(0x10_0000, 0x10_0100);
        let mut options = BackingOptions::default();
        options.kind = BackingKind::Heap;
        options.poison = true;
        let map = MemoryMap::new(layout.amd64(version), options).expect("it fits");
        for section in map.geometry().sections().iter() {
            let mut claim = map.claim(section).expect("it is pending");
            claim.write(writers::all()[0]);
            claim.publish();
        }
        assert!(map.check().is_clean());
        for pfn in [0, 0xff, 0x7100, 0x1_7fbf, 0x1_7fff] {
            let page = map.read(Pfn::new(pfn)).expect("its section is present");
            assert!(!page.is_poisoned());
            assert_eq!(page.refcount(), 1);
        }
        assert!(map.read(Pfn::new(0x10_0000)).is_err());
    }
}
