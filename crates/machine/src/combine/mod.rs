//! Files from one machine, combined into one layout.
//!
//! A boot log counts: it shows the machine as the kernel found it. What it leaves open is filled
//! from the others, and what they say otherwise is reported with both lines. Where the log does not
//! tell the memory, or there is none, the best of the others does: memblock's arrays, then
//! `/proc/iomem`, the blocks of sysfs, `/proc/zoneinfo`. What a file is is told by its name, else by
//! its content.

mod compare;
mod kind;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::capture::Capture;
use crate::debugfs::MemblockArray;
use crate::error::{LayoutError, ReadError};
use crate::host::{self, HostError};
use crate::iomem::Iomem;
use crate::layout::{
    MachineError, MachineLayout, MemoryRange, MemorySource, NodeSource, ReservedSource,
};
use crate::meminfo::Meminfo;
use crate::sysfs::MemoryBlocks;
use crate::toml::TomlError;
use crate::zoneinfo::ZoneInfo;

use compare::{compare_blocks, compare_total, compare_zones};
use kind::Kind;

/// Files that do not make a machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CombineError {
    /// The folder has no file of a known name.
    #[error(
        "{}: none of dmesg, dmesg.txt, iomem, zoneinfo, memblock.memory, layout.toml, proc and sys is \
         in it; put the output of `dmesg` there as dmesg.txt", folder.display()
    )]
    Nothing {
        /// The folder.
        folder: PathBuf,
    },
    /// No file of those given says what memory there is.
    #[error(
        "none of {}: tells what memory there is; give a boot log, /proc/iomem (read as root) or \
         /proc/zoneinfo as well",
        list(files)
    )]
    NoMemory {
        /// The files.
        files: Vec<PathBuf>,
    },
    /// Two files are of one kind.
    #[error("{} and {} are both {kind}; give one", first.display(), second.display())]
    Twice {
        /// What they are.
        kind: &'static str,
        /// The one.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A file cannot be read, or its log is no machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A layout file is not of the form.
    #[error(transparent)]
    Toml(#[from] TomlError),
    /// The files of `proc` and `sys` do not tell the memory.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl From<ReadError> for CombineError {
    fn from(error: ReadError) -> Self {
        Self::Machine(error.into())
    }
}

fn list(files: &[PathBuf]) -> String {
    let names: Vec<_> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    names.join(", ")
}

/// Bytes of a file that are looked at to tell what it is.
const HEAD: u64 = 4096;

/// A layout file larger than this was not written by hand or by us.
const MAX_TOML: u64 = 64 << 20;

/// What the files say, each on its own.
#[derive(Default)]
struct Parts {
    files: Vec<(Kind, PathBuf)>,
    log: Option<Capture>,
    iomem: Option<Iomem>,
    zones: Option<ZoneInfo>,
    meminfo: Option<Meminfo>,
    memory: Option<MemblockArray>,
    reserved: Option<MemblockArray>,
    blocks: Option<MemoryBlocks>,
    toml: Option<MachineLayout>,
}

impl MachineLayout {
    /// The machine that `files` speak of: a boot log, copies of `/proc/iomem`, `/proc/zoneinfo`,
    /// `/proc/meminfo` and memblock's arrays, a layout file; one of a kind, in any order.
    ///
    /// # Errors
    /// * [`CombineError::Machine`] where a file cannot be read or the log is of a machine that is
    ///   not modelled.
    /// * [`CombineError::Toml`] where a layout file is not of the form.
    /// * [`CombineError::Twice`] where two files are of one kind.
    /// * [`CombineError::NoMemory`] where none of them tells the memory.
    pub fn from_files(files: &[impl AsRef<Path>]) -> Result<Self, CombineError> {
        let mut parts = Parts::default();
        for file in files {
            parts.read(file.as_ref())?;
        }
        parts.combine()
    }

    /// The machine whose files lie in `folder`: those that [`MachineLayout::from_files`] knows,
    /// under their usual names, and copies of `proc` and `sys`.
    ///
    /// # Errors
    /// * [`CombineError::Nothing`] where no file of a known name is there.
    /// * [`CombineError::Host`] where there are only `proc` and `sys`, and they do not tell the
    ///   memory.
    /// * As [`MachineLayout::from_files`].
    pub fn from_dir(folder: impl AsRef<Path>) -> Result<Self, CombineError> {
        const NAMES: [&[&str]; 7] = [
            &[
                "dmesg",
                "dmesg.txt",
                "dmesg.log",
                "kern.log",
                "var/log/dmesg",
                "sos_commands/kernel/dmesg",
            ],
            &["iomem", "iomem.txt", "proc/iomem"],
            &["zoneinfo", "zoneinfo.txt", "proc/zoneinfo"],
            &["meminfo", "meminfo.txt", "proc/meminfo"],
            &[
                "memblock/memory",
                "memblock.memory",
                "sys/kernel/debug/memblock/memory",
            ],
            &[
                "memblock/reserved",
                "memblock.reserved",
                "sys/kernel/debug/memblock/reserved",
            ],
            &["layout.toml"],
        ];
        let folder = folder.as_ref();
        let mut parts = Parts::default();
        for names in NAMES {
            let paths = names.iter().map(|name| folder.join(name));
            if let Some(file) = paths.into_iter().find(|path| path.is_file()) {
                parts.read(&file)?;
            }
        }
        let tree = ["proc", "sys"]
            .iter()
            .any(|name| folder.join(name).is_dir());
        if parts.log.is_none() && parts.toml.is_none() && tree {
            let mut layout = host::read_below(folder)?;
            parts.compare(&mut layout);
            return Ok(layout);
        }
        // A folder without blocks has none to compare.
        parts.blocks = MemoryBlocks::read(folder).ok();
        if parts.files.is_empty() {
            return Err(CombineError::Nothing {
                folder: folder.to_owned(),
            });
        }
        parts.combine()
    }
}

impl Parts {
    /// Reads `file` as what it is.
    fn read(&mut self, file: &Path) -> Result<(), CombineError> {
        let io = |source| ReadError::Io {
            file: file.to_owned(),
            source,
        };
        let kind = match Kind::by_name(file) {
            Some(kind) => kind,
            None => {
                let mut head = Vec::new();
                let opened = std::fs::File::open(file).map_err(io)?;
                opened.take(HEAD).read_to_end(&mut head).map_err(io)?;
                Kind::by_content(&String::from_utf8_lossy(&head))
            }
        };
        if let Some((_, first)) = self.files.iter().find(|(known, _)| *known == kind)
            && kind != Kind::Other
        {
            return Err(CombineError::Twice {
                kind: kind.name(),
                first: first.clone(),
                second: file.to_owned(),
            });
        }
        self.files.push((kind, file.to_owned()));
        match kind {
            Kind::Log => self.log = Some(Capture::open(file)?),
            Kind::Iomem => self.iomem = Some(Iomem::open(file)?),
            Kind::Zoneinfo => self.zones = Some(ZoneInfo::open(file)?),
            Kind::Meminfo => self.meminfo = Some(Meminfo::open(file)?),
            Kind::Memory => self.memory = Some(MemblockArray::open(file)?),
            Kind::Reserved => self.reserved = Some(MemblockArray::open(file)?),
            Kind::Toml => {
                let mut text = String::new();
                let opened = std::fs::File::open(file).map_err(io)?;
                opened
                    .take(MAX_TOML)
                    .read_to_string(&mut text)
                    .map_err(io)?;
                let name = file.display().to_string();
                self.toml = Some(MachineLayout::from_toml(&name, &text)?);
            }
            Kind::Other => {}
        }
        Ok(())
    }

    /// One layout of all of it.
    fn combine(mut self) -> Result<MachineLayout, CombineError> {
        let capture = self.log.take();
        let kept = capture
            .as_ref()
            .and_then(|capture| capture.memblock.clone());
        if let Some((memory, reserved)) = kept {
            self.memory.get_or_insert(memory);
            self.reserved.get_or_insert(reserved);
        }
        if let Some(zones) = capture
            .as_ref()
            .and_then(|capture| capture.zoneinfo.clone())
        {
            self.zones.get_or_insert(zones);
        }
        let log = capture.map(Capture::into_log).transpose()?;
        let mut layout = match (&log, self.toml.take()) {
            (_, Some(toml)) => toml,
            (Some(log), None) => match MachineLayout::from_log(log) {
                Ok(layout) => layout,
                Err(error @ LayoutError::FrontLost { .. }) => {
                    // The others may tell what the log lost; its figures are still checked.
                    let mut layout = MachineLayout::without_memory(log);
                    if !self.fill(&mut layout) {
                        return Err(CombineError::Machine(error.into()));
                    }
                    layout.find_memoryless(log);
                    layout
                }
                Err(error) => return Err(CombineError::Machine(error.into())),
            },
            (None, None) => {
                let name = list(
                    &self
                        .files
                        .iter()
                        .map(|(_, file)| file.clone())
                        .collect::<Vec<_>>(),
                );
                let mut layout = MachineLayout::empty(&name);
                if !self.fill(&mut layout) {
                    let files = self.files.into_iter().map(|(_, file)| file).collect();
                    return Err(CombineError::NoMemory { files });
                }
                layout
            }
        };
        self.give_nodes(&mut layout);
        self.give_reservations(&mut layout);
        self.compare(&mut layout);
        Ok(layout)
    }

    /// Takes memory from the best source beside the log; `false` where none tells any.
    fn fill(&self, layout: &mut MachineLayout) -> bool {
        if let Some(memory) = self
            .memory
            .as_ref()
            .filter(|array| !array.regions().is_empty())
        {
            layout.memory = memory.regions().to_vec();
            layout.memory.sort_by_key(|memory| memory.range.start());
            layout.provenance.memory = MemorySource::Debugfs;
            layout.provenance.nodes = match layout.memory.iter().any(|memory| memory.node.is_some())
            {
                true => NodeSource::Debugfs,
                false => NodeSource::None,
            };
            return layout.check_overlaps().is_ok();
        }
        if let Some(iomem) = self.iomem.as_ref().filter(|iomem| iomem.is_readable())
            && host::fill_from_iomem(layout, iomem).is_ok()
        {
            return true;
        }
        if let Some(blocks) = self
            .blocks
            .as_ref()
            .filter(|blocks| !blocks.online.is_empty())
        {
            host::from_blocks(layout, blocks, self.zones.as_ref());
            return true;
        }
        let zones = self.zones.as_ref();
        if let Some(zones) = zones.filter(|z| z.zones().iter().any(|zone| zone.present > 0)) {
            host::from_zones(layout, zones);
            return !layout.memory.is_empty();
        }
        false
    }

    /// Gives memory nodes where nothing did so far.
    fn give_nodes(&self, layout: &mut MachineLayout) {
        let asked = [NodeSource::None, NodeSource::Single].contains(&layout.provenance.nodes);
        let known = layout
            .memory
            .iter()
            .any(|memory| memory.node.is_some_and(|node| node.get() > 0));
        let from_log = layout.provenance.memory == MemorySource::FirmwareMap;
        if !asked || known || from_log {
            // A firmware map without an affinity table is one node: the log tells that.
            return;
        }
        match &self.blocks {
            Some(blocks) => host::give_nodes(layout, blocks, self.zones.as_ref()),
            None => host::nodes_of_zones(layout, self.zones.as_ref()),
        }
    }

    /// What the running kernel still had reserved: all that is known where there is no log.
    fn give_reservations(&self, layout: &mut MachineLayout) {
        let Some(reserved) = &self.reserved else {
            return;
        };
        if layout.provenance.reserved == ReservedSource::None {
            layout.reserved = reserved.regions().to_vec();
            layout.provenance.reserved = ReservedSource::Debugfs;
        } else {
            layout.kept = reserved.regions().to_vec();
        }
    }

    /// Lays every source that was not taken beside what was.
    fn compare(&self, layout: &mut MachineLayout) {
        let taken = layout.provenance.memory;
        if let Some(memory) = self
            .memory
            .as_ref()
            .filter(|_| taken != MemorySource::Debugfs)
        {
            layout.compare_with(MemorySource::Debugfs, memory.regions());
        }
        if let Some(iomem) = self.iomem.as_ref().filter(|_| taken != MemorySource::Iomem)
            && iomem.is_readable()
        {
            let mut other = MachineLayout::empty(&layout.file);
            other.architecture = layout.architecture;
            // Without memory in it there is nothing to compare.
            if host::fill_from_iomem(&mut other, iomem).is_ok() {
                let memory = layout.memory.iter();
                let later = layout.taken_out.iter().flat_map(|&range| {
                    let parts = memory.clone();
                    parts.filter_map(move |own| {
                        let range = own.range.intersection(range)?;
                        Some(MemoryRange {
                            range,
                            node: None,
                            ..*own
                        })
                    })
                });
                other.memory.extend(later);
                layout.compare_with(MemorySource::Iomem, &other.memory);
            }
        }
        if let Some(blocks) = self
            .blocks
            .as_ref()
            .filter(|_| taken != MemorySource::Sysfs)
        {
            compare_blocks(layout, blocks);
        }
        if let Some(zones) = self
            .zones
            .as_ref()
            .filter(|_| taken != MemorySource::Zoneinfo)
        {
            compare_zones(layout, zones);
        }
        if let Some((kib, at)) = self
            .meminfo
            .as_ref()
            .and_then(|info| info.total_kib.as_ref())
        {
            compare_total(layout, *kib, at.line);
        }
    }
}
