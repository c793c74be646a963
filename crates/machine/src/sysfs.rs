//! `/sys/devices/system/{memory,node}`: blocks of memory and the nodes that they belong to.
//!
//! The kernel shows memory in blocks of one size; a block is online as a whole, and may hold
//! holes that are not shown. Linux: `drivers/base/memory.c`, `drivers/base/node.c`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use memblock::{NodeId, PhysAddr, PhysRange};

use crate::layout::MAX_NODES;

/// Sysfs cannot be read as blocks of memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SysfsError {
    /// A file or folder cannot be read.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: `{text}` is not {expected}", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What it holds.
        text: String,
        /// What it should hold.
        expected: &'static str,
    },
}

/// Blocks of memory and nodes of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryBlocks {
    /// Size of a block in bytes.
    pub block_size: u64,
    /// Blocks that are online, by number: the nodes that have memory in them, ascending. A block
    /// that two nodes share has two.
    pub online: BTreeMap<u64, BTreeSet<NodeId>>,
    /// Blocks that are offline, by number: the kernel keeps no pages in them.
    pub offline: BTreeSet<u64>,
    /// Nodes that are online, with or without memory.
    pub nodes: BTreeSet<NodeId>,
    /// Entries that could not be read or are of no use, and what was done about each.
    pub oddities: Vec<Oddity>,
}

/// An entry of sysfs that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oddity {
    /// The entry.
    pub file: PathBuf,
    /// What is wrong with it, and what was done about it.
    pub what: String,
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.what)
    }
}

impl MemoryBlocks {
    /// Most blocks that are looked at: 2^20 of 128 MiB are 128 TiB.
    const MAX: usize = 1 << 20;

    /// Most oddities that are kept.
    const MAX_ODDITIES: usize = 100;

    /// Reads `sys/devices/system` below `root`.
    ///
    /// # Errors
    /// * [`SysfsError::Io`] where the kernel shows no blocks, or they cannot be read.
    /// * [`SysfsError::Content`] where the size of a block is no number.
    pub fn read(root: &Path) -> Result<Self, SysfsError> {
        let memory = root.join("sys/devices/system/memory");
        let size_file = memory.join("block_size_bytes");
        let text = read(&size_file)?;
        let block_size = u64::from_str_radix(text.trim().trim_start_matches("0x"), 16)
            .ok()
            .filter(|size| size.is_power_of_two())
            .ok_or_else(|| SysfsError::Content {
                file: size_file,
                text: text.trim().chars().take(40).collect(),
                expected: "a size in hexadecimal, a power of two",
            })?;
        let mut blocks = Self {
            block_size,
            ..Self::default()
        };
        for (number, folder) in numbered(&memory, "memory")? {
            let state = read(&folder.join("state")).unwrap_or_else(|error| {
                blocks.odd(&folder, format!("taken to be online ({})", reason(&error)));
                String::new()
            });
            // Blocks on the way out are still memory.
            if state.trim() == "offline" {
                blocks.offline.insert(number);
            } else {
                blocks.online.insert(number, BTreeSet::new());
            }
        }
        let node_folder = root.join("sys/devices/system/node");
        // A kernel without NUMA has no such folder: everything is node 0's.
        let nodes = numbered(&node_folder, "node").unwrap_or_else(|error| {
            if !error.is_absent() {
                blocks.odd(&node_folder, format!("left out ({})", reason(&error)));
            }
            Vec::new()
        });
        for (number, folder) in nodes {
            let Some(node) = node(number) else {
                let most = MAX_NODES - 1;
                let what = format!("left out (a kernel numbers nodes up to {most})");
                blocks.odd(&folder, what);
                continue;
            };
            match numbered(&folder, "memory") {
                Ok(links) => {
                    blocks.nodes.insert(node);
                    for (block, _) in links {
                        if let Some(nodes) = blocks.online.get_mut(&block) {
                            nodes.insert(node);
                        }
                    }
                }
                Err(error) => blocks.odd(&folder, format!("left out ({})", reason(&error))),
            }
        }
        Ok(blocks)
    }

    fn odd(&mut self, file: &Path, what: String) {
        if self.oddities.len() < Self::MAX_ODDITIES {
            self.oddities.push(Oddity {
                file: file.to_owned(),
                what,
            });
        }
    }

    /// Block `number` as addresses.
    pub fn range(&self, number: u64) -> PhysRange {
        let start = PhysAddr::new(number.saturating_mul(self.block_size));
        PhysRange::from_size(start, self.block_size)
    }
}

impl SysfsError {
    /// Whether the file or folder is not there.
    fn is_absent(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Why an entry cannot be read, without its name.
fn reason(error: &SysfsError) -> String {
    match error {
        SysfsError::Io { source, .. } => source.to_string(),
        other @ SysfsError::Content { .. } => other.to_string(),
    }
}

/// The node `number`, where a kernel can number it so.
fn node(number: u64) -> Option<NodeId> {
    let number = Some(number).filter(|&number| number < MAX_NODES)?;
    u16::try_from(number).ok().map(NodeId::new)
}

fn read(file: &Path) -> Result<String, SysfsError> {
    fs::read(file)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|source| SysfsError::Io {
            file: file.to_owned(),
            source,
        })
}

/// Entries of `folder` that are `name` and a number, ascending.
fn numbered(folder: &Path, name: &str) -> Result<Vec<(u64, PathBuf)>, SysfsError> {
    let entries = fs::read_dir(folder).map_err(|source| SysfsError::Io {
        file: folder.to_owned(),
        source,
    })?;
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let file = entry.file_name();
            let number = file.to_str()?.strip_prefix(name)?.parse().ok()?;
            Some((number, entry.path()))
        })
        .take(MemoryBlocks::MAX)
        .collect();
    found.sort();
    Ok(found)
}
