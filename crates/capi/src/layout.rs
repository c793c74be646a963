//! The memory of a machine: put together by hand, or read from what a machine says of itself.

use std::ffi::c_char;
use std::path::Path;

use machine::{MachineLayout, MemoryRange, synthetic};
use memblock::{NodeId, PhysAddr, PhysRange};

use crate::pointer::{exclusive, put, text};
use crate::status::{Failure, di_status, guard};

/// The memory of a machine before it boots.
#[derive(Debug, Default)]
pub struct di_layout {
    read: Option<MachineLayout>,
    claims: Vec<(NodeId, PhysRange)>,
    reserved: Vec<PhysRange>,
    command_line: Option<String>,
}

impl di_layout {
    /// The whole of it.
    pub(crate) fn finished(&self) -> Result<MachineLayout, Failure> {
        let mut layout = match &self.read {
            Some(layout) => layout.clone(),
            None => synthetic::explicit(&self.claims).map_err(Failure::of(di_status::DI_LAYOUT))?,
        };
        layout
            .reserved
            .extend(self.reserved.iter().map(|&range| MemoryRange {
                range,
                node: None,
                flags: 0,
                line: 0,
            }));
        layout.reserved.sort_by_key(|memory| memory.range.start());
        if let Some(line) = &self.command_line {
            layout.command_line = Some(line.clone());
        }
        Ok(layout)
    }
}

fn read(path: &str) -> Result<MachineLayout, Failure> {
    let file = Path::new(path);
    if file.is_dir() {
        return MachineLayout::from_dir(file).map_err(Failure::of(di_status::DI_FILE));
    }
    if file
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::new(di_status::DI_FILE, format!("{path}: {error}")))?;
        return MachineLayout::from_toml(path, &text).map_err(Failure::of(di_status::DI_FILE));
    }
    MachineLayout::open(file).map_err(Failure::of(di_status::DI_FILE))
}

pub(crate) fn range(start: u64, bytes: u64) -> Result<PhysRange, Failure> {
    let range = PhysRange::from_size(PhysAddr::new(start), bytes);
    if bytes == 0 || start.checked_add(bytes).is_none() {
        let message = format!("{bytes:#x} bytes from {start:#x} are no range of addresses");
        return Err(Failure::new(di_status::DI_ARGUMENT, message));
    }
    Ok(range)
}

pub(crate) fn node(number: u32) -> Result<NodeId, Failure> {
    let refuse = |_| Failure::new(di_status::DI_ARGUMENT, format!("there is no node {number}"));
    u16::try_from(number).map(NodeId::new).map_err(refuse)
}

/// A layout without memory, to be put together by `di_layout_add_memory`; free it by
/// `di_layout_free`.
///
/// # Safety
/// `layout` is null or valid for a write. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_layout_new(layout: *mut *mut di_layout) -> di_status {
    guard(|| {
        let new = Box::into_raw(Box::new(di_layout::default()));
        // SAFETY: the caller's word.
        unsafe { put(layout, new, "layout") }.inspect_err(|_| {
            // SAFETY: nobody has it.
            drop(unsafe { Box::from_raw(new) });
        })
    })
}

/// Reads a layout from a file: a boot log, a folder of files from `/proc` and `/sys`, or the TOML
/// form of this project. Free it by `di_layout_free`.
///
/// # Safety
/// `path` is null or a text, `layout` null or valid for a write. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_layout_open(
    path: *const c_char,
    layout: *mut *mut di_layout,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let path = unsafe { text(path, "path") }?;
        let read = read(path)?;
        let new = Box::into_raw(Box::new(di_layout {
            read: Some(read),
            ..di_layout::default()
        }));
        // SAFETY: the caller's word.
        unsafe { put(layout, new, "layout") }.inspect_err(|_| {
            // SAFETY: nobody has it.
            drop(unsafe { Box::from_raw(new) });
        })
    })
}

/// Adds `bytes` bytes of memory from `start` on to node `node`. Not for a layout that was read.
///
/// # Safety
/// `layout` is null or from this library, and used by nobody else meanwhile. Threads: one at a
/// time for each layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_layout_add_memory(
    layout: *mut di_layout,
    node_number: u32,
    start: u64,
    bytes: u64,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let layout = unsafe { exclusive(layout, "layout") }?;
        if layout.read.is_some() {
            let message = "memory cannot be added to a layout that was read";
            return Err(Failure::new(di_status::DI_ARGUMENT, message));
        }
        layout
            .claims
            .push((node(node_number)?, range(start, bytes)?));
        Ok(())
    })
}

/// Reserves `bytes` bytes from `start` on, as the kernel's own image is.
///
/// # Safety
/// `layout` is null or from this library, and used by nobody else meanwhile. Threads: one at a
/// time for each layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_layout_reserve(
    layout: *mut di_layout,
    start: u64,
    bytes: u64,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let layout = unsafe { exclusive(layout, "layout") }?;
        layout.reserved.push(range(start, bytes)?);
        Ok(())
    })
}

/// Sets the kernel's command line, of which `kernelcore=`, `movablecore=` and `movable_node` count.
///
/// # Safety
/// `layout` is null or from this library, and used by nobody else meanwhile; `line` is null or a
/// text. Threads: one at a time for each layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_layout_command_line(
    layout: *mut di_layout,
    line: *const c_char,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let layout = unsafe { exclusive(layout, "layout") }?;
        // SAFETY: the caller's word.
        let line = unsafe { text(line, "line") }?;
        layout.command_line = Some(line.into());
        Ok(())
    })
}

/// Frees a layout; nothing happens for null.
///
/// # Safety
/// `layout` is null or from this library, and is not used again. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_layout_free(layout: *mut di_layout) {
    if !layout.is_null() {
        // SAFETY: it is one of ours, and the caller's last.
        drop(unsafe { Box::from_raw(layout) });
    }
}
