//! A scanner that takes a line apart from the left, strictly.

use super::AddressWidth;

/// What is left of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan<'a>(pub(super) &'a str);

impl<'a> Scan<'a> {
    /// Takes `text`.
    pub(super) fn tag(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    /// Takes characters as long as `like` holds; at least one.
    fn run(&mut self, like: impl Fn(u8) -> bool) -> Option<&'a str> {
        let end = self.0.bytes().position(|byte| !like(byte));
        let end = end.unwrap_or(self.0.len());
        if end == 0 {
            return None;
        }
        let (run, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(run)
    }

    fn lower_hex(byte: u8) -> bool {
        byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
    }

    /// Takes a decimal number without leading zeros, maybe negative.
    pub(super) fn decimal<T: core::str::FromStr>(&mut self) -> Option<T> {
        let start = self.0;
        let negative = self.tag("-").is_some();
        let digits = self.run(|byte| byte.is_ascii_digit())?;
        if digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        start[..digits.len() + usize::from(negative)].parse().ok()
    }

    /// Takes hexadecimal digits without prefix and leading zeros.
    pub(super) fn bare_hex(&mut self) -> Option<u64> {
        let digits = self.run(Self::lower_hex)?;
        if digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        u64::from_str_radix(digits, 16).ok()
    }

    /// Takes `0x` and a number without leading zeros.
    pub(super) fn hex(&mut self) -> Option<u64> {
        self.tag("0x")?;
        self.bare_hex()
    }

    /// Takes a physical address; all addresses of a text have one width.
    pub(super) fn address(&mut self, width: &mut Option<AddressWidth>) -> Option<u64> {
        self.tag("0x")?;
        let digits = self.run(Self::lower_hex)?;
        let found = AddressWidth::of_digits(digits.len())?;
        if *width.get_or_insert(found) != found {
            return None;
        }
        u64::from_str_radix(digits, 16).ok()
    }

    /// Takes all that is left.
    pub(super) fn rest(&mut self) -> &'a str {
        core::mem::take(&mut self.0)
    }

    /// Whether nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}
