//! Any sequence of calls ends as the header says: sequences of the fuzzer's, and drawn ones.

#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "all calls of a sequence rest on one promise: every pointer is the script's own"
)]

mod calls;

use std::path::Path;

#[test]
fn sequences_that_the_fuzzer_kept_end_as_the_header_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/c_abi");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert!(!files.is_empty());
    for file in files {
        calls::any_calls(&std::fs::read(file.unwrap().path()).unwrap());
    }
}

#[test]
fn drawn_sequences_end_as_the_header_says() {
    for seed in 0..150 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut data = vec![0; 900];
        rng.fill(&mut data);
        eprintln!("seed {seed}");
        calls::any_calls(&data);
    }
}
