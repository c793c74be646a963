//! A booted machine, and who may use it when.
//!
//! # Implementation
//! Everything that can change as a whole is behind one lock: calls that allocate or look take it
//! shared, calls that plug or unplug take it alone. The struct pages of memory that was there at
//! boot never move, so frames are turned into pointers without it.

use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use deferred_init::engine::Engine;
use deferred_init::plan::Plan;
use memblock::Pfn;
use memmap_core::MemoryMap;
use memmap_core::hotplug::Hotplug;
use memmap_core::writers::PageWriter;
use zone_device::Devices;

use crate::asked;
use crate::profile::Fields;
use crate::status::{Failure, di_status};

/// A booted machine.
#[derive(Debug)]
pub struct di_machine {
    pub(crate) boot_pages: BootPages,
    pub(crate) fields: Fields,
    pub(crate) engine: Engine,
    /// What is initialised late.
    pub(crate) late: Plan,
    /// The writer of sections that are asked for, of a machine that boots lazily.
    lazy: Option<&'static dyn PageWriter>,
    state: RwLock<State>,
}

/// What changes as a whole.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) plug: Hotplug,
    pub(crate) devices: Devices,
}

impl di_machine {
    pub(crate) fn new(
        plug: Hotplug,
        engine: Engine,
        late: Plan,
        lazy: Option<&'static dyn PageWriter>,
    ) -> Self {
        let boot_pages = match lazy {
            // somebody has to see each page that is asked for
            Some(_) => BootPages::none(plug.map()),
            None => BootPages::of(plug.map()),
        };
        Self {
            boot_pages,
            fields: Fields::of(plug.map().profile()),
            engine,
            late,
            lazy,
            state: RwLock::new(State {
                plug,
                devices: Devices::new(),
            }),
        }
    }

    /// The machine beside others who use it.
    pub(crate) fn look(&self) -> Result<RwLockReadGuard<'_, State>, Failure> {
        self.state.read().map_err(|_| broken())
    }

    /// The machine beside others who use it, about to be asked for the struct page of `pfn`.
    pub(crate) fn ask(&self, pfn: Pfn) -> Result<RwLockReadGuard<'_, State>, Failure> {
        let state = self.look()?;
        if let Some(writer) = self.lazy {
            asked::ask(state.plug.allocator(), pfn, writer)?;
        }
        Ok(state)
    }

    /// The machine alone.
    pub(crate) fn change(&self) -> Result<RwLockWriteGuard<'_, State>, Failure> {
        self.state.write().map_err(|_| broken())
    }
}

fn broken() -> Failure {
    let message = "a defect of this library ended an earlier call on this machine; free it";
    Failure::new(di_status::DI_DEFECT, message)
}

/// Where the struct pages of boot-time memory lie, if that is one range of addresses.
#[derive(Debug)]
pub(crate) struct BootPages {
    /// Where the struct page of frame 0 would be.
    pub(crate) base: usize,
    /// Bytes of a struct page.
    pub(crate) bytes: usize,
    /// Runs of frames with struct pages, ascending; none where there is no such range.
    pub(crate) runs: Box<[(u64, u64)]>,
}

impl BootPages {
    fn of(map: &MemoryMap) -> Self {
        let bytes = map.struct_page_size().bytes();
        let sections = map.geometry().sections();
        let pages = sections.pages_per_section();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for run in sections.runs() {
            let (start, end) = (run.first.0 * pages, (run.first.0 + run.count) * pages);
            match runs.last_mut() {
                Some((_, last)) if *last == start => *last = end,
                _ => runs.push((start, end)),
            }
        }
        let address = |pfn: u64| {
            let page = map
                .host_page(Pfn::new(pfn))
                .map(|page| page.as_ptr().addr());
            page.map(|page| page.wrapping_sub((pfn as usize).wrapping_mul(bytes)))
        };
        let base = runs.first().and_then(|&(start, _)| address(start));
        let is_one = |base| {
            let ends = runs.iter().flat_map(|&(start, end)| [start, end - 1]);
            map.mapping().is_some() && ends.into_iter().all(|pfn| address(pfn) == Some(base))
        };
        match base {
            Some(base) if is_one(base) => Self {
                base,
                bytes,
                runs: runs.into(),
            },
            _ => Self::none(map),
        }
    }

    /// No such range.
    fn none(map: &MemoryMap) -> Self {
        Self {
            base: 0,
            bytes: map.struct_page_size().bytes(),
            runs: Box::default(),
        }
    }

    /// Whether `pfn` is one of theirs.
    #[inline]
    fn has(&self, pfn: u64) -> bool {
        match *self.runs {
            [] => false,
            // most machines have one run, or two around the hole below 4 GiB
            [(start, end)] => start <= pfn && pfn < end,
            [(a, b), (c, d)] => (a <= pfn && pfn < b) || (c <= pfn && pfn < d),
            _ => {
                let after = self.runs.partition_point(|&(start, _)| start <= pfn);
                after > 0 && pfn < self.runs[after - 1].1
            }
        }
    }

    /// The struct page of `pfn`, where it is one of theirs.
    #[inline]
    pub(crate) fn page(&self, pfn: u64) -> Option<usize> {
        self.has(pfn).then(|| {
            self.base
                .wrapping_add((pfn as usize).wrapping_mul(self.bytes))
        })
    }

    /// The frame of the struct page at `address`, where it is one of theirs.
    #[inline]
    pub(crate) fn pfn(&self, address: usize) -> Option<u64> {
        let offset = address.wrapping_sub(self.base);
        // a shift where it can be one
        let pfn = if self.bytes == 64 {
            offset / 64
        } else {
            offset / self.bytes
        };
        self.has(pfn as u64).then_some(pfn as u64)
    }
}
