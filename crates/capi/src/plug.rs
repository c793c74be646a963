//! Memory and devices that come and go.

use memblock::PfnRange;
use memmap_core::HotplugError;
use memmap_core::hotplug::{BlockError, OnlineTo};
use zone_device::{Altmap, BindError, DevPagemap, DeviceId, MemoryType, Way};

use crate::layout::{node, range};
use crate::machine_handle::{State, di_machine};
use crate::pointer::{put, shared, sized};
use crate::status::{Failure, di_status, guard};

/// A device. Zero everything but `size`, `node`, `start` and `bytes` for a plain one.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct di_device {
    /// Bytes of this structure.
    pub size: usize,
    /// The node that its pages name.
    pub node: u32,
    /// What its memory is: 1 private, 2 coherent, 3 or 0 persistent under a file system, 4 handed
    /// out as a character device, 5 a window of a PCI device.
    pub memory_type: u32,
    /// Its first address.
    pub start: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Log2 of the pages of a compound; 0 for single pages.
    pub vmemmap_shift: u32,
    /// Not 0: its struct pages lie in its own memory, as those of a namespace with its map on the
    /// device.
    pub map_on_device: u32,
    /// Where the kernel has its description: what its struct pages hold.
    pub pagemap: u64,
}

fn refused(error: BlockError) -> Failure {
    let status = match error {
        BlockError::Absent(_) => di_status::DI_NOT_FOUND,
        BlockError::Busy { .. } | BlockError::Online(_) | BlockError::Boot(_) => di_status::DI_BUSY,
        BlockError::Section(HotplugError::AlreadyThere { .. }) => di_status::DI_CONFLICT,
        _ => di_status::DI_ARGUMENT,
    };
    Failure::because(status, error)
}

/// The frames of whole memory blocks.
fn frames(state: &State, start: u64, bytes: u64) -> Result<PfnRange, Failure> {
    let range = range(start, bytes)?;
    let profile = state.plug.map().profile();
    let frames = range.pfns_inner(profile.page_shift);
    if frames.phys(profile.page_shift) != range {
        let message = format!("{range} is not in whole pages");
        return Err(Failure::new(di_status::DI_ARGUMENT, message));
    }
    Ok(frames)
}

/// Adds memory to a node, in whole memory blocks, all of it offline.
///
/// # Safety
/// `machine` is null or from this library. Threads: any; waits for calls under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_memory_add(
    machine: *const di_machine,
    node_number: u32,
    start: u64,
    bytes: u64,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let mut state = unsafe { shared(machine, "machine") }?.change()?;
        let pfns = frames(&state, start, bytes)?;
        let id = node(node_number)?;
        state.plug.add(id, pfns).map_err(refused)
    })
}

/// Puts memory that was added to use, block by block: `to` is 0 for the zone that it touches, 1 for
/// one that the kernel itself may use, 2 for zone Movable. Blocks before one that is refused stay
/// online.
///
/// # Safety
/// `machine` is null or from this library. Threads: any; waits for calls under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_memory_online(
    machine: *const di_machine,
    start: u64,
    bytes: u64,
    to: u32,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let mut state = unsafe { shared(machine, "machine") }?.change()?;
        let to = match to {
            0 => OnlineTo::Auto,
            1 => OnlineTo::Kernel,
            2 => OnlineTo::Movable,
            _ => {
                let message = format!("to {to} is none of 0, 1 and 2");
                return Err(Failure::new(di_status::DI_ARGUMENT, message));
            }
        };
        for number in blocks(&state, start, bytes)? {
            state.plug.online(number, to).map_err(refused)?;
        }
        Ok(())
    })
}

/// Takes memory out of use, block by block; all its pages must be free. Blocks before one that is
/// refused stay offline.
///
/// # Safety
/// `machine` is null or from this library. Threads: any; waits for calls under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_memory_offline(
    machine: *const di_machine,
    start: u64,
    bytes: u64,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let mut state = unsafe { shared(machine, "machine") }?.change()?;
        for number in blocks(&state, start, bytes)? {
            state.plug.offline(number).map_err(refused)?;
        }
        Ok(())
    })
}

/// Removes offline memory that was added.
///
/// # Safety
/// `machine` is null or from this library; pointers to struct pages of that memory are not used
/// again. Threads: any; waits for calls under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_memory_remove(
    machine: *const di_machine,
    start: u64,
    bytes: u64,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let mut state = unsafe { shared(machine, "machine") }?.change()?;
        let pfns = frames(&state, start, bytes)?;
        state.plug.remove(pfns).map_err(refused)
    })
}

/// The numbers of the memory blocks that are exactly the given bytes.
fn blocks(state: &State, start: u64, bytes: u64) -> Result<std::ops::Range<u64>, Failure> {
    let pfns = frames(state, start, bytes)?;
    let pages = state.plug.block_pages();
    if !pfns.start().is_aligned(pages) || !pfns.end().is_aligned(pages) {
        let error = BlockError::Misaligned { pfns, pages };
        return Err(Failure::because(di_status::DI_ARGUMENT, error));
    }
    Ok(pfns.start().get() / pages..pfns.end().get() / pages)
}

/// Binds a device: its struct pages are added and written. `id`, unless null, gets its number,
/// for `di_device_remove`.
///
/// # Safety
/// `machine` is null or from this library, `device` null or a structure, `id` null or valid for a
/// write. Threads: any; waits for calls under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_device_add(
    machine: *const di_machine,
    device: *const di_device,
    id: *mut u64,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let mut state = unsafe { shared(machine, "machine") }?.change()?;
        if device.is_null() {
            return Err(Failure::new(di_status::DI_NULL, "device is null"));
        }
        // SAFETY: the caller's word.
        let device = unsafe { sized(device, PLAIN) }?;
        let pagemap = description(&state, &device)?;
        let on = node(device.node)?;
        let State { plug, devices } = &mut *state;
        let bound = plug
            .change_map(|map| devices.bind(map, pagemap, on, Way::Stream.writer(), None))
            .map_err(|error| {
                let status = match error {
                    BindError::OverMemory { .. } | BindError::OverDevice { .. } => {
                        di_status::DI_CONFLICT
                    }
                    _ => di_status::DI_ARGUMENT,
                };
                Failure::because(status, error)
            })?;
        if !id.is_null() {
            // SAFETY: it is not null, so it is valid.
            unsafe { put(id, bound.number(), "id") }?;
        }
        Ok(())
    })
}

const PLAIN: di_device = di_device {
    size: size_of::<di_device>(),
    node: 0,
    memory_type: 0,
    start: 0,
    bytes: 0,
    vmemmap_shift: 0,
    map_on_device: 0,
    pagemap: 0,
};

fn description(state: &State, device: &di_device) -> Result<DevPagemap, Failure> {
    let memory_type = match device.memory_type {
        0 => MemoryType::FsDax,
        number => *MemoryType::ALL
            .iter()
            .find(|known| **known as u32 == number)
            .ok_or_else(|| {
                let message = format!("memory type {number} is none of 1 to 5");
                Failure::new(di_status::DI_ARGUMENT, message)
            })?,
    };
    let range = range(device.start, device.bytes)?;
    let pagemap = DevPagemap::new(memory_type, device.pagemap)
        .with_range(range)
        .with_vmemmap_shift(device.vmemmap_shift);
    if device.map_on_device == 0 {
        return Ok(pagemap);
    }
    let profile = state.plug.map().profile();
    let pfns = range.pfns_inner(profile.page_shift);
    let altmap = Altmap::of_namespace(pfns, profile);
    // the device's own pages begin where a compound may begin
    let compound = 1_u64.checked_shl(device.vmemmap_shift).unwrap_or(1);
    let offset = altmap.offset().next_multiple_of(compound);
    let free = offset - altmap.reserve();
    Ok(pagemap.with_altmap(Altmap::new(pfns.start(), altmap.reserve(), free)))
}

/// Unbinds a device: its struct pages go.
///
/// # Safety
/// `machine` is null or from this library; pointers to struct pages of that device are not used
/// again. Threads: any; waits for calls under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_device_remove(machine: *const di_machine, id: u64) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let mut state = unsafe { shared(machine, "machine") }?.change()?;
        let State { plug, devices } = &mut *state;
        let gone = plug
            .change_map(|map| devices.unbind(map, DeviceId::from_number(id)))
            .map_err(Failure::of(di_status::DI_ARGUMENT))?;
        let unknown = || Failure::new(di_status::DI_NOT_FOUND, format!("there is no device {id}"));
        gone.map(|_| ()).ok_or_else(unknown)
    })
}
