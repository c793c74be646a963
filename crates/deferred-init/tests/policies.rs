//! Policies leave the same machine, but for what Linux treats differently in the deferred part.

use std::sync::Mutex;

use deferred_init::engine::{CancelToken, Engine, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::policy::{Boot, BootOutcome, Lazy, LazyOptions, Policy, PolicyReport, boot};
use deferred_init::topology::synthetic;
use deferred_init::workers::{Pinning, WorkerChoice};
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, Pfn, PhysAddr, PhysRange, Which};
use memmap_core::buddy::{Allocator, HandOver, MigrateType, initial_type};
use memmap_core::writers::{self, PageWriter};
use memmap_core::{
    BackingKind, BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, POISON, PageFlag,
    PageImage, Phase, Profile, SectionNr, StructPage,
};
use proptest::prelude::*;

const VERSIONS: [KernelVersion; 4] = [
    KernelVersion::V6_1,
    KernelVersion::V6_12,
    KernelVersion::V6_18,
    KernelVersion::V7_3,
];

fn bytes(start: u64, end: u64) -> PhysRange {
    PhysRange::new(PhysAddr::new(start << 12), PhysAddr::new(end << 12))
}

/// What is laid over memory, by frames.
#[derive(Clone, Copy, Debug)]
enum Extra {
    Reserved,
    /// Memory that a driver manages.
    Driver,
    /// Reserved, and left to its owner to initialise.
    NotInitialised,
    NotMapped,
}

/// What a release makes of it: 6.1 knows no memory that is left to its owner.
fn known(extra: Extra, version: KernelVersion) -> Extra {
    match extra {
        Extra::NotInitialised if version <= KernelVersion::V6_1 => Extra::Reserved,
        other => other,
    }
}

/// Memory of one node and what lies over it.
#[derive(Clone, Debug)]
struct Machine {
    memory: Vec<(u64, u64, u16)>,
    extras: Vec<(u64, u64, Extra)>,
}

impl Machine {
    fn memblock(&self, version: KernelVersion) -> Memblock {
        let behaviour = match version {
            v if v <= KernelVersion::V6_1 => Behaviour::V6_1,
            v if v <= KernelVersion::V6_12 => Behaviour::V6_12,
            v if v <= KernelVersion::V6_18 => Behaviour::V6_18,
            _ => Behaviour::V7_3,
        };
        let mut memory = Memblock::new(behaviour);
        for &(start, end, node) in &self.memory {
            memory
                .add_node(bytes(start, end), NodeId::new(node), MemblockFlags::empty())
                .unwrap();
        }
        for &(start, end, extra) in &self.extras {
            let range = bytes(start, end);
            match known(extra, version) {
                Extra::Reserved => memory.reserve(range).unwrap(),
                Extra::Driver => {
                    let flags = MemblockFlags::DRIVER_MANAGED;
                    memory.set_flag(range, Which::Memory, flags, true).unwrap();
                }
                Extra::NotMapped => memory.mark_nomap(range).unwrap(),
                Extra::NotInitialised => {
                    memory.reserve(range).unwrap();
                    memory.reserved_mark_noinit(range).unwrap();
                }
            };
        }
        memory
    }

    fn geometry(&self, policy: Policy, version: KernelVersion) -> Geometry {
        let profile = policy.profile(&Profile::amd64(version)).unwrap();
        let options = BootOptions::default();
        Geometry::new(&profile, &self.memblock(version), &options).unwrap()
    }
}

fn map(geometry: &Geometry) -> MemoryMap {
    let mut options = BackingOptions::default();
    options.kind = BackingKind::Heap;
    options.poison = true;
    MemoryMap::new(geometry.clone(), options).unwrap()
}

fn template() -> &'static dyn PageWriter {
    writers::by_name("template").unwrap()
}

fn engine() -> Engine {
    Engine::new(synthetic::parse("numa:2(memory=1G) core:2").unwrap())
}

fn workers() -> WorkerChoice {
    WorkerChoice {
        oversubscribe: true,
        pinning: Pinning::Off,
        ..WorkerChoice::threads(3)
    }
}

fn run_options() -> RunOptions<'static> {
    let mut options = RunOptions::new(template());
    options.workers = workers();
    options
}

/// The map that a policy leaves, without hand-over.
fn written(geometry: &Geometry, policy: Policy) -> MemoryMap {
    let map = map(geometry);
    let (engine, plan) = (engine(), Plan::new(geometry).unwrap());
    let run = |plan: &Plan| assert_eq!(engine.run(&map, plan, &run_options()).unwrap().left(), 0);
    match policy {
        Policy::Eager => run(&plan),
        Policy::Lazy => {
            // every section by its last page, from the last one down
            let lazy = Lazy::new(map, LazyOptions::new(template()));
            let sections: Vec<SectionNr> = geometry.sections().iter().collect();
            for section in sections.into_iter().rev() {
                lazy.touch(section).unwrap();
            }
            return lazy.into_pages();
        }
        _ => {
            run(&plan.part(geometry, Phase::Early));
            run(&plan.part(geometry, Phase::Deferred));
        }
    }
    map
}

/// Frames and the words of their struct pages.
type Pages = Vec<(u64, Vec<u64>)>;

fn words(map: &mut MemoryMap) -> Pages {
    let size = map.struct_page_size().words();
    let pages = map.geometry().sections().pages_per_section();
    let sections: Vec<SectionNr> = map.geometry().sections().iter().collect();
    let mut all = Vec::new();
    for section in sections {
        let words = map.section_words(section).expect("written");
        for (at, page) in words.chunks(size).enumerate() {
            all.push((section.0 * pages + at as u64, page.to_vec()));
        }
    }
    all
}

/// A frame that policies leave different, with both struct pages.
struct Different {
    pfn: u64,
    eager: Vec<u64>,
    late: Vec<u64>,
}

/// What differs between an eager and a deferred machine: frames, and pageblocks by their type.
fn different(machine: &Machine, version: KernelVersion) -> (Vec<Different>, Vec<u64>) {
    let [eager, late] =
        [Policy::Eager, Policy::Deferred].map(|policy| machine.geometry(policy, version));
    let mut maps = [
        written(&eager, Policy::Eager),
        written(&late, Policy::Deferred),
    ];
    let [first, second] = &mut maps;
    let frames = words(first)
        .into_iter()
        .zip(words(second))
        .filter(|(eager, late)| eager != late)
        .map(|((pfn, eager), (_, late))| Different { pfn, eager, late })
        .collect();
    let pages = eager.profile().pageblock_pages();
    let blocks = eager
        .sections()
        .valid_ranges()
        .iter()
        .flat_map(|range| (range.start().get()..range.end().get()).step_by(pages as usize))
        .filter(|start| {
            let of = |geometry| initial_type(geometry, true, Pfn::new(*start));
            of(&eager) != of(&late)
        })
        .collect();
    (frames, blocks)
}

/// Says by the machine alone why a frame may differ; `None` where it may not.
fn reason(machine: &Machine, late: &Geometry, pfn: u64) -> Option<&'static str> {
    let in_memory = machine
        .memory
        .iter()
        .find(|(start, end, _)| (*start..*end).contains(&pfn));
    let deferred = match in_memory {
        Some((_, _, node)) => late.first_deferred(NodeId::new(*node)),
        None => late
            .nodes()
            .iter()
            .filter_map(|node| node.first_deferred)
            .min(),
    };
    if deferred.is_none_or(|first| pfn < first.get()) {
        return None;
    }
    let version = late.profile().version;
    let lies = |wanted: fn(&Extra) -> bool| {
        let mut extras = machine.extras.iter();
        extras.any(|(start, end, extra)| {
            (*start..*end).contains(&pfn) && wanted(&known(*extra, version))
        })
    };
    // memory that is not mapped is reserved in the same way
    let reserved = lies(|extra| matches!(extra, Extra::Reserved | Extra::NotMapped));
    if in_memory.is_none() {
        return reserved.then_some("E-20");
    }
    if lies(|extra| matches!(extra, Extra::NotInitialised)) {
        return Some("E-64");
    }
    if lies(|extra| matches!(extra, Extra::Driver)) {
        return Some("E-22");
    }
    reserved.then_some("E-19")
}

fn amd64(memory: &[(u64, u64, u16)], extras: &[(u64, u64, Extra)]) -> Machine {
    Machine {
        memory: memory.to_vec(),
        extras: extras.to_vec(),
    }
}

fn is_poison(words: &[u64]) -> bool {
    words.iter().all(|word| *word == POISON)
}

fn page(version: KernelVersion, words: &[u64]) -> StructPage {
    let profile = Profile::amd64(version);
    let size = memmap_core::StructPageSize::from_bytes(profile.struct_page_bytes as usize).unwrap();
    StructPage::new(size, profile.byte_order, words)
}

#[test]
fn e19_a_reserved_page_differs_by_its_pageblock_alone_and_only_before_6_15() {
    let machine = amd64(
        &[(0, 0x1_4000, 0)],
        &[(0x1_0200, 0x1_0201, Extra::Reserved)],
    );
    for version in VERSIONS {
        let (frames, blocks) = different(&machine, version);
        assert_eq!(frames.len(), 0, "{version}");
        let old = version < KernelVersion::V6_18;
        assert_eq!(
            blocks,
            if old { vec![0x1_0200] } else { vec![] },
            "{version}"
        );
        if old {
            let types = [Policy::Eager, Policy::Deferred].map(|policy| {
                initial_type(&machine.geometry(policy, version), true, Pfn::new(0x1_0200))
            });
            assert_eq!(types, [MigrateType::Movable, MigrateType::Unmovable]);
        }
    }
}

#[test]
fn e20_a_reservation_behind_memory_differs_by_zone() {
    let machine = amd64(
        &[(0, 0x1_7fe0, 0)],
        &[(0x1_7fe0, 0x1_7fe2, Extra::Reserved)],
    );
    for version in VERSIONS {
        let (frames, _) = different(&machine, version);
        let pfns: Vec<u64> = frames.iter().map(|frame| frame.pfn).collect();
        assert_eq!(pfns, [0x1_7fe0, 0x1_7fe1], "{version}");
        let flags = Profile::amd64(version);
        for frame in &frames {
            let [eager, late] = [&frame.eager, &frame.late]
                .map(|words| flags.flags_layout().decode(page(version, words).flags()));
            assert_eq!((eager.zone.0, late.zone.0), (1, 5), "{version}");
            assert_eq!(
                (eager.node, late.node),
                (Some(NodeId::new(0)), Some(NodeId::new(0)))
            );
            assert_eq!(frame.eager[1..], frame.late[1..]);
        }
    }
}

#[test]
fn e22_a_driver_s_memory_is_written_eagerly_only() {
    let extra = [
        (0x8000, 0x8010, Extra::Driver),
        (0x1_2000, 0x1_2010, Extra::Driver),
    ];
    let machine = amd64(&[(0, 0x1_8000, 0)], &extra);
    for version in VERSIONS {
        let (frames, _) = different(&machine, version);
        let pfns: Vec<u64> = frames.iter().map(|frame| frame.pfn).collect();
        // what lies in the early part is written by either
        assert_eq!(pfns, (0x1_2000..0x1_2010).collect::<Vec<_>>(), "{version}");
        for frame in &frames {
            assert!(is_poison(&frame.late));
            let eager = page(version, &frame.eager);
            assert_eq!(eager.refcount(), 1);
            let reserved = Profile::amd64(version)
                .flags_layout()
                .numbers()
                .mask(PageFlag::Reserved);
            assert_eq!(eager.flags() & reserved, 0, "neither reserved nor free");
        }
    }
}

#[test]
fn e64_memory_that_is_reserved_without_initialisation_is_written_eagerly_only() {
    let extra = [
        (0x8000, 0x8200, Extra::NotInitialised),
        (0x1_2000, 0x1_2200, Extra::NotInitialised),
    ];
    let machine = amd64(&[(0, 0x1_8000, 0)], &extra);
    for version in &VERSIONS[1..] {
        let version = *version;
        let (frames, _) = different(&machine, version);
        let pfns: Vec<u64> = frames.iter().map(|frame| frame.pfn).collect();
        assert_eq!(pfns, (0x1_2000..0x1_2200).collect::<Vec<_>>(), "{version}");
        for frame in &frames {
            assert!(is_poison(&frame.late));
            let eager = page(version, &frame.eager);
            let reserved = Profile::amd64(version)
                .flags_layout()
                .numbers()
                .mask(PageFlag::Reserved);
            assert_eq!((eager.refcount(), eager.flags() & reserved), (1, 0));
        }
    }
}

fn machines() -> impl Strategy<Value = Machine> {
    let memory = proptest::collection::vec((0x3000_u64..0x1_4000, 0_u64..0x2000, 0_u16..2), 1..4);
    let extra = prop_oneof![
        Just(Extra::Reserved),
        Just(Extra::Driver),
        Just(Extra::NotInitialised),
        Just(Extra::NotMapped),
    ];
    let extras = proptest::collection::vec((0_u64..0x3_0000, 1_u64..0x500, extra), 0..8);
    (memory, extras).prop_map(|(pieces, extras)| {
        let mut memory = Vec::new();
        let mut at = 0x100;
        for (pages, gap, node) in pieces {
            memory.push((at, at + pages, node));
            at += pages + gap;
        }
        // one after the other, so that each frame is of one kind
        let mut sorted: Vec<_> = extras;
        sorted.sort_by_key(|(start, _, _)| *start);
        let mut free_from = 0;
        let extras = sorted
            .into_iter()
            .map(|(start, pages, extra)| {
                let start = start.max(free_from);
                free_from = start + pages;
                (start, free_from, extra)
            })
            .collect();
        Machine { memory, extras }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn nothing_else_differs_between_eager_and_deferred(machine in machines(), at in 0_usize..4) {
        let version = VERSIONS[at];
        let late = machine.geometry(Policy::Deferred, version);
        let (frames, blocks) = different(&machine, version);
        for frame in &frames {
            let why = reason(&machine, &late, frame.pfn);
            // a reserved page of memory is the same page, whenever it was written
            prop_assert!(why.is_some_and(|why| why != "E-19"), "{:#x}: {why:?}", frame.pfn);
            if matches!(why, Some("E-22" | "E-64")) {
                prop_assert!(is_poison(&frame.late) && !is_poison(&frame.eager));
            }
        }
        for block in blocks {
            prop_assert!(reason(&machine, &late, block).is_some(), "block {block:#x}");
        }
    }

    #[test]
    fn nothing_differs_between_deferred_on_demand_and_lazy(machine in machines(), at in 0_usize..4) {
        let version = VERSIONS[at];
        let geometry = machine.geometry(Policy::Deferred, version);
        prop_assert_eq!(&geometry, &machine.geometry(Policy::OnDemand, version));
        prop_assert_eq!(&geometry, &machine.geometry(Policy::Lazy, version));
        let wanted = words(&mut written(&geometry, Policy::Deferred));
        prop_assert!(words(&mut written(&geometry, Policy::Lazy)) == wanted);
    }
}

/// A machine with all kinds of pages, on two nodes.
fn mixed() -> Machine {
    amd64(
        &[(0x100, 0x2_0000, 0), (0x2_0000, 0x3_7fe0, 1)],
        &[
            (0x8200, 0x8300, Extra::Reserved),
            (0x1_8000, 0x1_8333, Extra::Reserved),
            (0x3_0000, 0x3_0001, Extra::Reserved),
            (0x3_1000, 0x3_1100, Extra::NotMapped),
        ],
    )
}

fn booted(
    policy: Policy,
    memory: &Memblock,
    run: RunOptions<'static>,
) -> (PolicyReport, Allocator<MemoryMap>) {
    let mut backing = BackingOptions::default();
    backing.kind = BackingKind::Heap;
    backing.poison = true;
    let machine = Boot {
        engine: &engine(),
        kernel: &Profile::amd64(KernelVersion::V6_12),
        memory,
        options: BootOptions::default(),
        backing,
        run,
    };
    boot(policy, &machine).unwrap()
}

/// Struct pages without the links of free blocks, which follow the order in which sections came.
fn without_links(allocator: Allocator<MemoryMap>) -> Pages {
    let mut map = allocator.into_pages();
    let mut all = words(&mut map);
    for (_, page) in &mut all {
        page[1..3].fill(0);
    }
    all
}

#[test]
fn every_policy_boots_to_the_same_free_memory() {
    let memory = mixed().memblock(KernelVersion::V6_12);
    let mut seen: Option<(String, Pages)> = None;
    for policy in Policy::ALL {
        let (report, allocator) = booted(policy, &memory, run_options());
        assert_eq!(report.outcome, BootOutcome::Complete, "{report}");
        assert_eq!(allocator.check(), []);
        assert_eq!(report.sections, 7, "{report}");
        let first = match policy {
            Policy::Eager => 7,
            // two sections of node 0, one of node 1
            Policy::Deferred | Policy::OnDemand => 3,
            _ => 1,
        };
        assert_eq!(report.sections_first, first, "{report}");
        assert!(report.first_usable <= report.total, "{report}");
        assert!(report.worst_stretch <= report.total, "{report}");
        assert!(!report.first_usable.is_zero() && !report.worst_stretch.is_zero());
        if policy == Policy::Eager {
            assert_eq!(report.first_usable, report.total);
        }
        assert!(report.to_string().contains(policy.name()), "{report}");
        let buddies = allocator.buddyinfo();
        let pages = without_links(allocator);
        match &seen {
            None => seen = Some((buddies, pages)),
            Some((wanted, same)) => {
                assert_eq!(&buddies, wanted, "{policy}");
                assert!(&pages == same, "{policy}");
            }
        }
    }
}

/// Panics at its n-th call, or cancels there.
#[derive(Debug)]
struct Fails {
    at: u64,
    calls: std::sync::atomic::AtomicU64,
    cancels: Option<CancelToken>,
}

impl PageWriter for Fails {
    fn name(&self) -> &'static str {
        "fails"
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        let call = self
            .calls
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if call == self.at {
            match &self.cancels {
                Some(token) => token.cancel(),
                None => std::panic::resume_unwind(Box::new("on purpose")),
            }
        }
        template().write(image, pages);
    }
}

#[test]
fn a_boot_that_fails_anywhere_says_so_and_is_completed_by_the_engine() {
    // writers live for ever; those that are held here are not reported as leaks
    static WRITERS: Mutex<Vec<&'static Fails>> = Mutex::new(Vec::new());
    let memory = mixed().memblock(KernelVersion::V6_12);
    for policy in Policy::ALL {
        let geometry = mixed().geometry(policy, KernelVersion::V6_12);
        let wanted = without_links(booted(policy, &memory, run_options()).1);
        for (at, cancels) in (0..7).flat_map(|at| [(at, false), (at, true)]) {
            let token = CancelToken::new();
            let fails: &'static Fails = Box::leak(Box::new(Fails {
                at,
                calls: 0.into(),
                cancels: cancels.then(|| token.clone()),
            }));
            WRITERS.lock().unwrap().push(fails);
            let mut run = RunOptions::new(fails);
            run.workers = workers();
            run.cancel = token;
            let (report, allocator) = booted(policy, &memory, run);
            let what = format!("{policy} at {at}: {report}");
            match cancels {
                // a cancel during the last section comes too late
                true if report.sections == 7 => {}
                true => assert_eq!(report.outcome, BootOutcome::Cancelled, "{what}"),
                false => {
                    let message = "on purpose".to_owned();
                    assert_eq!(report.outcome, BootOutcome::Panicked { message }, "{what}");
                    assert!(report.sections < 7, "{what}");
                }
            }
            let plan = Plan::new(&geometry).unwrap();
            let options = run_options().hand_over();
            let mut rest = engine().run(allocator.pages(), &plan, &options).unwrap();
            assert_eq!(report.sections + rest.total().sections, 7, "{what}");
            rest.join(&allocator, &HandOver::new(&geometry));
            assert_eq!(allocator.check(), [], "{what}");
            assert!(without_links(allocator) == wanted, "{what}");
        }
    }
}

#[test]
fn a_kernel_that_cannot_defer_boots_eagerly_only() {
    let mut config = Profile::amd64(KernelVersion::V6_12).config().clone();
    config.memory_model = memmap_core::MemoryModel::Flat;
    config.deferred_init = false;
    config.nodes_shift = 0;
    config.numa_balancing = false;
    let flat = config.build().unwrap();
    assert!(Policy::Eager.profile(&flat).is_ok());
    let error = Policy::Lazy.profile(&flat).unwrap_err().to_string();
    assert!(error.contains("deferred_init"), "{error}");
}

#[test]
fn policies_are_found_by_their_names() {
    for policy in Policy::ALL {
        assert_eq!(Policy::by_name(policy.name()), Some(policy));
    }
    assert_eq!(Policy::by_name("soon"), None);
}
