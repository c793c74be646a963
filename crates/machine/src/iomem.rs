//! `/proc/iomem`: who has which physical addresses.
//!
//! Root reads addresses there; everybody else reads zeros. Linux: `kernel/resource.c`.

use std::io::BufRead;
use std::path::Path;

use memblock::PhysRange;

use crate::error::ReadError;
use crate::location::Problems;
use crate::text;
use crate::text::scan::Scan;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Line number.
    pub line: u64,
    /// How deep it lies inside others; 0 is the outermost.
    pub depth: usize,
    /// Its addresses.
    pub range: PhysRange,
    /// Its name.
    pub name: String,
}

impl Resource {
    /// Whether it is memory that the kernel found at boot.
    pub fn is_memory(&self) -> bool {
        // `System RAM (kmem)` and the like were added by a driver later.
        self.depth == 0 && self.name == "System RAM"
    }

    /// Whether it is memory that is persistent or set aside for a driver.
    pub fn is_device_memory(&self) -> bool {
        self.name.starts_with("Persistent Memory") || self.name == "Soft Reserved"
    }

    /// Whether it is something reserved: by firmware outermost, by the kernel inside memory.
    pub fn is_reserved(&self) -> bool {
        self.name.eq_ignore_ascii_case("reserved")
            || self.name.starts_with("Kernel ")
            || self.name.starts_with("Crash kernel")
    }
}

/// All lines, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Iomem {
    resources: Vec<Resource>,
    /// Lines that could not be read.
    pub problems: Problems,
}

impl Iomem {
    /// Lines that are kept; the largest hosts have some ten thousand.
    const MAX: usize = 1 << 20;

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
        let mut iomem = Self::default();
        text::each_line(name, input, |line| {
            iomem.feed(line.number, line.whole());
            iomem.problems.note_cut(line);
        })?;
        Ok(iomem)
    }

    /// Takes one line, with its indentation.
    pub(crate) fn feed(&mut self, line: u64, text: &str) {
        let trimmed = text.trim_start();
        if trimmed.is_empty() || self.resources.len() >= Self::MAX {
            return;
        }
        match resource(trimmed) {
            Some((range, name)) => self.resources.push(Resource {
                line,
                depth: (text.len() - trimmed.len()) / 2,
                range,
                name: name.to_owned(),
            }),
            None => self.problems.note(line, text, "`START-END : NAME`"),
        }
    }

    /// The lines.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// Whether addresses may be read: without the right to, all of them are zero.
    pub fn is_readable(&self) -> bool {
        self.resources
            .iter()
            .any(|resource| resource.range.end().get() > 1)
    }
}

fn resource(text: &str) -> Option<(PhysRange, &str)> {
    let mut scan = Scan(text);
    let range = scan.inclusive()?;
    scan.eat(":")?;
    Some((range, scan.0.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_and_names_are_kept_and_zeros_are_not_addresses() {
        let text = "00001000-0009fbff : System RAM\n\
                    100000000-1ffffffff : System RAM\n  101000000-1022fffff : Kernel code\n\
                    200000000-2ffffffff : Persistent Memory (legacy)\n    x : y\n";
        let iomem = Iomem::read("text", text.as_bytes()).unwrap();
        assert_eq!(iomem.resources().len(), 4);
        assert_eq!(iomem.problems.count(), 1);
        assert!(iomem.is_readable());
        let kinds: Vec<_> = iomem
            .resources()
            .iter()
            .map(|r| {
                (
                    r.depth,
                    r.is_memory(),
                    r.is_reserved(),
                    r.is_device_memory(),
                )
            })
            .collect();
        assert_eq!(
            kinds,
            [
                (0, true, false, false),
                (0, true, false, false),
                (1, false, true, false),
                (0, false, false, true)
            ]
        );
        let hidden = Iomem::read("text", "00000000-00000000 : System RAM\n".as_bytes()).unwrap();
        assert!(!hidden.is_readable());
    }
}
