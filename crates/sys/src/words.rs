//! Committed memory as words, without a pointer in the caller's hands.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::error::SysError;
use crate::mapping::Mapping;

impl Mapping {
    /// The committed bytes `range` as 64-bit words, to write and read like any slice.
    ///
    /// # Errors
    /// [`SysError::BadRange`] where the range is not committed, or does not start and end at
    /// multiples of 8 bytes.
    pub fn words_mut(&mut self, range: Range<usize>) -> Result<&mut [MaybeUninit<u64>], SysError> {
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
        //         2. the mapping starts at a page boundary and the range at a multiple of 8.
        //         3. the slice borrows the mapping exclusively, so nothing unmaps, discards or
        //            aliases it meanwhile.
        Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), range.len() / 8) })
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
        words[0].write(7);
        for bad in [0..page, page..3 * page, page + 4..page + 8, page..page + 12] {
            let refused = map.words_mut(bad.clone());
            assert!(matches!(refused, Err(SysError::BadRange { .. })), "{bad:?}");
        }
        Ok(())
    }
}
