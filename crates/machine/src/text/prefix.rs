//! What stands before the kernel's message.
//!
//! Quotes of a mail, the level and caller that `printk` adds, time stamps as `dmesg`, the
//! journal and syslog write them. Each form is recognised whole or left alone, so that a message
//! which itself begins with a bracket (`[mem 0x…] available for PCI devices`) stays as it is.

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const FACILITIES: [&str; 12] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp",
];

/// The part of `line` behind quotes, levels, time stamps and host names.
pub fn strip_prefixes(line: &str) -> &str {
    let mut rest = line.trim_start();
    if rest.starts_with("```") || rest.starts_with("~~~") {
        return "";
    }
    // Quotes, then stamps, may be nested, but not without end.
    let mut stamped = false;
    for _ in 0..8 {
        let before = rest;
        if let Some(after) = rest.strip_prefix('>') {
            rest = after;
        } else if let Some(after) = level(rest) {
            rest = after;
        } else if let Some(after) = bracket(rest) {
            rest = after;
            stamped = true;
        } else if let Some(after) = record(rest) {
            rest = after;
        } else if let Some(after) = facility(rest) {
            rest = after;
        } else if let Some(after) = date(rest) {
            rest = after;
            stamped = true;
        } else if stamped && let Some(after) = host(rest) {
            rest = after;
        }
        if rest.len() == before.len() {
            break;
        }
        rest = rest.trim_start();
    }
    rest
}

/// The kernel's own time in `prefix`, microseconds: `[    1.234567]`, `[    1.234567 <    0.000012>]`
/// or the third number of a record of `/dev/kmsg`.
pub(super) fn stamp(prefix: &str) -> Option<u64> {
    let seconds = |inner: &str| {
        let inner = inner.trim_start();
        let (whole, rest) = inner.split_once('.')?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let part = rest.get(..6).filter(|part| digits(part))?;
        let ends = rest[6..].starts_with([']', ' ']);
        let whole: u64 = Some(whole)
            .filter(|whole| ends && digits(whole))?
            .parse()
            .ok()?;
        whole
            .checked_mul(1_000_000)?
            .checked_add(part.parse().ok()?)
    };
    if let Some(found) = prefix.split('[').skip(1).find_map(seconds) {
        return Some(found);
    }
    let (head, _) = prefix.split_once(';')?;
    record(prefix)?;
    head.split(',').nth(2)?.parse().ok()
}

/// `<6>`, and syslog's `<14>1 `.
fn level(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('<')?;
    let (digits, after) = inner.split_once('>')?;
    let number =
        !digits.is_empty() && digits.len() <= 3 && digits.bytes().all(|b| b.is_ascii_digit());
    if !number {
        return None;
    }
    match after.strip_prefix("1 ") {
        Some(rest) if date(rest).is_some() => Some(rest),
        _ => Some(after),
    }
}

/// `[    0.000000]`, `[    T0]`, `[Mon Nov 30 14:40:00 2026]`, `[Nov30 14:40]`, `[  +0.000012]`,
/// `[    1.234567 <    0.000012>]`.
fn bracket(text: &str) -> Option<&str> {
    let (inner, after) = text.strip_prefix('[')?.split_once(']')?;
    let inner = inner.trim();
    let seconds = |s: &str| {
        let (whole, part) = s.split_once('.').unwrap_or((s, "0"));
        !whole.is_empty()
            && !part.is_empty()
            && whole
                .bytes()
                .chain(part.bytes())
                .all(|b| b.is_ascii_digit())
    };
    let caller = |s: &str| {
        s.strip_prefix(['T', 'C'])
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let delta = |s: &str| match s.split_once('<') {
        Some((stamp, delta)) => {
            seconds(stamp.trim()) && seconds(delta.trim_end_matches('>').trim())
        }
        None => s.strip_prefix('+').is_some_and(|s| seconds(s.trim())),
    };
    let calendar = |s: &str| {
        let mut words = s.split_ascii_whitespace();
        let first = words.next().unwrap_or("");
        let named = DAYS.contains(&first)
            || first.len() > 3 && first.is_ascii() && MONTHS.contains(&&first[..3]);
        named && words.any(|word| clock(word).is_some()) && inner.len() < 40
    };
    (seconds(inner) || caller(inner) || delta(inner) || calendar(inner)).then_some(after)
}

/// `6,123,4567890,-;`, a record of `/dev/kmsg`.
fn record(text: &str) -> Option<&str> {
    let (head, message) = text.split_once(';')?;
    let mut fields = head.split(',');
    let numbers = fields
        .by_ref()
        .take(3)
        .filter(|field| !field.is_empty() && field.bytes().all(|b| b.is_ascii_digit()))
        .count();
    let flag = fields.next()?;
    (numbers == 3 && ["-", "c", "+"].contains(&flag)).then_some(message)
}

/// `kern  :info  : `.
fn facility(text: &str) -> Option<&str> {
    let (name, rest) = text.split_once(':')?;
    if !FACILITIES.contains(&name.trim_end()) {
        return None;
    }
    let (level, rest) = rest.split_once(':')?;
    let level = level.trim_end();
    let known = [
        "emerg", "alert", "crit", "err", "warn", "notice", "info", "debug",
    ];
    known.contains(&level).then_some(rest)
}

/// `Nov 27 15:36:51 `, `2024-01-05T12:03:46+01:00 `, `2024-01-05 12:03:46.123 `.
fn date(text: &str) -> Option<&str> {
    let (first, rest) = text.split_once(' ')?;
    if MONTHS.contains(&first) {
        let (day, rest) = rest.trim_start().split_once(' ')?;
        if day.len() > 2 || !day.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let rest = rest.trim_start();
        // `journalctl -o short-full` and some syslogs have the year here.
        let rest = match rest.split_once(' ') {
            Some((year, after)) if year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()) => {
                after
            }
            _ => rest,
        };
        let (time, rest) = rest.split_once(' ')?;
        return clock(time).map(|()| rest);
    }
    if DAYS.contains(&first) {
        return date(rest);
    }
    if !iso_day(first.get(..10)?) {
        return None;
    }
    if first.len() == 10 {
        let (time, rest) = rest.trim_start().split_once(' ')?;
        clock(time)?;
        // `journalctl -o short-full` names the zone.
        return Some(match rest.split_once(' ') {
            Some((zone, after)) if zone == "UTC" || zone == "CET" || zone == "CEST" => after,
            _ => rest,
        });
    }
    clock(first[10..].strip_prefix('T')?).map(|()| rest)
}

fn iso_day(text: &str) -> bool {
    text.bytes().enumerate().all(|(i, b)| match i {
        4 | 7 => b == b'-',
        _ => b.is_ascii_digit(),
    })
}

/// `15:36`, `15:36:51`, with a fraction and a zone behind it.
fn clock(text: &str) -> Option<()> {
    let two = |s: &str| s.len() == 2 && s.bytes().all(|b| b.is_ascii_digit());
    let hours = text.get(..2)?;
    let minutes = text.get(3..5)?;
    if !two(hours) || !two(minutes) || text.as_bytes().get(2) != Some(&b':') {
        return None;
    }
    let tail = text.get(5..)?;
    tail.bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b':' | b'.' | b',' | b'+' | b'-' | b'Z'))
        .then_some(())
}

/// `host kernel: `, `host kernel[0]: `, `kernel: `.
fn host(text: &str) -> Option<&str> {
    let after_kernel = |text: &'_ str| -> Option<usize> {
        let rest = text.strip_prefix("kernel")?;
        let rest = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']')?.1,
            None => rest,
        };
        Some(rest.strip_prefix(':')?.len())
    };
    if let Some(left) = after_kernel(text) {
        return Some(&text[text.len() - left..]);
    }
    let (name, rest) = text.split_once(' ')?;
    if name.is_empty() || name.ends_with(':') {
        return None;
    }
    let left = after_kernel(rest.trim_start())?;
    Some(&text[text.len() - left..])
}

#[cfg(test)]
mod tests {
    use super::{stamp, strip_prefixes};

    #[track_caller]
    fn check(line: &str) {
        assert_eq!(
            strip_prefixes(line).trim(),
            "node   0: [mem 0x1-0x2]",
            "{line}"
        );
    }

    #[test]
    fn every_style_of_stamp_and_quote_comes_off() {
        for stamp in [
            "",
            "[    0.000000] ",
            "[    0.000000][    T0] ",
            "[    0.000000] [    T0] ",
            "<6>[    0.000000] ",
            "6,123,4567890,-;",
            "6,123,4567890,-,caller=T0;",
            "<6>",
            "kern  :info  : [    0.000000] ",
            "kern  :info  : ",
            "[Mon Nov 30 14:40:00 2026] ",
            "[Mon Nov  3 14:40:00 2026] ",
            "[Nov30 14:40] ",
            "[  +0.000012] ",
            "[    1.234567 <    0.000012>] ",
            "2024-01-05T12:03:46,123456+01:00 ",
            "2024-01-05T12:03:46+0100 host kernel: ",
            "2024-01-05 12:03:46 host kernel: [    0.000000] ",
            "Nov 27 15:36:51 host kernel: ",
            "Nov  7 15:36:51.123456 host.example kernel: [    0.000000] ",
            "Fri Jan 05 2024 12:03:46 host kernel: ",
            "[    0.000000] host kernel: ",
            "<14>1 2024-01-05T12:03:46Z host kernel: ",
            "kernel: ",
        ] {
            if stamp == "kernel: " {
                // Without a stamp this may be a message of its own.
                continue;
            }
            for quote in ["", "> ", ">", "> > ", ">> ", "  > "] {
                check(&format!("{quote}{stamp}  node   0: [mem 0x1-0x2]"));
            }
        }
    }

    #[test]
    fn the_kernel_s_own_time_is_read_and_no_other() {
        for (line, time) in [
            ("[    1.234567] a", Some(1_234_567)),
            ("<6>[    0.000000] a", Some(0)),
            ("[   12.000001][    T0] a", Some(12_000_001)),
            ("[    1.234567 <    0.000012>] a", Some(1_234_567)),
            (
                "> Nov 27 15:36:51 host kernel: [  100.000000] a",
                Some(100_000_000),
            ),
            ("6,123,4567890,-;a", Some(4_567_890)),
            ("Nov 27 15:36:51 host kernel: a", None),
            ("[Mon Nov 30 14:40:00 2026] a", None),
            ("[  +0.000012] a", None),
            ("[99999999999999999999.000000] a", None),
            ("a [    1.234567] b", None),
        ] {
            let prefix = &line[..line.len() - strip_prefixes(line).len()];
            assert_eq!(stamp(prefix), time, "{line}");
        }
    }

    #[test]
    fn a_message_that_begins_with_a_bracket_is_left_alone() {
        for text in [
            "[mem 0xc0000000-0xfffbffff] available for PCI devices",
            "[gap 0x1-0x2] available",
            "memory[0x0] [0x1-0x2], 0x2 bytes",
            "Normal zone: 5 pages",
            "<memory-less node>",
        ] {
            assert_eq!(strip_prefixes(text), text);
            assert_eq!(strip_prefixes(&format!("[ 1.000000] {text}")), text);
        }
    }

    #[test]
    fn a_code_fence_is_an_empty_line() {
        assert_eq!(strip_prefixes("```text"), "");
        assert_eq!(strip_prefixes("  ~~~"), "");
    }

    #[test]
    fn odd_text_does_not_panic() {
        for text in [
            "[",
            "]",
            "<",
            ">",
            "é]",
            "[é]",
            "Nov é",
            "2024-01-0é",
            "12:é",
            "kern",
            "Nov",
            ">>>>>>>>>>>>",
        ] {
            strip_prefixes(text);
        }
    }
}
