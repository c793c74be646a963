//! The caches of this host's processors.

use std::path::Path;

/// A cache as sysfs describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1 for the one next to the core.
    pub level: u32,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The outermost data cache of the first CPU that describes one; `None` where sysfs is silent.
///
/// Virtual machines often show the cache of the whole processor although they own a share of it.
pub fn last_level_cache() -> Option<Cache> {
    last_level_cache_under(Path::new("/"))
}

/// As [`last_level_cache`], with `/sys` below `root`.
pub(crate) fn last_level_cache_under(root: &Path) -> Option<Cache> {
    let cpus = root.join("sys/devices/system/cpu");
    let mut numbers: Vec<u32> = std::fs::read_dir(&cpus)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_prefix("cpu")?
                .parse()
                .ok()
        })
        .collect();
    numbers.sort_unstable();
    numbers.into_iter().find_map(|cpu| {
        let caches = std::fs::read_dir(cpus.join(format!("cpu{cpu}/cache"))).ok()?;
        caches
            .flatten()
            .filter_map(|entry| read_cache(&entry.path()))
            .max_by_key(|cache| (cache.level, cache.bytes))
    })
}

fn read_cache(path: &Path) -> Option<Cache> {
    let read = |name| std::fs::read_to_string(path.join(name)).ok();
    if read("type")?.trim() == "Instruction" {
        return None;
    }
    Some(Cache {
        level: read("level")?.trim().parse().ok()?,
        bytes: size(read("size")?.trim())?,
    })
}

/// `32K`, `8M`, or bytes.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_data_cache_counts() {
        let root = tempfile::tempdir().unwrap();
        let put = |index: u32, level: &str, kind: &str, size: &str| {
            let at = root
                .path()
                .join(format!("sys/devices/system/cpu/cpu3/cache/index{index}"));
            std::fs::create_dir_all(&at).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                std::fs::write(at.join(name), format!("{text}\n")).unwrap();
            }
        };
        put(0, "1", "Data", "48K");
        put(1, "4", "Instruction", "64M");
        put(2, "3", "Unified", "300M");
        put(3, "9", "Unified", "many");
        let found = last_level_cache_under(root.path());
        let bytes = 300 << 20;
        assert_eq!(found, Some(Cache { level: 3, bytes }));
        assert_eq!(last_level_cache_under(Path::new("/nowhere")), None);
    }
}
