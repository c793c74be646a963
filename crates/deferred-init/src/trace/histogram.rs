//! Times by size: buckets whose width is at most an eighth of what is in them.

/// Sub-buckets of a power of two, as a power of two.
const SUB: u32 = 3;

/// How often each time, in ns, was seen, to within an eighth; the sum and the ends are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u64,
    least: u64,
    most: u64,
}

impl Histogram {
    /// Without a time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a time, ns.
    pub fn add(&mut self, ns: u64) {
        let at = bucket(ns);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.least = match self.count {
            0 => ns,
            _ => self.least.min(ns),
        };
        self.most = self.most.max(ns);
        self.count += 1;
        self.sum = self.sum.saturating_add(ns);
    }

    /// Adds another's times.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.least = match self.count {
            0 => other.least,
            _ => self.least.min(other.least),
        };
        self.most = self.most.max(other.most);
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All times together, ns.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The shortest time, ns; 0 without one.
    pub fn least(&self) -> u64 {
        self.least
    }

    /// The longest time, ns; 0 without one.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// A time, ns, that the given share (0 to 1) of all does not exceed: the upper end of the bucket
    /// in which it lies, at most the longest time. 0 without a time.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper(at).min(self.most);
            }
        }
        self.most
    }

    /// Buckets that hold anything, ascending: their times (ns, both ends in them) and how many.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let each = self.counts.iter().enumerate();
        each.filter(|(_, count)| **count > 0)
            .map(|(at, count)| (lower(at), upper(at), *count))
    }
}

/// Times below `2^SUB` have a bucket each; above, every power of two has `2^SUB` of them.
fn bucket(ns: u64) -> usize {
    if ns < 1 << SUB {
        return ns as usize;
    }
    let power = ns.ilog2();
    let within = (ns >> (power - SUB)) & ((1 << SUB) - 1);
    (((power - SUB + 1) as usize) << SUB) + within as usize
}

/// The shortest time of a bucket.
fn lower(at: usize) -> u64 {
    let (power, within) = (at >> SUB, (at & ((1 << SUB) - 1)) as u64);
    match power {
        0 => within,
        _ => ((1 << SUB) + within) << (power - 1),
    }
}

/// The longest time of a bucket.
fn upper(at: usize) -> u64 {
    match at >> SUB {
        0 => lower(at),
        power => lower(at) + ((1 << (power - 1)) - 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_time_lies_in_its_bucket_and_buckets_follow_each_other() {
        let mut end = None;
        for at in 0..bucket(u64::MAX) {
            assert_eq!(bucket(lower(at)), at);
            assert_eq!(bucket(upper(at)), at);
            assert_eq!(lower(at), end.map_or(0, |end: u64| end + 1));
            end = Some(upper(at));
        }
        assert_eq!(upper(bucket(u64::MAX)), u64::MAX);
    }

    proptest! {
        #[test]
        fn quantiles_are_right_to_an_eighth(
            mut times in proptest::collection::vec(1_u64..1 << 40, 1..300),
            share in 0.0..1.0_f64,
            cut in 0_usize..300,
        ) {
            let (mut one, mut two) = (Histogram::new(), Histogram::new());
            for (at, time) in times.iter().enumerate() {
                if at < cut { one.add(*time) } else { two.add(*time) }
            }
            one.merge(&two);
            times.sort_unstable();
            let at = ((share * times.len() as f64).ceil() as usize).max(1) - 1;
            let (exact, found) = (times[at], one.quantile(share));
            prop_assert!(found >= exact && found <= exact + exact / 8, "{found} for {exact}");
            prop_assert_eq!(one.count(), times.len() as u64);
            prop_assert_eq!((one.least(), one.most()), (times[0], times[times.len() - 1]));
            prop_assert_eq!(one.sum(), times.iter().sum::<u64>());
            prop_assert_eq!(one.buckets().map(|(_, _, count)| count).sum::<u64>(), one.count());
        }
    }
}
