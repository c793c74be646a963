//! Hardware counters of runs, where the system lets us have them.
//!
//! They are opened before the first worker begins and inherited by all, so one reading covers every
//! thread of the process; what the main thread adds while workers write is next to nothing. Counters
//! that had to share the hardware are scaled by the time for which they had it.

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware};
use perf_event::{Builder, Counter};

use crate::record::Counters;

/// The counters, each with its reading at the beginning of a run.
#[derive(Debug)]
pub(super) struct Counting {
    counters: Vec<Open>,
    absent: Vec<String>,
}

#[derive(Debug)]
struct Open {
    what: What,
    counter: Counter,
    before: Reading,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    LlcMisses,
    DtlbStoreMisses,
    RemoteStores,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    count: u64,
    enabled: u64,
    running: u64,
}

impl Counting {
    /// Opens what can be opened.
    pub(super) fn open() -> Self {
        let store_misses = |which| Cache {
            which,
            operation: CacheOp::WRITE,
            result: CacheResult::MISS,
        };
        let mut counting = Self {
            counters: Vec::new(),
            absent: Vec::new(),
        };
        counting.add(
            What::LlcMisses,
            "LLC misses",
            Builder::new(Hardware::CACHE_MISSES),
        );
        let tlb = Builder::new(store_misses(CacheId::DTLB));
        counting.add(What::DtlbStoreMisses, "dTLB store misses", tlb);
        let node = Builder::new(store_misses(CacheId::NODE));
        counting.add(What::RemoteStores, "remote stores", node);
        counting
    }

    /// None, for this reason.
    pub(super) fn absent(why: &str) -> Self {
        Self {
            counters: Vec::new(),
            absent: vec![why.to_owned()],
        }
    }

    /// Why some are absent; `None` where none is.
    pub(super) fn why_absent(&self) -> Option<String> {
        (!self.absent.is_empty()).then(|| self.absent.join("; "))
    }

    fn add(&mut self, what: What, name: &str, mut builder: Builder<'_>) {
        let opened = builder
            .inherit(true)
            .enabled(true)
            .exclude_kernel(true)
            .exclude_hv(true)
            .build();
        match opened {
            Ok(counter) => self.counters.push(Open {
                what,
                counter,
                before: Reading::default(),
            }),
            Err(error) => self.absent.push(format!("{name}: {error}")),
        }
    }

    /// A run begins.
    pub(super) fn begin(&mut self) {
        for open in &mut self.counters {
            open.before = read(&mut open.counter).unwrap_or_default();
        }
    }

    /// It has ended: what was counted meanwhile.
    pub(super) fn end(&mut self) -> Counters {
        let mut counted = Counters {
            absent: self.why_absent().unwrap_or_default(),
            ..Counters::default()
        };
        for open in &mut self.counters {
            let count = read(&mut open.counter).and_then(|after| between(open.before, after));
            match open.what {
                What::LlcMisses => counted.llc_misses = count,
                What::DtlbStoreMisses => counted.dtlb_store_misses = count,
                What::RemoteStores => counted.remote_stores = count,
            }
            if count.is_none() {
                counted.absent = match counted.absent.is_empty() {
                    true => "a counter did not get the hardware".to_owned(),
                    false => counted.absent,
                };
            }
        }
        counted
    }
}

fn read(counter: &mut Counter) -> Option<Reading> {
    let read = counter.read_count_and_time().ok()?;
    Some(Reading {
        count: read.count,
        enabled: read.time_enabled,
        running: read.time_running,
    })
}

/// The count between two readings, scaled; `None` where the counter never had the hardware.
fn between(before: Reading, after: Reading) -> Option<u64> {
    let count = after.count.checked_sub(before.count)?;
    let enabled = after.enabled.checked_sub(before.enabled)?;
    let running = after.running.checked_sub(before.running)?;
    if running == 0 {
        return None;
    }
    let scaled = u128::from(count) * u128::from(enabled.max(running)) / u128::from(running);
    u64::try_from(scaled).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_shared_the_hardware_is_scaled() {
        let reading = |count, enabled, running| Reading {
            count,
            enabled,
            running,
        };
        let before = reading(10, 100, 100);
        assert_eq!(between(before, reading(30, 200, 200)), Some(20));
        assert_eq!(between(before, reading(30, 300, 200)), Some(40));
        assert_eq!(between(before, reading(10, 300, 100)), None, "it never ran");
        assert_eq!(between(before, reading(5, 300, 200)), None);
    }

    #[test]
    fn what_is_absent_says_why() {
        let mut none = Counting::absent("not asked for");
        none.begin();
        let counted = none.end();
        assert_eq!(
            (counted.llc_misses, counted.absent.as_str()),
            (None, "not asked for")
        );
        // on any host: each counter is there or accounted for
        let open = Counting::open();
        assert_eq!(open.counters.len() + open.absent.len(), 3);
    }
}
