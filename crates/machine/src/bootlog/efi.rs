//! The memory map of UEFI firmware, as kernels print it when asked to (`efi=debug`).
//!
//! It names more types than the map that the kernel works with, and says which memory is mirrored.
//! Up to 4.0 types and attributes are numbers and an end is the first byte behind; later both are
//! words and an end is the last byte. Linux: `drivers/firmware/efi/efi.c`,
//! `arch/x86/platform/efi/efi.c`.

use memblock::PhysRange;

use crate::location::Problems;
use crate::text::scan::Scan;

/// One range of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "efi_memory_desc_t")]
pub struct EfiRange {
    /// Line number.
    pub line: u64,
    /// The range.
    pub range: PhysRange,
    /// Whether the kernel may use it as memory: loader's, boot services' or conventional memory
    /// that can be cached.
    pub usable: bool,
    /// Whether it is mirrored ("more reliable").
    pub mirrored: bool,
}

/// The map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EfiMap {
    /// Its ranges, in the order printed.
    pub ranges: Vec<EfiRange>,
    /// Whether one of its lines could not be read.
    pub broken: bool,
    /// Whether its first line, `mem00`, was printed.
    has_first: bool,
}

/// Attribute bits.
const WRITE_BACK: u64 = 8;
const MORE_RELIABLE: u64 = 0x1_0000;
const SPECIAL_PURPOSE: u64 = 0x4_0000;

/// Types that become memory: loader code and data, boot services' code and data, conventional.
const USABLE: [u64; 5] = [1, 2, 3, 4, 7];
const USABLE_NAMES: [&str; 5] = [
    "Loader Code",
    "Loader Data",
    "Boot Code",
    "Boot Data",
    "Conventional Memory",
];

impl EfiMap {
    /// Whether all of it was printed and read.
    pub fn is_whole(&self) -> bool {
        self.has_first && !self.broken && !self.ranges.is_empty()
    }

    /// Takes one message; `true` if it was a line of the map.
    pub(super) fn feed(&mut self, line: u64, text: &str, problems: &mut Problems) -> bool {
        let Some(rest) = text
            .strip_prefix("efi: mem")
            .or_else(|| text.strip_prefix("EFI: mem"))
        else {
            return false;
        };
        let Some((number, rest)) = rest.split_once(": ") else {
            return false;
        };
        if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
            return false;
        }
        if number.bytes().all(|b| b == b'0') {
            // The map is printed again when it changes: each print is the whole.
            *self = Self {
                has_first: true,
                ..Self::default()
            };
        }
        match entry(line, rest.trim_start()) {
            Some(range) => self.ranges.push(range),
            None => {
                self.broken = true;
                problems.note(
                    line,
                    text,
                    "`efi: memN: [TYPE|ATTRIBUTES] range=[0xSTART-0xEND]`",
                );
            }
        }
        true
    }
}

fn entry(line: u64, rest: &str) -> Option<EfiRange> {
    let (head, range) = rest.split_once("range=[")?;
    let mut scan = Scan(range);
    let ends_behind = range
        .find([')', ']'])
        .is_some_and(|at| range[at..].starts_with(')'));
    let range = match ends_behind {
        true => scan.exclusive("-")?,
        false => scan.inclusive()?,
    };
    let (usable, mirrored) = if let Some(numbers) = head.strip_prefix("type=") {
        let mut scan = Scan(numbers);
        let kind = scan.dec()?;
        scan.eat(", attr=")?;
        let bits = scan.hex()?;
        let memory = USABLE.contains(&kind) && bits & WRITE_BACK != 0;
        (
            memory && bits & SPECIAL_PURPOSE == 0,
            bits & MORE_RELIABLE != 0,
        )
    } else {
        let (words, _) = head.strip_prefix('[')?.split_once(']')?;
        let mut words = words.split('|').map(str::trim);
        let kind = words.next()?;
        let (mut cached, mut special, mut mirrored) = (false, false, false);
        for word in words {
            cached |= word == "WB";
            special |= word == "SP";
            mirrored |= word == "MR";
        }
        let memory = USABLE_NAMES.contains(&kind) && cached;
        (memory && !special, mirrored)
    };
    Some(EfiRange {
        line,
        range,
        usable,
        mirrored,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (EfiMap, u64) {
        let (mut map, mut problems) = (EfiMap::default(), Problems::default());
        for (line, text) in (1..).zip(lines) {
            assert!(map.feed(line, text, &mut problems), "{text}");
        }
        (map, problems.count())
    }

    #[test]
    fn the_old_numbers_and_the_later_words_say_the_same() {
        let (old, _) = read(&[
            "efi: mem00: type=3, attr=0xf, range=[0x0000000000001000-0x0000000000087000) (0MB)",
            "efi: mem01: type=7, attr=0x1000f, range=[0x0000000000100000-0x0000000040000000) (1023MB)",
            "efi: mem02: type=11, attr=0x8000000000000001, range=[0x80000000-0x90000000) (256MB)",
        ]);
        let (new, _) = read(&[
            "efi: mem00: [Boot Code          |   |  |  |  |  |  |  |  |   |WB|WT|WC|UC] range=[0x0000000000001000-0x0000000000086fff] (0MB)",
            "efi: mem01: [Conventional Memory|   |  |  |MR|  |  |  |  |   |WB|WT|WC|UC] range=[0x0000000000100000-0x000000003fffffff] (1023MB)",
            "efi: mem02: [Memory Mapped I/O  |RUN|  |  |  |  |  |  |  |   |  |  |  |UC] range=[0x80000000-0x8fffffff] (256MB)",
        ]);
        assert_eq!(old, new);
        assert!(new.is_whole());
        let seen: Vec<_> = new.ranges.iter().map(|r| (r.usable, r.mirrored)).collect();
        assert_eq!(seen, [(true, false), (true, true), (false, false)]);
    }

    #[test]
    fn a_map_without_its_front_or_with_a_broken_line_is_not_whole() {
        let (cut, _) = read(&["efi: mem07: type=7, attr=0xf, range=[0x100000-0x200000) (1MB)"]);
        assert!(!cut.is_whole());
        let (broken, problems) = read(&[
            "efi: mem00: type=7, attr=0xf, range=[0x100000-0x200000) (1MB)",
            "efi: mem01: type=7, attr=0xf, range=[0x100000000000000000-0x2) (1MB)",
        ]);
        assert!(!broken.is_whole());
        assert_eq!(problems, 1);
    }
}
