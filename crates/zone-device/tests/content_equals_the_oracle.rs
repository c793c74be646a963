//! The runs of random devices against the page-by-page oracle, through every page writer, cut
//! anywhere, by several threads.

mod common;

use std::sync::Mutex;

use common::{Map, Oracle, POISON, pagemap};
use memblock::{NodeId, Pfn, PfnRange};
use memmap_core::writers::{self, PageWriter};
use memmap_core::{KernelVersion, Profile};
use proptest::prelude::*;
use zone_device::{
    Altmap, DevPagemap, DeviceRuns, Initialised, MemoryType, RangeObserver, SharedVmemmap, Site,
};

fn versions() -> [KernelVersion; 5] {
    [
        KernelVersion::V6_1,
        KernelVersion::V6_12,
        KernelVersion::new(6, 15),
        KernelVersion::V6_18,
        KernelVersion::V7_3,
    ]
}

/// Profiles of all shapes: sizes, page sizes, with and without what lies behind the first fields.
fn profiles() -> impl Strategy<Value = Profile> {
    let version = proptest::sample::select(versions().to_vec());
    (version, 0..7).prop_map(|(version, shape)| {
        let mut config = match shape {
            0 | 1 => Profile::amd64(version),
            2 => Profile::arm64_4k(version),
            3 => Profile::arm64_16k(version),
            4 => Profile::riscv64(version),
            5 => Profile::ppc64_64k(version),
            _ => Profile::arm64_64k(version),
        }
        .config()
        .clone();
        match shape {
            1 => {
                config.struct_page_bytes = 80;
                config.page_virtual = Some(0xffff_8880_0000_0000);
                config.nodes_shift = 10;
                config.nr_cpus = 1 << 20;
            }
            5 => {
                config.memcg = false;
                config.struct_page_bytes = 56;
            }
            _ => {}
        }
        config.build().expect("the shapes are possible")
    })
}

#[derive(Debug, Clone)]
struct Case {
    profile: Profile,
    pagemap: DevPagemap,
    boot: Vec<PfnRange>,
    node: u16,
}

fn cases() -> impl Strategy<Value = Case> {
    (
        profiles(),
        proptest::sample::select(MemoryType::ALL.to_vec()),
        0_u32..=12,
        0_u64..6,
        1_u64..5,
        (any::<bool>(), any::<bool>()),
        (0_u64..4, 0_u64..3000),
        0_u16..2,
    )
        .prop_map(
            |(profile, kind, order, at, count, (boot, altmap), (reserve, free), node)| {
                let unit = profile.pages_per_subsection().max(1 << order);
                // near a section's end, so that ranges touch two sections
                let section = profile.pages_per_section().max(unit);
                let start = 3 * section - at.min(section / unit - 1) * unit;
                let pfns = PfnRange::new(Pfn::new(start), Pfn::new(start + count * unit));
                // an altmap ends where a compound may begin
                let altmap = altmap.then(|| {
                    let free = (reserve + free).next_multiple_of(1 << order) - reserve;
                    Altmap::new(pfns.start(), reserve, free)
                });
                let altmap = altmap.filter(|altmap| altmap.offset() < pfns.len());
                let section = profile.pages_per_section();
                let boot = if boot {
                    let first = pfns.start().align_down(section);
                    vec![PfnRange::new(first, first.saturating_add(section))]
                } else {
                    Vec::new()
                };
                Case {
                    pagemap: pagemap(&profile, kind, pfns, order, altmap),
                    profile,
                    boot,
                    node,
                }
            },
        )
}

impl Case {
    fn runs(&self) -> DeviceRuns {
        let site = Site::on_node(NodeId::new(self.node)).with_boot_sections(self.boot.clone());
        DeviceRuns::new(&self.profile, &self.pagemap, &site).expect("the case is aligned")
    }

    fn oracle(&self) -> Map {
        let oracle = Oracle {
            profile: &self.profile,
            node: self.node,
            boot: self.boot.clone(),
        };
        oracle.map(&self.pagemap)
    }

    fn words(&self) -> usize {
        self.profile.struct_page_bytes as usize / 8
    }
}

fn poisoned(words: usize) -> Vec<u64> {
    vec![POISON; words]
}

fn value(word: &u64) -> u64 {
    *word
}

fn compare(case: &Case, pfns: PfnRange, found: &[u64], map: &Map) {
    let untouched = vec![POISON; case.words()];
    for (pfn, page) in pfns.iter().zip(found.chunks_exact(case.words())) {
        let found: Vec<u64> = page.iter().map(value).collect();
        let expected = map.get(&pfn.get()).unwrap_or(&untouched);
        assert_eq!(
            &found, expected,
            "pfn {pfn} of {pfns}: {found:x?} is not {expected:x?}"
        );
    }
}

/// Keeps what it is told.
#[derive(Default)]
struct Told(Mutex<Vec<Initialised>>);

impl RangeObserver for Told {
    fn initialised(&self, range: Initialised) {
        self.0.lock().expect("no test panics in here").push(range);
    }
}

fn ways() -> impl Iterator<Item = &'static dyn PageWriter> {
    writers::all().iter().chain(writers::forced()).copied()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 64 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_writer_on_one_to_eight_threads_writes_what_the_oracle_says(
        case in cases(),
        threads in 1_usize..=8,
        seed in any::<u64>(),
    ) {
        let (runs, map) = (case.runs(), case.oracle());
        let pfns = runs.ranges()[0];
        let words = case.words();
        for (turn, writer) in ways().enumerate() {
            let mut memory = poisoned(pfns.len() as usize * words);
            // cut at random places, anywhere inside compounds too
            let mut cuts: Vec<u64> = (1..threads as u64)
                .map(|t| seed.rotate_left(7 * t as u32 + turn as u32) % (pfns.len() + 1))
                .collect();
            cuts.extend([0, pfns.len()]);
            cuts.sort_unstable();
            let told = Told::default();
            std::thread::scope(|scope| {
                let mut rest = &mut memory[..];
                for cut in cuts.windows(2) {
                    let (mut shard, next) = rest.split_at_mut((cut[1] - cut[0]) as usize * words);
                    rest = next;
                    let start = pfns.start().saturating_add(cut[0]);
                    let shard_pfns = PfnRange::new(start, pfns.start().saturating_add(cut[1]));
                    let (runs, told) = (&runs, &told);
                    scope.spawn(move || {
                        for run in runs.cut(shard_pfns) {
                            let length = run.pfns().len() as usize * words;
                            let (piece, next) = shard.split_at_mut(length);
                            run.write(writer, piece, Some(told));
                            shard = next;
                        }
                        assert!(shard.is_empty(), "the runs cover the device");
                    });
                }
            });
            compare(&case, pfns, &memory, &map);

            // the observer was told of every page that was written, once
            let mut told = told.0.into_inner().expect("no thread panicked");
            told.sort_by_key(|range| range.pfns.start());
            let told: Vec<u64> = told
                .iter()
                .flat_map(|range| range.pfns.iter())
                .map(Pfn::get)
                .collect();
            let written: Vec<u64> = map
                .iter()
                .filter(|(_, words)| words.iter().any(|&word| word != POISON))
                .map(|(&pfn, _)| pfn)
                .collect();
            prop_assert_eq!(told, written);
        }
    }

    #[test]
    fn single_pages_looked_up_equal_the_oracle_and_parts_cover_the_runs(case in cases()) {
        let (runs, map) = (case.runs(), case.oracle());
        let mut next = runs.ranges()[0].start();
        for part in runs.runs().iter().flat_map(|run| run.parts()) {
            prop_assert_eq!(part.pfns.start(), next);
            next = part.pfns.end();
        }
        prop_assert_eq!(next, runs.ranges()[0].end());
        for pfn in runs.ranges()[0].iter() {
            let found = runs.page(pfn).map(|image| image.words().to_vec());
            prop_assert_eq!(found.as_ref(), map.get(&pfn.get()));
        }
    }

    #[test]
    fn a_shared_view_equals_the_oracle(case in cases()) {
        let view = SharedVmemmap::new(&case.runs(), &case.profile);
        for (&pfn, words) in &case.oracle() {
            let found = view.read(Pfn::new(pfn)).expect("a page of the device");
            // a frame's own address differs in tails that share memory; no kernel has both
            if case.profile.page_virtual.is_none() {
                prop_assert_eq!(&found[..case.words()], &words[..]);
            }
        }
    }

    #[test]
    fn no_description_panics(
        case in cases(),
        ranges in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..3),
        order in any::<u32>(),
        altmap in any::<(u64, u64, u64)>(),
        aligned in any::<bool>(),
    ) {
        let mut pagemap = DevPagemap::new(MemoryType::FsDax, 1).with_vmemmap_shift(order % 70);
        for (start, size) in ranges {
            let mask = if aligned { !0x1f_ffff } else { u64::MAX };
            let start = memblock::PhysAddr::new(start & mask);
            pagemap = pagemap.with_range(memblock::PhysRange::from_size(start, size & mask));
        }
        pagemap = pagemap.with_altmap(Altmap::new(Pfn::new(altmap.0), altmap.1, altmap.2));
        let _ = DeviceRuns::new(&case.profile, &pagemap, &Site::default());
    }
}

#[test]
fn compounds_of_every_order_from_1_to_18_equal_the_oracle() {
    for version in versions() {
        let profile = Profile::amd64(version);
        for order in 1..=18_u32 {
            let unit = 512.max(1 << order);
            let pfns = PfnRange::new(Pfn::new(1 << 20), Pfn::new((1 << 20) + unit));
            let case = Case {
                pagemap: pagemap(&profile, MemoryType::Generic, pfns, order, None),
                profile: profile.clone(),
                boot: Vec::new(),
                node: 0,
            };
            let mut memory = poisoned(unit as usize * 8);
            let runs = case.runs();
            runs.runs()[0].write(&writers::Stream::DETECT, &mut memory, None);
            compare(&case, pfns, &memory, &case.oracle());
        }
    }
}
