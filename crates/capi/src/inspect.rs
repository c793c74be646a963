//! Nodes, zones, checks and dumps.

use std::ffi::c_char;

use memblock::Pfn;
use memmap_core::{Node, SectionState};

use crate::machine_handle::{State, di_machine};
use crate::pointer::{copy_text, fill, put, shared};
use crate::status::{Failure, di_status, guard};

/// A node.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct di_node {
    /// Bytes of this structure; set it before the call.
    pub size: usize,
    /// Its number.
    pub node: u32,
    /// Not 0: it is online.
    pub online: u32,
    /// Its first frame.
    pub start_pfn: u64,
    /// Pages from its first to its last.
    pub spanned_pages: u64,
    /// Pages that are there.
    pub present_pages: u64,
    /// The first frame that was initialised late at boot, or `DI_NO_PFN`.
    pub first_deferred_pfn: u64,
}

/// A zone of a node.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct di_zone {
    /// Bytes of this structure; set it before the call.
    pub size: usize,
    /// Its node.
    pub node: u32,
    /// Its number, as in a flags word.
    pub index: u32,
    /// Its name, as `Normal`, with a zero byte.
    pub name: [c_char; 16],
    /// Its first frame; 0 where it spans none.
    pub start_pfn: u64,
    /// Pages from its first to its last.
    pub spanned_pages: u64,
    /// Pages that are there.
    pub present_pages: u64,
    /// Pages under the allocator's care.
    pub managed_pages: u64,
    /// Free pages.
    pub free_pages: u64,
}

/// What `di_dump` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum di_dump_kind {
    /// The lines that the kernel prints of its zones when it boots.
    DI_DUMP_BOOT = 0,
    /// As `/proc/buddyinfo`.
    DI_DUMP_BUDDYINFO = 1,
    /// As `/proc/pagetypeinfo`.
    DI_DUMP_PAGETYPEINFO = 2,
    /// As `/proc/zoneinfo`, what memory alone decides.
    DI_DUMP_ZONEINFO = 3,
}

fn missing(what: &str, index: u32) -> Failure {
    Failure::new(
        di_status::DI_NOT_FOUND,
        format!("there is no {what} {index}"),
    )
}

/// How many nodes there are, online or not.
///
/// # Safety
/// `machine` is null or from this library, `count` null or valid for a write. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_node_count(machine: *const di_machine, count: *mut u32) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.look()?;
        let nodes = state.plug.map().geometry().nodes().len() as u32;
        // SAFETY: the caller's word.
        unsafe { put(count, nodes, "count") }
    })
}

/// The node at `index`, ascending by number from 0. Set `node->size` first.
///
/// # Safety
/// `machine` is null or from this library, `node` null or a structure. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_node_get(
    machine: *const di_machine,
    index: u32,
    node: *mut di_node,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.look()?;
        let nodes = state.plug.map().geometry().nodes();
        let found: &Node = nodes
            .get(index as usize)
            .ok_or_else(|| missing("node at", index))?;
        let filled = di_node {
            size: 0,
            node: u32::from(found.id.get()),
            online: found.online.into(),
            start_pfn: found.span.start().get(),
            spanned_pages: found.spanned,
            present_pages: found.present,
            first_deferred_pfn: found.first_deferred.map_or(u64::MAX, Pfn::get),
        };
        // SAFETY: the caller's word.
        unsafe { fill(node, filled, "node") }
    })
}

/// How many zones there are, all nodes together, empty ones too.
///
/// # Safety
/// `machine` is null or from this library, `count` null or valid for a write. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_zone_count(machine: *const di_machine, count: *mut u32) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.look()?;
        let nodes = state.plug.map().geometry().nodes().iter();
        let zones = nodes.map(|node| node.zones.len()).sum::<usize>() as u32;
        // SAFETY: the caller's word.
        unsafe { put(count, zones, "count") }
    })
}

/// The zone at `index`, by node and number from 0. Set `zone->size` first.
///
/// # Safety
/// `machine` is null or from this library, `zone` null or a structure. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_zone_get(
    machine: *const di_machine,
    index: u32,
    zone: *mut di_zone,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.look()?;
        let nodes = state.plug.map().geometry().nodes().iter();
        let (node, found) = nodes
            .flat_map(|node| node.zones.iter().map(move |zone| (node.id, zone)))
            .nth(index as usize)
            .ok_or_else(|| missing("zone at", index))?;
        let counts = state.plug.allocator().zone_counts(node, found.index);
        let mut name = [0; 16];
        for (to, from) in name.iter_mut().zip(found.kind.name().bytes().take(15)) {
            *to = from as c_char;
        }
        let filled = di_zone {
            size: 0,
            node: u32::from(node.get()),
            index: u32::from(found.index.0),
            name,
            start_pfn: found.start.get(),
            spanned_pages: found.spanned,
            present_pages: found.present,
            managed_pages: counts.managed,
            free_pages: counts.free,
        };
        // SAFETY: the caller's word.
        unsafe { fill(zone, filled, "zone") }
    })
}

/// Pages of boot-time memory whose struct pages are still to be initialised.
///
/// # Safety
/// `machine` is null or from this library, `pages` null or valid for a write. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_deferred_pages(
    machine: *const di_machine,
    pages: *mut u64,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.look()?;
        let map = state.plug.map();
        let sections = map.geometry().sections();
        let pending = sections
            .iter()
            .filter(|section| map.section_state(*section) != SectionState::Ready);
        let count = pending.count() as u64 * sections.pages_per_section();
        // SAFETY: the caller's word.
        unsafe { put(pages, count, "pages") }
    })
}

/// Checks every struct page and every free list. `violations`, unless null, gets how many things
/// are wrong: 0 for a machine that is whole, whose deferred memory does not count. The first ones
/// are in `di_last_error` then, and the status is `DI_DEFECT`.
///
/// # Safety
/// `machine` is null or from this library, `violations` null or valid for a write. Threads: any;
/// waits for calls under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_check(machine: *const di_machine, violations: *mut u64) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.change()?;
        let lists = state.plug.allocator().check();
        let count = lists.len() as u64;
        if !violations.is_null() {
            // SAFETY: it is not null, so it is valid.
            unsafe { violations.write(count) };
        }
        if count == 0 {
            return Ok(());
        }
        let first: Vec<String> = lists.iter().take(10).map(ToString::to_string).collect();
        Err(Failure::new(di_status::DI_DEFECT, first.join("; ")))
    })
}

/// A number that tells two machines apart: of every word of every initialised struct page, in the
/// order of frames. Equal machines whose struct pages hold a kernel's addresses have equal numbers,
/// in any run.
///
/// # Safety
/// `machine` is null or from this library, `digest` null or valid for a write. Threads: any; waits
/// for calls under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_digest(machine: *const di_machine, digest: *mut u64) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let mut state = unsafe { shared(machine, "machine") }?.change()?;
        let value = digest_of(&mut state);
        // SAFETY: the caller's word.
        unsafe { put(digest, value, "digest") }
    })
}

/// FNV-1a, a word at a time.
fn digest_of(state: &mut State) -> u64 {
    const START: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    state.plug.change_map(|map| {
        let boot = map.geometry().sections().iter();
        let mut sections: Vec<_> = boot.chain(map.added_sections()).collect();
        sections.sort_unstable();
        let mut value = START;
        for section in sections {
            let words = map.section_words(section).unwrap_or_default();
            for &word in [section.0].iter().chain(words) {
                value = (value ^ word).wrapping_mul(PRIME);
            }
        }
        value
    })
}

/// Prints a machine as a kernel does; `kind` is a `di_dump_kind`. `needed` and a null buffer as for
/// `di_flags_text`.
///
/// # Safety
/// `machine` is null or from this library, `buffer` null or valid for `len` bytes, `needed` null or
/// valid for a write. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_dump(
    machine: *const di_machine,
    kind: u32,
    buffer: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let state = unsafe { shared(machine, "machine") }?.look()?;
        let geometry = state.plug.map().geometry();
        let text = match kind {
            0 => geometry
                .boot_lines()
                .iter()
                .map(|line| format!("{line}\n"))
                .collect(),
            1 => state.plug.allocator().buddyinfo(),
            2 => state.plug.allocator().pagetypeinfo(),
            3 => geometry.zoneinfo().to_string(),
            _ => {
                let message = format!("kind {kind} is none of 0 to 3");
                return Err(Failure::new(di_status::DI_ARGUMENT, message));
            }
        };
        // SAFETY: the caller's word.
        unsafe { copy_text(&text, buffer, len, needed) }
    })
}
