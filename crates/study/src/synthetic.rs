//! Made-up records: for tests of what is said of a study, and to try a report without a machine.
//!
//! ```
//! use study::synthetic;
//!
//! // two writers on 1 and 2 threads; `zero` takes twice as long as `stream`, in every round
//! let records = synthetic::study(61, |settings, _round| {
//!     let ms = match settings.writer.as_str() { "zero" => 2.0, _ => 1.0 };
//!     Some(ms * 1e6 / settings.threads as f64)
//! });
//! assert_eq!(records.len(), 61 * 7, "a reference, a limit and two writers a number of threads");
//! ```

use crate::record::{
    Booted, Counters, Host, HostNode, Layout, NodeTime, Placed, Record, Role, SCHEMA, SectionTime,
    Settings, WorkerTime,
};

/// A record with a value in every field.
pub fn record() -> Record {
    let pages = 32768 * 4;
    Record {
        schema: SCHEMA,
        study: "made-up".into(),
        design: "0123456789abcdef".into(),
        session: 0,
        round: 0,
        place: 0,
        began_ms: 1_700_000_000_000,
        role: Role::Cell,
        layout: Layout {
            source: "made-up machine".into(),
            profile: "amd64 6.18, 4 KiB pages".into(),
            memory: pages * 4096,
            nodes: 1,
            sections: 4,
            pages,
            page_struct_bytes: 64,
        },
        settings: settings(1, "zero"),
        fill: None,
        refused: None,
        map_ns: 10_000,
        fault_ns: 2_000_000,
        huge_bytes: Some(0),
        write_ns: 1_000_000,
        boot: None,
        nodes: vec![NodeTime {
            node: 0,
            pages,
            ns: 1_000_000,
        }],
        workers: vec![WorkerTime {
            name: "n0/w0".into(),
            cpu: 0,
            sections: 4,
            pages,
            busy_ns: 990_000,
        }],
        sections: (0..4)
            .map(|section| SectionTime {
                section,
                count: 1,
                worker: 0,
                begin_ns: section * 250_000,
                ns: 240_000,
            })
            .collect(),
        placed: vec![Placed {
            node: 0,
            on: 0,
            pages: 1024,
        }],
        counters: Counters {
            absent: "made up".into(),
            ..Counters::default()
        },
        traced: false,
        host: Host {
            name: "made-up".into(),
            kernel: "6.18.0".into(),
            machine: "x86_64".into(),
            cpu: "Made-up CPU".into(),
            cpus: 2,
            online_cpus: 2,
            packages: 1,
            cores: 2,
            l3_groups: 1,
            cache: 1 << 20,
            nodes: vec![HostNode {
                node: 0,
                cpus: "0-1".into(),
                allowed: 2,
                memory: 8 << 30,
            }],
            distances: vec![vec![10]],
            topology: "made by hand".into(),
            memory: 8 << 30,
            version: env!("CARGO_PKG_VERSION").into(),
            commit: "0".into(),
            ..Host::default()
        },
    }
}

/// So many threads and this writer; all else as by default.
pub fn settings(threads: u64, writer: &str) -> Settings {
    Settings {
        threads,
        nodes: Vec::new(),
        placement: "first-touch".into(),
        scheduler: "deque".into(),
        policy: "eager".into(),
        writer: writer.into(),
        pages: "system".into(),
    }
}

/// Boots by the policies deferred and lazy on 2 threads, with an eager one beside them, in `rounds`
/// rounds.
///
/// `time` says how many nanoseconds it takes in a round until the first page is usable, until all is
/// done, and how long the worst stretch of a CPU is.
pub fn boots(rounds: u64, time: impl Fn(&Settings, u64) -> [f64; 3]) -> Vec<Record> {
    let contestants = [
        (Role::BootReference, "eager", 1),
        (Role::Boot, "deferred", 2),
        (Role::Boot, "lazy", 2),
    ];
    let mut records = Vec::new();
    for round in 0..rounds {
        for (place, (role, policy, threads)) in contestants.into_iter().enumerate() {
            let settings = Settings {
                policy: policy.to_owned(),
                ..settings(threads, "stream")
            };
            let [first, total, worst] = time(&settings, round);
            let place = place as u64;
            records.push(Record {
                role,
                round,
                place,
                settings,
                map_ns: 0,
                fault_ns: 0,
                write_ns: 0,
                boot: Some(Booted {
                    first_usable_ns: first as u64,
                    total_ns: total as u64,
                    worst_stretch_ns: worst as u64,
                    sections_first: if policy == "eager" { 4 } else { 1 },
                    sections: 4,
                }),
                nodes: Vec::new(),
                workers: Vec::new(),
                sections: Vec::new(),
                placed: Vec::new(),
                began_ms: 1_700_000_000_000 + round * 1000 + place,
                ..record()
            });
        }
    }
    records
}

/// Writers `zero` and `stream` on 1 and 2 threads in `rounds` rounds, with the limit for each number
/// of threads and a reference (`zero` on 2 threads).
///
/// `time` says how many nanoseconds a run takes in a round; `None` leaves its record out.
pub fn study(rounds: u64, time: impl Fn(&Settings, u64) -> Option<f64>) -> Vec<Record> {
    let contestants = [
        (Role::Reference, settings(2, "zero")),
        (Role::Limit, settings(1, "limit")),
        (Role::Cell, settings(1, "zero")),
        (Role::Cell, settings(1, "stream")),
        (Role::Limit, settings(2, "limit")),
        (Role::Cell, settings(2, "zero")),
        (Role::Cell, settings(2, "stream")),
    ];
    let mut records = Vec::new();
    for round in 0..rounds {
        for (place, (role, settings)) in contestants.iter().enumerate() {
            let Some(ns) = time(settings, round) else {
                continue;
            };
            let mut record = Record {
                role: *role,
                round,
                place: place as u64,
                settings: settings.clone(),
                fill: (settings.writer == "limit").then(|| "stream-constant".to_owned()),
                write_ns: ns as u64,
                ..record()
            };
            record.began_ms += round * 1000 + place as u64;
            if round > 0 {
                record.sections.clear();
            }
            records.push(record);
        }
    }
    records
}
