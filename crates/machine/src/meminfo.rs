//! `/proc/meminfo`: how much memory the kernel manages.
//!
//! Linux: `fs/proc/meminfo.c`. All sizes are in KiB.

use std::io::BufRead;
use std::path::Path;

use crate::error::ReadError;
use crate::location::{Location, Problems};
use crate::text;
use crate::text::scan::Scan;

/// The figures that bear on the memory map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meminfo {
    /// `MemTotal`: what the page allocator has or had, KiB, and its line.
    pub total_kib: Option<(u64, Location)>,
    /// Lines that could not be read.
    pub problems: Problems,
}

impl Meminfo {
    /// Reads the file `path`.
    ///
    /// # Errors
    /// [`ReadError::Io`] where it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let (name, input) = text::open(path.as_ref())?;
        Self::read(&name, input)
    }

    /// Reads `input`, which messages will call `name`.
    ///
    /// # Errors
    /// [`ReadError::Io`] where it cannot be read.
    pub fn read(name: &str, input: impl BufRead) -> Result<Self, ReadError> {
        let mut meminfo = Self::default();
        text::each_line(name, input, |line| {
            meminfo.feed(line.number, line.text());
            meminfo.problems.note_cut(line);
        })?;
        Ok(meminfo)
    }

    fn feed(&mut self, line: u64, text: &str) {
        let Some(rest) = text.strip_prefix("MemTotal:") else {
            return;
        };
        let mut scan = Scan(rest);
        match scan.dec().filter(|_| scan.eat("kB").is_some()) {
            Some(kib) => self.total_kib = Some((kib, Location::new(line, text))),
            None => self.problems.note(line, text, "`MemTotal: N kB`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_and_a_broken_one_is_a_problem() {
        let read = |text: &str| Meminfo::read("text", text.as_bytes()).unwrap();
        let good = read("MemTotal:       32594652 kB\nMemFree:  1 kB\n");
        assert_eq!(
            good.total_kib.map(|(kib, at)| (kib, at.line)),
            Some((32_594_652, 1))
        );
        for broken in [
            "MemTotal: x kB",
            "MemTotal: 5",
            "MemTotal: 99999999999999999999 kB",
        ] {
            let read = read(broken);
            assert_eq!(
                (read.total_kib, read.problems.count()),
                (None, 1),
                "{broken}"
            );
        }
    }
}
