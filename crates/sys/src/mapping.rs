//! A stretch of private, anonymous address space.
//!
//! It is reserved first (nothing may touch it), then committed piece by piece (readable and
//! writable, zero, without a page behind it), then populated: by [`populate`](Mapping::populate), or by
//! touching it with the right to write it, so that mapping and faulting can be timed apart. The address
//! space is given back on drop.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Args, Call, SysError};
use crate::{huge_page_size, page_size, seam};

/// Whether the system is asked for huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HugePages {
    /// As the system is set up (`/sys/kernel/mm/transparent_hugepage/enabled`).
    #[default]
    System,
    /// Asked for.
    Always,
    /// Forbidden.
    Never,
}

/// Whether [`Mapping::populate`] put pages behind its range.
#[must_use = "without the call there is nothing behind the range yet"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Populated {
    /// They are there.
    Done,
    /// This kernel has no call for it: touch them with the right to write them.
    NoSuchCall,
}

/// Touches every page that `words` lie on, contents unchanged.
///
/// Where they begin or end within a page, what others have on that page is not touched.
pub fn touch(words: &mut [u64]) {
    let step = page_size() / size_of::<u64>();
    let last = words.len().saturating_sub(1);
    for at in (0..words.len()).step_by(step).chain([last]) {
        if let Some(word) = words.get_mut(at) {
            let word: *mut u64 = word;
            // A write of an unchanged value that the compiler knows to be one becomes a read, and a
            // read gets the shared zero page: hence volatile.
            // SAFETY: the word is borrowed for writing.
            let old = unsafe { word.read_volatile() };
            // SAFETY: as above.
            unsafe { word.write_volatile(old) };
        }
    }
}

/// Private anonymous address space; unmapped on drop.
///
/// At least a page in front of it and behind it is part of the reservation and never usable: what
/// runs over an end faults, and the system never joins it with a neighbour of the same kind.
///
/// It hands out pointers, never references: who writes where, and when, is its user's to say.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    // addresses, with what is in front and behind
    whole: Range<usize>,
    // byte offsets, sorted, disjoint, not touching: what may be populated
    committed: Mutex<Vec<Range<usize>>>,
}

// SAFETY: 1. the memory belongs to this value alone and stays where it is; 2. no method reads or
// writes it through a shared reference; 3. whoever uses the pointer says that it does so without a race.
unsafe impl Send for Mapping {}
// SAFETY: as for Send; what changes through `&self` is behind the mutex.
unsafe impl Sync for Mapping {}

/// How often a call that was interrupted, or told to come again, is made before that is an error.
const MOST_TRIES: u32 = 1000;

impl Mapping {
    /// Reserves `len` bytes, rounded up to whole pages (at least one), without committing memory.
    ///
    /// # Errors
    /// [`SysError::Refused`] where there is no such stretch of address space, or a limit forbids it.
    #[doc(alias = "mmap")]
    pub fn reserve(len: usize) -> Result<Self, SysError> {
        Self::reserve_aligned(len, page_size())
    }

    /// As [`reserve`](Self::reserve), starting at a multiple of `align` bytes (a power of two, at
    /// least the page size), so that huge pages can back it from its first byte.
    ///
    /// # Errors
    /// As for [`reserve`](Self::reserve); [`SysError::BadRange`] where `len` and `align` together
    /// do not fit the address space or `align` is no power of two.
    pub fn reserve_aligned(len: usize, align: usize) -> Result<Self, SysError> {
        let page = page_size();
        let bad = SysError::BadRange {
            start: 0,
            end: len,
            len,
        };
        if !align.is_power_of_two() {
            return Err(bad);
        }
        let align = align.max(page);
        let rounded = len.max(1).checked_next_multiple_of(page);
        let (Some(len), Some(whole)) = (
            rounded,
            rounded.and_then(|len| len.checked_add(align)?.checked_add(page)),
        ) else {
            return Err(bad);
        };
        let args = || Args::Memory {
            address: 0,
            bytes: whole,
        };
        let address = seam::call(Call::Mmap, args, || {
            // SAFETY: a new private mapping at an address of the kernel's choice touches nothing
            // that exists.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    whole,
                    libc::PROT_NONE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            at as libc::c_long
        })? as usize;
        // at most `align` bytes on: a page at least is left in front and behind
        let base = (address + page).next_multiple_of(align);
        Ok(Self {
            base: NonNull::new(std::ptr::with_exposed_provenance_mut(base))
                .unwrap_or(NonNull::dangling()),
            len,
            whole: address..address + whole,
            committed: Mutex::new(Vec::new()),
        })
    }

    /// The first byte. What lies behind it is usable where it was committed.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length in bytes, a multiple of the page size.
    #[expect(clippy::len_without_is_empty, reason = "a mapping has at least a page")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Makes the bytes `[start, end)` readable and writable; they read as zero until written.
    ///
    /// # Errors
    /// [`SysError::BadRange`]; [`SysError::Refused`] where the system has not the memory to promise.
    #[doc(alias = "mprotect")]
    pub fn commit(&self, range: Range<usize>) -> Result<(), SysError> {
        if self.address(&range)? == 0 {
            return Ok(());
        }
        let mut committed = self.committed();
        self.protect(&range, libc::PROT_READ | libc::PROT_WRITE)?;
        insert(&mut committed, range);
        Ok(())
    }

    /// As [`commit`](Self::commit), with huge pages of the system's reserved pool behind the bytes; all
    /// of them are set aside at once, so no later touch finds the pool empty.
    ///
    /// # Errors
    /// [`SysError::BadRange`] where the bytes are not whole huge pages; [`SysError::Refused`]: `ENOMEM`
    /// where the pool has not so many left, `EINVAL` or `ENODEV` where the kernel has none.
    #[doc(alias = "MAP_HUGETLB")]
    pub fn commit_huge(&self, range: Range<usize>) -> Result<(), SysError> {
        let address = self.address(&range)?;
        if address == 0 {
            return Ok(());
        }
        let huge = huge_page_size();
        if !address.is_multiple_of(huge) || !range.len().is_multiple_of(huge) {
            return Err(SysError::BadRange {
                start: range.start,
                end: range.end,
                len: self.len,
            });
        }
        let mut committed = self.committed();
        let bytes = range.len();
        let args = || Args::Memory { address, bytes };
        seam::call(Call::Mmap, args, || {
            // SAFETY: 1. the range lies in this mapping, so nothing of anybody else's is replaced; 2. it
            // is private anonymous memory as before; 3. what was written there is lost, which nobody
            // can rely on before it is committed.
            let at = unsafe {
                libc::mmap(
                    address as *mut libc::c_void,
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_HUGETLB,
                    -1,
                    0,
                )
            };
            at as libc::c_long
        })?;
        insert(&mut committed, range);
        Ok(())
    }

    /// Gives the memory of `[start, end)` back and forbids touching it.
    ///
    /// # Errors
    /// [`SysError::BadRange`]; [`SysError::Refused`].
    pub fn decommit(&mut self, range: Range<usize>) -> Result<(), SysError> {
        self.discard(range.clone())?;
        self.protect(&range, libc::PROT_NONE)?;
        remove(&mut self.committed(), range);
        Ok(())
    }

    /// Drops the pages behind `[start, end)`: it reads as zero again and must be faulted anew.
    ///
    /// # Errors
    /// [`SysError::BadRange`]; [`SysError::Refused`].
    #[doc(alias = "MADV_DONTNEED")]
    pub fn discard(&mut self, range: Range<usize>) -> Result<(), SysError> {
        self.advise(&range, libc::MADV_DONTNEED)
    }

    /// Asks for, or forbids, huge pages behind `[start, end)`.
    ///
    /// # Errors
    /// [`SysError::BadRange`]; [`SysError::Refused`], for one with `EINVAL` on a kernel that has no
    /// transparent huge pages.
    #[doc(alias = "MADV_HUGEPAGE")]
    pub fn huge_pages(&self, range: Range<usize>, huge: HugePages) -> Result<(), SysError> {
        match huge {
            HugePages::System => Ok(()),
            HugePages::Always => self.advise(&range, libc::MADV_HUGEPAGE),
            HugePages::Never => self.advise(&range, libc::MADV_NOHUGEPAGE),
        }
    }

    /// Puts a page behind every address of the committed bytes `[start, end)`, contents unchanged, by
    /// the system's own call; others may write there meanwhile.
    ///
    /// A kernel before 5.14 has no such call: nothing is done then, and whoever may write these bytes
    /// touches them ([`fault_in`](Self::fault_in) does, for who has the mapping alone).
    ///
    /// # Errors
    /// [`SysError::BadRange`]; [`SysError::NotCommitted`]; [`SysError::Refused`] where memory is short.
    #[doc(alias = "MADV_POPULATE_WRITE")]
    pub fn populate(&self, range: Range<usize>) -> Result<Populated, SysError> {
        if self.address(&range)? == 0 {
            return Ok(Populated::Done);
        }
        if !self.is_committed(&range) {
            return Err(SysError::NotCommitted {
                start: range.start,
                end: range.end,
            });
        }
        let mut tries = 0;
        loop {
            tries += 1;
            match self.advise(&range, libc::MADV_POPULATE_WRITE) {
                Err(error) => match error.errno().map(|errno| errno.0) {
                    Some(libc::EINVAL) => return Ok(Populated::NoSuchCall),
                    Some(libc::EINTR | libc::EAGAIN) if tries < MOST_TRIES => {}
                    _ => return Err(error),
                },
                Ok(()) => return Ok(Populated::Done),
            }
        }
    }

    /// As [`populate`](Self::populate), and by touching every page where the kernel has no call for it.
    ///
    /// # Errors
    /// As for [`populate`](Self::populate).
    pub fn fault_in(&mut self, range: Range<usize>) -> Result<(), SysError> {
        if self.populate(range.clone())? == Populated::NoSuchCall {
            touch(self.words_mut(range)?);
        }
        Ok(())
    }

    /// Whether all of `[start, end)` was committed.
    pub fn is_committed(&self, range: &Range<usize>) -> bool {
        self.committed()
            .iter()
            .any(|have| have.start <= range.start && range.end <= have.end)
    }

    /// Gives the address space back; drop does the same but cannot say that it failed.
    ///
    /// # Errors
    /// [`SysError::Refused`]; the mapping is then given back by force on drop as far as possible.
    pub fn unmap(self) -> Result<(), SysError> {
        unmap(self.whole.start, self.whole.len())?;
        std::mem::forget(self);
        Ok(())
    }

    fn committed(&self) -> MutexGuard<'_, Vec<Range<usize>>> {
        // a list that a panicking thread left is whole: it is changed after the calls that can fail
        self.committed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of a range's first byte; 0 for an empty range.
    pub(crate) fn address(&self, range: &Range<usize>) -> Result<usize, SysError> {
        let page = page_size();
        let fits = range.start <= range.end && range.end <= self.len;
        if !fits || !range.start.is_multiple_of(page) || !range.end.is_multiple_of(page) {
            return Err(SysError::BadRange {
                start: range.start,
                end: range.end,
                len: self.len,
            });
        }
        if range.is_empty() {
            return Ok(0);
        }
        Ok(self.base.as_ptr() as usize + range.start)
    }

    fn advise(&self, range: &Range<usize>, advice: libc::c_int) -> Result<(), SysError> {
        let address = self.address(range)?;
        if address == 0 {
            return Ok(());
        }
        let bytes = range.len();
        seam::call(
            Call::Madvise,
            || Args::Memory { address, bytes },
            || {
                // SAFETY: the range lies in this mapping; the advices used leave contents alone, or
                // (DONTNEED) come through `&mut self`.
                let done = unsafe { libc::madvise(address as *mut libc::c_void, bytes, advice) };
                libc::c_long::from(done)
            },
        )?;
        Ok(())
    }

    fn protect(&self, range: &Range<usize>, protection: libc::c_int) -> Result<(), SysError> {
        let address = self.address(range)?;
        if address == 0 {
            return Ok(());
        }
        let bytes = range.len();
        seam::call(
            Call::Mprotect,
            || Args::Memory { address, bytes },
            || {
                // SAFETY: the range lies in this mapping; access is taken away through `&mut self` only.
                let done =
                    unsafe { libc::mprotect(address as *mut libc::c_void, bytes, protection) };
                libc::c_long::from(done)
            },
        )?;
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Past the seam: an injected fault must not leak address space.
        // SAFETY: the mapping is ours and nobody can use it any more.
        unsafe { libc::munmap(self.whole.start as *mut libc::c_void, self.whole.len()) };
    }
}

fn unmap(address: usize, bytes: usize) -> Result<(), SysError> {
    seam::call(
        Call::Munmap,
        || Args::Memory { address, bytes },
        || {
            // SAFETY: the callers pass parts of a mapping of theirs that they stop using.
            let done = unsafe { libc::munmap(address as *mut libc::c_void, bytes) };
            libc::c_long::from(done)
        },
    )?;
    Ok(())
}

/// Adds a range to a sorted list of disjoint ranges, joining what touches.
fn insert(list: &mut Vec<Range<usize>>, mut range: Range<usize>) {
    let first = list.partition_point(|have| have.end < range.start);
    let last = list.partition_point(|have| have.start <= range.end);
    for have in &list[first..last.max(first)] {
        range.start = range.start.min(have.start);
        range.end = range.end.max(have.end);
    }
    list.splice(first..last.max(first), [range]);
}

/// Takes a range out of a sorted list of disjoint ranges.
fn remove(list: &mut Vec<Range<usize>>, range: Range<usize>) {
    let old = std::mem::take(list);
    for have in old {
        let before = have.start..have.end.min(range.start);
        let after = have.start.max(range.end)..have.end;
        list.extend([before, after].into_iter().filter(|part| !part.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Errno;
    use crate::seam::Faults;

    #[test]
    fn reserved_memory_is_committed_before_it_is_populated() {
        let page = page_size();
        let map = Mapping::reserve(8 * page).unwrap();
        assert_eq!(
            map.populate(0..page),
            Err(SysError::NotCommitted {
                start: 0,
                end: page
            })
        );
        map.commit(0..2 * page).unwrap();
        map.commit(2 * page..4 * page).unwrap();
        let _ = map.populate(page..3 * page).unwrap();
        assert!(map.populate(3 * page..5 * page).is_err());
    }

    #[test]
    fn an_old_kernel_without_populate_is_served_by_touching_with_the_mapping_alone() {
        let page = page_size();
        let mut map = Mapping::reserve(4 * page).unwrap();
        map.commit(0..4 * page).unwrap();
        map.words_mut(0..page).unwrap()[0] = 7;
        map.huge_pages(0..4 * page, HugePages::Never).ok();
        let faults = Faults::new().fail_from(Call::Madvise, 1, libc::EINVAL);
        let scope = faults.enter();
        // nothing is touched by who shares the mapping
        assert_eq!(map.populate(0..4 * page), Ok(Populated::NoSuchCall));
        let there = |map: &Mapping| match map.page_nodes(&[0, page, 2 * page, 3 * page]) {
            Ok(nodes) => nodes
                .iter()
                .map(|node| matches!(node, crate::PageNode::On(_)))
                .collect(),
            Err(error) => {
                captures::skipped(&format!("{error}"));
                Vec::new()
            }
        };
        let before = there(&map);
        assert!(before.is_empty() || before == [true, false, false, false]);
        map.fault_in(page..4 * page).unwrap();
        assert!(there(&map).iter().all(|there| *there));
        assert_eq!(map.words_mut(0..page).unwrap()[0], 7);
        drop(scope);
        assert_eq!(map.populate(0..4 * page), Ok(Populated::Done));
    }

    #[test]
    fn touching_reaches_the_last_page_of_words_that_begin_within_one() {
        let page = page_size();
        let words = page / 8;
        let mut map = Mapping::reserve(3 * page).unwrap();
        map.commit(0..3 * page).unwrap();
        map.huge_pages(0..3 * page, HugePages::Never).ok();
        // from the middle of the first page to the beginning of the third
        touch(&mut map.words_mut(0..3 * page).unwrap()[words / 2..2 * words + 2]);
        touch(&mut []);
        match map.page_nodes(&[0, page, 2 * page]) {
            Ok(nodes) => assert!(
                nodes
                    .iter()
                    .all(|node| matches!(node, crate::PageNode::On(_)))
            ),
            Err(error) => captures::skipped(&format!("{error}")),
        }
    }

    #[test]
    fn a_call_that_is_told_to_come_again_gives_up_in_the_end() {
        let page = page_size();
        let map = Mapping::reserve(page).unwrap();
        map.commit(0..page).unwrap();
        let faults = Faults::new().fail(Call::Madvise, 1, libc::EAGAIN);
        let scope = faults.enter();
        assert_eq!(map.populate(0..page), Ok(Populated::Done));
        drop(scope);
        let _scope = Faults::new()
            .fail_from(Call::Madvise, 1, libc::EAGAIN)
            .enter();
        let error = map.populate(0..page).unwrap_err();
        assert_eq!(error.errno(), Some(Errno(libc::EAGAIN)));
    }

    #[test]
    fn offsets_outside_or_within_a_page_are_refused() {
        let page = page_size();
        let map = Mapping::reserve(page).unwrap();
        assert!(matches!(
            map.commit(0..2 * page),
            Err(SysError::BadRange { .. })
        ));
        assert!(matches!(
            map.commit(1..page),
            Err(SysError::BadRange { .. })
        ));
        map.commit(0..0).unwrap();
    }

    #[test]
    fn an_aligned_reservation_starts_at_a_multiple() {
        let map = Mapping::reserve_aligned(3 * page_size(), 2 << 20).unwrap();
        assert_eq!(map.as_ptr().as_ptr() as usize % (2 << 20), 0);
        assert_eq!(map.len(), 3 * page_size());
        assert!(Mapping::reserve_aligned(4096, 3).is_err());
        assert!(Mapping::reserve_aligned(usize::MAX - 4096, 2 << 20).is_err());
    }

    #[test]
    fn what_the_system_refuses_names_call_arguments_and_advice() {
        let faults = Faults::new().fail(Call::Mmap, 1, libc::ENOMEM);
        let _scope = faults.enter();
        let error = Mapping::reserve(1 << 40).unwrap_err();
        assert_eq!(error.errno(), Some(Errno(libc::ENOMEM)));
        let text = error.to_string();
        let asked = (1_usize << 40) + 2 * page_size();
        assert!(text.contains(&format!("mmap({asked} bytes)")), "{text}");
        assert!(text.contains("ulimit -v"), "{text}");
    }

    #[test]
    fn discarded_bytes_read_as_zero_again() {
        let page = page_size();
        let mut map = Mapping::reserve(page).unwrap();
        map.commit(0..page).unwrap();
        // SAFETY: the page is committed and ours alone.
        unsafe { map.as_ptr().write(7) };
        map.discard(0..page).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { map.as_ptr().read() }, 0);
        map.decommit(0..page).unwrap();
        assert!(!map.is_committed(&(0..page)));
    }

    #[test]
    fn huge_pages_of_the_pool_are_had_whole_or_refused() {
        let huge = huge_page_size();
        let map = Mapping::reserve_aligned(2 * huge, huge).unwrap();
        assert!(matches!(
            map.commit_huge(0..huge + page_size()),
            Err(SysError::BadRange { .. })
        ));
        match map.commit_huge(0..huge) {
            Ok(()) => {
                let _ = map.populate(0..huge).unwrap();
                assert!(map.is_committed(&(0..huge)));
            }
            Err(error) => {
                assert!(!map.is_committed(&(0..huge)));
                assert!(error.to_string().contains("nr_hugepages"), "{error}");
                captures::skipped(&format!("{error}"));
            }
        }
        let faults = Faults::new().fail(Call::Mmap, 1, libc::ENOMEM);
        let _scope = faults.enter();
        assert!(map.commit_huge(huge..2 * huge).is_err());
    }

    #[test]
    fn lists_of_ranges_join_and_split() {
        let mut list = Vec::new();
        for range in [8..10, 0..2, 4..6, 2..4] {
            insert(&mut list, range);
        }
        assert_eq!(list, [0..6, 8..10]);
        remove(&mut list, 1..9);
        assert_eq!(list, [0..1, 9..10]);
    }
}
