//! Writing, publishing, reading and checking memory maps.

mod support;

use memblock::{MemblockFlags, Pfn};
use memmap_core::{
    AddressSpace, Arch, BackingChoice, BackingKind, BackingOptions, ClaimError, HugePages,
    KernelConfig, KernelVersion, MapError, MemoryMap, MemoryModel, NoAddressRange, PageImage,
    Profile, ReadError, SectionNr, SectionState, StructPageSize, Violation, writers,
};
use support::*;

/// Two nodes, holes, reservations, an unaligned end; small sections to keep it quick.
fn layout() -> Layout {
    let mut layout = Layout::of(&[
        (0, 1, 0x9f),
        (0, 0x100, 0x700),
        (0, 0x1003, 0x1a00),
        (1, 0x1a00, 0x2456),
        (0, 0x8000, 0x8005),
    ]);
    layout
        .mem(1, 0x2500, 0x2580, MemblockFlags::NOMAP)
        .mem(1, 0x2580, 0x3001, MemblockFlags::empty())
        .reserve(0, 0x20)
        .reserve(0x1100, 0x1104)
        .reserve(0x2ff0, 0x3003);
    layout
}

fn small(change: impl FnOnce(&mut KernelConfig)) -> Profile {
    let mut config = Profile::amd64(KernelVersion::V6_12).config().clone();
    config.section_bits = 21;
    config.max_page_order = 6;
    config.pageblock_order = 4;
    change(&mut config);
    config.build().expect("the profile builds")
}

fn options(kind: BackingKind) -> BackingOptions {
    let mut options = BackingOptions::default();
    options.kind = kind;
    options.poison = true;
    options
}

fn write_all(map: &MemoryMap, writer: &str) {
    let writer = writers::by_name(writer).expect("the writer exists");
    for section in map.geometry().sections().iter() {
        let mut claim = map.claim(section).expect("it is pending");
        claim.write(writer);
        claim.publish();
    }
}

fn bytes_of(map: &mut MemoryMap) -> Vec<u64> {
    let sections: Vec<_> = map.geometry().sections().iter().collect();
    sections
        .into_iter()
        .flat_map(|section| map.section_words(section).expect("it is ready").to_vec())
        .collect()
}

fn built(profile: &Profile, options: BackingOptions, writer: &str) -> MemoryMap {
    let map = MemoryMap::new(layout().under(profile), options).expect("it fits");
    write_all(&map, writer);
    map
}

#[test]
fn every_writer_and_backing_leaves_the_same_bytes() {
    for bytes in [56, 64, 72, 80, 88, 96] {
        let profile = small(|c| {
            c.struct_page_bytes = bytes;
            c.memcg = bytes > 56;
        });
        let expected = bytes_of(&mut built(&profile, options(BackingKind::Heap), "zero"));
        for kind in [BackingKind::Mapped, BackingKind::Heap] {
            for writer in writers::all() {
                let mut map = built(&profile, options(kind), writer.name());
                assert!(
                    bytes_of(&mut map) == expected,
                    "{bytes} {kind:?} {}",
                    writer.name()
                );
                let report = map.check();
                assert!(report.is_clean(), "{report}");
            }
        }
    }
}

#[test]
fn struct_pages_hold_the_words_of_their_kind() {
    let profile = small(|_| {});
    let map = built(&profile, options(BackingKind::Auto), "template");
    let show = |pfn| {
        let page = map.read(Pfn::new(pfn)).expect("it is ready");
        let address = map.pfn_to_page(Pfn::new(pfn)).expect("it is valid");
        page.display(map.profile(), address).to_string()
    };
    let free = "node=0 zone=DMA lastcpupid=0x1fffff refcount=0 mapcount=-1 lru=self";
    assert_eq!(show(0x100), free);
    assert_eq!(
        show(0),
        "node=0 zone=DMA lastcpupid=0x1fffff reserved refcount=1 mapcount=-1 lru=self"
    );
    assert_eq!(
        show(0x2500),
        "node=1 zone=DMA32 lastcpupid=0x1fffff reserved refcount=1 mapcount=-1 lru=self"
    );
    let page = map.read(Pfn::new(0x1100)).expect("it is ready");
    let link = 0xffff_ea00_0000_0000 + 0x1100 * 64 + 8;
    assert_eq!(
        page.words(),
        [0xf_ffff_c000_2000, link, link, 0, 0, 0, 0x1_ffff_ffff, 0]
    );
}

#[test]
fn big_endian_counts_lie_on_the_other_side_of_their_word() {
    let mut config = Profile::s390x(KernelVersion::V6_12).config().clone();
    config.section_bits = 21;
    config.max_page_order = 6;
    config.pageblock_order = 4;
    let profile = config.build().expect("it builds");
    assert_eq!(profile.arch, Arch::S390x);
    let map = built(&profile, options(BackingKind::Heap), "memset");
    let page = map.read(Pfn::new(0)).expect("it is ready");
    assert_eq!(page.words()[6], 0xffff_ffff_0000_0001);
    assert_eq!((page.mapcount(), page.refcount()), (u32::MAX, 1));
}

#[test]
fn e33_the_last_cpu_has_a_word_of_its_own_where_the_flags_have_no_room() {
    let profile = |version| {
        let mut config = Profile::amd64(version).config().clone();
        config.memory_model = MemoryModel::Sparse;
        config.section_bits = 21;
        config.max_page_order = 6;
        config.pageblock_order = 4;
        config.nodes_shift = 2;
        config.struct_page_bytes = 80;
        config.page_virtual = Some(0xffff_8880_0000_0000);
        config.build().expect("it builds")
    };
    let map = built(
        &profile(KernelVersion::V6_12),
        options(BackingKind::Heap),
        "zero",
    );
    let page = map.read(Pfn::new(0x1005)).expect("it is ready");
    assert_eq!(page.words()[8], 0xffff_8880_0100_5000);
    assert_eq!(page.words()[9], 0x1f_ffff);
    // the section is in the flags word, also where one run covers several sections
    let layout = map.geometry().flags_layout();
    assert_eq!(layout.section().get(page.flags()), 0x1005 / 512);
    assert_eq!(layout.decode(page.flags()).section, Some(8));
}

#[test]
fn host_addresses_can_be_followed_and_found_again() {
    for kind in [BackingKind::Mapped, BackingKind::Heap] {
        let mut options = options(kind);
        options.address_space = AddressSpace::Host;
        let map = built(&small(|_| {}), options, "stream");
        assert!(map.check().is_clean());
        for pfn in map.valid_pfns().step_by(7) {
            let address = map.pfn_to_page(pfn).expect("it is valid");
            assert_eq!(map.host_page(pfn).map(|p| p.as_ptr() as u64), Some(address));
            let page = map.read(pfn).expect("it is ready");
            if page.next() != memmap_core::POISON {
                assert_eq!(page.next(), address + 8);
            }
            assert_eq!(map.page_to_pfn(address), Some(pfn));
            assert_eq!(map.page_to_pfn(address + 63), Some(pfn));
        }
        assert_eq!(map.page_to_pfn(8), None);
    }
}

#[test]
fn kernel_addresses_and_frames_translate_both_ways() {
    let map = built(&small(|_| {}), options(BackingKind::Heap), "zero");
    let base = map.profile().vmemmap_base;
    assert_eq!(map.pfn_to_page(Pfn::new(0x100)), Some(base + 0x100 * 64));
    assert_eq!(map.page_to_pfn(base + 0x100 * 64), Some(Pfn::new(0x100)));
    assert_eq!(map.page_to_pfn(base - 64), None);
    assert_eq!(map.pfn_to_page(Pfn::new(0x5000)), None);
    // every frame of a present section is valid, but only some are online
    assert!(map.pfn_valid(Pfn::new(0x9f)));
    assert!(
        map.pfn_to_online_page(Pfn::new(0x9f)).is_some(),
        "its 2 MiB have memory"
    );
    assert_eq!(map.section_word(SectionNr(3)), 0xf | base);
    assert_eq!(map.section_word(SectionNr(0x20)), 0);
}

#[test]
fn a_section_can_be_claimed_once_and_read_once_it_is_published() {
    let map = MemoryMap::new(layout().under(&small(|_| {})), options(BackingKind::Auto))
        .expect("it fits");
    let section = SectionNr(0);
    assert_eq!(map.section_state(section), SectionState::Pending);
    assert_eq!(map.section_state(SectionNr(0x20)), SectionState::Absent);
    assert!(map.claim(SectionNr(0x20)).is_none());
    let pfn = Pfn::new(5);
    let not_ready = |state| Err(ReadError::NotReady { section, state });
    assert_eq!(map.read(pfn), not_ready(SectionState::Pending));
    let mut claim = map.claim(section).expect("it is pending");
    assert!(map.claim(section).is_none());
    assert_eq!(map.read(pfn), not_ready(SectionState::Claimed));
    claim.write(writers::all()[0]);
    // given up: pending again, and nothing can be read
    drop(claim);
    assert_eq!(map.read(pfn), not_ready(SectionState::Pending));
    let mut claim = map.claim(section).expect("it is pending again");
    assert_eq!(
        (
            claim.section(),
            claim.pfns(),
            claim.node().get(),
            claim.zone().0
        ),
        (section, pfns(0, 512), 0, 0)
    );
    assert_eq!(claim.bytes(), 512 * 64);
    claim.populate().expect("there is memory");
    claim.write(writers::all()[0]);
    claim.publish();
    assert!(map.read(pfn).is_ok());
    assert!(map.claim(section).is_none());
    assert!(!map.is_complete());
    assert_eq!(
        map.read(Pfn::new(0x5000)),
        Err(ReadError::NoStructPage {
            pfn: Pfn::new(0x5000)
        })
    );
}

#[test]
fn many_threads_that_race_for_claims_write_each_section_once() {
    let mut map = MemoryMap::new(layout().under(&small(|_| {})), options(BackingKind::Auto))
        .expect("it fits");
    let expected = bytes_of(&mut built(
        &small(|_| {}),
        options(BackingKind::Heap),
        "zero",
    ));
    for _ in 0..20 {
        let claimed = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for section in map.geometry().sections().iter() {
                        if let Some(mut claim) = map.claim(section) {
                            claim.write(writers::all()[1]);
                            claim.publish();
                            claimed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(
            claimed.into_inner() as u64,
            map.geometry().sections().count()
        );
        assert!(map.is_complete());
        assert!(bytes_of(&mut map) == expected);
        map.reset();
        assert_eq!(map.section_state(SectionNr(0)), SectionState::Pending);
    }
}

#[test]
fn a_worker_that_panics_gives_its_section_back() {
    #[derive(Debug)]
    struct Panics;
    impl writers::PageWriter for Panics {
        fn name(&self) -> &'static str {
            "panics"
        }
        fn write(&self, _: &PageImage, _: &mut [u64]) {
            panic!("a page writer of somebody else's");
        }
    }
    let map = MemoryMap::new(layout().under(&small(|_| {})), options(BackingKind::Auto))
        .expect("it fits");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.claim(SectionNr(0))
            .expect("it is pending")
            .write(&Panics);
    }));
    assert!(result.is_err());
    write_all(&map, "zero");
    assert!(map.check().is_clean());
}

#[test]
fn discarded_memory_can_be_written_again() {
    let mut map = built(&small(|_| {}), options(BackingKind::Mapped), "zero");
    let before = bytes_of(&mut map);
    map.discard().expect("the system takes it back");
    assert_eq!(map.section_state(SectionNr(0)), SectionState::Pending);
    write_all(&map, "zero");
    assert!(bytes_of(&mut map) == before);
    assert!(map.mapping().is_some());
    let range = map.mapping_range(SectionNr(0)).expect("it is mapped");
    assert_eq!(range, 0..512 * 64);
}

#[test]
fn check_names_what_is_wrong() {
    let profile = small(|_| {});
    let geometry = layout().under(&profile);
    let map = MemoryMap::new(geometry, options(BackingKind::Heap)).expect("it fits");
    let report = map.check();
    assert!(matches!(
        report.violations[0],
        Violation::NotReady {
            section: SectionNr(0),
            state: SectionState::Pending
        }
    ));
    assert_eq!(report.count, map.geometry().sections().count());
    for section in map.geometry().sections().iter() {
        let mut claim = map.claim(section).expect("it is pending");
        if section != SectionNr(1) {
            claim.write(writers::all()[0]);
        }
        if section == SectionNr(2) {
            // pages of section 2 as if they were on node 1, zone Movable, with two references
            let flags = 1 << 54 | 3 << 51 | 0x1f_ffff << 30;
            let address = profile.vmemmap_base + 0x400 * 64;
            let image = PageImage::linked(StructPageSize::B64, flags, address, u32::MAX, 2);
            claim
                .write_image(pfns(0x400, 0x401), &image, writers::all()[0])
                .expect("it is inside");
            let image = PageImage::linked(StructPageSize::B64, 0x1f_ffff << 30, 0, u32::MAX, 0);
            claim
                .write_image(pfns(0x401, 0x402), &image, writers::all()[0])
                .expect("it is inside");
        }
        if section == SectionNr(0) {
            let address = profile.vmemmap_base;
            let image =
                PageImage::linked(StructPageSize::B64, 0x1f_ffff << 30, address, u32::MAX, 1);
            claim
                .write_image(pfns(0, 1), &image, writers::all()[0])
                .expect("it is inside");
        }
        claim.publish();
    }
    let report = map.check();
    let has = |wanted: &Violation| report.violations.contains(wanted);
    assert!(
        has(&Violation::HoleNotReserved { pfn: Pfn::new(0) }),
        "{report}"
    );
    assert!(has(&Violation::NeverWritten {
        pfn: Pfn::new(0x200)
    }));
    let text = report.to_string();
    assert!(
        text.contains("the struct page of 0x200 was never written"),
        "{text}"
    );
    // the list is cut off; look at the rest of the map alone
    assert_eq!(report.violations.len(), memmap_core::CheckReport::LIMIT);
    let mut rest =
        MemoryMap::new(layout().under(&profile), options(BackingKind::Heap)).expect("it fits");
    write_all(&rest, "zero");
    rest.reset();
    for section in rest.geometry().sections().iter() {
        let mut claim = rest.claim(section).expect("it is pending");
        claim.write(writers::all()[0]);
        if section == SectionNr(2) {
            let flags = 1 << 54 | 3 << 51 | 0x1f_ffff << 30;
            let address = profile.vmemmap_base + 0x400 * 64;
            let image = PageImage::linked(StructPageSize::B64, flags, address, u32::MAX, 2);
            claim
                .write_image(pfns(0x400, 0x401), &image, writers::all()[0])
                .expect("it is inside");
            let image = PageImage::linked(StructPageSize::B64, 0x1f_ffff << 30, 0, u32::MAX, 0);
            claim
                .write_image(pfns(0x401, 0x402), &image, writers::all()[0])
                .expect("it is inside");
        }
        claim.publish();
    }
    let names: Vec<_> = rest
        .check()
        .violations
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        names,
        [
            "0x400 names node 1, but its memory is on node 0",
            "0x400 names zone 3, which does not contain it",
            "0x400 has 2 references, which does not go with reserved = false",
            "the links of 0x401 do not point to itself",
        ]
    );
}

#[test]
fn images_of_other_frames_or_sizes_are_refused() {
    let map = MemoryMap::new(layout().under(&small(|_| {})), options(BackingKind::Heap))
        .expect("it fits");
    let mut claim = map.claim(SectionNr(1)).expect("it is pending");
    let writer = writers::all()[0];
    let image = PageImage::constant(StructPageSize::B64, [1; 12]);
    for outside in [pfns(0x1ff, 0x201), pfns(0x3ff, 0x401), pfns(0, 1)] {
        assert_eq!(
            claim.write_image(outside, &image, writer),
            Err(ClaimError::OutsideSection {
                pfns: outside,
                section: SectionNr(1)
            })
        );
    }
    let other = PageImage::constant(StructPageSize::B56, [1; 12]);
    assert_eq!(
        claim.write_image(pfns(0x200, 0x201), &other, writer),
        Err(ClaimError::OtherSize { image: 56, map: 64 })
    );
}

#[test]
fn too_little_memory_and_too_long_spans_are_said_with_both_numbers() {
    let mut little = options(BackingKind::Auto);
    little.memory_limit = Some(1 << 20);
    let geometry = Layout::of(&[(0, 0x100, 0x4_0000)]).amd64(KernelVersion::V6_12);
    let error = MemoryMap::new(geometry, little).expect_err("16 MiB do not fit 1 MiB");
    assert!(matches!(
        error,
        MapError::TooLittleMemory {
            needed: 0x100_0000,
            available: 0x10_0000,
            fits: 0x4000,
            ..
        }
    ));
    assert!(error.to_string().contains("16777216"), "{error}");

    // 2^51 bytes of memory addresses: struct pages span 2^45 bytes, in sections of 2 MiB
    let far = [(0, 0x100, 0x8000), (0, (1 << 42) - 0x8000, 1 << 42)];
    let mut config = Profile::amd64(KernelVersion::V6_12).config().clone();
    config.max_physmem_bits = 56;
    let profile = config.build().expect("it builds");
    let error = MemoryMap::new(
        Layout::of(&far).under(&profile),
        options(BackingKind::Mapped),
    )
    .expect_err("no address range is so long");
    assert!(
        matches!(
            error,
            MapError::SpanTooLarge {
                present: 0x40_0000,
                ..
            }
        ),
        "{error:?}"
    );
    // the heap does not mind, and that is what Auto takes
    for kind in [BackingKind::Heap, BackingKind::Auto] {
        let map = MemoryMap::new(Layout::of(&far).under(&profile), options(kind)).expect("it fits");
        write_all(&map, "template");
        assert!(map.check().is_clean());
        let said = map.backing().to_string();
        assert!(said.starts_with("the heap, a section at a time"), "{said}");
        let why = format!("since one address range is not to be had: {error}");
        assert_eq!(said.contains(&why), kind == BackingKind::Auto, "{said}");
    }
    let mut flat = Profile::amd64(KernelVersion::V6_12).config().clone();
    flat.memory_model = MemoryModel::Flat;
    flat.nodes_shift = 0;
    flat.numa_balancing = false;
    flat.deferred_init = false;
    let geometry = Layout::of(&[(0, 0x100, 0x8000)]).under(&flat.build().expect("it builds"));
    assert_eq!(
        MemoryMap::new(geometry, BackingOptions::default()).map(|_| ()),
        Err(MapError::NotSparse)
    );
}

#[test]
fn a_system_that_refuses_memory_leaves_nothing_behind() {
    let geometry =
        || Layout::of(&[(0, 0x100, 0x8000), (0, 0x10_0000, 0x10_8000)]).amd64(KernelVersion::V6_12);
    for (call, nth) in [
        (sys::Call::Mmap, 1),
        (sys::Call::Mprotect, 1),
        (sys::Call::Mprotect, 2),
    ] {
        let faults = sys::seam::Faults::new().fail(call, nth, 12);
        let _scope = faults.enter();
        let error =
            MemoryMap::new(geometry(), options(BackingKind::Mapped)).expect_err("it is refused");
        assert!(
            matches!(
                error,
                MapError::System {
                    needed: 0x40_0000,
                    ..
                }
            ),
            "{error:?}"
        );
    }
    let mapped = MemoryMap::new(geometry(), options(BackingKind::Mapped)).expect("it fits");
    assert_eq!(*mapped.backing(), BackingChoice::Mapped);
    // who leaves the choice to us gets the heap, and is told why
    let faults = sys::seam::Faults::new().fail(sys::Call::Mmap, 1, 12);
    let scope = faults.enter();
    let map = MemoryMap::new(geometry(), options(BackingKind::Auto)).expect("it fits");
    drop(scope);
    let BackingChoice::HeapInstead(NoAddressRange::Refused(MapError::System { source, .. })) =
        map.backing()
    else {
        panic!("{:?}", map.backing());
    };
    assert_eq!(source.call(), Some(sys::Call::Mmap));
    let said = map.backing().to_string();
    assert!(said.contains(&source.to_string()), "{said}");
}

#[test]
fn on_a_kernel_that_cannot_populate_a_claim_touches_its_own_section_and_changes_nothing() {
    let mut options = BackingOptions::default();
    options.kind = BackingKind::Mapped;
    options.huge_pages = HugePages::Never;
    let geometry = Layout::of(&[(0, 0x100, 0x1_0000)]).amd64(KernelVersion::V6_12);
    let map = MemoryMap::new(geometry, options).expect("it fits");
    let mapping = map.mapping().expect("it is mapped");
    let there = |section| {
        let range = map.mapping_range(SectionNr(section)).expect("it is there");
        let pages: Vec<usize> = range.step_by(sys::page_size()).collect();
        let nodes = mapping.page_nodes(&pages)?;
        let there = nodes
            .iter()
            .filter(|node| matches!(node, sys::PageNode::On(_)));
        Ok::<_, sys::SysError>((there.count(), pages.len()))
    };
    let mut claim = map.claim(SectionNr(1)).expect("it is pending");
    let pfns = claim.pfns();
    claim.struct_pages_mut(pfns).expect("its own")[0] = 7;
    let faults = sys::seam::Faults::new().fail_from(sys::Call::Madvise, 1, 22);
    let scope = faults.enter();
    claim.populate().expect("there is memory");
    drop(scope);
    assert_eq!(faults.calls(sys::Call::Madvise), 1);
    assert_eq!(claim.struct_pages_mut(pfns).expect("its own")[0], 7);
    match (there(0), there(1)) {
        (Ok(other), Ok((own, all))) => {
            assert_eq!(other.0, 0, "nobody touched the section before");
            assert_eq!(own, all);
        }
        (Err(error), _) | (_, Err(error)) => captures::skipped(&format!("{error}")),
    }
}
