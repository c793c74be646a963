//! Page writers and Linux's ways in C under criterion, each on its own.
//!
//! For watching one writer while it is being worked on. What is faster than what is judged by
//! `cargo xtask perf`, which runs all of them side by side.

use benches::kernel::{self, LinkedRun};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use memmap_core::{StructPageSize, limit, writers};

/// Pages of a run: as large as four sections' memmap, and beyond what a core has of its own.
const PAGES: usize = 4 * 32768;

fn writers(criterion: &mut Criterion) {
    for size in StructPageSize::ALL {
        let run = LinkedRun::new(size, 0x17_ffff_c000_0000, 0xffff_ea00_0000_0000, !0, 0);
        let image = run.image(size);
        let mut memory = vec![1_u64; PAGES * size.words()];
        let mut group = criterion.benchmark_group(format!("{}-byte pages", size.bytes()));
        group.throughput(Throughput::Elements(PAGES as u64));
        for writer in writers::all().iter().chain(writers::forced()) {
            group.bench_function(BenchmarkId::new("rust", writer.name()), |bench| {
                bench.iter(|| writer.write(&image, &mut memory));
            });
        }
        for way in kernel::all() {
            group.bench_function(BenchmarkId::new("c", way.name()), |bench| {
                bench.iter(|| way.write(size, &run, &mut memory));
            });
        }
        group.finish();
    }
}

fn fills(criterion: &mut Criterion) {
    let mut memory = vec![1_u64; PAGES * 8];
    let mut group = criterion.benchmark_group("streaming fills");
    group.throughput(Throughput::Bytes(size_of_val(memory.as_slice()) as u64));
    for fill in limit::fills().iter().filter(|fill| fill.is_available()) {
        group.bench_function(fill.name(), |bench| bench.iter(|| fill.run(&mut memory)));
    }
    group.finish();
}

criterion_group!(all, writers, fills);
criterion_main!(all);
