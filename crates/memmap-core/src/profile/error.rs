//! Contradictions between the parts of a configuration.

use crate::flags::FlagsLayout;

use super::{KernelConfig, MemoryModel};

/// Two parts of a configuration that exclude each other, or one that no kernel can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// A page size that no architecture has.
    #[error("page_shift is {page_shift}: it must be from 12 (4 KiB) to 18 (256 KiB)")]
    PageShift {
        /// Log2 of the page size.
        page_shift: u32,
    },
    /// Sections that are smaller than a sub-section or reach the address width.
    #[error(
        "section_bits is {section_bits} and max_physmem_bits {max_physmem_bits}: sections must \
         be from 2 MiB (21 bits) up and smaller than the address space, which has at most 56 bits"
    )]
    SectionSize {
        /// Log2 of a section in bytes.
        section_bits: u32,
        /// Bits of a physical address.
        max_physmem_bits: u32,
    },
    /// A buddy block would leave its section.
    #[error(
        "blocks of order {max_page_order} with pages of 2^{page_shift} bytes do not fit a section \
         of 2^{section_bits} bytes: lower max_page_order or raise section_bits"
    )]
    BlockBeyondSection {
        /// Log2 of the largest block in pages.
        max_page_order: u32,
        /// Log2 of the page size.
        page_shift: u32,
        /// Log2 of a section in bytes.
        section_bits: u32,
    },
    /// A pageblock would be larger than the largest block.
    #[error("pageblock_order is {pageblock_order}, above max_page_order {max_page_order}")]
    PageblockBeyondBlock {
        /// Log2 of a pageblock in pages.
        pageblock_order: u32,
        /// Log2 of the largest block in pages.
        max_page_order: u32,
    },
    /// The flags word cannot hold what it must.
    #[error(
        "the flags word needs {needed} bits for {what} but {nr_pageflags} page flags leave only \
         {available}: lower nodes_shift, drop tags, or use memory model Sparse"
    )]
    FlagsDoNotFit {
        /// What the bits are for.
        what: &'static str,
        /// Bits that are needed.
        needed: u32,
        /// Bits that are left.
        available: u32,
        /// Bits that the page flags take.
        nr_pageflags: u32,
    },
    /// A flags word of a width that no kernel has.
    #[error("word_bits is {word_bits}: it must be 32 or 64")]
    WordBits {
        /// Bits of the flags word.
        word_bits: u32,
    },
    /// More node bits than node ids have.
    #[error("nodes_shift is {nodes_shift}: it must be at most 10")]
    NodesShift {
        /// Bits of a node number.
        nodes_shift: u32,
    },
    /// A kernel for no CPU.
    #[error("nr_cpus is 0")]
    NoCpus,
    /// A struct page of a size that none has.
    #[error("struct_page_bytes is {bytes}: it must be a multiple of 8 from 56 to 96")]
    StructPageSize {
        /// Bytes of a struct page.
        bytes: u32,
    },
    /// A struct page without room for its fields.
    #[error("struct_page_bytes is {bytes}, but {what} need {needed}")]
    StructPageTooSmall {
        /// Bytes of a struct page.
        bytes: u32,
        /// Which fields.
        what: &'static str,
        /// Bytes that they need.
        needed: u32,
    },
    /// A memory model for one node, and several nodes.
    #[error("memory model Flat knows one node, but nodes_shift is {nodes_shift}")]
    FlatWithNodes {
        /// Bits of a node number.
        nodes_shift: u32,
    },
    /// Deferral on a kernel that cannot defer.
    #[error("deferred_init needs a sparse memory model and 64 bits, not {model:?} and {word_bits}")]
    DeferredInit {
        /// Where struct pages live.
        model: MemoryModel,
        /// Bits of the flags word.
        word_bits: u32,
    },
    /// NUMA balancing without NUMA.
    #[error("numa_balancing is on, but nodes_shift is 0")]
    BalancingWithoutNodes,
    /// A memory map at an address that struct pages cannot have.
    #[error("vmemmap_base is {base:#x}: it must be a multiple of 8")]
    VmemmapBase {
        /// The address of frame 0's struct page.
        base: u64,
    },
}

/// What can be said before the flags word is laid out.
pub(super) fn check(config: &KernelConfig) -> Result<(), ProfileError> {
    let c = config;
    if !(12..=18).contains(&c.page_shift) {
        return Err(ProfileError::PageShift {
            page_shift: c.page_shift,
        });
    }
    if c.section_bits < 21 || c.section_bits >= c.max_physmem_bits || c.max_physmem_bits > 56 {
        return Err(ProfileError::SectionSize {
            section_bits: c.section_bits,
            max_physmem_bits: c.max_physmem_bits,
        });
    }
    if c.max_page_order.saturating_add(c.page_shift) > c.section_bits {
        return Err(ProfileError::BlockBeyondSection {
            max_page_order: c.max_page_order,
            page_shift: c.page_shift,
            section_bits: c.section_bits,
        });
    }
    if c.pageblock_order > c.max_page_order {
        return Err(ProfileError::PageblockBeyondBlock {
            pageblock_order: c.pageblock_order,
            max_page_order: c.max_page_order,
        });
    }
    if c.word_bits != 32 && c.word_bits != 64 {
        return Err(ProfileError::WordBits {
            word_bits: c.word_bits,
        });
    }
    if c.nodes_shift > 10 {
        return Err(ProfileError::NodesShift {
            nodes_shift: c.nodes_shift,
        });
    }
    if c.nr_cpus == 0 {
        return Err(ProfileError::NoCpus);
    }
    if c.memory_model == MemoryModel::Flat && c.nodes_shift > 0 {
        return Err(ProfileError::FlatWithNodes {
            nodes_shift: c.nodes_shift,
        });
    }
    if c.deferred_init && (c.memory_model == MemoryModel::Flat || c.word_bits != 64) {
        return Err(ProfileError::DeferredInit {
            model: c.memory_model,
            word_bits: c.word_bits,
        });
    }
    if c.numa_balancing && c.nodes_shift == 0 {
        return Err(ProfileError::BalancingWithoutNodes);
    }
    if !c.vmemmap_base.is_multiple_of(8) {
        return Err(ProfileError::VmemmapBase {
            base: c.vmemmap_base,
        });
    }
    Ok(())
}

/// Whether a struct page has room for what the configuration puts into it.
pub(super) fn check_struct_page(
    config: &KernelConfig,
    flags: &FlagsLayout,
) -> Result<(), ProfileError> {
    let bytes = config.struct_page_bytes;
    if !(56..=96).contains(&bytes) || !bytes.is_multiple_of(8) {
        return Err(ProfileError::StructPageSize { bytes });
    }
    let mut needed = 56;
    let mut what = "its first fields";
    if config.memcg {
        needed += 8;
        what = "its first fields and the control group";
    }
    if config.page_virtual.is_some() {
        needed += 8;
        what = "its first fields, the control group and the frame's address";
    }
    if config.numa_balancing && flags.last_cpupid().width == 0 {
        needed += 8;
        what = "its fields with a last CPU that the flags word has no room for";
    }
    if needed > bytes {
        return Err(ProfileError::StructPageTooSmall {
            bytes,
            what,
            needed,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{KasanTags, KernelVersion, Profile, ZoneKind, ZoneSet};

    fn refused(change: impl FnOnce(&mut KernelConfig)) -> ProfileError {
        let mut config = Profile::amd64(KernelVersion::V6_12).config().clone();
        change(&mut config);
        config.build().expect_err("the contradiction must be found")
    }

    #[test]
    fn each_contradiction_is_refused_and_names_both_sides() {
        let error = refused(|c| c.max_page_order = 16);
        assert_eq!(
            error,
            ProfileError::BlockBeyondSection {
                max_page_order: 16,
                page_shift: 12,
                section_bits: 27
            }
        );
        assert!(alloc::format!("{error}").contains("order 16"));
        assert!(matches!(
            refused(|c| c.pageblock_order = 11),
            ProfileError::PageblockBeyondBlock {
                pageblock_order: 11,
                max_page_order: 10
            }
        ));
        assert!(matches!(
            refused(|c| c.page_shift = 11),
            ProfileError::PageShift { .. }
        ));
        assert!(matches!(
            refused(|c| c.section_bits = 46),
            ProfileError::SectionSize { .. }
        ));
        assert!(matches!(
            refused(|c| c.section_bits = 20),
            ProfileError::SectionSize { .. }
        ));
        assert!(matches!(
            refused(|c| c.nodes_shift = 11),
            ProfileError::NodesShift { .. }
        ));
        assert!(matches!(refused(|c| c.nr_cpus = 0), ProfileError::NoCpus));
        assert!(matches!(
            refused(|c| c.struct_page_bytes = 60),
            ProfileError::StructPageSize { .. }
        ));
        assert!(matches!(
            refused(|c| c.struct_page_bytes = 104),
            ProfileError::StructPageSize { .. }
        ));
        assert!(matches!(
            refused(|c| c.struct_page_bytes = 56),
            ProfileError::StructPageTooSmall {
                bytes: 56,
                needed: 64,
                ..
            }
        ));
        assert!(matches!(
            refused(|c| c.word_bits = 16),
            ProfileError::WordBits { .. }
        ));
        assert!(matches!(
            refused(|c| c.memory_model = MemoryModel::Flat),
            ProfileError::FlatWithNodes { nodes_shift: 10 }
        ));
        assert!(matches!(
            refused(|c| c.vmemmap_base += 4),
            ProfileError::VmemmapBase { .. }
        ));
        assert!(matches!(
            refused(|c| {
                c.nodes_shift = 0;
            }),
            ProfileError::BalancingWithoutNodes
        ));
        assert!(matches!(
            refused(|c| {
                c.memory_model = MemoryModel::Flat;
                c.nodes_shift = 0;
                c.numa_balancing = false;
            }),
            ProfileError::DeferredInit { .. }
        ));
    }

    #[test]
    fn nodes_that_do_not_fit_the_flags_word_are_refused_where_they_must_be_there() {
        let error = refused(|c| {
            c.word_bits = 32;
            c.deferred_init = false;
            c.zones = ZoneSet::new(&[ZoneKind::Dma]);
        });
        assert!(
            matches!(
                error,
                ProfileError::FlagsDoNotFit {
                    needed: 15,
                    available: 8,
                    ..
                }
            ),
            "{error:?}"
        );
    }

    #[test]
    fn tags_that_do_not_fit_are_refused() {
        let error = refused(|c| c.kasan = KasanTags::Software);
        assert!(
            matches!(error, ProfileError::StructPageTooSmall { .. }),
            "{error:?}"
        );
    }
}
