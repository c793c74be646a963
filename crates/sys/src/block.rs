//! Copies of one block of memory, made when they are written to.
//!
//! A [`Block`] is filled once and sealed: the system itself refuses every later change. It can then
//! be laid over any part of a [`Mapping`], again and again, as a private mapping: all of that part
//! reads as the block at once, and a page of it costs memory and a copy at the first write to it.
//!
//! # Implementation
//! Both ways, laying the block over memory and taking it away, are one `mmap` with `MAP_FIXED` over
//! address space that the mapping owns: the old pages go and the new ones come in one step, so no
//! other thread can be given the address space in between. Where such a call fails after the
//! kernel has taken the old pages away, the gap is filled at once, by a call that fails rather
//! than replace what somebody else got.

use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::error::{Args, Call, Errno, SysError};
use crate::mapping::Mapping;
use crate::{page_size, seam};

/// Sealed memory of whole pages, to be laid over mappings.
#[derive(Debug)]
pub struct Block {
    file: OwnedFd,
    len: usize,
}

impl Block {
    /// A block that holds `words`.
    ///
    /// # Errors
    /// [`SysError::BadRange`] where the words are not a whole number of pages (or none at all);
    /// [`SysError::Refused`] where the system has no such files, or not the memory.
    #[doc(alias = "memfd_create")]
    pub fn new(words: &[u64]) -> Result<Self, SysError> {
        let len = size_of_val(words);
        if len == 0 || !len.is_multiple_of(page_size()) {
            return Err(SysError::BadRange {
                start: 0,
                end: len,
                len,
            });
        }
        let args = || Args::Memory {
            address: 0,
            bytes: len,
        };
        let file = seam::call(Call::MemfdCreate, args, || {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            // SAFETY: the name is a string that ends with a zero byte.
            libc::c_long::from(unsafe { libc::memfd_create(c"block".as_ptr(), flags) })
        })?;
        // SAFETY: the call has just given it to us and to nobody else.
        let file = unsafe { OwnedFd::from_raw_fd(file as RawFd) };
        let block = Self { file, len };
        block.fill(words)?;
        seam::call(Call::Fcntl, args, || {
            let seals =
                libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
            // SAFETY: takes numbers only.
            let done = unsafe { libc::fcntl(block.file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
            libc::c_long::from(done)
        })?;
        Ok(block)
    }

    fn fill(&self, words: &[u64]) -> Result<(), SysError> {
        let mut done = 0;
        while done < self.len {
            let rest = self.len - done;
            let args = || Args::Memory {
                address: 0,
                bytes: rest,
            };
            let written = seam::call(Call::Write, args, || {
                let start = words.as_ptr().wrapping_byte_add(done);
                // SAFETY: 1. `rest` bytes from `start` lie in `words`. 2. the file is ours.
                let n = unsafe { libc::write(self.file.as_raw_fd(), start.cast(), rest) };
                n as libc::c_long
            });
            match written {
                Ok(0) => {
                    return Err(SysError::Refused {
                        call: Call::Write,
                        args: args(),
                        errno: Errno(libc::EIO),
                    });
                }
                Ok(n) => done += n as usize,
                Err(error) if error.errno().is_some_and(|e| e.0 == libc::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Its length in bytes, a multiple of the page size.
    #[expect(clippy::len_without_is_empty, reason = "a block has at least a page")]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Mapping {
    /// Lays `block` over the committed bytes `[start, end)`: they read as the block, repeated, and
    /// are as writable as before. What was there is dropped, as is where its pages were to lie.
    ///
    /// Takes one mapping of the process for each copy of the block; the last copy may be cut.
    /// [`discard`](Self::discard) gives such memory back to the block instead of to zero.
    ///
    /// # Errors
    /// [`SysError::BadRange`], [`SysError::NotCommitted`]; [`SysError::Refused`] where the system
    /// allows no more mappings: part of the range then holds the block and the rest is as before
    /// or zero; [`uncover`](Self::uncover) makes all of it zero.
    pub fn cover(&mut self, range: Range<usize>, block: &Block) -> Result<(), SysError> {
        let start = self.committed_address(&range)?;
        for offset in (0..range.len()).step_by(block.len) {
            let bytes = block.len.min(range.len() - offset);
            let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
            replace(start + offset, bytes, flags, block.file.as_raw_fd())?;
        }
        Ok(())
    }

    /// Puts fresh memory, which reads as zero, behind the committed bytes `[start, end)`, whatever
    /// covers them.
    ///
    /// # Errors
    /// [`SysError::BadRange`], [`SysError::NotCommitted`]; [`SysError::Refused`].
    pub fn uncover(&mut self, range: Range<usize>) -> Result<(), SysError> {
        let start = self.committed_address(&range)?;
        if start == 0 {
            return Ok(());
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        replace(start, range.len(), flags, -1)
    }

    fn committed_address(&self, range: &Range<usize>) -> Result<usize, SysError> {
        let address = self.address(range)?;
        if address != 0 && !self.is_committed(range) {
            return Err(SysError::NotCommitted {
                start: range.start,
                end: range.end,
            });
        }
        Ok(address)
    }
}

/// Maps over address space that the caller owns exclusively.
fn replace(address: usize, bytes: usize, flags: libc::c_int, file: RawFd) -> Result<(), SysError> {
    let mapped = seam::call(
        Call::Mmap,
        || Args::Memory { address, bytes },
        || {
            // SAFETY: the callers pass committed parts of a mapping that they borrow exclusively;
            //         the new pages are readable and writable as the old ones were, and any bytes
            //         are valid words.
            let at = unsafe {
                libc::mmap(
                    std::ptr::with_exposed_provenance_mut(address),
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_FIXED | flags,
                    file,
                    0,
                )
            };
            at as libc::c_long
        },
    );
    if mapped.is_err() {
        plug(address, bytes);
    }
    mapped.map(drop)
}

/// Fills the gap that a failed replacement may have left; where it left none, nothing happens.
fn plug(address: usize, bytes: usize) {
    // Past the seam: a second injected fault must not open a gap in a test.
    // SAFETY: with this flag the call maps nothing over what is mapped.
    unsafe {
        libc::mmap(
            std::ptr::with_exposed_provenance_mut(address),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_FIXED_NOREPLACE
                | libc::MAP_PRIVATE
                | libc::MAP_ANONYMOUS
                | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::Faults;

    fn block(pages: usize, seed: u64) -> Block {
        let words = pages * page_size() / 8;
        let words: Vec<u64> = (0..words as u64).map(|i| seed + i).collect();
        Block::new(&words).unwrap()
    }

    fn committed(pages: usize) -> Mapping {
        let map = Mapping::reserve(pages * page_size()).unwrap();
        map.commit(0..pages * page_size()).unwrap();
        map
    }

    fn word(map: &mut Mapping, at: usize) -> u64 {
        let words = map.words_mut(at * 8..at * 8 + 8).unwrap();
        words[0]
    }

    #[test]
    fn a_covered_range_reads_as_the_block_repeated_and_copies_where_it_is_written() {
        let (page, words) = (page_size(), page_size() / 8);
        let block = block(2, 100);
        let mut map = committed(8);
        map.cover(page..6 * page, &block).unwrap();
        for at in 0..8 * words {
            let expected = match at / words {
                0 | 6 | 7 => 0,
                _ => 100 + ((at - words) % (2 * words)) as u64,
            };
            assert_eq!(word(&mut map, at), expected, "word {at}");
        }
        map.words_mut(page..page + 8).unwrap()[0] = 7;
        assert_eq!(word(&mut map, words), 7);
        assert_eq!(word(&mut map, 3 * words), 100, "the next copy is its own");
        map.discard(page..2 * page).unwrap();
        assert_eq!(word(&mut map, words), 100, "back to the block");
        map.uncover(0..8 * page).unwrap();
        assert!((0..8 * words).all(|at| word(&mut map, at) == 0));
    }

    #[test]
    fn a_last_copy_may_be_cut() {
        let page = page_size();
        let mut map = committed(5);
        map.cover(0..5 * page, &block(2, 9)).unwrap();
        assert_eq!(word(&mut map, 4 * page / 8), 9);
    }

    #[test]
    fn only_committed_pages_are_covered_and_a_block_is_whole_pages() {
        let page = page_size();
        let mut map = Mapping::reserve(4 * page).unwrap();
        map.commit(0..page).unwrap();
        let block = block(1, 0);
        let refused = map.cover(0..2 * page, &block);
        assert!(matches!(refused, Err(SysError::NotCommitted { .. })));
        let refused = map.cover(1..page, &block);
        assert!(matches!(refused, Err(SysError::BadRange { .. })));
        map.cover(page..page, &block).unwrap();
        assert!(Block::new(&[]).is_err());
        assert!(Block::new(&[0; 3]).is_err());
    }

    #[test]
    fn a_refusal_half_way_leaves_every_byte_usable() {
        let (page, words) = (page_size(), page_size() / 8);
        let block = block(1, 5);
        let mut map = committed(4);
        let faults = Faults::new().fail(Call::Mmap, 3, libc::ENOMEM);
        let scope = faults.enter();
        let refused = map.cover(0..4 * page, &block);
        drop(scope);
        assert_eq!(refused.unwrap_err().call(), Some(Call::Mmap));
        assert_eq!((word(&mut map, words), word(&mut map, 2 * words)), (5, 0));
        map.uncover(0..4 * page).unwrap();
        for at in 0..4 {
            assert_eq!(word(&mut map, at * words), 0);
        }
    }

    #[test]
    fn every_step_of_making_a_block_can_be_refused() {
        let words = vec![1; page_size() / 8];
        for call in [Call::MemfdCreate, Call::Write, Call::Fcntl] {
            let faults = Faults::new().fail(call, 1, libc::ENOSYS);
            let _scope = faults.enter();
            assert_eq!(Block::new(&words).unwrap_err().call(), Some(call));
        }
        let faults = Faults::new().fail(Call::Write, 1, libc::EINTR);
        let _scope = faults.enter();
        assert!(
            Block::new(&words).is_ok(),
            "an interrupted write is made again"
        );
    }

    #[test]
    fn nothing_can_change_a_block() {
        let block = block(1, 0);
        // SAFETY: writes a byte that lives to a file of ours.
        let written = unsafe { libc::pwrite(block.file.as_raw_fd(), [1_u8].as_ptr().cast(), 1, 0) };
        assert_eq!(written, -1);
        assert_eq!(block.len(), page_size());
    }
}
