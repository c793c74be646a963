//! What a record says of the host that it was made on.

use std::path::Path;
use std::sync::OnceLock;

/// A host in words; a field is empty where the system does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostDescription {
    /// Name in the network.
    pub name: String,
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// Machine architecture, as `uname -m`.
    pub machine: String,
    /// Processor model.
    pub cpu: String,
    /// Page size in bytes.
    pub page_size: u64,
    /// Setting of transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: String,
    /// Total memory in bytes.
    pub memory: u64,
    /// Whether the processor says that a hypervisor runs below us.
    pub virtual_machine: bool,
    /// What the firmware's tables call the machine, where it is virtual.
    pub hypervisor: String,
    /// Frequency governors of all CPUs, each once.
    pub governor: String,
    /// Automatic NUMA balancing: `0` off, `1` on.
    pub numa_balancing: String,
    /// Flaws of the processor and what the kernel does against them, by name.
    pub mitigations: Vec<(String, String)>,
}

impl HostDescription {
    /// Reads this host.
    pub fn read() -> Self {
        Self::read_under(Path::new("/"))
    }

    /// As [`read`](Self::read), with `/proc` and `/sys` below `root`.
    pub fn read_under(root: &Path) -> Self {
        let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let cpuinfo = text("proc/cpuinfo");
        let field = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| {
                    cpuinfo
                        .lines()
                        .filter_map(|line| line.split_once(':'))
                        .find(|(key, _)| key.trim() == *name)
                })
                .map(|(_, value)| value.trim().to_owned())
                .unwrap_or_default()
        };
        let thp = text("sys/kernel/mm/transparent_hugepage/enabled");
        let virtual_machine = field(&["flags"])
            .split(' ')
            .any(|flag| flag == "hypervisor");
        let line = |path: &str| text(path).trim().to_owned();
        Self {
            name: line("proc/sys/kernel/hostname"),
            kernel: text("proc/sys/kernel/osrelease").trim().to_owned(),
            machine: std::env::consts::ARCH.to_owned(),
            cpu: field(&["model name", "cpu", "Processor", "uarch", "CPU part"]),
            page_size: page_size() as u64,
            huge_pages: thp
                .split_once('[')
                .and_then(|(_, rest)| rest.split_once(']'))
                .map(|(chosen, _)| chosen.to_owned())
                .unwrap_or_default(),
            memory: crate::memory::meminfo(&text("proc/meminfo"), "MemTotal").unwrap_or(0),
            virtual_machine,
            hypervisor: match virtual_machine {
                true => format!(
                    "{} {}",
                    line("sys/class/dmi/id/sys_vendor"),
                    line("sys/class/dmi/id/product_name")
                )
                .trim()
                .to_owned(),
                false => String::new(),
            },
            governor: governors(root),
            numa_balancing: line("proc/sys/kernel/numa_balancing"),
            mitigations: names(&root.join("sys/devices/system/cpu/vulnerabilities"))
                .into_iter()
                .map(|flaw| {
                    let state = line(&format!("sys/devices/system/cpu/vulnerabilities/{flaw}"));
                    (flaw, state)
                })
                .collect(),
        }
    }
}

/// What lies in a folder, sorted by name.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

/// The frequency governors of all CPUs, each once.
fn governors(root: &Path) -> String {
    let cpus = root.join("sys/devices/system/cpu");
    let mut governors: Vec<String> = names(&cpus)
        .into_iter()
        .filter_map(|cpu| {
            let path = cpus.join(cpu).join("cpufreq/scaling_governor");
            Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
        })
        .collect();
    governors.sort_unstable();
    governors.dedup();
    governors.join(", ")
}

/// This host's page size in bytes.
#[doc(alias = "PAGE_SIZE")]
pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        // SAFETY: takes a number and returns one.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).unwrap_or(4096)
    })
}

/// The size of the huge pages in this host's pool, bytes; 2 MiB where it does not say.
#[doc(alias = "Hugepagesize")]
pub fn huge_page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        crate::memory::meminfo(&info, "Hugepagesize")
            .and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|bytes| bytes.is_power_of_two() && *bytes >= page_size())
            .unwrap_or(2 << 20)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_setting_stands_in_brackets() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        );
        put("proc/sys/kernel/osrelease", "6.12.1\n");
        put(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Some CPU @ 2:1\nflags\t\t: fpu hypervisor sse\n",
        );
        put("proc/meminfo", "MemTotal:       2048 kB\n");
        put("sys/class/dmi/id/sys_vendor", "QEMU\n");
        let cpus = "sys/devices/system/cpu";
        put(
            &format!("{cpus}/cpu0/cpufreq/scaling_governor"),
            "powersave\n",
        );
        put(
            &format!("{cpus}/cpu1/cpufreq/scaling_governor"),
            "powersave\n",
        );
        put(
            &format!("{cpus}/vulnerabilities/meltdown"),
            "Not affected\n",
        );
        put("proc/sys/kernel/numa_balancing", "1\n");
        let host = HostDescription::read_under(root.path());
        assert_eq!(host.huge_pages, "madvise");
        assert_eq!(host.kernel, "6.12.1");
        assert_eq!(host.cpu, "Some CPU @ 2:1");
        assert_eq!(host.memory, 2 << 20);
        assert!(host.virtual_machine);
        assert_eq!(host.hypervisor, "QEMU");
        assert_eq!(host.governor, "powersave");
        assert_eq!(host.numa_balancing, "1");
        let flaws = [("meltdown".to_owned(), "Not affected".to_owned())];
        assert_eq!(host.mitigations, flaws);
    }

    #[test]
    fn a_host_that_hides_everything_has_a_page_size_still() {
        let host = HostDescription::read_under(Path::new("/nowhere"));
        assert!(host.kernel.is_empty());
        assert!(host.page_size.is_power_of_two());
    }
}
