//! Kexec hand-over: memory that the next kernel boots from, and memory that it finds again.
//!
//! A kernel that is to be replaced sets *scratch* areas aside, in which nothing lives that must
//! survive; the next kernel allocates from them alone until it knows what was preserved. Since
//! 6.16. `Linux: kernel/kexec_handover.c` and its places in `mm/memblock.c`.
//!
//! What is here was read and never seen running: the kernels that were observed have it off.

use alloc::vec::Vec;

use thiserror::Error;

use crate::size::take_size;
use crate::{
    AllocError, AllocRequest, KhoSizing, Memblock, MemblockError, MemblockFlags, NodeId, PhysAddr,
    PhysRange,
};

/// Blocks of this size are scratch or not as a whole, where areas are extended.
const EXTENSION: u64 = 1 << 30;
/// An entry of the array of areas: address and size.
const ENTRY: u64 = 16;
const LOW: PhysAddr = PhysAddr::new(1 << 32);

/// `kho_scratch=`: how large the areas are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum KhoScratch {
    /// So much of what the kernel itself has reserved, in percent.
    Percent(u32),
    /// So many bytes.
    Bytes {
        /// Below 4 GiB.
        low: u64,
        /// Anywhere.
        global: u64,
        /// On every node.
        per_node: u64,
    },
}

impl Default for KhoScratch {
    /// Twice what the kernel has reserved.
    fn default() -> Self {
        Self::Percent(200)
    }
}

/// Why there are no areas. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KhoError {
    /// This kernel knows no such hand-over.
    #[error("a kernel of this behaviour has no kexec hand-over (since 6.16)")]
    Absent,
    /// The option is neither `N%` nor `LOW,GLOBAL,PERNODE`.
    #[error("kho_scratch= takes N% or LOW,GLOBAL,PERNODE")]
    Malformed,
    /// An area is rounded to a power of two of bytes.
    #[error("areas are rounded to {unit} bytes: give a power of two")]
    Unit {
        /// Bytes.
        unit: u64,
    },
    /// An area finds no place.
    #[error("a scratch area finds no place: {0}")]
    Allocation(#[from] AllocError),
    /// The arrays can't take it.
    #[error(transparent)]
    Array(#[from] MemblockError),
}

impl KhoScratch {
    /// Reads the option's value.
    ///
    /// # Errors
    /// [`KhoError::Malformed`].
    pub fn parse(value: &str) -> Result<Self, KhoError> {
        Self::read(value).ok_or(KhoError::Malformed)
    }

    fn read(value: &str) -> Option<Self> {
        if let Some(percent) = value.strip_suffix('%') {
            let plain = !percent.is_empty() && percent.bytes().all(|it| it.is_ascii_digit());
            return plain.then(|| percent.parse().ok().map(Self::Percent))?;
        }
        let (low, rest) = take_size(value)?;
        let (global, rest) = take_size(rest.strip_prefix(',')?)?;
        let (per_node, rest) = take_size(rest.strip_prefix(',')?)?;
        rest.is_empty().then_some(Self::Bytes {
            low,
            global,
            per_node,
        })
    }
}

impl Memblock {
    /// Sets the scratch areas aside as the last thing before hand-over: one below 4 GiB, one
    /// anywhere, one on each of `nodes`, each rounded up to `unit` bytes (a pageblock up to 7.1,
    /// the largest block of the page allocator since). Their array is reserved too.
    ///
    /// The areas come in this order. A size of nothing makes an empty area.
    ///
    /// # Errors
    /// [`KhoError::Absent`], [`KhoError::Unit`], [`KhoError::Allocation`].
    pub fn kho_reserve_scratch(
        &mut self,
        sizes: KhoScratch,
        nodes: &[NodeId],
        unit: u64,
    ) -> Result<Vec<PhysRange>, KhoError> {
        if self.behaviour().kho == KhoSizing::Absent {
            return Err(KhoError::Absent);
        }
        if !unit.is_power_of_two() {
            return Err(KhoError::Unit { unit });
        }
        let before = self.clone();
        let areas = self.kho_areas(sizes, nodes, unit);
        if areas.is_err() {
            *self = before;
        }
        areas
    }

    fn kho_areas(
        &mut self,
        sizes: KhoScratch,
        nodes: &[NodeId],
        unit: u64,
    ) -> Result<Vec<PhysRange>, KhoError> {
        let round = |size: u64| size.checked_next_multiple_of(unit).unwrap_or(u64::MAX);
        let (low, global) = self.kho_low_and_global(sizes, round);
        let per_node: Vec<u64> = nodes
            .iter()
            .map(|&node| match sizes {
                KhoScratch::Bytes { per_node, .. } => round(per_node),
                KhoScratch::Percent(percent) => round(part(
                    self.kho_kernel_bytes(PhysAddr::MAX, Some(node)),
                    percent,
                )),
            })
            .collect();
        let entries = ENTRY * (nodes.len() as u64 + 2);
        self.alloc(AllocRequest::new(entries, 0))?;
        let mut areas = Vec::with_capacity(nodes.len() + 2);
        areas.push(self.alloc(AllocRequest::phys(low, unit).below(LOW))?);
        areas.push(self.alloc(AllocRequest::phys(global, unit))?);
        for (&node, size) in nodes.iter().zip(per_node) {
            areas.push(self.alloc(AllocRequest::phys(size, unit).exact_node(node))?);
        }
        Ok(areas)
    }

    fn kho_low_and_global(&self, sizes: KhoScratch, round: impl Fn(u64) -> u64) -> (u64, u64) {
        let first = self.behaviour().kho == KhoSizing::LowRoundedFirst;
        match sizes {
            KhoScratch::Bytes { low, global, .. } if first => (low, global),
            KhoScratch::Bytes { low, global, .. } => (round(low), round(global)),
            KhoScratch::Percent(percent) => {
                let low = part(self.kho_kernel_bytes(LOW, None), percent);
                let low = if first { round(low) } else { low };
                let all = part(self.kho_kernel_bytes(PhysAddr::MAX, None), percent);
                // a kernel whose low area is rounded beyond the whole wraps around here, and
                // then finds no place
                (round(low), round(all.saturating_sub(low)))
            }
        }
    }

    /// Bytes below `limit`, of `node`, that the kernel has reserved for itself, huge pages aside.
    fn kho_kernel_bytes(&self, limit: PhysAddr, node: Option<NodeId>) -> u64 {
        let below = PhysRange::new(PhysAddr::ZERO, limit);
        self.reserved()
            .overlapping(below)
            .filter(|region| region.flags().contains(MemblockFlags::RSRV_KERN))
            .filter(|region| !region.flags().contains(MemblockFlags::RSRV_HUGETLB))
            .filter(|region| node.is_none() || region.node() == node)
            .filter_map(|region| region.range().intersection(below))
            .map(PhysRange::len)
            .sum()
    }

    /// Boots from scratch memory: the old kernel's `areas` are added and marked, its `array` of
    /// them is reserved, and until hand-over nothing else is allocated from.
    ///
    /// # Errors
    /// As [`add`](Self::add), and [`MemblockError::UnknownFlag`] for a kernel without scratch
    /// memory.
    #[doc(alias = "kho_populate")]
    pub fn kho_boot(&mut self, areas: &[PhysRange], array: PhysRange) -> Result<(), MemblockError> {
        for &area in areas {
            self.add(area)?;
            self.mark_kho_scratch(area)?;
        }
        self.reserve(array)?;
        self.settings_mut().kho_scratch_only = true;
        Ok(())
    }

    /// Marks every whole aligned GiB up to the end of memory as scratch that holds nothing of
    /// `kept`: preserved pages, and the pages in which they are listed (7.3).
    ///
    /// # Errors
    /// As [`mark_kho_scratch`](Self::mark_kho_scratch).
    pub fn kho_extend_scratch(&mut self, kept: &[PhysRange]) -> Result<(), MemblockError> {
        // by the regions there are, since between them there may be far more blocks
        let mut next = 0;
        for region in self.memory().iter().collect::<Vec<_>>() {
            let mut block = region.start().align_down(EXTENSION).get().max(next);
            while block < region.end().get() {
                let range = PhysRange::from_size(PhysAddr::new(block), EXTENSION);
                if !kept.iter().any(|kept| kept.overlaps(range)) {
                    self.mark_kho_scratch(range)?;
                }
                let Some(after) = block.checked_add(EXTENSION) else {
                    return Ok(());
                };
                block = after;
            }
            next = block;
        }
        Ok(())
    }

    /// Reserves a preserved block and leaves its struct pages alone.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve), and [`MemblockError::UnknownFlag`].
    pub fn kho_preserve(&mut self, block: PhysRange) -> Result<(), MemblockError> {
        self.reserve(block)?;
        self.reserved_mark_noinit(block)
    }
}

/// `percent` percent of `bytes`.
fn part(bytes: u64, percent: u32) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Behaviour;

    const MIB: u64 = 1 << 20;

    fn r(start: u64, end: u64) -> PhysRange {
        PhysRange::new(PhysAddr::new(start), PhysAddr::new(end))
    }

    /// 2 GiB below 4 GiB on node 0, 2 GiB above on node 1; 3 MiB and 5 MiB are the kernel's.
    fn machine(behaviour: Behaviour) -> Memblock {
        let mut m = Memblock::new(behaviour);
        let none = MemblockFlags::empty();
        m.add_node(r(0, 2048 * MIB), NodeId::new(0), none).unwrap();
        m.add_node(r(4096 * MIB, 6144 * MIB), NodeId::new(1), none)
            .unwrap();
        let kern = MemblockFlags::RSRV_KERN;
        m.reserve_with(r(MIB, 4 * MIB), NodeId::new(0), kern)
            .unwrap();
        m.reserve_with(r(4096 * MIB, 4101 * MIB), NodeId::new(1), kern)
            .unwrap();
        m
    }

    #[test]
    fn areas_are_parts_of_what_the_kernel_has_reserved() {
        let nodes = [NodeId::new(0), NodeId::new(1)];
        for (behaviour, lens) in [
            // 6 of 16 MiB are low: rounded to 8 they leave 8; not rounded, 10, rounded to 12
            (Behaviour::V6_18, [8, 8, 8, 12]),
            (Behaviour::V7_3, [8, 12, 8, 12]),
        ] {
            let mut m = machine(behaviour);
            let areas = m
                .kho_reserve_scratch(KhoScratch::default(), &nodes, 4 * MIB)
                .unwrap();
            let found: Vec<u64> = areas.iter().map(|area| area.len() / MIB).collect();
            assert_eq!(found, lens, "{behaviour:?}");
            assert!(areas[0].end() <= LOW);
            assert!(areas.iter().all(|area| m.is_region_reserved(*area)));
        }
    }

    #[test]
    fn an_area_without_a_place_leaves_all_as_it_was() {
        let mut m = machine(Behaviour::V7_3);
        let before = m.clone();
        let sizes = KhoScratch::parse("1M,1M,3G").unwrap();
        let nodes = [NodeId::new(0)];
        assert!(matches!(
            m.kho_reserve_scratch(sizes, &nodes, MIB),
            Err(KhoError::Allocation(_))
        ));
        assert_eq!(m, before);
        assert_eq!(
            machine(Behaviour::V6_18).kho_reserve_scratch(sizes, &nodes, 3),
            Err(KhoError::Unit { unit: 3 })
        );
        assert_eq!(
            Memblock::new(Behaviour::V6_12).kho_reserve_scratch(sizes, &nodes, MIB),
            Err(KhoError::Absent)
        );
    }

    #[test]
    fn the_option_is_a_percentage_or_three_sizes() {
        assert_eq!(KhoScratch::parse("50%"), Ok(KhoScratch::Percent(50)));
        let three = KhoScratch::Bytes {
            low: MIB,
            global: 2 * MIB,
            per_node: 0,
        };
        assert_eq!(KhoScratch::parse("1M,2M,0"), Ok(three));
        for bad in ["", "%", "-1%", "5", "1,2", "1,2,3,", "99999999999%"] {
            assert_eq!(KhoScratch::parse(bad), Err(KhoError::Malformed), "{bad}");
        }
    }

    #[test]
    fn scratch_grows_by_the_gib_around_what_was_kept() {
        let mut m = Memblock::new(Behaviour::V7_3);
        m.kho_boot(&[r(64 * MIB, 96 * MIB)], r(2048 * MIB, 2048 * MIB + 64))
            .unwrap();
        m.add(r(0, 4096 * MIB)).unwrap();
        let kept = r(1100 * MIB, 1101 * MIB);
        m.kho_preserve(kept).unwrap();
        m.kho_extend_scratch(&[kept]).unwrap();
        let scratch: Vec<PhysRange> = m
            .memory()
            .iter()
            .filter(|it| it.flags().contains(MemblockFlags::KHO_SCRATCH))
            .map(crate::Region::range)
            .collect();
        assert_eq!(scratch, [r(0, 1024 * MIB), r(2048 * MIB, 4096 * MIB)]);
        let page = m.alloc(AllocRequest::new(4096, 4096)).unwrap();
        assert_eq!(page.end(), PhysAddr::new(4096 * MIB));
    }
}
