//! The flags word of many configurations, row by row as the specification tabulates them (6.5).

use memblock::NodeId;
use memmap_core::{
    Arch, Field, FlagsInputs, FlagsLayout, KasanTags, KernelConfig, KernelVersion, MemoryModel,
    Profile, ZoneIndex, ZoneKind, ZoneSet,
};

/// `hi-lo` as in the table, or nothing for a field that is not there.
fn bits(field: Field) -> String {
    match field.width {
        0 => "-".into(),
        width => format!("{}-{}", field.shift, field.shift + width - 1),
    }
}

fn row(layout: &FlagsLayout) -> String {
    format!(
        "flags {} section {} node {} zone {} cpupid {} kasan {} gen {} refs {} free {}",
        layout.numbers().count(),
        bits(layout.section()),
        bits(layout.node()),
        bits(layout.zone()),
        bits(layout.last_cpupid()),
        bits(layout.kasan_tag()),
        bits(layout.lru_gen()),
        bits(layout.lru_refs()),
        layout.free_bits(),
    )
}

fn config(base: Profile, change: impl FnOnce(&mut KernelConfig)) -> String {
    let mut config = base.config().clone();
    change(&mut config);
    row(config
        .build()
        .expect("the row's configuration fits")
        .flags_layout())
}

fn amd64(version: KernelVersion, change: impl FnOnce(&mut KernelConfig)) -> String {
    config(Profile::amd64(version), change)
}

fn arm64(version: KernelVersion, change: impl FnOnce(&mut KernelConfig)) -> String {
    config(Profile::arm64_4k(version), change)
}

const FOUR_ZONES: ZoneSet = ZoneSet::new(&[ZoneKind::Dma, ZoneKind::Dma32]);

#[test]
fn amd64_6_1_small_without_device_zone() {
    let got = amd64(KernelVersion::V6_1, |c| {
        c.nodes_shift = 6;
        c.nr_cpus = 64;
        c.zones = FOUR_ZONES;
        c.lru_gen = false;
        c.flag_options.uncached = false;
    });
    assert_eq!(
        got,
        "flags 26 section - node 58-63 zone 56-57 cpupid 42-55 kasan - gen - refs - free 16"
    );
}

#[test]
fn amd64_6_1_distribution_without_generations() {
    let got = amd64(KernelVersion::V6_1, |c| c.lru_gen = false);
    assert_eq!(
        got,
        "flags 27 section - node 54-63 zone 51-53 cpupid 30-50 kasan - gen - refs - free 3"
    );
}

#[test]
fn amd64_6_1_distribution_has_no_room_for_reference_counts() {
    let got = amd64(KernelVersion::V6_1, |_| {});
    assert_eq!(
        got,
        "flags 27 section - node 54-63 zone 51-53 cpupid 30-50 kasan - gen 27-29 refs - free 0"
    );
}

#[test]
fn amd64_6_1_with_512_cpus() {
    let got = amd64(KernelVersion::V6_1, |c| {
        c.nodes_shift = 6;
        c.nr_cpus = 512;
    });
    assert_eq!(
        got,
        "flags 27 section - node 58-63 zone 55-57 cpupid 38-54 kasan - gen 35-37 refs 33-34 free 6"
    );
}

#[test]
fn amd64_6_12_distribution() {
    let got = amd64(KernelVersion::V6_12, |_| {});
    assert_eq!(
        got,
        "flags 24 section - node 54-63 zone 51-53 cpupid 30-50 kasan - gen 27-29 refs 25-26 free 1"
    );
}

#[test]
fn amd64_6_12_with_512_cpus() {
    let got = amd64(KernelVersion::V6_12, |c| {
        c.nodes_shift = 6;
        c.nr_cpus = 512;
    });
    assert_eq!(
        got,
        "flags 24 section - node 58-63 zone 55-57 cpupid 38-54 kasan - gen 35-37 refs 33-34 free 9"
    );
}

#[test]
fn amd64_6_12_without_balancing_and_generations() {
    let got = amd64(KernelVersion::V6_12, |c| {
        c.nodes_shift = 6;
        c.numa_balancing = false;
        c.lru_gen = false;
    });
    assert_eq!(
        got,
        "flags 24 section - node 58-63 zone 55-57 cpupid - kasan - gen - refs - free 31"
    );
}

#[test]
fn arm64_6_12_with_memory_tagging_flags() {
    let got = arm64(KernelVersion::V6_12, |_| {});
    assert_eq!(
        got,
        "flags 25 section - node 60-63 zone 57-59 cpupid 40-56 kasan - gen 37-39 refs 35-36 free 10"
    );
}

#[test]
fn arm64_6_12_with_hardware_tags() {
    let got = arm64(KernelVersion::V6_12, |c| c.kasan = KasanTags::Hardware);
    assert_eq!(
        got,
        "flags 25 section - node 60-63 zone 57-59 cpupid 40-56 kasan 32-39 gen 29-31 refs 27-28 free 2"
    );
}

#[test]
fn amd64_6_18_and_7_3_distribution() {
    for version in [KernelVersion::V6_18, KernelVersion::V7_3] {
        let got = amd64(version, |_| {});
        assert_eq!(
            got,
            "flags 25 section - node 54-63 zone 51-53 cpupid 30-50 kasan - gen 27-29 refs 25-26 free 0"
        );
    }
}

#[test]
fn arm64_6_18_and_7_3_with_memory_tagging_flags() {
    for version in [KernelVersion::V6_18, KernelVersion::V7_3] {
        let got = arm64(version, |_| {});
        assert_eq!(
            got,
            "flags 26 section - node 60-63 zone 57-59 cpupid 40-56 kasan - gen 37-39 refs 35-36 free 9"
        );
    }
}

#[test]
fn arm64_6_18_and_7_3_with_hardware_tags() {
    for version in [KernelVersion::V6_18, KernelVersion::V7_3] {
        let got = arm64(version, |c| c.kasan = KasanTags::Hardware);
        assert_eq!(
            got,
            "flags 26 section - node 60-63 zone 57-59 cpupid 40-56 kasan 36-39 gen 33-35 refs 31-32 free 5"
        );
    }
}

#[test]
fn arm64_6_1_with_device_zone() {
    let got = arm64(KernelVersion::V6_1, |c| c.lru_gen = false);
    assert_eq!(
        got,
        "flags 26 section - node 60-63 zone 57-59 cpupid 41-56 kasan - gen - refs - free 15"
    );
}

#[test]
fn amd64_classic_sparse_has_no_room_for_the_last_cpu() {
    let got = amd64(KernelVersion::V6_12, |c| {
        c.memory_model = MemoryModel::Sparse;
        c.nodes_shift = 6;
        c.nr_cpus = 64;
        c.zones = FOUR_ZONES;
        c.struct_page_bytes = 72;
    });
    assert_eq!(
        got,
        "flags 24 section 45-63 node 39-44 zone 37-38 cpupid - kasan - gen 34-36 refs 32-33 free 8"
    );
}

#[test]
fn amd64_classic_sparse_with_five_levels_fills_the_word() {
    let got = amd64(KernelVersion::V6_12, |c| {
        c.memory_model = MemoryModel::Sparse;
        c.max_physmem_bits = 52;
        c.zones = FOUR_ZONES;
        c.struct_page_bytes = 72;
    });
    assert_eq!(
        got,
        "flags 24 section 39-63 node 29-38 zone 27-28 cpupid - kasan - gen 24-26 refs - free 0"
    );
}

#[test]
fn a_32_bit_word_keeps_the_section_and_drops_the_node() {
    let numbers = *Profile::amd64(KernelVersion::V6_12)
        .flags_layout()
        .numbers();
    let inputs = FlagsInputs {
        word_bits: 32,
        nr_pageflags: 22,
        section_bits: 7,
        nodes_shift: 3,
        zones_shift: 2,
        nr_cpus: 8,
        numa_balancing: false,
        kasan_bits: 0,
        lru_gen: false,
    };
    let layout = FlagsLayout::compute(&inputs, numbers, FOUR_ZONES).expect("it fits");
    assert_eq!(
        (
            bits(layout.section()),
            bits(layout.node()),
            bits(layout.zone()),
            layout.free_bits()
        ),
        ("25-31".into(), "-".into(), "23-24".into(), 1)
    );
    // E-34: the zone id is then made of section and zone.
    assert_eq!(
        layout.zone_id(),
        Field {
            shift: 23,
            width: 9
        }
    );
}

#[test]
fn flatmem_without_numa_keeps_zone_and_generation_only() {
    let got = amd64(KernelVersion::V6_12, |c| {
        c.memory_model = MemoryModel::Flat;
        c.nodes_shift = 0;
        c.numa_balancing = false;
        c.deferred_init = false;
        c.zones = FOUR_ZONES;
    });
    assert_eq!(
        got,
        "flags 24 section - node - zone 62-63 cpupid - kasan - gen 59-61 refs 57-58 free 33"
    );
}

#[test]
fn other_architectures_of_6_12() {
    let v = KernelVersion::V6_12;
    assert_eq!(
        config(Profile::riscv64(v), |_| {}),
        "flags 22 section - node 62-63 zone 60-61 cpupid 45-59 kasan - gen 42-44 refs 40-41 free 18"
    );
    assert_eq!(
        config(Profile::ppc64_64k(v), |_| {}),
        "flags 23 section - node 56-63 zone 54-55 cpupid 35-53 kasan - gen 32-34 refs 30-31 free 7"
    );
    assert_eq!(
        config(Profile::s390x(v), |_| {}),
        "flags 22 section - node - zone 62-63 cpupid - kasan - gen 59-61 refs 57-58 free 35"
    );
}

#[test]
fn the_values_of_bug_reports_come_out() {
    let links = |version, node, zone| {
        let profile = Profile::amd64(version);
        profile
            .flags_layout()
            .links(NodeId::new(node), ZoneIndex(zone), 0)
    };
    assert_eq!(links(KernelVersion::V6_1, 0, 2), 0x0017_ffff_c000_0000);
    assert_eq!(links(KernelVersion::V7_3, 0, 4), 0x0027_ffff_c000_0000);
    // E-20: one past the last zone is stored, masked to the field.
    assert_eq!(links(KernelVersion::V6_12, 0, 5), 0x002f_ffff_c000_0000);
    let reserved = |version| {
        let profile = Profile::amd64(version);
        let numbers = *profile.flags_layout().numbers();
        numbers
            .bit(memmap_core::PageFlag::Reserved)
            .expect("always there")
    };
    assert_eq!(reserved(KernelVersion::V6_1), 12);
    assert_eq!(reserved(KernelVersion::V6_12), 13);
    assert_eq!(reserved(KernelVersion::V7_3), 13);
}

#[test]
fn a_flags_word_reads_as_words() {
    let decode = |version, word| {
        Profile::amd64(version)
            .flags_layout()
            .decode(word)
            .to_string()
    };
    assert_eq!(
        decode(KernelVersion::V6_12, 0x57_ffff_c000_2000),
        "node=1 zone=Normal lastcpupid=0x1fffff reserved"
    );
    assert_eq!(
        decode(KernelVersion::V6_1, 0x0f_ffff_c000_1000),
        "node=0 zone=DMA32 lastcpupid=0x1fffff reserved"
    );
    assert_eq!(
        decode(KernelVersion::V6_12, 0x2f_ffff_c000_2000),
        "node=0 zone=5(none) lastcpupid=0x1fffff reserved"
    );
    assert_eq!(
        decode(KernelVersion::V6_12, 0x01 << 24 | 0x40),
        "node=0 zone=DMA lastcpupid=0x0 head unknown=0x1000000"
    );
    assert_eq!(
        decode(KernelVersion::V6_18, 1 << 19 | 1 << 25),
        "node=0 zone=DMA lastcpupid=0x0 refs=0x1 dropbehind"
    );
    assert_eq!(Arch::Amd64.to_string(), "amd64");
}

#[test]
fn a_word_without_last_cpu_has_no_all_ones_part() {
    // E-35
    let mut config = Profile::amd64(KernelVersion::V6_12).config().clone();
    config.memory_model = MemoryModel::Sparse;
    config.nodes_shift = 6;
    config.zones = FOUR_ZONES;
    config.struct_page_bytes = 72;
    let profile = config.build().expect("it fits");
    let layout = profile.flags_layout();
    assert_eq!(
        layout.links(NodeId::new(1), ZoneIndex(2), 3),
        3 << 45 | 1 << 39 | 2 << 37
    );
}
