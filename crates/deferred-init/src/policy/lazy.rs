//! A memory map of which a section is written when one of its pages is first asked for.
//!
//! # Implementation
//! Beside the map itself there is a bit a section (whether it was asked for) and some numbers a node,
//! so that a machine of many terabytes is ready at once. A page of a section that was asked for
//! before is read without a lock: two loads, and the page's words.

use std::time::{Duration, Instant};

use memblock::{NodeId, Pfn};
use memmap_core::buddy::{AllocError, Allocator, HandOver, Request};
use memmap_core::writers::PageWriter;
use memmap_core::{
    Claim, Geometry, MemoryMap, ReadError, SectionNr, SectionRun, SectionState, StructPage,
};
use sys::SysError;
use tracing::{debug_span, field};

pub use super::ahead::Watermark;
use super::ahead::{Ahead, Job};
pub use super::touch::Touched;
use super::touch::{TouchFailure, Touchable, touch};
use crate::sync::{AtomicU64, Ordering};

/// A figure: no part of any protocol, and so of no interest to loom.
type Figure = std::sync::atomic::AtomicU64;

/// What is written lazily: a map alone, or one with a page allocator on top.
pub trait LazyPages: Send + Sync {
    /// The map.
    fn map(&self) -> &MemoryMap;

    /// Writes and publishes a claimed section.
    fn complete(&self, claim: Claim<'_>, writer: &dyn PageWriter);

    /// Sections' worth of free pages on a node, where that is known; otherwise sections that are
    /// written and were never asked for lie ahead.
    fn spare(&self, node: NodeId) -> Option<u64>;
}

impl LazyPages for MemoryMap {
    fn map(&self) -> &MemoryMap {
        self
    }

    fn complete(&self, mut claim: Claim<'_>, writer: &dyn PageWriter) {
        claim.write(writer);
        claim.publish();
    }

    fn spare(&self, _: NodeId) -> Option<u64> {
        None
    }
}

/// A section's free lists are joined to the zones' when it is written, so their order is that in which
/// sections were asked for.
impl LazyPages for Allocator<MemoryMap> {
    fn map(&self) -> &MemoryMap {
        self.pages()
    }

    fn complete(&self, mut claim: Claim<'_>, writer: &dyn PageWriter) {
        let plan = HandOver::new(self.pages().geometry());
        let free = claim.write_and_hand_over(writer, &plan);
        claim.publish();
        self.join(&plan, &free);
    }

    fn spare(&self, node: NodeId) -> Option<u64> {
        let geometry = self.pages().geometry();
        let zones = &geometry.node(node)?.zones;
        let free = zones
            .iter()
            .map(|zone| self.zone_counts(node, zone.index).free);
        Some(free.sum::<u64>() / geometry.sections().pages_per_section())
    }
}

/// How sections are written.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LazyOptions {
    /// What with.
    pub writer: &'static dyn PageWriter,
    /// When more are written than were asked for; only a [`Drain`](super::Drain) does that.
    pub watermark: Watermark,
    /// How long to wait for a section that somebody else has claimed.
    pub patience: Duration,
}

impl LazyOptions {
    /// With a writer, the default watermark, and as much patience as Linux has with a CPU.
    pub fn new(writer: &'static dyn PageWriter) -> Self {
        Self {
            writer,
            watermark: Watermark::default(),
            patience: Duration::from_secs(22),
        }
    }

    /// With this watermark.
    #[must_use]
    pub fn watermark(mut self, watermark: Watermark) -> Self {
        self.watermark = watermark;
        self
    }

    /// Waiting no longer than this.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }
}

/// Why a page that was asked for cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LazyError {
    /// It has no struct page.
    #[error("section {section} is absent: its frames have no struct pages")]
    Absent {
        /// The section.
        section: SectionNr,
    },
    /// There is no memory for its section's struct pages; asking again tries again.
    #[error("no memory for the struct pages of section {section}: {source}")]
    NoMemory {
        /// The section.
        section: SectionNr,
        /// What the system said.
        source: SysError,
    },
    /// Somebody else has claimed its section and does not go on.
    #[error(
        "section {section} is claimed by somebody else, who did not finish within {waited:?}; a claim that was lost is taken back by MemoryMap::recover"
    )]
    Stuck {
        /// The section.
        section: SectionNr,
        /// How long we waited.
        waited: Duration,
    },
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Who wrote how many sections so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LazyCounts {
    /// By those who asked for them.
    pub asked: u64,
    /// By drains.
    pub drained: u64,
    /// How often somebody waited for a section that somebody else was writing.
    pub waits: u64,
    /// The longest time that somebody who asked had to write or wait, ns.
    pub longest_ns: u64,
    /// The longest time that anybody took to write a section, ns.
    pub longest_write_ns: u64,
}

/// A memory map of which a section is written when one of its pages is first asked for.
///
/// Once, by whoever asks first; others who ask meanwhile wait, and afterwards nobody waits or locks.
/// [`MemoryMap::read`] asks for nothing: an unasked page is an error there
/// ([`ReadError::NotReady`]), and so it is with [`Lazy::peek`]. Behind host pointers its struct page
/// is all zero, or all ones where the backing was poisoned.
///
/// ```
/// use deferred_init::policy::{Lazy, LazyOptions};
/// use memblock::{Behaviour, Memblock, Pfn, PhysAddr, PhysRange};
/// use memmap_core::{BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile};
/// use memmap_core::writers;
///
/// let mut memory = Memblock::new(Behaviour::V6_12);
/// memory.add(PhysRange::from_size(PhysAddr::new(0), 1 << 46))?;
/// let profile = Profile::amd64(KernelVersion::V6_12);
/// let geometry = Geometry::new(&profile, &memory, &BootOptions::default())?;
/// // 1 TiB of struct pages, of which next to nothing will be there
/// let mut backing = BackingOptions::default();
/// backing.memory_limit = Some(1 << 40);
/// let map = MemoryMap::new(geometry, backing)?;
/// let lazy = Lazy::new(map, LazyOptions::new(writers::by_name("template").expect("it exists")));
/// let page = Pfn::new((1 << 45) >> 12);
/// assert!(lazy.peek(page).is_err());
/// assert_eq!(lazy.read(page)?.refcount(), 0);
/// assert!(lazy.peek(page).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Lazy<P = MemoryMap> {
    pages: P,
    options: LazyOptions,
    nodes: Vec<NodeSections>,
    ahead: Ahead,
    /// A bit a section, by rank: whether it was asked for.
    asked: Vec<AtomicU64>,
    wrote: Figure,
    drained: Figure,
    waits: Figure,
    longest_ns: Figure,
    longest_write_ns: Figure,
}

/// The sections that belong to a node, in runs.
#[derive(Debug)]
struct NodeSections {
    node: NodeId,
    // each with the number of sections before it
    runs: Vec<(u64, SectionRun)>,
    count: u64,
}

fn by_node(geometry: &Geometry) -> Vec<NodeSections> {
    let mut nodes: Vec<NodeSections> = Vec::new();
    for run in geometry.sections().runs() {
        let at = match nodes.binary_search_by_key(&run.early_node, |node| node.node) {
            Ok(at) => at,
            Err(at) => {
                let node = NodeSections {
                    node: run.early_node,
                    runs: Vec::new(),
                    count: 0,
                };
                nodes.insert(at, node);
                at
            }
        };
        let node = &mut nodes[at];
        node.runs.push((node.count, *run));
        node.count += run.count;
    }
    nodes
}

impl NodeSections {
    fn section(&self, position: u64) -> Option<SectionNr> {
        let after = self.runs.partition_point(|(before, _)| *before <= position);
        let (before, run) = self.runs[..after].last()?;
        let offset = position - before;
        (offset < run.count).then_some(SectionNr(run.first.0 + offset))
    }
}

impl<P: LazyPages> Lazy<P> {
    /// What `pages` has, to be written as it is asked for. Sections that are ready already stay so.
    pub fn new(pages: P, options: LazyOptions) -> Self {
        let geometry = pages.map().geometry();
        let nodes = by_node(geometry);
        let words = geometry.sections().count().div_ceil(64);
        Self {
            ahead: Ahead::new(nodes.iter().map(|node| node.count), options.watermark),
            asked: (0..words).map(|_| AtomicU64::new(0)).collect(),
            nodes,
            pages,
            options,
            wrote: Figure::new(0),
            drained: Figure::new(0),
            waits: Figure::new(0),
            longest_ns: Figure::new(0),
            longest_write_ns: Figure::new(0),
        }
    }

    /// What is written lazily.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// The same, for good: what was not asked for stays pending, and anybody may write it.
    pub fn into_pages(self) -> P {
        self.pages
    }

    /// The map.
    pub fn map(&self) -> &MemoryMap {
        self.pages.map()
    }

    /// Who wrote how much so far.
    pub fn counts(&self) -> LazyCounts {
        // Relaxed: figures, each true by itself
        LazyCounts {
            asked: self.wrote.load(Ordering::Relaxed),
            drained: self.drained.load(Ordering::Relaxed),
            waits: self.waits.load(Ordering::Relaxed),
            longest_ns: self.longest_ns.load(Ordering::Relaxed),
            longest_write_ns: self.longest_write_ns.load(Ordering::Relaxed),
        }
    }

    /// Sections that lie ahead on a node: its free pages, by sections, where there is an allocator,
    /// else what is written and was never asked for. `None` for a node without sections.
    pub fn ahead(&self, node: NodeId) -> Option<u64> {
        let place = self.place(node)?;
        Some(self.ahead_of(place))
    }

    fn place(&self, node: NodeId) -> Option<usize> {
        self.nodes
            .binary_search_by_key(&node, |node| node.node)
            .ok()
    }

    fn ahead_of(&self, place: usize) -> u64 {
        let spare = self.pages.spare(self.nodes[place].node);
        spare.unwrap_or_else(|| self.ahead.of(place))
    }

    /// Asks for a section: when this returns it is ready, whoever wrote it.
    ///
    /// # Errors
    /// - [`LazyError::Absent`] where it has no struct pages.
    /// - [`LazyError::NoMemory`] where there is no memory for them; it is still pending then.
    /// - [`LazyError::Stuck`] where somebody else has claimed it and does not finish.
    ///
    /// # Panics
    /// Where the page writer does; the section is pending again then.
    pub fn touch(&self, section: SectionNr) -> Result<Touched, LazyError> {
        let sections = self.map().geometry().sections();
        let Some(run) = sections.run_of(section) else {
            // memory that came later, or nothing: whoever added it has to write it
            return self.ensure(section, false);
        };
        let rank = run.rank + (section.0 - run.first.0);
        let (word, bit) = (&self.asked[(rank / 64) as usize], 1 << (rank % 64));
        // Relaxed: the bit says only who counts; what is ready the section's state says
        let known = word.load(Ordering::Relaxed) & bit != 0;
        if known && self.map().section_state(section) == SectionState::Ready {
            return Ok(Touched::Ready);
        }
        let touched = self.ensure(section, false)?;
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0
            && let Some(place) = self.place(run.early_node)
        {
            self.ahead.asked(place);
            self.ahead.look(place, self.ahead_of(place));
        }
        Ok(touched)
    }

    /// A copy of the struct page of `pfn`, which is asked for.
    ///
    /// # Errors
    /// As [`Lazy::touch`], and [`LazyError::Read`] for a frame that has no struct page.
    pub fn read(&self, pfn: Pfn) -> Result<StructPage, LazyError> {
        let map = self.map();
        if !map.pfn_valid(pfn) {
            return Err(ReadError::NoStructPage { pfn }.into());
        }
        let pages = map.geometry().sections().pages_per_section();
        self.touch(SectionNr::of(pfn, pages))?;
        Ok(map.read(pfn)?)
    }

    /// A copy of the struct page of `pfn`, which is not asked for by that.
    ///
    /// # Errors
    /// As [`MemoryMap::read`]: [`ReadError::NotReady`] where nobody asked before.
    pub fn peek(&self, pfn: Pfn) -> Result<StructPage, ReadError> {
        self.map().read(pfn)
    }

    fn ensure(&self, section: SectionNr, drain: bool) -> Result<Touched, LazyError> {
        if self.map().section_state(section) == SectionState::Ready {
            return Ok(Touched::Ready);
        }
        let began = Instant::now();
        let who = Asker { lazy: self, drain };
        let touched = touch(&who, section.0, self.options.patience);
        let touched = touched.map_err(|failure| match failure {
            TouchFailure::Absent => LazyError::Absent { section },
            TouchFailure::Write(source) => LazyError::NoMemory { section, source },
            TouchFailure::Stuck(waited) => LazyError::Stuck { section, waited },
        })?;
        if !drain {
            self.longest_ns.fetch_max(nanos(began), Ordering::Relaxed);
            if touched == Touched::Waited {
                self.waits.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(touched)
    }

    /// One step of a drain that looks at the node `first` before others.
    pub(super) fn drain_step(&self, first: usize) -> Result<Step, LazyError> {
        let job = self.ahead.job(first, &|place| self.ahead_of(place));
        let Job::Section { node, position } = job else {
            return Ok(match job {
                Job::Done => Step::Done,
                _ => Step::Enough,
            });
        };
        let mut in_hand = InHand {
            lazy: self,
            node,
            position,
            written: false,
        };
        let touched = match self.nodes[node].section(position) {
            Some(section) => self.ensure(section, true)?,
            None => Touched::Ready,
        };
        in_hand.written = true;
        Ok(match touched {
            Touched::Wrote => Step::Wrote,
            _ => Step::Passed,
        })
    }

    pub(super) fn bell(&self) -> &Ahead {
        &self.ahead
    }

    /// The place of a node, for drains; that of the first one where it has no sections.
    pub(super) fn place_or_first(&self, node: NodeId) -> usize {
        self.place(node).unwrap_or(0)
    }
}

impl Lazy<Allocator<MemoryMap>> {
    /// Allocates `2^order` pages, and tells drains where the node's free pages fall short of the
    /// watermark. A zone that has run out grows by what the allocator has for that
    /// ([`OnDemand`](super::OnDemand)).
    ///
    /// # Errors
    /// As [`Allocator::alloc_pages`].
    pub fn alloc_pages(&self, request: Request) -> Result<Pfn, AllocError> {
        let page = self.pages.alloc_pages(request);
        if let Some(place) = self.place(request.node) {
            self.ahead.look(place, self.ahead_of(place));
        }
        page
    }
}

/// Time since then, ns.
fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// What a step of a drain did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It wrote a section.
    Wrote,
    /// It found one written.
    Passed,
    /// It found enough ahead.
    Enough,
    /// It found nothing pending.
    Done,
}

/// A section that a drain has in hand: given back where it could not be written.
struct InHand<'l, P: LazyPages> {
    lazy: &'l Lazy<P>,
    node: usize,
    position: u64,
    written: bool,
}

impl<P: LazyPages> Drop for InHand<'_, P> {
    fn drop(&mut self) {
        let ahead = &self.lazy.ahead;
        match self.written {
            true => ahead.done(self.node, self.lazy.ahead_of(self.node)),
            // a writer that panicked, or memory that is short: whoever drains next looks there again
            false => ahead.give_back(self.node, self.position),
        }
    }
}

/// Somebody who writes sections of a lazy map.
struct Asker<'l, P> {
    lazy: &'l Lazy<P>,
    drain: bool,
}

impl<P: LazyPages> Touchable for Asker<'_, P> {
    type Error = SysError;

    fn state(&self, section: u64) -> SectionState {
        self.lazy.map().section_state(SectionNr(section))
    }

    fn write(&self, section: u64) -> Result<bool, SysError> {
        let lazy = self.lazy;
        let Some(mut claim) = lazy.map().claim(SectionNr(section)) else {
            return Ok(false);
        };
        let span = debug_span!(
            "touch",
            node = claim.node().get(),
            section,
            first_pfn = claim.pfns().start().get(),
            pages = claim.pfns().len(),
            bytes = claim.bytes(),
            writer = lazy.options.writer.name(),
            drain = self.drain,
            ns = field::Empty,
        );
        let began = Instant::now();
        let node = claim.node();
        // what fails from here on drops the claim, and the section is pending again
        claim.populate()?;
        lazy.pages.complete(claim, lazy.options.writer);
        let ns = nanos(began);
        span.record("ns", ns);
        lazy.longest_write_ns.fetch_max(ns, Ordering::Relaxed);
        let count = match self.drain {
            true => &lazy.drained,
            false => &lazy.wrote,
        };
        count.fetch_add(1, Ordering::Relaxed);
        if let Some(place) = lazy.place(node) {
            lazy.ahead.written(place);
        }
        Ok(true)
    }
}
