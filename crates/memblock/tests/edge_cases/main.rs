//! Known edge cases and historical bugs, each by what went wrong or what surprises.

#[path = "../common/mod.rs"]
mod common;

mod alloc;
mod growth;
mod limits;
mod lists;
mod pages;

use common::r;
use memblock::{Behaviour, Memblock, Pfn, PfnRange};

pub(crate) const ALL: [Behaviour; 4] = [
    Behaviour::V6_1,
    Behaviour::V6_12,
    Behaviour::V6_18,
    Behaviour::V7_3,
];

pub(crate) fn pfns(start: u64, end: u64) -> PfnRange {
    PfnRange::new(Pfn::new(start), Pfn::new(end))
}

pub(crate) fn memory(behaviour: Behaviour, ranges: &[(u64, u64)]) -> Memblock {
    let mut m = Memblock::new(behaviour);
    for &(start, end) in ranges {
        m.add(r(start, end)).unwrap();
    }
    m
}

pub(crate) fn mem_pfns(m: &Memblock) -> Vec<(u64, u64)> {
    m.mem_pfn_ranges(12, None)
        .map(|it| (it.0.start().get(), it.0.end().get()))
        .collect()
}

pub(crate) fn free_pfns(m: &Memblock) -> Vec<(u64, u64)> {
    m.free_pfn_ranges(12, pfns(0, u64::MAX), None)
        .map(|it| (it.start().get(), it.end().get()))
        .collect()
}
