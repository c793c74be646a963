//! The memory of all measurements, cut into windows.

use std::collections::VecDeque;

use sys::{HugePages, Mapping, SysError};

use super::options::Plan;

/// A worker's windows; the one in front was written least recently.
pub(super) type Ring<'a> = VecDeque<&'a mut [u64]>;

/// Populated memory.
#[derive(Debug)]
pub(super) struct Arena {
    map: Mapping,
    bytes: usize,
    window_words: usize,
    cache: u64,
    huge: bool,
}

/// Alignment that lets huge pages back the arena from its first byte.
const HUGE_PAGE: usize = 2 << 20;

impl Arena {
    /// Maps and populates what the plan asks for.
    pub(super) fn new(plan: &Plan) -> Result<Self, SysError> {
        let bytes = plan.bytes() as usize;
        let mut map = map(bytes, plan.huge)?;
        map.fault_in(0..bytes)?;
        Ok(Self {
            map,
            bytes,
            window_words: plan.window_bytes() / 8,
            cache: plan.cache,
            huge: plan.huge,
        })
    }

    /// The windows dealt out to `threads` workers, each its own consecutive share.
    pub(super) fn rings(&mut self, threads: usize) -> Vec<Ring<'_>> {
        let words = self.map.words_mut(0..self.bytes).unwrap_or_default();
        let mut windows = words.chunks_exact_mut(self.window_words);
        let share = windows.len() / threads;
        (0..threads)
            .map(|_| windows.by_ref().take(share).collect())
            .collect()
    }

    /// Size, cache and pages in words.
    pub(super) fn description(&self) -> String {
        format!(
            "{} MiB populated ({:.1} times the last-level cache of {} MiB) in windows of {:.2} MiB, {}",
            self.bytes >> 20,
            self.bytes as f64 / self.cache as f64,
            self.cache >> 20,
            (self.window_words * 8) as f64 / f64::from(1 << 20),
            match (self.huge, huge_mib()) {
                (true, Some(mib)) => format!("huge pages asked for, {mib} MiB of them got"),
                (true, None) => "huge pages asked for".into(),
                (false, _) => "huge pages forbidden".into(),
            },
        )
    }
}

/// Committed memory without a page behind it, with or without huge pages.
pub(super) fn map(bytes: usize, huge: bool) -> Result<Mapping, SysError> {
    let map = Mapping::reserve_aligned(bytes, HUGE_PAGE)?;
    map.commit(0..bytes)?;
    let wish = if huge {
        HugePages::Always
    } else {
        HugePages::Never
    };
    // A kernel without huge pages refuses the wish: then there are none, which is what we report.
    drop(map.huge_pages(0..bytes, wish));
    Ok(map)
}

/// MiB of huge pages that this process has, where the system says so.
fn huge_mib() -> Option<u64> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = rollup
        .lines()
        .find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib >> 10)
}
