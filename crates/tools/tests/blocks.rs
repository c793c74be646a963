//! Free blocks of every capture that is at hand beside ours.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use machine::MachineLayout;
use memmap_core::{BackingOptions, BootOptions, Geometry, MemoryMap, writers};
use tools::blocks::{BlocksOutcome, CapturedBlocks};

fn compare(path: &Path) -> Result<BlocksOutcome, Box<dyn std::error::Error>> {
    let layout = MachineLayout::open(path)?;
    let command_line = layout.command_line.as_deref().unwrap_or_default();
    let mut options = BootOptions::from_command_line(command_line)?;
    options.memoryless = layout.memoryless.clone();
    let geometry = Geometry::new(&layout.profile(), &layout.memblock()?, &options)?;
    let map = MemoryMap::new(geometry, BackingOptions::default())?;
    let writer = writers::by_name("template").ok_or("there is a writer of that name")?;
    for section in map.geometry().sections().iter() {
        let mut claim = map.claim(section).ok_or("nobody else claims")?;
        claim.write(writer);
        claim.publish();
    }
    let captured = CapturedBlocks::read(BufReader::new(File::open(path)?))?;
    Ok(captured.compare(map))
}

fn all(folder: &str) -> Vec<(String, BlocksOutcome)> {
    captures::files(folder, "txt")
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let outcome = compare(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
            println!(
                "{name:28} heads {}, compared {}, equal {}, missing {}; buddyinfo {:?}; managed {:?}",
                outcome.listed,
                outcome.compared,
                outcome.equal,
                outcome.missing,
                outcome.buddyinfo,
                outcome.managed,
            );
            for note in &outcome.notes {
                println!("    {note}");
            }
            (name, outcome)
        })
        .collect()
}

#[test]
fn free_blocks_of_amd64_and_arm64_captures_are_ours() {
    let outcomes = all("golden");
    for (name, outcome) in &outcomes {
        assert!(outcome.is_equal(), "{name}");
        assert!(outcome.compared > outcome.listed / 3, "{name}");
        if name.starts_with('k') && name.ends_with("-1n-2g.txt") {
            assert!(outcome.buddyinfo.0 > 0, "{name}: zone DMA was not compared");
        }
    }
}

#[test]
fn free_blocks_of_other_architectures_captures_are_ours() {
    for (name, outcome) in all("golden-other") {
        assert!(outcome.is_equal(), "{name}");
        assert!(outcome.compared > outcome.listed / 3, "{name}");
    }
}
