//! Figures that a kernel prints and does not keep.
//!
//! Linux: `mm/mm_init.c`, `calc_memmap_size`; `mm/page_alloc.c`, `zone_batchsize`. Pages are of
//! the kernel's page size.

use memmap_core::{LifoBatch, Zone};

/// Largest number of bytes that a CPU's list of one zone takes at a time, four lists' worth.
///
/// 512 KiB up to 4.x, 1 MiB from 5.0 on (seen: 31 pages on 4.18 and 4.19 machines, 63 on a 5.0
/// one, both with pages of 4 KiB).
pub const fn batch_bytes(version: (u16, u16)) -> u64 {
    if version.0 < 5 { 512 << 10 } else { 1 << 20 }
}

/// Pages that `LIFO batch:` names for a zone that is taken to have `managed` pages.
///
/// `cap` is in bytes, as [`batch_bytes`] gives it.
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

/// Pages that the memory map of `zone` takes, with struct pages of `struct_bytes` bytes.
///
/// Holes are not paid for where they are more than a sixteenth of the zone.
#[doc(alias = "calc_memmap_size")]
pub const fn memmap_pages(zone: &Zone, struct_bytes: u64, page_shift: u32) -> u64 {
    let holes_matter = zone.spanned > zone.present + (zone.present >> 4);
    let pages = if holes_matter {
        zone.present
    } else {
        zone.spanned
    };
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
}
