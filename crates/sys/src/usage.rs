//! How much memory a mapping really takes.

use crate::mapping::Mapping;

/// Bytes of memory behind a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// In memory, its own and shared.
    pub resident: u64,
    /// Its own: given back when the mapping goes.
    pub private: u64,
    /// In huge pages, transparent ones and those of the reserved pool (which the other figures do not
    /// count).
    pub huge: u64,
}

impl Mapping {
    /// What the system says that the mapping takes; `None` where it does not say.
    #[doc(alias = "smaps")]
    pub fn memory_use(&self) -> Option<MemoryUse> {
        let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let start = self.as_ptr().as_ptr().addr();
        Some(sum(&text, start, start + self.len()))
    }
}

/// Adds up the mappings that lie in `[start, end)`, by addresses.
fn sum(smaps: &str, start: usize, end: usize) -> MemoryUse {
    let mut total = MemoryUse::default();
    let mut inside = false;
    for line in smaps.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some((from, to)) = first.split_once('-') {
            let number = |text| usize::from_str_radix(text, 16).ok();
            if let (Some(from), Some(to)) = (number(from), number(to)) {
                inside = start <= from && to <= end;
                continue;
            }
        }
        if !inside {
            continue;
        }
        let kib = || rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok();
        match first {
            "Rss:" => total.resident += kib().unwrap_or(0) << 10,
            "AnonHugePages:" | "Private_Hugetlb:" => total.huge += kib().unwrap_or(0) << 10,
            "Anonymous:" => total.private += kib().unwrap_or(0) << 10,
            _ => {}
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_size;

    #[test]
    fn only_mappings_inside_are_added_up() {
        let smaps = "\
1000-3000 rw-p 00000000 00:01 5 /memfd:block
Rss:                   8 kB
Anonymous:             4 kB
VmFlags: rd wr
3000-4000 rw-p 00000000 00:00 0
Rss:                   4 kB
Anonymous:             4 kB
4000-9000 rw-p 00000000 00:00 0
Rss:                  16 kB
Anonymous:            16 kB
";
        let sum = |start, end| {
            let total = sum(smaps, start, end);
            (total.resident >> 10, total.private >> 10)
        };
        assert_eq!(sum(0x1000, 0x4000), (12, 8));
        assert_eq!(sum(0x2000, 0x5000), (4, 4));
        assert_eq!(sum(0x4000, 0x9000), (16, 16));
    }

    #[test]
    fn a_mapping_takes_what_was_touched_of_it() -> Result<(), crate::SysError> {
        let page = page_size();
        let mut map = Mapping::reserve(64 * page)?;
        map.commit(0..64 * page)?;
        let Some(before) = map.memory_use() else {
            captures::skipped("this system does not say what a mapping takes");
            return Ok(());
        };
        map.huge_pages(0..64 * page, crate::HugePages::Never).ok();
        map.fault_in(3 * page..8 * page)?;
        let after = map.memory_use().unwrap_or_default();
        assert_eq!(before.private, 0);
        assert_eq!(after.private, 5 * page as u64);
        Ok(())
    }
}
