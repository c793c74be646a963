//! What can be asked of a geometry.

use memblock::{NodeId, Pfn, PfnRange};

use crate::flags::FlagsLayout;
use crate::profile::Profile;

use super::{Geometry, MemoryRange, Node, PageRun, SectionNr, Sections, Zone, ZoneLimits};

impl Geometry {
    /// The kernel that it was worked out for.
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Where the fields of the flags word are.
    pub const fn flags_layout(&self) -> &FlagsLayout {
        self.profile.flags_layout()
    }

    /// The limits of zones, whatever the nodes.
    pub const fn zone_limits(&self) -> &ZoneLimits {
        &self.limits
    }

    /// Memory by whole pages, ascending.
    #[doc(alias = "for_each_mem_pfn_range")]
    pub fn memory(&self) -> &[MemoryRange] {
        &self.memory
    }

    /// Every node, ascending; those without memory and those that are not online too.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The nodes, for memory that comes and goes.
    pub(crate) fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// The node of that number.
    #[doc(alias = "NODE_DATA")]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        let at = self.nodes.binary_search_by_key(&id, |node| node.id).ok()?;
        Some(&self.nodes[at])
    }

    /// Every zone that has pages, node by node.
    #[doc(alias = "for_each_populated_zone")]
    pub fn populated_zones(&self) -> impl Iterator<Item = (&Node, &Zone)> {
        self.nodes.iter().flat_map(|node| {
            node.zones
                .iter()
                .filter(|zone| zone.is_populated())
                .map(move |zone| (node, zone))
        })
    }

    /// The present sections.
    pub const fn sections(&self) -> &Sections {
        &self.sections
    }

    /// What every struct page is: sorted, disjoint, covering every frame that has one.
    pub fn page_runs(&self) -> &[PageRun] {
        &self.runs
    }

    /// The runs that have pages in `pfns`, cut to it.
    pub fn page_runs_within(&self, pfns: PfnRange) -> impl Iterator<Item = PageRun> + '_ {
        let first = self
            .runs
            .partition_point(|run| run.pfns.end() <= pfns.start());
        self.runs[first..]
            .iter()
            .map_while(move |run| run.pfns.intersection(pfns).and_then(|part| run.cut(part)))
    }

    /// The run that holds `pfn`, or `None` where it has no struct page.
    pub fn page_run(&self, pfn: Pfn) -> Option<PageRun> {
        let after = self.runs.partition_point(|run| run.pfns.start() <= pfn);
        let run = self.runs[..after].last()?;
        run.pfns.contains(pfn).then_some(*run)
    }

    /// The first frame of `node` whose struct page is initialised late, or `None` where all are
    /// early.
    #[doc(alias = "first_deferred_pfn")]
    pub fn first_deferred(&self, node: NodeId) -> Option<Pfn> {
        self.node(node)?.first_deferred
    }

    /// Whether memory begins anywhere in the sub-section that holds `pfn` (2 MiB): its bit in the
    /// section's map.
    #[doc(alias = "subsection_map")]
    pub fn subsection_has_memory(&self, pfn: Pfn) -> bool {
        let sub = self.sections.subsection(pfn);
        let at = self
            .memory
            .partition_point(|range| range.pfns.end() <= sub.start());
        self.memory
            .get(at)
            .is_some_and(|range| range.pfns.overlaps(sub))
    }

    /// The node that a kernel which keeps nodes in a table of sections says `section` is on: that
    /// of the last memory in it. `None` where the section is absent.
    ///
    /// # Differences from Linux
    /// None: for sections shared by two nodes this is wrong for the first one's pages there too.
    #[doc(alias = "section_to_node_table")]
    pub fn section_table_node(&self, section: SectionNr) -> Option<NodeId> {
        self.sections.run_of(section)?;
        let pfns = section.pfns(self.sections.pages_per_section());
        let after = self
            .memory
            .partition_point(|range| range.pfns.start() < pfns.end());
        self.memory[..after]
            .last()
            .filter(|range| range.pfns.overlaps(pfns))
            .map(|range| range.node)
    }

    /// The largest power of two such that, between any two neighbouring ranges of different
    /// nodes, a multiple of it separates the two; in pages, 0 where there is one node.
    ///
    /// # Differences from Linux
    /// Starts that are multiples of 2^31 pages and more are right here; Linux shifts 32 bits.
    pub fn node_map_pfn_alignment(&self) -> u64 {
        let separating = |below: Pfn, start: Pfn| {
            // from large to small: the first whose multiple at or below `start` clears `below`
            (0..64)
                .rev()
                .map(|shift| 1u64 << shift)
                .find(|align| start.align_down(*align) >= below)
                .unwrap_or(1)
        };
        self.memory
            .windows(2)
            .filter(|pair| pair[0].node != pair[1].node)
            .map(|pair| separating(pair[0].pfns.end(), pair[1].pfns.start()))
            .min()
            .unwrap_or(0)
    }

    /// The range of memory that holds `pfn`, or `None` where it is no memory.
    #[doc(alias = "memblock_search_pfn_nid")]
    pub fn memory_at(&self, pfn: Pfn) -> Option<MemoryRange> {
        let after = self
            .memory
            .partition_point(|range| range.pfns.start() <= pfn);
        let range = self.memory[..after].last()?;
        range.pfns.contains(pfn).then_some(*range)
    }

    pub(crate) const fn dma_reserve_option(&self) -> Option<u64> {
        self.dma_reserve
    }

    /// Whether zones Normal and Movable overlap, as they do up to 7.2 with `kernelcore=mirror`.
    pub const fn mirror_overlap(&self) -> bool {
        self.mirror_overlap
    }

    /// What the kernel says about its options, beside the lines that every boot prints.
    pub fn warnings(&self) -> &[&'static str] {
        &self.warnings
    }
}
