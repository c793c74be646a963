//! Where the fields of the flags word are.

use memblock::NodeId;

use crate::profile::{KasanTags, KernelConfig, MemoryModel, ProfileError, ZoneIndex, ZoneSet};

use super::PageFlagNumbers;

/// A field of the flags word: bits `[shift, shift + width)`. A field of width 0 is not there and
/// has shift 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Field {
    /// The lowest bit.
    pub shift: u32,
    /// How many bits.
    pub width: u32,
}

impl Field {
    /// All ones, `width` bits long.
    pub const fn mask(self) -> u64 {
        if self.width == 0 {
            0
        } else {
            u64::MAX >> (64 - self.width)
        }
    }

    /// The field's value in `word`.
    pub const fn get(self, word: u64) -> u64 {
        (word >> self.shift) & self.mask()
    }

    /// `value`, cut to the field's width, at the field's place.
    pub const fn put(self, value: u64) -> u64 {
        (value & self.mask()) << self.shift
    }
}

/// What the layout follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagsInputs {
    /// Bits of the word: 32 or 64.
    pub word_bits: u32,
    /// How many page flags there are.
    pub nr_pageflags: u32,
    /// Bits of a section number; 0 unless the memory model is classic sparse.
    pub section_bits: u32,
    /// Bits of a node number.
    pub nodes_shift: u32,
    /// Bits of a zone number.
    pub zones_shift: u32,
    /// How many CPUs the kernel is built for.
    pub nr_cpus: u32,
    /// The word remembers who touched the page last.
    pub numa_balancing: bool,
    /// Bits of a memory tag.
    pub kasan_bits: u32,
    /// The word has a generation for reclaim.
    pub lru_gen: bool,
}

/// Where the fields of the flags word are, and what its page flags are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagsLayout {
    word_bits: u32,
    section: Field,
    node: Field,
    zone: Field,
    last_cpupid: Field,
    kasan_tag: Field,
    lru_gen: Field,
    lru_refs: Field,
    free: u32,
    numbers: PageFlagNumbers,
    zones: ZoneSet,
}

/// Bits of a process id in the last-CPU field.
const LAST_PID_BITS: u32 = 8;
/// Bits of a generation: log2 of four generations and "none".
const LRU_GEN_BITS: u32 = 3;
/// Bits of the reference counter beside it, where there is room.
const LRU_REFS_BITS: u32 = 2;

impl FlagsLayout {
    /// The layout that follows from `config`.
    ///
    /// # Errors
    /// [`ProfileError::FlagsDoNotFit`] where the zone, the section, the tag, or a node that has
    /// no other place finds no room.
    pub fn of(config: &KernelConfig) -> Result<Self, ProfileError> {
        let numbers = PageFlagNumbers::of(config);
        let inputs = FlagsInputs {
            word_bits: config.word_bits,
            nr_pageflags: numbers.count(),
            section_bits: match config.memory_model {
                MemoryModel::Sparse => config.section_number_bits(),
                _ => 0,
            },
            nodes_shift: config.nodes_shift,
            zones_shift: config.zones.shift(),
            nr_cpus: config.nr_cpus,
            numa_balancing: config.numa_balancing,
            kasan_bits: match config.kasan {
                KasanTags::Off => 0,
                KasanTags::Software => 8,
                KasanTags::Hardware => u32::from(config.behaviours.kasan_hw_bits),
            },
            lru_gen: config.lru_gen,
        };
        let layout = Self::compute(&inputs, numbers, config.zones)?;
        if config.memory_model == MemoryModel::SparseVmemmap
            && config.nodes_shift > 0
            && layout.node.width == 0
        {
            return Err(ProfileError::FlagsDoNotFit {
                what: "zone, generation and node (which a vmemmap kernel keeps nowhere else)",
                needed: inputs.zones_shift + inputs.lru_gen_bits() + inputs.nodes_shift,
                available: inputs.word_bits - inputs.nr_pageflags,
                nr_pageflags: inputs.nr_pageflags,
            });
        }
        Ok(layout)
    }

    /// The layout that follows from bare widths.
    ///
    /// # Errors
    /// [`ProfileError::FlagsDoNotFit`] where what must be in the word finds no room.
    pub fn compute(
        inputs: &FlagsInputs,
        numbers: PageFlagNumbers,
        zones: ZoneSet,
    ) -> Result<Self, ProfileError> {
        let room = inputs.word_bits.saturating_sub(inputs.nr_pageflags);
        let fixed = inputs.zones_shift + inputs.lru_gen_bits() + inputs.section_bits;
        let node_width = if fixed + inputs.nodes_shift <= room {
            inputs.nodes_shift
        } else {
            0
        };
        let with_tag = fixed + node_width + inputs.kasan_bits;
        if with_tag > room {
            return Err(ProfileError::FlagsDoNotFit {
                what: "section, zone, generation and tag",
                needed: with_tag,
                available: room,
                nr_pageflags: inputs.nr_pageflags,
            });
        }
        let cpupid = LAST_PID_BITS + order_base_2(inputs.nr_cpus);
        let cpupid_width = if inputs.numa_balancing && with_tag + cpupid <= room {
            cpupid
        } else {
            0
        };
        let mut top = inputs.word_bits;
        let mut take = |width: u32| {
            top -= width;
            Field {
                shift: if width == 0 { 0 } else { top },
                width,
            }
        };
        let section = take(inputs.section_bits);
        let node = take(node_width);
        let zone = take(inputs.zones_shift);
        let last_cpupid = take(cpupid_width);
        let kasan_tag = take(inputs.kasan_bits);
        let lru_gen = take(inputs.lru_gen_bits());
        let refs = if inputs.lru_gen {
            LRU_REFS_BITS.min(room - with_tag - cpupid_width)
        } else {
            0
        };
        let lru_refs = take(refs);
        Ok(Self {
            word_bits: inputs.word_bits,
            section,
            node,
            zone,
            last_cpupid,
            kasan_tag,
            lru_gen,
            lru_refs,
            free: top - inputs.nr_pageflags,
            numbers,
            zones,
        })
    }

    /// The word of a page that was just initialised, without any page flag.
    ///
    /// `zone` is masked as Linux masks it, so that [`ZoneSet::none`] can be stored. `section` is
    /// its number, which only classic sparse kernels store. Tag bits are 0: the tag "match all"
    /// is stored inverted.
    #[doc(alias = "set_page_links")]
    pub const fn links(&self, node: NodeId, zone: ZoneIndex, section: u64) -> u64 {
        self.section.put(section)
            | self.node.put(node.get() as u64)
            | self.zone.put(zone.0 as u64)
            | self.last_cpupid.put(u64::MAX)
    }

    /// Bits of the word: 32 or 64.
    pub const fn word_bits(&self) -> u32 {
        self.word_bits
    }

    /// The section's number; wide in classic sparse kernels only.
    #[doc(alias = "SECTIONS_PGSHIFT")]
    pub const fn section(&self) -> Field {
        self.section
    }

    /// The node's number; 0 wide where it is found through the section.
    #[doc(alias = "NODES_PGSHIFT")]
    pub const fn node(&self) -> Field {
        self.node
    }

    /// The zone's number.
    #[doc(alias = "ZONES_PGSHIFT")]
    pub const fn zone(&self) -> Field {
        self.zone
    }

    /// CPU and process that touched the page last; 0 wide where it is a word of its own.
    #[doc(alias = "LAST_CPUPID_PGSHIFT")]
    pub const fn last_cpupid(&self) -> Field {
        self.last_cpupid
    }

    /// The memory tag.
    #[doc(alias = "KASAN_TAG_PGSHIFT")]
    pub const fn kasan_tag(&self) -> Field {
        self.kasan_tag
    }

    /// The generation of multi-generational reclaim.
    #[doc(alias = "LRU_GEN_PGOFF")]
    pub const fn lru_gen(&self) -> Field {
        self.lru_gen
    }

    /// The reference counter beside the generation.
    #[doc(alias = "LRU_REFS_PGOFF")]
    pub const fn lru_refs(&self) -> Field {
        self.lru_refs
    }

    /// What tells zones apart: node and zone, or section and zone where the node is not here.
    #[doc(alias = "page_zone_id")]
    #[doc(alias = "ZONEID_PGSHIFT")]
    pub const fn zone_id(&self) -> Field {
        let upper = if self.node.width > 0 {
            self.node
        } else {
            self.section
        };
        let shift = if upper.width == 0 {
            self.zone.shift
        } else if self.zone.width == 0 || upper.shift < self.zone.shift {
            upper.shift
        } else {
            self.zone.shift
        };
        Field {
            shift,
            width: upper.width + self.zone.width,
        }
    }

    /// Bits between the fields and the page flags.
    pub const fn free_bits(&self) -> u32 {
        self.free
    }

    /// The page flags and their numbers.
    pub const fn numbers(&self) -> &PageFlagNumbers {
        &self.numbers
    }

    /// The configured zones.
    pub const fn zones(&self) -> ZoneSet {
        self.zones
    }
}

impl FlagsInputs {
    const fn lru_gen_bits(&self) -> u32 {
        if self.lru_gen { LRU_GEN_BITS } else { 0 }
    }
}

/// The smallest `n` with `2^n >= value`.
const fn order_base_2(value: u32) -> u32 {
    if value <= 1 {
        0
    } else {
        32 - (value - 1).leading_zeros()
    }
}
