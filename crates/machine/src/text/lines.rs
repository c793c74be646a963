//! Bounded lines of any input.

use std::io::{self, BufRead};

use super::prefix::{stamp, strip_prefixes};

/// Bytes of a line that are looked at; the rest of a longer line is skipped.
pub const MAX_LINE: usize = 16 * 1024;

/// One line without its end, time stamp and quoting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Number, from 1.
    pub number: u64,
    /// The line as it stood there, without control characters and colours.
    pub whole: String,
    /// Where in `whole` the message begins.
    start: usize,
    /// Whether bytes beyond [`MAX_LINE`] were skipped.
    pub cut: bool,
    /// The kernel's own time of the message in microseconds, where the line has it.
    pub stamp: Option<u64>,
}

impl Line {
    /// The message: what is left when prefixes are gone, without blanks at both ends.
    pub fn text(&self) -> &str {
        self.whole[self.start..].trim()
    }

    /// Whether a journal or syslog says that the message is the kernel's.
    pub(crate) fn names_kernel(&self) -> bool {
        let prefix = &self.whole[..self.start];
        prefix.contains("kernel:") || prefix.contains("kernel[")
    }

    /// The line as it stood there, without control characters and colours.
    pub fn whole(&self) -> &str {
        &self.whole
    }
}

/// Reads lines with a bound on the memory of each.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    bytes: Vec<u8>,
    number: u64,
    /// What is left of a line that held two messages.
    rest: String,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`.
    pub fn new(input: R) -> Self {
        Self {
            input,
            bytes: Vec::new(),
            number: 0,
            rest: String::new(),
        }
    }

    /// Reads the next line into `line`; `false` at the end of the input.
    ///
    /// A line that holds two stamped messages, as serial consoles and copies make them, is
    /// handed out as two with the same number.
    ///
    /// # Errors
    /// What the input itself reports.
    pub fn read(&mut self, line: &mut Line) -> io::Result<bool> {
        if !self.rest.is_empty() {
            line.whole.clear();
            line.whole.push_str(&self.rest);
            self.rest.clear();
            self.split(line);
            return Ok(true);
        }
        self.bytes.clear();
        let mut any = false;
        let mut cut = false;
        loop {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                break;
            }
            any = true;
            let end = chunk.iter().position(|&byte| byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let room = MAX_LINE - self.bytes.len();
            cut |= part.len() > room;
            self.bytes.extend_from_slice(&part[..part.len().min(room)]);
            let used = end.map_or(chunk.len(), |at| at + 1);
            self.input.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !any {
            return Ok(false);
        }
        self.number += 1;
        line.number = self.number;
        line.cut = cut;
        let bytes = match self.number {
            1 => self
                .bytes
                .strip_prefix(b"\xef\xbb\xbf")
                .unwrap_or(&self.bytes),
            _ => &self.bytes,
        };
        plain(bytes, &mut line.whole);
        self.split(line);
        Ok(true)
    }

    /// Finds where the message begins, and puts a second message aside.
    fn split(&mut self, line: &mut Line) {
        line.start = line.whole.len() - strip_prefixes(&line.whole).len();
        line.stamp = stamp(&line.whole[..line.start]);
        if let Some(at) = inner_stamp(&line.whole[line.start..]) {
            self.rest.push_str(&line.whole[line.start + at..]);
            line.whole.truncate(line.start + at);
        }
    }
}

/// Where in `text` a stamp of seconds with six decimals stands that is not its beginning.
fn inner_stamp(text: &str) -> Option<usize> {
    let mut from = 1;
    loop {
        let at = from + text.get(from..)?.find('[')?;
        let inner = text[at + 1..].trim_start_matches(' ');
        let seconds = inner.bytes().take_while(u8::is_ascii_digit).count();
        let stamp = seconds > 0
            && inner.as_bytes().get(seconds) == Some(&b'.')
            && inner.len() > seconds + 7
            && inner.as_bytes()[seconds + 1..seconds + 7]
                .iter()
                .all(u8::is_ascii_digit)
            && inner.as_bytes()[seconds + 7] == b']';
        if stamp {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Decodes `bytes` as UTF-8, without colours, NULs and other control characters.
fn plain(bytes: &[u8], out: &mut String) {
    out.clear();
    let text = String::from_utf8_lossy(bytes);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                // A terminal's control sequence ends with its first letter or `~`.
                if chars.peek() == Some(&'[') {
                    chars.next();
                    while let Some(c) = chars.next_if(|c| (' '..='?').contains(c)) {
                        debug_assert!(!c.is_alphabetic());
                    }
                    chars.next_if(|c| ('@'..='~').contains(c));
                }
            }
            '\t' | '\u{a0}' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    let kept = out.trim_end().len();
    out.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8]) -> Vec<String> {
        let mut lines = Lines::new(input);
        let mut line = Line::default();
        let mut out = Vec::new();
        while lines.read(&mut line).unwrap() {
            out.push(line.text().to_owned());
        }
        out
    }

    #[test]
    fn carriage_returns_nuls_colours_and_broken_utf8_do_not_reach_the_readers() {
        let input = b"\xef\xbb\xbf\x1b[32m[    0.000000] \x1b[0m\x1b[1mZone ranges:\x1b[0m\r\nMem\0ory: \xff1K\r\n";
        assert_eq!(all(input), ["Zone ranges:", "Memory: \u{fffd}1K"]);
    }

    #[test]
    fn a_line_without_end_counts_and_an_empty_input_has_none() {
        assert_eq!(all(b"a\nb"), ["a", "b"]);
        assert_eq!(all(b""), [""; 0]);
        assert_eq!(all(b"\n\n"), ["", ""]);
    }

    #[test]
    fn two_messages_on_one_line_are_two_lines_with_one_number() {
        let input = "[    0.000000][    T0] a [mem 0x1-0x2] [    0.000000][    T0] b [é[ 1.5][  10.123456]c\nd";
        assert_eq!(
            all(input.as_bytes()),
            ["a [mem 0x1-0x2]", "b [é[ 1.5]", "c", "d"]
        );
        let mut lines = Lines::new("[ 1.000000] a[ 2.000000] b\nc".as_bytes());
        let mut line = Line::default();
        let mut numbers = Vec::new();
        while lines.read(&mut line).unwrap() {
            numbers.push(line.number);
        }
        assert_eq!(numbers, [1, 1, 2]);
    }

    #[test]
    fn a_very_long_line_is_cut_and_the_next_one_is_whole() {
        let mut input = vec![b'x'; 10 * MAX_LINE];
        input.extend_from_slice(b"\nnext\n");
        let mut lines = Lines::new(std::io::BufReader::with_capacity(100, &input[..]));
        let mut line = Line::default();
        assert!(lines.read(&mut line).unwrap());
        assert!(line.cut);
        assert_eq!(line.text().len(), MAX_LINE);
        assert!(lines.read(&mut line).unwrap());
        assert_eq!((line.text(), line.number, line.cut), ("next", 2, false));
    }
}
