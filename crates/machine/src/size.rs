//! Sizes of memory as people type them: `384G`, `1536M`, `2T`, `4096`.
//!
//! The grammar is `NUMBER[UNIT]`: decimal digits, then nothing for bytes or one of K, M, G, T, P
//! in powers of 1024, either case, with `B` or `iB` behind it if one likes.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// A text that is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// There is no number.
    #[error("`{text}` does not begin with a number; a size is written like 384G, 1536M or 2T")]
    NoNumber {
        /// The text.
        text: String,
    },
    /// The unit is none.
    #[error("`{text}` ends in `{unit}`, which is no unit of memory; use K, M, G, T or P")]
    Unit {
        /// The text.
        text: String,
        /// The unit.
        unit: String,
    },
    /// It does not fit in 64 bits.
    #[error("`{text}` is more than 64 bits can address (16777215T)")]
    TooLarge {
        /// The text.
        text: String,
    },
}

impl FromStr for ByteSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let shown = || text.chars().take(60).collect::<String>();
        let trimmed = text.trim();
        let digits = trimmed
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        if number.is_empty() {
            return Err(SizeError::NoNumber { text: shown() });
        }
        let letters = unit.trim_start();
        let shift = match letters.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            "p" | "pb" | "pib" => 50,
            _ => {
                return Err(SizeError::Unit {
                    text: shown(),
                    unit: letters.chars().take(20).collect(),
                });
            }
        };
        number
            .parse::<u64>()
            .ok()
            .and_then(|value| value.checked_mul(1 << shift))
            .map(Self)
            .ok_or_else(|| SizeError::TooLarge { text: shown() })
    }
}

/// In the largest unit that divides it.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(50, "P"), (40, "T"), (30, "G"), (20, "M"), (10, "K")] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_type_them_and_printed_to_be_read_again() {
        for (text, bytes) in [
            ("384G", 384 << 30),
            ("1536m", 1536 << 20),
            ("2T", 2 << 40),
            ("2 TiB", 2 << 40),
            ("4096", 4096),
            ("0", 0),
            ("7kB", 7 << 10),
        ] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!(size.0, bytes, "{text}");
            assert_eq!(size.to_string().parse(), Ok(size));
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_its_text() {
        let error = |text: &str| text.parse::<ByteSize>().unwrap_err().to_string();
        assert!(error("").contains("does not begin with a number"));
        assert!(error("-1G").contains("`-1G`"));
        assert!(error("5X").contains("`X`"));
        assert!(error("1.5G").contains("`.5G`"));
        assert!(error("99999999999999999999G").contains("64 bits"));
        assert!(error("16777216T").contains("64 bits"));
        assert!("16777215T".parse::<ByteSize>().is_ok());
    }
}
