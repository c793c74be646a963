//! Where zone Movable begins on each node.
//!
//! `movable_node` goes before `kernelcore=mirror`, and that before sizes. Sizes are spread over
//! the nodes evenly, in rounds, since a small node cannot take its share; memory below the zone
//! that Movable is cut from is charged to the kernel first.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use memblock::{MemblockFlags, NodeId, Pfn, PhysAddr};

use crate::profile::{MovableStart, Profile};

use super::input::Input;
use super::{BootOptions, CoreSize, GeometryError, ZoneLimits};

/// The first frame of zone Movable, for each node that has one.
pub(super) type MovableStarts = BTreeMap<NodeId, Pfn>;

/// What the rules decided.
#[derive(Debug, Default)]
pub(super) struct Movable {
    pub(super) starts: MovableStarts,
    /// `kernelcore=mirror` is in force.
    pub(super) mirror: bool,
    /// What the kernel says about it.
    pub(super) warnings: Vec<&'static str>,
}

/// Linux: mm/mm_init.c, `find_zone_movable_pfns_for_nodes`.
#[doc(alias = "find_zone_movable_pfns_for_nodes")]
pub(super) fn movable_starts(
    profile: &Profile,
    input: &Input,
    limits: &ZoneLimits,
    options: &BootOptions,
) -> Result<Movable, GeometryError> {
    let mut movable = Movable::default();
    if options.movable_node {
        for region in &input.memory_bytes {
            let Some(node) = region.node else { continue };
            if region.flags.contains(MemblockFlags::HOTPLUG) {
                let start = match profile.behaviours.movable_start {
                    MovableStart::RoundDown => region.range.start().pfn_down(profile.page_shift),
                    MovableStart::RoundUp => region.range.start().pfn_up(profile.page_shift),
                };
                lower(&mut movable.starts, node, start);
            }
        }
    } else if options.kernelcore == Some(CoreSize::Mirror) {
        mirror(profile, input, options, &mut movable);
    } else {
        movable.starts = by_size(profile, input, limits, options)?;
    }
    align(profile, input, &mut movable.starts);
    Ok(movable)
}

fn lower(starts: &mut MovableStarts, node: NodeId, start: Pfn) {
    starts
        .entry(node)
        .and_modify(|at| *at = (*at).min(start))
        .or_insert(start);
}

fn mirror(profile: &Profile, input: &Input, options: &BootOptions, movable: &mut Movable) {
    let mirrored = |flags: MemblockFlags| flags.contains(MemblockFlags::MIRROR);
    if profile.behaviours.mirror_needs_mirror {
        if !input.memory_bytes.iter().any(|r| mirrored(r.flags)) {
            movable
                .warnings
                .push("The system has no mirror memory, ignore kernelcore=mirror.");
            return;
        }
        if options.kdump {
            movable
                .warnings
                .push("The system is under kdump, ignore kernelcore=mirror.");
            return;
        }
    }
    movable.mirror = true;
    let four_gib = PhysAddr::new(4 << 30).pfn_down(profile.page_shift);
    let mut skipped = false;
    for region in &input.memory_bytes {
        let Some(node) = region.node else { continue };
        if mirrored(region.flags) {
            continue;
        }
        let start = region.range.start().pfn_up(profile.page_shift);
        if start < four_gib {
            skipped = true;
        } else {
            lower(&mut movable.starts, node, start);
        }
    }
    if skipped {
        movable
            .warnings
            .push("This configuration results in unmirrored kernel memory.");
    }
}

fn by_size(
    profile: &Profile,
    input: &Input,
    limits: &ZoneLimits,
    options: &BootOptions,
) -> Result<MovableStarts, GeometryError> {
    let total: u64 = input.memory.iter().map(|range| range.pfns.len()).sum();
    let pages = |option, size: Option<CoreSize>| match size {
        None | Some(CoreSize::Mirror) => Ok(0),
        Some(CoreSize::Bytes(bytes)) => Ok(bytes >> profile.page_shift),
        Some(CoreSize::Percent(percent)) if percent <= 100 => {
            Ok((u128::from(total) * 100 * u128::from(percent) / 10_000) as u64)
        }
        Some(CoreSize::Percent(percent)) => Err(GeometryError::TooManyPercent { option, percent }),
    };
    let mut kernelcore = pages("kernelcore", options.kernelcore)?;
    let movablecore = pages("movablecore", options.movablecore)?;
    if movablecore > 0 {
        let block = profile.max_order_pages();
        let movablecore = movablecore.next_multiple_of(block).min(total);
        kernelcore = kernelcore.max(total - movablecore);
    }
    let mut starts = MovableStarts::new();
    if kernelcore == 0 || kernelcore >= total {
        return Ok(starts);
    }
    let mut nodes: Vec<_> = input.memory.iter().map(|range| range.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let usable_start = limits.get(limits.movable_zone()).start();
    let mut usable_nodes = nodes.len() as u64;
    loop {
        let mut per_node = kernelcore / usable_nodes;
        for &node in &nodes {
            if kernelcore < per_node {
                per_node = kernelcore / usable_nodes;
            }
            charge(
                input,
                node,
                usable_start,
                per_node,
                &mut kernelcore,
                &mut starts,
            );
        }
        usable_nodes -= 1;
        if usable_nodes == 0 || kernelcore <= usable_nodes {
            return Ok(starts);
        }
    }
}

/// Gives the kernel up to `remaining` more pages of `node`.
fn charge(
    input: &Input,
    node: NodeId,
    usable_start: Pfn,
    mut remaining: u64,
    kernelcore: &mut u64,
    starts: &mut MovableStarts,
) {
    for range in input.memory.iter().filter(|range| range.node == node) {
        let begun = starts.get(&node).copied().unwrap_or(Pfn::ZERO);
        let mut start = range.pfns.start().max(begun);
        let end = range.pfns.end();
        if start >= end {
            continue;
        }
        if start < usable_start {
            let kernel_pages = end.min(usable_start).get() - start.get();
            remaining -= kernel_pages.min(remaining);
            *kernelcore -= kernel_pages.min(*kernelcore);
            if end <= usable_start {
                starts.insert(node, end);
                continue;
            }
            start = usable_start;
        }
        let size = (end.get() - start.get()).min(remaining);
        starts.insert(node, start.saturating_add(size));
        *kernelcore -= size.min(*kernelcore);
        remaining -= size;
        if remaining == 0 {
            return;
        }
    }
}

/// Starts are rounded up to the largest block; what then lies beyond the node is none.
fn align(profile: &Profile, input: &Input, starts: &mut MovableStarts) {
    for start in starts.values_mut() {
        *start = start.align_up(profile.max_order_pages());
    }
    starts.retain(|node, start| {
        let end = input
            .memory
            .iter()
            .filter(|range| range.node == *node)
            .map(|range| range.pfns.end())
            .max();
        start.get() > 0 && end.is_some_and(|end| *start < end)
    });
}
