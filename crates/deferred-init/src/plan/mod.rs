//! What is to be done, decided before any thread runs.
//!
//! A [`Plan`] lists runs of sections by node and zone. It is run-length coded: its size, and the
//! time to make it, grow with the number of memory ranges, not with sections. [`Shard`]s (the pieces
//! that workers take) are derived when they are asked for. A plan can be printed and compared, and is
//! the same for the same input.
//!
//! [`Work`] is a plan laid over workers: which group of workers serves which nodes.

mod work;

use std::fmt;
use std::ops::Range;

use memblock::{NodeId, Pfn, PfnRange};
use memmap_core::{Geometry, Phase};

pub use work::{GroupWork, Piece, Work};

/// Sections that follow each other, belong to one node, and start in one zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlanRun {
    /// The node whose memory holds their struct pages.
    pub node: NodeId,
    /// The zone of their first page, as the kernel numbers zones.
    pub zone: u8,
    /// Section numbers, half-open.
    pub sections: Range<u64>,
}

impl PlanRun {
    /// How many sections it has.
    pub fn len(&self) -> u64 {
        self.sections.end - self.sections.start
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The size of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SectionShape {
    /// Pages of a section.
    pub pages: u64,
    /// Bytes of its struct pages.
    pub bytes: u64,
}

/// Why runs make no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A section that two runs hold.
    #[error("section {section} is planned for node {first} and again for node {second}")]
    Overlap {
        /// The section.
        section: u64,
        /// Node of the first run.
        first: NodeId,
        /// Node of the second run.
        second: NodeId,
    },
    /// A section without pages, or whose struct pages have no size.
    #[error("a section of {pages} pages in {bytes} bytes cannot be written", pages = .0.pages, bytes = .0.bytes)]
    EmptySection(SectionShape),
    /// Section numbers whose frames do not fit 64 bits.
    #[error("section {0} lies beyond the last frame")]
    BeyondFrames(u64),
}

/// Runs of sections by node, zone and number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    shape: SectionShape,
    // sorted by node, then by section; no two that could be one
    runs: Vec<PlanRun>,
}

impl Plan {
    /// Plans all present sections of a machine.
    ///
    /// A section belongs to the node whose memory comes first in it, as the kernel places its struct
    /// pages, and is named by the zone of its first page.
    ///
    /// # Errors
    /// [`PlanError`]; none for a geometry that `memmap_core` made.
    pub fn new(geometry: &Geometry) -> Result<Self, PlanError> {
        let sections = geometry.sections();
        let pages = sections.pages_per_section();
        let shape = SectionShape {
            pages,
            bytes: pages * u64::from(geometry.profile().struct_page_bytes),
        };
        // Both lists are sorted: each run of sections is cut where the zone of first pages changes.
        let mut page_runs = geometry.page_runs().iter().peekable();
        let mut runs: Vec<PlanRun> = Vec::new();
        for present in sections.runs() {
            let end = present.first.0 + present.count;
            let mut at = present.first.0;
            while at < end {
                let first = Pfn::new(at * pages);
                while page_runs.next_if(|run| run.pfns.end() <= first).is_some() {}
                let (zone, until) = match page_runs.peek() {
                    Some(run) if run.pfns.start() <= first => {
                        (run.zone.0, run.pfns.end().get().div_ceil(pages))
                    }
                    // no page of this section is described before the next run
                    Some(run) => (run.zone.0, (run.pfns.start().get() / pages).max(at + 1)),
                    None => (0, end),
                };
                let until = until.clamp(at + 1, end);
                let node = present.early_node;
                match runs.last_mut() {
                    Some(last) if (last.node, last.zone, last.sections.end) == (node, zone, at) => {
                        last.sections.end = until;
                    }
                    _ => runs.push(PlanRun {
                        node,
                        zone,
                        sections: at..until,
                    }),
                }
                at = until;
            }
        }
        Self::from_runs(shape, runs)
    }

    /// Makes a plan of runs in any order; runs that continue each other are joined.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn from_runs(
        shape: SectionShape,
        runs: impl IntoIterator<Item = PlanRun>,
    ) -> Result<Self, PlanError> {
        if shape.pages == 0 || shape.bytes == 0 {
            return Err(PlanError::EmptySection(shape));
        }
        let mut runs: Vec<PlanRun> = runs
            .into_iter()
            .filter(|run| run.sections.start < run.sections.end)
            .collect();
        runs.sort_unstable_by_key(|run| run.sections.start);
        if let Some(last) = runs.last()
            && last.sections.end.checked_mul(shape.pages).is_none()
        {
            return Err(PlanError::BeyondFrames(last.sections.end - 1));
        }
        for pair in runs.windows(2) {
            if pair[1].sections.start < pair[0].sections.end {
                return Err(PlanError::Overlap {
                    section: pair[1].sections.start,
                    first: pair[0].node,
                    second: pair[1].node,
                });
            }
        }
        runs.sort_by_key(|run| run.node);
        runs.dedup_by(|next, run| {
            let joins = (run.node, run.zone, run.sections.end)
                == (next.node, next.zone, next.sections.start);
            if joins {
                run.sections.end = next.sections.end;
            }
            joins
        });
        Ok(Self { shape, runs })
    }

    /// The part of this plan that Linux initialises in `phase`: before the page allocator is up, or
    /// by the threads that finish initialisation. A node's part begins at its `first_deferred_pfn`;
    /// a section that two nodes share goes with the first one.
    #[doc(alias = "first_deferred_pfn")]
    #[must_use]
    pub fn part(&self, geometry: &Geometry, phase: Phase) -> Self {
        let runs = self.runs.iter().filter_map(|run| {
            let late = geometry
                .first_deferred(run.node)
                .map_or(u64::MAX, |first| first.get() / self.shape.pages);
            let cut = late.clamp(run.sections.start, run.sections.end);
            let sections = match phase {
                Phase::Early => run.sections.start..cut,
                Phase::Deferred => cut..run.sections.end,
            };
            (!sections.is_empty()).then(|| PlanRun {
                sections,
                ..run.clone()
            })
        });
        Self {
            shape: self.shape,
            runs: runs.collect(),
        }
    }

    /// Size of a section.
    pub fn shape(&self) -> SectionShape {
        self.shape
    }

    /// Its runs, by node and section.
    pub fn runs(&self) -> &[PlanRun] {
        &self.runs
    }

    /// Nodes that have sections, ascending, each with its runs.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &[PlanRun])> {
        self.runs
            .chunk_by(|a, b| a.node == b.node)
            .filter_map(|runs| Some((runs.first()?.node, runs)))
    }

    /// Number of sections.
    pub fn sections(&self) -> u64 {
        self.runs.iter().map(PlanRun::len).sum()
    }

    /// Bytes of all struct pages.
    pub fn bytes(&self) -> u64 {
        self.sections() * self.shape.bytes
    }

    /// The shards of a node, at most `grain` sections each, by section.
    pub fn shards(&self, node: NodeId, grain: u64) -> impl Iterator<Item = Shard> + '_ {
        let grain = grain.max(1);
        let shape = self.shape;
        self.runs
            .iter()
            .filter(move |run| run.node == node)
            .flat_map(move |run| {
                (run.sections.start..run.sections.end)
                    .step_by(usize::try_from(grain).unwrap_or(usize::MAX))
                    .map(move |start| Shard {
                        node: run.node,
                        zone: run.zone,
                        sections: start..start.saturating_add(grain).min(run.sections.end),
                        shape,
                    })
            })
    }

    /// How many sections a worker takes at once so that it has at least 1 MiB to write: 1 unless
    /// sections are small.
    pub fn default_grain(&self) -> u64 {
        (1_u64 << 20).div_ceil(self.shape.bytes).max(1)
    }
}

/// A line for the whole and a line a run.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} sections of {} pages, {} bytes of struct pages each",
            self.sections(),
            self.shape.pages,
            self.shape.bytes
        )?;
        for run in &self.runs {
            writeln!(
                f,
                "node {} zone {} sections {}..{} ({})",
                run.node,
                run.zone,
                run.sections.start,
                run.sections.end,
                run.len()
            )?;
        }
        Ok(())
    }
}

/// What a worker takes at once: sections that follow each other in one run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    /// The node whose memory holds their struct pages.
    pub node: NodeId,
    /// The zone of the run's first page.
    pub zone: u8,
    /// Section numbers, half-open.
    pub sections: Range<u64>,
    shape: SectionShape,
}

impl Shard {
    /// Its frames.
    pub fn pfns(&self) -> PfnRange {
        PfnRange::new(
            Pfn::new(self.sections.start * self.shape.pages),
            Pfn::new(self.sections.end * self.shape.pages),
        )
    }

    /// Number of sections.
    pub fn count(&self) -> u64 {
        self.sections.end - self.sections.start
    }

    /// Bytes of its struct pages.
    pub fn bytes(&self) -> u64 {
        self.count() * self.shape.bytes
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    const SHAPE: SectionShape = SectionShape {
        pages: 0x8000,
        bytes: 2 << 20,
    };

    fn run(node: u16, zone: u8, sections: Range<u64>) -> PlanRun {
        PlanRun {
            node: NodeId::new(node),
            zone,
            sections,
        }
    }

    #[test]
    fn runs_are_sorted_joined_and_printed() {
        let runs = [
            run(1, 2, 20..24),
            run(0, 1, 1..16),
            run(0, 0, 0..1),
            run(1, 2, 16..20),
            run(0, 2, 40..48),
            run(0, 2, 48..48),
        ];
        let plan = Plan::from_runs(SHAPE, runs).unwrap();
        expect![[r#"
            32 sections of 32768 pages, 2097152 bytes of struct pages each
            node 0 zone 0 sections 0..1 (1)
            node 0 zone 1 sections 1..16 (15)
            node 0 zone 2 sections 40..48 (8)
            node 1 zone 2 sections 16..24 (8)
        "#]]
        .assert_eq(&plan.to_string());
        let shards: Vec<_> = plan.shards(NodeId::new(0), 6).map(|s| s.sections).collect();
        assert_eq!(shards, [0..1, 1..7, 7..13, 13..16, 40..46, 46..48]);
        assert_eq!(plan.default_grain(), 1);
    }

    #[test]
    fn impossible_runs_are_refused() {
        let twice = Plan::from_runs(SHAPE, [run(0, 0, 0..4), run(1, 0, 3..6)]);
        assert!(twice.unwrap_err().to_string().contains("section 3"));
        let far = Plan::from_runs(SHAPE, [run(0, 0, 0..u64::MAX)]);
        assert!(matches!(far, Err(PlanError::BeyondFrames(_))));
        let empty = SectionShape { pages: 0, bytes: 1 };
        assert!(Plan::from_runs(empty, []).is_err());
    }

    #[test]
    fn small_sections_are_taken_by_the_mebibyte() {
        let ppc64 = SectionShape {
            pages: 256,
            bytes: 256 * 56,
        };
        let plan = Plan::from_runs(ppc64, [run(0, 0, 0..1000)]).unwrap();
        assert_eq!(plan.default_grain(), 74);
    }

    proptest! {
        #[test]
        fn the_order_of_runs_makes_no_difference_and_shards_cover_them(
            cuts in proptest::collection::btree_set(0_u64..400, 2..30),
            nodes in proptest::collection::vec(0_u16..4, 30),
            seed in any::<u64>(),
            grain in 1_u64..9,
        ) {
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let runs: Vec<_> = cuts
                .windows(2)
                .zip(&nodes)
                .map(|(cut, node)| run(*node, (*node % 3) as u8, cut[0]..cut[1]))
                .collect();
            let mut shuffled = runs.clone();
            shuffled.sort_by_key(|run| (run.sections.start ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let plan = Plan::from_runs(SHAPE, runs.clone()).unwrap();
            prop_assert_eq!(&plan, &Plan::from_runs(SHAPE, shuffled).unwrap());
            let mut seen: Vec<(u64, u16)> = Vec::new();
            for (node, _) in plan.nodes() {
                for shard in plan.shards(node, grain) {
                    prop_assert!(shard.count() <= grain);
                    seen.extend(shard.sections.map(|section| (section, node.get())));
                }
            }
            seen.sort_unstable();
            let wanted: Vec<_> = runs
                .iter()
                .flat_map(|run| run.sections.clone().map(|section| (section, run.node.get())))
                .collect();
            prop_assert_eq!(seen, wanted);
        }
    }
}
