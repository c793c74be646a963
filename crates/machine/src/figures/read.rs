//! Lines into figures.

use memblock::{NodeId, PhysAddr};
use memmap_core::ZoneKind;

use super::{Figure, FigureKind, PrintedFigures};
use crate::location::{Location, Problems};
use crate::text::scan::Scan;

/// Which list the lines belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum List {
    #[default]
    None,
    Zones,
    Movable,
    Early,
}

/// Collects figures line by line.
#[derive(Debug, Default)]
pub(crate) struct FigureReader {
    figures: PrintedFigures,
    list: List,
    node: Option<NodeId>,
    /// Whether zones are printed as page frames (kernels before 3.5).
    pub(crate) pfn_format: Option<Location>,
}

impl FigureReader {
    /// Takes one message; `true` if it was a figure or the head of a list of figures.
    pub(crate) fn feed(&mut self, line: u64, text: &str, problems: &mut Problems) -> bool {
        if self.head(line, text) {
            return true;
        }
        if self.list != List::None {
            match self.entry(text) {
                Some(Ok(kind)) => return self.push(line, text, kind),
                Some(Err(expected)) => {
                    problems.note(line, text, expected);
                    return true;
                }
                None => {}
            }
        }
        match self.single(text) {
            Some(Some(kind)) => {
                self.list = List::None;
                self.push(line, text, kind)
            }
            Some(None) => {
                problems.note(line, text, "a figure of the memory map");
                true
            }
            None => false,
        }
    }

    /// Whether there was none so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }

    /// The figures.
    pub(crate) fn finish(self) -> PrintedFigures {
        self.figures
    }

    fn push(&mut self, line: u64, text: &str, kind: FigureKind) -> bool {
        self.figures.figures.push(Figure {
            at: Location::new(line, text),
            kind,
        });
        true
    }

    fn head(&mut self, line: u64, text: &str) -> bool {
        let (list, slot) = match text {
            "Zone ranges:" => (List::Zones, &mut self.figures.zone_ranges_at),
            "Movable zone start for each node" => (List::Movable, &mut self.figures.movable_at),
            _ if text.starts_with("Early memory node ranges") => {
                (List::Early, &mut self.figures.early_ranges_at)
            }
            "Zone PFN ranges:" => {
                self.pfn_format = Some(Location::new(line, text));
                return true;
            }
            _ => return false,
        };
        *slot = Some(line);
        self.list = list;
        true
    }

    /// A line of the list that is open, if it is one.
    fn entry(&self, text: &str) -> Option<Result<FigureKind, &'static str>> {
        let mut scan = Scan(text);
        match self.list {
            List::None => None,
            List::Zones => {
                let zone = ZoneKind::from_name(scan.word())?;
                if scan.0.trim() == "empty" {
                    return Some(Ok(FigureKind::ZoneRange { zone, range: None }));
                }
                scan.0.trim_start().starts_with("[mem").then(|| {
                    let range = scan.mem().ok_or("`[mem 0xSTART-0xEND]` or `empty`")?;
                    Ok(FigureKind::ZoneRange {
                        zone,
                        range: Some(range),
                    })
                })
            }
            List::Movable => {
                scan.eat("Node ")?;
                Some(self.movable(scan).ok_or("`Node N: 0xSTART`"))
            }
            List::Early => {
                scan.eat("node ")?;
                Some(self.early(scan).ok_or("`node N: [mem 0xSTART-0xEND]`"))
            }
        }
    }

    fn movable(&self, mut scan: Scan<'_>) -> Option<FigureKind> {
        let node = NodeId::new(scan.node()?);
        scan.eat(":")?;
        let start = PhysAddr::new(scan.hex()?);
        Some(FigureKind::MovableStart { node, start })
    }

    fn early(&self, mut scan: Scan<'_>) -> Option<FigureKind> {
        let node = NodeId::new(scan.node()?);
        scan.eat(":")?;
        let range = scan.mem()?;
        Some(FigureKind::EarlyRange { node, range })
    }

    /// A line that stands alone: not one, one that is broken, or one.
    fn single(&mut self, text: &str) -> Option<Option<FigureKind>> {
        let mut scan = Scan(text);
        if scan.eat("Initmem setup node ").is_some() {
            return Some(self.initmem(scan));
        }
        if scan.eat("Initializing node ").is_some() {
            let node = NodeId::new(scan.node()?);
            scan.eat("as memoryless")?;
            return Some(Some(FigureKind::OfflineNode { node }));
        }
        if scan.eat("On node ").is_some() {
            return Some(self.on_node(scan));
        }
        if let Some(zone) = zone_colon(&mut scan) {
            return self.zone_line(zone, scan);
        }
        if scan
            .eat("Zeroed struct page in unavailable ranges:")
            .is_some()
        {
            return Some(scan.dec().map(|pages| FigureKind::ZeroedPages { pages }));
        }
        if scan.eat("Reserved but unavailable:").is_some() {
            let pages = scan.dec();
            return Some(pages.map(|pages| FigureKind::ReservedUnavailable { pages }));
        }
        if scan.eat("Fallback order for Node ").is_some() {
            return Some(fallback(scan));
        }
        if scan.eat("Built ").is_some() && text.contains("zonelists") {
            return Some(zonelists(scan, text));
        }
        if scan.eat("Policy zone: ").is_some() {
            let zone = ZoneKind::from_name(scan.word());
            return Some(zone.map(|zone| FigureKind::PolicyZone { zone }));
        }
        if scan.eat("Memory: ").is_some() && text.contains("available (") {
            return Some(memory_line(scan));
        }
        let plain = text.strip_prefix("e820: ").unwrap_or(text);
        if let Some(rest) = plain.strip_prefix("last_pfn = ")
            && text.contains("max_arch_pfn")
        {
            let pfn = Scan(rest).hex();
            return Some(pfn.map(|pfn| FigureKind::LastPfn { pfn }));
        }
        if text.starts_with("node ") && text.contains("initialised") {
            return deferred(text).map(Some);
        }
        if scan.eat("memmap_init_zone_device initialised ").is_some() {
            return Some(device_init(scan));
        }
        None
    }

    fn initmem(&mut self, mut scan: Scan<'_>) -> Option<FigureKind> {
        let node = NodeId::new(scan.node()?);
        self.node = Some(node);
        if scan.eat("as memoryless").is_some() || scan.0.contains("<memory-less node>") {
            return Some(FigureKind::Initmem { node, range: None });
        }
        // Up to 5.15 a node without memory goes from 0 to 0.
        let range = scan.mem()?;
        let range = (range.end().get() > 1).then_some(range);
        Some(FigureKind::Initmem { node, range })
    }

    fn on_node(&mut self, mut scan: Scan<'_>) -> Option<FigureKind> {
        let node = NodeId::new(scan.node()?);
        if scan.eat("totalpages:").is_some() {
            self.node = Some(node);
            let pages = scan.dec()?;
            return Some(FigureKind::TotalPages { node, pages });
        }
        scan.eat(", zone ")?;
        let zone = zone_colon(&mut scan)?;
        let pages = scan.dec()?;
        scan.eat("pages in unavailable ranges")?;
        Some(FigureKind::Unavailable {
            node: Some(node),
            zone,
            pages,
        })
    }

    /// `NAME zone: …`, whose name is taken.
    fn zone_line(&self, zone: ZoneKind, mut scan: Scan<'_>) -> Option<Option<FigureKind>> {
        let node = self.node;
        let pages = scan.dec()?;
        if scan.eat("pages used for memmap").is_some() {
            return Some(Some(FigureKind::MemmapPages { node, zone, pages }));
        }
        if scan.eat("pages reserved").is_some() {
            return Some(Some(FigureKind::ReservedPages { node, zone, pages }));
        }
        if scan.eat("pages in unavailable ranges").is_some() {
            let node = None;
            return Some(Some(FigureKind::Unavailable { node, zone, pages }));
        }
        if scan.eat("pages, LIFO batch:").is_some() {
            return Some(scan.dec().map(|batch| FigureKind::ZonePages {
                node,
                zone,
                pages,
                batch,
            }));
        }
        None
    }
}

/// Takes `DMA zone:` or `DMA:`.
fn zone_colon(scan: &mut Scan<'_>) -> Option<ZoneKind> {
    let mut ahead = *scan;
    let (name, after) = ahead.0.trim_start().split_once(':')?;
    let name = name.strip_suffix(" zone").unwrap_or(name);
    let zone = ZoneKind::from_name(name)?;
    ahead.0 = after;
    *scan = ahead;
    Some(zone)
}

fn fallback(mut scan: Scan<'_>) -> Option<FigureKind> {
    let node = NodeId::new(scan.node()?);
    scan.eat(":")?;
    let words = scan.0.split_ascii_whitespace();
    let order = words.map(|word| word.parse().ok().map(NodeId::new));
    let order = order.collect::<Option<Vec<_>>>()?;
    Some(FigureKind::Fallback { node, order })
}

fn zonelists(mut scan: Scan<'_>, text: &str) -> Option<FigureKind> {
    let lists = scan.dec()?;
    let (_, after) = text.split_once("Total pages:")?;
    let pages = Scan(after).dec()?;
    Some(FigureKind::Zonelists {
        lists,
        grouping: text.contains("grouping on"),
        pages,
    })
}

fn memory_line(mut scan: Scan<'_>) -> Option<FigureKind> {
    let kib = |scan: &mut Scan<'_>| {
        let value = scan.dec()?;
        scan.eat("K").or_else(|| scan.eat("k"))?;
        Some(value)
    };
    let available = kib(&mut scan)?;
    scan.eat("/")?;
    let total = kib(&mut scan)?;
    let named = |name: &str| {
        let list = scan.0.split_once('(')?.1;
        let item = list
            .split([',', ')'])
            .find(|item| item.trim_end().ends_with(name))?;
        Scan(item).dec()
    };
    Some(FigureKind::Memory {
        available,
        total,
        reserved: named(" reserved")?,
        cma: named("cma-reserved"),
        highmem: named("highmem"),
    })
}

fn deferred(text: &str) -> Option<FigureKind> {
    let mut scan = Scan(text);
    scan.eat("node ")?;
    let node = NodeId::new(scan.node()?);
    let pages = if scan.eat("deferred pages initialised in").is_some() {
        None
    } else {
        scan.eat("initialised,")?;
        let pages = scan.dec()?;
        scan.eat("pages in")?;
        Some(pages)
    };
    let milliseconds = scan.dec()?;
    scan.eat("ms")?;
    Some(FigureKind::DeferredInit {
        node,
        pages,
        milliseconds,
    })
}

fn device_init(mut scan: Scan<'_>) -> Option<FigureKind> {
    // Up to 5.x a pointer-like device name may stand before the figure.
    let pages = scan.dec()?;
    scan.eat("pages in")?;
    let milliseconds = scan.dec()?;
    scan.eat("ms")?;
    Some(FigureKind::DeviceInit {
        pages,
        milliseconds,
    })
}
