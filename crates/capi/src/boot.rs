//! From a layout to a machine that runs.

use std::ffi::{c_char, c_void};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use deferred_init::Topology;
use deferred_init::engine::{CancelToken, Engine, Outcome, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::policy::{OnDemand, Policy};
use deferred_init::schedule::{self, Scheduler};
use deferred_init::workers::Pinning;
use memmap_core::buddy::{Allocator, GrowDeferred, Growth, HandOver, ListHeads, NodeDistances};
use memmap_core::hotplug::{Hotplug, HotplugOptions};
use memmap_core::writers::{self, PageWriter, Series};
use memmap_core::{
    AddressSpace, BackingKind, BackingOptions, Geometry, MapError, MemoryMap, PageImage, Phase,
    ZoneIndex,
};

use crate::asked::GrowAny;
use crate::layout::{di_layout, node};
use crate::machine_handle::di_machine;
use crate::pointer::{put, shared, sized, text};
use crate::profile::di_profile;
use crate::status::{Failure, di_status, guard};

/// How a machine boots. Zero everything but `size` for the defaults.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct di_boot_options {
    /// Bytes of this structure.
    pub size: usize,
    /// When memory is initialised. `"eager"` (default): all of it is when `di_boot` returns.
    /// `"deferred"`: what the kernel defers is left to allocations that run short, to `di_grow`, and
    /// to `di_finish`. `"on-demand"`: likewise, but where many threads find a zone empty one of them
    /// grows it and the others wait. `"lazy"`: nothing is when `di_boot` returns; a section is when
    /// `di_pfn_to_page`, `di_page_words` or `di_page_text` first asks for one of its pages, when
    /// allocations run short, or by `di_finish`. A view (`di_view_get`) of a lazy machine has no
    /// frames.
    pub policy: *const c_char,
    /// Who writes what: `"static"` (default), `"padata"`, `"deque"` or `"rayon"`. The outcome is the
    /// same.
    pub scheduler: *const c_char,
    /// The page writer: `"stream"` (default), `"template"`, `"zero"`, `"memset"` or `"auto"`. The
    /// outcome is the same.
    pub writer: *const c_char,
    /// Threads; 0 for 1.
    pub threads: u32,
    /// Not 0: each thread is pinned to a CPU, where there are enough.
    pub pinned: u32,
    /// Memory for struct pages: 0 what can be had, 1 one range of addresses, 2 the heap, a section
    /// at a time.
    pub backing: u32,
    /// Not 0: links in struct pages are addresses of this process, and can be followed. 0: those of
    /// the modelled kernel, the same in every run.
    pub host_addresses: u32,
    /// Sections of a memory block, for hotplug: a power of two, or 0 for 1; no more than there is
    /// room for in the kernel's range of physical addresses.
    pub sections_per_block: u64,
    /// Bytes that struct pages may take; 0 for what the host has available.
    pub memory_limit: u64,
    /// Is told how many bytes of struct pages are written of how many, by any of the threads but
    /// one at a time; unless it returns 0 the boot is cancelled. It must not call this library.
    pub progress: Option<unsafe extern "C" fn(user: *mut c_void, done: u64, total: u64) -> i32>,
    /// What `progress` is called with.
    pub user: *mut c_void,
}

const DEFAULT: di_boot_options = di_boot_options {
    size: size_of::<di_boot_options>(),
    policy: std::ptr::null(),
    scheduler: std::ptr::null(),
    writer: std::ptr::null(),
    threads: 0,
    pinned: 0,
    backing: 0,
    host_addresses: 0,
    sections_per_block: 0,
    memory_limit: 0,
    progress: None,
    user: std::ptr::null_mut(),
};

/// The options, checked.
struct Options {
    policy: Policy,
    scheduler: &'static dyn Scheduler,
    writer: &'static dyn PageWriter,
    raw: di_boot_options,
}

impl Options {
    /// # Safety
    /// Strings of `raw` are null or texts.
    unsafe fn of(raw: di_boot_options) -> Result<Self, Failure> {
        let name = |pointer: *const c_char, what, default| {
            if pointer.is_null() {
                return Ok(default);
            }
            // SAFETY: the caller's word.
            unsafe { text(pointer, what) }
        };
        let unknown = |what: &str, name: &str| {
            Failure::new(
                di_status::DI_NOT_FOUND,
                format!("no {what} is named {name}"),
            )
        };
        let policy = name(raw.policy, "policy", "eager")?;
        let scheduler = name(raw.scheduler, "scheduler", "static")?;
        let writer = name(raw.writer, "writer", "stream")?;
        if raw.backing > 2 {
            let message = format!("backing {} is none of 0, 1 and 2", raw.backing);
            return Err(Failure::new(di_status::DI_ARGUMENT, message));
        }
        Ok(Self {
            policy: Policy::by_name(policy).ok_or_else(|| unknown("policy", policy))?,
            scheduler: schedule::by_name(scheduler)
                .ok_or_else(|| unknown("scheduler", scheduler))?,
            writer: writers::by_name(writer).ok_or_else(|| unknown("writer", writer))?,
            raw,
        })
    }

    fn backing(&self) -> BackingOptions {
        let mut options = BackingOptions::default();
        options.kind = match self.raw.backing {
            1 => BackingKind::Mapped,
            2 => BackingKind::Heap,
            _ => BackingKind::Auto,
        };
        if self.raw.host_addresses != 0 {
            options.address_space = AddressSpace::Host;
        }
        options.memory_limit = (self.raw.memory_limit != 0).then_some(self.raw.memory_limit);
        options
    }
}

fn memory(error: MapError) -> Failure {
    let status = match error {
        MapError::NotSparse | MapError::StructPageSize { .. } => di_status::DI_ARGUMENT,
        _ => di_status::DI_HOST_MEMORY,
    };
    Failure::because(status, error)
}

/// Boots the machine of `layout` as the kernel of `profile` (null: the one that the layout tells
/// of), with `options` (null: the defaults). Free it by `di_machine_free`; layout and profile may go
/// before.
///
/// # Safety
/// `layout` and `profile` are null or from this library; `options` is null or a structure whose
/// strings are null or texts; `machine` is null or valid for a write. Threads: any, while nobody
/// changes the layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_boot(
    layout: *const di_layout,
    profile: *const di_profile,
    options: *const di_boot_options,
    machine: *mut *mut di_machine,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let layout = unsafe { shared(layout, "layout") }?.finished()?;
        // SAFETY: the caller's word.
        let options = unsafe { Options::of(sized(options, DEFAULT)?) }?;
        // SAFETY: the caller's word.
        let profile = match unsafe { profile.as_ref() } {
            Some(given) => given.profile.clone(),
            None => layout.profile(),
        };
        if machine.is_null() {
            return Err(Failure::new(di_status::DI_NULL, "machine is null"));
        }
        let memblock = layout
            .memblock()
            .map_err(Failure::of(di_status::DI_LAYOUT))?;
        let geometry = Geometry::new(&profile, &memblock, &layout.boot_options())
            .map_err(Failure::of(di_status::DI_LAYOUT))?;
        let booted = boot(geometry, &options)?;
        // SAFETY: the caller's word.
        unsafe { put(machine, Box::into_raw(Box::new(booted)), "machine") }
    })
}

fn boot(geometry: Geometry, options: &Options) -> Result<di_machine, Failure> {
    let (per_block, most) = (
        options.raw.sections_per_block,
        geometry.profile().nr_mem_sections(),
    );
    if per_block > most || !(per_block == 0 || per_block.is_power_of_two()) {
        let message = format!(
            "a memory block of {per_block} sections is none: give a power of two, at most {most}"
        );
        return Err(Failure::new(di_status::DI_ARGUMENT, message));
    }
    let plan = Plan::new(&geometry).map_err(Failure::of(di_status::DI_LAYOUT))?;
    let topology = Topology::host().map_err(Failure::of(di_status::DI_HOST))?;
    let engine = Engine::new(topology);
    let map = MemoryMap::new(geometry.clone(), options.backing()).map_err(memory)?;
    let heads = match options.raw.host_addresses {
        0 => ListHeads::default(),
        _ => ListHeads::Host,
    };
    let mut allocator = Allocator::new(map, &geometry, NodeDistances::default(), heads);
    let deferred = plan.part(&geometry, Phase::Deferred);
    let early = plan.part(&geometry, Phase::Early);
    let writer = options.writer;
    let (now, late, growth) = match options.policy {
        Policy::Eager => (Some(plan), deferred, None),
        Policy::Deferred => (Some(early), deferred, Some(GrowDeferred::boxed(writer))),
        Policy::OnDemand => {
            let growth = OnDemand::boxed(&geometry, writer);
            (Some(early), deferred, Some(growth))
        }
        Policy::Lazy => (None, plan, Some(GrowAny::boxed(&geometry, writer))),
        other => {
            let message = format!("policy {other} is not one of this interface");
            return Err(Failure::new(di_status::DI_ARGUMENT, message));
        }
    };
    if let Some(now) = now {
        run(&engine, &allocator, &now, options)?;
    }
    allocator.set_growth(growth);
    let mut plugging = HotplugOptions::default();
    plugging.sections_per_block = per_block.max(1);
    Ok(di_machine::new(
        Hotplug::new(allocator, plugging),
        engine,
        late,
        (options.policy == Policy::Lazy).then_some(writer),
    ))
}

/// Initialises and hands over what is pending of `plan`.
fn run(
    engine: &Engine,
    allocator: &Allocator<MemoryMap>,
    plan: &Plan,
    options: &Options,
) -> Result<(), Failure> {
    let cancel = CancelToken::new();
    let watched = options.raw.progress.map(|progress| Watched {
        writer: options.writer,
        progress,
        user: User(options.raw.user),
        done: AtomicU64::new(0),
        total: plan.bytes(),
        told: Mutex::new(0),
        cancel: cancel.clone(),
    });
    let writer: &dyn PageWriter = match &watched {
        Some(watched) => watched,
        None => options.writer,
    };
    let threads = options.raw.threads.max(1) as usize;
    let mut wishes = RunOptions::new(writer)
        .threads(threads)
        .scheduler(options.scheduler)
        .hand_over();
    wishes.workers.oversubscribe = true;
    wishes.workers.pinning = match options.raw.pinned {
        0 => Pinning::Off,
        _ => Pinning::BestEffort,
    };
    wishes.cancel = cancel;
    wishes.records = false;
    wishes.sample_pages = 0;
    let mut report = engine
        .run(allocator.pages(), plan, &wishes)
        .map_err(Failure::of(di_status::DI_HOST))?;
    report.join(allocator, &HandOver::new(allocator.pages().geometry()));
    // the workers of a machine are needed again at most once
    engine.release_workers();
    match &report.outcome {
        Outcome::Complete => Ok(()),
        Outcome::Cancelled => Err(Failure::new(di_status::DI_CANCELLED, "cancelled")),
        Outcome::NoMemory { .. } => Err(Failure::new(di_status::DI_HOST_MEMORY, &report.outcome)),
        other => Err(Failure::new(di_status::DI_DEFECT, other)),
    }
}

/// The caller's own pointer, which only the callback follows.
struct User(*mut c_void);

// SAFETY: the callback is called by one thread at a time, and says so in its documentation.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

/// A page writer that tells how far it is.
struct Watched {
    writer: &'static dyn PageWriter,
    progress: unsafe extern "C" fn(*mut c_void, u64, u64) -> i32,
    user: User,
    done: AtomicU64,
    total: u64,
    /// What was told last.
    told: Mutex<u64>,
    cancel: CancelToken,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watched({})", self.writer.name())
    }
}

impl Watched {
    /// Of so many parts each is told.
    const PARTS: u64 = 64;

    fn add(&self, bytes: usize) {
        // Relaxed: a count, which orders nothing
        let before = self.done.fetch_add(bytes as u64, Ordering::Relaxed);
        let part = (self.total / Self::PARTS).max(1);
        let done = before + bytes as u64;
        if before / part == done / part {
            return;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if done <= *told {
            return;
        }
        *told = done;
        // SAFETY: the callback's own documentation; the lock makes it one at a time.
        if unsafe { (self.progress)(self.user.0, done.min(self.total), self.total) } != 0 {
            self.cancel.cancel();
        }
    }
}

impl PageWriter for Watched {
    fn name(&self) -> &'static str {
        self.writer.name()
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        self.writer.write(image, pages);
        self.add(size_of_val(pages));
    }

    fn write_series(&self, series: &mut dyn Series, pages: &mut [u64]) {
        self.writer.write_series(series, pages);
        self.add(size_of_val(pages));
    }
}

/// Initialises what was deferred, with the scheduler, writer, threads and callback of `options`
/// (null: the defaults). Allocations may go on meanwhile, also by other threads.
///
/// # Safety
/// `machine` is null or from this library; `options` as for `di_boot`. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_finish(
    machine: *const di_machine,
    options: *const di_boot_options,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let machine = unsafe { shared(machine, "machine") }?;
        // SAFETY: the caller's word.
        let options = unsafe { Options::of(sized(options, DEFAULT)?) }?;
        let state = machine.look()?;
        run(
            &machine.engine,
            state.plug.allocator(),
            &machine.late,
            &options,
        )
    })
}

/// Initialises deferred memory of a node until it has brought `2^order` more free pages, as an
/// allocation that runs short does. `pages`, unless null, gets how many it brought.
///
/// # Safety
/// `machine` is null or from this library, `pages` null or valid for a write. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_grow(
    machine: *const di_machine,
    node_number: u32,
    order: u32,
    pages: *mut u64,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.look()?;
        let id = node(node_number)?;
        let allocator = state.plug.allocator();
        let found = state.plug.map().geometry().node(id);
        let unknown = || Failure::new(di_status::DI_NOT_FOUND, format!("there is no node {id}"));
        let zones = &found.ok_or_else(unknown)?.zones;
        let order = u8::try_from(order)
            .map_err(|_| Failure::new(di_status::DI_ARGUMENT, format!("order {order}")))?;
        let mut brought = 0;
        for zone in zones.iter().rev().filter(|zone| zone.is_populated()) {
            let zone: ZoneIndex = zone.index;
            if let Growth::Pages(more) =
                allocator.deferred_grow_zone(id, zone, order, &writers::Stream::DETECT)
            {
                brought = more;
                break;
            }
        }
        if !pages.is_null() {
            // SAFETY: it is not null, so it is valid.
            unsafe { pages.write(brought) };
        }
        Ok(())
    })
}

/// Frees a machine with all its struct pages; nothing happens for null.
///
/// # Safety
/// `machine` is null or from this library, no other call on it is under way, and neither it nor a
/// pointer to one of its struct pages is used again. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_machine_free(machine: *mut di_machine) {
    if !machine.is_null() {
        // SAFETY: it is one of ours, and the caller's last.
        drop(unsafe { Box::from_raw(machine) });
    }
}
