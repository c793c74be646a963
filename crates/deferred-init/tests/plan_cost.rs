//! The cost of a plan grows with ranges: counted in bytes and calls of the allocator, not in time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use deferred_init::plan::{Plan, PlanRun, SectionShape, Work};
use deferred_init::topology::{presets, synthetic};
use deferred_init::workers::{Pinning, WorkerChoice, choose};
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::{BootOptions, Geometry, KernelVersion, Profile};

thread_local! {
    static TAKEN: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The system's allocator, counting what each thread takes.
struct Counting;

// SAFETY: every call is the system allocator's own, with the caller's arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // a thread that is ending has no counter any more
        let _ = TAKEN.try_with(|taken| {
            let (calls, bytes) = taken.get();
            taken.set((calls + 1, bytes + layout.size() as u64));
        });
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes taken by `work` on this thread.
fn bytes_taken<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = TAKEN.get().1;
    let value = work();
    (TAKEN.get().1 - before, value)
}

const SHAPE: SectionShape = SectionShape {
    pages: 0x8000,
    bytes: 2 << 20,
};

/// 216 nodes with so many ranges each, of so many sections each, with gaps.
fn runs(ranges: u64, sections: u64) -> Vec<PlanRun> {
    (0..216 * ranges)
        .map(|range| {
            let start = range * (sections + 1);
            PlanRun {
                node: NodeId::new((range / ranges) as u16),
                zone: 2,
                sections: start..start + sections,
            }
        })
        .collect()
}

#[test]
fn twice_the_ranges_cost_about_twice_and_more_sections_cost_nothing() {
    let host = synthetic::parse("numa:216(memory=1T) core:4").unwrap();
    let wishes = WorkerChoice {
        pinning: Pinning::Off,
        ..WorkerChoice::default()
    };
    let seats = choose(&host, &wishes).unwrap();
    let cost = |ranges, sections| {
        let input = runs(ranges, sections);
        let (plan_bytes, plan) = bytes_taken(|| Plan::from_runs(SHAPE, input).unwrap());
        let (work_bytes, work) = bytes_taken(|| Work::new(&plan, &host, &seats, 1));
        assert_eq!(work.sections(), 216 * ranges * sections);
        (plan_bytes, work_bytes)
    };
    let (plan, work) = cost(64, 8);
    assert_eq!(
        cost(64, 8000),
        (plan, work),
        "a thousand times the sections"
    );
    let (twice_plan, twice_work) = cost(128, 8);
    assert!(
        twice_plan <= 2 * plan + 4096,
        "{plan} then {twice_plan} bytes"
    );
    assert!(twice_work <= 5 * work / 2, "{work} then {twice_work} bytes");
}

#[test]
fn a_host_of_32_tebibytes_has_a_plan_of_one_run_a_node() {
    let host = presets::by_name("superdome-64n")
        .unwrap()
        .topology()
        .unwrap();
    let mut memory = Memblock::new(Behaviour::V6_12);
    for node in &host.nodes {
        // a node's memory in two pieces with a gap of 1 GiB
        let start = u64::from(node.id.get()) << 40;
        for (at, size) in [(0, 1_u64 << 38), ((1 << 38) + (1 << 30), 1 << 38)] {
            let range = PhysRange::from_size(PhysAddr::new((4 << 30) + start + at), size);
            memory
                .add_node(range, node.id, MemblockFlags::empty())
                .unwrap();
        }
    }
    let profile = Profile::amd64(KernelVersion::V6_12);
    let geometry = Geometry::new(&profile, &memory, &BootOptions::default()).unwrap();
    let (bytes, plan) = bytes_taken(|| Plan::new(&geometry).unwrap());
    assert_eq!(plan.sections(), 64 * (1 << 39) / (128 << 20));
    assert_eq!(plan.runs().len(), 128);
    assert!(
        bytes < 64 << 10,
        "{bytes} bytes for {} sections",
        plan.sections()
    );
}
