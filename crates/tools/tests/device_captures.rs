//! Every capture with device memory, where captures lie beside the workspace.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use machine::MachineLayout;
use memblock::{NodeId, PfnRange};
use memmap_core::{BootOptions, Geometry};
use tools::device_golden::compare;

#[test]
fn every_struct_page_of_every_captured_device_is_ours() -> Result<(), Box<dyn std::error::Error>> {
    let paths = captures::files("golden", "txt");
    let mut devices = 0;
    for path in &paths {
        devices += check(path)?;
    }
    eprintln!("{devices} devices in {} captures are equal", paths.len());
    assert!(
        paths.is_empty() || devices > 0,
        "no capture has device memory"
    );
    Ok(())
}

fn check(path: &Path) -> Result<usize, Box<dyn std::error::Error>> {
    let text = std::fs::read(path)?;
    if !text.windows(14).any(|window| window == b"@@pages.device") {
        return Ok(0);
    }
    let layout = MachineLayout::open(path)?;
    let profile = layout.profile();
    let geometry = Geometry::new(&profile, &layout.memblock()?, &BootOptions::default())?;
    let section = profile.pages_per_section();
    let boot: Vec<PfnRange> = geometry
        .sections()
        .iter()
        .map(|number| number.pfns(section))
        .collect();
    let node_of = |pfn| {
        let mut nodes = geometry.nodes().iter();
        let node = nodes.rfind(|node| node.span.contains(pfn));
        node.map_or(NodeId::new(0), |node| node.id)
    };
    let found = compare(BufReader::new(File::open(path)?), &profile, node_of, &boot)?;
    eprintln!(
        "{}: {} devices, {} of {} struct pages equal, {} never written",
        path.display(),
        found.devices.len(),
        found.equal,
        found.compared,
        found.unwritten
    );
    assert!(found.is_equal(), "{}: {:#?}", path.display(), found.notes);
    assert!(found.compared > 0, "{}", path.display());
    Ok(found.devices.len())
}
