//! Every call of the system fails at its n-th time, for every n, and what comes of it.
//!
//! One test in a process of its own: it counts what the process holds. It leaves a table, a line a
//! kind of failure, as `target/faults.md`.

#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "all calls of the scenario in C rest on one promise: every pointer is its own"
)]

mod c_interface;
mod records;
mod scenarios;
mod table;

use std::error::Error;

use sys::seam::Faults;
use sys::{Call, Errno, SysError};
use tools::soak::Census;

use c_interface::Told;
use scenarios::{SCENARIOS, Scenario};
use table::Table;

/// What a call fails with: for each a failure that it does have, and one that nobody expects.
fn errnos(call: Call) -> [i32; 2] {
    match call {
        Call::Mmap | Call::Munmap | Call::Mprotect | Call::Madvise => [libc::ENOMEM, libc::EINVAL],
        Call::Mbind | Call::MovePages | Call::SchedSetaffinity => [libc::EPERM, libc::ENOSYS],
        Call::Spawn => [libc::EAGAIN, libc::ENOMEM],
        Call::Open | Call::Read => [libc::ENOENT, libc::EACCES],
        Call::Write | Call::Fdatasync => [libc::ENOSPC, libc::EIO],
        _ => [libc::ENOSYS, libc::ENOMEM],
    }
}

/// The system's refusal at the bottom of an error.
fn refusal<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e SysError> {
    let mut at = Some(error);
    while let Some(error) = at {
        // an error of the standard library's own type holds ours, but does not name it as its source
        let inside = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
            .and_then(|inside| inside.downcast_ref::<SysError>());
        if let Some(found) = error.downcast_ref::<SysError>().or(inside) {
            return Some(found);
        }
        at = error.source();
    }
    None
}

/// Runs a scenario in which the n-th call of a kind fails; its outcome in words, or `None` where
/// there is no n-th call.
fn once(scenario: &Scenario, call: Call, nth: u64, errno: i32) -> Option<String> {
    let faults = Faults::new().fail(call, nth, errno);
    let scope = faults.enter();
    let result = (scenario.run)();
    drop(scope);
    if faults.calls(call) < nth {
        assert!(
            result.is_ok(),
            "{}: no fault, yet {result:?}",
            scenario.name
        );
        return None;
    }
    Some(match result {
        Ok(went_on) => went_on,
        Err(error) if error.is::<Told>() => {
            // C gets a status, and the rest in words
            let text = error.to_string();
            for word in [call.name(), &Errno(errno).to_string()] {
                assert!(
                    text.contains(word),
                    "{}: {call} {nth}: {text}",
                    scenario.name
                );
            }
            format!("error: {}", text.split(' ').next().unwrap_or_default())
        }
        Err(error) => {
            let what = refusal(error.as_ref());
            let what = what.unwrap_or_else(|| {
                panic!(
                    "{}: {call} {nth} gives `{error}`, which names no call",
                    scenario.name
                )
            });
            assert_eq!(
                (what.call(), what.errno()),
                (Some(call), Some(Errno(errno))),
                "{}: the error is of another call",
                scenario.name
            );
            let text = what.to_string();
            assert!(text.contains(call.name()), "{text}");
            format!("error: {}", scenarios::kind(error.as_ref()))
        }
    })
}

/// What the process holds now that all threads of a scenario are gone.
fn census(threads: usize) -> Census {
    // a joined thread is listed for a moment longer
    for _ in 0..100_000 {
        let census = Census::take().unwrap();
        if census.threads <= threads {
            return census;
        }
        std::thread::yield_now();
    }
    Census::take().unwrap()
}

/// Nothing of a case stays. A thread's first allocation may map memory that the process keeps: a
/// case after which there is more is run again and again, and what grows with it leaks.
fn assert_nothing_stays(before: Census, scenario: &Scenario, call: Call, nth: u64, errno: i32) {
    let after = census(before.threads);
    let which = format!("{}: {call} {nth} ({})", scenario.name, Errno(errno));
    assert_eq!(after.files, before.files, "{which} leaves files open");
    assert_eq!(after.threads, before.threads, "{which} leaves threads");
    if after.mappings > before.mappings {
        const AGAIN: usize = 12;
        for _ in 0..AGAIN {
            once(scenario, call, nth, errno);
        }
        let later = census(before.threads);
        assert!(
            later.mappings < after.mappings + AGAIN,
            "{which} leaves mappings: {before}, then {after}, then {later}"
        );
    }
}

#[test]
fn every_call_may_fail_at_any_time() {
    let mut table = Table::default();
    for scenario in SCENARIOS {
        for _ in 0..3 {
            (scenario.run)().unwrap();
        }
        for call in Call::ALL {
            for errno in errnos(call) {
                let mut nth = 1;
                loop {
                    let before = Census::take().unwrap();
                    let Some(outcome) = once(scenario, call, nth, errno) else {
                        break;
                    };
                    table.add(scenario.name, call, errno, nth, outcome);
                    assert_nothing_stays(before, scenario, call, nth, errno);
                    nth += 1;
                }
            }
        }
    }
    let errors = table.count(|outcome| outcome.starts_with("error"));
    let absorbed = table.count(|outcome| !outcome.starts_with("error"));
    assert!(errors > 0 && absorbed > 0, "{table}");
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/../faults.md");
    std::fs::write(path, table.to_string()).unwrap();
    eprintln!("{errors} faults lead to errors, {absorbed} are gone around; see target/faults.md");
}
