//! How many mappings this process has, and may have.

use std::path::Path;

/// Mappings of a process, and the limit that the system sets on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingCount {
    /// How many there are.
    pub used: usize,
    /// How many there may be.
    #[doc(alias = "vm.max_map_count")]
    pub limit: usize,
}

impl MappingCount {
    /// How many more there may be.
    pub const fn left(self) -> usize {
        self.limit.saturating_sub(self.used)
    }
}

/// What Linux sets where nobody changed it; assumed where `/proc` is hidden.
const DEFAULT_LIMIT: usize = 65_530;

/// Counts this process's mappings.
pub fn mapping_count() -> MappingCount {
    mapping_count_under(Path::new("/"))
}

/// As [`mapping_count`], with `/proc` below `root`.
pub fn mapping_count_under(root: &Path) -> MappingCount {
    let limit = std::fs::read_to_string(root.join("proc/sys/vm/max_map_count"))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(DEFAULT_LIMIT);
    let used = std::fs::read(root.join("proc/self/maps"))
        .map_or(0, |maps| maps.iter().filter(|&&byte| byte == b'\n').count());
    MappingCount { used, limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_counted_by_lines_and_the_limit_is_read() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/sys/vm")).unwrap();
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        std::fs::write(root.path().join("proc/sys/vm/max_map_count"), "70\n").unwrap();
        std::fs::write(root.path().join("proc/self/maps"), "a\nb\n").unwrap();
        let count = mapping_count_under(root.path());
        assert_eq!(count, MappingCount { used: 2, limit: 70 });
        assert_eq!(count.left(), 68);
    }

    #[test]
    fn a_hidden_proc_gives_the_usual_limit() {
        let count = mapping_count_under(Path::new("/nowhere"));
        assert_eq!((count.used, count.limit), (0, DEFAULT_LIMIT));
    }

    #[test]
    fn the_pieces_of_a_mapping_are_seen() {
        let page = crate::page_size();
        let map = crate::Mapping::reserve(128 * page).unwrap();
        for piece in 0..64 {
            map.commit(2 * piece * page..(2 * piece + 1) * page)
                .unwrap();
        }
        // other tests of this process map and unmap meanwhile: no exact number can be said
        assert!(mapping_count().used >= 128);
    }
}
