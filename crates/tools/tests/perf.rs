//! The command `perf`, from its options to its JSON. No test here looks at a time.

use std::process::{Command, Output};

use serde_json::Value;

fn perf(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_perf"))
        .args(args)
        .output()
        .unwrap()
}

/// The smallest memory that one thread can go round in: two windows.
const SMALL: &[&str] = &["--pages", "160000", "--rounds", "61"];

fn report(args: &[&str]) -> Value {
    let output = perf(&[SMALL, args, &["--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    // Two windows are far less than any last-level cache times eight: it must say so.
    assert!(errors.contains("ordinary stores look better"), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().unwrap()
}

#[test]
fn json_has_the_documented_fields_for_every_writer_and_every_way_in_c() {
    let report = report(&["--no-fault"]);
    assert_eq!(report["schema"], 1);
    let mut names = Vec::new();
    for row in rows(&report) {
        let fields = row.as_object().unwrap();
        let mut keys: Vec<&str> = fields.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "gb_per_s",
                "impl",
                "name",
                "ns_per_page",
                "size",
                "threads",
                "vs_c_movnti",
                "vs_c_template",
                "vs_c_zero",
                "vs_limit",
                "vs_limit_low"
            ]
        );
        assert_eq!(
            (row["threads"].as_u64(), row["size"].as_u64()),
            (Some(1), Some(64))
        );
        let (ns, gb) = (
            row["ns_per_page"].as_f64().unwrap(),
            row["gb_per_s"].as_f64().unwrap(),
        );
        assert!((ns * gb - 64.0).abs() < 1e-6, "{row}");
        assert!(row["vs_limit_low"].as_f64().unwrap() <= row["vs_limit"].as_f64().unwrap());
        names.push((row["impl"].as_str().unwrap(), row["name"].as_str().unwrap()));
    }
    let limits: Vec<_> = names.iter().filter(|(kind, _)| *kind == "limit").collect();
    assert_eq!(limits.len(), 1, "{names:?}");
    for writer in memmap_core::writers::all() {
        assert!(names.contains(&("rust", writer.name())), "{names:?}");
    }
    for way in benches::kernel::all() {
        assert!(names.contains(&("c", way.name())), "{names:?}");
    }
    let zero = rows(&report)
        .iter()
        .find(|row| row["name"] == "c-zero")
        .unwrap();
    assert_eq!(zero["vs_c_zero"], 1.0);
}

#[test]
fn first_touch_is_compared_with_its_twin_and_with_nothing_else() {
    let report = report(&["--size", "56"]);
    let fused = rows(&report)
        .iter()
        .find(|row| row["name"] == "fault+template")
        .unwrap();
    assert!(fused["vs_limit"].is_null() && fused["vs_c_zero"].is_null());
    let intervals = report["intervals"].as_array().unwrap();
    let twin = |i: &&Value| i["name"] == "fault+template" && i["against"] == "fault,template";
    assert_eq!(intervals.iter().filter(twin).count(), 1);
    // requirements are stated for 64-byte struct pages
    assert_eq!(report["checks"].as_array().unwrap().len(), 0);
}

#[test]
fn the_table_names_every_requirement_with_its_verdict() {
    let output = perf(&[SMALL, &["--no-fault"]].concat());
    let table = String::from_utf8(output.stdout).unwrap();
    let verdicts = table
        .lines()
        .filter(|line| line.starts_with("holds") || line.starts_with("DOES NOT HOLD"));
    assert_eq!(verdicts.count(), 8, "{table}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_would_work() {
    for (args, told) in [
        (&["--threads", "0"][..], "--threads 0: give 1 to"),
        (&["--threads", "1,100000"], "--threads 100000: give 1 to"),
        (
            &["--pages", "1000"],
            "1000 is too few: 1 threads need 131072 pages of 64 bytes",
        ),
        (
            &["--pages", "100000000000000"],
            "do not fit the memory available",
        ),
        (&["--size", "60"], "56, 64, 72, 80, 88 or 96"),
        (&["--rounds", "60"], "at least 61"),
    ] {
        let output = perf(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(errors.contains(told), "{args:?}: {errors}");
        assert!(output.stdout.is_empty());
    }
}
