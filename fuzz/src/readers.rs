//! What is done with the bytes of one input, for every reader: read them, and do with what was read
//! all that a user would. Nothing may panic, and nothing may grow beyond the input.
//!
//! The tests of the crate `machine` do the same with bytes that they turn over themselves.

use std::fs;
use std::path::{Path, PathBuf};

use machine::check::{self, CheckReport};
use machine::host;
use machine::text::{Line, Lines, strip_prefixes};
use machine::{Capture, Iomem, MachineLayout, MemblockArray, Meminfo, MemoryBlocks, ZoneInfo};

/// A boot log, or a capture that holds one.
pub fn bootlog(data: &[u8]) {
    let Ok(capture) = Capture::read("input", data) else {
        return;
    };
    if let Ok(layout) = MachineLayout::from_capture(capture) {
        use_layout(&layout, data.len());
    }
}

/// Lines of any input, and what stands before a message.
pub fn lines(data: &[u8]) {
    let mut lines = Lines::new(data);
    let mut line = Line::default();
    let mut count = 0;
    while lines.read(&mut line).unwrap_or(false) {
        assert!(line.whole().ends_with(line.text()) || line.text().len() < line.whole().len());
        count += 1;
    }
    assert!(count <= data.len() + 1, "more lines than bytes");
    let text = String::from_utf8_lossy(data);
    let stripped = strip_prefixes(&text);
    assert!(text.contains(stripped));
}

/// `/proc/iomem`.
pub fn iomem(data: &[u8]) {
    if let Ok(iomem) = Iomem::read("input", data) {
        assert!(iomem.resources().len() <= data.len());
        let _ = iomem.is_readable();
    }
    with_files(&[("iomem", data)]);
}

/// `/proc/zoneinfo`.
pub fn zoneinfo(data: &[u8]) {
    if let Ok(zones) = ZoneInfo::read("input", data) {
        assert!(zones.zones().len() <= data.len());
    }
    with_files(&[("zoneinfo", data)]);
}

/// `/proc/meminfo`.
pub fn meminfo(data: &[u8]) {
    if let Ok(meminfo) = Meminfo::read("input", data) {
        assert!(meminfo.total_kib.is_none() || !data.is_empty());
    }
}

/// `/sys/kernel/debug/memblock/memory` and the other arrays.
pub fn memblock_array(data: &[u8]) {
    if let Ok(array) = MemblockArray::read("input", data) {
        assert!(array.regions().len() <= data.len());
    }
    with_files(&[("memblock.memory", data), ("memblock.reserved", data)]);
}

/// A layout file.
pub fn toml(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(layout) = MachineLayout::from_toml("input", &text) else {
        return;
    };
    use_layout(&layout, data.len());
    // What is written is read again, and written the same.
    if let Ok(written) = layout.to_toml() {
        let again = MachineLayout::from_toml("again", &written)
            .unwrap_or_else(|error| panic!("{error}\n{written}"));
        let rest = |text: &str| text.split_once('\n').map(|(_, rest)| rest.to_owned());
        let rewritten = again.to_toml().unwrap_or_default();
        assert_eq!(rest(&rewritten), rest(&written));
    }
}

/// `/sys/devices/system`: the first line is the size of a block, each other one a folder.
pub fn sysfs(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.lines();
    let root = Root::new();
    root.put(
        "sys/devices/system/memory/block_size_bytes",
        lines.next().unwrap_or("").as_bytes(),
    );
    for name in lines.take(16) {
        // A name that leaves the folder is not one that a kernel makes.
        let plain = name
            .split('/')
            .all(|part| part != ".." && part.len() < 200 && !part.contains('\0'));
        if plain && !name.is_empty() {
            root.put(&format!("sys/devices/system/{name}/state"), b"online\n");
        }
    }
    if let Ok(blocks) = MemoryBlocks::read(root.path()) {
        for &block in blocks.online.keys() {
            let _ = blocks.range(block);
        }
    }
    if let Ok(layout) = host::read_below(root.path()) {
        use_layout(&layout, data.len() + 4096);
    }
}

/// Several files of one machine: cut at lines of `====`.
pub fn together(data: &[u8]) {
    const NAMES: [&str; 6] = [
        "dmesg",
        "iomem",
        "zoneinfo",
        "meminfo",
        "memblock.memory",
        "memblock.reserved",
    ];
    let text = String::from_utf8_lossy(data);
    let files: Vec<_> = NAMES
        .into_iter()
        .zip(text.split("====\n"))
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| (name, text.as_bytes()))
        .collect();
    with_files(&files);
}

/// Reads `files` as those of one machine.
fn with_files(files: &[(&str, &[u8])]) {
    let root = Root::new();
    let mut bytes = 0;
    for (name, data) in files {
        root.put(name, data);
        bytes += data.len();
    }
    if let Ok(layout) = MachineLayout::from_dir(root.path()) {
        use_layout(&layout, bytes);
    }
}

/// Does with a layout all that a user would.
fn use_layout(layout: &MachineLayout, bytes: usize) {
    let _ = layout.provenance.to_string();
    for contradiction in &layout.provenance.contradictions {
        let _ = contradiction.to_string();
    }
    let _ = (layout.memory_bytes(), layout.nodes(), layout.to_toml());
    let report = check::check(layout);
    let told: usize = report.figures.len();
    // A short line may make us expect a few of our own for every node and zone.
    assert!(told <= 8 * bytes + 1000, "{told} figures of {bytes} bytes");
    say(&report);
    if let Ok((memblock, geometry)) = check::build(layout, &report.profile) {
        for warning in check::warnings(layout, &memblock, &geometry) {
            let _ = warning.to_string();
        }
    }
}

fn say(report: &CheckReport) {
    let _ = report.tally().to_string();
    for inference in &report.inferences {
        let _ = inference.to_string();
    }
}

/// A folder that is gone when this is.
struct Root(PathBuf);

impl Root {
    fn new() -> Self {
        let name = format!(
            "fuzz-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let folder = std::env::temp_dir().join(name);
        // What an ended process of the same number left.
        drop(fs::remove_dir_all(&folder));
        drop(fs::create_dir_all(&folder));
        Self(folder)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file; one that cannot be has no name that a file system takes.
    fn put(&self, name: &str, data: &[u8]) {
        let file = self.0.join(name);
        if let Some(folder) = file.parent() {
            drop(fs::create_dir_all(folder));
        }
        drop(fs::write(file, data));
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}
