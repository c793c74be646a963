//! What may be said of a sweep.

use std::fmt;

use crate::judge::{Ratio, Rule, Samples};
use crate::stats;
use crate::table::{Align, Table};

use super::Measured;

/// A ratio to another contestant of the same rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Against {
    /// By the judging rule, with its interval.
    Judged(Ratio),
    /// The median of too few rounds for an interval.
    Indicated(f64),
}

impl Against {
    /// The median of the paired ratios.
    pub const fn median(&self) -> f64 {
        match self {
            Self::Judged(ratio) => ratio.median,
            Self::Indicated(median) => *median,
        }
    }
}

/// `0.93 [0.92, 0.94]`, or `~0.93` without an interval.
impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Judged(ratio) => {
                write!(
                    f,
                    "{:.2} [{:.2}, {:.2}]",
                    ratio.median, ratio.low, ratio.high
                )
            }
            Self::Indicated(median) => write!(f, "~{median:.2}"),
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Pinned workers.
    pub threads: usize,
    /// The page writer, or `limit`.
    pub writer: &'static str,
    /// Median time, ns.
    pub time_ns: f64,
    /// Time for a struct page over all workers, ns.
    pub ns_a_page: f64,
    /// Bytes of struct pages a ns (GB/s).
    pub gb_a_second: f64,
    /// Against the same writer with the fewest threads.
    pub speed_up: Against,
    /// Against the streaming limit with as many threads: 1 is as fast.
    pub of_limit: Against,
    /// Distance of the quartiles over the median.
    pub spread: f64,
}

/// The table of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// A line a contestant, by threads, the limit first.
    pub rows: Vec<Row>,
    /// Rounds that it rests on.
    pub rounds: usize,
}

impl Summary {
    /// Summarises; a contestant that never ran has no row.
    pub fn of(measured: &Measured, seed: u64) -> Self {
        let rounds = measured.rounds();
        let rule = Rule {
            seed,
            ..Rule::default()
        };
        let pairs = Pairs::new(measured, &rule);
        let fewest = measured.cells.iter().map(|cell| cell.threads).min();
        let rows = measured
            .cells
            .iter()
            .enumerate()
            .filter_map(|(index, cell)| {
                let name = |cell: &super::Cell| cell.writer.map_or("limit", |writer| writer.name());
                let at = |threads: usize, writer: &str| {
                    measured
                        .cells
                        .iter()
                        .position(|other| other.threads == threads && name(other) == writer)
                };
                let time_ns = stats::median(&measured.times[index][..rounds])?;
                Some(Row {
                    threads: cell.threads,
                    writer: name(cell),
                    time_ns,
                    ns_a_page: time_ns / measured.pages as f64,
                    gb_a_second: measured.bytes as f64 / time_ns,
                    speed_up: pairs.speed(index, at(fewest?, name(cell))?)?,
                    of_limit: pairs.speed(index, at(cell.threads, "limit")?)?,
                    spread: stats::spread(&measured.times[index][..rounds])?,
                })
            });
        Self {
            rows: rows.collect(),
            rounds,
        }
    }

    /// The rows as a table.
    pub fn table(&self) -> Table {
        let mut table = Table::new([
            ("threads", Align::Right),
            ("writer", Align::Left),
            ("time ms", Align::Right),
            ("ns/page", Align::Right),
            ("GB/s", Align::Right),
            ("speed-up", Align::Right),
            ("of limit", Align::Right),
            ("spread", Align::Right),
        ]);
        for row in &self.rows {
            table.row([
                row.threads.to_string(),
                row.writer.to_owned(),
                format!("{:.2}", row.time_ns / 1e6),
                format!("{:.2}", row.ns_a_page),
                format!("{:.2}", row.gb_a_second),
                format!("{:.2}", row.speed_up.median()),
                row.of_limit.to_string(),
                match self.rounds {
                    0..4 => "–".to_owned(),
                    _ => format!("{:.1}%", row.spread * 100.0),
                },
            ]);
        }
        table
    }
}

/// The paired ratios of a sweep.
struct Pairs<'m> {
    judged: Option<Samples>,
    measured: &'m Measured,
    rounds: usize,
}

impl<'m> Pairs<'m> {
    fn new(measured: &'m Measured, rule: &Rule) -> Self {
        Self {
            // too few rounds, or a clock that stood still: no interval
            judged: Samples::from_times(rule, measured.times.clone()).ok(),
            measured,
            rounds: measured.rounds(),
        }
    }

    fn speed(&self, index: usize, reference: usize) -> Option<Against> {
        if let Some(samples) = &self.judged {
            return Some(Against::Judged(samples.speed(index, reference).ok()?));
        }
        let (own, other) = (&self.measured.times[index], &self.measured.times[reference]);
        let paired: Vec<f64> = own
            .iter()
            .zip(other)
            .take(self.rounds)
            .map(|(own, other)| other / own)
            .collect();
        Some(Against::Indicated(stats::median(&paired)?))
    }
}
