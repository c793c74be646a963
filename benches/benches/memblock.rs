//! memblock beside a flat array as a kernel keeps it, and beside bare searches and merges.
//!
//! `add` and `reserve`: the additions that bring a list to N regions (all of them for 128, the
//! last 128 of larger lists), in ascending and in random order. After criterion's figures the
//! ratios follow by the judging rule: both sides in every round, median of the paired ratios and
//! its 95 % interval, with the bound that each has to keep. `VERDICTS=random cargo bench --bench
//! memblock -- none` prints those alone whose names have `random` in them.

use std::hint::black_box;
use std::time::Instant;

use benches::memblock::{CArray, place, shuffled};
use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use memblock::{Behaviour, Memblock, MemblockFlags, Pfn, PhysAddr, PhysRange};
use study::judge::{Rule, Samples};

const SIZES: [u64; 3] = [128, 10_000, 100_000];
const ADDED: u64 = 128;
const PAGE_SHIFT: u32 = 12;

#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Memory,
    Reserved,
}

/// Lists of `size - ADDED` regions on both sides, and the ranges that bring them to `size`.
struct Additions {
    rust: Memblock,
    c: CArray,
    ranges: Vec<PhysRange>,
    list: List,
}

impl Additions {
    fn new(size: u64, list: List, random: bool) -> Self {
        let order = if random {
            shuffled(size)
        } else {
            (0..size).collect()
        };
        let (before, added) = order.split_at((size - ADDED) as usize);
        let mut made = Self {
            rust: Memblock::new(Behaviour::V6_12),
            c: CArray::new(size as usize),
            ranges: added.iter().map(|&it| place(it)).collect(),
            list,
        };
        for &index in before {
            add(&mut made.rust, list, place(index));
        }
        // the array is the same however it was filled, and filling it by additions takes minutes
        let mut before = before.to_vec();
        before.sort_unstable();
        made.c.fill(before.into_iter().map(place));
        let (mut rust, mut c) = (made.rust.clone(), made.c.clone());
        made.run_rust(&mut rust);
        made.run_c(&mut c);
        let regions = match list {
            List::Memory => rust.memory(),
            List::Reserved => rust.reserved(),
        };
        assert!(
            regions
                .iter()
                .map(|it| (it.start().get(), it.range().len()))
                .eq(c.regions().iter().map(|it| (it.base, it.size))),
            "both sides keep the same regions"
        );
        made
    }

    fn run_rust(&self, rust: &mut Memblock) {
        for &range in &self.ranges {
            add(rust, self.list, range);
        }
    }

    fn run_c(&self, c: &mut CArray) {
        for &range in &self.ranges {
            c.add(range);
        }
    }
}

fn add(memblock: &mut Memblock, list: List, range: PhysRange) {
    match list {
        List::Memory => memblock.add(range),
        List::Reserved => memblock.reserve(range),
    }
    .expect("these lists have no end");
}

fn additions(criterion: &mut Criterion) {
    for (what, list) in [("add", List::Memory), ("reserve", List::Reserved)] {
        for (order, random) in [("sorted", false), ("random", true)] {
            let mut group = criterion.benchmark_group(format!("{what}-{order}"));
            group
                .throughput(Throughput::Elements(ADDED))
                .sample_size(20);
            for size in SIZES {
                let both = Additions::new(size, list, random);
                group.bench_function(BenchmarkId::new("rust", size), |bench| {
                    bench.iter_batched_ref(
                        || both.rust.clone(),
                        |rust| both.run_rust(rust),
                        BatchSize::LargeInput,
                    );
                });
                group.bench_function(BenchmarkId::new("c", size), |bench| {
                    bench.iter_batched_ref(
                        || both.c.clone(),
                        |c| both.run_c(c),
                        BatchSize::LargeInput,
                    );
                });
            }
        }
    }
}

/// A memblock of `size` regions, the plain array of its starts, and places to look for.
struct Searches {
    memblock: Memblock,
    starts: Vec<u64>,
    addresses: Vec<u64>,
}

impl Searches {
    fn new(size: u64) -> Self {
        let mut memblock = Memblock::new(Behaviour::V6_12);
        for index in 0..size {
            memblock.add(place(index)).expect("no end");
        }
        let starts = (0..size).map(|it| place(it).start().get()).collect();
        // some hit a region, most the hole behind one
        let addresses = shuffled(size * 4)
            .into_iter()
            .take(4096)
            .map(|it| (1 << 14) + (it << PAGE_SHIFT))
            .collect();
        Self {
            memblock,
            starts,
            addresses,
        }
    }

    fn bare(&self) -> u64 {
        self.addresses
            .iter()
            .map(|address| match self.starts.binary_search(address) {
                Ok(at) => at as u64,
                Err(at) => at as u64,
            })
            .fold(0, u64::wrapping_add)
    }

    fn search(&self) -> u64 {
        self.addresses
            .iter()
            .map(|&it| u64::from(self.memblock.is_memory(PhysAddr::new(it))))
            .fold(0, u64::wrapping_add)
    }

    fn search_nid(&self) -> u64 {
        self.addresses
            .iter()
            .filter_map(|&it| {
                let pfn = Pfn::new(it >> PAGE_SHIFT);
                self.memblock.search_pfn_nid(pfn, PAGE_SHIFT)
            })
            .map(|(pfns, _)| pfns.end().get())
            .fold(0, u64::wrapping_add)
    }

    fn next_valid(&self) -> u64 {
        let max = self.memblock.end_of_dram().pfn_down(PAGE_SHIFT);
        self.addresses
            .iter()
            .map(|&it| {
                let pfn = Pfn::new(it >> PAGE_SHIFT);
                self.memblock.next_valid_pfn(pfn, max, PAGE_SHIFT).get()
            })
            .fold(0, u64::wrapping_add)
    }
}

type Search = fn(&Searches) -> u64;

fn searches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("search");
    group.throughput(Throughput::Elements(4096));
    for size in SIZES {
        let searches = Searches::new(size);
        let mut run = |name: &str, search: Search| {
            group.bench_function(BenchmarkId::new(name, size), |bench| {
                bench.iter(|| search(black_box(&searches)));
            });
        };
        run("bare-binary-search", Searches::bare);
        run("is_memory", Searches::search);
        run("search_pfn_nid", Searches::search_nid);
        run("next_valid_pfn", Searches::next_valid);
    }
}

/// 100,000 regions and as many reservations, and the same as plain arrays.
struct Merges {
    memblock: Memblock,
    memory: Vec<(u64, u64)>,
    reserved: Vec<(u64, u64)>,
}

impl Merges {
    fn new() -> Self {
        let mut made = Self {
            memblock: Memblock::new(Behaviour::V6_12),
            memory: Vec::new(),
            reserved: Vec::new(),
        };
        for (index, wild) in shuffled(100_000).into_iter().enumerate() {
            let region = place(index as u64);
            made.memblock.add(region).expect("no end");
            made.memory.push((region.start().get(), region.end().get()));
            // in the region, over its end, or behind it
            let start = region.start().get() + (wild % 6) * 0x400 + 0x100;
            let taken = PhysRange::from_size(PhysAddr::new(start), 0x380);
            made.memblock.reserve(taken).expect("no end");
            made.reserved.push((start, start + 0x380));
        }
        assert_eq!(made.by_hand(), made.by_iterator());
        made
    }

    /// The sum over the free ranges of their bounds, so that none can be left out.
    fn by_hand(&self) -> u64 {
        let mut sum = 0u64;
        let mut next = 0;
        for &(mut start, end) in &self.memory {
            while next < self.reserved.len() && self.reserved[next].1 <= start {
                next += 1;
            }
            let mut at = next;
            while at < self.reserved.len() && self.reserved[at].0 < end {
                let (low, high) = self.reserved[at];
                if start < low {
                    sum = sum.wrapping_add(start ^ low);
                }
                start = start.max(high);
                at += 1;
            }
            if start < end {
                sum = sum.wrapping_add(start ^ end);
            }
            next = at.saturating_sub(1).max(next);
        }
        sum
    }

    fn by_iterator(&self) -> u64 {
        self.memblock
            .free_ranges(None, MemblockFlags::empty())
            .map(|free| free.start().get() ^ free.end().get())
            .fold(0, u64::wrapping_add)
    }
}

fn merges(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("free-ranges");
    let merges = Merges::new();
    let run = |group: &mut BenchmarkGroup<'_, WallTime>, name, merge: fn(&Merges) -> u64| {
        group.bench_function(BenchmarkId::new(name, 100_000), |bench| {
            bench.iter(|| merge(black_box(&merges)));
        });
    };
    run(&mut group, "by-hand", Merges::by_hand);
    run(&mut group, "free_ranges", Merges::by_iterator);
}

/// Nanoseconds that `work` takes.
fn timed<T>(work: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    black_box(work());
    start.elapsed().as_nanos().max(1) as f64
}

/// The best of a few runs: what is left when nobody took the processor away in the middle.
fn best<T>(mut work: impl FnMut() -> T) -> f64 {
    (0..5).map(|_| timed(&mut work)).fold(f64::MAX, f64::min)
}

/// One line: how many times faster `ours` is than `theirs`, and whether that keeps the bound.
fn judge(name: &str, bound: f64, mut ours: impl FnMut() -> f64, mut theirs: impl FnMut() -> f64) {
    if std::env::var("VERDICTS").is_ok_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let samples = Samples::collect(&Rule::default(), 2, |contestant, _| match contestant {
        0 => ours(),
        _ => theirs(),
    })
    .expect("every time is positive");
    let speed = samples.speed(0, 1).expect("both took part");
    let kept = if speed.at_least(bound) {
        "kept"
    } else {
        "MISSED"
    };
    println!(
        "{name:32} {:8.2} x  [{:.2}, {:.2}]  at least {bound:.2}: {kept}",
        speed.median, speed.low, speed.high
    );
}

fn verdicts() {
    println!(
        "\nhow many times faster than the other side (median of paired rounds, 95 % interval)"
    );
    for (what, list) in [("add", List::Memory), ("reserve", List::Reserved)] {
        for (order, random) in [("sorted", false), ("random", true)] {
            for size in SIZES {
                let both = Additions::new(size, list, random);
                let bound = if size == 10_000 { 5.0 } else { 1.0 };
                let copies = (20_000 / size).clamp(1, 64) as usize;
                judge(
                    &format!("{what}-{order} {size}, to C"),
                    bound,
                    || {
                        let mut rust = vec![both.rust.clone(); copies];
                        timed(|| rust.iter_mut().for_each(|rust| both.run_rust(rust)))
                    },
                    || {
                        let mut c = vec![both.c.clone(); copies];
                        timed(|| c.iter_mut().for_each(|c| both.run_c(c)))
                    },
                );
            }
        }
    }
    for size in SIZES {
        let searches = Searches::new(size);
        let runs: [(&str, Search); 3] = [
            ("is_memory", Searches::search),
            ("search_pfn_nid", Searches::search_nid),
            ("next_valid_pfn", Searches::next_valid),
        ];
        for (name, run) in runs {
            judge(
                &format!("{name} {size}, to a bare search"),
                0.5,
                || best(|| run(black_box(&searches))),
                || best(|| black_box(&searches).bare()),
            );
        }
    }
    let merges = Merges::new();
    judge(
        "free_ranges 100000, to a merge",
        0.5,
        || best(|| black_box(&merges).by_iterator()),
        || best(|| black_box(&merges).by_hand()),
    );
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    additions(&mut criterion);
    searches(&mut criterion);
    merges(&mut criterion);
    criterion.final_summary();
    // not where the program only lists or tries its benchmarks, or was asked for some of them
    let mut asked = std::env::args().skip(1);
    if std::env::var_os("VERDICTS").is_some() || asked.all(|it| it == "--bench") {
        verdicts();
    }
}
