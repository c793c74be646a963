//! The judging rule: which of two ways is faster, and how sure we are.
//!
//! Machines drift, neighbours come and go, and identical code differs from run to run. So nothing
//! here compares two averages. All contestants run in every round, in an order that is shuffled
//! anew each time; a figure is the median over the rounds of the ratio *within* a round; and a
//! verdict goes by the bound of the 95 % bootstrap interval of that median. Drift slower than a
//! round cancels, one disturbed round moves nothing.
//!
//! Everything is deterministic given the times: the shuffling and the resampling draw from a small
//! seeded generator.
//!
//! ```
//! use study::judge::{Rule, Samples};
//!
//! // `fast` takes 1 µs, `slow` 2 µs, whatever the round.
//! let samples = Samples::collect(&Rule::default(), 2, |contestant, _round| {
//!     if contestant == 0 { 1000.0 } else { 2000.0 }
//! })?;
//! let speed = samples.speed(0, 1)?;
//! assert_eq!(speed.median, 2.0);
//! assert!(speed.at_least(1.3));
//! # Ok::<(), study::judge::JudgeError>(())
//! ```

use thiserror::Error;

/// The fewest rounds that a verdict may rest on.
pub const MIN_ROUNDS: usize = 61;

/// How to run and resample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Rounds in which every contestant runs once; at least [`MIN_ROUNDS`].
    pub rounds: usize,
    /// Bootstrap resamples of an interval.
    pub resamples: usize,
    /// Seed of shuffling and resampling.
    pub seed: u64,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            rounds: MIN_ROUNDS,
            resamples: 2000,
            seed: 0x6d65_6d6d_6170,
        }
    }
}

/// Why there is no figure.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// Fewer rounds than the rule demands.
    #[error("{rounds} rounds are too few for a verdict; run at least {MIN_ROUNDS}")]
    TooFewRounds {
        /// The rounds asked for.
        rounds: usize,
    },
    /// An interval needs resamples.
    #[error("{resamples} bootstrap resamples are too few for a 95 % interval; take at least 100")]
    TooFewResamples {
        /// The resamples asked for.
        resamples: usize,
    },
    /// A time that cannot be divided by.
    #[error("contestant {contestant} took {time} in round {round}; times must be positive")]
    BadTime {
        /// Index of the contestant.
        contestant: usize,
        /// Index of the round.
        round: usize,
        /// What was measured.
        time: f64,
    },
    /// A contestant that did not take part.
    #[error("there is no contestant {contestant}, only {contestants}")]
    NoSuchContestant {
        /// The index asked for.
        contestant: usize,
        /// How many there are.
        contestants: usize,
    },
}

/// A median of paired ratios with its 95 % bootstrap interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Median over the rounds.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Rounds it rests on.
    pub rounds: usize,
}

impl Ratio {
    /// Whether the ratio is `bound` or more, by the lower end of the interval.
    pub fn at_least(&self, bound: f64) -> bool {
        self.low >= bound
    }

    /// Whether the ratio is `bound` or less, by the upper end of the interval.
    pub fn at_most(&self, bound: f64) -> bool {
        self.high <= bound
    }
}

/// The times of all contestants in all rounds, in any unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// `times[contestant][round]`.
    times: Vec<Vec<f64>>,
    rule: Rule,
}

impl Samples {
    /// Runs `contestants` contestants through the rule's rounds, each round in a new order.
    ///
    /// `measure(contestant, round)` runs one of them once and returns the time that it took. It
    /// is for `measure` to see that every contestant meets the same memory.
    ///
    /// # Errors
    /// - [`JudgeError::TooFewRounds`] and [`JudgeError::TooFewResamples`]: before anything is run.
    /// - [`JudgeError::BadTime`]: a time was zero, negative or not a number.
    pub fn collect(
        rule: &Rule,
        contestants: usize,
        mut measure: impl FnMut(usize, usize) -> f64,
    ) -> Result<Self, JudgeError> {
        rule.check()?;
        let mut times = vec![Vec::with_capacity(rule.rounds); contestants];
        for (round, order) in orders(rule.seed, contestants).take(rule.rounds).enumerate() {
            for contestant in order {
                times[contestant].push(measure(contestant, round));
            }
        }
        Self::from_times(rule, times)
    }

    /// Takes times that were measured elsewhere, `times[contestant][round]`.
    ///
    /// # Errors
    /// As [`Samples::collect`]; contestants with different numbers of rounds are judged by the
    /// smallest.
    pub fn from_times(rule: &Rule, mut times: Vec<Vec<f64>>) -> Result<Self, JudgeError> {
        let rounds = times.iter().map(Vec::len).min().unwrap_or(rule.rounds);
        let rule = Rule { rounds, ..*rule };
        rule.check()?;
        for (contestant, times) in times.iter_mut().enumerate() {
            times.truncate(rounds);
            let bad = |time: &f64| !(time.is_finite() && *time > 0.0);
            if let Some(round) = times.iter().position(bad) {
                return Err(JudgeError::BadTime {
                    contestant,
                    round,
                    time: times[round],
                });
            }
        }
        Ok(Self { times, rule })
    }

    /// Contestants that took part.
    pub fn contestants(&self) -> usize {
        self.times.len()
    }

    /// The median time of a contestant.
    ///
    /// # Errors
    /// [`JudgeError::NoSuchContestant`].
    pub fn time(&self, contestant: usize) -> Result<f64, JudgeError> {
        Ok(median(&mut self.of(contestant)?.to_vec()))
    }

    /// How many times faster `contestant` is than `reference`: above 1 is faster.
    ///
    /// # Errors
    /// [`JudgeError::NoSuchContestant`].
    pub fn speed(&self, contestant: usize, reference: usize) -> Result<Ratio, JudgeError> {
        self.ratio(reference, contestant)
    }

    /// The time of `contestant` over that of `reference`: above 1 is slower.
    ///
    /// # Errors
    /// [`JudgeError::NoSuchContestant`].
    pub fn cost(&self, contestant: usize, reference: usize) -> Result<Ratio, JudgeError> {
        self.ratio(contestant, reference)
    }

    fn ratio(&self, above: usize, below: usize) -> Result<Ratio, JudgeError> {
        let (above, below) = (self.of(above)?, self.of(below)?);
        let paired: Vec<f64> = above.iter().zip(below).map(|(a, b)| a / b).collect();
        Ok(bootstrap(&paired, &self.rule))
    }

    fn of(&self, contestant: usize) -> Result<&[f64], JudgeError> {
        self.times
            .get(contestant)
            .map(Vec::as_slice)
            .ok_or(JudgeError::NoSuchContestant {
                contestant,
                contestants: self.times.len(),
            })
    }
}

impl Rule {
    fn check(&self) -> Result<(), JudgeError> {
        if self.rounds < MIN_ROUNDS {
            return Err(JudgeError::TooFewRounds {
                rounds: self.rounds,
            });
        }
        if self.resamples < 100 {
            return Err(JudgeError::TooFewResamples {
                resamples: self.resamples,
            });
        }
        Ok(())
    }
}

/// The order of contestants in one round after the other, without end.
pub fn orders(seed: u64, contestants: usize) -> impl Iterator<Item = Vec<usize>> {
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..contestants).collect();
    std::iter::repeat_with(move || {
        random.shuffle(&mut order);
        order.clone()
    })
}

/// The median of some values with its 95 % bootstrap interval; `None` of nothing.
///
/// Few values give an interval too, and a wide one: it is for being shown. Verdicts go by
/// [`Samples`], which want [`MIN_ROUNDS`].
pub fn interval(values: &[f64], rule: &Rule) -> Option<Ratio> {
    (!values.is_empty() && rule.resamples >= 100).then(|| bootstrap(values, rule))
}

/// The median of `above` over that of `below`, which were not measured in pairs, with its 95 %
/// bootstrap interval: both are resampled. `None` where one has no values.
pub fn unpaired(above: &[f64], below: &[f64], rule: &Rule) -> Option<Ratio> {
    if above.is_empty() || below.is_empty() || rule.resamples < 100 {
        return None;
    }
    let mut random = Random::new(rule.seed ^ 0x61_7061_7274);
    let mut resampled = |values: &[f64]| {
        let mut resample: Vec<f64> = (0..values.len())
            .map(|_| values[random.below(values.len())])
            .collect();
        median(&mut resample)
    };
    let mut ratios: Vec<f64> = (0..rule.resamples)
        .map(|_| resampled(above) / resampled(below))
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let tail = rule.resamples * 25 / 1000;
    Some(Ratio {
        median: median(&mut above.to_vec()) / median(&mut below.to_vec()),
        low: ratios[tail],
        high: ratios[rule.resamples - 1 - tail],
        rounds: above.len().min(below.len()),
    })
}

/// Median of `paired` and the interval of the medians of resamples of it.
fn bootstrap(paired: &[f64], rule: &Rule) -> Ratio {
    let mut random = Random::new(rule.seed ^ 0x626f_6f74);
    let mut resample = vec![0.0; paired.len()];
    let mut medians: Vec<f64> = (0..rule.resamples)
        .map(|_| {
            for value in &mut resample {
                *value = paired[random.below(paired.len())];
            }
            median(&mut resample)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    let tail = rule.resamples * 25 / 1000;
    Ratio {
        median: median(&mut paired.to_vec()),
        low: medians[tail],
        high: medians[rule.resamples - 1 - tail],
        rounds: paired.len(),
    }
}

/// The middle value, or the mean of the two in the middle. `values` must not be empty.
fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if even {
        let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        f64::midpoint(lower, upper)
    } else {
        upper
    }
}

/// SplitMix64: a few lines, the same everywhere, and good enough to shuffle and resample.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; the bias is one in 2^64 / bound.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times around `mean` with a spread of ± 5 %.
    fn noisy(seed: u64, mean: f64, rounds: usize) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..rounds)
            .map(|_| mean * (0.95 + 0.1 * random.below(1000) as f64 / 1000.0))
            .collect()
    }

    fn judge(times: Vec<Vec<f64>>) -> Samples {
        Samples::from_times(&Rule::default(), times).unwrap()
    }

    #[test]
    fn a_clear_difference_is_seen_and_bounded() {
        let samples = judge(vec![noisy(1, 100.0, 61), noisy(2, 150.0, 61)]);
        let speed = samples.speed(0, 1).unwrap();
        assert!((1.45..1.55).contains(&speed.median), "{speed:?}");
        assert!(speed.low < speed.median && speed.median < speed.high);
        assert!(speed.at_least(1.4) && !speed.at_least(1.5) && !speed.at_most(1.5));
        let cost = samples.cost(0, 1).unwrap();
        assert!((cost.median - 1.0 / speed.median).abs() < 0.01);
    }

    #[test]
    fn no_difference_is_neither_faster_nor_slower() {
        let samples = judge(vec![noisy(1, 100.0, 121), noisy(2, 100.0, 121)]);
        let speed = samples.speed(0, 1).unwrap();
        assert!(speed.low < 1.0 && speed.high > 1.0, "{speed:?}");
        assert!(speed.at_least(0.97) && speed.at_most(1.03));
    }

    #[test]
    fn drift_that_both_suffer_cancels() {
        // Both become three times slower in the course of the run.
        let drift = |times: Vec<f64>| -> Vec<f64> {
            let last = times.len() as f64;
            times
                .iter()
                .enumerate()
                .map(|(i, t)| t * (1.0 + 2.0 * i as f64 / last))
                .collect()
        };
        let samples = judge(vec![drift(noisy(1, 100.0, 61)), drift(noisy(2, 110.0, 61))]);
        let speed = samples.speed(0, 1).unwrap();
        assert!(speed.at_least(1.07) && speed.at_most(1.13), "{speed:?}");
    }

    #[test]
    fn a_few_wild_rounds_change_no_verdict() {
        let calm = vec![noisy(1, 100.0, 61), noisy(2, 110.0, 61)];
        let mut wild = calm.clone();
        for round in [3, 17, 18, 40] {
            wild[0][round] *= 1000.0;
        }
        let (calm, wild) = (
            judge(calm).speed(0, 1).unwrap(),
            judge(wild).speed(0, 1).unwrap(),
        );
        assert!(
            (calm.median - wild.median).abs() < 0.02,
            "{calm:?} {wild:?}"
        );
        assert!(wild.at_least(1.05));
    }

    #[test]
    fn few_and_spread_rounds_give_a_wide_interval() {
        // Half of the rounds say 1, the other half 2: the interval must admit both.
        let reference = vec![100.0; 62];
        let split = (0..62)
            .map(|i| if i % 2 == 0 { 100.0 } else { 50.0 })
            .collect();
        let speed = judge(vec![split, reference]).speed(0, 1).unwrap();
        assert_eq!((speed.median, speed.low, speed.high), (1.5, 1.0, 2.0));
        assert!(!speed.at_least(1.1) && !speed.at_most(1.9));
    }

    #[test]
    fn every_contestant_runs_once_a_round_in_changing_order() {
        let mut calls = Vec::new();
        let rule = Rule::default();
        Samples::collect(&rule, 4, |contestant, round| {
            calls.push((round, contestant));
            1.0
        })
        .unwrap();
        let orders: Vec<Vec<usize>> = calls
            .chunks(4)
            .enumerate()
            .map(|(round, chunk)| {
                assert!(chunk.iter().all(|(r, _)| *r == round));
                chunk.iter().map(|(_, c)| *c).collect()
            })
            .collect();
        assert_eq!(orders.len(), 61);
        for contestant in 0..4 {
            let firsts = orders.iter().filter(|o| o[0] == contestant).count();
            assert!(
                firsts >= 5,
                "contestant {contestant} was first {firsts} times"
            );
            assert!(orders.iter().all(|o| o.contains(&contestant)));
        }
    }

    #[test]
    fn the_same_times_give_the_same_figures() {
        let times = vec![noisy(7, 100.0, 61), noisy(8, 101.0, 61)];
        let figure = || judge(times.clone()).speed(0, 1).unwrap();
        assert_eq!(figure(), figure());
    }

    #[test]
    fn what_cannot_be_judged_is_refused_with_the_reason() {
        let few = Rule {
            rounds: 60,
            ..Rule::default()
        };
        let refused = Samples::collect(&few, 2, |_, _| unreachable!("refused before it runs"));
        assert_eq!(refused, Err(JudgeError::TooFewRounds { rounds: 60 }));
        let rule = Rule {
            resamples: 99,
            ..Rule::default()
        };
        let refused = Samples::from_times(&rule, vec![vec![1.0; 61]]);
        assert_eq!(refused, Err(JudgeError::TooFewResamples { resamples: 99 }));
        for time in [0.0, -1.0, f64::INFINITY] {
            let mut times = vec![vec![1.0; 61]; 2];
            times[1][30] = time;
            let refused = Samples::from_times(&Rule::default(), times);
            assert_eq!(
                refused,
                Err(JudgeError::BadTime {
                    contestant: 1,
                    round: 30,
                    time
                })
            );
        }
        let samples = judge(vec![vec![1.0; 61]]);
        let refused = samples.speed(0, 1);
        assert_eq!(
            refused,
            Err(JudgeError::NoSuchContestant {
                contestant: 1,
                contestants: 1
            })
        );
    }

    #[test]
    fn what_was_not_paired_has_an_interval_of_both_sides() {
        let rule = Rule::default();
        let (slow, fast) = (noisy(1, 200.0, 61), noisy(2, 100.0, 80));
        let ratio = unpaired(&slow, &fast, &rule).unwrap();
        assert!(ratio.low < 2.0 && 2.0 < ratio.high, "{ratio:?}");
        assert!(ratio.at_least(1.9) && ratio.at_most(2.1), "{ratio:?}");
        assert_eq!(unpaired(&slow, &[], &rule), None);
        let few = interval(&slow[..3], &rule).unwrap();
        assert!(few.low < few.high && few.rounds == 3);
        assert_eq!(interval(&[], &rule), None);
    }

    #[test]
    fn medians_of_even_and_odd_counts_are_the_usual_ones() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&mut [5.0]), 5.0);
    }
}
