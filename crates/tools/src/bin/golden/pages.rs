//! The struct pages of a capture: the part `@@pages`.
//!
//! A run is `FIRST COUNT w0 .. w7`: frames from `FIRST` whose struct pages are equal once words
//! that point to the page's own first list word are replaced by [`OWN_LIST`].

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use memblock::{Pfn, PfnRange};

/// Stands for "the address of this struct page's own word 1".
pub(crate) const OWN_LIST: u64 = 0x5e1f_5e1f_5e1f_5e1f;

/// Words that a capture lists of a struct page.
pub(crate) const WORDS: usize = 8;

/// Frames whose struct pages are equal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) line: u64,
    pub(crate) pfns: PfnRange,
    pub(crate) words: [u64; WORDS],
}

/// Why a capture's struct pages are not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PagesError {
    /// A folder, a device or a pipe: it is read more than once, and has to end.
    #[error("{} is no regular file; name a capture or a folder of captures", path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("{}: {source}; check the path and its permissions", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A run that ends beyond the last number.
    #[error("line {line}: {count} frames from {first} on end beyond 2^64; correct the count")]
    Overflow {
        /// Where.
        line: u64,
        /// The first frame.
        first: u64,
        /// How many frames.
        count: u64,
    },
    /// Two runs that list a frame both.
    #[error(
        "line {line}: frames {} to {} overlap those of line {other}; a struct page is listed once: \
         were captures joined?", pfns.start().get(), pfns.end().get()
    )]
    Overlap {
        /// The later line of the two.
        line: u64,
        /// Its frames.
        pfns: PfnRange,
        /// The earlier line.
        other: u64,
    },
}

/// What a capture lists.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pub(crate) runs: Vec<Run>,
    /// Pages that the capture only counts.
    counted: u64,
    /// Pages of its segments, without holes that could not be read.
    announced: u64,
    /// Bytes of a struct page, where the capture says it.
    pub(crate) struct_page_bytes: Option<u64>,
    /// Lines that cannot be read.
    pub(crate) broken: Vec<u64>,
    /// `Freeing .. memory: ..K` lines: what, and how much in KiB.
    pub(crate) freed: Vec<(String, u64)>,
    /// `cma: Reserved .. at ..`: from where, how many bytes.
    pub(crate) cma: Vec<(u64, u64)>,
    /// Whether the log goes on until user space runs.
    pub(crate) log_reaches_user_space: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Log,
    Pages,
    Device,
    Other,
}

impl Pages {
    /// Reads the file `path`.
    ///
    /// # Errors
    /// [`PagesError`] where it is no file, cannot be read, or lists what cannot be.
    pub(crate) fn open(path: &Path) -> Result<Self, PagesError> {
        let io = |source| PagesError::Io {
            path: path.to_owned(),
            source,
        };
        // looked at before it is opened: opening a pipe would wait for its writer
        if !path.metadata().map_err(io)?.is_file() {
            return Err(PagesError::NotAFile {
                path: path.to_owned(),
            });
        }
        let mut input = BufReader::new(File::open(path).map_err(io)?);
        let mut pages = Self::default();
        let mut device_runs = Vec::new();
        let mut part = Part::Other;
        let mut bytes = Vec::new();
        let mut number = 0;
        loop {
            bytes.clear();
            if input.read_until(b'\n', &mut bytes).map_err(io)? == 0 {
                break;
            }
            number += 1;
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim_end();
            if let Some(name) = text.strip_prefix("@@") {
                part = match name {
                    "dmesg" => Part::Log,
                    "pages" => Part::Pages,
                    "pages.device" => Part::Device,
                    _ => Part::Other,
                };
                continue;
            }
            match part {
                Part::Log => pages.log_line(text),
                // a line without its end was cut, and says who knows what
                Part::Pages if bytes.ends_with(b"\n") => pages.page_line(number, text)?,
                // compared by `tools::device_golden`, which tells what it cannot read
                Part::Device => device_runs.extend(run(number, text)?),
                Part::Pages | Part::Other => {}
            }
        }
        disjoint(&pages.runs)?;
        disjoint(&device_runs)?;
        Ok(pages)
    }

    /// Pages of the capture's segments that it neither lists nor counts, and all of them.
    pub(crate) fn lost(&self) -> (u64, u64) {
        let listed: u64 = self.runs.iter().map(|run| run.pfns.len()).sum();
        let known = listed.saturating_add(self.counted);
        (self.announced.saturating_sub(known), self.announced)
    }

    fn log_line(&mut self, text: &str) {
        let text = text
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("] "))
            .map_or(text, |(_, rest)| rest);
        if let Some(rest) = text.strip_prefix("Freeing ")
            && let Some((what, size)) = rest.split_once(" memory: ")
            && let Some(kib) = size.strip_suffix('K').and_then(|kib| kib.parse().ok())
        {
            self.freed.push((what.to_owned(), kib));
        }
        if let Some(rest) = text.strip_prefix("cma: Reserved ")
            && let Some((mib, rest)) = rest.split_once(" MiB at 0x")
            && let Ok(mib) = mib.parse::<u64>()
        {
            let end = rest
                .find(|c: char| !c.is_ascii_hexdigit())
                .unwrap_or(rest.len());
            if let Ok(start) = u64::from_str_radix(&rest[..end], 16) {
                self.cma.push((start, mib << 20));
            }
        }
        self.log_reaches_user_space |= text.starts_with("Run /");
    }

    fn page_line(&mut self, line: u64, text: &str) -> Result<(), PagesError> {
        let mut words = text.split_ascii_whitespace();
        match words.next() {
            None | Some("vmemmap") => {}
            Some(kind @ ("SEG" | "GAP" | "HOLE")) => match words.next().and_then(length) {
                Some(pages) if kind == "HOLE" => {
                    self.announced = self.announced.saturating_sub(pages);
                }
                Some(pages) => self.announced = self.announced.saturating_add(pages),
                None => self.broken.push(line),
            },
            Some("MISC") => {
                let count = words.next().and_then(|count| count.parse::<u64>().ok());
                match count {
                    Some(count) => self.counted = self.counted.saturating_add(count),
                    None => self.broken.push(line),
                }
            }
            Some("VMEMMAP") => {
                self.struct_page_bytes = words.nth(1).and_then(|bytes| bytes.parse().ok());
            }
            Some(_) => match run(line, text)? {
                Some(run) => self.runs.push(run),
                None => self.broken.push(line),
            },
        }
        Ok(())
    }
}

/// Pages of `A-B`.
fn length(range: &str) -> Option<u64> {
    let (start, end) = range.split_once('-')?;
    end.parse::<u64>().ok()?.checked_sub(start.parse().ok()?)
}

/// The run of a line, or nothing where it is none.
fn run(line: u64, text: &str) -> Result<Option<Run>, PagesError> {
    let Some((first, count, words)) = fields(text) else {
        return Ok(None);
    };
    let start = Pfn::new(first);
    let end = start
        .checked_add(count)
        .ok_or(PagesError::Overflow { line, first, count })?;
    let pfns = PfnRange::new(start, end);
    Ok(Some(Run { line, pfns, words }))
}

fn fields(text: &str) -> Option<(u64, u64, [u64; WORDS])> {
    let mut rest = text.split_ascii_whitespace();
    let first = rest.next()?.parse().ok()?;
    let count = rest.next()?.parse().ok().filter(|count| *count > 0)?;
    let mut words = [0; WORDS];
    for word in &mut words {
        *word = u64::from_str_radix(rest.next()?, 16).ok()?;
    }
    rest.next().is_none().then_some((first, count, words))
}

/// Refuses runs that share frames, in whatever order they are listed.
fn disjoint(runs: &[Run]) -> Result<(), PagesError> {
    let mut order: Vec<&Run> = runs.iter().collect();
    order.sort_by_key(|run| (run.pfns.start(), run.line));
    for pair in order.windows(2) {
        if pair[0].pfns.end() > pair[1].pfns.start() {
            let (early, late) = if pair[0].line < pair[1].line {
                (pair[0], pair[1])
            } else {
                (pair[1], pair[0])
            };
            return Err(PagesError::Overlap {
                line: late.line,
                pfns: late.pfns,
                other: early.line,
            });
        }
    }
    Ok(())
}
