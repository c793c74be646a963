//! Real boots, played back: what was reserved at hand-over must equal what the kernel printed.
//!
//! The captures lie outside the project, in `shared/` beside it; without them the tests say so
//! and pass.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use memblock::replay::{Replay, replay};
use memblock::text::{
    AllocCall, DebugEvent, DebugLine, DebugfsTable, DumpReader, MemblockDump, strip_time,
};
use memblock::{AllocRequest, NodeId, Pfn, PfnRange, PhysAddr};

/// Captures of all architectures.
fn all() -> Vec<PathBuf> {
    let mut files = captures::files("golden", "txt");
    files.extend(captures::files("golden-other", "txt"));
    files
}

/// The lines of a section of a capture.
fn section<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let mut lines = text.lines().skip_while(|line| *line != name);
    lines.next()?;
    Some(lines.take_while(|line| !line.starts_with("@@")).collect())
}

fn name(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

struct Capture {
    name: String,
    text: String,
}

impl Capture {
    fn load(path: &Path) -> Self {
        // struct pages may hold any bytes; the rest is plain text
        let bytes = fs::read(path).expect("a capture can be read");
        Self {
            name: name(path),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    fn replay(&self) -> Result<Replay, String> {
        let log = section(&self.text, "@@dmesg").ok_or("no log")?;
        replay(log, None).map_err(|error| error.to_string())
    }

    /// Pages of 16 or 64 KiB are named in the capture's own figures: /proc/vmcore's note, or
    /// the hash tables of the log.
    fn page_shift(&self, replay: &Replay) -> u32 {
        let noted = self
            .text
            .lines()
            .find_map(|line| line.strip_prefix("PAGESIZE="))
            .and_then(|size| size.parse::<u64>().ok())
            .map(u64::trailing_zeros);
        noted.or(replay.page_shift).unwrap_or(12)
    }

    /// Pages of memory that the running kernel showed as reserved and that were not so at
    /// hand-over: taken from the page allocator later. Only 6.12 and later have this bit.
    fn reserved_later(&self, replay: &Replay, page_shift: u32) -> u64 {
        const PG_RESERVED: u64 = 1 << 13;
        let runs = section(&self.text, "@@pages").unwrap_or_default();
        let runs = runs.iter().filter_map(|line| {
            let mut words = line.split(' ');
            let first: u64 = words.next()?.parse().ok()?;
            let count: u64 = words.next()?.parse().ok()?;
            let flags = u64::from_str_radix(words.next()?, 16).ok()?;
            (flags & PG_RESERVED != 0).then_some(first..first + count)
        });
        let memblock = &replay.at_hand_over;
        runs.flatten()
            .map(|pfn| PfnRange::new(Pfn::new(pfn), Pfn::new(pfn + 1)).phys(page_shift))
            .filter(|page| memblock.is_map_memory(page.start()))
            .filter(|&page| !memblock.is_region_reserved(page))
            .count() as u64
    }

    fn debugfs(&self, name: &str) -> Option<DebugfsTable> {
        let lines = section(&self.text, name)?;
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        let table = DebugfsTable::parse(&text).expect("debugfs reads");
        assert_eq!(
            table.to_string(),
            text,
            "{}: {name} written again",
            self.name
        );
        Some(table)
    }
}

#[test]
fn reserved_pages_at_hand_over_equal_the_memory_line_of_every_capture() {
    let mut verdicts = String::new();
    let mut failed = false;
    let (paths, mut equal) = (all(), 0);
    for path in &paths {
        let capture = Capture::load(path);
        let verdict = match capture.replay() {
            Err(error) => format!("not read: {error}"),
            Ok(replay) => {
                let check = replay.check_memory_line(capture.page_shift(&replay));
                match check {
                    _ if !replay.unknown.is_empty() => {
                        let unknown: Vec<_> =
                            replay.unknown.iter().map(ToString::to_string).collect();
                        format!("not judged: {}", unknown.join("; "))
                    }
                    None => "not judged: the log has no Memory line".into(),
                    Some(check) if check.holds() => {
                        equal += 1;
                        format!("equal, {} KiB", check.replayed)
                    }
                    Some(check) => {
                        let shift = capture.page_shift(&replay);
                        let more = capture.reserved_later(&replay, shift);
                        let missing = check.printed.saturating_sub(check.replayed);
                        // of runs shorter than four a capture tells only the number
                        let kib = |pages: u64| (pages << shift) >> 10;
                        let told = missing > 0 && (kib(more)..=kib(more + 3)).contains(&missing);
                        failed |= !told;
                        if told {
                            format!(
                                "{missing} KiB more there: reserved after hand-over (zero pages)"
                            )
                        } else {
                            format!("DIFFERENT: {check:?}")
                        }
                    }
                }
            }
        };
        let _ = writeln!(verdicts, "{:24} {verdict}", capture.name);
    }
    eprint!("{verdicts}");
    assert!(!failed, "\n{verdicts}");
    // consoles that lost lines are few
    assert!(2 * equal >= paths.len(), "\n{verdicts}");
}

#[test]
fn debugfs_shows_the_state_after_the_later_frees() {
    let (paths, mut compared) = (all(), 0);
    for path in &paths {
        let capture = Capture::load(path);
        let (Some(memory), Some(reserved)) = (
            capture.debugfs("@@memblock.memory"),
            capture.debugfs("@@memblock.reserved"),
        ) else {
            continue;
        };
        let mut replay = match capture.replay() {
            Ok(replay) => replay,
            Err(error) => {
                eprintln!("{:24} not read: {error}", capture.name);
                continue;
            }
        };
        let shift = capture.page_shift(&replay);
        let named = replay.compare_reserved(&reserved, shift).unwrap();
        let whole_log = replay.unknown.is_empty();
        if named.is_empty() {
            eprintln!("{:24} equal", capture.name);
        }
        for range in &named.unseen {
            eprintln!(
                "{:24} {range:?}: reserved by a line that the log has lost",
                capture.name
            );
            assert!(
                !whole_log,
                "{}: {range:?} is not in a whole log",
                capture.name
            );
        }
        for silent in &named.freed_silently {
            let line = silent
                .line
                .as_ref()
                .map_or("no line at all", |line| &line.what);
            eprintln!(
                "{:24} {:?}: freed with no memblock line, {line}",
                capture.name, silent.range
            );
            assert!(
                silent.line.is_some() || !whole_log,
                "{}: nothing tells of {:?}",
                capture.name,
                silent.range
            );
        }
        // with the named differences made good, nodes and flags are the kernel's too
        let unseen = replay.complete_from_debugfs(&reserved, shift).unwrap();
        assert_eq!(unseen, named.unseen);
        let mut after = replay.after_later_frees(shift).unwrap();
        for silent in named.freed_silently {
            after.free(silent.range).unwrap();
        }
        let style = reserved.style;
        let ours = DebugfsTable::new(after.memory(), style);
        assert_eq!(ours.to_string(), memory.to_string(), "{}", capture.name);
        let ours = DebugfsTable::new(after.reserved(), style);
        assert_eq!(ours.to_string(), reserved.to_string(), "{}", capture.name);
        compared += 1;
    }
    assert!(
        paths.is_empty() || compared > 0,
        "no capture has both arrays"
    );
}

/// The request that a line of the log made; `None` for other lines.
fn request(event: DebugEvent) -> Option<AllocRequest> {
    let bounded = |request: AllocRequest, from: PhysAddr, max: PhysAddr| match max.get() {
        // the limit; 1 is the same and tells the leak detector to look away
        0 | 1 => request.from(from),
        _ => request.from(from).below(max),
    };
    match event {
        DebugEvent::PhysAlloc {
            size,
            align,
            from,
            max,
        } => Some(bounded(AllocRequest::phys(size, align), from, max)),
        DebugEvent::Alloc {
            call,
            size,
            align,
            nid,
            from,
            max,
        } => {
            let request = bounded(AllocRequest::new(size, align), from, max);
            Some(match (u16::try_from(nid).map(NodeId::new), call) {
                (Err(_), _) => request,
                (Ok(node), AllocCall::ExactNidRaw) => request.exact_node(node),
                (Ok(node), _) => request.node(node),
            })
        }
        _ => None,
    }
}

/// Every allocation of a log is made again on the state before it: it has to find the place that
/// the kernel found, and record the node and flags that the kernel recorded.
#[test]
fn allocations_find_the_places_that_the_kernel_found() {
    for path in all() {
        let capture = Capture::load(&path);
        let replay = capture.replay().expect("the log reads");
        let log = section(&capture.text, "@@dmesg").expect("a log");
        let log: Vec<&str> = log.into_iter().map(strip_time).collect();
        let title = log.iter().rposition(|line| *line == DumpReader::TITLE);
        let dump: MemblockDump = log[title.expect("a dump")..].join("\n").parse().unwrap();
        let mut m = dump.to_memblock(replay.behaviour);
        m.settings_mut().page_shift = capture.page_shift(&replay);
        m.settings_mut().numa = !m.memory_nodes().is_empty();
        let lines = log[title.unwrap()..]
            .iter()
            .take_while(|line| !line.starts_with("SLUB: "))
            .filter_map(|line| DebugLine::parse(line).unwrap());
        let (mut asked, mut made) = (None, 0);
        for line in lines {
            let width = line.width;
            if let Some(request) = request(line.event) {
                asked = Some(request);
                continue;
            }
            match line.event {
                DebugEvent::Reserve { range, detail } => {
                    let range = range.range(width);
                    let before = m.clone();
                    match detail {
                        None => m.reserve(range),
                        Some((nid, flags)) => {
                            m.reserve_with(range, u16::try_from(nid).ok().map(NodeId::new), flags)
                        }
                    }
                    .unwrap();
                    let by_alloc = line.caller.starts_with("memblock_alloc_range_nid");
                    if let Some(request) = asked.take().filter(|_| by_alloc) {
                        let mut ours = before;
                        let found = ours.alloc(request);
                        assert_eq!(found, Ok(range), "{}: {line}", capture.name);
                        assert_eq!(ours, m, "{}: {line}", capture.name);
                        made += 1;
                    }
                }
                DebugEvent::Free { range, .. } => m.free(range.range(width)).unwrap(),
                DebugEvent::Add(range) => m.add(range.range(width)).unwrap(),
                DebugEvent::Remove(range) => m.remove(range.range(width)).unwrap(),
                _ => {}
            }
        }
        eprintln!(
            "{:24} {made} allocations, all where the kernel made them",
            capture.name
        );
        assert!(made > 10, "{}: {made} allocations", capture.name);
    }
}

#[test]
fn dumps_and_lines_of_every_capture_are_written_byte_for_byte() {
    for path in all() {
        let capture = Capture::load(&path);
        let log = section(&capture.text, "@@dmesg").expect("a log");
        let log: Vec<&str> = log.into_iter().map(strip_time).collect();
        let mut operations = 0;
        for line in &log {
            if let Some(parsed) = DebugLine::parse(line).expect("lines are whole") {
                assert_eq!(parsed.to_string(), *line);
                operations += 1;
            }
        }
        assert!(operations > 50, "{}: {operations} lines", capture.name);
        let mut dumps = 0;
        for (at, _) in log
            .iter()
            .enumerate()
            .filter(|it| *it.1 == DumpReader::TITLE)
        {
            let mut reader = DumpReader::new();
            let mut text = format!("{}\n", DumpReader::TITLE);
            for line in &log[at + 1..] {
                if !reader.feed(line).expect("the dump reads") {
                    break;
                }
                text += line;
                text += "\n";
            }
            let dump: MemblockDump = reader.finish().expect("the dump is whole");
            assert_eq!(dump.to_string(), text, "{}", capture.name);
            let replay = capture.replay().expect("the log reads");
            let memblock = dump.to_memblock(replay.behaviour);
            assert_eq!(memblock.dump().to_string(), text, "{}", capture.name);
            dumps += 1;
        }
        assert!(dumps > 0, "{}: no dump", capture.name);
    }
}

/// Logs of all sorts of machines and kernels: old formats, lost lines, 32-bit addresses. None may
/// do harm, and what reads whole must agree with its kernel.
#[test]
fn other_boot_logs_are_read_or_named() {
    let (paths, mut whole) = (captures::files("dmesg", "txt"), 0);
    for path in &paths {
        let bytes = fs::read(path).expect("a log can be read");
        let text = String::from_utf8_lossy(&bytes);
        if !text.contains(DumpReader::TITLE) {
            continue;
        }
        match replay(text.lines(), None) {
            Err(error) => eprintln!("{:36} not read: {error}", name(path)),
            Ok(replay) => {
                let shift = replay.page_shift.unwrap_or(12);
                let check = replay.check_memory_line(shift);
                eprintln!("{:36} {check:?} {:?}", name(path), replay.unknown);
                let Some(check) = check.filter(|_| replay.unknown.is_empty()) else {
                    continue;
                };
                // MIPS takes its zero pages, one for each colour of its cache and eight at most,
                // between hand-over and this line
                let mips = text.lines().any(|line| line.contains("CPU0 revision is:"));
                let later = if mips { 8 << shift >> 10 } else { 0 };
                let told = check.replayed..=check.replayed + later;
                assert!(told.contains(&check.printed), "{}: {check:?}", name(path));
                whole += 1;
            }
        }
    }
    assert!(paths.is_empty() || whole > 0, "no log with a dump is whole");
}
