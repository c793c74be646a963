//! Devices that come to a memory map and go again.
//!
//! [`Devices`] keeps what is bound to one map. A bind does what a driver's request for struct pages
//! does in Linux, in its order: nothing may be there already; sections and sub-sections are added;
//! the zone of devices and its node grow over the range; then all struct pages are written. An
//! unbind takes the sections away again. The spans stay as they grew: that is what running kernels
//! of 6.12 and 7.3 show.
//!
//! A device may lie in a section that memory has had since boot, as long as it has sub-sections of
//! its own. Its struct pages are then some of that section's; they keep what they hold when the
//! device goes, and the map no longer calls them valid memory.
//!
//! Linux: mm/memremap.c, `pagemap_range` and `memunmap_pages`.

use alloc::vec::Vec;

use memblock::{NodeId, Pfn, PfnRange};
use memmap_core::writers::PageWriter;
use memmap_core::{HotplugError, MemoryMap, Profile};

use crate::{AltmapFull, DevPagemap, DeviceError, DeviceRuns, RangeObserver, Site};

/// Why a device is not bound. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The description itself is wrong.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Memory lies where the device is to be.
    #[error("the device's frames {device} lie over memory, at {memory}: it must be elsewhere")]
    OverMemory {
        /// The frames asked for.
        device: PfnRange,
        /// The first sub-section of memory among them.
        memory: PfnRange,
    },
    /// Another device lies there.
    #[error(
        "the device's frames {device} overlap those of the device at {other}, whose description \
         is at {description:#x}: unbind that one first"
    )]
    OverDevice {
        /// The frames asked for.
        device: PfnRange,
        /// The other device's frames.
        other: PfnRange,
        /// The other device's description.
        description: u64,
    },
    /// The map refuses.
    #[error(transparent)]
    Map(#[from] HotplugError),
}

/// Names a bound device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(u64);

impl DeviceId {
    /// The device of this number; only [`Devices`] knows whether there is one.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Its number, which no other device of the map ever has.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// The devices that are bound to one map.
#[derive(Debug, Default)]
pub struct Devices {
    bound: Vec<Bound>,
    next: u64,
}

#[derive(Debug)]
struct Bound {
    id: DeviceId,
    pagemap: DevPagemap,
    runs: DeviceRuns,
}

impl Devices {
    /// No device.
    pub const fn new() -> Self {
        Self {
            bound: Vec::new(),
            next: 0,
        }
    }

    /// The bound devices and what their struct pages hold, in the order of their binds.
    pub fn iter(&self) -> impl Iterator<Item = (DeviceId, &DevPagemap, &DeviceRuns)> {
        self.bound
            .iter()
            .map(|bound| (bound.id, &bound.pagemap, &bound.runs))
    }

    /// The device that `pfn` belongs to.
    #[doc(alias = "get_dev_pagemap")]
    pub fn device_at(&self, pfn: Pfn) -> Option<DeviceId> {
        let bound = self
            .bound
            .iter()
            .find(|bound| bound.runs.run_at(pfn).is_some())?;
        Some(bound.id)
    }

    /// Binds the device `pagemap` on `node` to `map`: adds its struct pages, writes them by
    /// `writer`, and tells `observer`. `map` must always be the same.
    ///
    /// # Errors
    /// - [`BindError::Device`] for a description that is wrong in itself.
    /// - [`BindError::OverMemory`], [`BindError::OverDevice`] where something is there already.
    /// - [`BindError::Map`] where the map refuses: no such node, no memory.
    #[doc(alias = "memremap_pages")]
    #[doc(alias = "pagemap_range")]
    pub fn bind(
        &mut self,
        map: &mut MemoryMap,
        mut pagemap: DevPagemap,
        node: NodeId,
        writer: &dyn PageWriter,
        observer: Option<&dyn RangeObserver>,
    ) -> Result<DeviceId, BindError> {
        let profile = map.profile().clone();
        let section = profile.pages_per_section();
        let boot = map
            .geometry()
            .sections()
            .iter()
            .map(|number| number.pfns(section));
        let site = Site::on_node(node).with_boot_sections(join(boot));
        let runs = DeviceRuns::new(&profile, &pagemap, &site)?;
        host_memmap(&mut pagemap, &runs, &profile).map_err(DeviceError::from)?;

        let mut added: Vec<PfnRange> = Vec::new();
        let mut result = Ok(());
        for &pfns in runs.ranges() {
            result = match map.activate(pfns) {
                Ok(()) => {
                    added.push(pfns);
                    Ok(())
                }
                Err(HotplugError::AlreadyThere { pfn }) => Err(self.conflict(&profile, pfns, pfn)),
                Err(error) => Err(error.into()),
            };
            if result.is_err() {
                break;
            }
        }
        // Spans grow last: an unknown node is found at the first range, before any has grown.
        let ranges = runs.ranges().iter();
        let grown = result.and_then(|()| {
            let mut ranges = ranges.map(|&pfns| map.move_to_zone(node, runs.zone(), pfns));
            ranges.try_for_each(|grown| grown).map_err(BindError::from)
        });
        if let Err(error) = grown {
            for pfns in added {
                // they were added a moment ago, so they can be taken away
                map.deactivate(pfns)?;
            }
            return Err(error);
        }
        write(map, &runs, &profile, writer, observer);
        let id = DeviceId(self.next);
        self.next += 1;
        self.bound.push(Bound { id, pagemap, runs });
        Ok(id)
    }

    /// Unbinds a device and returns its description; `None` where it is not bound.
    ///
    /// # Errors
    /// [`HotplugError`] where the map does not know its frames; the device stays bound then.
    #[doc(alias = "memunmap_pages")]
    pub fn unbind(
        &mut self,
        map: &mut MemoryMap,
        id: DeviceId,
    ) -> Result<Option<DevPagemap>, HotplugError> {
        let Some(at) = self.bound.iter().position(|bound| bound.id == id) else {
            return Ok(None);
        };
        let runs = &self.bound[at].runs;
        for &pfns in runs.ranges() {
            map.remove_from_zone(runs.node(), runs.zone(), pfns)?;
            map.deactivate(pfns)?;
        }
        let mut pagemap = self.bound.remove(at).pagemap;
        if let Some(altmap) = pagemap.altmap_mut() {
            altmap.give_back(altmap.alloc());
        }
        Ok(Some(pagemap))
    }

    /// Who has `pfn`, which the device over `device` wants.
    fn conflict(&self, profile: &Profile, device: PfnRange, pfn: Pfn) -> BindError {
        for bound in &self.bound {
            if let Some(&other) = bound.runs.ranges().iter().find(|other| other.contains(pfn)) {
                return BindError::OverDevice {
                    device,
                    other,
                    description: bound.pagemap.address(),
                };
            }
        }
        let start = pfn.align_down(profile.pages_per_subsection());
        let end = start.saturating_add(profile.pages_per_subsection());
        BindError::OverMemory {
            device,
            memory: PfnRange::new(start, end),
        }
    }
}

/// Takes the pages of the memory map from the device itself, where it has an altmap: blocks that a
/// huge page of the kernel's own mapping (2 MiB) covers, and single pages for what is smaller.
fn host_memmap(
    pagemap: &mut DevPagemap,
    runs: &DeviceRuns,
    profile: &Profile,
) -> Result<(), AltmapFull> {
    let Some(altmap) = pagemap.altmap_mut() else {
        return Ok(());
    };
    let block = profile.pages_per_subsection();
    let size = u64::from(profile.struct_page_bytes);
    for &pfns in runs.ranges() {
        for part in by_section(pfns, profile.pages_per_section()) {
            let pages = (part.len() * size).div_ceil(profile.page_size());
            for _ in 0..pages / block {
                altmap.take(block)?;
            }
            for _ in 0..pages % block {
                altmap.take(1)?;
            }
        }
    }
    Ok(())
}

fn write(
    map: &mut MemoryMap,
    runs: &DeviceRuns,
    profile: &Profile,
    writer: &dyn PageWriter,
    observer: Option<&dyn RangeObserver>,
) {
    for &pfns in runs.ranges() {
        for part in by_section(pfns, profile.pages_per_section()) {
            for run in runs.cut(part) {
                if let Some(words) = map.struct_pages_mut(run.pfns()) {
                    run.write(writer, words, observer);
                }
            }
        }
    }
}

/// The parts that `pfns` has in each section.
fn by_section(pfns: PfnRange, section: u64) -> impl Iterator<Item = PfnRange> {
    let mut at = pfns.start();
    core::iter::from_fn(move || {
        let end = at.saturating_add(1).align_up(section).min(pfns.end());
        let part = PfnRange::new(at, end);
        at = end;
        (!part.is_empty()).then_some(part)
    })
}

/// Ascending ranges with neighbours joined.
fn join(ranges: impl Iterator<Item = PfnRange>) -> Vec<PfnRange> {
    let mut joined: Vec<PfnRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end() == range.start() => {
                *last = PfnRange::new(last.start(), range.end());
            }
            _ => joined.push(range),
        }
    }
    joined
}
