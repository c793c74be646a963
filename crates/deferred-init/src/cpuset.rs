//! A set of CPU or node numbers, of any size.

use std::fmt;
use std::str::FromStr;

/// The highest number that a set takes: far beyond any kernel's `NR_CPUS`, and low enough that a
/// broken file cannot make us allocate the machine away.
const HIGHEST: u32 = (1 << 20) - 1;

/// A set of CPU (or node) numbers.
///
/// It reads and prints what Linux does: lists (`0-3,8`) and maps (`00000000,0000010f`).
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet {
    // no trailing zero word, so that equal sets are equal values
    words: Vec<u64>,
}

/// Why a text is no set of numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuSetError {
    /// A piece between commas that is neither a number, nor a range, nor a hexadecimal word.
    #[error("{piece:?} in {text:?} is no {wanted}")]
    Malformed {
        /// The piece.
        piece: String,
        /// All of the text.
        text: String,
        /// What it should have been.
        wanted: &'static str,
    },
    /// A number that no kernel knows.
    #[error("number {number} is above {HIGHEST}, the highest that is read")]
    TooLarge {
        /// The number.
        number: u64,
    },
}

impl CpuSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// From words of 64 numbers each, least significant bit first.
    pub fn from_words(words: &[u64]) -> Self {
        let mut set = Self {
            words: words.to_vec(),
        };
        set.trim();
        set
    }

    /// As words of 64 numbers each, least significant bit first, without trailing zero words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Reads a list such as `0-3,8,16-31:2/4` (the last: groups of 2 out of every 4).
    ///
    /// What follows a NUL byte is ignored: some kernels print one.
    ///
    /// # Errors
    /// [`CpuSetError`].
    pub fn parse_list(text: &str) -> Result<Self, CpuSetError> {
        let text = text.split('\0').next().unwrap_or_default().trim();
        let mut set = Self::new();
        for piece in text.split(',').filter(|piece| !piece.trim().is_empty()) {
            let bad = || CpuSetError::Malformed {
                piece: piece.to_owned(),
                text: text.to_owned(),
                wanted: "number or range",
            };
            let number = |text: &str| text.trim().parse::<u32>().map_err(|_| bad());
            let (range, groups) = match piece.split_once(':') {
                Some((range, groups)) => (range, Some(groups)),
                None => (piece, None),
            };
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(range)?, number(range)?),
            };
            let (used, of) = match groups {
                Some(groups) => {
                    let (used, of) = groups.split_once('/').ok_or_else(bad)?;
                    (number(used)?, number(of)?)
                }
                None => (1, 1),
            };
            if first > last || used == 0 || used > of {
                return Err(bad());
            }
            if last > HIGHEST {
                return Err(CpuSetError::TooLarge {
                    number: u64::from(last),
                });
            }
            for id in (first..=last).filter(|id| (id - first) % of < used) {
                set.insert(id);
            }
        }
        Ok(set)
    }

    /// Reads a map: hexadecimal words of 32 numbers, highest first, between commas.
    ///
    /// # Errors
    /// [`CpuSetError`].
    pub fn parse_map(text: &str) -> Result<Self, CpuSetError> {
        let text = text.split('\0').next().unwrap_or_default().trim();
        let mut set = Self::new();
        for (index, piece) in text.split(',').rev().enumerate() {
            let piece = piece.trim();
            if piece.is_empty() {
                continue;
            }
            let bad = || CpuSetError::Malformed {
                piece: piece.to_owned(),
                text: text.to_owned(),
                wanted: "hexadecimal word of 32 bits",
            };
            let word = piece.strip_prefix("0x").unwrap_or(piece);
            let word = u32::from_str_radix(word, 16).map_err(|_| bad())?;
            for bit in (0..32).filter(|bit| word & (1 << bit) != 0) {
                let number = index as u64 * 32 + bit;
                match u32::try_from(number) {
                    Ok(id) if id <= HIGHEST => set.insert(id),
                    _ => return Err(CpuSetError::TooLarge { number }),
                };
            }
        }
        Ok(set)
    }

    /// Adds a number; whether it was new. Numbers above 2²⁰ are left out.
    pub fn insert(&mut self, id: u32) -> bool {
        if id > HIGHEST {
            return false;
        }
        let (word, bit) = (id as usize / 64, 1_u64 << (id % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Takes a number out; whether it was there.
    pub fn remove(&mut self, id: u32) -> bool {
        let was = self.contains(id);
        if was {
            self.words[id as usize / 64] &= !(1 << (id % 64));
            self.trim();
        }
        was
    }

    /// Whether the number is in the set.
    pub fn contains(&self, id: u32) -> bool {
        self.words
            .get(id as usize / 64)
            .is_some_and(|word| word & (1 << (id % 64)) != 0)
    }

    /// How many numbers it holds.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest number.
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The highest number.
    pub fn last(&self) -> Option<u32> {
        let word = self.words.last()?;
        Some(self.words.len() as u32 * 64 - 1 - word.leading_zeros())
    }

    /// Its numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            (0..64)
                .filter(move |bit| word & (1 << bit) != 0)
                .map(move |bit| index as u32 * 64 + bit)
        })
    }

    /// What both hold.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let words: Vec<u64> = self
            .words
            .iter()
            .zip(&other.words)
            .map(|(a, b)| a & b)
            .collect();
        Self::from_words(&words)
    }

    /// What either holds.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// What this one holds and the other does not.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.iter().filter(|id| !other.contains(*id)).collect()
    }

    /// Whether the other holds all that this one does.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|id| other.contains(id))
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        let mut set = Self::new();
        for id in ids {
            set.insert(id);
        }
        set
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        Self::parse_list(text)
    }
}

/// As a list: `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = ids.next() {
            let mut last = first;
            while ids.next_if(|id| *id == last + 1).is_some() {
                last += 1;
            }
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_and_maps_of_the_kernel_are_read() {
        let read = |text| CpuSet::parse_list(text).unwrap().to_string();
        assert_eq!(read("0-2,33-34,45,72-73\n"), "0-2,33-34,45,72-73");
        assert_eq!(read("0-3\n\0garbage"), "0-3");
        assert_eq!(read("\n"), "");
        assert_eq!(read("0-15:2/4"), "0-1,4-5,8-9,12-13");
        let map = CpuSet::parse_map("00000000,00000001,0000000f\n").unwrap();
        assert_eq!(map.to_string(), "0-3,32");
        assert_eq!(CpuSet::parse_map("5555,55555555").unwrap().len(), 24);
    }

    #[test]
    fn numbers_beyond_1024_are_ordinary() {
        let set = CpuSet::parse_list("1023-1025,5119").unwrap();
        assert_eq!((set.len(), set.last()), (4, Some(5119)));
        assert!(set.contains(5119) && !set.contains(5120));
    }

    #[test]
    fn broken_texts_are_refused_with_the_piece() {
        for text in ["a", "3-1", "1-", "0-9:0/2", "0-9:3/2", "0-9:1", "-1", "1 2"] {
            let error = CpuSet::parse_list(text).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
        assert!(CpuSet::parse_map("xyz").is_err());
        assert!(CpuSet::parse_map("123456789").is_err());
        assert_eq!(
            CpuSet::parse_list("0-4294967295"),
            Err(CpuSetError::TooLarge { number: 4294967295 })
        );
    }

    #[test]
    fn a_removed_last_number_leaves_equal_sets() {
        let mut set = CpuSet::parse_list("3,700").unwrap();
        set.remove(700);
        assert_eq!(set, CpuSet::parse_list("3").unwrap());
        assert_eq!(set.words().len(), 1);
    }

    proptest! {
        #[test]
        fn sets_behave_as_ordered_sets_do(
            a in proptest::collection::btree_set(0_u32..3000, 0..60),
            b in proptest::collection::btree_set(0_u32..3000, 0..60),
        ) {
            let (x, y): (CpuSet, CpuSet) = (a.iter().copied().collect(), b.iter().copied().collect());
            let list = |set: &CpuSet| set.iter().collect::<Vec<_>>();
            prop_assert_eq!(list(&x), a.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(list(&x.union(&y)), a.union(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(
                list(&x.intersection(&y)),
                a.intersection(&b).copied().collect::<Vec<_>>()
            );
            prop_assert_eq!(list(&x.difference(&y)), a.difference(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(CpuSet::parse_list(&x.to_string()).unwrap(), x.clone());
            prop_assert_eq!(CpuSet::from_words(x.words()), x);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9a-fx,:/\\-\0 ]{0,40}") {
            let _ = CpuSet::parse_list(&text);
            let _ = CpuSet::parse_map(&text);
        }
    }
}
