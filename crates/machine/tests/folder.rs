//! Folders of files from one machine.

use std::fs;

use machine::{FolderError, MachineLayout, MemorySource};

const LOG: &str = "Linux version 6.12.9 (a@b) (x86_64-gcc)\nBIOS-provided physical RAM map:\n\
                   BIOS-e820: [mem 0x0000000000001000-0x000000000009ffff] usable\n\
                   BIOS-e820: [mem 0x0000000000100000-0x000000001fffffff] usable\n\
                   last_pfn = 0x20000 max_arch_pfn = 0x400000000\n";

#[test]
fn a_log_counts_and_what_disagrees_with_it_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("dmesg.txt"), LOG).unwrap();
    let agreeing = "00001000-0009ffff : System RAM\n00100000-1fffffff : System RAM\n";
    fs::write(folder.path().join("iomem"), agreeing).unwrap();
    let layout = MachineLayout::from_dir(folder.path()).unwrap();
    assert_eq!(layout.provenance.memory, MemorySource::FirmwareMap);
    assert_eq!(layout.provenance.contradictions, []);
    let other = "00001000-0009ffff : System RAM\n00100000-0fffffff : System RAM\n";
    fs::write(folder.path().join("iomem"), other).unwrap();
    let layout = MachineLayout::from_dir(folder.path()).unwrap();
    let [found] = &layout.provenance.contradictions[..] else {
        panic!("{:?}", layout.provenance.contradictions);
    };
    assert_eq!(found.range.start().get(), 0x1000_0000);
    assert!(
        found
            .to_string()
            .contains("/proc/iomem (line 1) has no memory"),
        "{found}"
    );
}

#[test]
fn an_empty_folder_says_what_to_put_there() {
    let folder = tempfile::tempdir().unwrap();
    let error = MachineLayout::from_dir(folder.path()).unwrap_err();
    assert!(matches!(error, FolderError::Nothing { .. }));
    assert!(error.to_string().contains("dmesg.txt"), "{error}");
}
