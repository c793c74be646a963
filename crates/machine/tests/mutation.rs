//! Bytes turned over, lines doubled, cut and swapped: nothing panics, nothing grows without end.
//!
//! Bounded and with a fixed seed, so that it is the same everywhere; over the samples that fuzzing
//! begins with, and over a corpus of logs where one lies beside the project. What is done with each
//! input is what the fuzz targets do.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use machine::{Capture, MachineLayout, check};

#[expect(unreachable_pub, reason = "to the fuzz targets this is a crate")]
#[path = "../../../fuzz/src/readers.rs"]
mod readers;

/// What is done with one input.
type Reader = fn(&[u8]);

/// The fuzz targets by name.
const READERS: [(&str, Reader); 9] = [
    ("bootlog", readers::bootlog),
    ("lines", readers::lines),
    ("iomem", readers::iomem),
    ("zoneinfo", readers::zoneinfo),
    ("meminfo", readers::meminfo),
    ("memblock_array", readers::memblock_array),
    ("toml", readers::toml),
    ("sysfs", readers::sysfs),
    ("together", readers::together),
];

/// Numbers in a fixed order that looks random (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    const PIECES: [&[u8]; 16] = [
        b"0xffffffffffffffff",
        b"99999999999999999999999",
        b"-1",
        b"\0",
        b"\xff\xfe",
        b"\n",
        b"[mem ",
        b"]",
        b"node 65535: ",
        b"\x1b[",
        b"> > ",
        "é".as_bytes(),
        b"[    0.000000]",
        b"zone: ",
        b"\r\n",
        b"====\n",
    ];
    for _ in 0..1 + random.below(6) {
        let at = random.below(bytes.len() + 1);
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = b"0f9x- :[]\n"[random.below(10)],
            2 => {
                let end = (at + random.below(40)).min(bytes.len());
                bytes.drain(at..end);
            }
            3 => {
                let piece = PIECES[random.below(PIECES.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            4 => {
                let end = (at + random.below(200)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            _ => bytes.truncate(bytes.len() - random.below(bytes.len() / 8 + 1)),
        }
    }
}

fn run(name: &str, reader: Reader, seed: &[u8], rounds: usize, random: &mut Random) {
    for round in 0..=rounds {
        let mut bytes = seed.to_vec();
        if round > 0 {
            mutate(&mut bytes, random);
        }
        let result = catch_unwind(AssertUnwindSafe(|| reader(&bytes)));
        assert!(
            result.is_ok(),
            "{name} panicked over:\n{}",
            String::from_utf8_lossy(&bytes)
        );
    }
}

/// The files of a folder, ascending.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

#[test]
fn mutated_samples_break_no_reader() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus"));
    for (name, reader) in READERS {
        let samples = files(&corpus.join(name));
        assert!(!samples.is_empty(), "{name} has no sample");
        // Readers of folders write files for every input.
        let rounds = match name {
            "bootlog" | "lines" | "toml" | "meminfo" => 600,
            _ => 120,
        };
        for sample in samples {
            let bytes = std::fs::read(&sample).unwrap();
            run(name, reader, &bytes, rounds, &mut random);
        }
    }
}

#[test]
fn mutated_logs_of_a_corpus_break_no_reader() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for file in captures::files("dmesg", "txt") {
        let bytes = std::fs::read(&file).expect("a log can be read");
        let front = &bytes[..bytes.len().min(40_000)];
        run("bootlog", readers::bootlog, front, 3, &mut random);
    }
}

#[test]
fn what_no_kernel_prints_breaks_no_reader() {
    let long = "[mem 0x".to_owned() + &"f".repeat(1 << 20) + "]";
    let deep = "> ".repeat(100_000) + "[    0.000000] Zone ranges:";
    let hostile: [Vec<u8>; 8] = [
        Vec::new(),
        vec![0; 100_000],
        vec![0xff; 100_000],
        format!("BIOS-e820: {long} usable\nnode 0: {long}\nMemTotal: {long}\n{long} : System RAM\n").into(),
        deep.into(),
        b"Early memory node ranges\n  node 99999: [mem 0x0-0x1]\n  node 0: [mem 0x100000000000000000-0x200000000000000000]\n".to_vec(),
        b"Node 18446744073709551616, zone DMA\nspanned 99999999999999999999\nform = 99999999999999999999\n0: 0x0..0x1ffffffffffffffff\n".to_vec(),
        b"\xef\xbb\xbf\x1b[31m\r\r\n\x1b[\n\x1b".to_vec(),
    ];
    for (name, reader) in READERS {
        for input in &hostile {
            let result = catch_unwind(AssertUnwindSafe(|| reader(input)));
            assert!(
                result.is_ok(),
                "{name}: {:?}",
                String::from_utf8_lossy(&input[..input.len().min(80)])
            );
        }
    }
}

#[test]
fn a_hundred_thousand_ranges_are_read_in_any_order() {
    let mut text = String::from("BIOS-provided physical RAM map:\n");
    for i in (0..100_000u64).rev() {
        let start = 0x10_0000 + i * 0x3000;
        let _ = writeln!(
            text,
            "BIOS-e820: [mem {start:#x}-{:#x}] usable",
            start + 0xfff
        );
    }
    for node in 0..1000 {
        let start = node * 0x4000_0000u64;
        let _ = writeln!(
            text,
            "SRAT: Node {node} PXM {node} [mem {start:#x}-{:#x}]",
            start + 0x3fff_ffff
        );
    }
    text.push_str("On node 0 totalpages: 5\n");
    let capture = Capture::read("many", text.as_bytes()).unwrap();
    let layout = MachineLayout::from_capture(capture).unwrap();
    assert_eq!(layout.memory.len(), 100_000);
    assert!(layout.memblock().is_ok());
    let report = check::check(&layout);
    assert_eq!(report.error, None);
    assert_eq!(report.tally().differs, 1);
}
