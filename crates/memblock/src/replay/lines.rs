//! Lines of a boot log that are not memblock's but say when and how much.

use alloc::string::String;

/// The kernel's `Memory:` line, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLine {
    /// Free pages when it was printed.
    pub available_kib: u64,
    /// Present pages.
    pub total_kib: u64,
    /// Present pages that were not given to the page allocator, less CMA.
    pub reserved_kib: u64,
    /// CMA pages.
    pub cma_kib: u64,
    /// What `Freeing …` lines gave back before it.
    pub given_back_kib: u64,
}

/// A `Freeing … memory: …K` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenBack {
    /// What was freed, as the line names it.
    pub what: String,
    /// How much, in KiB.
    pub kib: u64,
    /// The line's number in the log, from 1.
    pub line: usize,
}

impl MemoryLine {
    /// Reads the line; `None` for any other. `given_back_kib` is zero.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("Memory: ")?;
        let (available, rest) = kib(rest)?;
        let (total, rest) = kib(rest.strip_prefix('/')?)?;
        let rest = rest.strip_prefix(" available (")?;
        let field = |name: &str| {
            rest.split([',', ')'])
                .filter_map(|part| kib(part.trim_start()))
                .find(|(_, of)| *of == name)
                .map(|(kib, _)| kib)
        };
        Some(Self {
            available_kib: available,
            total_kib: total,
            reserved_kib: field(" reserved")?,
            cma_kib: field(" cma-reserved").unwrap_or(0),
            given_back_kib: 0,
        })
    }
}

impl GivenBack {
    pub(super) fn parse(text: &str, line: usize) -> Option<Self> {
        let rest = text.strip_prefix("Freeing ")?;
        let (what, size) = rest.split_once(" memory: ")?;
        let (kib, end) = kib(size)?;
        end.is_empty().then(|| Self {
            what: what.into(),
            kib,
            line,
        })
    }
}

/// Takes a number of KiB (`123K`) from the front.
fn kib(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|it: char| !it.is_ascii_digit())?;
    let rest = text[end..].strip_prefix('K')?;
    // far above any machine, and far below an overflow of sums
    let number: u64 = text[..end].parse().ok().filter(|&it| it < 1 << 50)?;
    Some((number, rest))
}

/// The version of a `Linux version X.Y…` line.
pub(super) fn version(line: &str) -> Option<(u32, u32)> {
    let rest = line.strip_prefix("Linux version ")?;
    let (major, rest) = rest.split_once('.')?;
    let end = rest
        .find(|it: char| !it.is_ascii_digit())
        .unwrap_or(rest.len());
    Some((major.parse().ok()?, rest[..end].parse().ok()?))
}

/// Whether `line` is one of those that are printed right after hand-over: the first marks it.
/// Lines that come much later don't count, since a log without all of these has lost lines.
pub(super) fn shows_hand_over(line: &str) -> bool {
    line.starts_with("SLUB: ")
        || line.starts_with("NR_IRQS: ")
        || line.starts_with("rcu: Hierarchical RCU implementation")
        || line.starts_with("rcu: Preemptible hierarchical RCU implementation")
        || MemoryLine::parse(line).is_some()
}

/// Whether `line` says that others were lost.
pub(super) fn says_lost(line: &str) -> bool {
    line.contains("printk messages dropped")
}

/// The page size that the line of the dentry hash gives away: its order and bytes.
pub(super) fn page_shift(line: &str) -> Option<u32> {
    let rest = line.strip_prefix("Dentry cache hash table entries: ")?;
    let (_, rest) = rest.split_once("(order: ")?;
    let (order, rest) = rest.split_once(", ")?;
    let (bytes, _) = rest.split_once(" bytes")?;
    let order: u32 = order.parse().ok().filter(|&it| it < 32)?;
    let bytes: u64 = bytes.parse().ok().filter(|it: &u64| it.is_power_of_two())?;
    // a table smaller than a page says nothing of the page
    let shift = bytes.trailing_zeros().checked_sub(order)?;
    (order > 0 && (10..=24).contains(&shift)).then_some(shift)
}
