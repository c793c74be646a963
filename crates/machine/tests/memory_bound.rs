//! Memory that readers take is bounded by a constant times the input: what was allocated at most at
//! a time is counted, in a process of its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use machine::{Capture, Iomem, MachineLayout, MemblockArray, Meminfo, ZoneInfo, check};

/// The system's allocator, with what is taken and the most that ever was.
struct Counting;

static TAKEN: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on unchanged; the counters are not memory that is handed out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let taken = TAKEN.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(taken, Relaxed);
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that `body` had allocated at a time, bytes.
fn most(body: impl FnOnce()) -> usize {
    let before = TAKEN.load(Relaxed);
    MOST.store(before, Relaxed);
    body();
    MOST.load(Relaxed) - before
}

/// Reading takes at most this many bytes for one of the input, and this much besides.
const READING: usize = 24;
/// Working out and comparing all figures, for every combination of what the log does not say.
const CHECKING: usize = 160;
const BESIDES: usize = 1 << 20;

fn lines(count: u64, line: impl Fn(u64, &mut String)) -> String {
    let mut text = String::new();
    for number in 0..count {
        line(number, &mut text);
        text.push('\n');
    }
    text
}

/// Logs that are nothing but one kind of line, as short as it can be.
fn logs() -> Vec<(&'static str, String)> {
    let many = 30_000;
    let arm = "Linux version 5.9.0 (a@b) (aarch64-gcc)\nEarly memory node ranges\n node 0: [mem 0x0-0xfffffff]\n";
    vec![
        (
            "early ranges",
            format!(
                "Early memory node ranges\n{}",
                lines(many, |n, out| {
                    let _ = write!(
                        out,
                        "node {}: [mem {:#x}-{:#x}]",
                        n % 9,
                        n << 20,
                        (n << 20) + 0xffff
                    );
                })
            ),
        ),
        (
            "holes",
            format!(
                "{arm}{}",
                lines(many, |n, out| {
                    let _ = write!(out, "On node 0, zone DMA: {n} pages in unavailable ranges");
                })
            ),
        ),
        (
            "totals",
            format!(
                "{arm}{}",
                lines(many, |n, out| {
                    let _ = write!(out, "On node {} totalpages: {n}", n % 60_000);
                })
            ),
        ),
        (
            "zone pages",
            format!(
                "{arm}{}",
                lines(many, |n, out| {
                    let _ = write!(out, "DMA: {n} pages, LIFO batch:1");
                })
            ),
        ),
        (
            "firmware map",
            format!(
                "BIOS-provided physical RAM map:\n{}",
                lines(many, |n, out| {
                    let _ = write!(
                        out,
                        "BIOS-e820: [mem {:#x}-{:#x}] usable",
                        n << 20,
                        (n << 20) + 0xffff
                    );
                })
            ),
        ),
        (
            "headings of dumps",
            format!("{arm}{}", "MEMBLOCK configuration:\n".repeat(many as usize)),
        ),
        (
            "calls",
            format!(
                "{arm}{}",
                lines(many, |n, out| {
                    let _ = write!(out, "memblock_reserve: [{n:#x}-{n:#x}]");
                })
            ),
        ),
        (
            "affinity",
            format!(
                "{arm}{}",
                lines(many, |n, out| {
                    let _ = write!(out, "SRAT: Node 0 PXM 0 {n:x}-{:x}", n + 1);
                })
            ),
        ),
        (
            "fallback orders",
            format!(
                "{arm}{}",
                lines(many / 10, |_, out| {
                    let _ = write!(out, "Fallback order for Node 0: {}", "1 ".repeat(100));
                })
            ),
        ),
        (
            "garbled lines",
            format!("{arm}{}", "On node x\n".repeat(many as usize)),
        ),
        (
            "reservations",
            format!(
                "{arm}{}",
                lines(many, |n, out| {
                    let _ = write!(out, "RAMDISK: {n:x} - {:x}", n + 1);
                })
            ),
        ),
        (
            "one long line",
            format!("{arm}On node 0 {}", "9".repeat(1 << 20)),
        ),
        ("empty lines", format!("{arm}{}", "\n".repeat(1 << 20))),
    ]
}

#[test]
fn memory_is_bounded_by_a_constant_times_the_input() {
    for (name, text) in logs() {
        let bytes = text.as_bytes();
        let mut layout = None;
        let reading = most(|| {
            let capture = Capture::read("input", bytes).unwrap();
            layout = MachineLayout::from_capture(capture).ok();
        });
        eprintln!("{name}: {} bytes, reading {reading}", bytes.len());
        assert!(
            reading <= READING * bytes.len() + BESIDES,
            "{name}: {reading} of {}",
            bytes.len()
        );
        let Some(layout) = layout else {
            continue;
        };
        let checking = most(|| drop(black_box(check::check(&layout))));
        eprintln!("{name}: checking {checking}");
        assert!(
            checking <= CHECKING * bytes.len() + BESIDES,
            "{name}: {checking} of {}",
            bytes.len()
        );
    }
    let iomem = "0-1 : a\n".repeat(30_000);
    let zoneinfo = "Node 0, zone DMA\n".repeat(30_000);
    let array = "0: 0..1\n".repeat(30_000);
    let toml = format!(
        "form = 1\n{}",
        "[[memory]]\nstart=0\nend=0\n".repeat(30_000)
    );
    type Reader = fn(&str);
    let others: [(&str, &str, Reader); 5] = [
        ("iomem", &iomem, |text| {
            drop(black_box(Iomem::read("x", text.as_bytes())))
        }),
        ("zoneinfo", &zoneinfo, |text| {
            drop(black_box(ZoneInfo::read("x", text.as_bytes())))
        }),
        ("meminfo", &iomem, |text| {
            drop(black_box(Meminfo::read("x", text.as_bytes())))
        }),
        ("array", &array, |text| {
            drop(black_box(MemblockArray::read("x", text.as_bytes())))
        }),
        ("toml", &toml, |text| {
            drop(black_box(MachineLayout::from_toml("x", text)))
        }),
    ];
    for (name, text, read) in others {
        let reading = most(|| read(text));
        eprintln!("{name}: {} bytes, reading {reading}", text.len());
        assert!(
            reading <= READING * text.len() + BESIDES,
            "{name}: {reading} of {}",
            text.len()
        );
    }
}
