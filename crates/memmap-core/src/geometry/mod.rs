//! From a machine's memory to what its struct pages will be.
//!
//! A [`Geometry`] holds what Linux works out at boot before and while it initialises struct
//! pages: zone limits, nodes and their zones, present sections, gaps, where the late part begins,
//! and, as runs, what every struct page is. It is a plain value; nothing is written yet.
//!
//! # Implementation
//! The order is Linux's: limits, movable starts, nodes, sections, the walk over memory, reserved
//! pages, free pages. Each step works on sorted ranges, so the cost grows with the number of
//! ranges, never with the span.

mod error;
mod input;
mod limits;
mod movable;
mod node;
mod options;
mod query;
mod reserved;
mod runs;
mod sections;
mod walk;

pub use error::{GeometryError, OptionError};
pub use input::MemoryRange;
pub use limits::ZoneLimits;
pub use node::{Node, Zone};
pub use options::{BootOptions, CoreSize};
pub use runs::{PageKind, PageRun, Phase};
pub use sections::{SectionNr, SectionRun, Sections};
pub use walk::Hole;

use alloc::vec::Vec;

use memblock::{Memblock, PfnRange};

use crate::profile::Profile;

use input::Input;
use walk::Walk;

/// What Linux works out about a machine's memory at boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    profile: Profile,
    limits: ZoneLimits,
    memory: Vec<MemoryRange>,
    nodes: Vec<Node>,
    sections: Sections,
    holes: Vec<Hole>,
    runs: Vec<PageRun>,
    warnings: Vec<&'static str>,
    dma_reserve: Option<u64>,
    mirror_overlap: bool,
}

impl Geometry {
    /// Works out the geometry of `memblock`, in its state at hand-over, under `profile`.
    ///
    /// Linux: mm/mm_init.c, `free_area_init` and `memmap_init`; mm/memblock.c,
    /// `memblock_free_all`.
    ///
    /// # Errors
    /// - [`GeometryError::NoMemory`] where no region holds a whole page.
    /// - [`GeometryError::MemoryWithoutNode`] where only some regions name a node.
    /// - [`GeometryError::NodeTooLarge`] for a node that the profile has no bits for.
    /// - [`GeometryError::TooManyPercent`] for `kernelcore=101%`.
    #[doc(alias = "free_area_init")]
    pub fn new(
        profile: &Profile,
        memblock: &Memblock,
        options: &BootOptions,
    ) -> Result<Self, GeometryError> {
        let input = Input::new(profile, memblock, options)?;
        let limits = ZoneLimits::new(profile, &input, options);
        let movable = movable::movable_starts(profile, &input, &limits, options)?;
        let mut nodes = node::nodes(profile, &input, &limits, &movable, options);
        let sections = Sections::new(profile, &input.memory);

        let deferral = profile.deferred_init && !options.early_page_ext;
        let overlap = movable.mirror && profile.behaviours.mirror_overlap;
        let mut walk = Walk::new(profile, &sections, overlap, deferral);
        walk.memory(&input.memory, &mut nodes);
        let (mut runs, holes) = (walk.runs, walk.holes);
        runs.cover(sections.valid_ranges());

        reserved::mark_reserved(profile, &input, &sections, &nodes, &mut runs);
        let free: Vec<(PfnRange, ())> = input
            .free_pages(profile.page_shift)
            .into_iter()
            .map(|pfns| (pfns, ()))
            .collect();
        runs.overlay(&free, |mut run, ()| {
            let late = run.kind == PageKind::Untouched && run.phase == Phase::Deferred;
            if run.kind == PageKind::Initialised || late {
                run.kind = PageKind::Free;
            }
            run
        });
        Ok(Self {
            profile: profile.clone(),
            limits,
            memory: input.memory,
            nodes,
            sections,
            holes,
            runs: runs.finish(),
            warnings: movable.warnings,
            dma_reserve: options.dma_reserve,
            mirror_overlap: overlap,
        })
    }
}
