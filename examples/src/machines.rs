//! From what a user names to a memory map's geometry.

use std::ops::RangeInclusive;
use std::path::Path;

use machine::size::ByteSize;
use machine::synthetic::{self, NodeRangeError, SyntheticError};
use machine::{HostError, KernelRelease, LayoutError, MachineError, MachineLayout, host};
use memmap_core::{Geometry, GeometryError, KernelVersion};

/// The releases that a machine can be modelled with, whatever its own is.
const MODELLED: RangeInclusive<KernelVersion> = KernelVersion::new(4, 0)..=KernelVersion::V7_3;

/// A release that is none of those.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not modelled; name one from {first} to {last}", first = MODELLED.start(), last = MODELLED.end())]
pub struct NotModelled(String);

/// `release`, whose version a machine can be modelled with.
///
/// # Errors
/// [`NotModelled`], which says what there is.
pub fn modelled<R: ToString>(release: R, version: KernelVersion) -> Result<R, NotModelled> {
    match MODELLED.contains(&version) {
        true => Ok(release),
        false => Err(NotModelled(release.to_string())),
    }
}

/// A release of those, for a command line.
///
/// # Errors
/// What is wrong with the text, and which releases there are.
pub fn kernel(text: &str) -> Result<KernelVersion, String> {
    let version: KernelVersion = text.parse().map_err(|error| format!("{error}"))?;
    modelled(version, version).map_err(|error| error.to_string())
}

/// A machine and what its memory map will be.
#[derive(Debug)]
pub struct Input {
    /// Its memory, as it was read.
    pub layout: MachineLayout,
    /// Its memory map.
    pub geometry: Geometry,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A boot log cannot be used.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// This host cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// There can be no such made-up machine.
    #[error(transparent)]
    Synthetic(#[from] SyntheticError),
    /// A range of a made-up machine is none.
    #[error("--node {text}: {source}")]
    Node {
        /// What was written.
        text: String,
        /// What is wrong with it.
        source: NodeRangeError,
    },
    /// The layout is none.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Its memory map cannot be planned.
    #[error(transparent)]
    Plan(#[from] deferred_init::plan::PlanError),
    /// There is nothing to initialise.
    #[error("{file} has no memory that {profile} could have struct pages for")]
    NoSections {
        /// Where the layout was read.
        file: String,
        /// The kernel that is modelled.
        profile: String,
    },
    /// The kernel that is modelled cannot have such a map.
    #[error("{file}: {source}")]
    Geometry {
        /// Where the layout was read.
        file: String,
        /// Why not.
        source: GeometryError,
    },
}

/// This host's memory.
///
/// # Errors
/// [`InputError`].
pub fn this_host() -> Result<MachineLayout, InputError> {
    Ok(host::read()?)
}

/// The memory of a boot log's machine.
///
/// # Errors
/// [`InputError`].
pub fn of_log(file: &Path) -> Result<MachineLayout, InputError> {
    Ok(MachineLayout::open(file)?)
}

/// A made-up machine with so much memory, evenly on so many nodes.
///
/// # Errors
/// [`InputError`].
pub fn made_up(memory: ByteSize, nodes: u64) -> Result<MachineLayout, InputError> {
    Ok(synthetic::even(memory, nodes)?)
}

/// A made-up machine of ranges such as `0:0-4G`.
///
/// # Errors
/// [`InputError`].
pub fn of_ranges(ranges: &[String]) -> Result<MachineLayout, InputError> {
    let ranges: Result<Vec<_>, _> = ranges
        .iter()
        .map(|text| {
            synthetic::parse_node_range(text).map_err(|source| InputError::Node {
                text: text.clone(),
                source,
            })
        })
        .collect();
    Ok(synthetic::explicit(&ranges?)?)
}

impl Input {
    /// The memory map of a layout's machine under its own kernel, or under another one.
    ///
    /// # Errors
    /// [`InputError`].
    pub fn of(
        mut layout: MachineLayout,
        kernel: Option<KernelVersion>,
    ) -> Result<Self, InputError> {
        if let Some(version) = kernel {
            layout.release = KernelRelease::parse(&version.to_string());
        }
        let memblock = layout.memblock()?;
        let geometry = Geometry::new(&layout.profile(), &memblock, &layout.boot_options())
            .map_err(|source| InputError::Geometry {
                file: layout.file.clone(),
                source,
            })?;
        if geometry.sections().count() == 0 {
            return Err(InputError::NoSections {
                file: layout.file,
                profile: geometry.profile().to_string(),
            });
        }
        Ok(Self { layout, geometry })
    }

    /// As a study initialises it.
    ///
    /// # Errors
    /// [`InputError`].
    pub fn machine(&self) -> Result<study::run::Machine, InputError> {
        Ok(study::run::Machine::new(
            source(&self.layout).to_owned(),
            self.layout.memory_bytes(),
            self.geometry.clone(),
            self.layout.memblock()?,
            self.layout.boot_options(),
        )?)
    }
}

/// The layout's name: that of a file, or this host.
pub fn source(layout: &MachineLayout) -> &str {
    match layout.file.as_str() {
        "/" => "this host",
        file => file,
    }
}
