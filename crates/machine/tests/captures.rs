//! Captures of real kernels, where they lie beside the project.
//!
//! The memory that is read from firmware, affinity and memblock lines must be the memory that
//! the kernel found: the lines in which it says so are compared, never read.

use std::path::PathBuf;

use machine::{BootLog, Capture, MachineLayout, MemorySource};

/// Captures of all architectures.
fn all() -> Vec<PathBuf> {
    let mut paths = captures::files("golden", "txt");
    paths.extend(captures::files("golden-other", "txt"));
    paths
}

/// Ours and theirs: node and whole pages of every range.
fn early_ranges(layout: &MachineLayout) -> (Vec<String>, Vec<String>) {
    let shift = layout.page_size.trailing_zeros();
    let ours = layout.memory.iter().filter_map(|memory| {
        let whole = memory.range.pfns_inner(shift).phys(shift);
        (!whole.is_empty()).then(|| format!("{} {whole}", memory.node.unwrap_or_default()))
    });
    let theirs = layout
        .figures
        .early_ranges()
        .map(|(node, range)| format!("{node} {range}"));
    (ours.collect(), theirs.collect())
}

#[test]
fn memory_of_every_capture_is_the_memory_that_its_kernel_found() {
    let (paths, mut compared) = (all(), 0);
    for path in &paths {
        let layout = MachineLayout::open(path).unwrap_or_else(|error| panic!("{error}"));
        assert!(!layout.provenance.uses_early_ranges(), "{}", path.display());
        let (ours, theirs) = early_ranges(&layout);
        eprintln!("{}: {}", path.display(), layout.provenance);
        if theirs.is_empty() {
            captures::skipped(&format!("{}: its kernel's ranges are lost", path.display()));
            continue;
        }
        assert_eq!(ours, theirs, "{}", path.display());
        assert_eq!(layout.provenance.contradictions, [], "{}", path.display());
        assert!(
            layout.problems.is_empty(),
            "{}: {:?}",
            path.display(),
            layout.problems
        );
        compared += 1;
    }
    assert!(paths.is_empty() || compared > 0, "no log is whole");
}

#[test]
fn firmware_and_affinity_alone_give_the_same_memory_as_the_kernels_own_dump() {
    let (paths, mut compared) = (captures::files("golden", "txt"), 0);
    for path in &paths {
        let mut log = BootLog::open(path).unwrap_or_else(|error| panic!("{error}"));
        let name = path.display();
        if log.firmware.maps.is_empty() {
            captures::skipped(&format!("{name}: no firmware map"));
            continue;
        }
        let dumped = MachineLayout::from_log(&log).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            dumped.provenance.memory,
            MemorySource::MemblockDump,
            "{name}"
        );
        log.memblock = Default::default();
        let layout = MachineLayout::from_log(&log).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            layout.provenance.memory,
            MemorySource::FirmwareMap,
            "{name}"
        );
        let pages = |layout: &MachineLayout| -> Vec<_> {
            let memory = layout.memory.iter();
            memory.map(|memory| (memory.range, memory.node)).collect()
        };
        assert_eq!(pages(&layout), pages(&dumped), "{name}");
        compared += 1;
    }
    assert!(paths.is_empty() || compared > 0, "no firmware map");
}

#[test]
fn zoneinfo_of_every_capture_has_a_present_page_for_every_page_of_the_ranges() {
    for path in all() {
        let name = path.display();
        let capture = Capture::open(&path).unwrap_or_else(|error| panic!("{error}"));
        let zones = capture.zoneinfo.as_ref().expect("a capture has zoneinfo");
        assert_eq!(capture.whole, Some(true), "{name}");
        let layout = MachineLayout::from_log(capture.log().expect("a log")).expect("a layout");
        let shift = layout.page_size.trailing_zeros();
        let memory = layout.memory.iter();
        let pages: u64 = memory
            .map(|memory| memory.range.pfns_inner(shift).len())
            .sum();
        let present: u64 = zones.zones().iter().map(|zone| zone.present).sum();
        assert_eq!(pages, present, "{name}");
    }
}

/// Ranges as numbers, neighbours joined whatever their node and flags.
fn joined(ranges: impl Iterator<Item = memblock::PhysRange>) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for range in ranges {
        let (start, end) = (range.start().get(), range.end().get());
        match out.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => out.push((start, end)),
        }
    }
    out
}

#[test]
fn replaying_the_calls_behind_the_dump_gives_what_the_kernel_kept() {
    let (paths, mut compared) = (all(), 0);
    for path in &paths {
        let name = path.display();
        let capture = Capture::open(path).unwrap_or_else(|error| panic!("{error}"));
        let Some((memory, reserved)) = capture.memblock.clone() else {
            captures::skipped(&format!("{name}: the kernel kept no arrays"));
            continue;
        };
        // Only what the log says: what was kept is compared, not read.
        let log = capture.into_log().unwrap_or_else(|error| panic!("{error}"));
        let layout = MachineLayout::from_log(&log).unwrap_or_else(|error| panic!("{error}"));
        let ours = layout.memblock().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            joined(ours.memory().iter().map(|region| region.range())),
            joined(memory.regions().iter().map(|region| region.range)),
            "{name}"
        );
        let ours = joined(ours.reserved().iter().map(|region| region.range()));
        let kept = joined(reserved.regions().iter().map(|region| region.range));
        let missing: Vec<_> = kept
            .iter()
            .filter(|range| !ours.iter().any(|own| own.0 <= range.0 && range.1 <= own.1))
            .collect();
        eprintln!(
            "{name}: {} reserved at hand-over, {} kept, {missing:x?} not told of",
            ours.len(),
            kept.len()
        );
        if log.memblock.takeover_heard {
            assert!(missing.is_empty(), "{name}");
            compared += 1;
        } else {
            captures::skipped(&format!(
                "{name}: its console lost the lines before the hand-over"
            ));
        }
    }
    assert!(paths.is_empty() || compared > 0, "no log is whole");
}
