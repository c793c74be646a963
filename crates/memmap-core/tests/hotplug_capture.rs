//! A recorded life of a real guest's memory, lived again.

use std::collections::BTreeMap;

use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PfnRange, PhysAddr, PhysRange};
use memmap_core::buddy::{Allocator, HandOver, ListHeads, NodeDistances};
use memmap_core::hotplug::{BlockState, Hotplug, HotplugOptions, OnlineTo};
use memmap_core::{
    BackingKind, BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile,
    ZoneKind, writers,
};

const CAPTURE: &str = include_str!("captures/hotplug-gap-6.12.txt");

fn number(text: &str) -> u64 {
    let hex = text.strip_prefix("0x");
    hex.map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16))
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn pair(text: &str) -> (u64, u64) {
    let (first, last) = text.split_once('-').expect("a range");
    (number(first), number(last))
}

fn node(text: &str) -> NodeId {
    NodeId::new(number(text) as u16)
}

fn boot() -> Hotplug {
    let mut memory = Memblock::new(Behaviour::V6_12);
    for line in CAPTURE.lines() {
        if let ["memory", range, "node", id] = *line.split(' ').collect::<Vec<_>>() {
            let (start, end) = pair(range);
            let range = PhysRange::new(PhysAddr::new(start), PhysAddr::new(end));
            memory
                .add_node(range, node(id), MemblockFlags::empty())
                .expect("fits");
        }
    }
    let profile = Profile::amd64(KernelVersion::V6_12);
    let geometry = Geometry::new(&profile, &memory, &BootOptions::default()).expect("a machine");
    let mut options = BackingOptions::default();
    options.kind = BackingKind::Heap;
    let map = MemoryMap::new(geometry.clone(), options).expect("100 MB");
    for section in geometry.sections().iter() {
        let mut claim = map.claim(section).expect("pending");
        claim.write(&writers::Template::DETECT);
        claim.publish();
    }
    let allocator = Allocator::new(
        map,
        &geometry,
        NodeDistances::default(),
        ListHeads::default(),
    );
    let plan = HandOver::new(&geometry);
    for section in geometry.sections().iter() {
        allocator.hand_over(&plan, section);
    }
    Hotplug::new(allocator, HotplugOptions::default())
}

fn act(machine: &mut Hotplug, words: &[&str]) {
    let frames = |machine: &Hotplug, blocks| {
        let (first, last) = pair(blocks);
        PfnRange::new(
            machine.block_pfns(first).start(),
            machine.block_pfns(last).end(),
        )
    };
    match *words {
        ["add", blocks, "node", id] => machine.add(node(id), frames(machine, blocks)),
        ["online_kernel", block] => machine.online(number(block), OnlineTo::Kernel).map(drop),
        ["online_movable", block] => machine.online(number(block), OnlineTo::Movable).map(drop),
        ["offline", block] => machine.offline(number(block)),
        ["remove", blocks] => machine.remove(frames(machine, blocks)),
        _ => panic!("{words:?}"),
    }
    .unwrap_or_else(|error| panic!("{words:?}: {error}"));
}

/// The zones that span anything: start, spanned, present, managed.
type Zones = BTreeMap<(NodeId, String), [u64; 4]>;

fn zones(machine: &Hotplug) -> Zones {
    let geometry = machine.map().geometry();
    let mut all = Zones::new();
    for node in geometry.nodes() {
        for (index, kind) in geometry.profile().zones.iter() {
            let zone = node.zones[index.index()];
            let managed = machine.allocator().zone_counts(node.id, index).managed;
            if zone.spanned > 0 {
                all.insert(
                    (node.id, kind.name().to_owned()),
                    [zone.start.get(), zone.spanned, zone.present, managed],
                );
            }
        }
    }
    all
}

/// What a boot-time zone manages depends on what the guest's boot reserved, which is not recorded:
/// what it has more or less than at boot is compared.
fn since(boot: &Zones, mut now: Zones) -> Zones {
    for (zone, [.., managed]) in &mut now {
        let before = boot.get(zone).map_or(0, |[.., managed]| *managed);
        *managed = managed.wrapping_sub(before);
    }
    now
}

#[test]
fn zones_and_memory_blocks_are_what_the_guest_showed_after_every_step() {
    let mut machine = boot();
    let ours_at_boot = zones(&machine);
    let mut shown_at_boot: Option<Zones> = None;
    let mut shown = Zones::new();
    let mut steps = 0;
    let mut blocks = 0;
    let mut compare = |machine: &Hotplug, shown: Zones, step: &str| {
        let first = shown_at_boot.get_or_insert_with(|| shown.clone());
        let theirs = since(first, shown);
        assert_eq!(since(&ours_at_boot, zones(machine)), theirs, "after {step}");
    };
    let mut step = "boot";
    let mut acted = false;
    for line in CAPTURE.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match *words {
            [
                "zone",
                id,
                kind,
                "start",
                start,
                "spanned",
                spanned,
                "present",
                present,
                "managed",
                managed,
            ] => {
                shown.insert(
                    (node(id), kind.to_owned()),
                    [start, spanned, present, managed].map(number),
                );
                acted = false;
            }
            ["blocks", range, state, "node", id, "zones", ref valid @ ..] => {
                let (first, last) = pair(range);
                for (number, of, found) in machine
                    .blocks()
                    .filter(|(number, ..)| (first..=last).contains(number))
                {
                    let online = !matches!(found, BlockState::Offline);
                    assert_eq!(of, node(id), "block {number} after {step}");
                    assert_eq!(online, state == "online", "block {number} after {step}");
                    if !online {
                        let kinds = machine.map().profile().zones;
                        let ours = machine.valid_zones(number).expect("it is there");
                        let ours = ours.map(|zone| kinds.kind(zone).map(ZoneKind::name));
                        let theirs: Vec<_> = valid.iter().copied().map(Some).collect();
                        assert_eq!(ours.to_vec(), theirs, "block {number} after {step}");
                    }
                    blocks += 1;
                }
            }
            [">", ref action @ ..] => {
                // several things may be done before anything is shown
                if !acted {
                    compare(&machine, std::mem::take(&mut shown), step);
                    steps += 1;
                }
                act(&mut machine, action);
                acted = true;
                step = line;
            }
            _ => {}
        }
    }
    compare(&machine, shown, step);
    assert!(steps >= 9 && blocks > 60, "{steps} steps, {blocks} blocks");
    assert_eq!(machine.allocator().check(), []);
}
