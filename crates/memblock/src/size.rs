//! Sizes on a command line.

/// Takes a size off the front of `text`: decimal, octal (`0…`) or hexadecimal (`0x…`), with an
/// optional suffix K, M, G, T, P or E. `None` where no number is there or it passes 64 bits.
///
/// # Differences from Linux
/// A number that passes 64 bits is no number; Linux wraps around.
#[doc(alias = "memparse")]
pub(crate) fn take_size(text: &str) -> Option<(u64, &str)> {
    let (radix, digits) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(rest) => (16, rest),
        None if text.starts_with('0') => (8, text),
        None => (10, text),
    };
    let end = digits
        .find(|it: char| !it.is_digit(radix))
        .unwrap_or(digits.len());
    let number = u64::from_str_radix(&digits[..end], radix).ok()?;
    let rest = &digits[end..];
    let shift = match rest.bytes().next().map(|it| it.to_ascii_uppercase()) {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        Some(b'T') => 40,
        Some(b'P') => 50,
        Some(b'E') => 60,
        _ => return Some((number, rest)),
    };
    let size = number.checked_mul(1 << shift)?;
    Some((size, &rest[1..]))
}

#[cfg(test)]
mod tests {
    use super::take_size;

    #[test]
    fn sizes_have_three_bases_and_six_suffixes() {
        assert_eq!(take_size("4M:"), Some((4 << 20, ":")));
        assert_eq!(take_size("0x10k"), Some((16 << 10, "")));
        assert_eq!(take_size("010,"), Some((8, ",")));
        assert_eq!(take_size("0"), Some((0, "")));
        assert_eq!(take_size("16E"), None);
        assert_eq!(take_size("08"), Some((0, "8")));
        assert_eq!(take_size("0xg"), None);
        assert_eq!(take_size(""), None);
    }
}
