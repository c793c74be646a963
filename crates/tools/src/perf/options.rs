//! What the user asks for, and the plan that follows from it.

use clap::Parser;
use memmap_core::StructPageSize;
use study::judge::{JudgeError, MIN_ROUNDS};

use super::PerfError;

/// Pages in a block of the largest order; windows are whole blocks.
pub(super) const BLOCK_PAGES: usize = 1024;
/// Bytes that a window is about: long beside timer and barrier, short beside a time slice.
const WINDOW_BYTES: usize = 4 << 20;
/// Memory per thread in units of the last-level cache.
const CACHES: u64 = 8;
/// The cache that is assumed where the host does not state one, in bytes.
const ASSUMED_CACHE: u64 = 64 << 20;

/// Page writers beside the streaming limit and Linux's way in C.
#[derive(Clone, Debug, Parser)]
#[command(name = "perf", max_term_width = 100)]
pub struct Options {
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Numbers of threads, one table each; every thread is pinned to a CPU of its own.
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "LIST")]
    pub threads: Vec<usize>,
    /// Struct pages of memory to go round in [default: 8 times the last-level cache].
    #[arg(long, value_name = "N")]
    pub pages: Option<u64>,
    /// Bytes of a struct page: 56 to 96 in steps of 8.
    #[arg(long, default_value_t = 64, value_name = "BYTES")]
    pub size: usize,
    /// Rounds of every comparison, at least 61.
    #[arg(long, default_value_t = 601, value_name = "N")]
    pub rounds: usize,
    /// Forbid huge pages instead of asking for them.
    #[arg(long)]
    pub small_pages: bool,
    /// Leave out the comparison of first touch fused with writing and apart.
    #[arg(long = "no-fault", action = clap::ArgAction::SetFalse)]
    pub fault: bool,
    /// Exit with 1 where a requirement does not hold.
    #[arg(long)]
    pub check: bool,
}

/// What is going to be measured.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) size: StructPageSize,
    pub(super) threads: Vec<usize>,
    /// CPUs that workers are pinned to, in order.
    pub(super) cpus: Vec<usize>,
    /// Struct pages in a window.
    pub(super) window_pages: usize,
    /// Windows in the whole arena.
    pub(super) windows: usize,
    pub(super) rounds: usize,
    /// Rounds of the warm-up that chooses the limit.
    pub(super) warm_up: usize,
    pub(super) huge: bool,
    /// Bytes of the last-level cache as far as the host says.
    pub(super) cache: u64,
    pub(super) notes: Vec<String>,
}

impl Plan {
    /// Bytes of one window.
    pub(super) fn window_bytes(&self) -> usize {
        self.window_pages * self.size.bytes()
    }

    /// Bytes of the arena.
    pub(super) fn bytes(&self) -> u64 {
        self.window_bytes() as u64 * self.windows as u64
    }
}

impl Options {
    /// Checks everything against this host.
    pub(super) fn plan(&self) -> Result<Plan, PerfError> {
        let size =
            StructPageSize::from_bytes(self.size).ok_or(PerfError::Size { size: self.size })?;
        if self.rounds < MIN_ROUNDS {
            return Err(JudgeError::TooFewRounds {
                rounds: self.rounds,
            }
            .into());
        }
        let cpus = allowed_cpus()?;
        let mut most = 1;
        for &threads in &self.threads {
            if threads == 0 || threads > cpus.len() {
                let allowed = cpus.len();
                return Err(PerfError::Threads { threads, allowed });
            }
            most = most.max(threads);
        }
        let mut notes = Vec::new();
        let cache = sys::last_level_cache().map_or_else(
            || {
                notes.push(format!(
                    "the host states no cache; {} MiB assumed",
                    ASSUMED_CACHE >> 20
                ));
                ASSUMED_CACHE
            },
            |cache| cache.bytes,
        );
        let window_pages = (WINDOW_BYTES / size.bytes()).next_multiple_of(BLOCK_PAGES);
        let window_bytes = (window_pages * size.bytes()) as u64;
        let available = sys::available_memory();
        // Half of what there is: others need some, and so does the page cache of their work.
        let affordable = (available.bytes / 2 / window_bytes) as usize;
        let wanted = match self.pages {
            Some(pages) => (pages / window_pages as u64) as usize,
            None => (CACHES * cache).div_ceil(window_bytes) as usize,
        };
        // Two windows a thread are the least that can go round.
        let least = 2 * most;
        if wanted < least {
            return Err(PerfError::TooFewPages {
                pages: self.pages.unwrap_or((wanted * window_pages) as u64),
                least: (least * window_pages) as u64,
                threads: most,
                size: size.bytes(),
            });
        }
        let mut windows = wanted;
        if wanted > affordable {
            let memory = PerfError::Memory {
                wanted: (wanted as u64 * window_bytes) >> 20,
                available: available.to_string(),
                fits: (affordable * window_pages) as u64,
            };
            if self.pages.is_some() || affordable < least {
                return Err(memory);
            }
            windows = affordable;
        }
        let bytes = windows as u64 * window_bytes;
        if bytes < CACHES * cache {
            notes.push(format!(
                "note: {} MiB of memory are {:.1} times the last-level cache of {} MiB, not {CACHES}; \
                 ordinary stores look better than they are",
                bytes >> 20,
                bytes as f64 / cache as f64,
                cache >> 20,
            ));
        }
        Ok(Plan {
            size,
            threads: self.threads.clone(),
            cpus,
            window_pages,
            windows,
            rounds: self.rounds,
            warm_up: 31,
            huge: !self.small_pages,
            cache,
            notes,
        })
    }
}

/// The CPUs of our affinity mask, the last first: the first ones serve most interrupts.
fn allowed_cpus() -> Result<Vec<usize>, PerfError> {
    let mask = sys::affinity()?;
    let is_set = |cpu: &usize| mask[cpu / 64] >> (cpu % 64) & 1 == 1;
    Ok((0..mask.len() * 64).rev().filter(is_set).collect())
}
