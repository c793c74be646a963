//! Free blocks and allocator figures of a captured kernel beside ours.
//!
//! A capture lists the heads of free buddy blocks, and holds `/proc/buddyinfo`,
//! `/proc/pagetypeinfo` and `/proc/zoneinfo`. What of that can be compared is decided by the
//! capture's own words, before anything of ours is looked at:
//!
//! * **Blocks**, by aligned regions of the largest block's size. A region was *not used since
//!   hand-over* if every page of it that the capture covers is either reserved as initialisation
//!   leaves it, or lies in a listed free block all of whose inner pages are listed and still point
//!   to themselves. (Inner pages of blocks up to order 2 are too few to be listed, and pages at
//!   multiples of two pageblocks inside a larger one hold list poison: these may be missing.) A
//!   page that was taken since, or freed one by one, shows other words or is not listed. Of such
//!   regions, the places and orders of all free blocks must be ours.
//! * **Types**: words do not hold a block's type. But a zone's blocks of one type and order are
//!   counted in `pagetypeinfo`: of the blocks compared, ours may not be more.
//! * **`buddyinfo`** of zones that boot did not touch: those whose managed pages are free but for
//!   the pools that the log says were allocated from it (`DMA: preallocated 256 KiB
//!   GFP_KERNEL|GFP_DMA pool`). The pools are allocated from ours first.
//! * **Managed pages**, summed over zones: ours and the pages of the log's `Freeing …` lines, less
//!   what the line `Memory:` has more reserved than memblock had (s390x), where the log is there
//!   from hand-over to user space.
//!
//! Areas that the log reserved for contiguous allocation (`cma: Reserved 64 MiB at …`) are given
//! to our allocator first, as the kernel gave them to its own before anything was read.

mod capture;
mod regions;

use std::collections::BTreeMap;
use std::fmt;

use memblock::{NodeId, Pfn, PhysAddr, PhysRange};
use memmap_core::buddy::{Allocator, HandOver, ListHeads, MigrateType, NodeDistances, Request};
use memmap_core::{Geometry, MemoryMap, ZoneKind};

pub use capture::CapturedBlocks;
use regions::{What, classify};

/// What came of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlocksOutcome {
    /// Heads that the capture lists.
    pub listed: u64,
    /// Heads in regions that were not used since hand-over.
    pub compared: u64,
    /// Of these, those that are ours in place, order and type.
    pub equal: u64,
    /// Blocks of ours, in such regions, that the capture lacks.
    pub missing: u64,
    /// Zones whose `buddyinfo` was compared, and those that were equal.
    pub buddyinfo: (u64, u64),
    /// Managed pages: the capture's and ours, where both are known.
    pub managed: Option<(u64, u64)>,
    /// What is unequal, for people.
    pub notes: Vec<String>,
}

impl BlocksOutcome {
    /// Whether nothing that was compared is unequal.
    pub fn is_equal(&self) -> bool {
        self.notes.is_empty()
    }

    fn note(&mut self, text: String) {
        const SHOWN: usize = 10;
        if self.notes.len() < SHOWN {
            self.notes.push(text);
        }
    }
}

/// One line.
impl fmt::Display for BlocksOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "free blocks: listed {}, in memory not used since hand-over {}, equal in place, order \
             and type {}, missing {}; buddyinfo of untouched zones {}/{}; ",
            self.listed,
            self.compared,
            self.equal,
            self.missing,
            self.buddyinfo.1,
            self.buddyinfo.0,
        )?;
        match self.managed {
            Some((theirs, ours)) => writeln!(f, "managed pages {theirs}, ours {ours}"),
            None => writeln!(f, "managed pages not compared (the log ends early)"),
        }
    }
}

impl CapturedBlocks {
    /// Hands over the free pages of the same machine's map, all of it written, and lays what comes
    /// of it beside the capture.
    pub fn compare(&self, map: MemoryMap) -> BlocksOutcome {
        let mut outcome = BlocksOutcome::default();
        let allocator = &handed_over(map);
        for violation in allocator.check() {
            outcome.note(format!("our own free lists are wrong: {violation:?}"));
        }
        let profile = allocator.profile();
        for (address, bytes) in &self.cma {
            let range = PhysRange::from_size(PhysAddr::new(*address), *bytes);
            if let Err(error) = allocator.activate_cma(range.pfns_inner(profile.page_shift)) {
                outcome.note(format!("the log's CMA area at {address:#x}: {error}"));
            }
        }
        let ours = our_blocks(allocator);
        self.compare_regions(allocator.pages().geometry(), &ours, &mut outcome);
        self.compare_managed(allocator, &mut outcome);
        self.compare_buddyinfo(allocator, &mut outcome);
        outcome
    }

    fn compare_regions(&self, geometry: &Geometry, ours: &OurBlocks, outcome: &mut BlocksOutcome) {
        let profile = geometry.profile();
        outcome.listed = self
            .runs
            .iter()
            .filter(|run| matches!(classify(profile, &run.words), What::Head(_)))
            .map(|run| run.pfns.len())
            .sum();
        let mut used: BTreeMap<(u16, ZoneKind, MigrateType, u8), u64> = BTreeMap::new();
        for (number, heads) in self.untouched(geometry) {
            let start = Pfn::new(number * profile.max_order_pages());
            let end = start.saturating_add(profile.max_order_pages());
            let mut expected: BTreeMap<Pfn, OurBlock> = ours
                .range(start..end)
                .map(|(pfn, block)| (*pfn, *block))
                .collect();
            for (pfn, order) in heads {
                outcome.compared += 1;
                match expected.remove(&pfn) {
                    Some(block) if block.order == order => {
                        let key = (block.node, block.zone, block.migrate, order);
                        let used = used.entry(key).or_default();
                        *used += 1;
                        if *used <= self.counted(key) {
                            outcome.equal += 1;
                        } else {
                            outcome.note(format!(
                                "block {pfn} of order {order}: ours is {}, of which the capture \
                                 counts {}",
                                block.migrate,
                                self.counted(key)
                            ));
                        }
                    }
                    other => outcome.note(format!(
                        "block {pfn} of order {order}: ours is {:?}",
                        other.map(|block| block.order)
                    )),
                }
            }
            for (pfn, block) in expected {
                outcome.missing += 1;
                outcome.note(format!(
                    "our block {pfn} of order {} is not free there",
                    block.order
                ));
            }
        }
    }

    fn counted(&self, key: (u16, ZoneKind, MigrateType, u8)) -> u64 {
        let (node, zone, migrate, order) = key;
        if self.types.is_empty() {
            return u64::MAX;
        }
        let counts = self.types.get(&(node, zone, migrate));
        counts
            .and_then(|counts| counts.get(usize::from(order)))
            .copied()
            .unwrap_or(0)
    }

    fn compare_managed(&self, allocator: &Allocator<MemoryMap>, outcome: &mut BlocksOutcome) {
        if self.zones.is_empty() || self.log_is_whole != (true, true) {
            return;
        }
        let theirs = self.zones.values().map(|(managed, _)| managed).sum();
        let shift = allocator.profile().page_shift;
        let ours = zones(allocator).map(|(_, _, managed)| managed).sum::<u64>();
        let freed = (self.freed << 10) >> shift;
        let reserved = self.replay.as_ref().map_or(0, |replay| {
            replay.check_memory_line(shift).map_or(0, |check| {
                (check.printed.saturating_sub(check.replayed) << 10) >> shift
            })
        });
        let expected = (ours + freed).saturating_sub(reserved);
        outcome.managed = Some((theirs, expected));
        if theirs != expected {
            outcome.note(format!(
                "{theirs} pages are managed; ours are {ours}, and by the log {freed} were freed \
                 since and {reserved} reserved: {expected}"
            ));
        }
    }

    fn compare_buddyinfo(&self, allocator: &Allocator<MemoryMap>, outcome: &mut BlocksOutcome) {
        let profile = allocator.profile();
        for (&(node, kind), &(managed, free)) in &self.zones {
            let Some(zone) = profile.zones.index_of(kind) else {
                continue;
            };
            let pools = self.pools.iter().filter(|(pool, _)| *pool == kind);
            let pages = pools
                .clone()
                .map(|(_, kib)| (kib << 10) >> profile.page_shift);
            if managed == 0 || managed - free.min(managed) != pages.clone().sum::<u64>() {
                continue;
            }
            for pages in pages {
                let request = Request {
                    order: pages.max(1).ilog2() as u8,
                    node: NodeId::new(node),
                    zone,
                    migrate: MigrateType::Unmovable,
                };
                if let Err(error) = allocator.alloc_pages(request) {
                    outcome.note(format!("a pool of {pages} pages of {kind}: {error}"));
                }
            }
            let begins = format!("Node {node}, zone {kind:>8} ");
            let text = allocator.buddyinfo();
            let ours = text.lines().find(|line| line.starts_with(&begins));
            let theirs = self.buddyinfo.iter().find(|line| line.starts_with(&begins));
            outcome.buddyinfo.0 += 1;
            if ours.map(str::trim_end) == theirs.map(|line| line.trim_end()) {
                outcome.buddyinfo.1 += 1;
            } else {
                outcome.note(format!("buddyinfo is\n{theirs:?}, ours\n{ours:?}"));
            }
        }
    }
}

/// An allocator that has all free pages of a written map, as a kernel has them just after boot
/// handed them over.
fn handed_over(map: MemoryMap) -> Allocator<MemoryMap> {
    let geometry = map.geometry().clone();
    let (distances, heads) = (NodeDistances::default(), ListHeads::default());
    let allocator = Allocator::new(map, &geometry, distances, heads);
    let plan = HandOver::new(&geometry);
    for section in geometry.sections().iter() {
        allocator.hand_over(&plan, section);
    }
    allocator
}

#[derive(Clone, Copy, Debug)]
struct OurBlock {
    order: u8,
    node: u16,
    zone: ZoneKind,
    migrate: MigrateType,
}

type OurBlocks = BTreeMap<Pfn, OurBlock>;

fn our_blocks(allocator: &Allocator<MemoryMap>) -> OurBlocks {
    let mut blocks = OurBlocks::new();
    let max_order = allocator.profile().max_page_order as u8;
    for (node, kind, _) in zones(allocator) {
        let Some(zone) = allocator.profile().zones.index_of(kind) else {
            continue;
        };
        for migrate in MigrateType::ALL {
            for order in 0..=max_order {
                for pfn in allocator.free_list(node, zone, order, migrate) {
                    let block = OurBlock {
                        order,
                        node: node.get(),
                        zone: kind,
                        migrate,
                    };
                    blocks.insert(pfn, block);
                }
            }
        }
    }
    blocks
}

fn zones(allocator: &Allocator<MemoryMap>) -> impl Iterator<Item = (NodeId, ZoneKind, u64)> + '_ {
    let geometry = allocator.pages().geometry();
    geometry.populated_zones().map(|(node, zone)| {
        let counts = allocator.zone_counts(node.id, zone.index);
        (node.id, zone.kind, counts.managed)
    })
}
