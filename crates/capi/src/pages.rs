//! Frames, struct pages, and blocks of pages.

use std::ffi::c_char;

use memblock::Pfn;
use memmap_core::buddy::{AllocError, FreeError, MigrateType, Request};
use memmap_core::{MAX_WORDS, ReadError, ZoneIndex};

use crate::layout::node;
use crate::machine_handle::di_machine;
use crate::pointer::{copy_text, fill, put, shared};
use crate::status::{Failure, di_status, guard};

/// The frame that there is not.
pub const DI_NO_PFN: u64 = u64::MAX;
/// Any zone but that of devices, for `di_alloc_pages`.
pub const DI_ANY_ZONE: u32 = u32::MAX;

/// Where the struct pages of boot-time memory lie and how their flags words are made up, for the
/// functions `di_view_...` of the header, which compilers make part of their caller. It is good for
/// as long as the machine.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct di_view {
    /// Bytes of this structure; set it before the call.
    pub size: usize,
    /// Where the struct page of frame 0 would lie.
    pub mem_map: usize,
    /// Bytes of a struct page.
    pub struct_page_bytes: u64,
    /// The first frame with a struct page.
    pub first_pfn: u64,
    /// One past the last one. There may be holes in between, whose struct pages must not be read:
    /// see `di_next_valid_pfn`. As `first_pfn` where the view has no frames.
    pub end_pfn: u64,
    /// Where a flags word has the node: so far it is shifted down, and then masked.
    pub node_shift: u32,
    /// Where it has the zone.
    pub zone_shift: u32,
    /// Where it has the section.
    pub section_shift: u32,
    /// Where it has the CPU and process that touched the page last.
    pub last_cpupid_shift: u32,
    /// Where it has the memory tag, as a word so that there is no gap.
    pub kasan_tag_shift: u64,
    /// The node's bits, once shifted down.
    pub node_mask: u64,
    /// The zone's bits.
    pub zone_mask: u64,
    /// The section's bits; 0 where the kernel does not keep it there, as of all that follow.
    pub section_mask: u64,
    /// The bits of CPU and process.
    pub last_cpupid_mask: u64,
    /// The memory tag's bits.
    pub kasan_tag_mask: u64,
    /// Bits that are page flags, in place.
    pub flags_mask: u64,
}

/// Whether a frame has a struct page. Null has none.
///
/// # Safety
/// `machine` is null or from this library. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_pfn_valid(machine: *const di_machine, pfn: u64) -> bool {
    let mut valid = false;
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.look()?;
        valid = state.plug.map().pfn_valid(Pfn::new(pfn));
        Ok(())
    });
    valid
}

/// The first frame at or above `pfn` that has a struct page, or `DI_NO_PFN`.
///
/// # Safety
/// `machine` is null or from this library. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_next_valid_pfn(machine: *const di_machine, pfn: u64) -> u64 {
    let mut next = DI_NO_PFN;
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.look()?;
        let found = state.plug.map().next_valid_pfn(Pfn::new(pfn));
        next = found.map_or(DI_NO_PFN, Pfn::get);
        Ok(())
    });
    next
}

/// The struct page of a frame in this process, or null where its section has none.
///
/// The pointer is good for the frames of its section alone, and until that section's memory is
/// removed or the machine freed. Other threads may write behind it: read words by atomic loads.
/// `di_view_pfn_to_page` of the header does the same inline for boot-time memory.
///
/// # Safety
/// `machine` is null or from this library. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_pfn_to_page(machine: *const di_machine, pfn: u64) -> *const u64 {
    // SAFETY: the caller's word.
    let Some(found) = (unsafe { machine.as_ref() }) else {
        return std::ptr::null();
    };
    match found.boot_pages.page(pfn) {
        Some(address) => std::ptr::with_exposed_provenance(address),
        None => added_page(found, pfn),
    }
}

/// The struct page of a frame that was not there at boot, that lies on the heap, or that nobody asked
/// for yet.
#[cold]
fn added_page(machine: &di_machine, pfn: u64) -> *const u64 {
    let mut page = std::ptr::null();
    guard(|| {
        let found = machine
            .ask(Pfn::new(pfn))?
            .plug
            .map()
            .host_page(Pfn::new(pfn));
        page = found.map_or(std::ptr::null(), |found| found.as_ptr().cast_const());
        Ok(())
    });
    page
}

/// The frame whose struct page holds the address `page`, or `DI_NO_PFN`. `di_view_page_to_pfn` of
/// the header does the same inline for boot-time memory.
///
/// # Safety
/// `machine` is null or from this library. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_page_to_pfn(machine: *const di_machine, page: *const u64) -> u64 {
    // SAFETY: the caller's word.
    let Some(found) = (unsafe { machine.as_ref() }) else {
        return DI_NO_PFN;
    };
    match found.boot_pages.pfn(page.addr()) {
        Some(pfn) => pfn,
        None => added_pfn(found, page.addr()),
    }
}

#[cold]
fn added_pfn(machine: &di_machine, address: usize) -> u64 {
    let mut pfn = DI_NO_PFN;
    guard(|| {
        let state = machine.look()?;
        let found = state.plug.map().host_page_to_pfn(address);
        pfn = found.map_or(DI_NO_PFN, Pfn::get);
        Ok(())
    });
    pfn
}

/// Fills a view, once per machine. Set `view->size` first. Where struct pages are not in one range
/// of addresses (the heap), or are written when they are asked for (the policy "lazy"), the view
/// has no frames, and only takes flags words apart: ask `di_pfn_to_page` and `di_page_to_pfn` then.
///
/// # Safety
/// `machine` is null or from this library, `view` null or a structure. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_view_get(machine: *const di_machine, view: *mut di_view) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let machine = unsafe { shared(machine, "machine") }?;
        let pages = &machine.boot_pages;
        let fields = &machine.fields;
        let filled = di_view {
            size: 0,
            mem_map: pages.base,
            struct_page_bytes: pages.bytes as u64,
            first_pfn: pages.runs.first().map_or(0, |first| first.0),
            end_pfn: pages.runs.last().map_or(0, |last| last.1),
            node_shift: fields.node.shift,
            zone_shift: fields.zone.shift,
            section_shift: fields.section.shift,
            last_cpupid_shift: fields.last_cpupid.shift,
            kasan_tag_shift: u64::from(fields.kasan_tag.shift),
            node_mask: fields.node.mask(),
            zone_mask: fields.zone.mask(),
            section_mask: fields.section.mask(),
            last_cpupid_mask: fields.last_cpupid.mask(),
            kasan_tag_mask: fields.kasan_tag.mask(),
            flags_mask: fields.flags,
        };
        // SAFETY: the caller's word.
        unsafe { fill(view, filled, "view") }
    })
}

fn unread(error: ReadError) -> Failure {
    Failure::because(di_status::DI_NO_PAGE, error)
}

/// Copies the words of an initialised struct page, each loaded at once: at most `words`, of which
/// `needed`, unless null, gets how many there are.
///
/// # Safety
/// `machine` is null or from this library, `page` valid for `words` words, `needed` null or valid
/// for a write. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_page_words(
    machine: *const di_machine,
    pfn: u64,
    page: *mut u64,
    words: usize,
    needed: *mut usize,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.ask(Pfn::new(pfn))?;
        let read = state.plug.map().read(Pfn::new(pfn)).map_err(unread)?;
        let found = read.words();
        debug_assert!(found.len() <= MAX_WORDS);
        if !needed.is_null() {
            // SAFETY: it is not null, so it is valid.
            unsafe { needed.write(found.len()) };
        }
        for (i, &word) in found.iter().take(words).enumerate() {
            // SAFETY: `i` is below `words`.
            unsafe { put(page.wrapping_add(i), word, "page") }?;
        }
        Ok(())
    })
}

/// An initialised struct page in words. `needed` and a null buffer as for `di_flags_text`.
///
/// # Safety
/// `machine` is null or from this library, `buffer` null or valid for `len` bytes, `needed` null or
/// valid for a write. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_page_text(
    machine: *const di_machine,
    pfn: u64,
    buffer: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.ask(Pfn::new(pfn))?;
        let map = state.plug.map();
        let page = map.read(Pfn::new(pfn)).map_err(unread)?;
        let own = map.pfn_to_page(Pfn::new(pfn)).unwrap_or_default();
        let text = page.display(map.profile(), own).to_string();
        // SAFETY: the caller's word.
        unsafe { copy_text(&text, buffer, len, needed) }
    })
}

/// Allocates `2^order` pages on a node, or where its list leads, in the zone of number `zone` or
/// below (`DI_ANY_ZONE`: any). `mobility` is 0 for unmovable pages, 1 for movable and 2 for
/// reclaimable ones. Deferred memory is initialised where free memory runs short.
///
/// # Safety
/// `machine` is null or from this library, `pfn` null or valid for a write. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_alloc_pages(
    machine: *const di_machine,
    node_number: u32,
    order: u32,
    zone: u32,
    mobility: u32,
    pfn: *mut u64,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.look()?;
        if pfn.is_null() {
            return Err(Failure::new(di_status::DI_NULL, "pfn is null"));
        }
        let wrong = |message: String| Failure::new(di_status::DI_ARGUMENT, message);
        let migrate = match mobility {
            0 => MigrateType::Unmovable,
            1 => MigrateType::Movable,
            2 => MigrateType::Reclaimable,
            _ => return Err(wrong(format!("mobility {mobility} is none of 0, 1 and 2"))),
        };
        let request = Request {
            order: u8::try_from(order).map_err(|_| wrong(format!("order {order}")))?,
            node: node(node_number)?,
            zone: ZoneIndex(u8::try_from(zone).unwrap_or(u8::MAX)),
            migrate,
        };
        let found = state.plug.allocator().alloc_pages(request);
        let found = found.map_err(|error| {
            let status = match error {
                AllocError::NoMemory { .. } => di_status::DI_NO_MEMORY,
                AllocError::Node(_) => di_status::DI_NOT_FOUND,
                _ => di_status::DI_ARGUMENT,
            };
            Failure::because(status, error)
        })?;
        // SAFETY: the caller's word.
        unsafe { put(pfn, found.get(), "pfn") }
    })
}

/// Frees `2^order` pages that were allocated as one block.
///
/// # Safety
/// `machine` is null or from this library. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_free_pages(
    machine: *const di_machine,
    pfn: u64,
    order: u32,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.look()?;
        let order = u8::try_from(order)
            .map_err(|_| Failure::new(di_status::DI_ARGUMENT, format!("order {order}")))?;
        let freed = state.plug.allocator().free_pages(Pfn::new(pfn), order);
        freed.map_err(|error| {
            let status = match error {
                FreeError::NoPage { .. } => di_status::DI_NO_PAGE,
                _ => di_status::DI_ARGUMENT,
            };
            Failure::because(status, error)
        })
    })
}
