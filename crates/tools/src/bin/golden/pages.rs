//! The struct pages of a capture: the part `@@pages`.
//!
//! A run is `FIRST COUNT w0 .. w7`: frames from `FIRST` whose struct pages are equal once words
//! that point to the page's own first list word are replaced by [`OWN_LIST`].

use std::io::{self, BufRead};

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

/// What a capture lists.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pub(crate) runs: Vec<Run>,
    /// Pages that the capture only counts.
    pub(crate) counted: u64,
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

#[derive(PartialEq)]
enum Part {
    Log,
    Pages,
    Device,
    Other,
}

impl Pages {
    pub(crate) fn read(mut input: impl BufRead) -> io::Result<Self> {
        let mut pages = Self::default();
        let mut part = Part::Other;
        let mut bytes = Vec::new();
        let mut number = 0;
        loop {
            bytes.clear();
            if input.read_until(b'\n', &mut bytes)? == 0 {
                return Ok(pages);
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
                Part::Pages | Part::Device => pages.page_line(number, text, part == Part::Device),
                Part::Other => {}
            }
        }
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

    fn page_line(&mut self, line: u64, text: &str, device: bool) {
        let mut words = text.split_ascii_whitespace();
        match words.next() {
            None | Some("SEG" | "HOLE" | "GAP" | "vmemmap") => {}
            Some("MISC") => {
                let count = words.next().and_then(|count| count.parse::<u64>().ok());
                match count {
                    Some(count) => self.counted += count,
                    None => self.broken.push(line),
                }
            }
            Some("VMEMMAP") => {
                self.struct_page_bytes = words.nth(1).and_then(|bytes| bytes.parse().ok());
            }
            Some(first) => match run(line, first, words) {
                // compared by `tools::device_golden`
                Some(_) if device => {}
                Some(run) => self.runs.push(run),
                None => self.broken.push(line),
            },
        }
    }
}

fn run<'a>(line: u64, first: &str, mut rest: impl Iterator<Item = &'a str>) -> Option<Run> {
    let start = Pfn::new(first.parse().ok()?);
    let count = rest.next()?.parse().ok().filter(|count| *count > 0)?;
    let mut words = [0; WORDS];
    for word in &mut words {
        *word = u64::from_str_radix(rest.next()?, 16).ok()?;
    }
    if rest.next().is_some() {
        return None;
    }
    let pfns = PfnRange::new(start, start.checked_add(count)?);
    Some(Run { line, pfns, words })
}
