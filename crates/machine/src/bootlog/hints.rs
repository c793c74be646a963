//! Single lines that tell something on the side.
//!
//! Reservations that are reported on their own, the page size that a hash table's size gives
//! away, the number of CPUs that the kernel was built for.

use memblock::{PhysAddr, PhysRange};

use crate::layout::MemoryRange;
use crate::text::scan::Scan;

/// Who reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReservedBy {
    /// `RAMDISK:`, the initial file system.
    Initrd,
    /// The crash kernel.
    CrashKernel,
    /// The first MiB, kept from all else where a crash kernel may come: 5.5 to 5.13 say so, later
    /// kernels do it on any machine and say nothing.
    LowMegabyte,
    /// The contiguous allocator.
    Cma,
    /// A node of the device tree below `reserved-memory`.
    DeviceTree,
    /// A device-tree range without a map: memory that is never touched.
    DeviceTreeNoMap,
}

/// A reservation that a line of its own reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedHint {
    /// Line number.
    pub line: u64,
    /// What is reserved.
    pub range: PhysRange,
    /// By whom.
    pub by: ReservedBy,
}

/// Reservations that are kept; kernels have room for tens of them.
const MAX_RESERVED: usize = 1024;

/// What single lines tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Reservations.
    pub reserved: Vec<ReservedHint>,
    /// Memory given back after the hand-over: line and KiB.
    pub freed: Vec<(u64, u64)>,
    /// Huge pages that were set aside at boot: bytes of one, and how many.
    pub huge_pages: Vec<(u64, u64)>,
    /// Messages that the kernel says it dropped, because its buffer was full.
    pub dropped: u64,
    /// Sizes in bytes that persistent memory devices report.
    pub capacities: Vec<u64>,
    /// Page size in bytes, and the line of the hash table that shows it.
    pub page_size: Option<(u64, u64)>,
    /// `NR_CPUS`, and its line.
    pub nr_cpus: Option<(u64, u64)>,
    /// `nr_node_ids`, and its line.
    pub nr_node_ids: Option<(u64, u64)>,
}

impl Hints {
    /// The contiguous allocator's areas.
    pub fn cma(&self) -> Vec<MemoryRange> {
        let areas = self
            .reserved
            .iter()
            .filter(|hint| hint.by == ReservedBy::Cma);
        let area = |hint: &ReservedHint| MemoryRange {
            range: hint.range,
            node: None,
            flags: 0,
            line: hint.line,
        };
        areas.map(area).collect()
    }

    /// Takes one message; `true` if it told something.
    pub(super) fn feed(&mut self, line: u64, text: &str) -> bool {
        if let Some(size) = page_size(text) {
            self.page_size.get_or_insert((size, line));
            return true;
        }
        if let Some(rest) = text.strip_prefix("** ")
            && let Some((count, _)) = rest.split_once(" printk messages dropped")
        {
            let count = Scan(count).dec().unwrap_or(1);
            self.dropped = self.dropped.saturating_add(count);
            return true;
        }
        if let Some(rest) = text.strip_prefix("HugeTLB") {
            if let (Some(pages), true) = (huge_pages(rest), self.huge_pages.len() < MAX_RESERVED) {
                self.huge_pages.push(pages);
            }
            return true;
        }
        if text.starts_with("pmem")
            && let Some((_, rest)) = text.split_once(": detected capacity change from 0 to ")
        {
            if let (Some(bytes), true) = (Scan(rest).dec(), self.capacities.len() < MAX_RESERVED) {
                self.capacities.push(bytes);
            }
            return true;
        }
        if text.contains("NR_CPUS") {
            let number = |name: &str| {
                let (_, rest) = text.split_once(name)?;
                Scan(rest).dec()
            };
            if let Some(cpus) = number("NR_CPUS:").or_else(|| number("NR_CPUS=")) {
                self.nr_cpus.get_or_insert((cpus, line));
            }
            if let Some(nodes) = number("nr_node_ids:") {
                self.nr_node_ids.get_or_insert((nodes, line));
            }
            return true;
        }
        if let Some(rest) = text.strip_prefix("Freeing ") {
            // `Freeing SMP alternatives memory: 40K`
            let size = rest
                .rsplit_once("memory: ")
                .and_then(|(_, size)| Scan(size).dec());
            if let (Some(kib), true) = (size, self.freed.len() < MAX_RESERVED) {
                self.freed.push((line, kib));
            }
            return size.is_some();
        }
        let Some((range, by)) = reservation(text) else {
            return false;
        };
        let room = self.reserved.len() < MAX_RESERVED;
        if room && self.reserved.iter().all(|known| known.range != range) {
            self.reserved.push(ReservedHint { line, range, by });
        }
        true
    }
}

/// `HugeTLB: registered 1.00 GiB page size, pre-allocated 3 pages`, without its first word.
fn huge_pages(rest: &str) -> Option<(u64, u64)> {
    let mut scan = Scan(rest.strip_prefix(':').unwrap_or(rest));
    scan.eat("registered ")?;
    let whole = scan.dec()?;
    // Sizes are powers of two of their unit: the decimals are zeros.
    scan.eat(".00 ")?;
    let shift = match scan.word() {
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    scan.eat("page size, pre-allocated")?;
    Some((whole.checked_mul(1 << shift)?, scan.dec()?))
}

/// `… hash table entries: E (order: O, B bytes…)`: a table of B = page size × 2^O bytes.
fn page_size(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("hash table entries:")?;
    let mut scan = Scan(rest.split_once("(order: ")?.1);
    let order = scan.dec()?;
    scan.eat(",")?;
    let bytes = scan.dec()?;
    scan.eat("bytes")?;
    // Order 0 is anything up to a page.
    if order == 0 || order > 40 || !bytes.is_power_of_two() {
        return None;
    }
    let size = bytes >> order;
    (size.is_power_of_two() && (4096..=1 << 20).contains(&size)).then_some(size)
}

fn reservation(text: &str) -> Option<(PhysRange, ReservedBy)> {
    if let Some(rest) = text.strip_prefix("RAMDISK:") {
        let mut scan = Scan(rest);
        let range = scan.mem().or_else(|| scan.exclusive("-"))?;
        return Some((range, ReservedBy::Initrd));
    }
    if text.contains("Reserving the low 1M of memory for crashkernel") {
        let low = PhysRange::from_size(PhysAddr::ZERO, 1 << 20);
        return Some((low, ReservedBy::LowMegabyte));
    }
    if let Some(rest) = text.strip_prefix("crashkernel reserved:") {
        return Some((Scan(rest).exclusive("-")?, ReservedBy::CrashKernel));
    }
    if let Some(rest) = text.strip_prefix("Reserving ")
        && text.contains("for crashkernel")
    {
        let mut scan = Scan(rest);
        let size = scan.dec()?.checked_mul(1 << 20)?;
        scan.eat("MB of memory at")?;
        let start = scan.dec()?.checked_mul(1 << 20)?;
        return Some((
            PhysRange::from_size(PhysAddr::new(start), size),
            ReservedBy::CrashKernel,
        ));
    }
    if let Some(rest) = text.strip_prefix("cma: Reserved ") {
        let mut scan = Scan(rest);
        let size = scan.dec()?.checked_mul(1 << 20)?;
        scan.eat("MiB at")?;
        return Some((
            PhysRange::from_size(PhysAddr::new(scan.hex()?), size),
            ReservedBy::Cma,
        ));
    }
    if let Some((_, rest)) = text.split_once("Reserved memory: created ") {
        let (kind, rest) = rest.split_once(" memory pool at ")?;
        let mut scan = Scan(rest);
        let start = scan.hex()?;
        scan.eat(", size ")?;
        let size = scan.dec()?.checked_mul(1 << 20)?;
        let by = match kind {
            "CMA" => ReservedBy::Cma,
            _ => ReservedBy::DeviceTree,
        };
        return Some((PhysRange::from_size(PhysAddr::new(start), size), by));
    }
    let mut scan = Scan(text.strip_prefix("OF: reserved mem:")?);
    let start = scan.hex()?;
    scan.eat("..")?;
    let last = scan.hex()?;
    if last < start {
        return None;
    }
    let by = if scan.0.contains(" nomap ") {
        ReservedBy::DeviceTreeNoMap
    } else {
        ReservedBy::DeviceTree
    };
    Some((
        PhysRange::from_inclusive(PhysAddr::new(start), PhysAddr::new(last)),
        by,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_table_gives_the_page_size_away() {
        let table = |text| page_size(text);
        assert_eq!(
            table("Inode-cache hash table entries: 65536 (order: 5, 524288 bytes, linear)"),
            Some(16384)
        );
        assert_eq!(
            table("x hash table entries: 9 (order: 0, 8192 bytes)"),
            None
        );
        assert_eq!(
            table("x hash table entries: 9 (order: 99, 8192 bytes)"),
            None
        );
        assert_eq!(table("x hash table entries: 9 (order: -1, 8 bytes)"), None);
    }

    #[test]
    fn reservations_of_every_wording_are_found() {
        for (text, start, size) in [
            ("RAMDISK: [mem 0x1000-0x2fff]", 0x1000, 0x2000),
            ("RAMDISK: 1000 - 3000", 0x1000, 0x2000),
            (
                "crashkernel reserved: 0x0000000010000000 - 0x0000000020000000 (256 MB)",
                0x1000_0000,
                0x1000_0000,
            ),
            (
                "Reserving 16MB of memory at 2MB for crashkernel (System RAM: 99MB)",
                0x20_0000,
                0x100_0000,
            ),
            (
                "kexec: Reserving the low 1M of memory for crashkernel",
                0,
                0x10_0000,
            ),
            (
                "cma: Reserved 64 MiB at 0x00000000fc000000 on node -1",
                0xfc00_0000,
                0x400_0000,
            ),
            (
                "Reserved memory: created DMA memory pool at 0x00000000a0000000, size 8 MiB",
                0xa000_0000,
                0x80_0000,
            ),
            (
                "OF: reserved mem: 0x80000000..0x8007ffff (512 KiB) nomap non-reusable a@80000000",
                0x8000_0000,
                0x8_0000,
            ),
        ] {
            let (range, _) = reservation(text).expect(text);
            assert_eq!(
                range,
                PhysRange::from_size(PhysAddr::new(start), size),
                "{text}"
            );
        }
        let huge =
            "Reserving 99999999999999999MB of memory at 2MB for crashkernel (System RAM: 9MB)";
        assert_eq!(reservation(huge), None);
    }
}
