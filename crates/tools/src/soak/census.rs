//! What a process holds: open files, threads, mappings, memory.

use std::fmt;
use std::io;

/// What this process holds at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// Open files.
    pub files: usize,
    /// Threads.
    pub threads: usize,
    /// Mappings.
    pub mappings: usize,
    /// Bytes in memory.
    pub resident: u64,
}

impl Census {
    /// Takes it.
    ///
    /// # Errors
    /// Where `/proc` cannot be read.
    pub fn take() -> io::Result<Self> {
        let entries = |folder| Ok::<_, io::Error>(std::fs::read_dir(folder)?.count());
        let status = std::fs::read_to_string("/proc/self/status")?;
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))
            .and_then(|kib| kib.trim().parse::<u64>().ok());
        Ok(Self {
            files: entries("/proc/self/fd")?,
            threads: entries("/proc/self/task")?,
            mappings: std::fs::read_to_string("/proc/self/maps")?.lines().count(),
            resident: resident
                .ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS line"))?
                << 10,
        })
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} files, {} threads, {} mappings, {} MiB",
            self.files,
            self.threads,
            self.mappings,
            self.resident >> 20
        )
    }
}
