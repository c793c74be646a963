//! A machine drawn from a seed: a kernel, memory in nodes with holes, reservations.

use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::{BootOptions, CoreSize, KernelVersion, Profile};

use super::dice::Dice;

/// What a machine is made of.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) profile: Profile,
    pub(super) memory: Memblock,
    pub(super) options: BootOptions,
}

/// Draws a machine with about `most` bytes of struct pages, or a section.
pub(super) fn draw(dice: &mut Dice<'_>, most: u64) -> Machine {
    let profile = profile(dice);
    let behaviours = [
        Behaviour::V6_1,
        Behaviour::V6_12,
        Behaviour::V6_18,
        Behaviour::V7_3,
    ];
    let mut memory = Memblock::new(dice.pick(&behaviours));
    let ranges = ranges(dice, &profile, most);
    for (range, node) in &ranges {
        let flags = if dice.once_in(8) {
            MemblockFlags::HOTPLUG
        } else {
            MemblockFlags::empty()
        };
        memory
            .add_node(*range, *node, flags)
            .expect("drawn ranges neither overlap nor end beyond the address space");
    }
    for _ in 0..dice.below(24) {
        let (within, _) = dice.pick(&ranges);
        let start = within.start().get() + dice.below(within.len());
        let longest = (within.end().get() - start).min(16 << 20);
        let range = PhysRange::new(
            PhysAddr::new(start),
            PhysAddr::new(start + dice.below(longest) + 1),
        );
        memory.reserve(range).expect("it lies inside memory");
    }
    Machine {
        profile,
        memory,
        options: options(dice),
    }
}

fn profile(dice: &mut Dice<'_>) -> Profile {
    let versions = [
        KernelVersion::V6_1,
        KernelVersion::V6_12,
        KernelVersion::V6_18,
        KernelVersion::V7_3,
    ];
    let version = dice.pick(&versions);
    let preset = match dice.below(8) {
        0..=2 => Profile::amd64(version),
        3 => Profile::arm64_4k(version),
        4 => Profile::arm64_16k(version),
        5 => Profile::arm64_64k(version),
        6 => Profile::riscv64(version),
        _ => Profile::ppc64_64k(version),
    };
    let mut config = preset.config().clone();
    config.deferred_init = dice.bool();
    if dice.bool() {
        config.section_bits = config.section_bits.saturating_sub(dice.below(4) as u32);
    }
    // a section that is too small for the largest block is refused
    config.build().unwrap_or(preset)
}

/// Ranges in ascending order with holes of any size between them; nodes may take turns.
fn ranges(dice: &mut Dice<'_>, profile: &Profile, most: u64) -> Vec<(PhysRange, NodeId)> {
    let page = profile.page_size();
    let section = profile.pages_per_section() * page;
    let nodes = dice.between(1..=4);
    let memmap = profile.pages_per_section() * u64::from(profile.struct_page_bytes);
    let mut left = (most / memmap).clamp(1, 48);
    let mut at = dice.below(4) * section + dice.below(4) * page;
    let mut list = Vec::new();
    while left > 0 {
        // now and then so short that several nodes share a pageblock
        let (sections, long) = match dice.below(4) {
            0 => (1, dice.between(1..=profile.pageblock_pages()) * page),
            _ => {
                let sections = dice.between(1..=left.min(12));
                // ends lie anywhere, within a page too
                let cut = dice.below(section / 2);
                let less = if dice.bool() { cut } else { 0 };
                (sections, sections * section - less)
            }
        };
        let end = at + long;
        let range = PhysRange::new(PhysAddr::new(at), PhysAddr::new(end));
        list.push((range, NodeId::new(dice.below(nodes) as u16)));
        // a range can reach into one section more than it is long
        left = left.saturating_sub(sections + 1);
        at = match dice.below(8) {
            0 => end + (1 << 40),
            1..=3 => end,
            _ => end + dice.between(1..=2 * section),
        };
    }
    list
}

fn options(dice: &mut Dice<'_>) -> BootOptions {
    let mut options = BootOptions::default();
    match dice.below(8) {
        0 => options.kernelcore = Some(CoreSize::Percent(dice.between(1..=99))),
        1 => options.movablecore = Some(CoreSize::Percent(dice.between(1..=99))),
        2 => options.movable_node = true,
        _ => {}
    }
    options
}
