//! A library kernel with one flat array set its highest map number after reserved ranges had been
//! marked: until then `pfn_valid` said no for every frame, the marking passed over all of them,
//! and no reserved page was marked. Nothing failed, and only the kernel itself could tell.

use memblock::{Pfn, PfnRange};
use memmap_core::buddy::{
    Allocator, FreeError, HandOver, ListHeads, MigrateType, NodeDistances, StructPages,
};
use memmap_core::{
    BackingKind, BackingOptions, Geometry, KernelVersion, MemoryMap, MemoryModel, PageFlag,
    PageKind, Profile, SectionNr, Violation, ZoneIndex, writers,
};

use crate::support::{Layout, pfns};
use crate::table::Table;

const RESERVED: [(u64, u64); 3] = [(0, 0x10), (0x1000, 0x1180), (0x9000, 0x9001)];

fn layout() -> Layout {
    let mut layout = Layout::of(&[(0, 0, 0xc000)]);
    for (start, end) in RESERVED {
        layout.reserve(start, end);
    }
    layout
}

fn flat() -> Geometry {
    let mut config = Profile::amd64_small(KernelVersion::V6_12).config().clone();
    config.memory_model = MemoryModel::Flat;
    config.nodes_shift = 0;
    config.numa_balancing = false;
    config.deferred_init = false;
    config.hvo = false;
    layout().under(&config.build().expect("a flat kernel"))
}

/// What a boot does, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    SetMaxMapnr,
    MarkReserved,
}

/// A simulator's boot: its struct pages as initialisation leaves them, then `steps`, then
/// everything that is free handed over.
fn boot(geometry: &Geometry, steps: [Step; 2]) -> Allocator<Table> {
    let table = Table::new(geometry);
    let reserved = geometry.flags_layout().numbers().mask(PageFlag::Reserved);
    let flags = |pfn| table.load(pfn, 0).expect("it is in the array");
    let all = PfnRange::new(Pfn::ZERO, Pfn::new(0xc000));
    for pfn in all.iter() {
        table.store(pfn, 0, flags(pfn) & !reserved);
    }
    let mut max_mapnr = 0;
    for step in steps {
        match step {
            Step::SetMaxMapnr => max_mapnr = all.end().get(),
            Step::MarkReserved => {
                let ranges = RESERVED.into_iter().map(|(start, end)| pfns(start, end));
                for pfn in ranges.flat_map(|range| range.iter()) {
                    if pfn.get() < max_mapnr {
                        table.store(pfn, 0, flags(pfn) | reserved);
                    }
                }
            }
        }
    }
    let (distances, heads) = (NodeDistances::default(), ListHeads::default());
    let allocator = Allocator::new(table, geometry, distances, heads);
    let plan = HandOver::new(geometry);
    // a flat array has no sections; it is handed over in pieces of that size
    let pages = geometry.sections().pages_per_section();
    for section in (0..all.end().get().div_ceil(pages)).map(SectionNr) {
        allocator.hand_over(&plan, section);
    }
    allocator
}

/// Pages that the geometry says are reserved, and whose struct pages do not say so.
fn unmarked(geometry: &Geometry, pages: &Table) -> u64 {
    let mask = geometry.flags_layout().numbers().mask(PageFlag::Reserved);
    let runs = geometry.page_runs().iter();
    runs.filter(|run| run.kind == PageKind::Reserved)
        .flat_map(|run| run.pfns.iter())
        .filter(|pfn| pages.load(*pfn, 0).is_none_or(|flags| flags & mask == 0))
        .count() as u64
}

#[test]
fn a_simulator_sees_reserved_ranges_unmarked_where_max_mapnr_comes_too_late() {
    let geometry = flat();
    let all: u64 = RESERVED.iter().map(|(start, end)| end - start).sum();

    let right = boot(&geometry, [Step::SetMaxMapnr, Step::MarkReserved]);
    assert_eq!(unmarked(&geometry, right.pages()), 0);
    assert_eq!(right.check(), []);
    // the initial ramdisk is given back: its pages are reserved until then
    assert_eq!(right.free_reserved(pfns(0x1000, 0x1180)), Ok(0x180));
    assert_eq!(right.check(), []);

    let late = boot(&geometry, [Step::MarkReserved, Step::SetMaxMapnr]);
    assert_eq!(unmarked(&geometry, late.pages()), all);
    assert_eq!(
        late.free_reserved(pfns(0x1000, 0x1180)),
        Err(FreeError::NotReserved {
            pfn: Pfn::new(0x1000)
        })
    );
}

#[test]
fn the_free_pages_of_a_flat_array_are_handed_over() {
    let geometry = flat();
    let allocator = boot(&geometry, [Step::SetMaxMapnr, Step::MarkReserved]);
    let free: u64 = geometry
        .page_runs()
        .iter()
        .filter(|run| run.kind == PageKind::Free)
        .map(|run| run.pfns.len())
        .sum();
    let (mut counted, mut listed) = (0, 0);
    for (node, zone) in geometry.populated_zones() {
        counted += allocator.zone_counts(node.id, zone.index).free;
        for order in 0..=geometry.profile().max_page_order as u8 {
            for migrate in MigrateType::ALL {
                let list = allocator.free_list(node.id, zone.index, order, migrate);
                listed += (list.len() as u64) << order;
            }
        }
    }
    assert_eq!((counted, listed), (free, free));
    assert!(
        allocator
            .zone_counts(geometry.nodes()[0].id, ZoneIndex(0))
            .managed
            > 0
    );
}

#[test]
fn the_check_of_a_map_names_reserved_pages_that_are_not_marked() {
    let mut options = BackingOptions::default();
    options.kind = BackingKind::Heap;
    let map = MemoryMap::new(layout().amd64(KernelVersion::V6_12), options).expect("it fits");
    let sections: Vec<_> = map.geometry().sections().iter().collect();
    let reserved = map
        .geometry()
        .flags_layout()
        .numbers()
        .mask(PageFlag::Reserved);
    for section in sections {
        let mut claim = map.claim(section).expect("it is pending");
        claim.write(&writers::Zero);
        for pfn in claim.pfns().iter() {
            if RESERVED[1..]
                .iter()
                .any(|(a, b)| pfns(*a, *b).contains(pfn))
            {
                let page = PfnRange::new(pfn, pfn.saturating_add(1));
                claim.struct_pages_mut(page).expect("in the section")[0] &= !reserved;
            }
        }
        claim.publish();
    }
    let report = map.check();
    assert_eq!(report.count, 0x181, "{report}");
    assert_eq!(
        report.violations[0],
        Violation::NotReserved {
            pfn: Pfn::new(0x1000)
        }
    );
}
