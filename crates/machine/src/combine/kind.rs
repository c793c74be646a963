//! What a file is, by its name or its first line.

use std::path::Path;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Log,
    Iomem,
    Zoneinfo,
    Meminfo,
    Memory,
    Reserved,
    Toml,
    /// Known by its name, and of no use here.
    Other,
}

impl Kind {
    /// In words, as what two files are.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Log => "boot logs",
            Self::Iomem => "/proc/iomem",
            Self::Zoneinfo => "/proc/zoneinfo",
            Self::Meminfo => "/proc/meminfo",
            Self::Memory => "memblock's array of memory",
            Self::Reserved => "memblock's array of reservations",
            Self::Toml => "layout files",
            Self::Other => "of no use here",
        }
    }

    /// By the file's name; `None` where it says nothing.
    pub(super) fn by_name(file: &Path) -> Option<Self> {
        let name = file.file_name()?.to_str()?.to_ascii_lowercase();
        let folder = file.parent().and_then(Path::file_name);
        let in_memblock = folder.is_some_and(|folder| folder == "memblock");
        let plain = name
            .strip_suffix(".txt")
            .or_else(|| name.strip_suffix(".log"))
            .unwrap_or(&name);
        // `iomem`, `host.iomem`, `host.iomem.txt`; not `host-without-iomem.txt`.
        let last = plain.rsplit('.').next().unwrap_or(plain);
        let memblock = in_memblock || plain.ends_with(&format!("memblock.{last}"));
        Some(match last {
            "toml" => Self::Toml,
            "memory" if memblock => Self::Memory,
            "reserved" if memblock => Self::Reserved,
            "pagetypeinfo" | "buddyinfo" | "physmem" => Self::Other,
            "iomem" => Self::Iomem,
            "zoneinfo" => Self::Zoneinfo,
            "meminfo" => Self::Meminfo,
            "dmesg" | "kern" => Self::Log,
            _ => return None,
        })
    }

    /// By the first line that has anything on it; a log where it is nothing else.
    pub(super) fn by_content(text: &str) -> Self {
        let mut lines = text.lines().map(str::trim);
        let first = lines
            .find(|line| !line.is_empty() && !line.starts_with('#'))
            .unwrap_or("");
        let is_iomem = || {
            let (range, _) = first.split_once(" : ")?;
            let (start, end) = range.split_once('-')?;
            let hex = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_hexdigit());
            (hex(start) && hex(end)).then_some(())
        };
        let key = first.split('=').next().unwrap_or("").trim();
        match () {
            () if first.starts_with("MemTotal:") => Self::Meminfo,
            () if first.starts_with("Node ") && first.contains(", zone ") => Self::Zoneinfo,
            () if first.starts_with("[[") || key == "form" || key == "arch" => Self::Toml,
            () if first.starts_with("0: 0x") && first.contains("..") => Self::Memory,
            () if is_iomem().is_some() => Self::Iomem,
            () => Self::Log,
        }
    }
}
