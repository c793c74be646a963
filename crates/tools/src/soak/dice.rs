//! What decides where a machine's life could go on in several ways.

use std::ops::RangeInclusive;

use fastrand::Rng;

/// Numbers from a seed, or from the bytes that a fuzzer changes one by one.
#[derive(Clone, Debug)]
pub enum Dice<'d> {
    /// All that follows from one number.
    Seed(Rng),
    /// As many bytes as a decision needs; zeroes when there are no more.
    Bytes(&'d [u8]),
}

impl Dice<'_> {
    /// From a seed.
    pub fn seeded(seed: u64) -> Self {
        Self::Seed(Rng::with_seed(seed))
    }

    /// A number below `limit`, which is at least 1.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        match self {
            Self::Seed(rng) => rng.u64(..limit),
            Self::Bytes(bytes) => {
                let mut number = 0_u64;
                let mut most = limit - 1;
                while most > 0 {
                    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
                    number = number << 8 | u64::from(*first);
                    *bytes = rest;
                    most >>= 8;
                }
                number % limit
            }
        }
    }

    /// A number of the range.
    pub(super) fn between(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// Once in `times`.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Heads or tails.
    pub(super) fn bool(&mut self) -> bool {
        self.once_in(2)
    }

    /// One of a list, which is not empty.
    pub(super) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_give_what_they_say_and_zeroes_after_their_end() {
        let mut dice = Dice::Bytes(&[7, 1, 2, 3]);
        assert_eq!(dice.below(256), 7);
        assert_eq!(dice.below(1), 0, "nothing to decide takes no byte");
        assert_eq!(dice.between(10..=10 + 0xffff), 10 + 0x0102);
        assert_eq!(dice.pick(&["a", "b"]), "b");
        assert_eq!(dice.below(1000), 0);
        assert!(dice.bool());
    }

    #[test]
    fn one_seed_is_one_life() {
        let draw = |seed| {
            let mut dice = Dice::seeded(seed);
            (0..20).map(|_| dice.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
