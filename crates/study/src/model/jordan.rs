//! The models held against what somebody else measured.
//!
//! Daniel Jordan, "padata: parallelize deferred page init", version 3 of 27 May 2020, patch 6 of 8 (Linux
//! memory management list): milliseconds of deferred initialisation of the slowest node by threads of
//! the node, with the standard deviation that he gives where he gives one. 0 threads is the kernel
//! without the series: one thread.
//!
//! Three rows of each machine (first, about a quarter of the threads, all) calibrate, then the others are
//! predicted ([`Held`]).

use super::{Held, Point};

struct Machine {
    name: &'static str,
    rows: &'static [(f64, f64)],
    /// The largest relative deviation of one row's own runs, where it is published.
    own_deviation: f64,
    /// Whether the model meets what is asked of it there.
    met: bool,
}

const MACHINES: &[Machine] = &[
    Machine {
        name: "Xeon Platinum 8167M, bare metal, 384 GiB a node",
        rows: &[
            (0.0, 1785.7),
            (1.0, 1717.7),
            (6.0, 359.3),
            (13.0, 157.0),
            (19.0, 172.0),
            (26.0, 173.7),
            (39.0, 190.0),
            (52.0, 138.0),
        ],
        // 172.0 ± 28.6 with 19 threads, 173.7 ± 30.0 with 26
        own_deviation: 0.17,
        // from 13 threads on time goes up, then down: no model of three rows can know
        met: false,
    },
    Machine {
        name: "E5-2699C v4, kvm guest, 192 GiB",
        rows: &[
            (0.0, 1096.0),
            (4.0, 287.0),
            (8.0, 177.0),
            (12.0, 144.7),
            (16.0, 134.0),
            (24.0, 130.3),
            (32.0, 125.7),
        ],
        own_deviation: 0.0,
        met: true,
    },
    Machine {
        name: "E5-2699 v3, bare metal, 128 GiB a node",
        rows: &[
            (0.0, 627.0),
            (4.0, 201.0),
            (9.0, 114.3),
            (13.0, 100.3),
            (18.0, 101.0),
            (27.0, 97.3),
            (36.0, 90.0),
        ],
        own_deviation: 0.0,
        met: true,
    },
    Machine {
        name: "EPYC 7551, kvm guest, 64 GiB",
        rows: &[
            (0.0, 240.7),
            (2.0, 133.0),
            (4.0, 90.0),
            (6.0, 74.3),
            (8.0, 65.3),
            (12.0, 48.7),
            (16.0, 47.0),
        ],
        own_deviation: 0.0,
        met: true,
    },
];

fn hold(machine: &Machine) -> Held {
    let points: Vec<Point> = machine
        .rows
        .iter()
        .map(|(threads, time)| Point {
            threads: threads.max(1.0),
            time: *time,
        })
        .collect();
    Held::of(&points).unwrap()
}

#[test]
fn three_rows_of_each_published_machine_predict_the_others() {
    for machine in MACHINES {
        let held = hold(machine);
        let report = format!(
            "{}: {}; {held}; its own runs deviate by {:.0} %; max(t1/n, t_all): {}",
            machine.name,
            held.model,
            machine.own_deviation * 100.0,
            held.bound
        );
        eprintln!("{report}");
        assert_eq!(held.errors.each.len(), machine.rows.len() - 3, "{report}");
        let met = held.errors.median <= 0.15 && held.errors.largest <= 0.25;
        assert_eq!(met, machine.met, "{report}");
        assert_eq!(!met, report.contains("MISSED"), "a miss is told");
        // a miss beyond what the machine itself wavers by would be the model's
        if !met {
            assert!(machine.own_deviation >= 0.15, "{report}");
            assert!(
                held.errors.largest <= 0.25 + machine.own_deviation,
                "{report}"
            );
        }
        assert!(held.errors.median < held.bound.median, "{report}");
    }
}
