//! What a capture says of free memory.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use memblock::replay::{Replay, replay};
use memblock::{Pfn, PfnRange};
use memmap_core::ZoneKind;
use memmap_core::buddy::MigrateType;

/// Frames whose struct pages are equal, as a capture lists them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) pfns: PfnRange,
    pub(super) words: [u64; 8],
}

/// What a capture says of free memory.
#[derive(Clone, Debug, Default)]
pub struct CapturedBlocks {
    pub(super) segments: Vec<PfnRange>,
    pub(super) runs: Vec<Run>,
    /// Lines of `/proc/buddyinfo`.
    pub(super) buddyinfo: Vec<String>,
    /// Free blocks by node, zone, type and order.
    pub(super) types: BTreeMap<(u16, ZoneKind, MigrateType), Vec<u64>>,
    /// Managed and free pages by zone.
    pub(super) zones: BTreeMap<(u16, ZoneKind), (u64, u64)>,
    /// Pools in KiB, by the zone that they were asked from.
    pub(super) pools: Vec<(ZoneKind, u64)>,
    /// KiB of `Freeing …` lines.
    pub(super) freed: u64,
    /// `cma: Reserved …`: bytes from an address, given to the allocator later on.
    pub(super) cma: Vec<(u64, u64)>,
    /// Memblock by the log, where that has it.
    pub(super) replay: Option<Replay>,
    /// The log reaches from hand-over to user space without a gap at either.
    pub(super) log_is_whole: (bool, bool),
}

impl CapturedBlocks {
    /// Reads a capture.
    ///
    /// # Errors
    /// What reading `input` gives. Lines that are no listing are passed over.
    pub fn read(mut input: impl BufRead) -> io::Result<Self> {
        let mut capture = Self::default();
        let mut part = String::new();
        let mut zone = None;
        let mut bytes = Vec::new();
        let mut log: Vec<String> = Vec::new();
        loop {
            bytes.clear();
            if input.read_until(b'\n', &mut bytes)? == 0 {
                // a log without a dump tells nothing this way
                capture.replay = replay(log.iter().map(String::as_str), None).ok();
                return Ok(capture);
            }
            let text = String::from_utf8_lossy(&bytes);
            let line = text.trim_end();
            if let Some(name) = line.strip_prefix("@@") {
                name.clone_into(&mut part);
                continue;
            }
            match part.as_str() {
                "dmesg" => {
                    capture.log_line(line);
                    log.push(line.to_owned());
                }
                "buddyinfo" => capture.buddyinfo.push(line.to_owned()),
                "pagetypeinfo" => capture.types_line(line),
                "zoneinfo" => capture.zone_line(line, &mut zone),
                "pages" => capture.page_line(line),
                _ => {}
            }
        }
    }

    fn log_line(&mut self, line: &str) {
        let text = line.split_once("] ").map_or(line, |(_, rest)| rest);
        if let Some((what, size)) = text.rsplit_once(" memory: ")
            && what.starts_with("Freeing ")
            && let Some(kib) = size
                .strip_suffix('K')
                .and_then(|kib| kib.parse::<u64>().ok())
        {
            self.freed += kib;
        }
        if let Some(rest) = text.strip_prefix("cma: Reserved ")
            && let Some((mib, rest)) = rest.split_once(" MiB at 0x")
            && let Some(address) = rest.split_whitespace().next()
            && let (Ok(mib), Ok(address)) = (mib.parse::<u64>(), u64::from_str_radix(address, 16))
        {
            self.cma.push((address, mib << 20));
        }
        self.log_is_whole.0 |= text.starts_with("SLUB: ");
        self.log_is_whole.1 |= text.starts_with("Run /");
        if let Some(rest) = text.strip_prefix("DMA: preallocated ")
            && let Some((kib, rest)) = rest.split_once(" KiB GFP_KERNEL")
            && let Ok(kib) = kib.parse()
        {
            let zone = match rest.split_whitespace().next() {
                Some("|GFP_DMA") => Some(ZoneKind::Dma),
                Some("|GFP_DMA32") => Some(ZoneKind::Dma32),
                _ => None,
            };
            self.pools.extend(zone.map(|zone| (zone, kib)));
        }
    }

    fn types_line(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        let ["Node", node, "zone", zone, "type", migrate, counts @ ..] = words.as_slice() else {
            return;
        };
        let trim = |word: &str| word.trim_end_matches(',').to_owned();
        let node = trim(node).parse::<u16>();
        let zone = ZoneKind::from_name(&trim(zone));
        let migrate = MigrateType::ALL
            .into_iter()
            .find(|known| known.name() == *migrate);
        let counts: Result<Vec<u64>, _> = counts.iter().map(|count| count.parse()).collect();
        if let (Ok(node), Some(zone), Some(migrate), Ok(counts)) = (node, zone, migrate, counts) {
            self.types.insert((node, zone, migrate), counts);
        }
    }

    fn zone_line(&mut self, line: &str, zone: &mut Option<(u16, ZoneKind)>) {
        let words: Vec<_> = line.split_whitespace().collect();
        match (words.as_slice(), *zone) {
            (["Node", node, "zone", name], _) => {
                let node = node.trim_end_matches(',').parse().ok();
                *zone = node.zip(ZoneKind::from_name(name));
            }
            (["managed", pages], Some(zone)) => {
                self.zones.entry(zone).or_default().0 = pages.parse().unwrap_or(0);
            }
            (["nr_free_pages", pages], Some(zone)) => {
                self.zones.entry(zone).or_default().1 = pages.parse().unwrap_or(0);
            }
            _ => {}
        }
    }

    fn page_line(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["SEG" | "GAP", range, ..] => {
                let range = range.split_once('-');
                if let Some((Ok(start), Ok(end))) = range.map(|(a, b)| (a.parse(), b.parse())) {
                    self.segments
                        .push(PfnRange::new(Pfn::new(start), Pfn::new(end)));
                }
            }
            [first, count, rest @ ..] if rest.len() == 8 => {
                let values: Option<Vec<u64>> = rest
                    .iter()
                    .map(|word| u64::from_str_radix(word, 16).ok())
                    .collect();
                if let (Ok(first), Ok(count), Some(values)) =
                    (first.parse::<u64>(), count.parse::<u64>(), values)
                {
                    let pfns =
                        PfnRange::new(Pfn::new(first), Pfn::new(first.saturating_add(count)));
                    let mut words = [0; 8];
                    words.copy_from_slice(&values);
                    self.runs.push(Run { pfns, words });
                }
            }
            _ => {}
        }
    }
}
