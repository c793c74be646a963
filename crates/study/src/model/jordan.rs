//! The models held against what somebody else measured.
//!
//! Daniel Jordan, "padata: parallelize deferred page init", version 3 of 27 May 2020, patch 6 of 8 (Linux
//! memory management list): milliseconds of deferred initialisation of the slowest node by threads of
//! the node, with the standard deviation that he gives where he gives one. 0 threads is the kernel
//! without the series: one thread.
//!
//! Three rows of each machine (first, about a quarter of the threads, all) calibrate; [`choose`] sees no
//! other. Then the others are predicted.

use super::{Errors, Point, choose};

struct Machine {
    name: &'static str,
    rows: &'static [(f64, f64)],
    quarter: f64,
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
        quarter: 13.0,
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
        quarter: 8.0,
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
        quarter: 9.0,
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
        quarter: 4.0,
        own_deviation: 0.0,
        met: true,
    },
];

/// What is asked: of the median error and of the largest.
const MEDIAN: f64 = 0.15;
const LARGEST: f64 = 0.25;

struct Held {
    report: String,
    model: Errors,
    bound: Errors,
}

fn hold(machine: &Machine) -> Held {
    let points: Vec<Point> = machine
        .rows
        .iter()
        .map(|(threads, time)| Point {
            threads: threads.max(1.0),
            time: *time,
        })
        .collect();
    let last = points.len() - 1;
    let quarter = points
        .iter()
        .position(|point| point.threads == machine.quarter)
        .unwrap();
    let calibrate = [points[0], points[quarter], points[last]];
    let chosen = choose(&calibrate).unwrap();
    // only now are the others looked at
    let held: Vec<Point> = (0..points.len())
        .filter(|at| ![0, quarter, last].contains(at))
        .map(|at| points[at])
        .collect();
    let model = Errors::of(&held, |threads| chosen.model.time(threads)).unwrap();
    let (one, all) = (calibrate[0].time, calibrate[2].time);
    let bound = Errors::of(&held, |threads| (one / threads).max(all)).unwrap();
    let missed = match model.median <= MEDIAN && model.largest <= LARGEST {
        true => String::new(),
        false => format!(
            "; MISSED ({:.0} % and {:.0} % are asked; deviations of its own: {:.0} %)",
            MEDIAN * 100.0,
            LARGEST * 100.0,
            machine.own_deviation * 100.0
        ),
    };
    Held {
        report: format!(
            "{}: {}: {model}{missed}; max(t1/n, t_all): {bound}",
            machine.name, chosen.model
        ),
        model,
        bound,
    }
}

#[test]
fn three_rows_of_each_published_machine_predict_the_others() {
    for machine in MACHINES {
        let held = hold(machine);
        eprintln!("{}", held.report);
        let met = held.model.median <= MEDIAN && held.model.largest <= LARGEST;
        assert_eq!(met, machine.met, "{}", held.report);
        assert_eq!(!met, held.report.contains("MISSED"), "a miss is told");
        // a miss beyond what the machine itself wavers by would be the model's
        if !met {
            assert!(machine.own_deviation >= MEDIAN, "{}", held.report);
            assert!(
                held.model.largest <= LARGEST + machine.own_deviation,
                "{}",
                held.report
            );
        }
        assert!(held.model.median < held.bound.median, "{}", held.report);
    }
}
