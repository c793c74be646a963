//! A folder of files from one machine, combined into one layout.
//!
//! Looked for are a boot log (`dmesg`, `dmesg.txt`, `dmesg.log`, `kern.log`), `iomem`, and
//! memblock's arrays (`memblock/memory` and `memblock/reserved`, or the same with a dot). The log
//! is what counts; the others fill in and are compared. A folder with `proc` or `sys` and no log
//! is read as a host.

use std::path::{Path, PathBuf};

use crate::bootlog::BootLog;
use crate::debugfs::MemblockArray;
use crate::error::ReadError;
use crate::host::{self, HostError};
use crate::iomem::Iomem;
use crate::layout::{MachineError, MachineLayout, MemorySource};

/// A folder that does not make a machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// There is no boot log and no `proc` or `sys`.
    #[error(
        "{}: none of dmesg, dmesg.txt, dmesg.log, kern.log, proc and sys is in it; \
         put the output of `dmesg` there as dmesg.txt", folder.display()
    )]
    Nothing {
        /// The folder.
        folder: PathBuf,
    },
    /// A file cannot be read, or its log is no machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The files of `proc` and `sys` do not tell the memory.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl MachineLayout {
    /// The machine whose files lie in `folder`.
    ///
    /// # Errors
    /// * [`FolderError::Nothing`] where no file of a known name is there.
    /// * [`FolderError::Machine`] where a file cannot be read or the log is no machine.
    /// * [`FolderError::Host`] where `proc` and `sys` do not tell the memory.
    pub fn from_dir(folder: impl AsRef<Path>) -> Result<Self, FolderError> {
        let folder = folder.as_ref();
        let first = |names: &[&str]| {
            let paths = names.iter().map(|name| folder.join(name));
            paths.into_iter().find(|path| path.exists())
        };
        let Some(log) = first(&["dmesg", "dmesg.txt", "dmesg.log", "kern.log"]) else {
            if first(&["proc", "sys"]).is_some() {
                return Ok(host::read_below(folder)?);
            }
            return Err(FolderError::Nothing {
                folder: folder.to_owned(),
            });
        };
        let mut layout = combined(&log)?;
        let read = |error: ReadError| FolderError::Machine(error.into());
        if let Some(file) = first(&["memblock/reserved", "memblock.reserved"]) {
            let kept = MemblockArray::open(file).map_err(read)?;
            layout.kept = kept.regions().to_vec();
        }
        if let Some(file) = first(&["memblock/memory", "memblock.memory"]) {
            let kept = MemblockArray::open(file).map_err(read)?;
            layout.compare_with(MemorySource::Debugfs, kept.regions());
        }
        if let Some(file) = first(&["iomem", "iomem.txt"]) {
            let iomem = Iomem::open(file).map_err(read)?;
            if iomem.is_readable() {
                let mut other = MachineLayout::empty(&layout.file);
                other.architecture = layout.architecture;
                // Without memory in it there is nothing to compare.
                if host::fill_from_iomem(&mut other, &iomem).is_ok() {
                    layout.compare_with(MemorySource::Iomem, &other.memory);
                }
            }
        }
        Ok(layout)
    }
}

fn combined(log: &Path) -> Result<MachineLayout, MachineError> {
    Ok(MachineLayout::from_log(&BootLog::open(log)?)?)
}
