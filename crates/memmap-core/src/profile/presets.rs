//! Profiles of kernels that exist.
//!
//! The values are those of Debian's kernels of the release, whose struct pages this crate is
//! compared with; the geometry is table 4.1 of the specification. Presets are the only place
//! where a version number decides anything.

use super::{
    Arch, Behaviours, ByteOrder, FlagOptions, KasanTags, KernelConfig, KernelVersion, MemoryModel,
    Profile, ZoneKind, ZoneSet,
};

/// What the presets have in common.
const fn base(arch: Arch, version: KernelVersion) -> KernelConfig {
    KernelConfig {
        arch,
        version,
        page_shift: 12,
        section_bits: 27,
        max_physmem_bits: 46,
        max_page_order: 10,
        pageblock_order: 9,
        zones: ZoneSet::new(&[]),
        nodes_shift: 0,
        nr_cpus: 1,
        numa_balancing: true,
        lru_gen: true,
        kasan: KasanTags::Off,
        flag_options: FlagOptions {
            mmu: true,
            uncached: false,
            memory_failure: true,
            page_idle: true,
            arch_2: false,
            arch_3: false,
        },
        word_bits: 64,
        byte_order: ByteOrder::Little,
        memory_model: MemoryModel::SparseVmemmap,
        struct_page_bytes: 64,
        memcg: true,
        page_virtual: None,
        vmemmap_base: 0,
        deferred_init: true,
        hvo: false,
        dax_hvo: false,
        poison_offset: 0xdead_0000_0000_0000,
        cma: true,
        behaviours: Behaviours::of(version),
    }
}

/// Builds a preset; the tests build every one of them.
fn preset(config: KernelConfig) -> Profile {
    match config.build() {
        Ok(profile) => profile,
        Err(error) => unreachable!("presets agree with themselves: {error}"),
    }
}

fn amd64(version: KernelVersion) -> KernelConfig {
    let mut config = base(Arch::Amd64, version);
    config.zones = ZoneSet::new(&[ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Device]);
    config.nodes_shift = 10;
    config.nr_cpus = 8192;
    config.flag_options.uncached = true;
    config.flag_options.arch_2 = true;
    config.vmemmap_base = 0xffff_ea00_0000_0000;
    config.hvo = true;
    config.dax_hvo = true;
    // the type shows in /proc/pagetypeinfo of 7.3 and not of 6.18
    config.cma = version.major >= 7;
    config
}

fn arm64(version: KernelVersion) -> KernelConfig {
    let mut config = base(Arch::Arm64, version);
    config.max_physmem_bits = 48;
    config.zones = ZoneSet::new(&[ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Device]);
    config.nodes_shift = 4;
    config.nr_cpus = if version.major > 6 || version.minor >= 12 {
        512
    } else {
        256
    };
    config.flag_options.arch_2 = true;
    config.flag_options.arch_3 = true;
    config.vmemmap_base = 0xffff_fdff_c000_0000;
    config
}

/// riscv64 and ppc64 share the memory map of compound device pages in 6.12 and not in 6.1; when
/// between they began to was not read.
const fn shares_device_memmap_off_amd64(version: KernelVersion) -> bool {
    version.major > 6 || version.minor >= 12
}

fn ppc64(version: KernelVersion) -> KernelConfig {
    let mut config = base(Arch::Ppc64, version);
    config.section_bits = 24;
    config.max_physmem_bits = 51;
    config.zones = ZoneSet::new(&[ZoneKind::Device]);
    config.nodes_shift = 8;
    config.nr_cpus = 2048;
    config.dax_hvo = shares_device_memmap_off_amd64(version);
    config.vmemmap_base = 0xc00c_0000_0000_0000;
    config.poison_offset = 0x5dea_dbee_f000_0000;
    config
}

impl Profile {
    /// A distribution's amd64 kernel: 1024 nodes, 8192 CPUs, 4-level page tables.
    pub fn amd64(version: KernelVersion) -> Self {
        preset(amd64(version))
    }

    /// A small amd64 kernel: 64 nodes, 64 CPUs, no zone for devices.
    pub fn amd64_small(version: KernelVersion) -> Self {
        let mut config = amd64(version);
        config.zones = ZoneSet::new(&[ZoneKind::Dma, ZoneKind::Dma32]);
        config.nodes_shift = 6;
        config.nr_cpus = 64;
        preset(config)
    }

    /// A distribution's arm64 kernel with pages of 4 KiB.
    pub fn arm64_4k(version: KernelVersion) -> Self {
        preset(arm64(version))
    }

    /// A distribution's arm64 kernel with pages of 16 KiB.
    pub fn arm64_16k(version: KernelVersion) -> Self {
        let mut config = arm64(version);
        config.page_shift = 14;
        config.max_page_order = 11;
        config.pageblock_order = 11;
        preset(config)
    }

    /// An arm64 kernel with pages of 64 KiB: a section of 512 MiB is one block.
    pub fn arm64_64k(version: KernelVersion) -> Self {
        let mut config = arm64(version);
        config.page_shift = 16;
        config.section_bits = 29;
        config.max_page_order = 13;
        config.pageblock_order = 13;
        preset(config)
    }

    /// A distribution's riscv64 kernel, five levels of page tables.
    pub fn riscv64(version: KernelVersion) -> Self {
        let mut config = base(Arch::Riscv64, version);
        config.max_physmem_bits = 56;
        config.zones = ZoneSet::new(&[ZoneKind::Dma32, ZoneKind::Device]);
        config.nodes_shift = 2;
        config.nr_cpus = 128;
        config.flag_options.memory_failure = false;
        config.vmemmap_base = 0xff1b_ffff_fe00_0000;
        config.hvo = true;
        config.dax_hvo = shares_device_memmap_off_amd64(version);
        config.cma = false;
        preset(config)
    }

    /// A distribution's ppc64 kernel with pages of 64 KiB and the radix MMU.
    ///
    /// With the hash MMU the pageblock order is 8.
    pub fn ppc64_64k(version: KernelVersion) -> Self {
        let mut config = ppc64(version);
        config.page_shift = 16;
        config.max_page_order = 8;
        config.pageblock_order = 5;
        preset(config)
    }

    /// A distribution's ppc64 kernel with pages of 4 KiB and the radix MMU.
    ///
    /// With the hash MMU the pageblock order is 12 and the memory map lies elsewhere.
    pub fn ppc64_4k(version: KernelVersion) -> Self {
        let mut config = ppc64(version);
        config.max_page_order = 12;
        config.pageblock_order = 9;
        preset(config)
    }

    /// A distribution's s390x kernel: big-endian, without NUMA.
    pub fn s390x(version: KernelVersion) -> Self {
        let mut config = base(Arch::S390x, version);
        // 128 MiB instead of 256 came after 6.12 and is in 6.18.
        let small_sections = version.major > 6 || version.minor >= 18;
        config.section_bits = if small_sections { 27 } else { 28 };
        config.pageblock_order = 8;
        config.zones = ZoneSet::new(&[ZoneKind::Dma]);
        config.nr_cpus = 256;
        config.numa_balancing = false;
        config.flag_options.memory_failure = false;
        config.byte_order = ByteOrder::Big;
        config.vmemmap_base = 0x372_0000_0000;
        config.poison_offset = 0;
        preset(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_builds_for_old_present_and_future_releases() {
        let presets: [fn(KernelVersion) -> Profile; 9] = [
            Profile::amd64,
            Profile::amd64_small,
            Profile::arm64_4k,
            Profile::arm64_16k,
            Profile::arm64_64k,
            Profile::riscv64,
            Profile::ppc64_64k,
            Profile::ppc64_4k,
            Profile::s390x,
        ];
        for preset in presets {
            for (major, minor) in [
                (3, 2),
                (4, 15),
                (6, 1),
                (6, 6),
                (6, 12),
                (6, 15),
                (6, 18),
                (7, 3),
                (9, 0),
            ] {
                let profile = preset(KernelVersion::new(major, minor));
                assert!(profile.pages_per_section() >= profile.max_order_pages());
                assert!(profile.pageblock_pages() <= profile.max_order_pages());
            }
        }
    }
}
