//! Machines: booted, asked, allocated from, plugged, freed.

use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use deferred_init_c::*;

use super::bytes::Bytes;
use super::layouts::{self, Layout};
use super::outputs::{self, is_size};
use super::{done, must, reason};

/// A machine, and what its user has of it.
pub(super) struct Booted {
    handle: *mut di_machine,
    /// First frames and orders.
    held: Vec<(u64, u32)>,
    devices: Vec<u64>,
    page: u64,
}

/// The most bytes of struct pages that a machine may have.
const MOST: u64 = 24 << 20;
/// The most memory of a machine that boots with the options of null.
const MOST_BY_DEFAULT: u64 = 1 << 30;

const POLICIES: [&str; 6] = ["eager", "deferred", "on-demand", "lazy", "padata", ""];
const SCHEDULERS: [&str; 5] = ["static", "padata", "deque", "rayon", "none"];
const WRITERS: [&str; 6] = ["stream", "template", "zero", "memset", "auto", "quill"];

/// Bytes of a unit of addresses, and how many there are.
const UNIT: u64 = 16 << 20;
const UNITS: u64 = 96;

/// How often a boot may tell of itself before it is cancelled.
unsafe extern "C" fn progress(user: *mut c_void, done: u64, total: u64) -> i32 {
    // SAFETY: `user` is the cell of `with_options`, and one thread at a time calls this.
    let left = unsafe { &*user.cast::<Cell<u64>>() };
    // An assertion would unwind into C: what is not so is told by the boot that does not end well.
    if done > total || left.get() == 0 {
        return 1;
    }
    left.set(left.get() - 1);
    0
}

/// Calls `with` with options that bytes decide, and with whether it may say that it was cancelled.
fn with_options(
    bytes: &mut Bytes<'_>,
    with: impl FnOnce(*const di_boot_options, bool) -> di_status,
) -> di_status {
    let text = |text: &str| CString::new(text).expect("no zero");
    let policy = text(bytes.pick(&POLICIES));
    let scheduler = text(bytes.pick(&SCHEDULERS));
    let writer = text(bytes.pick(&WRITERS));
    let calls = Cell::new(bytes.below(80));
    // SAFETY: a structure of pointers and numbers, for which zero is a value.
    let mut options: di_boot_options = unsafe { std::mem::zeroed() };
    let size = outputs::size::<di_boot_options>(bytes);
    options.size = size;
    for (member, text) in [
        (&mut options.policy, &policy),
        (&mut options.scheduler, &scheduler),
        (&mut options.writer, &writer),
    ] {
        if !bytes.once_in(2) {
            *member = text.as_ptr();
        }
    }
    options.threads = bytes.below(4) as u32;
    options.pinned = bytes.below(2) as u32;
    options.backing = bytes.small(3);
    options.host_addresses = bytes.below(2) as u32;
    options.sections_per_block = if bytes.once_in(8) {
        bytes.any()
    } else {
        bytes.below(4)
    };
    options.memory_limit = MOST;
    if bytes.once_in(4) {
        options.progress = Some(progress);
        options.user = std::ptr::from_ref(&calls).cast_mut().cast();
    }
    // exactly as many bytes as it says, so that one more is nobody's
    let words = size.div_ceil(8).max(1);
    let mut memory = vec![0_u64; words];
    let bytes = words.min(size_of::<di_boot_options>() / 8) * 8;
    // SAFETY: both have as many bytes, and do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(
            std::ptr::from_ref(&options).cast::<u8>(),
            memory.as_mut_ptr().cast(),
            bytes,
        );
    }
    let status = with(memory.as_ptr().cast(), options.progress.is_some());
    assert!(
        is_size(size) || status != di_status::DI_OK,
        "options of {size} bytes"
    );
    status
}

impl Booted {
    pub(super) fn boot(
        bytes: &mut Bytes<'_>,
        layout: Option<&Layout>,
        profile: *const di_profile,
    ) -> Option<Self> {
        let handle = layout.map_or(null_mut(), |layout| layout.handle);
        let mut machine = null_mut();
        // what boots without a limit of ours is small
        let small =
            layout.is_some_and(|layout| layout.bytes.is_some_and(|most| most <= MOST_BY_DEFAULT));
        let status = if small && bytes.once_in(4) {
            // SAFETY: each is null or ours.
            unsafe { di_boot(handle, profile, std::ptr::null(), &mut machine) }
        } else {
            with_options(bytes, |options, watched| {
                // without its last members a structure sets no limit
                // SAFETY: it begins with its size.
                let size = unsafe { options.cast::<usize>().read() };
                if !small && size < std::mem::offset_of!(di_boot_options, progress) {
                    return di_status::DI_ARGUMENT;
                }
                // SAFETY: each is null or ours, the options have as many bytes as they say.
                let status = unsafe { di_boot(handle, profile, options, &mut machine) };
                assert!(watched || status != di_status::DI_CANCELLED);
                status
            })
        };
        let ok = status == di_status::DI_OK;
        assert_eq!(ok, !machine.is_null());
        assert!(status != di_status::DI_DEFECT, "{}", reason());
        let mut page = 0;
        if ok && !profile.is_null() {
            // SAFETY: both are ours.
            done(unsafe { di_profile_sizes(profile, &mut page, null_mut(), null_mut()) });
        }
        ok.then_some(Self {
            handle: machine,
            held: Vec::new(),
            devices: Vec::new(),
            page,
        })
    }

    /// One of a layout and a profile that there are, with options that mean something.
    pub(super) fn plain(bytes: &mut Bytes<'_>) -> Self {
        let layout = Layout::plain(bytes);
        let profile = layouts::plain_profile(bytes);
        let policy = CString::new(bytes.pick(&POLICIES[..4])).expect("no zero");
        let mut machine = null_mut();
        // SAFETY: a structure of pointers and numbers, for which zero is a value.
        let mut options: di_boot_options = unsafe { std::mem::zeroed() };
        options.size = size_of::<di_boot_options>();
        options.policy = policy.as_ptr();
        options.backing = bytes.below(3) as u32;
        options.sections_per_block = 1 << bytes.below(3);
        // SAFETY: all are ours.
        let booted = unsafe { di_boot(layout.handle, profile, &options, &mut machine) };
        must(booted, di_status::DI_OK);
        let mut page = 0;
        // SAFETY: both are ours.
        done(unsafe { di_profile_sizes(profile, &mut page, null_mut(), null_mut()) });
        // SAFETY: ours, and not used again.
        unsafe { di_profile_free(profile) };
        layout.free();
        Self {
            handle: machine,
            held: Vec::new(),
            devices: Vec::new(),
            page,
        }
    }

    /// One call, or a few that belong together.
    pub(super) fn call(&mut self, bytes: &mut Bytes<'_>, what: u64) {
        let Self { handle, .. } = *self;
        match what {
            6 => self.alloc(bytes),
            7 => self.free(bytes),
            8 => self.plug(bytes),
            9 => self.add_device(bytes),
            10 => self.remove_device(bytes),
            11 => pages(bytes, handle),
            12 => view(bytes, handle),
            13 => list(bytes, handle),
            14 => late(bytes, handle),
            _ => {
                self.check();
                let kind = bytes.small(5);
                let said = outputs::text(bytes, |buffer, len, needed| {
                    // SAFETY: ours; the buffer has as many bytes as it says.
                    unsafe { di_dump(handle, kind, buffer, len, needed) }
                });
                assert_eq!(said, kind < 4);
            }
        }
    }

    fn alloc(&mut self, bytes: &mut Bytes<'_>) {
        let (node, order) = (bytes.small(4), bytes.small(12));
        let zone = if bytes.once_in(2) {
            bytes.small(6)
        } else {
            DI_ANY_ZONE
        };
        let mobility = bytes.small(4);
        let mut pfn = DI_NO_PFN;
        // SAFETY: ours.
        let status = unsafe { di_alloc_pages(self.handle, node, order, zone, mobility, &mut pfn) };
        if !done(status) {
            assert_eq!(pfn, DI_NO_PFN, "a failure writes nothing");
            return;
        }
        let end = pfn + (1 << order);
        let taken = |&(start, order): &(u64, u32)| start < end && pfn < start + (1 << order);
        assert!(
            !self.held.iter().any(taken),
            "{pfn} of order {order} is in use"
        );
        // SAFETY: ours.
        assert!(unsafe { di_pfn_valid(self.handle, pfn) && di_pfn_valid(self.handle, end - 1) });
        self.held.push((pfn, order));
    }

    fn free(&mut self, bytes: &mut Bytes<'_>) {
        let which = bytes.below(256) as usize;
        if bytes.once_in(4) || self.held.is_empty() {
            // what nobody has
            let pfn = bytes.address(256, 64);
            let order = bytes.small(11);
            let held = self.held.iter().any(|&(start, _)| start == pfn);
            if !held {
                // SAFETY: ours.
                let freed = done(unsafe { di_free_pages(self.handle, pfn, order) });
                assert!(!freed, "{pfn} of order {order} was freed, which nobody had");
            }
            return;
        }
        let (pfn, order) = self.held.swap_remove(which % self.held.len());
        // SAFETY: ours.
        let status = unsafe { di_free_pages(self.handle, pfn, order) };
        must(status, di_status::DI_OK);
        // SAFETY: ours.
        let again = done(unsafe { di_free_pages(self.handle, pfn, order) });
        assert!(!again, "{pfn} of order {order} was freed twice");
    }

    /// Memory comes and goes.
    fn plug(&mut self, bytes: &mut Bytes<'_>) {
        let (start, length) = (bytes.address(UNITS, UNIT), bytes.address(17, UNIT));
        let (node, to) = (bytes.small(4), bytes.small(4));
        let handle = self.handle;
        let (goes, status) = match bytes.below(4) {
            // SAFETY: ours.
            0 => (false, unsafe { di_memory_add(handle, node, start, length) }),
            // SAFETY: ours.
            1 => (false, unsafe {
                di_memory_online(handle, start, length, to)
            }),
            // SAFETY: ours.
            2 => (true, unsafe { di_memory_offline(handle, start, length) }),
            // SAFETY: ours, and no pointer to its struct pages is kept.
            _ => (true, unsafe { di_memory_remove(handle, start, length) }),
        };
        if done(status) && goes && self.page > 0 {
            let frames = start / self.page..start.saturating_add(length) / self.page;
            let lost = self.held.iter().find(|(pfn, _)| frames.contains(pfn));
            assert!(lost.is_none(), "{lost:?} went with its memory");
        }
    }

    fn add_device(&mut self, bytes: &mut Bytes<'_>) {
        let device = di_device {
            size: size_of::<di_device>(),
            node: bytes.small(4),
            memory_type: bytes.small(7),
            start: bytes.address(2 * UNITS, UNIT),
            bytes: bytes.address(20, UNIT / 8),
            vmemmap_shift: bytes.small(11),
            map_on_device: bytes.below(2) as u32,
            pagemap: bytes.any(),
        };
        // A device's struct pages count against no limit.
        if device.bytes > 20 * UNIT {
            return;
        }
        let mut id = u64::MAX;
        // SAFETY: ours.
        let status = unsafe { di_device_add(self.handle, &device, &mut id) };
        if done(status) {
            assert!(!self.devices.contains(&id), "device {id} is there twice");
            self.devices.push(id);
        } else {
            assert_eq!(id, u64::MAX, "a failure writes nothing");
        }
        // SAFETY: null is refused.
        let nothing = unsafe { di_device_add(self.handle, std::ptr::null(), &mut id) };
        must(nothing, di_status::DI_NULL);
    }

    fn remove_device(&mut self, bytes: &mut Bytes<'_>) {
        let which = bytes.below(256) as usize;
        let known = self.devices.len();
        let id = match known {
            0 => bytes.any(),
            count => self.devices.swap_remove(which % count),
        };
        // SAFETY: ours, and no pointer to its struct pages is kept.
        let first = unsafe { di_device_remove(self.handle, id) };
        // SAFETY: as above.
        let second = unsafe { di_device_remove(self.handle, id) };
        if known > 0 {
            must(first, di_status::DI_OK);
        }
        must(second, di_status::DI_NOT_FOUND);
    }

    fn check(&self) {
        let mut wrong = u64::MAX;
        // SAFETY: ours.
        must(
            unsafe { di_check(self.handle, &mut wrong) },
            di_status::DI_OK,
        );
        assert_eq!(wrong, 0);
        let (mut one, mut other) = (0, 1);
        // SAFETY: ours.
        must(
            unsafe { di_digest(self.handle, &mut one) },
            di_status::DI_OK,
        );
        // SAFETY: ours.
        must(
            unsafe { di_digest(self.handle, &mut other) },
            di_status::DI_OK,
        );
        assert_eq!(one, other, "nothing happened in between");
    }

    /// Finishes it, checks it, gives back what is held, and frees it.
    pub(super) fn end(mut self) {
        // SAFETY: ours; null stands for the defaults.
        must(
            unsafe { di_finish(self.handle, std::ptr::null()) },
            di_status::DI_OK,
        );
        let mut left = u64::MAX;
        // SAFETY: ours.
        must(
            unsafe { di_deferred_pages(self.handle, &mut left) },
            di_status::DI_OK,
        );
        assert_eq!(left, 0);
        for (pfn, order) in std::mem::take(&mut self.held) {
            // SAFETY: ours.
            must(
                unsafe { di_free_pages(self.handle, pfn, order) },
                di_status::DI_OK,
            );
        }
        self.check();
        // SAFETY: ours, and not used again.
        unsafe { di_machine_free(self.handle) };
    }
}

/// Struct pages of any frame.
fn pages(bytes: &mut Bytes<'_>, machine: *mut di_machine) {
    let pfn = bytes.address(256, 1024);
    // SAFETY: ours.
    let (valid, next, page) = unsafe {
        (
            di_pfn_valid(machine, pfn),
            di_next_valid_pfn(machine, pfn),
            di_pfn_to_page(machine, pfn),
        )
    };
    assert_eq!(valid, next == pfn && pfn != DI_NO_PFN, "{pfn}, then {next}");
    // SAFETY: ours.
    assert!(next == DI_NO_PFN || (next >= pfn && unsafe { di_pfn_valid(machine, next) }));
    assert!(!valid || !page.is_null());
    if !page.is_null() {
        // SAFETY: ours.
        assert_eq!(unsafe { di_page_to_pfn(machine, page) }, pfn);
    }
    let nowhere = std::ptr::without_provenance(bytes.any() as usize);
    // SAFETY: ours; the address is not followed.
    let _ = unsafe { di_page_to_pfn(machine, nowhere) };
    let mut words = vec![0_u64; bytes.below(20) as usize];
    let mut needed = 0;
    // SAFETY: ours; as many words as it says.
    let status =
        unsafe { di_page_words(machine, pfn, words.as_mut_ptr(), words.len(), &mut needed) };
    let read = done(status);
    assert!(!read || (1..=16).contains(&needed));
    // SAFETY: ours; null is refused.
    let nothing = unsafe { di_page_words(machine, pfn, null_mut(), 1, null_mut()) };
    must(nothing, if read { di_status::DI_NULL } else { status });
    let said = outputs::text(bytes, |buffer, len, needed| {
        // SAFETY: ours; the buffer has as many bytes as it says.
        unsafe { di_page_text(machine, pfn, buffer, len, needed) }
    });
    assert_eq!(said, read);
}

/// The fast path says what the calls say.
fn view(bytes: &mut Bytes<'_>, machine: *mut di_machine) {
    let size = outputs::size::<di_view>(bytes);
    // SAFETY: ours; the structure has as many bytes as it says.
    let words = outputs::structure::<di_view>(size, |view| unsafe { di_view_get(machine, view) });
    assert_eq!(words.is_some(), is_size(size));
    if size < size_of::<di_view>() {
        return;
    }
    let Some(words) = words else { return };
    // SAFETY: it was filled, and is as large.
    let view = unsafe { words.as_ptr().cast::<di_view>().read() };
    let pages = view.end_pfn - view.first_pfn;
    if pages > 0 {
        let pfn = view.first_pfn + bytes.any() % pages;
        let address = view
            .mem_map
            .wrapping_add((pfn * view.struct_page_bytes) as usize);
        // SAFETY: ours.
        let page = unsafe { di_pfn_to_page(machine, pfn) };
        // SAFETY: ours.
        assert!(page.addr() == address || !unsafe { di_pfn_valid(machine, pfn) });
    }
}

/// Nodes and zones, by index.
fn list(bytes: &mut Bytes<'_>, machine: *mut di_machine) {
    let (mut nodes, mut zones) = (0, 0);
    // SAFETY: ours.
    must(
        unsafe { di_node_count(machine, &mut nodes) },
        di_status::DI_OK,
    );
    // SAFETY: ours.
    must(
        unsafe { di_zone_count(machine, &mut zones) },
        di_status::DI_OK,
    );
    assert!(nodes > 0 && zones > 0);
    let index = bytes.small(24);
    let size = outputs::size::<di_node>(bytes);
    // SAFETY: ours; the structure has as many bytes as it says.
    let node =
        outputs::structure::<di_node>(size, |node| unsafe { di_node_get(machine, index, node) });
    assert_eq!(node.is_some(), index < nodes && is_size(size));
    let size = outputs::size::<di_zone>(bytes);
    // SAFETY: as above.
    let zone =
        outputs::structure::<di_zone>(size, |zone| unsafe { di_zone_get(machine, index, zone) });
    assert_eq!(zone.is_some(), index < zones && is_size(size));
}

/// What was deferred is written, some of it or all.
fn late(bytes: &mut Bytes<'_>, machine: *mut di_machine) {
    let (mut before, mut after, mut brought) = (0, 0, 0);
    // SAFETY: ours.
    must(
        unsafe { di_deferred_pages(machine, &mut before) },
        di_status::DI_OK,
    );
    if bytes.once_in(4) {
        done(with_options(bytes, |options, watched| {
            // SAFETY: ours; the options have as many bytes as they say.
            let status = unsafe { di_finish(machine, options) };
            assert!(watched || status != di_status::DI_CANCELLED);
            status
        }));
    } else {
        // SAFETY: ours.
        done(unsafe { di_grow(machine, bytes.small(4), bytes.small(12), &mut brought) });
    }
    // SAFETY: ours.
    must(
        unsafe { di_deferred_pages(machine, &mut after) },
        di_status::DI_OK,
    );
    assert!(after <= before, "{before} pages were left, then {after}");
}

/// Every question to null is refused.
pub(super) fn nothing(bytes: &mut Bytes<'_>, what: u64) {
    let machine = null_mut();
    let (any, other) = (bytes.any(), bytes.any());
    let (number, order) = (bytes.small(4), bytes.small(12));
    let mut out = 0_u64;
    let mut count = 0_u32;
    // SAFETY: null is refused, and all else is this function's own.
    let status = unsafe {
        match what {
            6 => di_alloc_pages(machine, number, order, number, number, &mut out),
            7 => di_free_pages(machine, any, order),
            8 => di_memory_add(machine, number, any, other),
            9 => di_device_add(machine, std::ptr::null(), &mut out),
            10 => di_device_remove(machine, any),
            11 => {
                assert!(!di_pfn_valid(machine, any));
                assert_eq!(di_next_valid_pfn(machine, any), DI_NO_PFN);
                assert!(di_pfn_to_page(machine, any).is_null());
                assert_eq!(di_page_to_pfn(machine, std::ptr::null()), DI_NO_PFN);
                di_page_words(machine, any, &mut out, 1, null_mut())
            }
            12 => di_view_get(machine, null_mut()),
            13 => di_node_count(machine, &mut count),
            14 => di_grow(machine, number, order, &mut out),
            _ => di_check(machine, &mut out),
        }
    };
    must(status, di_status::DI_NULL);
    assert_eq!((out, count), (0, 0), "a failure writes nothing");
}
