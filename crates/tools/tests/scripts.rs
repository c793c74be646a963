//! Lives that the fuzzer kept, those with a finding among them, end without one.

use std::path::Path;

use deferred_init::Topology;
use tools::soak::{Dice, Part, live};

/// As in the fuzzer: bytes of struct pages of a machine.
const MEMMAP: u64 = 1 << 20;

#[test]
fn lives_that_the_fuzzer_kept_end_without_a_finding() {
    let host = Topology::host().unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (folder, part) in [
        ("boot", Part::Boot),
        ("devices", Part::Devices),
        ("pages", Part::Pages),
    ] {
        let files: Vec<_> = std::fs::read_dir(corpus.join(folder)).unwrap().collect();
        assert!(!files.is_empty(), "{folder}");
        for file in files {
            let path = file.unwrap().path();
            let data = std::fs::read(&path).unwrap();
            let lived = live(&mut Dice::Bytes(&data), &host, part, MEMMAP);
            lived.unwrap_or_else(|finding| panic!("{}: {finding}", path.display()));
        }
    }
}
