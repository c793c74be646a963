//! Node numbers.

use core::fmt;

/// The number of a NUMA node. Ids may be sparse; a node without memory or CPUs is still a node.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[doc(alias = "nid")]
pub struct NodeId(u16);

impl NodeId {
    /// Node `id`.
    pub const fn new(id: u16) -> Self {
        Self(id)
    }

    /// The node's number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The node's number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node{}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
