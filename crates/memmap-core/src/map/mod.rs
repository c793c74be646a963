//! The memory map: struct pages of every present section.
//!
//! A [`MemoryMap`] owns the struct pages. They are written section by section through a
//! [`Claim`], of which one exists at a time for a section; who has none may read what was
//! published. Policies, workers and schedulers only decide who claims what and when.

mod check;
mod claim;
mod handover;
mod hot;
mod images;
mod lookup;

pub use check::{CheckReport, Violation};
pub use claim::{Claim, ClaimError};
pub use hot::HotplugError;
pub use lookup::SectionFlags;

use memblock::Pfn;

use crate::backing::{
    AddressSpace, Backing, BackingChoice, BackingOptions, MapError, SectionState,
};
use crate::geometry::{Geometry, SectionNr};
use crate::image::{MAX_WORDS, StructPageSize};
use crate::page::StructPage;
use crate::profile::{MemoryModel, Profile};

/// Why a struct page cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The frame has no struct page.
    #[error("frame {pfn} has no struct page: its section is absent")]
    NoStructPage {
        /// The frame.
        pfn: Pfn,
    },
    /// Its section was not published.
    #[error("section {section} is {state:?}: its struct pages can be read once it is ready")]
    NotReady {
        /// The section.
        section: SectionNr,
        /// Its state.
        state: SectionState,
    },
}

/// The struct pages of a machine.
///
/// ```
/// use memblock::{Behaviour, Memblock, Pfn, PhysAddr, PhysRange};
/// use memmap_core::{
///     BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile, writers,
/// };
///
/// let mut memory = Memblock::new(Behaviour::V6_12);
/// memory.add(PhysRange::from_size(PhysAddr::new(0x10_0000), 100 << 20))?;
/// let profile = Profile::amd64(KernelVersion::V6_12);
/// let geometry = Geometry::new(&profile, &memory, &BootOptions::default())?;
/// let map = MemoryMap::new(geometry, BackingOptions::default())?;
/// let writer = writers::by_name("template").expect("it exists");
/// for section in map.geometry().sections().iter() {
///     let mut claim = map.claim(section).expect("nobody else claims here");
///     claim.write(writer);
///     claim.publish();
/// }
/// let page = map.read(Pfn::new(0x100))?;
/// assert_eq!(page.refcount(), 0);
/// assert!(map.check().is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[doc(alias = "mem_map")]
#[doc(alias = "vmemmap")]
pub struct MemoryMap {
    geometry: Geometry,
    backing: Backing,
    size: StructPageSize,
    space: AddressSpace,
    poison: bool,
    hot: hot::HotSections,
}

impl MemoryMap {
    /// A map with all present sections pending.
    ///
    /// # Errors
    /// - [`MapError::TooLittleMemory`] where the struct pages need more than may be taken.
    /// - [`MapError::SpanTooLarge`] where one address range was asked for and none is so long.
    /// - [`MapError::Refused`], [`MapError::System`] where memory was refused on the way; nothing
    ///   is left behind.
    /// - [`MapError::NotSparse`] for the flat memory model.
    pub fn new(geometry: Geometry, options: BackingOptions) -> Result<Self, MapError> {
        let profile = geometry.profile();
        if profile.memory_model == MemoryModel::Flat {
            return Err(MapError::NotSparse);
        }
        let bytes = profile.struct_page_bytes;
        let size =
            StructPageSize::from_bytes(bytes as usize).ok_or(MapError::StructPageSize { bytes })?;
        let backing = Backing::new(geometry.sections(), size, &options)?;
        Ok(Self {
            geometry,
            backing,
            size,
            space: options.address_space,
            poison: options.poison,
            hot: hot::HotSections::default(),
        })
    }

    /// What it is a map of.
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The kernel that it is a map for.
    pub const fn profile(&self) -> &Profile {
        self.geometry.profile()
    }

    /// Which memory its struct pages lie in, and why where that was not the first choice.
    pub const fn backing(&self) -> &BackingChoice {
        self.backing.choice()
    }

    /// The struct page's size.
    pub const fn struct_page_size(&self) -> StructPageSize {
        self.size
    }

    /// Bytes of one section's struct pages.
    pub fn section_bytes(&self) -> usize {
        self.geometry.sections().pages_per_section() as usize * self.size.bytes()
    }

    /// Bytes of all struct pages.
    pub fn bytes(&self) -> u64 {
        self.geometry.sections().count() * self.section_bytes() as u64
    }

    /// The state of a section.
    pub fn section_state(&self, section: SectionNr) -> SectionState {
        match self.locate(section) {
            Some((backing, rank)) => backing.state(rank),
            None => SectionState::Absent,
        }
    }

    /// Where a section's struct pages are, and as which section of that backing.
    fn locate(&self, section: SectionNr) -> Option<(&Backing, usize)> {
        match self.geometry.sections().rank(section) {
            Some(rank) => Some((&self.backing, rank as usize)),
            None => Some((self.hot.memory(section)?, 0)),
        }
    }

    /// Whether every section that was there at boot is ready.
    pub fn is_complete(&self) -> bool {
        (0..self.geometry.sections().count())
            .all(|rank| self.backing.state(rank as usize) == SectionState::Ready)
    }

    /// The exclusive right to write a pending section, or `None` where it is absent, claimed or
    /// ready. One compare-and-swap; any thread may try.
    pub fn claim(&self, section: SectionNr) -> Option<Claim<'_>> {
        let (backing, rank) = self.locate(section)?;
        let exclusive = backing.claim(rank)?;
        Some(Claim::new(self, section, exclusive))
    }

    /// A copy of the struct page of `pfn`.
    ///
    /// # Errors
    /// - [`ReadError::NoStructPage`] where its section is absent.
    /// - [`ReadError::NotReady`] where it was not published.
    pub fn read(&self, pfn: Pfn) -> Result<StructPage, ReadError> {
        let pages = self.geometry.sections().pages_per_section();
        let section = SectionNr::of(pfn, pages);
        let (backing, rank) = self
            .locate(section)
            .filter(|_| self.pfn_valid(pfn))
            .ok_or(ReadError::NoStructPage { pfn })?;
        let first = (pfn.get() % pages) as usize * self.size.words();
        let mut words = [0; MAX_WORDS];
        for (i, word) in words[..self.size.words()].iter_mut().enumerate() {
            *word = backing
                .word(rank, first + i)
                .ok_or_else(|| ReadError::NotReady {
                    section,
                    state: backing.state(rank),
                })?;
        }
        Ok(StructPage::new(
            self.size,
            self.profile().byte_order,
            &words,
        ))
    }

    /// All words of a ready section.
    pub fn section_words(&mut self, section: SectionNr) -> Option<&[u64]> {
        let words = match self.geometry.sections().rank(section) {
            Some(rank) => self.backing.ready_words(rank as usize),
            None => self.hot.memory_mut(section)?.ready_words(0),
        };
        words.map(|words| &*words)
    }

    /// Makes boot-time sections pending again whose claims were lost: leaked, or held by a thread that
    /// was ended in the middle. Returns how many. What such a thread wrote is written again by the next
    /// claim.
    ///
    /// A claim that is dropped, by a panic too, is not lost; the exclusive borrow means that none is
    /// in use.
    pub fn recover(&mut self) -> u64 {
        self.backing.recover()
    }

    /// Makes every section pending again and keeps the memory, for another run.
    pub fn reset(&mut self) {
        self.backing.reset();
    }

    /// Makes every section pending again and gives the memory back to the host, so that the next
    /// run faults it anew. The heap backing keeps it.
    ///
    /// # Errors
    /// What the system refuses.
    #[cfg(feature = "std")]
    pub fn discard(&mut self) -> Result<(), sys::SysError> {
        self.backing.discard()
    }

    /// The address range behind the map, for placing it and for asking where its pages lie;
    /// `None` on the heap.
    #[cfg(feature = "std")]
    pub fn mapping(&self) -> Option<&sys::Mapping> {
        self.backing.mapping()
    }

    /// The bytes of [`MemoryMap::mapping`] that hold a section's struct pages, rounded out to the
    /// host's pages.
    #[cfg(feature = "std")]
    pub fn mapping_range(&self, section: SectionNr) -> Option<core::ops::Range<usize>> {
        let rank = self.geometry.sections().rank(section)?;
        self.backing.mapped_range(rank as usize)
    }
}
