//! What was measured: rows, intervals, requirements; as a table and as JSON.

use std::fmt::Write;

use memmap_core::StructPageSize;
use serde::Serialize;
use study::judge::{JudgeError, Ratio, Samples};

use super::contestants::{APART, Contestant, FUSED, Kind};

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// One contestant at one number of threads. Ratios are of speeds: above 1 is faster than the
/// reference; `null` where there is no such reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The contestant.
    pub name: String,
    /// `rust`, `c`, or `limit` for the streaming fill.
    #[serde(rename = "impl")]
    pub kind: String,
    /// Workers.
    pub threads: usize,
    /// Bytes of a struct page.
    pub size: usize,
    /// Median time over all rounds, by pages of all workers together.
    pub ns_per_page: f64,
    /// Bytes of struct pages written, 10^9 a second.
    pub gb_per_s: f64,
    /// Against the streaming limit.
    pub vs_limit: Option<f64>,
    /// Lower end of its interval.
    pub vs_limit_low: Option<f64>,
    /// Against word zeroing in C.
    pub vs_c_zero: Option<f64>,
    /// Against the copied template in C.
    pub vs_c_template: Option<f64>,
    /// Against the template with non-temporal stores in C.
    pub vs_c_movnti: Option<f64>,
}

/// A ratio with its 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The contestant.
    pub name: String,
    /// What it is compared with.
    pub against: String,
    /// `speed`, where above 1 is faster than the reference, or `cost`, where above 1 is slower.
    pub of: String,
    /// Workers.
    pub threads: usize,
    /// Median of the paired ratios.
    pub median: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Rounds.
    pub rounds: usize,
}

/// Something that is required of one thread and struct pages of 64 bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What is required, in words.
    pub what: String,
    /// The figure that is held against the bound.
    pub found: f64,
    /// Whether it holds.
    pub holds: bool,
}

/// All of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    schema: u32,
    rows: Vec<Row>,
    intervals: Vec<Interval>,
    checks: Vec<Check>,
    memory: String,
    notes: Vec<String>,
}

/// The references in C that rows have a column for.
const REFERENCES: [&str; 3] = ["c-zero", "c-template", "c-movnti"];

/// Contestant, reference, lower bound of the interval's lower end.
const SPEEDS: [(&str, &str, f64); 5] = [
    ("stream", "limit", 0.95),
    ("stream", "c-zero", 1.3),
    ("stream", "c-movnti", 0.97),
    ("zero", "c-zero", 0.97),
    ("template", "c-template", 0.97),
];
/// What the median of `stream` against `c-zero` must reach as well.
const STREAM_POINT: f64 = 1.5;
/// What write and hand-over may cost at most, by the upper end, of writing alone.
const HANDOVER_COST: f64 = 1.08;

impl Report {
    pub(super) fn new(memory: String, notes: Vec<String>) -> Self {
        Self {
            schema: SCHEMA,
            memory,
            notes,
            ..Self::default()
        }
    }

    /// Adds the rows, intervals and requirements of one number of threads.
    pub(super) fn add(
        &mut self,
        contestants: &[Contestant],
        samples: &Samples,
        threads: usize,
        size: StructPageSize,
    ) -> Result<(), JudgeError> {
        let find = |name: &str| {
            contestants
                .iter()
                .position(|c| c.name == name && c.kind != Kind::Limit)
        };
        for (index, contestant) in contestants.iter().enumerate() {
            // The fill that is the limit comes first.
            let limit = samples.speed(index, 0)?;
            self.add_interval_of("speed", contestant.name, "limit", threads, limit);
            let mut against = [None; 3];
            for (ratio, reference) in against.iter_mut().zip(REFERENCES) {
                if let Some(reference_index) = find(reference) {
                    let speed = samples.speed(index, reference_index)?;
                    self.add_interval_of("speed", contestant.name, reference, threads, speed);
                    *ratio = Some(speed.median);
                }
            }
            let time = samples.time(index)?;
            self.rows.push(Row {
                threads,
                vs_limit: Some(limit.median),
                vs_limit_low: Some(limit.low),
                vs_c_zero: against[0],
                vs_c_template: against[1],
                vs_c_movnti: against[2],
                ..row(contestant.name, contestant.kind, time, size)
            });
        }
        if let (Some(stream), Some(fused), Some(apart)) = (find("stream"), find(FUSED), find(APART))
        {
            for (index, name) in [(fused, FUSED), (apart, APART)] {
                let cost = samples.cost(index, stream)?;
                self.add_interval_of("cost", name, "stream", threads, cost);
            }
            let twin = samples.cost(fused, apart)?;
            self.add_interval(FUSED, APART, threads, twin);
        }
        if threads == 1 && size == StructPageSize::B64 {
            self.check();
        }
        Ok(())
    }

    /// Adds a row that is compared with nothing but its twin.
    pub(super) fn add_alone(&mut self, name: &str, kind: Kind, time: f64, size: StructPageSize) {
        self.rows.push(row(name, kind, time, size));
    }

    /// Adds a ratio of times.
    pub(super) fn add_interval(&mut self, name: &str, against: &str, threads: usize, ratio: Ratio) {
        self.add_interval_of("cost", name, against, threads, ratio);
    }

    fn add_interval_of(
        &mut self,
        of: &str,
        name: &str,
        against: &str,
        threads: usize,
        ratio: Ratio,
    ) {
        self.intervals.push(Interval {
            name: name.into(),
            against: against.into(),
            of: of.into(),
            threads,
            median: ratio.median,
            low: ratio.low,
            high: ratio.high,
            rounds: ratio.rounds,
        });
    }

    fn interval(&self, of: &str, name: &str, against: &str, threads: usize) -> Option<&Interval> {
        self.intervals
            .iter()
            .find(|i| i.of == of && i.name == name && i.against == against && i.threads == threads)
    }

    /// Holds what was measured against what is required.
    fn check(&mut self) {
        let mut checks = Vec::new();
        for (name, against, bound) in SPEEDS {
            if let Some(found) = self.interval("speed", name, against, 1) {
                let what =
                    format!("{name} at least {bound} times as fast as {against}, by the lower end");
                checks.push(Check {
                    what,
                    found: found.low,
                    holds: found.low >= bound,
                });
            }
        }
        if let Some(found) = self.interval("speed", "stream", "c-zero", 1) {
            let what =
                format!("stream at least {STREAM_POINT} times as fast as c-zero, by the median");
            checks.push(Check {
                what,
                found: found.median,
                holds: found.median >= STREAM_POINT,
            });
        }
        for name in [FUSED, APART] {
            if let Some(found) = self.interval("cost", name, "stream", 1) {
                let what = format!(
                    "{name} at most {HANDOVER_COST} times the time of stream, by the upper end"
                );
                checks.push(Check {
                    what,
                    found: found.high,
                    holds: found.high <= HANDOVER_COST,
                });
            }
        }
        self.checks.append(&mut checks);
    }

    /// Whether every requirement that could be checked holds.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }

    /// The rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The whole report as one line of JSON.
    pub fn json(&self) -> String {
        // Strings, numbers and lists only: there is nothing that could not be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The report for a person.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{}", self.memory);
        for note in &self.notes {
            let _ = writeln!(out, "{note}");
        }
        let _ = writeln!(
            out,
            "\nspeed as a multiple of the reference's: median [95 % interval]\n\
             {:16} {:5} {:>3} {:>4} {:>8} {:>6}  {:18} {:18} {:18} {:18}",
            "name",
            "impl",
            "thr",
            "size",
            "ns/page",
            "GB/s",
            "limit",
            "c-zero",
            "c-template",
            "c-movnti",
        );
        for row in &self.rows {
            let _ = write!(
                out,
                "{:16} {:5} {:>3} {:>4} {:>8.2} {:>6.2} ",
                row.name, row.kind, row.threads, row.size, row.ns_per_page, row.gb_per_s,
            );
            for against in ["limit"].into_iter().chain(REFERENCES) {
                let cell = self
                    .interval("speed", &row.name, against, row.threads)
                    .filter(|_| row.vs_limit.is_some())
                    .map_or_else(
                        || "-".into(),
                        |i| format!("{:.2} [{:.2} {:.2}]", i.median, i.low, i.high),
                    );
                let _ = write!(out, " {cell:18}");
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        let _ = writeln!(
            out,
            "\ntime as a multiple of the twin's: median [95 % interval]"
        );
        for i in self.intervals.iter().filter(|i| i.of == "cost") {
            let _ = writeln!(
                out,
                "{:16} {} thr, against {:16} {:.3} [{:.3} {:.3}]",
                i.name, i.threads, i.against, i.median, i.low, i.high,
            );
        }
        if !self.checks.is_empty() {
            let _ = writeln!(out, "\nrequired of one thread and 64-byte struct pages");
        }
        for check in &self.checks {
            let verdict = if check.holds {
                "holds"
            } else {
                "DOES NOT HOLD"
            };
            let _ = writeln!(out, "{verdict:14} {:.3}  {}", check.found, check.what);
        }
        out
    }
}

fn row(name: &str, kind: Kind, time: f64, size: StructPageSize) -> Row {
    Row {
        name: name.into(),
        kind: kind.name().into(),
        threads: 1,
        size: size.bytes(),
        ns_per_page: time,
        gb_per_s: size.bytes() as f64 / time,
        vs_limit: None,
        vs_limit_low: None,
        vs_c_zero: None,
        vs_c_template: None,
        vs_c_movnti: None,
    }
}
