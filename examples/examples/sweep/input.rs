//! From the command line to a memory map's geometry.

use machine::synthetic::{self, NodeRangeError, SyntheticError};
use machine::{HostError, KernelRelease, LayoutError, MachineError, MachineLayout, host};
use memmap_core::{Geometry, GeometryError};

use crate::args::Args;

/// A machine and what its memory map will be.
pub(crate) struct Input {
    pub(crate) layout: MachineLayout,
    pub(crate) geometry: Geometry,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Synthetic(#[from] SyntheticError),
    #[error("--node {text}: {source}")]
    Node {
        text: String,
        source: NodeRangeError,
    },
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error("{file} has no memory that {profile} could have struct pages for")]
    NoSections { file: String, profile: String },
    #[error("{file}: {source}")]
    Geometry { file: String, source: GeometryError },
}

impl Input {
    pub(crate) fn of(args: &Args) -> Result<Self, InputError> {
        let mut layout = layout(args)?;
        if let Some(version) = args.kernel {
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
}

fn layout(args: &Args) -> Result<MachineLayout, InputError> {
    if let Some(file) = &args.layout {
        return Ok(MachineLayout::open(file)?);
    }
    if let Some(memory) = args.memory {
        return Ok(synthetic::even(memory, args.nodes)?);
    }
    if args.node.is_empty() {
        return Ok(host::read()?);
    }
    let ranges: Result<Vec<_>, _> = args
        .node
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
