//! The zones that a kernel is built with.
//!
//! Linux numbers the configured zones consecutively in a fixed order, so the index of a zone is
//! a matter of configuration and its kind is not. A [`ZoneSet`] keeps the two together.

use core::fmt;

/// What a zone is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "zone_type")]
pub enum ZoneKind {
    /// Memory that devices with few address bits reach.
    Dma,
    /// Memory below 4 GiB.
    Dma32,
    /// Memory that the kernel maps permanently.
    Normal,
    /// Memory that a 32-bit kernel maps on demand.
    HighMem,
    /// Memory that holds only what can be moved.
    Movable,
    /// Memory of devices; empty at boot.
    Device,
}

impl ZoneKind {
    /// Every kind, in Linux's order.
    pub const ALL: [Self; 6] = [
        Self::Dma,
        Self::Dma32,
        Self::Normal,
        Self::HighMem,
        Self::Movable,
        Self::Device,
    ];

    /// The name that Linux prints.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dma => "DMA",
            Self::Dma32 => "DMA32",
            Self::Normal => "Normal",
            Self::HighMem => "HighMem",
            Self::Movable => "Movable",
            Self::Device => "Device",
        }
    }

    /// The kind that Linux prints as `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for ZoneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The number of a zone among the configured ones.
///
/// One past the last zone is a value that Linux does store: see [`ZoneSet::none`].
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "zone_idx")]
pub struct ZoneIndex(pub u8);

impl ZoneIndex {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for ZoneIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone{}", self.0)
    }
}

impl fmt::Display for ZoneIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The configured zones. Movable always exists; Normal does too.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ZoneSet(u8);

impl ZoneSet {
    /// The set of `kinds`, and of Normal and Movable.
    pub const fn new(kinds: &[ZoneKind]) -> Self {
        let mut bits = 1 << ZoneKind::Normal as u8 | 1 << ZoneKind::Movable as u8;
        let mut i = 0;
        while i < kinds.len() {
            bits |= 1 << kinds[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    /// How many zones there are.
    #[doc(alias = "MAX_NR_ZONES")]
    #[expect(clippy::len_without_is_empty, reason = "two zones always exist")]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether `kind` is configured.
    pub const fn contains(self, kind: ZoneKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// The number of the zone of `kind`, or `None` where it is not configured.
    pub const fn index_of(self, kind: ZoneKind) -> Option<ZoneIndex> {
        if !self.contains(kind) {
            return None;
        }
        let below = self.0 & ((1 << kind as u8) - 1);
        Some(ZoneIndex(below.count_ones() as u8))
    }

    /// The kind of zone `index`, or `None` at and beyond [`ZoneSet::none`].
    pub fn kind(self, index: ZoneIndex) -> Option<ZoneKind> {
        self.iter().nth(index.index()).map(|(_, kind)| kind)
    }

    /// One past the last zone: what Linux stores in a struct page that no zone of its node
    /// contains (reserved pages outside memory in the deferred part).
    pub const fn none(self) -> ZoneIndex {
        ZoneIndex(self.len() as u8)
    }

    /// The zones in index order.
    pub fn iter(self) -> impl Iterator<Item = (ZoneIndex, ZoneKind)> {
        ZoneKind::ALL
            .into_iter()
            .filter(move |kind| self.contains(*kind))
            .enumerate()
            .map(|(i, kind)| (ZoneIndex(i as u8), kind))
    }

    /// Bits that a zone number takes in the flags word: 0 for one zone, 1 for two, 2 up to four,
    /// 3 up to eight.
    #[doc(alias = "ZONES_SHIFT")]
    pub const fn shift(self) -> u32 {
        (self.len() as u32).next_power_of_two().trailing_zeros()
    }
}

impl fmt::Debug for ZoneSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(|(_, kind)| kind))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_numbered_by_configuration() {
        let x86 = ZoneSet::new(&[ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Device]);
        assert_eq!(x86.index_of(ZoneKind::Movable), Some(ZoneIndex(3)));
        assert_eq!(x86.index_of(ZoneKind::Device), Some(ZoneIndex(4)));
        assert_eq!(x86.index_of(ZoneKind::HighMem), None);
        assert_eq!((x86.shift(), x86.none()), (3, ZoneIndex(5)));
        assert_eq!(x86.kind(ZoneIndex(5)), None);

        let power = ZoneSet::new(&[ZoneKind::Device]);
        assert_eq!(power.index_of(ZoneKind::Normal), Some(ZoneIndex(0)));
        assert_eq!(power.shift(), 2);
    }
}
