//! Why no geometry follows from a machine's memory.

use memblock::{NodeId, PfnRange};

/// Memory from which no zones and nodes can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// No region holds a whole page.
    #[error("there is no memory: no region holds a whole page of 2^{page_shift} bytes")]
    NoMemory {
        /// Log2 of the page size.
        page_shift: u32,
    },
    /// Some memory has a node and some has none.
    #[error(
        "memory at frames {}-{} names no node, but other memory does: name its node in the \
         layout too (`Memblock::set_node`)", pfns.start(), pfns.end()
    )]
    MemoryWithoutNode {
        /// The frames without a node.
        pfns: PfnRange,
    },
    /// A node number that the kernel has no bits for.
    #[error(
        "node {node} does not fit {nodes_shift} bits of a node number: use a profile with a \
         larger nodes_shift"
    )]
    NodeTooLarge {
        /// The node.
        node: NodeId,
        /// Bits that a node number has.
        nodes_shift: u32,
    },
    /// More than a hundred percent.
    #[error("{option}={percent}% is more than all memory")]
    TooManyPercent {
        /// `kernelcore` or `movablecore`.
        option: &'static str,
        /// The percentage.
        percent: u64,
    },
}

/// A value of a boot option that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option}={value}: expected a size such as 4G or 0x100000, a percentage such as 50%{more}")]
#[non_exhaustive]
pub struct OptionError {
    /// `kernelcore` or `movablecore`.
    pub option: &'static str,
    /// What was given.
    pub value: alloc::string::String,
    pub(super) more: &'static str,
}
