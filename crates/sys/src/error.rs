//! What the system refused, and what to do about it.

use std::fmt;
use std::path::PathBuf;

/// A kind of call that passes through the [seam](crate::seam).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Call {
    /// Reserves address space.
    Mmap,
    /// Gives address space back.
    Munmap,
    /// Makes reserved address space usable, or unusable again.
    Mprotect,
    /// Asks for huge pages, populates or discards pages.
    Madvise,
    /// Says on which nodes pages are to lie.
    Mbind,
    /// Asks on which nodes pages do lie.
    MovePages,
    /// Reads a thread's CPU mask.
    SchedGetaffinity,
    /// Sets a thread's CPU mask.
    SchedSetaffinity,
    /// Asks on which CPU the caller runs.
    Getcpu,
    /// Creates a thread.
    Spawn,
    /// Opens a file.
    Open,
    /// Reads a file.
    Read,
    /// Writes to a file.
    Write,
    /// Makes what was written durable.
    Fdatasync,
    /// Creates a file that lives in memory.
    MemfdCreate,
    /// Forbids further changes of such a file.
    Fcntl,
    /// Mounts a file system.
    Mount,
    /// Switches the machine off.
    Reboot,
}

impl Call {
    /// Every kind of call, in declaration order.
    pub const ALL: [Self; 18] = [
        Self::Mmap,
        Self::Munmap,
        Self::Mprotect,
        Self::Madvise,
        Self::Mbind,
        Self::MovePages,
        Self::SchedGetaffinity,
        Self::SchedSetaffinity,
        Self::Getcpu,
        Self::Spawn,
        Self::Open,
        Self::Read,
        Self::Write,
        Self::Fdatasync,
        Self::MemfdCreate,
        Self::Fcntl,
        Self::Mount,
        Self::Reboot,
    ];

    /// The name that the manual has it under.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mmap => "mmap",
            Self::Munmap => "munmap",
            Self::Mprotect => "mprotect",
            Self::Madvise => "madvise",
            Self::Mbind => "mbind",
            Self::MovePages => "move_pages",
            Self::SchedGetaffinity => "sched_getaffinity",
            Self::SchedSetaffinity => "sched_setaffinity",
            Self::Getcpu => "getcpu",
            Self::Spawn => "clone",
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Fdatasync => "fdatasync",
            Self::MemfdCreate => "memfd_create",
            Self::Fcntl => "fcntl",
            Self::Mount => "mount",
            Self::Reboot => "reboot",
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An `errno` value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub i32);

impl Errno {
    /// The calling thread's last error.
    pub(crate) fn last() -> Self {
        std::io::Error::last_os_error().into()
    }
}

impl From<std::io::Error> for Errno {
    /// `EIO` where the error did not come from the system.
    fn from(error: std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> Self {
        Self::from_raw_os_error(errno.0)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "errno {}", self.0)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

/// With which arguments a call was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Args {
    /// Nothing worth printing.
    None,
    /// A stretch of address space, `[address, address + bytes)`.
    Memory {
        /// Its first byte; 0 where the system was to choose.
        address: usize,
        /// Its length in bytes.
        bytes: usize,
    },
    /// A stretch of address space and the nodes that it is to lie on.
    Nodes {
        /// Its first byte.
        address: usize,
        /// Its length in bytes.
        bytes: usize,
        /// Node numbers, ascending.
        nodes: Vec<u16>,
    },
    /// A number of single pages.
    Pages {
        /// How many.
        count: usize,
    },
    /// The CPUs of a mask.
    Cpus {
        /// How many CPUs the mask names.
        count: usize,
        /// The lowest of them.
        first: Option<u32>,
    },
    /// A thread by its name.
    Thread {
        /// The name it was to have.
        name: String,
    },
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// The number of bytes that were to be written.
        bytes: usize,
    },
}

impl fmt::Display for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Memory { address: 0, bytes } => write!(f, "{bytes} bytes"),
            Self::Memory { address, bytes } => write!(f, "{address:#x}, {bytes} bytes"),
            Self::Nodes {
                address,
                bytes,
                nodes,
            } => write!(f, "{address:#x}, {bytes} bytes, nodes {nodes:?}"),
            Self::Pages { count } => write!(f, "{count} pages"),
            Self::Cpus { count, first } => match first {
                Some(first) => write!(f, "{count} CPUs from {first}"),
                None => write!(f, "no CPU"),
            },
            Self::Thread { name } => write!(f, "thread {name}"),
            Self::File { path, bytes: 0 } => write!(f, "{}", path.display()),
            Self::File { path, bytes } => write!(f, "{}, {bytes} bytes", path.display()),
        }
    }
}

/// Why a call of this crate did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SysError {
    /// The system refused.
    #[error("{call}({args}): {errno}; {}", advice(*.call, *.errno))]
    Refused {
        /// The call.
        call: Call,
        /// Its arguments.
        args: Args,
        /// The reason that the system gave.
        errno: Errno,
    },
    /// Byte offsets that do not lie in the mapping, or are not multiples of the page size.
    #[error(
        "bytes {start:#x}..{end:#x} are not whole pages of a mapping of {len:#x} bytes; pass page-aligned offsets inside it"
    )]
    BadRange {
        /// First byte offset asked for.
        start: usize,
        /// One past the last byte offset asked for.
        end: usize,
        /// Length of the mapping, bytes.
        len: usize,
    },
    /// Reserved address space was to be populated before it was committed.
    #[error("bytes {start:#x}..{end:#x} are reserved only; commit them before they are populated")]
    NotCommitted {
        /// First byte offset asked for.
        start: usize,
        /// One past the last byte offset asked for.
        end: usize,
    },
}

impl SysError {
    /// The `errno`, where the system refused.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// The call, where the system refused.
    pub fn call(&self) -> Option<Call> {
        match self {
            Self::Refused { call, .. } => Some(*call),
            _ => None,
        }
    }
}

impl From<SysError> for std::io::Error {
    /// Of the kind that the system's reason is; the error itself is inside.
    fn from(error: SysError) -> Self {
        let kind = error
            .errno()
            .map_or(std::io::ErrorKind::InvalidInput, |errno| {
                std::io::Error::from(errno).kind()
            });
        Self::new(kind, error)
    }
}

/// What a user can do about it, in one clause.
fn advice(call: Call, Errno(errno): Errno) -> &'static str {
    match (call, errno) {
        (Call::Mmap | Call::Mprotect | Call::Madvise, libc::ENOMEM) => {
            "ask for less, or raise the address space limit (ulimit -v) or vm.max_map_count; for huge pages \
             of the pool, vm.nr_hugepages"
        }
        (Call::Mbind | Call::MovePages, libc::ENOSYS) => {
            "this kernel has no NUMA support, or a sandbox hides it: place by first touch"
        }
        (Call::Mbind | Call::MovePages, libc::EPERM) => {
            "a sandbox forbids it (containers need CAP_SYS_NICE): place by first touch"
        }
        (Call::Mbind, libc::EINVAL) => {
            "name only online nodes with memory that this process may use (Mems_allowed_list)"
        }
        (Call::Mbind, libc::EIO | libc::ENOMEM) => {
            "the node has not enough free memory: ask for less"
        }
        (Call::SchedSetaffinity, libc::EINVAL) => {
            "name only CPUs that are online and allowed to this process (Cpus_allowed_list)"
        }
        (Call::SchedSetaffinity, libc::EPERM) => {
            "a sandbox forbids it: run unpinned, or permit sched_setaffinity"
        }
        (Call::Spawn, _) => {
            "ask for fewer threads, or raise ulimit -u or the pids limit of the cgroup"
        }
        (Call::Open | Call::Write | Call::Fdatasync, libc::ENOSPC | libc::EDQUOT) => {
            "make room on that file system or choose another output"
        }
        (Call::Open | Call::Write, libc::EACCES | libc::EPERM | libc::EROFS) => {
            "choose an output that you may write to"
        }
        (Call::Open, libc::ENOENT) => "check the path",
        (_, libc::ENOSYS) => "this kernel, or a sandbox, has no such call",
        (_, libc::EPERM) => "a sandbox forbids it",
        _ => "see the manual page of the call",
    }
}
