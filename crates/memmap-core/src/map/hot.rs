//! Sections that come and go: the lower half of memory hotplug.
//!
//! Memory that is added needs struct pages. Where its section is not there yet, one is made; where
//! the section was there at boot, its struct pages are there too and only the bits of its
//! sub-sections (2 MiB) change. What the memory is used for, a zone of devices or memory blocks to
//! be onlined, is for the layers above; they call what is here in Linux's order: activate, move to
//! a zone, write the struct pages, and back.
//!
//! Everything here takes the map exclusively.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use memblock::{NodeId, Pfn, PfnRange};

use crate::backing::{Backing, MapError};
use crate::flags::PageFlag;
use crate::geometry::{Node, PageKind, PageRun, Phase, SectionNr, Zone};
use crate::image::PageImage;
use crate::profile::{HotAdded, MemoryModel, ZoneIndex, ZoneKind};
use crate::writers::PageWriter;

use super::{MemoryMap, SectionFlags, images};

/// Why memory cannot be added or removed. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HotplugError {
    /// Only kernels with a virtual memory map add memory.
    #[error("the profile's memory model is {0:?}; adding memory needs SparseVmemmap")]
    Model(MemoryModel),
    /// The frames are not whole sub-sections.
    #[error("frames {}-{} are not whole sub-sections of {pages} pages", pfns.start(), pfns.end())]
    Misaligned {
        /// The frames.
        pfns: PfnRange,
        /// Pages of a sub-section, or of what must be whole.
        pages: u64,
    },
    /// The frames are above what sections reach.
    #[error("frames {}-{} lie above {limit}, the highest that the profile's sections reach", pfns.start(), pfns.end())]
    BeyondSections {
        /// The frames.
        pfns: PfnRange,
        /// One past the highest frame.
        limit: Pfn,
    },
    /// Some of it is there already.
    #[error("{pfn} is there already")]
    AlreadyThere {
        /// The first such frame.
        pfn: Pfn,
    },
    /// Some of it is not there.
    #[error("{pfn} is not there, so it cannot be removed")]
    NotThere {
        /// The first such frame.
        pfn: Pfn,
    },
    /// No such node.
    #[error("{0:?} is not known: it must be online or possible")]
    Node(NodeId),
    /// No such zone.
    #[error("the profile has no {0:?}")]
    Zone(ZoneIndex),
    /// No memory for the struct pages.
    #[error("no memory for the struct pages")]
    Memory(#[from] MapError),
}

/// What became of a section since boot.
#[derive(Debug)]
struct HotSection {
    /// Its struct pages; `None` for sections that were there at boot.
    memory: Option<Backing>,
    /// Its sub-sections that were added.
    subsections: Vec<bool>,
    online: bool,
    tainted: bool,
}

/// Sections that were added, and those of boot time that something was added to.
#[derive(Debug, Default)]
pub(super) struct HotSections {
    sections: BTreeMap<u64, HotSection>,
}

impl HotSections {
    pub(super) fn memory(&self, section: SectionNr) -> Option<&Backing> {
        self.sections.get(&section.0)?.memory.as_ref()
    }

    pub(super) fn memory_mut(&mut self, section: SectionNr) -> Option<&mut Backing> {
        self.sections.get_mut(&section.0)?.memory.as_mut()
    }

    /// The section whose memory holds a host address, and the offset in bytes.
    pub(super) fn find(&self, address: usize) -> Option<(SectionNr, usize)> {
        self.sections.iter().find_map(|(section, hot)| {
            let (_, offset) = hot.memory.as_ref()?.find(address)?;
            Some((SectionNr(*section), offset))
        })
    }
}

impl MemoryMap {
    /// Adds struct pages for `pfns`: whole sections that were not there, or sub-sections.
    ///
    /// Struct pages of a new section hold zeroes and its state is pending: write them through
    /// [`MemoryMap::claim`] or [`MemoryMap::struct_pages_mut`].
    ///
    /// # Errors
    /// - [`HotplugError::Model`] without a virtual memory map.
    /// - [`HotplugError::Misaligned`] where `pfns` are not whole sub-sections, or none.
    /// - [`HotplugError::BeyondSections`] above what sections reach.
    /// - [`HotplugError::AlreadyThere`] where a sub-section has memory already.
    /// - [`HotplugError::Memory`] without memory for the struct pages.
    ///
    /// Linux: mm/sparse.c, `section_activate`; mm/memory_hotplug.c, `__add_pages`.
    #[doc(alias = "section_activate")]
    #[doc(alias = "sparse_add_section")]
    #[doc(alias = "__add_pages")]
    pub fn activate(&mut self, pfns: PfnRange) -> Result<(), HotplugError> {
        self.check_subsections(pfns)?;
        if let Some(pfn) = self.subsections(pfns).find(|pfn| self.has_subsection(*pfn)) {
            return Err(HotplugError::AlreadyThere { pfn });
        }
        let pages = self.geometry.sections().pages_per_section();
        let words = pages as usize * self.size.words();
        let mut fresh = Vec::new();
        for section in sections(pfns, pages) {
            let early = self.geometry.sections().rank(section).is_some();
            if !early && !self.hot.sections.contains_key(&section.0) {
                fresh.push((section, Backing::single(words, self.poison)?));
            }
        }
        let subsections = self.subsections_per_section();
        let empty = |memory: Option<Backing>| HotSection {
            online: memory.is_none(),
            memory,
            subsections: vec![false; subsections],
            tainted: false,
        };
        for (section, memory) in fresh {
            self.hot.sections.insert(section.0, empty(Some(memory)));
        }
        for section in sections(pfns, pages) {
            self.hot
                .sections
                .entry(section.0)
                .or_insert_with(|| empty(None));
        }
        self.mark(pfns, true);
        Ok(())
    }

    /// Takes the struct pages of `pfns` away, as they were added. Those of a section that was
    /// there at boot stay where they are.
    ///
    /// # Errors
    /// - [`HotplugError::Misaligned`] where `pfns` are not whole sub-sections, or none.
    /// - [`HotplugError::NotThere`] for a sub-section that was not added.
    ///
    /// Linux: mm/sparse.c, `section_deactivate`.
    #[doc(alias = "section_deactivate")]
    #[doc(alias = "sparse_remove_section")]
    #[doc(alias = "__remove_pages")]
    pub fn deactivate(&mut self, pfns: PfnRange) -> Result<(), HotplugError> {
        self.check_subsections(pfns)?;
        if let Some(pfn) = self.subsections(pfns).find(|pfn| !self.was_added(*pfn)) {
            return Err(HotplugError::NotThere { pfn });
        }
        self.mark(pfns, false);
        self.hot
            .sections
            .retain(|_, hot| hot.memory.is_none() || hot.subsections.contains(&true));
        Ok(())
    }

    fn mark(&mut self, pfns: PfnRange, there: bool) {
        let pages = self.geometry.sections().pages_per_section();
        let subsection = self.profile().pages_per_subsection();
        for pfn in self.subsections(pfns).collect::<Vec<_>>() {
            let section = SectionNr::of(pfn, pages);
            if let Some(hot) = self.hot.sections.get_mut(&section.0) {
                hot.subsections[(pfn.get() % pages / subsection) as usize] = there;
            }
        }
    }

    fn check_subsections(&self, pfns: PfnRange) -> Result<(), HotplugError> {
        let profile = self.profile();
        if profile.memory_model != MemoryModel::SparseVmemmap {
            return Err(HotplugError::Model(profile.memory_model));
        }
        let pages = profile.pages_per_subsection();
        if pfns.is_empty() || !pfns.start().is_aligned(pages) || !pfns.end().is_aligned(pages) {
            return Err(HotplugError::Misaligned { pfns, pages });
        }
        let limit = Pfn::new(1 << (profile.max_physmem_bits - profile.page_shift));
        if pfns.end() > limit {
            return Err(HotplugError::BeyondSections { pfns, limit });
        }
        Ok(())
    }

    fn subsections_per_section(&self) -> usize {
        let pages = self.geometry.sections().pages_per_section();
        (pages / self.profile().pages_per_subsection()) as usize
    }

    fn subsections(&self, pfns: PfnRange) -> impl Iterator<Item = Pfn> + use<> {
        let step = self.profile().pages_per_subsection();
        (pfns.start().get()..pfns.end().get())
            .step_by(step as usize)
            .map(Pfn::new)
    }

    /// Whether the sub-section of `pfn` has memory, from boot or added: its bit in the section's
    /// map.
    #[doc(alias = "pfn_section_valid")]
    #[doc(alias = "subsection_map_valid")]
    pub fn has_subsection(&self, pfn: Pfn) -> bool {
        self.geometry.subsection_has_memory(pfn) || self.was_added(pfn)
    }

    /// Whether the sub-section of `pfn` was added after boot.
    pub fn was_added(&self, pfn: Pfn) -> bool {
        let pages = self.geometry.sections().pages_per_section();
        let subsection = self.profile().pages_per_subsection();
        let section = SectionNr::of(pfn, pages);
        self.hot.sections.get(&section.0).is_some_and(|hot| {
            let at = (pfn.get() % pages / subsection) as usize;
            hot.subsections.get(at).copied().unwrap_or(false)
        })
    }

    /// The sections that were added after boot, ascending.
    pub fn added_sections(&self) -> impl Iterator<Item = SectionNr> + '_ {
        self.hot
            .sections
            .iter()
            .filter(|(_, hot)| hot.memory.is_some())
            .map(|(section, _)| SectionNr(*section))
    }

    /// The flags of a section's word; empty where it is absent.
    pub fn section_flags(&self, section: SectionNr) -> SectionFlags {
        let early = self.geometry.sections().rank(section).is_some();
        let hot = self.hot.sections.get(&section.0);
        let mut flags = match (early, hot) {
            (true, _) => {
                SectionFlags::PRESENT
                    | SectionFlags::HAS_MEM_MAP
                    | SectionFlags::ONLINE
                    | SectionFlags::EARLY
            }
            (false, Some(_)) => SectionFlags::PRESENT | SectionFlags::HAS_MEM_MAP,
            (false, None) => SectionFlags::empty(),
        };
        if let Some(hot) = hot {
            flags.set(SectionFlags::TAINT_ZONE_DEVICE, hot.tainted);
            flags.set(SectionFlags::ONLINE, hot.online);
        }
        flags
    }

    /// Marks whole added sections as online or not.
    #[doc(alias = "online_mem_sections")]
    #[doc(alias = "offline_mem_sections")]
    pub(crate) fn set_sections_online(&mut self, pfns: PfnRange, online: bool) {
        let pages = self.geometry.sections().pages_per_section();
        for section in sections(pfns, pages) {
            let early = self.geometry.sections().rank(section).is_some();
            if early {
                let subsections = self.subsections_per_section();
                self.hot.sections.entry(section.0).or_insert(HotSection {
                    memory: None,
                    subsections: vec![false; subsections],
                    online: true,
                    tainted: false,
                });
            }
            if let Some(hot) = self.hot.sections.get_mut(&section.0) {
                hot.online = online;
            }
        }
    }

    /// Writes the struct pages of `pfns` as free ones of a zone, or as the pages that hold the
    /// memory map of the memory they lie in.
    pub(crate) fn write_hot(
        &mut self,
        node: NodeId,
        zone: ZoneIndex,
        pfns: PfnRange,
        self_hosted: bool,
        writer: &dyn PageWriter,
    ) {
        let Some(address) = self.pfn_to_page(pfns.start()) else {
            return;
        };
        let reserved = self_hosted && self.profile().behaviours.hot_added == HotAdded::Reserved;
        let kind = match (self_hosted, reserved) {
            (false, _) => PageKind::Free,
            (true, true) => PageKind::Reserved,
            (true, false) => PageKind::Initialised,
        };
        let run = PageRun {
            pfns,
            node,
            zone,
            kind,
            phase: Phase::Early,
        };
        if let Some(mut image) = images::image(self.profile(), self.size, &run, address) {
            if self_hosted && self.profile().hvo {
                let flag = self
                    .geometry
                    .flags_layout()
                    .numbers()
                    .mask(PageFlag::OwnerPriv1);
                image = image.with_word(0, image.word(0, 0) | flag, 0);
            }
            self.write_struct_pages(pfns, &image, writer);
        }
    }

    /// A node with memory is online.
    pub(crate) fn online_node(&mut self, node: NodeId) -> Result<(), HotplugError> {
        self.node_mut(node)?.online = true;
        Ok(())
    }

    /// Makes a zone, and its node, span `pfns`. For the zone of devices, sections that `pfns`
    /// begin or end inside are marked as shared with a device.
    ///
    /// Struct pages are not written here, and present pages do not change.
    ///
    /// # Errors
    /// [`HotplugError::Node`], [`HotplugError::Zone`] for what there is not.
    ///
    /// Linux: mm/memory_hotplug.c, `move_pfn_range_to_zone`.
    #[doc(alias = "move_pfn_range_to_zone")]
    #[doc(alias = "resize_zone_range")]
    pub fn move_to_zone(
        &mut self,
        node: NodeId,
        zone: ZoneIndex,
        pfns: PfnRange,
    ) -> Result<(), HotplugError> {
        let found = self.zone_mut(node, zone)?;
        let span = join(found.span(), pfns);
        let device = found.kind == ZoneKind::Device;
        set_span(found, span);
        let node = self.node_mut(node)?;
        let whole = join(node.span, pfns);
        node.span = whole;
        node.spanned = whole.len();
        if device {
            let pages = self.geometry.sections().pages_per_section();
            for edge in [pfns.start(), pfns.end()] {
                if !edge.is_aligned(pages)
                    && let Some(hot) = self.hot.sections.get_mut(&(edge.get() / pages))
                {
                    hot.tainted = true;
                }
            }
        }
        Ok(())
    }

    /// Makes a zone that `pfns` have left span no more than it must, and its node too. Call it
    /// when they are no longer online.
    ///
    /// Only an end that `pfns` were at moves, to the nearest sub-section that is online and of the
    /// zone. The zone of devices keeps its span.
    ///
    /// # Errors
    /// [`HotplugError::Node`], [`HotplugError::Zone`] for what there is not.
    ///
    /// Linux: mm/memory_hotplug.c, `remove_pfn_range_from_zone`.
    #[doc(alias = "remove_pfn_range_from_zone")]
    #[doc(alias = "shrink_zone_span")]
    pub fn remove_from_zone(
        &mut self,
        node: NodeId,
        zone: ZoneIndex,
        pfns: PfnRange,
    ) -> Result<(), HotplugError> {
        let found = self.zone_mut(node, zone)?;
        if found.kind == ZoneKind::Device {
            return Ok(());
        }
        let span = found.span();
        let shrunk = if span.start() == pfns.start() {
            match self.edge(node, zone, PfnRange::new(pfns.end(), span.end()), false) {
                Some(first) => PfnRange::new(first, span.end()),
                None => PfnRange::default(),
            }
        } else if span.end() == pfns.end() {
            match self.edge(node, zone, PfnRange::new(span.start(), pfns.start()), true) {
                Some(last) => {
                    let end = last.saturating_add(self.profile().pages_per_subsection());
                    PfnRange::new(span.start(), end)
                }
                None => PfnRange::default(),
            }
        } else {
            span
        };
        set_span(self.zone_mut(node, zone)?, shrunk);
        let node = self.node_mut(node)?;
        let spans = node.zones.iter().map(Zone::span);
        node.span = spans
            .filter(|span| !span.is_empty())
            .fold(PfnRange::default(), join);
        node.spanned = node.span.len();
        Ok(())
    }

    /// The first or last sub-section of `pfns` that is online and of that zone, by its start.
    #[doc(alias = "find_smallest_section_pfn")]
    #[doc(alias = "find_biggest_section_pfn")]
    fn edge(&self, node: NodeId, zone: ZoneIndex, pfns: PfnRange, last: bool) -> Option<Pfn> {
        let step = self.profile().pages_per_subsection();
        let layout = self.geometry.flags_layout();
        let fits = |pfn: &Pfn| {
            self.pfn_to_online_page(*pfn).is_some()
                && self.read(*pfn).is_ok_and(|page| {
                    layout.node().get(page.flags()) == u64::from(node.get())
                        && layout.zone().get(page.flags()) == u64::from(zone.0)
                })
        };
        let count = pfns.len().div_ceil(step);
        let at = |i: u64| pfns.start().saturating_add(i * step);
        if last {
            // From the end downwards, in whole sub-sections.
            let end = pfns.end();
            (1..=count)
                .filter_map(|i| end.get().checked_sub(i * step).map(Pfn::new))
                .find(|pfn| *pfn >= pfns.start() && fits(pfn))
        } else {
            (0..count).map(at).find(fits)
        }
    }

    /// Changes a zone's and its node's present pages by `pages`.
    #[doc(alias = "adjust_present_page_count")]
    pub(crate) fn adjust_present(
        &mut self,
        node: NodeId,
        zone: ZoneIndex,
        pages: i64,
    ) -> Result<(), HotplugError> {
        let found = self.zone_mut(node, zone)?;
        found.present = found.present.saturating_add_signed(pages);
        let node = self.node_mut(node)?;
        node.present = node.present.saturating_add_signed(pages);
        Ok(())
    }

    fn node_mut(&mut self, node: NodeId) -> Result<&mut Node, HotplugError> {
        self.geometry
            .nodes_mut()
            .iter_mut()
            .find(|known| known.id == node)
            .ok_or(HotplugError::Node(node))
    }

    fn zone_mut(&mut self, node: NodeId, zone: ZoneIndex) -> Result<&mut Zone, HotplugError> {
        self.node_mut(node)?
            .zones
            .get_mut(zone.index())
            .ok_or(HotplugError::Zone(zone))
    }

    /// The words of the struct pages of `pfns`, which must lie in one section that is there. Its
    /// state is ready from now on.
    pub fn struct_pages_mut(&mut self, pfns: PfnRange) -> Option<&mut [u64]> {
        let pages = self.geometry.sections().pages_per_section();
        let section = SectionNr::of(pfns.start(), pages);
        if !section.pfns(pages).contains_range(pfns) {
            return None;
        }
        let words = match self.geometry.sections().rank(section) {
            Some(rank) => self.backing.ready_words(rank as usize)?,
            None => self.hot.memory_mut(section)?.open(0),
        };
        let size = self.size.words();
        let first = (pfns.start().get() % pages) as usize * size;
        words.get_mut(first..first + pfns.len() as usize * size)
    }

    /// Writes the struct pages of `pfns`, in any sections that are there, as `image` says: its
    /// first page is that of `pfns.start()`. Frames without a struct page are passed over.
    pub fn write_struct_pages(
        &mut self,
        pfns: PfnRange,
        image: &PageImage,
        writer: &dyn PageWriter,
    ) {
        let pages = self.geometry.sections().pages_per_section();
        for section in sections(pfns, pages) {
            if let Some(part) = section.pfns(pages).intersection(pfns) {
                let image = image.advance(part.start().get() - pfns.start().get());
                if let Some(words) = self.struct_pages_mut(part) {
                    writer.write(&image, words);
                }
            }
        }
    }
}

fn sections(pfns: PfnRange, pages: u64) -> impl Iterator<Item = SectionNr> {
    (pfns.start().get() / pages..pfns.end().get().div_ceil(pages)).map(SectionNr)
}

fn join(a: PfnRange, b: PfnRange) -> PfnRange {
    if a.is_empty() {
        return b;
    }
    PfnRange::new(a.start().min(b.start()), a.end().max(b.end()))
}

fn set_span(zone: &mut Zone, span: PfnRange) {
    zone.start = if span.is_empty() {
        Pfn::ZERO
    } else {
        span.start()
    };
    zone.spanned = span.len();
}
