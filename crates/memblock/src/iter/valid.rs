//! The kernel's skip over frames that are not memory.

use crate::{Memblock, Pfn};

/// The next frame above `pfn` that may be memory, at most `max`.
///
/// The same with and without nodes. Where there is no memblock (`None`: an architecture that
/// keeps none, or one that threw it away after boot) it is the next frame, so that a caller needs
/// no other code for such machines.
///
/// `Linux: mm/memblock.c, memblock_next_valid_pfn`, in Linux from 4.12 to 4.16.
///
/// # Differences from Linux
/// Never above `max`, so that a walk `while pfn < max` ends.
///
/// # When not to use it
/// "Not memory" is not "no struct page": the last section of a range of memory has struct pages
/// behind the memory, and a walk that is to initialise them must not skip them. It is what lost
/// valid pages on x86 in 2018. Such a walk goes by sections:
/// [`for_each_valid_pfn`](crate::for_each_valid_pfn).
///
/// ```
/// use memblock::{Behaviour, Memblock, Pfn, PhysAddr, PhysRange, next_valid_pfn};
/// let mut memblock = Memblock::new(Behaviour::V6_1);
/// memblock.add(PhysRange::from_size(PhysAddr::new(0x4800_0000), 0x1000))?;
/// let (pfn, max) = (Pfn::new(3), Pfn::new(1 << 20));
/// assert_eq!(next_valid_pfn(Some(&memblock), pfn, max, 12), Pfn::new(0x48000));
/// assert_eq!(next_valid_pfn(None, pfn, max, 12), Pfn::new(4));
/// # Ok::<(), memblock::MemblockError>(())
/// ```
#[doc(alias = "memblock_next_valid_pfn")]
#[inline]
pub fn next_valid_pfn(memblock: Option<&Memblock>, pfn: Pfn, max: Pfn, page_shift: u32) -> Pfn {
    match memblock {
        Some(memblock) => memblock.next_valid_pfn(pfn, max, page_shift),
        None => pfn.saturating_add(1).min(max),
    }
}
