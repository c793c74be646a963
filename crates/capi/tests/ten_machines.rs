//! Ten machines of different kernels at once, from ten threads, through the C interface and beside
//! it: each is what it is alone.

#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "all calls of a machine's life rest on one promise: every pointer is the test's own"
)]

use std::ffi::CString;
use std::ptr::null_mut;

use deferred_init::Topology;
use deferred_init::engine::{Engine, Outcome, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::workers::Pinning;
use deferred_init_c::*;
use machine::synthetic;
use memblock::{NodeId, PhysAddr, PhysRange};
use memmap_core::buddy::{Allocator, HandOver, ListHeads, MigrateType, NodeDistances, Request};
use memmap_core::{
    BackingOptions, Geometry, KernelVersion, MemoryMap, Profile, ZoneIndex, writers,
};

/// Name, release, and the profile of that name.
type Kind = (&'static str, &'static str, fn(KernelVersion) -> Profile);

const KINDS: [Kind; 10] = [
    ("amd64", "6.1", Profile::amd64),
    ("amd64", "6.12", Profile::amd64),
    ("amd64", "6.18", Profile::amd64),
    ("amd64", "7.3", Profile::amd64),
    ("amd64-small", "6.12", Profile::amd64_small),
    ("arm64-4k", "6.12", Profile::arm64_4k),
    ("arm64-16k", "7.3", Profile::arm64_16k),
    ("riscv64", "6.12", Profile::riscv64),
    ("ppc64-64k", "6.12", Profile::ppc64_64k),
    ("s390x", "6.12", Profile::s390x),
];

/// Memory of machine `index`: two nodes, no two machines alike.
fn memory(index: usize) -> [(NodeId, PhysRange); 2] {
    let range = |start: u64, mib| PhysRange::from_size(PhysAddr::new(start << 20), mib << 20);
    let mib = 256 + 64 * index as u64;
    [
        (NodeId::new(0), range(2048, 256)),
        (NodeId::new(1), range(4096, mib)),
    ]
}

/// Every word of the machine's struct pages after some use, by the crates themselves.
fn words(index: usize) -> Vec<u64> {
    let (_, release, profile) = KINDS[index];
    let profile = profile(release.parse().unwrap());
    let layout = synthetic::explicit(&memory(index)).unwrap();
    let geometry = Geometry::new(
        &profile,
        &layout.memblock().unwrap(),
        &layout.boot_options(),
    )
    .unwrap();
    let plan = Plan::new(&geometry).unwrap();
    let map = MemoryMap::new(geometry.clone(), BackingOptions::default()).unwrap();
    let allocator = Allocator::new(
        map,
        &geometry,
        NodeDistances::default(),
        ListHeads::default(),
    );
    let engine = Engine::new(Topology::host().unwrap());
    let mut options = RunOptions::new(&writers::Stream::DETECT)
        .threads(1 + index % 3)
        .hand_over();
    options.workers.oversubscribe = true;
    options.workers.pinning = Pinning::Off;
    let mut report = engine.run(allocator.pages(), &plan, &options).unwrap();
    assert_eq!(report.outcome, Outcome::Complete);
    report.join(&allocator, &HandOver::new(&geometry));
    let nodes: Vec<_> = geometry.nodes().iter().map(|node| node.id).collect();
    for i in 0..16 {
        let request = Request {
            order: i % 5,
            node: nodes[usize::from(i) % nodes.len()],
            zone: ZoneIndex(u8::MAX),
            migrate: MigrateType::Movable,
        };
        let pfn = allocator.alloc_pages(request).unwrap();
        if i % 3 == 0 {
            allocator.free_pages(pfn, i % 5).unwrap();
        }
    }
    assert_eq!(allocator.check(), []);
    let mut map = allocator.into_pages();
    let sections: Vec<_> = geometry.sections().iter().collect();
    let mut words = Vec::new();
    for section in sections {
        words.extend_from_slice(map.section_words(section).expect("it is ready"));
    }
    words
}

/// The same machine through the C interface, as a number.
fn digest(index: usize) -> u64 {
    let (name, release, _) = KINDS[index];
    let (name, release) = (CString::new(name).unwrap(), CString::new(release).unwrap());
    let (mut layout, mut profile, mut machine) = (null_mut(), null_mut(), null_mut());
    let mut digest = 0;
    // SAFETY: every pointer is this function's own, and each handle is freed once.
    unsafe {
        assert_eq!(di_layout_new(&mut layout), di_status::DI_OK);
        for (node, range) in memory(index) {
            let (start, bytes) = (range.start().get(), range.len());
            let added = di_layout_add_memory(layout, node.get().into(), start, bytes);
            assert_eq!(added, di_status::DI_OK);
        }
        let found = di_profile_preset(name.as_ptr(), release.as_ptr(), &mut profile);
        assert_eq!(found, di_status::DI_OK);
        let booted = di_boot(layout, profile, std::ptr::null(), &mut machine);
        assert_eq!(booted, di_status::DI_OK);
        let mut nodes = 0;
        assert_eq!(di_node_count(machine, &mut nodes), di_status::DI_OK);
        for i in 0..16_u32 {
            let mut pfn = 0;
            let taken = di_alloc_pages(machine, i % nodes, i % 5, DI_ANY_ZONE, 1, &mut pfn);
            assert_eq!(taken, di_status::DI_OK);
            if i % 3 == 0 {
                assert_eq!(di_free_pages(machine, pfn, i % 5), di_status::DI_OK);
            }
        }
        assert_eq!(di_digest(machine, &mut digest), di_status::DI_OK);
        di_machine_free(machine);
        di_profile_free(profile);
        di_layout_free(layout);
    }
    digest
}

fn together<T: Send>(live: fn(usize) -> T) -> Vec<T> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..KINDS.len())
            .map(|index| scope.spawn(move || live(index)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn ten_machines_at_once_are_what_each_is_alone() {
    let at_once = together(words);
    for (index, words_at_once) in at_once.iter().enumerate() {
        assert!(*words_at_once == words(index), "machine {index}");
        for other in &at_once[..index] {
            assert!(words_at_once != other, "machine {index} is like another");
        }
    }
    let digests = together(digest);
    for (index, &found) in digests.iter().enumerate() {
        assert_eq!(found, digest(index), "machine {index}");
    }
}
