//! Sections that are written when they are asked for.
//!
//! What the policies "on-demand" and "lazy" leave pending is written here: a section whose page is
//! asked for, and, where an allocation runs short, sections of the zone.

use deferred_init::policy::{Lazy, LazyError, LazyOptions, LazyPages, OnDemand};
use memblock::{NodeId, Pfn};
use memmap_core::buddy::{Allocator, Grow};
use memmap_core::writers::PageWriter;
use memmap_core::{Claim, Geometry, MemoryMap, SectionNr, SectionState, ZoneIndex};

use crate::status::{Failure, di_status};

/// A machine's pages, borrowed for one question.
#[derive(Debug)]
struct Asked<'a>(&'a Allocator<MemoryMap>);

impl LazyPages for Asked<'_> {
    fn map(&self) -> &MemoryMap {
        self.0.pages()
    }

    fn complete(&self, claim: Claim<'_>, writer: &dyn PageWriter) {
        LazyPages::complete(self.0, claim, writer);
    }

    fn spare(&self, node: NodeId) -> Option<u64> {
        LazyPages::spare(self.0, node)
    }
}

/// Sees to it that a section is ready, whoever writes it.
fn touch(
    allocator: &Allocator<MemoryMap>,
    section: SectionNr,
    writer: &'static dyn PageWriter,
) -> Result<(), LazyError> {
    if allocator.pages().section_state(section) == SectionState::Ready {
        return Ok(());
    }
    // what it keeps is for drains, of which there are none here; beside writing a section, making
    // one costs little
    Lazy::new(Asked(allocator), LazyOptions::new(writer)).touch(section)?;
    Ok(())
}

/// Asks for the section of a frame of boot-time memory. Other frames are let pass: whoever added
/// their memory writes it.
pub(crate) fn ask(
    allocator: &Allocator<MemoryMap>,
    pfn: Pfn,
    writer: &'static dyn PageWriter,
) -> Result<(), Failure> {
    let map = allocator.pages();
    let sections = map.geometry().sections();
    let section = SectionNr::of(pfn, sections.pages_per_section());
    if sections.run_of(section).is_none() || !map.pfn_valid(pfn) {
        return Ok(());
    }
    touch(allocator, section, writer).map_err(|error| {
        let status = match error {
            LazyError::NoMemory { .. } => di_status::DI_HOST_MEMORY,
            LazyError::Stuck { .. } => di_status::DI_BUSY,
            _ => di_status::DI_NO_PAGE,
        };
        Failure::because(status, error)
    })
}

/// Growth of a lazy machine's zones: by what a kernel would have deferred, then by anything that
/// nobody asked for yet.
#[derive(Debug)]
pub(crate) struct GrowAny {
    deferred: OnDemand,
    writer: &'static dyn PageWriter,
}

impl GrowAny {
    pub(crate) fn boxed(
        geometry: &Geometry,
        writer: &'static dyn PageWriter,
    ) -> Box<dyn Grow<MemoryMap>> {
        let deferred = OnDemand::new(geometry, writer);
        Box::new(Self { deferred, writer })
    }
}

impl Grow<MemoryMap> for GrowAny {
    fn grow(
        &self,
        allocator: &Allocator<MemoryMap>,
        node: NodeId,
        zone: ZoneIndex,
        order: u8,
    ) -> bool {
        if self.deferred.grow(allocator, node, zone, order) {
            return true;
        }
        let map = allocator.pages();
        let geometry = map.geometry();
        let zones = geometry.node(node).map(|node| &node.zones);
        let Some(found) = zones.and_then(|zones| zones.get(zone.index())) else {
            return false;
        };
        if !found.is_populated() {
            return false;
        }
        let pages = geometry.sections().pages_per_section();
        let (first, end) = (found.span().start(), found.span().end());
        geometry
            .sections()
            .iter()
            .skip_while(|section| *section < SectionNr::of(first, pages))
            .take_while(|section| section.0 * pages < end.get())
            .find(|section| map.section_state(*section) == SectionState::Pending)
            .is_some_and(|section| touch(allocator, section, self.writer).is_ok())
    }
}
