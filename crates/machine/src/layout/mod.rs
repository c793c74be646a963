//! The memory of one machine, ready to be built.
//!
//! A [`MachineLayout`] is what all readers convert to: ranges of memory with node and flags,
//! ranges that firmware assigns to nodes whether or not memory is there, and what was reserved
//! when memory was handed to the buddy allocator. It says what each part was taken from, so that
//! a figure which was an input is never mistaken for a result.

mod build;
mod flags;
mod memory;
mod other;
mod provenance;
mod x86;

use std::collections::{BTreeMap, BTreeSet};

use memblock::{NodeId, PhysAddr, PhysRange};

use crate::bootlog::BootLog;
use crate::bootlog::memblock_lines::Call;
use crate::capture::Capture;
use crate::error::{LayoutError, NotModelled, ReadError};
use crate::figures::{Figure, FigureKind, PrintedFigures};
use crate::location::Problems;
use crate::release::{Architecture, KernelRelease};

pub use build::ProfileChoice;
pub(crate) use memory::RangeMap;
pub(crate) use other::NOMAP;
pub use provenance::{
    Contradiction, Disagreement, MemorySource, NodeSource, Note, PageSizeSource, Provenance,
    ReservedSource,
};

/// Nodes that a kernel can number: with the largest `NODES_SHIFT` that configurations allow, 10.
pub(crate) const MAX_NODES: u64 = 1 << 10;

/// A range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// Its bytes.
    pub range: PhysRange,
    /// Its node; `None` where nobody assigned one.
    pub node: Option<NodeId>,
    /// memblock's flag bits.
    pub flags: u32,
    /// The line that it was taken from; zero where the input has no lines.
    pub line: u64,
}

/// Addresses that belong to a node, whether or not memory is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRange {
    /// Its bytes.
    pub range: PhysRange,
    /// The node.
    pub node: NodeId,
    /// The line that it was taken from.
    pub line: u64,
}

/// Memory that is no memory at boot: persistent, or set aside for a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRange {
    /// Its bytes.
    pub range: PhysRange,
    /// Whether it is persistent; otherwise soft reserved.
    pub persistent: bool,
    /// The line that it was taken from.
    pub line: u64,
}

/// The memory of one machine and where every part of it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineLayout {
    /// Name of the input, for messages.
    pub file: String,
    /// Its architecture, where it is known.
    pub architecture: Option<Architecture>,
    /// Its kernel, where it is known.
    pub release: Option<KernelRelease>,
    /// What the boot loader handed over.
    pub command_line: Option<String>,
    /// What firmware calls the machine.
    pub machine: Option<String>,
    /// Page size in bytes.
    pub page_size: u64,
    /// Memory in ascending order, without overlaps.
    pub memory: Vec<MemoryRange>,
    /// What belongs to which node, in ascending order, without overlaps.
    pub node_ranges: Vec<NodeRange>,
    /// Nodes that are online and have no memory, ascending.
    pub memoryless: Vec<NodeId>,
    /// Nodes that are possible and not online, ascending; only the lines that say so tell them.
    pub offline: Vec<NodeId>,
    /// What was reserved at the moment that [`MachineLayout::calls`] begin.
    pub reserved: Vec<MemoryRange>,
    /// memblock's calls from then to the hand-over of memory.
    pub calls: Vec<Call>,
    /// Whether the calls reach the hand-over, as far as the input shows.
    pub handed_over: bool,
    /// Memory that was given back after the hand-over: line and KiB.
    pub freed: Vec<(u64, u64)>,
    /// What the running kernel still had reserved later: a log that lost lines does not tell of
    /// all of it.
    pub kept: Vec<MemoryRange>,
    /// What was taken out of the firmware's map when memblock had its copy: still memory with
    /// struct pages, and none to `/proc/iomem`.
    pub taken_out: Vec<PhysRange>,
    /// Persistent and soft-reserved ranges.
    pub devices: Vec<DeviceRange>,
    /// Sizes in bytes that persistent memory devices reported.
    pub capacities: Vec<u64>,
    /// Huge pages that were set aside at boot: bytes of one, and how many.
    pub huge_pages: Vec<(u64, u64)>,
    /// Areas that lines report to be the contiguous allocator's, without nodes.
    pub cma: Vec<MemoryRange>,
    /// The number of CPUs that the kernel was built for, where it is known.
    pub nr_cpus: Option<u64>,
    /// What the kernel printed of its own memory map.
    pub figures: PrintedFigures,
    /// What was taken from where.
    pub provenance: Provenance,
    /// Lines that should have been facts.
    pub problems: Problems,
}

/// A file that cannot become a layout.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What it says is not a machine.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

impl MachineLayout {
    /// A layout that says nothing yet.
    pub(crate) fn empty(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            architecture: None,
            release: None,
            command_line: None,
            machine: None,
            page_size: 4096,
            memory: Vec::new(),
            node_ranges: Vec::new(),
            memoryless: Vec::new(),
            offline: Vec::new(),
            reserved: Vec::new(),
            calls: Vec::new(),
            handed_over: false,
            freed: Vec::new(),
            kept: Vec::new(),
            taken_out: Vec::new(),
            devices: Vec::new(),
            capacities: Vec::new(),
            huge_pages: Vec::new(),
            cma: Vec::new(),
            nr_cpus: None,
            figures: PrintedFigures::default(),
            provenance: Provenance::default(),
            problems: Problems::default(),
        }
    }

    /// Reports where `memory`, taken from `source`, differs in what is memory; a source that
    /// names no nodes is not held against the nodes, and parts of pages do not count.
    pub(crate) fn compare_with(&mut self, source: MemorySource, memory: &[MemoryRange]) {
        let shift = self.page_size.trailing_zeros();
        let named = memory.iter().any(|memory| memory.node.is_some());
        // Neighbours are one before parts of pages are left out.
        let mut nodes: RangeMap<Option<NodeId>> = RangeMap::default();
        for memory in memory {
            nodes.set(memory.range, memory.node);
        }
        if !named {
            for own in &self.memory {
                nodes.change(own.range, |_| Some(own.node), None);
            }
        }
        let lines: BTreeMap<PhysAddr, u64> = memory
            .iter()
            .map(|memory| (memory.range.start(), memory.line))
            .collect();
        let line = |range: PhysRange| {
            let before = lines.range(..=range.start()).next_back();
            before.map_or(0, |(_, line)| *line)
        };
        let other: Vec<_> = nodes
            .into_ranges()
            .map(|(range, node)| MemoryRange {
                range: range.pfns_inner(shift).phys(shift),
                node,
                flags: 0,
                line: line(range),
            })
            .collect();
        other::contradict(self, source, &other);
    }

    /// Refuses memory that overlaps. Ranges are in order.
    pub(crate) fn check_overlaps(&self) -> Result<(), LayoutError> {
        match self
            .memory
            .windows(2)
            .find(|pair| pair[0].range.overlaps(pair[1].range))
        {
            Some(pair) => Err(other::overlapping(&self.file, &pair[0], &pair[1])),
            None => Ok(()),
        }
    }

    /// The machine whose boot log is in `path`.
    ///
    /// # Errors
    /// * [`MachineError::Read`] where the file cannot be read or is no boot log.
    /// * [`MachineError::Layout`] where the log does not say enough, or what is not modelled.
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self, MachineError> {
        Self::from_capture(Capture::open(path)?)
    }

    /// The machine that a capture speaks of: its log, and what its kernel kept of memblock.
    ///
    /// # Errors
    /// As [`MachineLayout::open`].
    pub fn from_capture(capture: Capture) -> Result<Self, MachineError> {
        let kept = capture
            .memblock
            .as_ref()
            .map(|(_, reserved)| reserved.regions().to_vec());
        let mut layout = Self::from_log(&capture.into_log()?)?;
        layout.kept = kept.unwrap_or_default();
        Ok(layout)
    }

    /// The machine that `log` speaks of.
    ///
    /// # Errors
    /// * [`LayoutError::NotModelled`] for 32-bit kernels, Xen PV domains, architectures without a
    ///   profile and kernels before 3.5.
    /// * [`LayoutError::FrontLost`] where the log does not say what memory there is.
    /// * [`LayoutError::OverlappingNodes`] where two nodes claim one address.
    /// * [`LayoutError::NoMemory`] where nothing usable is left.
    pub fn from_log(log: &BootLog) -> Result<Self, LayoutError> {
        refuse(log)?;
        let mut layout = Self::without_memory(log);
        let x86 = matches!(layout.architecture, Some(Architecture::Amd64))
            || layout.architecture.is_none() && !log.firmware.maps.is_empty();
        if x86 {
            x86::read(&mut layout, log)?;
        } else {
            other::read(&mut layout, log)?;
        }
        if layout.memory.iter().all(|memory| memory.range.is_empty()) {
            return Err(LayoutError::NoMemory {
                file: log.file.clone(),
            });
        }
        layout.find_memoryless(log);
        if let Some((first, last)) = layout.provenance.memory_lines {
            let inside = |problem: &&crate::Problem| (first..=last + 1).contains(&problem.at.line);
            layout.provenance.unreadable = log.problems.iter().filter(inside).count() as u64;
        }
        Ok(layout)
    }

    /// What `log` says beside the memory.
    pub(crate) fn without_memory(log: &BootLog) -> Self {
        let mut layout = Self {
            architecture: log.identity.architecture,
            release: log.identity.release.clone(),
            command_line: log.identity.command_line.clone(),
            machine: log.identity.machine.clone(),
            handed_over: log.memblock.takeover_heard,
            freed: log.hints.freed.clone(),
            capacities: log.hints.capacities.clone(),
            huge_pages: log.hints.huge_pages.clone(),
            cma: log.hints.cma(),
            nr_cpus: log.hints.nr_cpus.map(|(cpus, _)| cpus),
            figures: log.figures.clone(),
            problems: log.problems.clone(),
            ..Self::empty(&log.file)
        };
        layout.find_page_size(log);
        layout.provenance.missing = log.cut_off();
        layout.provenance.dropped = log.hints.dropped;
        if !log.other_boots.is_empty() {
            layout.provenance.notes.push(Note::OtherBoots {
                taken: log.boot_lines,
                others: log.other_boots.clone(),
            });
        }
        layout
    }

    /// KiB of the contiguous allocator, as far as lines report them.
    pub fn cma_kib(&self) -> u64 {
        let areas = self.cma.iter().map(|area| area.range.len() >> 10);
        areas.fold(0, u64::saturating_add)
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.iter().map(|memory| memory.range.len()).sum()
    }

    /// Nodes that have memory, ascending.
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<_> = self
            .memory
            .iter()
            .filter_map(|memory| memory.node)
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Gives memory the nodes of `claims`, later ones first; `source` is who says so.
    pub(crate) fn set_nodes(
        &mut self,
        claims: impl Iterator<Item = NodeRange>,
        source: NodeSource,
    ) {
        self.node_ranges = claims.collect();
        self.memory = with_nodes(&self.memory, &self.node_ranges);
        self.provenance.nodes = source;
    }

    /// Whether `figure` was an input of this layout, so that finding it again proves nothing.
    pub fn is_input(&self, figure: &Figure) -> bool {
        match figure.kind {
            FigureKind::EarlyRange { .. } => self.provenance.uses_early_ranges(),
            FigureKind::Initmem { node, range } => {
                self.provenance.uses_early_ranges()
                    || range.is_none() && self.provenance.memoryless_from_initmem
                    || self.offline.contains(&node)
            }
            _ => false,
        }
    }

    fn find_page_size(&mut self, log: &BootLog) {
        let sizes = self
            .architecture
            .map_or(&[4096][..], Architecture::page_sizes);
        let named = self.release.as_ref().and_then(|release| {
            [("64k", 65536), ("16k", 16384), ("4k", 4096)]
                .into_iter()
                .find(|(name, _)| release.text.ends_with(name))
        });
        let (size, source) = match (sizes, log.hints.page_size, named) {
            ([only], _, _) => (*only, PageSizeSource::Architecture),
            (_, Some((size, line)), _) => (size, PageSizeSource::HashTable(line)),
            (_, None, Some((_, size))) => (size, PageSizeSource::Release),
            ([usual, ..], None, None) => (*usual, PageSizeSource::Usual),
            ([], None, None) => (4096, PageSizeSource::Usual),
        };
        self.page_size = size;
        self.provenance.page_size = source;
    }

    /// Finds nodes that are online without memory, and those that are only possible.
    pub(crate) fn find_memoryless(&mut self, log: &BootLog) {
        let with_memory = self.nodes();
        // Nodes that are shown not to have memory; which of them are online is another matter.
        let shown: BTreeSet<NodeId> =
            log.figures
                .iter()
                .filter_map(|figure| match figure.kind {
                    FigureKind::Initmem { node, range: None }
                    | FigureKind::OfflineNode { node } => Some(node),
                    _ => None,
                })
                .collect();
        let numa = &log.numa;
        // Lines that say so beat the fallback order, which some releases print for every node that
        // is possible.
        let not_yet: BTreeSet<NodeId> = log
            .figures
            .iter()
            .filter_map(|figure| match figure.kind {
                FigureKind::OfflineNode { node } => Some(node),
                _ => None,
            })
            .collect();
        let fallback = &numa.fallback - &not_yet;
        let seated: BTreeSet<NodeId> = numa.cpu_nodes.union(&numa.node_data).copied().collect();
        let told = [&fallback, &seated].map(|nodes| {
            let all = nodes.iter().chain(&with_memory).copied();
            (!nodes.is_empty()).then(|| all.collect::<BTreeSet<_>>())
        });
        // The set that has as many nodes as the kernel counted later; else the first there is.
        let count = numa.online_count;
        let online = told
            .iter()
            .flatten()
            .find(|nodes| count == Some(nodes.len() as u64))
            .or_else(|| told.iter().flatten().next());
        self.provenance.memoryless_from_initmem = !shown.is_empty() && online.is_none();
        let online = online.unwrap_or(&shown);
        let memoryless = |node: &&NodeId| !with_memory.contains(node);
        self.memoryless = online.iter().filter(memoryless).copied().collect();
        let offline = |node: &&NodeId| !with_memory.contains(node) && !online.contains(node);
        self.offline = shown.iter().filter(offline).copied().collect();
    }
}

/// Refuses what is recognised and not modelled.
fn refuse(log: &BootLog) -> Result<(), LayoutError> {
    let identity = &log.identity;
    let refuse = |what, at: &crate::Location| {
        Err(LayoutError::NotModelled {
            file: log.file.clone(),
            what,
            at: at.clone(),
        })
    };
    if let (Some(arch), Some(at)) = (identity.architecture, &identity.architecture_at) {
        match arch {
            Architecture::X86 | Architecture::Arm | Architecture::Ppc => {
                return refuse(NotModelled::Bits32, at);
            }
            Architecture::Amd64
            | Architecture::Arm64
            | Architecture::Riscv64
            | Architecture::Ppc64
            | Architecture::S390x => {}
            other => return refuse(NotModelled::Architecture(other), at),
        }
    }
    if let Some(at) = &identity.narrow {
        return refuse(NotModelled::Bits32, at);
    }
    if let Some(at) = &identity.xen_pv {
        return refuse(NotModelled::XenPv, at);
    }
    if let Some(at) = &log.pfn_format {
        return refuse(NotModelled::PfnFormat, at);
    }
    Ok(())
}

/// `memory` split by the nodes that it belongs to.
fn with_nodes(memory: &[MemoryRange], node_ranges: &[NodeRange]) -> Vec<MemoryRange> {
    let mut map = RangeMap::default();
    // Without any word on nodes there is one.
    let default = node_ranges.is_empty().then_some(NodeId::new(0));
    for memory in memory {
        map.set(memory.range, (default, memory.flags, memory.line));
    }
    for claim in node_ranges {
        map.change(
            claim.range,
            |&(_, flags, line)| Some((Some(claim.node), flags, line)),
            None,
        );
    }
    map.into_ranges()
        .map(|(range, (node, flags, line))| MemoryRange {
            range,
            node,
            flags,
            line,
        })
        .collect()
}
