//! The memory that struct pages are written to, and who may write it.
//!
//! Everything that touches that memory is here; the rest of the crate asks for exclusive rights
//! to a section, writes through them, and reads what was published.
//!
//! # Implementation
//! All memory is zeroed or poisoned before anybody sees it, so every word is always initialised.
//! A section's words are reached in three ways only:
//! 1. as `&mut [..]` through [`Exclusive`], of which the section's state lets one exist;
//! 2. as relaxed atomic loads once the section is ready, when 1 is over for good;
//! 3. through `&mut self`, which ends 1 and 2.

mod choice;
mod error;
mod heap;
#[cfg(feature = "std")]
mod mapped;
#[cfg(all(test, loom))]
mod model;
mod state;

pub use choice::{BackingChoice, NoAddressRange};
pub use error::MapError;
pub use state::SectionState;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::geometry::Sections;
use crate::image::StructPageSize;
use heap::Heap;
#[cfg(feature = "std")]
use mapped::Mapped;
use state::States;

/// Which memory struct pages are written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackingKind {
    /// One address range where that can be had, else the heap; [`BackingChoice`] says why.
    #[default]
    Auto,
    /// One address range for the whole span (needs the feature `std`).
    Mapped,
    /// One allocation a section.
    Heap,
}

/// Whether the host is asked for huge pages behind an address range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HugePages {
    /// As the host is set up.
    #[default]
    System,
    /// Asked for.
    Always,
    /// Forbidden.
    Never,
    /// Those of the host's reserved pool, or no map at all (one address range only).
    Reserved,
}

/// Which addresses struct pages hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AddressSpace {
    /// Those of the modelled kernel: the same bytes in every run.
    #[default]
    Kernel,
    /// Those of this process: links can be followed.
    Host,
}

/// How a map's memory is had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackingOptions {
    /// Which memory.
    pub kind: BackingKind,
    /// Huge pages of the host.
    pub huge_pages: HugePages,
    /// Fill with 0xff before anything is written, so that what is never written is found.
    #[doc(alias = "page_init_poison")]
    pub poison: bool,
    /// Which addresses struct pages hold.
    pub address_space: AddressSpace,
    /// Bytes that the map may take; `None`: what the host has available (with `std`).
    pub memory_limit: Option<u64>,
}

/// The word that poisoned memory reads as.
#[doc(alias = "PAGE_POISON_PATTERN")]
pub const POISON: u64 = u64::MAX;

#[derive(Debug)]
enum Memory {
    Heap(Heap),
    #[cfg(feature = "std")]
    Mapped(Mapped),
}

/// Memory for the struct pages of the present sections, and their states.
#[derive(Debug)]
pub(crate) struct Backing {
    memory: Memory,
    choice: BackingChoice,
    states: States,
    /// Words of a section.
    words: usize,
    poison: bool,
}

// SAFETY: the pointers inside lead to memory that this value owns and that moves nowhere.
unsafe impl Send for Backing {}
// SAFETY: through a shared reference memory is written under an exclusive claim only, and read
// by atomics once no claim can exist any more; see the module's text.
unsafe impl Sync for Backing {}

impl Backing {
    pub(crate) fn new(
        sections: &Sections,
        size: StructPageSize,
        options: &BackingOptions,
    ) -> Result<Self, MapError> {
        let words = sections.pages_per_section() as usize * size.words();
        let needed = sections.count().saturating_mul(words as u64 * 8);
        check_memory(needed, size, options)?;
        let count = sections.count() as usize;
        let heap = || Heap::new(count, words).map(Memory::Heap);
        #[cfg(feature = "std")]
        let (memory, choice) = match options.kind {
            BackingKind::Heap => (heap()?, BackingChoice::Heap),
            BackingKind::Mapped | BackingKind::Auto => {
                match Mapped::new(sections, words, options) {
                    Ok(mapped) => (Memory::Mapped(mapped), BackingChoice::Mapped),
                    // the heap has no huge pages of the pool
                    Err(error)
                        if options.kind == BackingKind::Mapped
                            || options.huge_pages == HugePages::Reserved =>
                    {
                        return Err(error);
                    }
                    Err(error) => (
                        heap()?,
                        BackingChoice::HeapInstead(NoAddressRange::Refused(error)),
                    ),
                }
            }
        };
        #[cfg(not(feature = "std"))]
        let (memory, choice) = match options.kind {
            BackingKind::Heap => (heap()?, BackingChoice::Heap),
            BackingKind::Mapped | BackingKind::Auto => (
                heap()?,
                BackingChoice::HeapInstead(NoAddressRange::NoSystem),
            ),
        };
        let mut backing = Self {
            memory,
            choice,
            states: States::new(count),
            words,
            poison: options.poison,
        };
        backing.refill();
        Ok(backing)
    }

    /// Memory for one section that was not there at boot, on the heap.
    pub(crate) fn single(words: usize, poison: bool) -> Result<Self, MapError> {
        let mut backing = Self {
            memory: Memory::Heap(Heap::new(1, words)?),
            choice: BackingChoice::Heap,
            states: States::new(1),
            words,
            poison,
        };
        backing.refill();
        Ok(backing)
    }

    /// Poisons everything, where asked for.
    fn refill(&mut self) {
        if self.poison {
            for rank in 0..self.states.len() {
                self.all_words(rank).fill(POISON);
            }
        }
    }

    fn section(&self, rank: usize) -> NonNull<u64> {
        assert!(
            rank < self.states.len(),
            "ranks come from the section table"
        );
        match &self.memory {
            Memory::Heap(heap) => heap.section(rank),
            #[cfg(feature = "std")]
            Memory::Mapped(mapped) => mapped.section(rank),
        }
    }

    /// The host's address of a section's first word. What is behind it is for atomics alone.
    pub(crate) fn pointer(&self, rank: usize) -> NonNull<u64> {
        self.section(rank)
    }

    /// The section that a host address lies in, by rank, and the offset in bytes.
    pub(crate) fn find(&self, address: usize) -> Option<(usize, usize)> {
        match &self.memory {
            Memory::Heap(heap) => heap.find(address),
            #[cfg(feature = "std")]
            Memory::Mapped(mapped) => mapped.find(address),
        }
    }

    pub(crate) const fn choice(&self) -> &BackingChoice {
        &self.choice
    }

    pub(crate) fn state(&self, rank: usize) -> SectionState {
        self.states.get(rank)
    }

    /// The exclusive right to write a section, or `None` where it is not pending.
    pub(crate) fn claim(&self, rank: usize) -> Option<Exclusive<'_>> {
        // Lazily: an `Exclusive` that is made and dropped would give away somebody else's claim.
        self.states.claim(rank).then(|| Exclusive {
            backing: self,
            rank,
            published: false,
        })
    }

    /// Word `index` of a section, or `None` where it is not ready.
    pub(crate) fn word(&self, rank: usize, index: usize) -> Option<u64> {
        if self.states.get(rank) != SectionState::Ready || index >= self.words {
            return None;
        }
        // SAFETY: the index lies inside the section.
        let word = unsafe { self.section(rank).add(index) };
        // SAFETY: 1. the word is aligned and lives as long as self. 2. The section is ready: its
        // writer is done, we see what it wrote, and only `&mut self` can end that. 3. Every word
        // is initialised: memory begins zeroed, and page writers initialise what they write.
        let word = unsafe { AtomicU64::from_ptr(word.as_ptr()) };
        Some(word.load(Ordering::Relaxed))
    }

    /// Stores word `index` of a ready section; nothing where it is not ready.
    pub(crate) fn store_word(&self, rank: usize, index: usize, value: u64) {
        if self.states.get(rank) != SectionState::Ready || index >= self.words {
            return;
        }
        // SAFETY: the index lies inside the section.
        let word = unsafe { self.section(rank).add(index) };
        // SAFETY: as in `word`; whoever else looks at a ready section does so by atomics too.
        let word = unsafe { AtomicU64::from_ptr(word.as_ptr()) };
        word.store(value, Ordering::Relaxed);
    }

    /// All words of a section, whatever its state.
    fn all_words(&mut self, rank: usize) -> &mut [u64] {
        let start = self.section(rank);
        // SAFETY: 1. the section has that many words, aligned and initialised. 2. The exclusive
        // borrow means that no claim and no reader exists.
        unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), self.words) }
    }

    /// The words of a ready section.
    pub(crate) fn ready_words(&mut self, rank: usize) -> Option<&mut [u64]> {
        (self.states.get(rank) == SectionState::Ready).then(|| self.all_words(rank))
    }

    /// The words of a section that nobody has claimed, which is ready from now on.
    pub(crate) fn open(&mut self, rank: usize) -> &mut [u64] {
        self.states.open(rank);
        self.all_words(rank)
    }

    /// Makes sections pending whose claims are lost; how many.
    pub(crate) fn recover(&mut self) -> u64 {
        self.states.recover()
    }

    /// Everything pending again, with the memory kept.
    pub(crate) fn reset(&mut self) {
        self.states.reset();
        self.refill();
    }

    /// Everything pending again, with the memory given back to the host where that can be done.
    #[cfg(feature = "std")]
    pub(crate) fn discard(&mut self) -> Result<(), sys::SysError> {
        self.states.reset();
        if let Memory::Mapped(mapped) = &mut self.memory {
            mapped.discard()?;
        }
        self.refill();
        Ok(())
    }

    #[cfg(feature = "std")]
    pub(crate) fn mapping(&self) -> Option<&sys::Mapping> {
        match &self.memory {
            Memory::Heap(_) => None,
            Memory::Mapped(mapped) => Some(mapped.mapping()),
        }
    }

    #[cfg(feature = "std")]
    pub(crate) fn mapped_range(&self, rank: usize) -> Option<core::ops::Range<usize>> {
        match &self.memory {
            Memory::Heap(_) => None,
            Memory::Mapped(mapped) => Some(mapped.range(rank)),
        }
    }
}

/// The exclusive right to write one section.
#[derive(Debug)]
pub(crate) struct Exclusive<'a> {
    backing: &'a Backing,
    rank: usize,
    published: bool,
}

impl Exclusive<'_> {
    /// The section's words.
    pub(crate) fn words(&mut self) -> &mut [u64] {
        let start = self.backing.section(self.rank);
        // SAFETY: 1. the section has that many words, aligned. 2. The state is claimed and we
        // hold the claim, of which there is one; readers look at ready sections only. 3. The
        // borrow of self keeps it that way while the slice lives. 4. All memory was zeroed or
        // poisoned before anybody saw it, so every word is initialised.
        unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), self.backing.words) }
    }

    /// Puts memory behind the section, contents unchanged.
    #[cfg(feature = "std")]
    pub(crate) fn populate(&mut self) -> Result<(), sys::SysError> {
        // The call is for whole pages of the host; one that is shared with a neighbour is not ours
        // alone.
        let whole_pages = (self.backing.words * 8).is_multiple_of(sys::page_size());
        let done = match &self.backing.memory {
            Memory::Mapped(mapped) if whole_pages => mapped.populate(self.rank)?,
            Memory::Mapped(_) | Memory::Heap(_) => sys::Populated::NoSuchCall,
        };
        if done == sys::Populated::NoSuchCall {
            sys::touch(self.words());
        }
        Ok(())
    }

    /// Lets everybody read it, for good.
    pub(crate) fn publish(mut self) {
        self.published = true;
        self.backing.states.publish(self.rank);
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        if !self.published {
            self.backing.states.abandon(self.rank);
        }
    }
}

fn check_memory(
    needed: u64,
    size: StructPageSize,
    options: &BackingOptions,
) -> Result<(), MapError> {
    let too_little = |available: u64, bound: alloc::string::String| MapError::TooLittleMemory {
        needed,
        available,
        fits: error::fits(available, size),
        bound,
    };
    if let Some(limit) = options.memory_limit {
        return if needed > limit {
            Err(too_little(limit, "the limit that was asked for".into()))
        } else {
            Ok(())
        };
    }
    // huge pages of the pool are no available memory, and are had or refused at once
    #[cfg(feature = "std")]
    if options.huge_pages != HugePages::Reserved {
        let available = sys::available_memory();
        if needed > available.bytes {
            let bound = alloc::string::ToString::to_string(&available);
            return Err(too_little(available.bytes, bound));
        }
    }
    Ok(())
}
