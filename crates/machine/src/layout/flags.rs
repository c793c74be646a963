//! Memory that is marked before zones are sized: it may be unplugged, or it is mirrored.
//!
//! The affinity table says which memory is hot-pluggable; a node that holds anything of the kernel
//! loses the mark, since such memory cannot go. UEFI's map says which memory is mirrored; the
//! kernel asks only if `kernelcore=mirror` was given.
//! Linux: `mm/numa_memblks.c`, `numa_clear_kernel_node_hotplug`; `drivers/firmware/efi`,
//! `efi_find_mirror`.

use std::collections::BTreeSet;

use memblock::{MemblockFlags, NodeId, PhysAddr};

use super::memory::RangeMap;
use super::{MachineLayout, MemoryRange};
use crate::bootlog::BootLog;
use crate::bootlog::hints::ReservedBy;

/// x86 kernels are loaded here unless told otherwise; no line says where one was.
const KERNEL_AT: PhysAddr = PhysAddr::new(16 << 20);

/// Marks the layout's memory as `log` says.
pub(super) fn mark(layout: &mut MachineLayout, log: &BootLog) {
    let hot: Vec<_> = log
        .numa
        .affinity
        .iter()
        .filter(|claim| claim.hotplug)
        .collect();
    let asked = layout.command_line.as_deref().is_some_and(|line| {
        line.split_ascii_whitespace()
            .any(|w| w == "kernelcore=mirror")
    });
    let mirrored: Vec<_> = match asked {
        true => log
            .efi
            .ranges
            .iter()
            .filter(|range| range.mirrored)
            .collect(),
        false => Vec::new(),
    };
    if hot.is_empty() && mirrored.is_empty() {
        return;
    }
    let kernel = nodes_of_the_kernel(layout, log);
    let mut map: RangeMap<(Option<NodeId>, u32, u64)> = RangeMap::default();
    for memory in &layout.memory {
        map.set(memory.range, (memory.node, memory.flags, memory.line));
    }
    let hotplug = MemblockFlags::HOTPLUG.bits();
    for claim in hot {
        map.change(
            claim.range,
            |&(node, flags, line)| match node {
                Some(node) if kernel.contains(&node) => Some((Some(node), flags, line)),
                node => Some((node, flags | hotplug, line)),
            },
            None,
        );
    }
    for range in mirrored {
        let mirror = MemblockFlags::MIRROR.bits();
        map.change(
            range.range,
            |&(node, flags, line)| Some((node, flags | mirror, line)),
            None,
        );
    }
    layout.memory = map
        .into_ranges()
        .map(|(range, (node, flags, line))| MemoryRange {
            range,
            node,
            flags,
            line,
        })
        .collect();
}

/// Nodes that hold the kernel or what the boot loader gave it, as far as the log tells.
fn nodes_of_the_kernel(layout: &MachineLayout, log: &BootLog) -> BTreeSet<NodeId> {
    let initrd = log
        .hints
        .reserved
        .iter()
        .filter(|hint| hint.by == ReservedBy::Initrd);
    let places = initrd.map(|hint| hint.range.start()).chain([KERNEL_AT]);
    let node_at = |at: PhysAddr| {
        let memory = layout
            .memory
            .iter()
            .find(|memory| memory.range.contains(at));
        memory.and_then(|memory| memory.node)
    };
    places.filter_map(node_at).collect()
}
