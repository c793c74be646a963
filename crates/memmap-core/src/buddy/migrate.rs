//! Migrate types: what the pages of a pageblock are used for.
//!
//! Free blocks are kept apart by the type of their pageblock, so that pages that cannot move do
//! not end up between pages that can.

use core::fmt;

use crate::profile::KernelConfig;

/// What the pages of a pageblock are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "migratetype")]
pub enum MigrateType {
    /// Pages that stay where they are; also what a pageblock is before anyone says otherwise.
    #[doc(alias = "MIGRATE_UNMOVABLE")]
    Unmovable,
    /// Pages that can be moved.
    #[doc(alias = "MIGRATE_MOVABLE")]
    Movable,
    /// Pages that can be given back under pressure.
    #[doc(alias = "MIGRATE_RECLAIMABLE")]
    Reclaimable,
    /// Kept for atomic allocations of higher order.
    #[doc(alias = "MIGRATE_HIGHATOMIC")]
    HighAtomic,
    /// Kept for contiguous allocation; movable pages may use it meanwhile.
    #[doc(alias = "MIGRATE_CMA")]
    Cma,
    /// Set aside; nothing is allocated from it.
    #[doc(alias = "MIGRATE_ISOLATE")]
    Isolate,
}

impl MigrateType {
    /// Every type, in Linux's order.
    pub const ALL: [Self; 6] = [
        Self::Unmovable,
        Self::Movable,
        Self::Reclaimable,
        Self::HighAtomic,
        Self::Cma,
        Self::Isolate,
    ];

    /// The name that Linux prints.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unmovable => "Unmovable",
            Self::Movable => "Movable",
            Self::Reclaimable => "Reclaimable",
            Self::HighAtomic => "HighAtomic",
            Self::Cma => "CMA",
            Self::Isolate => "Isolate",
        }
    }

    /// Whether blocks of this type may merge with blocks of another such type.
    #[doc(alias = "migratetype_is_mergeable")]
    pub const fn is_mergeable(self) -> bool {
        matches!(self, Self::Unmovable | Self::Movable | Self::Reclaimable)
    }

    /// Which types are tried, in this order, where this one has no free block.
    ///
    /// Linux: mm/page_alloc.c, `fallbacks`.
    pub const fn fallbacks(self) -> &'static [Self] {
        match self {
            Self::Unmovable => &[Self::Reclaimable, Self::Movable],
            Self::Movable => &[Self::Reclaimable, Self::Unmovable],
            Self::Reclaimable => &[Self::Unmovable, Self::Movable],
            Self::HighAtomic | Self::Cma | Self::Isolate => &[],
        }
    }
}

impl fmt::Display for MigrateType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The types that a kernel is built with, and their numbers.
///
/// Isolation is always there: the specification's kernels all have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrateTypes {
    cma: bool,
}

impl MigrateTypes {
    /// The types of kernels of that configuration.
    pub const fn of(config: &KernelConfig) -> Self {
        Self { cma: config.cma }
    }

    /// How many there are.
    #[doc(alias = "MIGRATE_TYPES")]
    #[expect(clippy::len_without_is_empty, reason = "five types always exist")]
    pub const fn len(self) -> usize {
        5 + self.cma as usize
    }

    /// The number of `migrate`, or `None` where the kernel lacks it.
    pub fn index_of(self, migrate: MigrateType) -> Option<usize> {
        self.iter().position(|known| known == migrate)
    }

    /// The types in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = MigrateType> {
        MigrateType::ALL
            .into_iter()
            .filter(move |migrate| self.cma || *migrate != MigrateType::Cma)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KernelVersion, Profile};

    #[test]
    fn isolation_moves_up_where_contiguous_allocation_is_configured() {
        let without = MigrateTypes::of(&Profile::amd64(KernelVersion::V6_12));
        assert_eq!(without.index_of(MigrateType::Isolate), Some(4));
        assert_eq!(without.index_of(MigrateType::Cma), None);
        let with = MigrateTypes::of(&Profile::arm64_4k(KernelVersion::V6_12));
        assert_eq!(
            (with.len(), with.index_of(MigrateType::Isolate)),
            (6, Some(5))
        );
    }
}
