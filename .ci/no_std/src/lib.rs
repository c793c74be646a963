//! A static library for a kernel: its own panic handler, its own allocator, no std.
//!
//! It calls far enough into all crates that nothing of them can be left out by the linker.

#![no_std]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, Pfn, PhysAddr, PhysRange};
use memmap_core::{
    BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile, writers,
};
use zone_device::{Altmap, DevPagemap, Devices, MemoryType, Way};

/// A heap that only grows.
struct Bump {
    heap: UnsafeCell<[u8; Self::SIZE]>,
    used: AtomicUsize,
}

impl Bump {
    const SIZE: usize = 16 << 20;
}

// SAFETY: every byte is handed out once.
unsafe impl Sync for Bump {}

// SAFETY: blocks are disjoint, aligned and inside the heap.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let base = self.heap.get().cast::<u8>();
        let mut start = 0;
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                let at = (base as usize).checked_add(used)?;
                start = at.checked_next_multiple_of(layout.align())? - base as usize;
                start
                    .checked_add(layout.size())
                    .filter(|end| *end <= Self::SIZE)
            });
        match taken {
            Ok(_) => base.wrapping_add(start),
            Err(_) => core::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static HEAP: Bump = Bump {
    heap: UnsafeCell::new([0; Bump::SIZE]),
    used: AtomicUsize::new(0),
};

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Builds the memory map of a machine of 64 MiB; the flags word of a page in the middle, or 0
/// where anything failed.
#[unsafe(no_mangle)]
pub extern "C" fn no_std_check() -> u64 {
    build().unwrap_or(0)
}

fn build() -> Option<u64> {
    let mut memory = Memblock::new(Behaviour::V6_12);
    let range = PhysRange::from_size(PhysAddr::new(1 << 20), 64 << 20);
    memory
        .add_node(range, NodeId::new(0), MemblockFlags::empty())
        .ok()?;
    let profile = Profile::amd64(KernelVersion::V6_12);
    let geometry = Geometry::new(&profile, &memory, &BootOptions::default()).ok()?;
    let mut map = MemoryMap::new(geometry, BackingOptions::default()).ok()?;
    for section in map.geometry().sections().iter() {
        let mut claim = map.claim(section)?;
        for writer in writers::all() {
            claim.write(*writer);
        }
        claim.publish();
    }
    bind_and_unbind(&mut map)?;
    let report = map.check();
    let page = map.read(Pfn::new(0x2000)).ok()?;
    report.is_clean().then(|| page.flags())
}

/// A device of 64 MiB above memory, with its memory map on itself, by every way that needs no
/// mapped memory.
fn bind_and_unbind(map: &mut MemoryMap) -> Option<()> {
    let mut devices = Devices::new();
    for way in [Way::Slow, Way::Template, Way::Stream] {
        let range = PhysRange::from_size(PhysAddr::new(1 << 32), 64 << 20);
        let first = range.start().pfn_down(12);
        let pagemap = DevPagemap::new(MemoryType::FsDax, 0xffff_8881_0000_0000)
            .with_range(range)
            .with_altmap(Altmap::new(first, 2, 510));
        let id = devices
            .bind(map, pagemap, NodeId::new(0), way.writer(), None)
            .ok()?;
        let page = map.read(first.saturating_add(512)).ok()?;
        if page.next() != 0xffff_8881_0000_0000 || !map.pfn_valid(first) {
            return None;
        }
        devices.unbind(map, id).ok()??;
        if map.pfn_valid(first) {
            return None;
        }
    }
    Some(())
}
