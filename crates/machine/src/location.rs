//! Where in the input something was said.
//!
//! Every fact that a reader hands out carries a [`Location`]; every line that should have been a
//! fact but could not be read becomes a [`Problem`]. Problems are collected, not thrown: one
//! garbled line must not lose the other thousand.

use std::fmt;

use crate::text::Line;

/// Longest part of a line that is kept to be shown, in characters.
const SHOWN: usize = 160;

/// One line of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Line number, from 1. Zero where the input has no lines.
    pub line: u64,
    /// The line without its time stamp and quoting, cut to a length that can be shown.
    pub text: String,
}

impl Location {
    /// `text` on line `line`, cut to what can be shown.
    pub fn new(line: u64, text: &str) -> Self {
        let mut shown: String = text.chars().take(SHOWN).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        Self { line, text: shown }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: `{}`", self.line, self.text)
    }
}

/// A line that should have told something and could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line.
    pub at: Location,
    /// What was expected there.
    pub expected: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: expected {}; if the line was cut or edited, take the log again",
            self.at, self.expected
        )
    }
}

/// The problems of one input: the first of them whole, the rest counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    kept: Vec<Problem>,
    dropped: u64,
}

impl Problems {
    /// How many are kept whole.
    pub const KEPT: usize = 200;

    /// Notes that `text` on line `line` is not the `expected` form.
    pub fn note(&mut self, line: u64, text: &str, expected: &'static str) {
        if self.kept.len() < Self::KEPT {
            self.kept.push(Problem {
                at: Location::new(line, text),
                expected,
            });
        } else {
            self.dropped += 1;
        }
    }

    /// Notes that what stands behind the first [`MAX_LINE`](crate::text::MAX_LINE) bytes of `line`
    /// was not read, if so.
    pub(crate) fn note_cut(&mut self, line: &Line) {
        if line.cut {
            self.note(line.number, line.text(), "a line end within 16 KiB");
        }
    }

    /// Those that are kept, in the order of the input.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.kept.iter()
    }

    /// All of them, the dropped ones included.
    pub fn count(&self) -> u64 {
        self.kept.len() as u64 + self.dropped
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}
