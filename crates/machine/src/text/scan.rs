//! Pieces of a kernel message, taken from the left.
//!
//! Each function returns what it took, or `None` and takes nothing. Numbers that do not fit in
//! 64 bits are not numbers here: the line becomes a problem, not a wrong figure.

use memblock::{PhysAddr, PhysRange};

/// A cursor over a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<'a>(pub(crate) &'a str);

impl<'a> Scan<'a> {
    /// Takes `word` with blanks before it.
    pub(crate) fn eat(&mut self, word: &str) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(word)?;
        Some(())
    }

    /// Takes hexadecimal digits, with or without `0x`.
    pub(crate) fn hex(&mut self) -> Option<u64> {
        let text = self.0.trim_start();
        let text = text.strip_prefix("0x").unwrap_or(text);
        let end = text
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(text.len());
        let value = u64::from_str_radix(&text[..end], 16).ok()?;
        self.0 = &text[end..];
        Some(value)
    }

    /// Takes decimal digits.
    pub(crate) fn dec(&mut self) -> Option<u64> {
        let text = self.0.trim_start();
        let end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let value = text[..end].parse().ok()?;
        self.0 = &text[end..];
        Some(value)
    }

    /// Takes a node number.
    pub(crate) fn node(&mut self) -> Option<u16> {
        let mut ahead = *self;
        let value = ahead.dec()?.try_into().ok()?;
        *self = ahead;
        Some(value)
    }

    /// Takes what stands before the next blank, bracket or comma.
    pub(crate) fn word(&mut self) -> &'a str {
        let text = self.0.trim_start();
        let end = text
            .find(|c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']'))
            .unwrap_or(text.len());
        self.0 = &text[end..];
        &text[..end]
    }

    /// Takes `[mem 0xS-0xE]`, whose end is the last byte.
    pub(crate) fn mem(&mut self) -> Option<PhysRange> {
        let mut ahead = *self;
        ahead.eat("[mem ")?;
        let range = ahead.inclusive()?;
        ahead.eat("]")?;
        *self = ahead;
        Some(range)
    }

    /// Takes `[0xS-0xE]`, whose end is the last byte.
    pub(crate) fn plain_mem(&mut self) -> Option<PhysRange> {
        let mut ahead = *self;
        ahead.eat("[")?;
        let range = ahead.inclusive()?;
        ahead.eat("]")?;
        *self = ahead;
        Some(range)
    }

    /// Takes `0xS-0xE`, whose end is the last byte. `E = S - 1` is an empty range.
    pub(crate) fn inclusive(&mut self) -> Option<PhysRange> {
        self.inclusive_between("-")
    }

    /// Takes `0xS<between>0xE`, whose end is the last byte.
    pub(crate) fn inclusive_between(&mut self, between: &str) -> Option<PhysRange> {
        let mut ahead = *self;
        let start = ahead.hex()?;
        ahead.eat(between)?;
        let last = ahead.hex()?;
        if last < start && last != start.wrapping_sub(1) {
            return None;
        }
        *self = ahead;
        if last == start.wrapping_sub(1) {
            return Some(PhysRange::new(PhysAddr::new(start), PhysAddr::new(start)));
        }
        Some(PhysRange::from_inclusive(
            PhysAddr::new(start),
            PhysAddr::new(last),
        ))
    }

    /// Takes `S<between>E`, whose end is the first byte behind.
    pub(crate) fn exclusive(&mut self, between: &str) -> Option<PhysRange> {
        let mut ahead = *self;
        let start = ahead.hex()?;
        ahead.eat(between)?;
        let end = ahead.hex()?;
        if end < start {
            return None;
        }
        *self = ahead;
        Some(PhysRange::new(PhysAddr::new(start), PhysAddr::new(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_with_its_last_byte_and_a_broken_one_is_refused() {
        let mem = |text| Scan(text).mem();
        assert_eq!(
            mem("[mem 0x0000000000001000-0x000000000009efff]"),
            Some(PhysRange::new(
                PhysAddr::new(0x1000),
                PhysAddr::new(0x9f000)
            ))
        );
        assert!(mem("[mem 0x1000-0xfff]").is_some_and(PhysRange::is_empty));
        for broken in [
            "[mem 0x2000-0xfff]",
            "[mem 0x1000-0x9efff",
            "[mem 0x1-0x11111111111111111]",
            "[mem 0x1-]",
            "[mem -]",
            "[mem",
            "",
        ] {
            assert_eq!(mem(broken), None, "{broken}");
        }
    }

    #[test]
    fn what_is_not_taken_stays() {
        let mut scan = Scan(" [mem 0x1-0x]");
        assert_eq!(scan.mem(), None);
        assert_eq!(scan.0, " [mem 0x1-0x]");
    }
}
