//! Runs that are killed, interrupted or lose a worker, at every section boundary of a small map, and
//! what completes them.
//!
//! Processes are this very program with a variable of the environment that says what to do.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use deferred_init::engine::{CancelToken, Engine, Outcome, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::schedule;
use deferred_init::topology::synthetic;
use deferred_init::workers::{Pinning, WorkerChoice};
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::writers::{self, PageWriter};
use memmap_core::{
    BackingKind, BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, PageImage,
    Profile, SectionNr, SectionState,
};

/// Sections of the small map.
const SECTIONS: u64 = 9;

fn map() -> MemoryMap {
    let profile = Profile::ppc64_64k(KernelVersion::V6_12);
    let section = profile.pages_per_section() * profile.page_size();
    let mut memory = Memblock::new(Behaviour::V6_12);
    for (node, start, end) in [(0, 0, 5), (1, 5, SECTIONS)] {
        let range = PhysRange::new(PhysAddr::new(start * section), PhysAddr::new(end * section));
        memory
            .add_node(range, NodeId::new(node), MemblockFlags::empty())
            .unwrap();
    }
    // something else than one image a section
    let reserved = PhysRange::from_size(PhysAddr::new(2 * section + (5 << 16)), 9 << 16);
    memory.reserve(reserved).unwrap();
    let geometry = Geometry::new(&profile, &memory, &BootOptions::default()).unwrap();
    let mut options = BackingOptions::default();
    options.kind = BackingKind::Heap;
    options.poison = true;
    MemoryMap::new(geometry, options).unwrap()
}

fn template() -> &'static dyn PageWriter {
    writers::by_name("template").unwrap()
}

fn options<'a>(writer: &'a dyn PageWriter, threads: usize) -> RunOptions<'a> {
    let mut options = RunOptions::new(writer);
    options.grain = Some(1);
    options.workers = WorkerChoice {
        oversubscribe: true,
        pinning: Pinning::Off,
        ..WorkerChoice::threads(threads)
    };
    options
}

fn engine() -> Engine {
    Engine::new(synthetic::parse("numa:2(memory=1G) core:2").unwrap())
}

fn words(map: &mut MemoryMap) -> Vec<u64> {
    let sections: Vec<SectionNr> = map.geometry().sections().iter().collect();
    let words = sections
        .into_iter()
        .flat_map(|section| map.section_words(section).expect("ready").to_vec());
    words.collect::<Vec<u64>>()
}

/// An uninterrupted run.
fn wanted() -> Vec<u64> {
    let mut map = map();
    let plan = Plan::new(map.geometry()).unwrap();
    let report = engine().run(&map, &plan, &options(template(), 1)).unwrap();
    assert_eq!(report.total().sections, SECTIONS);
    words(&mut map)
}

/// A worker that vanishes in the middle of its section, without unwinding, as a thread that is killed.
#[test]
fn a_killed_worker_s_section_is_taken_back_and_the_run_resumed() {
    let wanted = wanted();
    for at in 0..SECTIONS {
        let mut map = map();
        let pages = map.geometry().sections().pages_per_section();
        let size = map.struct_page_size().words() as u64;
        for section in 0..=at {
            let mut claim = map.claim(SectionNr(section)).unwrap();
            if section == at {
                // half a section, and no more
                let half = memblock::PfnRange::new(
                    claim.pfns().start(),
                    claim.pfns().start().saturating_add(pages / 2),
                );
                let words = claim.struct_pages_mut(half).unwrap();
                assert_eq!(words.len() as u64, pages / 2 * size);
                words.fill(0x5a5a);
                std::mem::forget(claim);
            } else {
                claim.write(template());
                claim.publish();
            }
        }
        let plan = Plan::new(map.geometry()).unwrap();
        let rest = engine().run(&map, &plan, &options(template(), 3)).unwrap();
        // all that could be done is done; what is claimed does not look finished
        assert_eq!(rest.total().sections, SECTIONS - at - 1);
        assert_eq!(map.section_state(SectionNr(at)), SectionState::Claimed);
        assert!(!map.is_complete());
        assert_eq!(map.recover(), 1);
        let last = engine().run(&map, &plan, &options(template(), 2)).unwrap();
        assert_eq!((last.total().sections, last.left()), (1, 0));
        assert!(words(&mut map) == wanted, "killed at section {at}");
    }
}

/// Panics, or cancels, when the n-th section is begun or has just been written.
#[derive(Debug)]
struct Boundary {
    at: u64,
    after: bool,
    cancel: Option<CancelToken>,
    calls: AtomicU64,
}

impl Boundary {
    fn strike(&self) {
        match &self.cancel {
            Some(token) => token.cancel(),
            None => std::panic::resume_unwind(Box::new("on purpose")),
        }
    }
}

impl PageWriter for Boundary {
    fn name(&self) -> &'static str {
        "boundary"
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        let struck = self.calls.fetch_add(1, Ordering::Relaxed) == self.at;
        if struck && !self.after {
            self.strike();
        }
        template().write(image, pages);
        if struck && self.after {
            self.strike();
        }
    }
}

#[test]
fn after_a_panic_or_a_cancel_at_any_boundary_a_resumed_run_leaves_the_same_bytes() {
    let wanted = wanted();
    // section 2 is written in three calls: every one of them is a boundary
    let calls = SECTIONS + 2;
    for scheduler in schedule::all() {
        for (at, kind) in (0..calls).flat_map(|at| (0..4).map(move |kind| (at, kind))) {
            let token = CancelToken::new();
            let boundary = Boundary {
                at,
                after: kind % 2 == 1,
                cancel: (kind < 2).then(|| token.clone()),
                calls: AtomicU64::new(0),
            };
            let mut map = map();
            let plan = Plan::new(map.geometry()).unwrap();
            let mut first = options(&boundary, 3).scheduler(*scheduler);
            first.cancel = token;
            let report = engine().run(&map, &plan, &first).unwrap();
            let what = format!("{} at {at}, kind {kind}: {report}", scheduler.name());
            match &report.outcome {
                Outcome::Panicked { message, .. } if kind >= 2 => {
                    assert_eq!(message, "on purpose", "{what}");
                    assert!(report.left() > 0, "{what}");
                }
                Outcome::Cancelled if kind < 2 => {}
                // the last sections were under way already
                Outcome::Complete if kind < 2 => assert_eq!(report.left(), 0, "{what}"),
                _ => panic!("{what}"),
            }
            let rest = engine().run(&map, &plan, &options(template(), 2)).unwrap();
            let both = report.total().sections + rest.total().sections;
            assert_eq!(both, SECTIONS, "{what}");
            assert!(words(&mut map) == wanted, "{what}");
        }
    }
}

const ROLE: &str = "DEFERRED_INIT_TEST_ROLE";

/// A number for all words.
fn digest(words: &[u64]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, word| {
        (sum ^ word)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(17)
    })
}

/// At the n-th call: dies, or says so and goes on once it was interrupted.
#[derive(Debug)]
struct Struck {
    at: u64,
    dies: bool,
    cancel: CancelToken,
    calls: AtomicU64,
}

impl PageWriter for Struck {
    fn name(&self) -> &'static str {
        "struck"
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.at {
            if self.dies {
                std::process::abort();
            }
            println!("interrupt me");
            while !self.cancel.is_cancelled() {
                std::thread::yield_now();
            }
        }
        template().write(image, pages);
    }
}

/// What a child does; nothing where this process is none.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (what, at) = role.split_once(' ').unwrap();
    let cancel = CancelToken::new();
    let handler = cancel.clone();
    ctrlc::set_handler(move || handler.cancel()).unwrap();
    let struck = Struck {
        at: at.parse().unwrap(),
        dies: what == "die",
        cancel: cancel.clone(),
        calls: AtomicU64::new(0),
    };
    let mut map = map();
    let plan = Plan::new(map.geometry()).unwrap();
    let mut first = options(&struck, 2);
    first.cancel = cancel;
    let report = engine().run(&map, &plan, &first).unwrap();
    println!("{}: {} left", report.outcome, report.left());
    let rest = engine().run(&map, &plan, &options(template(), 2)).unwrap();
    assert_eq!(report.total().sections + rest.total().sections, SECTIONS);
    println!("digest {:x}", digest(&words(&mut map)));
}

fn start(what: &str, at: u64) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, format!("{what} {at}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_process_that_is_interrupted_at_any_section_reports_and_resumes() {
    let wanted = format!("digest {:x}", digest(&wanted()));
    for at in 0..SECTIONS + 2 {
        let mut child = start("wait", at);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        for line in lines.by_ref().map_while(Result::ok) {
            if line.contains("interrupt me") {
                let pid = child.id().to_string();
                let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
                assert!(sent.success());
            }
            said.push(line);
        }
        assert!(child.wait().unwrap().success(), "{said:?}");
        let all = said.join("\n");
        assert!(all.contains("interrupt me"), "{all}");
        assert!(all.contains("left"), "{all}");
        assert!(
            all.contains("cancelled: ") || all.contains("complete: 0 left"),
            "{all}"
        );
        assert!(all.contains(&wanted), "at {at}: {all}");
    }
}

#[test]
fn a_process_that_is_killed_at_any_section_leaves_nothing_in_the_way_of_the_next() {
    let wanted = format!("digest {:x}", digest(&wanted()));
    for at in 0..SECTIONS + 2 {
        let died = start("die", at).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&died.stdout);
        assert!(!died.status.success() && !said.contains("digest"), "{said}");
        // beyond the last call nothing strikes
        let again = start("die", u64::MAX).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() && said.contains(&wanted), "{said}");
    }
}
