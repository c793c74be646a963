//! What a log says of nodes.
//!
//! The firmware's affinity table names a node for every range of addresses, memory or not; the
//! kernel may then fake one node, or several (`numa=fake=`). What the log shows beats what its
//! command line asks for. Linux: `drivers/acpi/numa/srat.c`, `arch/x86/mm/numa.c`,
//! `mm/numa_memblks.c`, `drivers/base/arch_numa.c`.

use std::collections::BTreeSet;

use memblock::{NodeId, PhysRange};

use crate::location::Problems;
use crate::text::scan::Scan;

/// One range of the firmware's affinity table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// Line number.
    pub line: u64,
    /// The kernel's node number.
    pub node: NodeId,
    /// The range; memory need not fill it.
    pub range: PhysRange,
    /// Memory may be plugged in here.
    pub hotplug: bool,
    /// The memory here is persistent.
    pub non_volatile: bool,
}

/// `Faking node N at …`, `Faking a node at …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fake {
    /// Line number.
    pub line: u64,
    /// The node.
    pub node: NodeId,
    /// Its range.
    pub range: PhysRange,
}

/// `NUMA: Node 0 [mem A] + [mem B] -> [mem C]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Line number.
    pub line: u64,
    /// The node.
    pub node: NodeId,
    /// What was merged.
    pub parts: [PhysRange; 2],
    /// Into what.
    pub whole: PhysRange,
}

/// Everything that a log says of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaFacts {
    /// The affinity table.
    pub affinity: Vec<Affinity>,
    /// Neighbours that the kernel merged.
    pub merges: Vec<Merge>,
    /// The one node of a machine without such a table.
    pub single: Option<Fake>,
    /// Emulated nodes.
    pub emulated: Vec<Fake>,
    /// Nodes that CPUs belong to.
    pub cpu_nodes: BTreeSet<NodeId>,
    /// Nodes that have a descriptor (`NODE_DATA`).
    pub node_data: BTreeSet<NodeId>,
    /// Where descriptors were put.
    pub node_data_at: Vec<PhysRange>,
    /// Nodes that a fallback order was printed for (5.14 and later): all that are online, on some
    /// architectures all that are possible.
    pub fallback: BTreeSet<NodeId>,
    /// How many nodes the kernel counted when all CPUs were up.
    pub online_count: Option<u64>,
}

impl NumaFacts {
    /// Whether the log says nothing of ranges of nodes.
    pub fn is_empty(&self) -> bool {
        self.affinity.is_empty() && self.single.is_none() && self.emulated.is_empty()
    }

    /// Takes one message; `true` if it was about nodes.
    pub(super) fn feed(&mut self, line: u64, text: &str, problems: &mut Problems) -> bool {
        if text.contains("SRAT: ") {
            if let Some((_, rest)) = text.split_once("SRAT: Node ") {
                match affinity(line, Scan(rest)) {
                    Some(affinity) => self.affinity.push(affinity),
                    None => problems.note(line, text, "`SRAT: Node N PXM M [mem 0xSTART-0xEND]`"),
                }
                return true;
            }
            if let Some((_, rest)) = text.rsplit_once("-> Node ") {
                self.cpu_nodes.extend(Scan(rest).node().map(NodeId::new));
                return true;
            }
            return false;
        }
        let plain = text
            .strip_prefix("NUMA: ")
            .or_else(|| text.strip_prefix("numa: "))
            .unwrap_or(text)
            .trim_start();
        if let Some(rest) = plain.strip_prefix("NODE_DATA") {
            return self.node_data(rest);
        }
        if let Some(rest) = plain.strip_prefix("Faking ") {
            return self.fake(line, text, rest, problems);
        }
        if let Some((_, rest)) = plain.split_once("rought up ")
            && rest.contains(" node")
        {
            self.online_count = Scan(rest).dec();
            return true;
        }
        if let Some(rest) = plain.strip_prefix("Fallback order for Node ") {
            self.fallback.extend(Scan(rest).node().map(NodeId::new));
            // The order itself is a figure.
            return false;
        }
        if let Some(rest) = plain.strip_prefix("Node ")
            && text.contains(" CPUs:")
        {
            self.cpu_nodes.extend(Scan(rest).node().map(NodeId::new));
            return true;
        }
        if let Some(rest) = plain.strip_prefix("Node ")
            && text.contains(" -> [mem ")
        {
            match merge(line, Scan(rest)) {
                Some(merge) => self.merges.push(merge),
                None => problems.note(line, text, "`NUMA: Node N [mem A] + [mem B] -> [mem C]`"),
            }
            return true;
        }
        false
    }

    fn node_data(&mut self, rest: &str) -> bool {
        let mut scan = Scan(rest);
        if scan.eat("(").is_some()
            && let Some(node) = scan.node()
        {
            self.node_data.insert(NodeId::new(node));
            let _ = scan.eat(")").and_then(|()| scan.eat("allocated"));
        }
        self.node_data_at.extend(scan.mem());
        true
    }

    fn fake(&mut self, line: u64, text: &str, rest: &str, problems: &mut Problems) -> bool {
        let mut scan = Scan(rest);
        let single = scan.eat("a node at").is_some();
        let node = if single {
            Some(0)
        } else {
            scan.eat("node ")
                .and_then(|()| scan.node())
                .filter(|_| scan.eat("at").is_some())
        };
        let range = scan.mem().or_else(|| scan.exclusive("-"));
        let (Some(node), Some(range)) = (node, range) else {
            problems.note(line, text, "`Faking a node at [mem 0xSTART-0xEND]`");
            return true;
        };
        let fake = Fake {
            line,
            node: NodeId::new(node),
            range,
        };
        if single {
            self.single = Some(fake);
        } else {
            self.emulated.push(fake);
        }
        true
    }
}

fn affinity(line: u64, mut scan: Scan<'_>) -> Option<Affinity> {
    let node = NodeId::new(scan.node()?);
    scan.eat("PXM")?;
    scan.dec()?;
    let range = scan.mem().or_else(|| scan.exclusive("-"))?;
    Some(Affinity {
        line,
        node,
        range,
        hotplug: scan.0.contains("hotplug"),
        non_volatile: scan.0.contains("non-volatile"),
    })
}

fn merge(line: u64, mut scan: Scan<'_>) -> Option<Merge> {
    let node = NodeId::new(scan.node()?);
    let first = scan.mem()?;
    scan.eat("+")?;
    let second = scan.mem()?;
    scan.eat("->")?;
    let whole = scan.mem()?;
    Some(Merge {
        line,
        node,
        parts: [first, second],
        whole,
    })
}
