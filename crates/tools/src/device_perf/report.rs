//! What `device_perf` found, as a table, as JSON, and as goals that are met or not.

use std::fmt::Write as _;

use serde::Serialize;
use study::judge::{JudgeError, Ratio, Samples};
use study::table::{Align, Table};
use zone_device::Bound;

/// A ratio of speeds with its 95 % interval; above 1 the row is faster.
#[derive(Clone, Debug, Serialize)]
pub struct Versus {
    /// Against whom.
    pub name: String,
    /// Median of the paired ratios.
    pub median: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// One way over one device.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The device: type and alignment.
    pub device: &'static str,
    /// The way.
    pub name: &'static str,
    /// `limit`, `rust` or `c`.
    #[serde(rename = "impl")]
    pub implementation: &'static str,
    /// Milliseconds of a whole rebind.
    pub rebind_ms: f64,
    /// Nanoseconds a struct page.
    pub ns_per_page: f64,
    /// Ratios of speeds.
    pub versus: Vec<Versus>,
}

/// A goal.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What was to be.
    pub goal: String,
    /// Lower end of the interval that decides.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// Whether it is.
    pub met: bool,
}

/// All rows and goals.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    schema: u32,
    gib: u64,
    rows: Vec<Row>,
    checks: Vec<Check>,
    notes: Vec<String>,
}

impl Report {
    pub(super) const fn new(gib: u64) -> Self {
        Self {
            schema: 1,
            gib,
            rows: Vec::new(),
            checks: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds the rows of one device; the first contestant is the limit.
    pub(super) fn add(
        &mut self,
        device: &'static str,
        pages: u64,
        names: &[(&'static str, &'static str)],
        samples: &Samples,
    ) -> Result<(), JudgeError> {
        for (index, &(name, implementation)) in names.iter().enumerate() {
            let mut versus = Vec::new();
            for (other, &(other_name, kind)) in names.iter().enumerate() {
                if other == index || implementation != "rust" || kind == "rust" {
                    continue;
                }
                let ratio = samples.speed(index, other)?;
                let label = if kind == "limit" { "limit" } else { other_name };
                self.judge(device, name, label, ratio);
                versus.push(Versus {
                    name: label.into(),
                    median: ratio.median,
                    low: ratio.low,
                    high: ratio.high,
                });
            }
            let time = samples.time(index)?;
            self.rows.push(Row {
                device,
                name,
                implementation,
                rebind_ms: time * pages as f64 / 1e6,
                ns_per_page: time,
                versus,
            });
        }
        Ok(())
    }

    fn judge(&mut self, device: &str, name: &str, against: &str, ratio: Ratio) {
        let bound = match (name, against) {
            ("stream", "limit") | ("template", "c-zero") => 0.95,
            ("stream", "c-zero") => 1.3,
            _ => return,
        };
        self.check(
            format!("{device}: {name} at least {bound} x {against}"),
            ratio,
            bound,
        );
    }

    fn check(&mut self, goal: String, ratio: Ratio, bound: f64) {
        self.checks.push(Check {
            goal,
            low: ratio.low,
            median: ratio.median,
            met: ratio.at_least(bound),
        });
    }

    /// Adds copy-on-write, contestant 1, beside word zeroing, contestant 0.
    pub(super) fn add_cow(
        &mut self,
        samples: &Samples,
        bound: &Bound,
        read_ms: f64,
        write_ms: f64,
    ) -> Result<(), JudgeError> {
        let ratio = samples.speed(1, 0)?;
        self.check("cow binds at least 20 x c-zero".into(), ratio, 20.0);
        let (zero, cow) = (samples.time(0)? / 1e6, samples.time(1)? / 1e6);
        self.notes.push(format!(
            "cow: bind {cow:.2} ms ({} copies of {} MiB) against {zero:.0} ms by c-zero on populated \
             memory, {:.0} times as fast; then every 4 KiB of the map read: {read_ms:.0} ms, \
             written: {write_ms:.0} ms, in all {:.0} ms",
            bound.copies,
            bound.block_bytes >> 20,
            ratio.median,
            cow + read_ms + write_ms,
        ));
        Ok(())
    }

    /// Whether all goals are met.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.met)
    }

    /// As text.
    pub fn table(&self) -> String {
        let mut table = Table::new([
            ("device", Align::Left),
            ("way", Align::Left),
            ("by", Align::Left),
            ("rebind ms", Align::Right),
            ("ns/page", Align::Right),
            ("times as fast as (95 % from)", Align::Left),
        ]);
        for row in &self.rows {
            let versus: Vec<String> = row
                .versus
                .iter()
                .map(|v| format!("{} {:.2} ({:.2})", v.name, v.median, v.low))
                .collect();
            table.row([
                row.device.into(),
                row.name.into(),
                row.implementation.into(),
                format!("{:.1}", row.rebind_ms),
                format!("{:.2}", row.ns_per_page),
                versus.join(", "),
            ]);
        }
        let mut text = format!("struct pages of {} GiB, one thread\n\n{table}\n", self.gib);
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        text.push('\n');
        for check in &self.checks {
            let verdict = if check.met { "met   " } else { "missed" };
            let _ = writeln!(
                text,
                "{verdict} {}: {:.3}, lower bound {:.3}",
                check.goal, check.median, check.low
            );
        }
        text
    }

    /// As one line of JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
