//! What `Memory:` calls reserved.

use memblock::{Memblock, MemblockFlags};
use memmap_core::{Arch, Geometry, Profile};

use super::Reason;
use crate::figures::FigureKind;
use crate::layout::{MachineLayout, ReservedSource};

/// What `Memory:` calls reserved, where every reservation is known: present pages that were not
/// handed over, less those of the contiguous allocator.
pub(super) fn reserved_kib(
    layout: &MachineLayout,
    geometry: &Geometry,
    memblock: &Memblock,
) -> Result<u64, Reason> {
    if layout.provenance.reserved != ReservedSource::MemblockDump || !layout.handed_over {
        return Err(Reason::Reservations);
    }
    let shift = geometry.profile().page_shift;
    let free: u64 = memblock
        .free_ranges(None, MemblockFlags::empty())
        .map(|region| region.range().pfns_inner(shift).len())
        .sum();
    let (line, cma) = layout
        .figures
        .iter()
        .find_map(|figure| match figure.kind {
            FigureKind::Memory { cma, .. } => Some((figure.at.line, cma.unwrap_or(0))),
            _ => None,
        })
        .ok_or(Reason::Reservations)?;
    // What was given back before the line was printed counts as handed over.
    let freed = layout.freed.iter().filter(|freed| freed.0 < line);
    let mut back: u64 = freed.map(|freed| freed.1).fold(0, u64::saturating_add);
    let version = layout.release.as_ref().map_or((6, 12), |r| r.number());
    if counts_boot_huge_pages(version) {
        back = back.saturating_add(boot_huge_kib(layout, geometry.profile()));
    }
    let present: u64 = geometry.nodes().iter().map(|node| node.present).sum();
    let taken = present.saturating_sub(free) << (shift - 10);
    taken
        .checked_add(zero_pages_kib(geometry.profile().arch, version, present)?)
        .and_then(|taken| taken.checked_sub(cma)?.checked_sub(back))
        .ok_or(Reason::Reservations)
}

/// Whether huge pages that were set aside at boot are taken for handed over when `Memory:` is
/// printed: they are completed before it in 6.12 (with its back-ports) and from 7.2 on, after it
/// in between, and up to 6.10 the line comes first (seen: 6.1, 6.12, 6.18, 7.3).
const fn counts_boot_huge_pages(version: (u16, u16)) -> bool {
    version.0 == 6 && version.1 == 12 || version.0 > 7 || version.0 == 7 && version.1 >= 2
}

/// KiB of huge pages that were set aside at boot, and of their memory map where it was given
/// back: those larger than the largest block of the allocator.
fn boot_huge_kib(layout: &MachineLayout, profile: &Profile) -> u64 {
    let largest = profile.page_size() << profile.max_page_order;
    let gives_map_back = layout
        .command_line
        .as_deref()
        .is_some_and(|line| profile.hvo && asks_for_hvo(line));
    let kib = layout.huge_pages.iter().map(|&(size, count)| {
        if size <= largest {
            return 0;
        }
        let map = match gives_map_back {
            true => size / profile.page_size() * u64::from(profile.struct_page_bytes),
            false => 0,
        };
        (size.saturating_add(map) >> 10).saturating_mul(count)
    });
    kib.fold(0, u64::saturating_add)
}

fn asks_for_hvo(command_line: &str) -> bool {
    let words = command_line.split_ascii_whitespace();
    let mut set = words.filter_map(|word| word.strip_prefix("hugetlb_free_vmemmap="));
    matches!(set.next_back(), Some("on" | "1" | "y"))
}

/// KiB of pages of zeros that s390x takes from the allocator before `Memory:` is printed: 128
/// pages of 4 KiB on a machine with memory to spare (seen: 6.12). Kernels of 6.15 and later have
/// not been looked at, nor has a small machine.
const fn zero_pages_kib(arch: Arch, version: (u16, u16), present: u64) -> Result<u64, Reason> {
    if !matches!(arch, Arch::S390x) {
        return Ok(0);
    }
    if version.0 > 6 || version.0 == 6 && version.1 >= 15 || present < 512 << 8 {
        return Err(Reason::Reservations);
    }
    Ok(512)
}
