//! Bytes turned over, lines doubled, cut and swapped: nothing panics, nothing grows without end.
//!
//! Bounded and with a fixed seed, so that it is the same everywhere; over our own excerpts, and
//! over a sample of a corpus where one lies beside the project.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use machine::{Capture, Iomem, MachineLayout, MemblockArray, ZoneInfo, check};

const SEEDS: [&str; 4] = [
    "[    0.000000] BIOS-provided physical RAM map:\n\
     [    0.000000] BIOS-e820: [mem 0x0000000000000000-0x000000000009b7ff] usable\n\
     [    0.000000] BIOS-e820: [mem 0x0000000000100000-0x00000002717fffff]  System RAM\n\
     [    0.000000] BIOS-e820: [mem 0x0000000300000000-0x00000003ffffffff] persistent (type 7)\n\
     [    0.000000] e820: update [mem 0x00000000-0x00000fff] usable ==> reserved\n\
     [    0.000000] last_pfn = 0x271800 max_arch_pfn = 0x400000000\n\
     [    0.000000] SRAT: Node 0 PXM 0 [mem 0x00000000-0x7fffffff]\n\
     [    0.000000] ACPI: SRAT: Node 1 PXM 1 [mem 0x80000000-0x2ffffffff] hotplug\n\
     [    0.000000] Zone ranges:\n\
     [    0.000000]   DMA      [mem 0x0000000000001000-0x0000000000ffffff]\n\
     [    0.000000]   Normal   empty\n\
     [    0.000000] Movable zone start for each node\n\
     [    0.000000]   Node 1: 0x0000000100000000\n\
     [    0.000000] Early memory node ranges\n\
     [    0.000000]   node   0: [mem 0x0000000000001000-0x000000000009afff]\n\
     [    0.000000] On node 0 totalpages: 2561933\n\
     [    0.000000]   DMA zone: 64 pages used for memmap\n\
     [    0.000000]   DMA zone: 3998 pages, LIFO batch:0\n\
     [    0.000000] On node 0, zone DMA: 101 pages in unavailable ranges\n\
     [    0.000000] Built 2 zonelists, mobility grouping on.  Total pages: 2561933\n\
     [    0.000000] Memory: 1K/2K available (1K init, 3K reserved, 0K cma-reserved)\n",
    "MEMBLOCK configuration:\n memory size = 0x1 reserved size = 0x2\n memory.cnt  = 0x1\n \
     memory[0x0]\t[0x0000000040000000-0x000000007fffffff], 0x0000000040000000 bytes on node 0 flags: 0x4\n \
     reserved.cnt  = 0x1\n reserved[0x0]\t[0x0000000040200000-0x00000000411fffff], 0x0000000001000000 bytes flags: 0x20\n\
     __memblock_reserve: [0x0000000050000000-0x0000000050000fff] nid=-1 flags=20 f+0x1/0x2\n\
     memblock_remove: [0x00000000f0000000-0x0000000000000000] f+0x1/0x2\nSLUB: x\n",
    "Node 0, zone      DMA\n        spanned  4095\n        present  3998\n  start_pfn:           1\n",
    "00001000-0009ffff : System RAM\n  00002000-00002fff : Kernel code\n100000000-1ffffffff : System RAM\n",
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
    const PIECES: [&[u8]; 14] = [
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

/// Everything that reads, over the same bytes.
fn read_all(bytes: &[u8]) {
    if let Ok(capture) = Capture::read("mutated", bytes)
        && let Ok(layout) = MachineLayout::from_capture(capture)
    {
        let _ = layout.provenance.to_string();
        let _ = layout.memblock();
        let report = check::check(&layout);
        assert!(report.figures.len() <= 4 * bytes.len() + 100);
    }
    let _ = ZoneInfo::read("mutated", bytes);
    let _ = Iomem::read("mutated", bytes);
    let _ = MemblockArray::read("mutated", bytes);
}

fn run(seed: &[u8], rounds: usize, random: &mut Random) {
    for _ in 0..rounds {
        let mut bytes = seed.to_vec();
        mutate(&mut bytes, random);
        let result = catch_unwind(AssertUnwindSafe(|| read_all(&bytes)));
        assert!(
            result.is_ok(),
            "a reader panicked over:\n{}",
            String::from_utf8_lossy(&bytes)
        );
    }
}

#[test]
fn mutated_excerpts_panic_nowhere() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for seed in SEEDS {
        run(seed.as_bytes(), 1500, &mut random);
    }
}

#[test]
fn mutated_logs_of_a_corpus_panic_nowhere() {
    let folder = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/dmesg"
    ));
    let Ok(entries) = std::fs::read_dir(folder) else {
        eprintln!("SKIPPED: {} is not there", folder.display());
        return;
    };
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let bytes = std::fs::read(&file).unwrap_or_default();
        run(&bytes[..bytes.len().min(40_000)], 3, &mut random);
    }
}

#[test]
fn a_hundred_thousand_ranges_are_read_in_any_order() {
    use std::fmt::Write;
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
    let capture = Capture::read("many", text.as_bytes()).unwrap();
    let layout = MachineLayout::from_capture(capture).unwrap();
    assert_eq!(layout.memory.len(), 100_000);
    assert!(layout.memblock().is_ok());
}
