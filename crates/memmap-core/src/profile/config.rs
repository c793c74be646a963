//! What a kernel was configured to be.
//!
//! Plain data with public fields: take a preset, change what differs, and have it checked by
//! [`KernelConfig::build`].

use super::{Arch, Behaviours, KernelVersion, Profile, ProfileError, ZoneSet};

/// Where struct pages live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryModel {
    /// One array for one node.
    #[doc(alias = "CONFIG_FLATMEM")]
    Flat,
    /// An array a section, whose number is kept in the flags word.
    #[doc(alias = "CONFIG_SPARSEMEM")]
    Sparse,
    /// As sparse, with all arrays in one virtual range.
    #[doc(alias = "CONFIG_SPARSEMEM_VMEMMAP")]
    SparseVmemmap,
}

/// Which memory tags the flags word has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KasanTags {
    /// None.
    Off,
    /// Those of the software checker: 8 bits.
    Software,
    /// Those of the hardware: 8 bits, 4 from 6.17 on.
    Hardware,
}

/// How the bytes of a number lie in memory. It decides on which side of its 64-bit word the
/// reference count of a struct page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Lowest byte first.
    Little,
    /// Highest byte first.
    Big,
}

/// The options that page flags depend on; a flag whose option is off does not exist and those
/// after it move down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlagOptions {
    /// `mlocked` exists.
    #[doc(alias = "CONFIG_MMU")]
    pub mmu: bool,
    /// `uncached` exists (6.1 on x86).
    #[doc(alias = "CONFIG_ARCH_USES_PG_UNCACHED")]
    pub uncached: bool,
    /// `hwpoison` exists.
    #[doc(alias = "CONFIG_MEMORY_FAILURE")]
    pub memory_failure: bool,
    /// `young` and `idle` exist.
    #[doc(alias = "CONFIG_PAGE_IDLE_FLAG")]
    pub page_idle: bool,
    /// `arch_2` exists.
    #[doc(alias = "CONFIG_ARCH_USES_PG_ARCH_2")]
    pub arch_2: bool,
    /// `arch_3` exists (6.12 on, arm64 with memory tags).
    #[doc(alias = "CONFIG_ARCH_USES_PG_ARCH_3")]
    pub arch_3: bool,
}

/// Everything that differs between kernels.
///
/// ```
/// use memmap_core::{KernelVersion, Profile};
///
/// let mut config = Profile::amd64(KernelVersion::V6_12).config().clone();
/// config.nodes_shift = 6;
/// config.nr_cpus = 512;
/// let profile = config.build()?;
/// assert_eq!(profile.flags_layout().node().width, 6);
/// # Ok::<(), memmap_core::ProfileError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KernelConfig {
    /// The architecture.
    pub arch: Arch,
    /// The release, for those who print it; it decides nothing.
    pub version: KernelVersion,
    /// Log2 of the page size in bytes: 12 to 18.
    #[doc(alias = "PAGE_SHIFT")]
    pub page_shift: u32,
    /// Log2 of a section's size in bytes.
    #[doc(alias = "SECTION_SIZE_BITS")]
    pub section_bits: u32,
    /// Bits of a physical address.
    #[doc(alias = "MAX_PHYSMEM_BITS")]
    pub max_physmem_bits: u32,
    /// Log2 of the largest buddy block in pages (inclusive, whatever the release calls it).
    #[doc(alias = "MAX_PAGE_ORDER")]
    #[doc(alias = "MAX_ORDER")]
    pub max_page_order: u32,
    /// Log2 of a pageblock in pages.
    pub pageblock_order: u32,
    /// The configured zones.
    pub zones: ZoneSet,
    /// Bits of a node number; 0 without NUMA.
    #[doc(alias = "NODES_SHIFT")]
    pub nodes_shift: u32,
    /// How many CPUs the kernel is built for.
    #[doc(alias = "CONFIG_NR_CPUS")]
    pub nr_cpus: u32,
    /// The flags word remembers who touched a page last.
    #[doc(alias = "CONFIG_NUMA_BALANCING")]
    pub numa_balancing: bool,
    /// The flags word has a generation for multi-generational reclaim.
    #[doc(alias = "CONFIG_LRU_GEN")]
    pub lru_gen: bool,
    /// Memory tags in the flags word.
    pub kasan: KasanTags,
    /// Options that page flags depend on.
    pub flag_options: FlagOptions,
    /// Bits of the flags word: 64, or 32.
    #[doc(alias = "BITS_PER_LONG")]
    pub word_bits: u32,
    /// Byte order.
    pub byte_order: ByteOrder,
    /// Where struct pages live.
    pub memory_model: MemoryModel,
    /// Bytes of a struct page: 56 to 96, a multiple of 8.
    pub struct_page_bytes: u32,
    /// A struct page names its memory control group, in its eighth word.
    #[doc(alias = "CONFIG_MEMCG")]
    pub memcg: bool,
    /// A struct page holds the address of its frame: that of frame 0.
    #[doc(alias = "WANT_PAGE_VIRTUAL")]
    pub page_virtual: Option<u64>,
    /// The address of frame 0's struct page, in the modelled kernel.
    #[doc(alias = "VMEMMAP_START")]
    pub vmemmap_base: u64,
    /// Struct pages of the last zone of a node may be initialised late.
    #[doc(alias = "CONFIG_DEFERRED_STRUCT_PAGE_INIT")]
    pub deferred_init: bool,
    /// The vmemmap of huge pages is optimised.
    #[doc(alias = "CONFIG_HUGETLB_PAGE_OPTIMIZE_VMEMMAP")]
    pub hvo: bool,
    /// The vmemmap of compound device pages is shared.
    #[doc(alias = "ARCH_WANT_OPTIMIZE_DAX_VMEMMAP")]
    pub dax_hvo: bool,
    /// What makes a poison value an address that nothing has.
    #[doc(alias = "POISON_POINTER_DELTA")]
    pub poison_offset: u64,
    /// Free blocks may be set aside for contiguous allocation.
    #[doc(alias = "CONFIG_CMA")]
    pub cma: bool,
    /// What changed between releases.
    pub behaviours: Behaviours,
}

impl KernelConfig {
    /// Checks that the parts agree.
    ///
    /// # Errors
    /// A [`ProfileError`] that names both sides of the first contradiction.
    pub fn build(self) -> Result<Profile, ProfileError> {
        Profile::new(self)
    }

    /// Bytes of a page.
    pub const fn page_size(&self) -> u64 {
        1 << self.page_shift
    }

    /// Pages of a section.
    #[doc(alias = "PAGES_PER_SECTION")]
    pub const fn pages_per_section(&self) -> u64 {
        1 << (self.section_bits - self.page_shift)
    }

    /// Pages of the largest buddy block.
    #[doc(alias = "MAX_ORDER_NR_PAGES")]
    pub const fn max_order_pages(&self) -> u64 {
        1 << self.max_page_order
    }

    /// Pages of a pageblock.
    #[doc(alias = "pageblock_nr_pages")]
    pub const fn pageblock_pages(&self) -> u64 {
        1 << self.pageblock_order
    }

    /// Pages of a sub-section (2 MiB), at least one.
    #[doc(alias = "PAGES_PER_SUBSECTION")]
    pub const fn pages_per_subsection(&self) -> u64 {
        if self.page_shift >= 21 {
            1
        } else {
            1 << (21 - self.page_shift)
        }
    }

    /// How many sections the address space has.
    #[doc(alias = "NR_MEM_SECTIONS")]
    pub const fn nr_mem_sections(&self) -> u64 {
        1 << self.section_number_bits()
    }

    /// Bytes of a section's usage structure: a header of 16, the sub-section bitmap (vmemmap),
    /// the pageblock bitmap; bitmaps in whole words.
    #[doc(alias = "mem_section_usage_size")]
    pub const fn section_usage_bytes(&self) -> u64 {
        let subsections = match self.memory_model {
            MemoryModel::SparseVmemmap => self.pages_per_section() / self.pages_per_subsection(),
            _ => 0,
        };
        let blocks = self.pages_per_section() >> self.pageblock_order;
        let blocks = blocks * self.behaviours.pageblock_bits as u64;
        16 + (subsections.div_ceil(64) + blocks.div_ceil(64)) * 8
    }

    /// Bits of a section number.
    #[doc(alias = "SECTIONS_SHIFT")]
    pub const fn section_number_bits(&self) -> u32 {
        self.max_physmem_bits.saturating_sub(self.section_bits)
    }
}
