//! Time to plan a host of 216 nodes, by the number of its memory ranges: linear in ranges, whatever
//! the number of sections.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use deferred_init::plan::{Plan, PlanRun, SectionShape, Work};
use deferred_init::topology::synthetic;
use deferred_init::workers::{Pinning, WorkerChoice, choose};
use memblock::NodeId;

const SHAPE: SectionShape = SectionShape {
    pages: 0x8000,
    bytes: 2 << 20,
};
const NODES: u64 = 216;

fn runs(ranges: u64, sections: u64) -> Vec<PlanRun> {
    (0..ranges)
        .map(|range| {
            let start = range * (sections + 1);
            PlanRun {
                node: NodeId::new((range * NODES / ranges) as u16),
                zone: 2,
                sections: start..start + sections,
            }
        })
        .collect()
}

fn plan(c: &mut Criterion) {
    let host = synthetic::parse("numa:216(memory=1T) core:4").expect("the text is right");
    let wishes = WorkerChoice {
        pinning: Pinning::Off,
        ..WorkerChoice::default()
    };
    let seats = choose(&host, &wishes).expect("every node has CPUs");
    let mut group = c.benchmark_group("plan of 216 nodes");
    for (ranges, sections) in [(1024, 8), (1024, 8000), (2048, 8), (4096, 8), (8192, 8)] {
        group.throughput(Throughput::Elements(ranges));
        let input = runs(ranges, sections);
        let id = BenchmarkId::new(format!("{sections} sections a range"), ranges);
        group.bench_with_input(id, &input, |b, input| {
            b.iter(|| {
                let plan = Plan::from_runs(SHAPE, input.iter().cloned()).expect("no overlap");
                black_box(Work::new(&plan, &host, &seats, 1).sections())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, plan);
criterion_main!(benches);
