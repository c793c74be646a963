//! A machine drawn from a seed: a kernel, memory in nodes with holes, reservations.

use fastrand::Rng;
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::{BootOptions, CoreSize, KernelVersion, Profile};

/// The most bytes of struct pages that a machine is given.
const MOST_MEMMAP: u64 = 24 << 20;

/// What a machine is made of.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) profile: Profile,
    pub(super) memory: Memblock,
    pub(super) options: BootOptions,
}

/// Draws a machine.
pub(super) fn draw(rng: &mut Rng) -> Machine {
    let profile = profile(rng);
    let behaviours = [
        Behaviour::V6_1,
        Behaviour::V6_12,
        Behaviour::V6_18,
        Behaviour::V7_3,
    ];
    let mut memory = Memblock::new(behaviours[rng.usize(..behaviours.len())]);
    let ranges = ranges(rng, &profile);
    for (range, node) in &ranges {
        let flags = if rng.u8(..8) == 0 {
            MemblockFlags::HOTPLUG
        } else {
            MemblockFlags::empty()
        };
        memory
            .add_node(*range, *node, flags)
            .expect("drawn ranges neither overlap nor end beyond the address space");
    }
    for _ in 0..rng.usize(..24) {
        let (within, _) = ranges[rng.usize(..ranges.len())];
        let start = rng.u64(within.start().get()..within.end().get());
        let longest = (within.end().get() - start).min(16 << 20);
        let range = PhysRange::new(
            PhysAddr::new(start),
            PhysAddr::new(start + rng.u64(..longest) + 1),
        );
        memory.reserve(range).expect("it lies inside memory");
    }
    Machine {
        profile,
        memory,
        options: options(rng),
    }
}

fn profile(rng: &mut Rng) -> Profile {
    let versions = [
        KernelVersion::V6_1,
        KernelVersion::V6_12,
        KernelVersion::V6_18,
        KernelVersion::V7_3,
    ];
    let version = versions[rng.usize(..versions.len())];
    let preset = match rng.u8(..8) {
        0..=2 => Profile::amd64(version),
        3 => Profile::arm64_4k(version),
        4 => Profile::arm64_16k(version),
        5 => Profile::arm64_64k(version),
        6 => Profile::riscv64(version),
        _ => Profile::ppc64_64k(version),
    };
    let mut config = preset.config().clone();
    config.deferred_init = rng.bool();
    if rng.bool() {
        config.section_bits = rng.u32(config.section_bits.saturating_sub(3)..=config.section_bits);
    }
    // a section that is too small for the largest block is refused
    config.build().unwrap_or(preset)
}

/// Ranges in ascending order with holes of any size between them; nodes may take turns.
fn ranges(rng: &mut Rng, profile: &Profile) -> Vec<(PhysRange, NodeId)> {
    let page = profile.page_size();
    let section = profile.pages_per_section() * page;
    let nodes = rng.u16(1..=4);
    let memmap = profile.pages_per_section() * u64::from(profile.struct_page_bytes);
    let mut left = (MOST_MEMMAP / memmap).clamp(1, 48);
    let mut at = rng.u64(..4) * section + rng.u64(..4) * page;
    let mut list = Vec::new();
    while left > 0 {
        let sections = rng.u64(1..=left.min(12));
        // ends lie anywhere, within a page too
        let cut = rng.u64(..section / 2);
        let end = at + sections * section - if rng.bool() { cut } else { 0 };
        let range = PhysRange::new(PhysAddr::new(at), PhysAddr::new(end));
        list.push((range, NodeId::new(rng.u16(..nodes))));
        // a range can reach into one section more than it is long
        left = left.saturating_sub(sections + 1);
        at = match rng.u8(..8) {
            0 => end + (1 << 40),
            1..=3 => end,
            _ => end + rng.u64(1..2 * section),
        };
    }
    list
}

fn options(rng: &mut Rng) -> BootOptions {
    let mut options = BootOptions::default();
    match rng.u8(..8) {
        0 => options.kernelcore = Some(CoreSize::Percent(rng.u64(1..100))),
        1 => options.movablecore = Some(CoreSize::Percent(rng.u64(1..100))),
        2 => options.movable_node = true,
        _ => {}
    }
    options
}
