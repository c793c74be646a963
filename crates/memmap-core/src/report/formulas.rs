//! Figures that a kernel prints and does not keep.
//!
//! Linux: `mm/mm_init.c`, `calc_memmap_size`; `mm/page_alloc.c`, `zone_batchsize`. Pages are of
//! the kernel's page size.

use crate::profile::LifoBatch;

/// Largest number of bytes that a CPU's list of one zone takes at a time, four lists' worth.
pub const BATCH_BYTES: u64 = 1 << 20;

/// Pages that `LIFO batch:` names for a zone that is taken to have `managed` pages.
///
/// `cap` is in bytes, [`BATCH_BYTES`] in the kernels that have a profile.
#[doc(alias = "zone_batchsize")]
pub const fn lifo_batch(managed: u64, page_shift: u32, cap: u64, behaviour: LifoBatch) -> u64 {
    let cap = cap >> page_shift;
    let mut batch = if managed >> 10 < cap {
        managed >> 10
    } else {
        cap
    };
    batch /= 4;
    if batch <= 1 {
        return match behaviour {
            LifoBatch::OneForTiny => 1,
            LifoBatch::ZeroForTiny => 0,
        };
    }
    batch += batch / 2;
    // The largest power of two that is not above, less one.
    (1 << (u64::BITS - 1 - batch.leading_zeros())) - 1
}

/// Pages that the memory map of a zone with these pages `(spanned, present)` takes, with struct
/// pages of `struct_bytes` bytes.
///
/// Where the map is in sections, holes are not paid for if they are more than a sixteenth of the
/// zone.
#[doc(alias = "calc_memmap_size")]
pub const fn memmap_pages(
    (spanned, present): (u64, u64),
    sparse: bool,
    struct_bytes: u64,
    page_shift: u32,
) -> u64 {
    let left_out = sparse && spanned > present + (present >> 4);
    let pages = if left_out { present } else { spanned };
    pages.saturating_mul(struct_bytes).div_ceil(1 << page_shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_those_of_real_zones() {
        let batch = |managed, shift, cap| lifo_batch(managed, shift, cap, LifoBatch::ZeroForTiny);
        let mib = 1 << 20;
        assert_eq!(batch(3998, 12, mib), 0);
        assert_eq!(batch(770_071, 12, mib), 63);
        assert_eq!(batch(7_483_392, 12, mib), 63);
        assert_eq!(batch(7_483_392, 12, mib / 2), 31);
        assert_eq!(batch(1 << 20, 16, mib), 3);
        assert_eq!(batch(1 << 20, 13, mib), 31);
        assert_eq!(lifo_batch(3998, 12, mib, LifoBatch::OneForTiny), 1);
        assert_eq!(lifo_batch(u64::MAX, 12, mib, LifoBatch::OneForTiny), 63);
    }

    #[test]
    fn holes_of_a_zone_are_paid_for_only_without_sections_or_where_they_are_few() {
        assert_eq!(memmap_pages((782_295, 782_295), true, 64, 12), 12224);
        assert_eq!(memmap_pages((4095, 3998), true, 64, 12), 64);
        assert_eq!(memmap_pages((2000, 1000), true, 64, 12), 16);
        assert_eq!(memmap_pages((2000, 1000), false, 64, 12), 32);
        assert_eq!(memmap_pages((1 << 20, 1 << 20), true, 56, 16), 896);
    }
}
