//! How much memory this process may still take.
//!
//! The least of what the machine has available, what the control groups that we are in (both
//! versions, with all ancestors) leave us, and what our address space limit leaves us. Clean page
//! cache of a group counts as available: it goes before anything is killed.

use std::path::{Component, Path, PathBuf};

/// What bounds the memory that we may take.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryBound {
    /// The machine's own memory (`MemAvailable`).
    Machine,
    /// The limit of a control group, by its folder.
    Cgroup(PathBuf),
    /// The address space limit of this process (`ulimit -v`).
    AddressSpace,
    /// Nothing that we could read.
    Unknown,
}

/// Memory that may still be taken, and what says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableMemory {
    /// In bytes; `u64::MAX` where nothing bounds it.
    pub bytes: u64,
    /// The tightest bound.
    pub bound: MemoryBound,
}

impl std::fmt::Display for AvailableMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = self.bytes >> 20;
        match &self.bound {
            MemoryBound::Machine => write!(f, "{mib} MiB (MemAvailable)"),
            MemoryBound::Cgroup(path) => write!(f, "{mib} MiB (limit of {})", path.display()),
            MemoryBound::AddressSpace => write!(f, "{mib} MiB (ulimit -v)"),
            MemoryBound::Unknown => write!(f, "an unknown amount"),
        }
    }
}

/// What this process may still take.
pub fn available_memory() -> AvailableMemory {
    let mut found = available_memory_under(Path::new("/"));
    if let Some(bytes) = address_space_left()
        && bytes < found.bytes
    {
        found = AvailableMemory {
            bytes,
            bound: MemoryBound::AddressSpace,
        };
    }
    found
}

/// As [`available_memory`], with `/proc` and `/sys` below `root`, and without our own address
/// space limit.
pub fn available_memory_under(root: &Path) -> AvailableMemory {
    let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let info = text("proc/meminfo");
    let machine = meminfo(&info, "MemAvailable").or_else(|| {
        // kernels before 3.14: free and page cache
        Some(meminfo(&info, "MemFree")? + meminfo(&info, "Cached").unwrap_or(0))
    });
    let mut least = match machine {
        Some(bytes) => AvailableMemory {
            bytes,
            bound: MemoryBound::Machine,
        },
        None => AvailableMemory {
            bytes: u64::MAX,
            bound: MemoryBound::Unknown,
        },
    };
    for (mount, group) in groups(&text("proc/self/cgroup"), &text("proc/self/mountinfo")) {
        let base = root.join(mount.strip_prefix("/").unwrap_or(&mount));
        for folder in group.ancestors() {
            let folder = base.join(folder.strip_prefix("/").unwrap_or(folder));
            if let Some(bytes) = group_left(&folder)
                && bytes < least.bytes
            {
                let shown = folder.strip_prefix(root).unwrap_or(&folder);
                least = AvailableMemory {
                    bytes,
                    bound: MemoryBound::Cgroup(Path::new("/").join(shown)),
                };
            }
        }
    }
    least
}

/// Mount points of memory controllers, each with our group's path below it.
fn groups(cgroup: &str, mountinfo: &str) -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    for line in mountinfo.lines() {
        // ID PARENT DEV ROOT POINT OPTIONS [TAGS] - TYPE SOURCE SUPER
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let mut left = left.split(' ').skip(3);
        let (Some(mount_root), Some(point)) = (left.next(), left.next()) else {
            continue;
        };
        let mut right = right.split(' ');
        let kind = right.next().unwrap_or_default();
        let options = right.nth(1).unwrap_or_default();
        let ours = cgroup.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let fits = match kind {
                "cgroup2" => controllers.is_empty(),
                "cgroup" => {
                    options.split(',').any(|option| option == "memory")
                        && controllers.split(',').any(|name| name == "memory")
                }
                _ => false,
            };
            fits.then_some(path)
        });
        let Some(path) = ours else { continue };
        // In a container the mount may start below the hierarchy's root, and the path may lie
        // outside of what is mounted (`/..`): what can be seen is then the mount point itself.
        let below = Path::new(path)
            .strip_prefix(mount_root)
            .unwrap_or(Path::new(""));
        let outside = below.components().any(|part| part == Component::ParentDir);
        let below = if outside { Path::new("") } else { below };
        found.push((PathBuf::from(unescape(point)), below.to_owned()));
    }
    found
}

/// mountinfo writes blanks as `\040`.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
}

/// What a group's limits leave: limit − (used − clean page cache that is not in use).
fn group_left(folder: &Path) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let limit = ["memory.max", "memory.high", "memory.limit_in_bytes"]
        .into_iter()
        .filter_map(number)
        .min()?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = read("memory.stat").unwrap_or_default();
    let cache = ["total_inactive_file", "inactive_file"]
        .into_iter()
        .find_map(|name| {
            let (_, value) = stat
                .lines()
                .filter_map(|line| line.split_once(' '))
                .find(|(key, _)| *key == name)?;
            value.trim().parse::<u64>().ok()
        })
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cache)))
}

/// A line of meminfo, in bytes.
pub(crate) fn meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

fn address_space_left() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live rlimit.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    if got != 0 || limit.rlim_cur == libc::RLIM_INFINITY {
        return None;
    }
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').next()?.parse().ok()?;
    Some(
        limit
            .rlim_cur
            .saturating_sub(pages * crate::page_size() as u64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Self {
            let host = Self(tempfile::tempdir().unwrap());
            host.put("proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 8388608 kB\n");
            host
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn read(&self) -> AvailableMemory {
            available_memory_under(self.0.path())
        }
    }

    const GIB: u64 = 1 << 30;

    #[test]
    fn without_groups_the_machine_bounds() {
        let found = Host::new().read();
        assert_eq!((found.bytes, found.bound), (8 * GIB, MemoryBound::Machine));
    }

    #[test]
    fn an_ancestor_of_our_group_bounds_in_version_2() {
        let host = Host::new();
        host.put("proc/self/cgroup", "0::/job/step\n");
        host.put(
            "proc/self/mountinfo",
            "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        );
        host.put("sys/fs/cgroup/job/step/memory.max", "max\n");
        host.put("sys/fs/cgroup/job/step/memory.current", "4096\n");
        host.put("sys/fs/cgroup/job/memory.max", "3221225472\n");
        host.put("sys/fs/cgroup/job/memory.current", "2147483648\n");
        host.put(
            "sys/fs/cgroup/job/memory.stat",
            "anon 5\ninactive_file 1073741824\n",
        );
        let found = host.read();
        assert_eq!(found.bytes, 2 * GIB);
        assert_eq!(
            found.bound,
            MemoryBound::Cgroup("/sys/fs/cgroup/job".into())
        );
        assert_eq!(found.to_string(), "2048 MiB (limit of /sys/fs/cgroup/job)");
    }

    #[test]
    fn a_group_of_version_1_bounds() {
        let host = Host::new();
        host.put(
            "proc/self/cgroup",
            "5:cpu:/a\n4:memory,hugetlb:/box\n0::/\n",
        );
        host.put(
            "proc/self/mountinfo",
            "31 24 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory,hugetlb\n",
        );
        let group = "sys/fs/cgroup/memory/box";
        host.put(&format!("{group}/memory.limit_in_bytes"), "1073741824\n");
        host.put(&format!("{group}/memory.usage_in_bytes"), "1073741824\n");
        host.put(
            &format!("{group}/memory.stat"),
            "total_inactive_file 4096\n",
        );
        assert_eq!(host.read().bytes, 4096);
    }

    #[test]
    fn a_container_that_sees_its_own_group_as_the_root_is_bounded_by_it() {
        let host = Host::new();
        host.put("proc/self/cgroup", "0::/../..\n");
        host.put(
            "proc/self/mountinfo",
            "30 24 0:26 /../.. /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n",
        );
        host.put("sys/fs/cgroup/memory.max", "1073741824\n");
        host.put("sys/fs/cgroup/memory.current", "0\n");
        assert_eq!(host.read().bytes, GIB);
    }

    #[test]
    fn a_host_that_says_nothing_bounds_nothing() {
        let found = available_memory_under(Path::new("/nowhere"));
        assert_eq!(found.bound, MemoryBound::Unknown);
    }

    #[test]
    fn this_host_has_memory() {
        assert!(available_memory().bytes > 0);
    }
}
