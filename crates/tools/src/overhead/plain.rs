//! Loops that write sections and do nothing else.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use deferred_init::workers::{Crew, Start};
use memmap_core::MemoryMap;
use memmap_core::writers::PageWriter;

/// What a loop took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Took {
    /// From the start of all to the end of the last.
    pub(super) wall: Duration,
    /// Processors' time of the whole process meanwhile.
    pub(super) processor: Duration,
}

/// Has every worker of the crew write an equal share of the sections, one after the other, and
/// nothing else.
///
/// Sections are claimed before the clock starts and published after it stopped; a share is its
/// worker's alone, so that workers have nothing in common but the machine.
pub(super) fn plain(map: &MemoryMap, crew: &Crew, writer: &dyn PageWriter) -> Took {
    let mut claims: Vec<_> = map
        .geometry()
        .sections()
        .iter()
        .filter_map(|section| map.claim(section))
        .collect();
    let workers = crew.seats().len();
    let share = claims.len().div_ceil(workers).max(1);
    let shares: Vec<_> = claims.chunks_mut(share).map(Mutex::new).collect();
    let start = Start::new(workers);
    let took = Mutex::new(Took::default());
    crew.each(&|worker| {
        let mut share = shares
            .get(worker)
            .map(|share| share.lock().unwrap_or_else(PoisonError::into_inner));
        start.wait();
        let (began, used) = (Instant::now(), sys::process_time());
        for claim in share.iter_mut().flat_map(|share| share.iter_mut()) {
            claim.write(writer);
        }
        let (wall, now) = (began.elapsed(), sys::process_time());
        let mut took = took.lock().unwrap_or_else(PoisonError::into_inner);
        took.wall = took.wall.max(wall);
        took.processor = took.processor.max(now.saturating_sub(used));
    });
    drop(shares);
    for claim in claims {
        claim.publish();
    }
    took.into_inner().unwrap_or_else(PoisonError::into_inner)
}
