//! A region and the node that it names.

use core::fmt;

use crate::{MemblockFlags, NodeId, PhysAddr, PhysRange};

/// What a region says of its node.
///
/// Linux has two ways to say "no node", and two regions that say it differently do not merge,
/// although nobody can tell them apart in a dump.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "nid")]
pub struct NodeMark(u32);

impl NodeMark {
    /// No node, as `memblock_add` says it.
    #[doc(alias = "MAX_NUMNODES")]
    pub const UNSET: Self = Self(1 << 16);
    /// No node, as reservations say it since 6.16.
    #[doc(alias = "NUMA_NO_NODE")]
    pub const NO_NODE: Self = Self(u32::MAX);

    /// Node `id`.
    pub const fn node(id: NodeId) -> Self {
        Self(id.get() as u32)
    }

    /// The node, or `None` for either way to say that there is none.
    pub const fn get(self) -> Option<NodeId> {
        if self.0 < Self::UNSET.0 {
            Some(NodeId::new(self.0 as u16))
        } else {
            None
        }
    }
}

impl From<NodeId> for NodeMark {
    fn from(id: NodeId) -> Self {
        Self::node(id)
    }
}

/// `None` becomes [`NodeMark::NO_NODE`].
impl From<Option<NodeId>> for NodeMark {
    fn from(id: Option<NodeId>) -> Self {
        id.map_or(Self::NO_NODE, Self::node)
    }
}

impl fmt::Debug for NodeMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.get(), *self) {
            (Some(node), _) => node.fmt(f),
            (None, Self::UNSET) => f.write_str("unset"),
            (None, _) => f.write_str("no node"),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for NodeMark {
    /// The kernel's `int nid` for a node and for -1; `null` for `MAX_NUMNODES`, whose value is a
    /// matter of configuration.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.get(), *self) {
            (Some(node), _) => serializer.serialize_some(&i32::from(node.get())),
            (None, Self::UNSET) => serializer.serialize_none(),
            (None, _) => serializer.serialize_some(&-1),
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for NodeMark {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let nid: Option<i32> = serde::Deserialize::deserialize(deserializer)?;
        match nid {
            None => Ok(Self::UNSET),
            Some(-1) => Ok(Self::NO_NODE),
            Some(id) => u16::try_from(id)
                .map(|id| Self::node(NodeId::new(id)))
                .map_err(|_| serde::de::Error::custom("a node id lies in 0..=65535")),
        }
    }
}

/// A range of addresses with one node and one set of flags; 24 bytes, as in Linux.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[doc(alias = "memblock_region")]
pub struct Region {
    range: PhysRange,
    flags: MemblockFlags,
    node: NodeMark,
}

const _: () = assert!(size_of::<Region>() == 24);

impl Region {
    /// A region over `range`.
    pub const fn new(range: PhysRange, node: NodeMark, flags: MemblockFlags) -> Self {
        Self { range, flags, node }
    }

    /// Its addresses, in bytes.
    #[inline]
    pub const fn range(self) -> PhysRange {
        self.range
    }

    /// Its first address.
    #[inline]
    pub const fn start(self) -> PhysAddr {
        self.range.start()
    }

    /// One past its last address.
    #[inline]
    pub const fn end(self) -> PhysAddr {
        self.range.end()
    }

    /// Its flags.
    #[inline]
    pub const fn flags(self) -> MemblockFlags {
        self.flags
    }

    /// Its node, where it has one.
    #[inline]
    #[doc(alias = "memblock_get_region_node")]
    pub const fn node(self) -> Option<NodeId> {
        self.node.get()
    }

    /// Its node as it is stored, which decides whether it merges with a neighbour.
    #[inline]
    pub const fn node_mark(self) -> NodeMark {
        self.node
    }

    pub(crate) const fn with_range(self, range: PhysRange) -> Self {
        Self { range, ..self }
    }

    pub(crate) const fn with_node(self, node: NodeMark) -> Self {
        Self { node, ..self }
    }

    /// In place, since a copy would wait for the parts of a region that was just put together.
    #[inline]
    pub(crate) fn forget_node(&mut self) {
        self.node = NodeMark::UNSET;
    }

    pub(crate) const fn with_flags(self, flags: MemblockFlags) -> Self {
        Self { flags, ..self }
    }

    /// Whether `next` goes on where `self` ends, with the same node and flags.
    pub(crate) fn continues_in(self, next: Self) -> bool {
        self.end() == next.start() && self.node == next.node && self.flags == next.flags
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} {}", self.range, self.node, self.flags)
    }
}
