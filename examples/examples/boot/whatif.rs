//! What would change on the same machine with another kernel, page size or command line.

use std::collections::BTreeSet;
use std::str::FromStr;

use examples::machines::{NotModelled, modelled};
use machine::check::{self, BuildError};
use machine::size::{ByteSize, SizeError};
use machine::{KernelRelease, PageSizeSource};
use memblock::NodeId;
use memmap_core::{BootOptions, Field, FlagsLayout, Geometry, OptionError, ZoneKind};

use super::{Boot, memmap_bytes};

/// One change to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Another release.
    Kernel(KernelRelease),
    /// Another page size, bytes.
    Page(u64),
    /// A word more on the command line.
    Option(String),
}

/// A change that is none, or not for this machine.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChangeError {
    #[error(
        "`{0}` is no change; try kernel=7.3, page=64K, movablecore=50%, kernelcore=4G or movable_node"
    )]
    Unknown(String),
    #[error("`{0}` is no release; a release is written like 6.12 or 7.3")]
    Release(String),
    #[error(transparent)]
    NotModelled(#[from] NotModelled),
    #[error(transparent)]
    Size(#[from] SizeError),
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error("{arch} kernels have pages of {}, not of {size}", list(.sizes))]
    PageSize {
        arch: &'static str,
        size: ByteSize,
        sizes: &'static [u64],
    },
    #[error("with {name} there is no memory map: {error}")]
    Build { name: String, error: BuildError },
}

fn list(sizes: &[u64]) -> String {
    let names: Vec<_> = sizes
        .iter()
        .map(|&size| ByteSize(size).to_string())
        .collect();
    names.join(" or ")
}

impl FromStr for Change {
    type Err = ChangeError;

    fn from_str(text: &str) -> Result<Self, ChangeError> {
        if text == "movable_node" {
            return Ok(Self::Option(text.to_owned()));
        }
        match text.split_once('=') {
            Some(("kernel", release)) => {
                let release = KernelRelease::parse(release)
                    .ok_or_else(|| ChangeError::Release(release.to_owned()))?;
                let version = release.version();
                Ok(Self::Kernel(modelled(release, version)?))
            }
            Some(("page", size)) => Ok(Self::Page(size.parse::<ByteSize>()?.0)),
            Some(("movablecore" | "kernelcore", _)) => {
                BootOptions::from_command_line(text)?;
                Ok(Self::Option(text.to_owned()))
            }
            _ => Err(ChangeError::Unknown(text.to_owned())),
        }
    }
}

/// A change and what comes of it.
pub(super) struct Changed {
    /// The change, as it was asked for.
    pub(super) name: String,
    /// What is different, in words.
    pub(super) lines: Vec<String>,
}

impl Change {
    /// What comes of it on the machine of `boot`.
    pub(super) fn apply(&self, boot: &Boot) -> Result<Changed, ChangeError> {
        let mut layout = boot.layout.clone();
        let name = match self {
            Self::Kernel(release) => {
                layout.release = Some(release.clone());
                format!("kernel={release}")
            }
            Self::Page(size) => {
                let arch = layout.architecture.unwrap_or(machine::Architecture::Amd64);
                if !arch.page_sizes().contains(size) {
                    return Err(ChangeError::PageSize {
                        arch: arch.name(),
                        size: ByteSize(*size),
                        sizes: arch.page_sizes(),
                    });
                }
                layout.page_size = *size;
                layout.provenance.page_size = PageSizeSource::Given;
                format!("page={}", ByteSize(*size))
            }
            Self::Option(option) => {
                let line = layout.command_line.take().unwrap_or_default();
                layout.command_line = Some(format!("{line} {option}"));
                option.clone()
            }
        };
        // What was inferred stays, unless it is what is changed.
        let profile = match self {
            Self::Option(_) => boot.report.profile.clone(),
            _ => layout.profile(),
        };
        let (_, geometry) =
            check::build(&layout, &profile).map_err(|error| ChangeError::Build {
                name: name.clone(),
                error,
            })?;
        Ok(Changed {
            name,
            lines: differences(&boot.geometry, &geometry),
        })
    }
}

/// What is different between two maps.
fn differences(before: &Geometry, after: &Geometry) -> Vec<String> {
    let mut out = Vec::new();
    let mut say = |what: &str, before: String, after: String| {
        if before != after {
            out.push(format!("{what}: {before} → {after}"));
        }
    };
    let size = |geometry: &Geometry| ByteSize(memmap_bytes(geometry)).to_string();
    say("memory map", size(before), size(after));
    let (old, new) = (before.profile(), after.profile());
    let bytes = |bytes: u64| ByteSize(bytes).to_string();
    say("page size", bytes(old.page_size()), bytes(new.page_size()));
    let section = |g: &Geometry| bytes(1 << g.profile().section_bits);
    say("section size", section(before), section(after));
    let sections = |g: &Geometry| g.sections().count().to_string();
    say("sections", sections(before), sections(after));
    let block = |g: &Geometry| bytes(g.profile().pageblock_pages() << g.profile().page_shift);
    say("pageblock", block(before), block(after));
    let holes = |g: &Geometry| {
        let pages: u64 = g.holes().iter().map(|hole| hole.pages).sum();
        format!("{pages} pages in {} holes", g.holes().len())
    };
    say("unavailable", holes(before), holes(after));
    let nodes: BTreeSet<NodeId> = before
        .nodes()
        .iter()
        .chain(after.nodes())
        .map(|node| node.id)
        .collect();
    for node in nodes {
        for kind in ZoneKind::ALL {
            let zone = |geometry: &Geometry| {
                let zones = &geometry.node(node)?.zones;
                let zone = zones
                    .iter()
                    .find(|zone| zone.kind == kind && zone.is_populated())?;
                Some(format!(
                    "start {:#x}, spanned {}, present {}",
                    zone.start.get(),
                    zone.spanned,
                    zone.present
                ))
            };
            let word = |geometry| zone(geometry).unwrap_or_else(|| "none".to_owned());
            say(
                &format!("node {node}, zone {kind}"),
                word(before),
                word(after),
            );
        }
        let late = |geometry: &Geometry| {
            let pfn = geometry.first_deferred(node);
            pfn.map_or("nothing".to_owned(), |pfn| {
                format!("from pfn {:#x}", pfn.get())
            })
        };
        say(
            &format!("node {node}, written late"),
            late(before),
            late(after),
        );
    }
    for (name, field) in [
        ("node", FlagsLayout::node as fn(&FlagsLayout) -> Field),
        ("zone", FlagsLayout::zone),
        ("section", FlagsLayout::section),
        ("last CPU", FlagsLayout::last_cpupid),
    ] {
        let place = |geometry: &Geometry| {
            let field = field(geometry.flags_layout());
            match field.width {
                0 => "nowhere".to_owned(),
                width => format!("bits {} to {}", field.shift, field.shift + width - 1),
            }
        };
        say(&format!("flags word, {name}"), place(before), place(after));
    }
    out
}
