//! What every struct page is, run by run.

use alloc::vec::Vec;

use memblock::{NodeId, PfnRange};

use crate::profile::ZoneIndex;

/// What a page is, and with it what its struct page holds, once boot is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PageKind {
    /// Handed to the page allocator. Its struct page is given as it is after that, for a page
    /// that heads no block: no reference, links to itself.
    Free,
    /// Memory or a gap that somebody reserved.
    Reserved,
    /// Memory that the kernel does not map.
    NoMap,
    /// No memory, but a struct page.
    Hole,
    /// Initialised and then left alone: neither reserved nor free.
    Initialised,
    /// Nobody writes its struct page.
    Untouched,
}

/// When a struct page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Before the page allocator is up.
    Early,
    /// By the threads that finish initialisation.
    Deferred,
}

/// Pages whose struct pages differ in nothing but their own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageRun {
    /// The frames.
    pub pfns: PfnRange,
    /// The node that the struct pages name.
    pub node: NodeId,
    /// The zone that they name; one past the last for some reserved pages outside memory.
    pub zone: ZoneIndex,
    /// What the pages are.
    pub kind: PageKind,
    /// When their struct pages are written.
    pub phase: Phase,
}

impl PageRun {
    pub(crate) fn cut(self, pfns: PfnRange) -> Option<Self> {
        (!pfns.is_empty()).then_some(Self { pfns, ..self })
    }

    fn continues_in(&self, next: &Self) -> bool {
        self.pfns.end() == next.pfns.start()
            && (self.node, self.zone, self.kind, self.phase)
                == (next.node, next.zone, next.kind, next.phase)
    }
}

/// Runs that are sorted and disjoint but while they are collected.
#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: Vec<PageRun>,
}

impl Runs {
    pub(super) const fn new() -> Self {
        Self { runs: Vec::new() }
    }

    pub(super) fn push(&mut self, run: PageRun) {
        self.runs.push(run);
    }

    pub(super) fn append(&mut self, other: Self) {
        self.runs.extend(other.runs);
    }

    pub(super) fn sort(&mut self) {
        self.runs.sort_unstable_by_key(|run| run.pfns.start());
        debug_assert!(
            self.runs
                .is_sorted_by(|a, b| a.pfns.end() <= b.pfns.start())
        );
    }

    /// Adds, as untouched, what lies in `valid` (sorted, disjoint) and in no run: memory outside
    /// every zone, and the tail of a FLATMEM array. Every struct page is in a run then.
    pub(super) fn cover(&mut self, valid: &[PfnRange]) {
        let mut all = Vec::with_capacity(self.runs.len());
        let untouched = |from, to| {
            let run = PageRun {
                pfns: PfnRange::new(from, to),
                node: NodeId::new(0),
                zone: ZoneIndex(0),
                kind: PageKind::Untouched,
                phase: Phase::Early,
            };
            (from < to).then_some(run)
        };
        let mut next = 0;
        for valid in valid {
            let mut at = valid.start();
            while next < self.runs.len() && self.runs[next].pfns.start() < valid.end() {
                all.extend(untouched(at, self.runs[next].pfns.start()));
                at = self.runs[next].pfns.end();
                all.push(self.runs[next]);
                next += 1;
            }
            all.extend(untouched(at, valid.end()));
        }
        self.runs = all;
    }

    /// Puts `over` (sorted, disjoint) on top of what is there.
    pub(super) fn paint(&mut self, over: impl IntoIterator<Item = PageRun>) {
        let over: Vec<_> = over.into_iter().collect();
        let mut painted = Vec::with_capacity(self.runs.len() + 2 * over.len());
        let mut next = 0;
        for run in self.runs.drain(..) {
            let mut at = run.pfns.start();
            while next < over.len() && over[next].pfns.end() <= at {
                painted.push(over[next]);
                next += 1;
            }
            let mut k = next;
            while k < over.len() && over[k].pfns.start() < run.pfns.end() {
                painted.extend(run.cut(PfnRange::new(at, over[k].pfns.start())));
                at = at.max(over[k].pfns.end());
                // what reaches beyond this run is pushed when the run behind it is done
                if over[k].pfns.end() <= run.pfns.end() {
                    painted.push(over[k]);
                    next = k + 1;
                }
                k += 1;
            }
            painted.extend(run.cut(PfnRange::new(at, run.pfns.end())));
        }
        painted.extend_from_slice(&over[next..]);
        self.runs = painted;
    }

    /// Replaces the parts of runs that lie in `over` (sorted, disjoint) by what `change` makes of
    /// them; parts that no run covers are left out.
    pub(super) fn overlay<T>(
        &mut self,
        over: &[(PfnRange, T)],
        mut change: impl FnMut(PageRun, &T) -> PageRun,
    ) {
        let mut changed = Vec::with_capacity(self.runs.len() + 2 * over.len());
        let mut next = 0;
        for run in self.runs.drain(..) {
            while next < over.len() && over[next].0.end() <= run.pfns.start() {
                next += 1;
            }
            let mut at = run.pfns.start();
            for (pfns, what) in &over[next..] {
                let Some(shared) = run.pfns.intersection(*pfns) else {
                    break;
                };
                changed.extend(run.cut(PfnRange::new(at, shared.start())));
                changed.push(change(
                    PageRun {
                        pfns: shared,
                        ..run
                    },
                    what,
                ));
                at = shared.end();
            }
            changed.extend(run.cut(PfnRange::new(at, run.pfns.end())));
        }
        self.runs = changed;
    }

    /// The runs, with equal neighbours joined.
    pub(super) fn finish(self) -> Vec<PageRun> {
        let mut joined: Vec<PageRun> = Vec::with_capacity(self.runs.len());
        for run in self.runs {
            match joined.last_mut() {
                Some(last) if last.continues_in(&run) => {
                    last.pfns = PfnRange::new(last.pfns.start(), run.pfns.end());
                }
                _ => joined.push(run),
            }
        }
        joined
    }
}
