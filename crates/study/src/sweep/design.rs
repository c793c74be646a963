//! What a sweep is to do.

use std::time::Duration;

use deferred_init::engine::Placement;
use deferred_init::schedule::Scheduler;
use deferred_init::workers::{Pinning, Spread};
use memmap_core::writers::PageWriter;

use crate::judge::MIN_ROUNDS;

/// The fewest rounds of a sweep: below, not even a spread can be given.
pub const FEWEST_ROUNDS: usize = 5;

/// How many rounds a sweep has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// So many, however long they take.
    Exactly(usize),
    /// As many as a verdict needs, or, where those would take longer than this, as many as fit in
    /// it; at least [`FEWEST_ROUNDS`].
    Within(Duration),
}

impl Rounds {
    /// The number of rounds where one takes `round`.
    pub fn resolve(self, round: Duration) -> usize {
        match self {
            Self::Exactly(rounds) => rounds.max(1),
            Self::Within(budget) => {
                let fit = budget.as_nanos() / round.as_nanos().max(1);
                usize::try_from(fit)
                    .unwrap_or(usize::MAX)
                    .clamp(FEWEST_ROUNDS, MIN_ROUNDS)
            }
        }
    }
}

/// Every writer with every number of threads, in rounds.
#[derive(Clone, Debug)]
pub struct Design<'a> {
    /// A name for the sweep, in every record.
    pub name: String,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Page writers.
    pub writers: Vec<&'static dyn PageWriter>,
    /// Who writes what.
    pub scheduler: &'a dyn Scheduler,
    /// Where struct pages lie.
    pub placement: Placement,
    /// How workers are laid over caches.
    pub spread: Spread,
    /// Whether workers are pinned.
    pub pinning: Pinning,
    /// Whether several workers may share a CPU.
    pub oversubscribe: bool,
    /// Huge pages behind the struct pages.
    pub huge_pages: sys::HugePages,
    /// How often everything is run.
    pub rounds: Rounds,
    /// Seed of the order.
    pub seed: u64,
}

/// 1, 2, 4, … and `most` itself.
pub fn doubling(most: usize) -> Vec<usize> {
    let mut threads: Vec<usize> = std::iter::successors(Some(1_usize), |n| n.checked_mul(2))
        .take_while(|&n| n < most)
        .collect();
    threads.push(most.max(1));
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_up_to_all_of_them() {
        assert_eq!(doubling(1), [1]);
        assert_eq!(doubling(2), [1, 2]);
        assert_eq!(doubling(6), [1, 2, 4, 6]);
        assert_eq!(doubling(8), [1, 2, 4, 8]);
    }

    #[test]
    fn rounds_fill_the_time_between_the_fewest_and_what_a_verdict_needs() {
        let within = Rounds::Within(Duration::from_secs(10));
        assert_eq!(within.resolve(Duration::from_millis(1)), MIN_ROUNDS);
        assert_eq!(within.resolve(Duration::from_secs(1)), 10);
        assert_eq!(within.resolve(Duration::from_secs(100)), FEWEST_ROUNDS);
        assert_eq!(Rounds::Exactly(200).resolve(Duration::from_secs(1)), 200);
    }
}
