//! A static library for a kernel: its own panic handler, its own allocator, no std.
//!
//! It calls far enough into both crates that nothing of them can be left out by the linker.

#![no_std]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, Pfn, PhysAddr, PhysRange};
use memmap_core::{
    BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile, writers,
};

/// A heap that only grows.
struct Bump {
    heap: UnsafeCell<[u8; Self::SIZE]>,
    used: AtomicUsize,
}

impl Bump {
    const SIZE: usize = 8 << 20;
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
    let map = MemoryMap::new(geometry, BackingOptions::default()).ok()?;
    for section in map.geometry().sections().iter() {
        let mut claim = map.claim(section)?;
        for writer in writers::all() {
            claim.write(*writer);
        }
        claim.publish();
    }
    let report = map.check();
    let page = map.read(Pfn::new(0x2000)).ok()?;
    report.is_clean().then(|| page.flags())
}
