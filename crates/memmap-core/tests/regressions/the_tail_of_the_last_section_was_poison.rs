//! s390 with `mem=2050M` or `mem=3075M`: the last section was initialised up to the end of
//! memory only, and looking at the block in sysfs ran into poison.

use memblock::{MemblockFlags, Pfn};
use memmap_core::{BackingKind, BackingOptions, KernelVersion, MemoryMap, Profile, writers};

use crate::support::{Layout, holes};

#[test]
fn walking_a_whole_section_never_meets_poison() {
    for (mib, tail) in [(2050, 254 * 256), (3075, 253 * 256)] {
        let mut layout = Layout::new(12);
        layout.mem_bytes(0, 0, mib << 20, MemblockFlags::empty());
        let geometry = layout.under(&Profile::s390x(KernelVersion::V6_12));
        assert_eq!(holes(&geometry).last().map(|hole| hole.2), Some(tail));
        let last = geometry
            .sections()
            .by_rank(geometry.sections().count() - 1)
            .expect("there is one");
        let mut options = BackingOptions::default();
        options.kind = BackingKind::Heap;
        options.poison = true;
        let map = MemoryMap::new(geometry, options).expect("it fits");
        let mut claim = map.claim(last).expect("it is pending");
        claim.write(writers::all()[0]);
        let pfns = claim.pfns();
        claim.publish();
        for pfn in pfns.start().get()..pfns.end().get() {
            let page = map.read(Pfn::new(pfn)).expect("it is ready");
            assert!(!page.is_poisoned(), "{pfn:#x}");
        }
    }
}
