//! Committed memory as words, without a pointer in the caller's hands.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::SysError;
use crate::mapping::Mapping;

impl Mapping {
    /// The committed bytes `range` as 64-bit words, to write and read like any slice.
    ///
    /// # Errors
    /// [`SysError::BadRange`] where the range is not committed, or does not start and end at
    /// multiples of 8 bytes.
    pub fn words_mut(&mut self, range: Range<usize>) -> Result<&mut [u64], SysError> {
        let whole = range.start.is_multiple_of(8) && range.end.is_multiple_of(8);
        if !whole || range.start > range.end || !self.is_committed(&range) {
            return Err(SysError::BadRange {
                start: range.start,
                end: range.end,
                len: self.len(),
            });
        }
        let start = self.as_ptr().as_ptr().wrapping_add(range.start);
        // SAFETY: 1. the range lies in the mapping and is committed, so it may be read and written.
        //         It reads as zero until somebody writes it, so every word is initialised.
        //         2. the mapping starts at a page boundary and the range at a multiple of 8.
        //         3. the slice borrows the mapping exclusively, so nothing unmaps, discards or
        //            aliases it meanwhile.
        Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), range.len() / 8) })
    }

    /// Copies committed words from byte `offset` on, a multiple of 8, into `words`, each by one
    /// relaxed load.
    ///
    /// # Errors
    /// [`SysError::BadRange`] where they are not all committed, or `offset` is no multiple of 8.
    pub fn load(&self, offset: usize, words: &mut [u64]) -> Result<(), SysError> {
        let end = offset.saturating_add(size_of_val(words));
        if !offset.is_multiple_of(8) || !self.is_committed(&(offset..end)) {
            return Err(SysError::BadRange {
                start: offset,
                end,
                len: self.len(),
            });
        }
        let start = self.as_ptr().as_ptr().wrapping_add(offset);
        for (k, word) in words.iter_mut().enumerate() {
            let at = start.wrapping_add(8 * k).cast::<u64>();
            // SAFETY: 1. the word is committed, aligned, and initialised by the system if by nobody
            //         else. 2. what is written through `&self` is written by atomics; plain writes
            //         borrow the mapping exclusively.
            let at = unsafe { AtomicU64::from_ptr(at) };
            // Relaxed: orders nothing; whoever needs order has it from what told them to look.
            *word = at.load(Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Mapping, SysError, page_size};

    #[test]
    fn committed_words_can_be_written_and_others_are_refused() -> Result<(), SysError> {
        let page = page_size();
        let mut map = Mapping::reserve(3 * page)?;
        map.commit(page..2 * page)?;
        let words = map.words_mut(page + 8..2 * page)?;
        assert_eq!(words.len(), page / 8 - 1);
        words[0] = 7;
        for bad in [0..page, page..3 * page, page + 4..page + 8, page..page + 12] {
            let refused = map.words_mut(bad.clone());
            assert!(matches!(refused, Err(SysError::BadRange { .. })), "{bad:?}");
        }
        Ok(())
    }
    #[test]
    fn loaded_words_are_those_that_were_written_and_zero_elsewhere() -> Result<(), SysError> {
        let page = page_size();
        let mut map = Mapping::reserve(2 * page)?;
        map.commit(0..page)?;
        map.words_mut(8..16)?[0] = 5;
        let mut words = [9; 3];
        map.load(0, &mut words)?;
        assert_eq!(words, [0, 5, 0]);
        for bad in [page - 16, page, 4, usize::MAX - 7] {
            assert!(matches!(
                map.load(bad, &mut words),
                Err(SysError::BadRange { .. })
            ));
        }
        Ok(())
    }
}
