//! The machine that we run on.
//!
//! Memory comes from `/proc/iomem` where its addresses may be read, else from the blocks in
//! `/sys/devices/system/memory`, else from `/proc/zoneinfo`; nodes come from the blocks' links.
//! Everything is read below a root, so that a copy of another host's files does as well. The
//! layout's [`Provenance`] says which it was.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use memblock::{NodeId, PhysAddr, PhysRange};

use crate::bootlog::BootLog;
use crate::iomem::Iomem;
use crate::layout::{
    DeviceRange, MachineLayout, MemoryRange, MemorySource, NOMAP, NodeRange, NodeSource, Note,
    PageSizeSource, Provenance, RangeMap, ReservedSource,
};
use crate::release::{Architecture, KernelRelease};
use crate::sysfs::{MemoryBlocks, SysfsError};
use crate::text::scan::Scan;
use crate::zoneinfo::ZoneInfo;

/// A host that does not tell what memory it has.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// None of the three sources can be used.
    #[error(
        "{}: cannot tell this host's memory: proc/iomem {iomem}; sys/devices/system/memory: {sysfs}; \
         proc/zoneinfo: {zoneinfo}; give a boot log or a size instead",
        root.display()
    )]
    NothingReadable {
        /// Where files were looked for.
        root: PathBuf,
        /// Why `/proc/iomem` cannot be used.
        iomem: IomemRefusal,
        /// Why sysfs cannot be used.
        sysfs: Box<SysfsError>,
        /// Why `/proc/zoneinfo` cannot be used.
        zoneinfo: String,
    },
}

/// Why `/proc/iomem` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IomemRefusal {
    /// It cannot be opened.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// Its addresses are all zero.
    #[error("hides its addresses from this user")]
    Hidden,
    /// It has no memory.
    #[error("has no `System RAM`")]
    NoMemory,
}

/// This host.
///
/// # Errors
/// [`HostError::NothingReadable`] where neither of the three sources can be used.
pub fn read() -> Result<MachineLayout, HostError> {
    read_below(Path::new("/"))
}

/// The host whose `proc` and `sys` lie below `root`.
///
/// # Errors
/// As [`read`].
pub fn read_below(root: &Path) -> Result<MachineLayout, HostError> {
    let blocks = MemoryBlocks::read(root);
    let zones = ZoneInfo::open(root.join("proc/zoneinfo"));
    let mut layout = empty(root);
    let iomem = match from_iomem(&mut layout, &root.join("proc/iomem")) {
        Ok(()) => {
            match &blocks {
                Ok(blocks) => give_nodes(&mut layout, blocks, zones.as_ref().ok()),
                Err(_) => nodes_of_zones(&mut layout, zones.as_ref().ok()),
            }
            finish(&mut layout, root);
            return Ok(layout);
        }
        Err(refusal) => refusal,
    };
    let sysfs = match blocks {
        Ok(blocks) if !blocks.online.is_empty() => {
            from_blocks(&mut layout, &blocks, zones.as_ref().ok());
            finish(&mut layout, root);
            return Ok(layout);
        }
        Ok(_) => SysfsError::Content {
            file: root.join("sys/devices/system/memory"),
            text: "no block".to_owned(),
            expected: "at least one block that is online",
        },
        Err(error) => error,
    };
    let zoneinfo = match zones {
        Ok(zones) if zones.zones().iter().any(|zone| zone.present > 0) => {
            from_zones(&mut layout, &zones);
            finish(&mut layout, root);
            return Ok(layout);
        }
        Ok(_) => "has no zone with pages".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(HostError::NothingReadable {
        root: root.to_owned(),
        iomem,
        sysfs: Box::new(sysfs),
        zoneinfo,
    })
}

fn empty(root: &Path) -> MachineLayout {
    let text = |file: &str| {
        let mut bytes = Vec::new();
        let file = File::open(root.join(file)).ok()?;
        file.take(1 << 16).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    let release = text("proc/sys/kernel/osrelease");
    let release = release.and_then(|release| KernelRelease::parse(&release));
    let smaps = text("proc/self/smaps");
    let (page_size, source) = match smaps.as_deref().and_then(page_size) {
        Some(size) => (size, PageSizeSource::Host),
        None => (4096, PageSizeSource::Usual),
    };
    MachineLayout {
        architecture: Architecture::of_this_build(),
        release,
        command_line: text("proc/cmdline"),
        machine: text("sys/class/dmi/id/product_name").or_else(|| text("proc/device-tree/model")),
        page_size,
        provenance: Provenance {
            page_size: source,
            ..Provenance::default()
        },
        ..MachineLayout::empty(&root.display().to_string())
    }
}

/// `KernelPageSize:  4 kB` of a process's mappings.
fn page_size(smaps: &str) -> Option<u64> {
    let (_, rest) = smaps.split_once("KernelPageSize:")?;
    let kib = Scan(rest).dec()?;
    let size = kib.checked_mul(1024)?;
    size.is_power_of_two().then_some(size)
}

fn from_iomem(layout: &mut MachineLayout, file: &Path) -> Result<(), IomemRefusal> {
    let iomem = Iomem::open(file).map_err(|error| IomemRefusal::Unreadable(error.to_string()))?;
    if !iomem.is_readable() {
        return Err(IomemRefusal::Hidden);
    }
    fill_from_iomem(layout, &iomem)
}

/// Takes memory, reservations and device ranges from `iomem`.
pub(crate) fn fill_from_iomem(
    layout: &mut MachineLayout,
    iomem: &Iomem,
) -> Result<(), IomemRefusal> {
    // Other architectures show memory without a mapping outermost, as `reserved`; on x86 that
    // is what firmware reserved, and no memory.
    let nomap = !matches!(
        layout.architecture,
        Some(Architecture::Amd64 | Architecture::X86)
    );
    let mut memory: RangeMap<(u32, u64)> = RangeMap::default();
    let mut reserved: RangeMap<u64> = RangeMap::default();
    for resource in iomem.resources() {
        let (range, line) = (resource.range, resource.line);
        if resource.is_memory() {
            memory.set(range, (0, line));
        } else if resource.is_device_memory() && resource.depth == 0 {
            layout.devices.push(DeviceRange {
                range,
                persistent: resource.name.starts_with("Persistent"),
                line,
            });
        } else if resource.is_reserved() {
            if resource.depth == 0 && nomap {
                memory.set(range, (NOMAP, line));
            } else if resource.depth > 0 {
                reserved.set(range, line);
            }
        }
    }
    layout.memory = without_nodes(memory.into_ranges());
    if layout.memory.iter().all(|memory| memory.flags != 0) {
        layout.memory.clear();
        return Err(IomemRefusal::NoMemory);
    }
    layout.reserved = reserved
        .into_ranges()
        .map(|(range, line)| MemoryRange {
            range,
            node: None,
            flags: 0,
            line,
        })
        .collect();
    layout.problems = iomem.problems.clone();
    let provenance = &mut layout.provenance;
    provenance.memory = MemorySource::Iomem;
    provenance.memory_lines = layout
        .memory
        .first()
        .zip(layout.memory.last())
        .map(|(first, last)| (first.line, last.line));
    provenance.reserved = ReservedSource::Iomem;
    Ok(())
}

/// Which addresses belong to which node, by blocks; where two nodes share a block, by zones. A
/// block of no node is nobody's, unless there are no nodes at all.
fn block_nodes(blocks: &MemoryBlocks, zones: Option<&ZoneInfo>, shift: u32) -> RangeMap<NodeId> {
    let mut map = RangeMap::default();
    for (&number, nodes) in &blocks.online {
        let range = blocks.range(number);
        let mut nodes = nodes.iter();
        match nodes.next() {
            None if blocks.nodes.is_empty() => map.set(range, NodeId::new(0)),
            None => {}
            Some(&first) => {
                map.set(range, first);
                for &other in nodes {
                    give_spans(&mut map, zones, other, range, shift);
                }
            }
        }
    }
    map
}

/// Gives `node` what its zones span of `range`.
fn give_spans(
    map: &mut RangeMap<NodeId>,
    zones: Option<&ZoneInfo>,
    node: NodeId,
    range: PhysRange,
    shift: u32,
) {
    for span in spans(zones, node, shift) {
        if let Some(shared) = span.intersection(range) {
            map.set(shared, node);
        }
    }
}

/// Memory with its flags and lines, on nodes that are not known yet.
fn without_nodes(ranges: impl IntoIterator<Item = (PhysRange, (u32, u64))>) -> Vec<MemoryRange> {
    let memory = |(range, (flags, line))| MemoryRange {
        range,
        node: None,
        flags,
        line,
    };
    ranges.into_iter().map(memory).collect()
}

/// Leaves out memory in blocks that are offline: `/proc/iomem` goes on to show it, but the kernel
/// has no struct pages for it that are in use.
fn leave_out_offline(layout: &mut MachineLayout, blocks: &MemoryBlocks) {
    let mut memory: RangeMap<(u32, u64)> = RangeMap::default();
    for own in &layout.memory {
        memory.set(own.range, (own.flags, own.line));
    }
    let before = layout.memory_bytes();
    for &number in &blocks.offline {
        memory.change(blocks.range(number), |_| None, None);
    }
    let left: Vec<_> = memory.into_ranges().collect();
    let bytes: u64 = left.iter().map(|(range, _)| range.len()).sum();
    // With nothing left, the states are not to be believed.
    if bytes == before || left.is_empty() {
        return;
    }
    layout.memory = without_nodes(left);
    layout.provenance.notes.push(Note::Offline {
        bytes: before - bytes,
    });
}

/// Gives memory that no block claims to the node of its neighbours; between two nodes, what zones
/// of the upper one span is that one's.
fn give_to_neighbours(
    layout: &mut MachineLayout,
    claims: &mut RangeMap<NodeId>,
    zones: Option<&ZoneInfo>,
    shift: u32,
) {
    // As ranges that are nobody's: what is claimed is cut out of a map of memory.
    let mut unclaimed: RangeMap<()> = RangeMap::default();
    for memory in &layout.memory {
        unclaimed.set(memory.range, ());
    }
    let claimed: Vec<(PhysRange, NodeId)> =
        claims.iter().map(|(range, node)| (range, *node)).collect();
    if claimed.is_empty() {
        return;
    }
    for &(range, _) in &claimed {
        unclaimed.change(range, |()| None, None);
    }
    let (mut bytes, mut first) = (0, None);
    for (range, ()) in unclaimed.into_ranges() {
        let at = claimed.partition_point(|(claim, _)| claim.start() < range.start());
        let below = at.checked_sub(1).map(|below| claimed[below].1);
        let above = claimed.get(at).map(|&(_, node)| node);
        let Some(node) = below.or(above) else {
            continue;
        };
        claims.set(range, node);
        if let Some(above) = above.filter(|&above| above != node) {
            give_spans(claims, zones, above, range, shift);
        }
        bytes += range.len();
        first = first.or(Some(range));
    }
    if let Some(first) = first {
        layout.provenance.notes.push(Note::NoBlock { bytes, first });
    }
}

/// What zones of `node` span.
fn spans(zones: Option<&ZoneInfo>, node: NodeId, shift: u32) -> impl Iterator<Item = PhysRange> {
    let zones = zones.map_or(&[][..], ZoneInfo::zones);
    zones.iter().filter_map(move |zone| {
        let start = zone.start_pfn?;
        let used = zone.node == node && zone.present > 0;
        used.then(|| {
            let end = start.saturating_add(zone.spanned);
            PhysRange::new(start.phys(shift), end.phys(shift))
        })
    })
}

pub(crate) fn give_nodes(
    layout: &mut MachineLayout,
    blocks: &MemoryBlocks,
    zones: Option<&ZoneInfo>,
) {
    let shift = layout.page_size.trailing_zeros();
    let odd = blocks.oddities.iter().cloned().map(Note::Sysfs);
    layout.provenance.notes.extend(odd);
    // Of other sources' memory it is not known whether it was so then.
    if layout.provenance.memory == MemorySource::Iomem {
        leave_out_offline(layout, blocks);
    }
    let mut claims = block_nodes(blocks, zones, shift);
    give_to_neighbours(layout, &mut claims, zones, shift);
    layout.set_nodes(
        claims.iter().map(|(range, node)| NodeRange {
            range,
            node: *node,
            line: 0,
        }),
        NodeSource::Sysfs,
    );
    let with_memory = layout.nodes();
    let memoryless = |node: &&NodeId| !with_memory.contains(node);
    layout.memoryless = blocks.nodes.iter().filter(memoryless).copied().collect();
}

pub(crate) fn nodes_of_zones(layout: &mut MachineLayout, zones: Option<&ZoneInfo>) {
    let shift = layout.page_size.trailing_zeros();
    let mut claims: RangeMap<NodeId> = RangeMap::default();
    for zone in zones.map_or(&[][..], ZoneInfo::zones) {
        for span in spans(zones, zone.node, shift) {
            claims.set(span, zone.node);
        }
    }
    let source = if claims.iter().next().is_none() {
        claims.set(
            PhysRange::new(PhysAddr::ZERO, PhysAddr::MAX),
            NodeId::new(0),
        );
        NodeSource::None
    } else {
        NodeSource::Zoneinfo
    };
    layout.set_nodes(
        claims.iter().map(|(range, node)| NodeRange {
            range,
            node: *node,
            line: 0,
        }),
        source,
    );
}

pub(crate) fn from_blocks(
    layout: &mut MachineLayout,
    blocks: &MemoryBlocks,
    zones: Option<&ZoneInfo>,
) {
    let mut memory: RangeMap<()> = RangeMap::default();
    for &number in blocks.online.keys() {
        memory.set(blocks.range(number), ());
    }
    layout.memory = memory
        .into_ranges()
        .map(|(range, ())| MemoryRange {
            range,
            node: None,
            flags: 0,
            line: 0,
        })
        .collect();
    layout.provenance.memory = MemorySource::Sysfs;
    give_nodes(layout, blocks, zones);
}

/// Each zone as one range from its first frame, as long as its present pages: where its holes
/// are is not shown.
pub(crate) fn from_zones(layout: &mut MachineLayout, zones: &ZoneInfo) {
    let shift = layout.page_size.trailing_zeros();
    let mut memory: RangeMap<(NodeId, u64)> = RangeMap::default();
    for zone in zones.zones() {
        if let (Some(start), true) = (zone.start_pfn, zone.present > 0) {
            let end = start.saturating_add(zone.present);
            let range = PhysRange::new(start.phys(shift), end.phys(shift));
            memory.set(range, (zone.node, zone.line));
        }
    }
    layout.memory = memory
        .into_ranges()
        .map(|(range, (node, line))| MemoryRange {
            range,
            node: Some(node),
            flags: 0,
            line,
        })
        .collect();
    layout.provenance.memory = MemorySource::Zoneinfo;
    layout.provenance.nodes = NodeSource::Zoneinfo;
}

/// Adds what the kernel's own boot log shows, where it may be read.
fn finish(layout: &mut MachineLayout, root: &Path) {
    let log = kernel_log(root);
    let Some(log) = log else {
        return;
    };
    if let Some((cpus, _)) = log.hints.nr_cpus {
        layout.nr_cpus = Some(cpus);
    }
    // What was printed at boot is of all memory.
    let offline = |note: &Note| matches!(note, Note::Offline { .. });
    if !layout.provenance.notes.iter().any(offline) {
        layout.figures = log.figures;
    }
}

/// The kernel's own boot log: its ring buffer, or the file that was kept of it.
fn kernel_log(root: &Path) -> Option<BootLog> {
    if root == Path::new("/")
        && let Some(text) = ring_buffer(&root.join("dev/kmsg"))
        && let Ok(log) = BootLog::read("/dev/kmsg", &text[..])
    {
        return Some(log);
    }
    ["var/log/dmesg", "var/log/dmesg.0", "var/log/kern.log"]
        .iter()
        .find_map(|file| {
            let file = File::open(root.join(file)).ok()?;
            // A log of kernel messages may go back months; the boot is near one of its ends.
            let input = BufReader::new(file.take(16 << 20));
            BootLog::read("kernel log", input).ok()
        })
}

/// Reads `/dev/kmsg` to its end without waiting for more.
fn ring_buffer(file: &Path) -> Option<Vec<u8>> {
    use std::os::unix::fs::OpenOptionsExt;
    /// `O_NONBLOCK`, the same on every architecture that we run on.
    const NONBLOCK: i32 = 0o4000;
    // A regular file in its place would be read byte by byte as if it were the device.
    if !fs::metadata(file).is_ok_and(|meta| !meta.is_file()) {
        return None;
    }
    let mut device = OpenOptions::new()
        .read(true)
        .custom_flags(NONBLOCK)
        .open(file)
        .ok()?;
    let mut text = Vec::new();
    let mut record = vec![0; 16 << 10];
    // One record a read; the largest buffers hold some hundred thousand.
    for _ in 0..1_000_000 {
        match device.read(&mut record) {
            Ok(0) => break,
            Ok(length) => {
                text.extend_from_slice(&record[..length]);
                if record[length - 1] != b'\n' {
                    text.push(b'\n');
                }
                if text.len() > 64 << 20 {
                    break;
                }
            }
            // Overwritten since: the next read goes on behind it.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    Some(text)
}
