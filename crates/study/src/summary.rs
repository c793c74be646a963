//! The table of a sweep: a line for every number of threads and writer.

use memmap_core::writers;

use crate::analysis::{Against, Analysis, Cell};
use crate::design::LIMIT;
use crate::record::Role;
use crate::stats;
use crate::table::{Align, Table};

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Pinned workers.
    pub threads: u64,
    /// What else is not the same for all rows; empty where everything is.
    pub where_: String,
    /// The page writer, or `limit`.
    pub writer: String,
    /// Median time, ns.
    pub time_ns: f64,
    /// Time for a struct page over all workers, ns.
    pub ns_a_page: f64,
    /// Bytes of struct pages a ns (GB/s).
    pub gb_a_second: f64,
    /// Against the same settings with the fewest threads.
    pub speed_up: Option<Against>,
    /// Against the streaming limit with as many threads: 1 is as fast.
    pub of_limit: Option<Against>,
    /// Distance of the quartiles over the median.
    pub spread: f64,
}

/// The table of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// A line a cell, by threads, the limit first and writers in the order of [`writers::all`].
    pub rows: Vec<Row>,
    /// Rounds that it rests on.
    pub rounds: u64,
}

impl Summary {
    /// Summarises; a cell that never ran has no row.
    pub fn of(analysis: &Analysis) -> Self {
        let mut cells: Vec<&Cell> = analysis
            .cells
            .iter()
            .filter(|cell| matches!(cell.role, Role::Cell | Role::Limit))
            .filter(|cell| !cell.times.is_empty())
            .collect();
        let others = others(&cells);
        cells.sort_by_cached_key(|cell| {
            let limit_first = cell.settings.writer != LIMIT;
            let writer = writer_rank(&cell.settings.writer);
            (others(cell), cell.settings.threads, limit_first, writer)
        });
        let rows = cells.iter().filter_map(|cell| {
            let times: Vec<f64> = cell.times.values().copied().collect();
            let time_ns = cell.time()?;
            Some(Row {
                threads: cell.settings.threads,
                where_: others(cell),
                writer: cell.settings.writer.clone(),
                time_ns,
                ns_a_page: time_ns / cell.pages.max(1) as f64,
                gb_a_second: cell.bytes as f64 / time_ns,
                speed_up: analysis.speed_up(cell),
                of_limit: analysis.of_limit(cell),
                spread: stats::spread(&times)?,
            })
        });
        Self {
            rows: rows.collect(),
            rounds: analysis.rounds,
        }
    }

    /// The rows as a table.
    pub fn table(&self) -> Table {
        let with_where = self.rows.iter().any(|row| !row.where_.is_empty());
        let mut columns = vec![("threads", Align::Right), ("writer", Align::Left)];
        if with_where {
            columns.insert(0, ("settings", Align::Left));
        }
        columns.extend([
            ("time ms", Align::Right),
            ("ns/page", Align::Right),
            ("GB/s", Align::Right),
            ("speed-up", Align::Right),
            ("of limit", Align::Right),
            ("spread", Align::Right),
        ]);
        let mut table = Table::new(columns);
        for row in &self.rows {
            let mut cells = vec![row.threads.to_string(), row.writer.clone()];
            if with_where {
                cells.insert(0, row.where_.clone());
            }
            let dash = || "–".to_owned();
            cells.extend([
                format!("{:.2}", row.time_ns / 1e6),
                format!("{:.2}", row.ns_a_page),
                format!("{:.2}", row.gb_a_second),
                row.speed_up
                    .map_or_else(dash, |up| format!("{:.2}", up.median())),
                row.of_limit.map_or_else(dash, |of| of.to_string()),
                match self.rounds {
                    0..4 => dash(),
                    _ => format!("{:.1}%", row.spread * 100.0),
                },
            ]);
            table.row(cells);
        }
        table
    }
}

/// The place of a writer in tables; those that are not known come last.
pub(crate) fn writer_rank(name: &str) -> usize {
    let mut all = writers::all().iter();
    all.position(|writer| writer.name() == name)
        .unwrap_or(usize::MAX)
}

/// What tells a cell from others beside threads and writer, in words: the factors that differ at all.
fn others(cells: &[&Cell]) -> impl Fn(&Cell) -> String + use<> {
    type Show = fn(&Cell) -> String;
    let factors: [Show; 5] = [
        |cell| cell.settings.placement.clone(),
        |cell| cell.settings.pages.clone(),
        |cell| cell.settings.scheduler.clone(),
        |cell| {
            let nodes: Vec<String> = cell.settings.nodes.iter().map(u64::to_string).collect();
            match nodes.is_empty() {
                true => "all nodes".to_owned(),
                false => format!("node {}", nodes.join("+")),
            }
        },
        |cell| format!("{:.1} GiB", cell.memory as f64 / f64::from(1 << 30)),
    ];
    let differ: Vec<Show> = factors
        .into_iter()
        .filter(|show| {
            let mut shown = cells.iter().map(|cell| show(cell));
            let first = shown.next();
            shown.any(|other| Some(other) != first)
        })
        .collect();
    move |cell| {
        let parts: Vec<String> = differ.iter().map(|show| show(cell)).collect();
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::study;
    use expect_test::expect;

    #[test]
    fn a_table_has_every_contestant_and_marks_what_is_no_verdict() {
        let records = study(5, |settings, _| {
            let writer = if settings.writer == "zero" { 2e6 } else { 1e6 };
            Some(writer / settings.threads as f64)
        });
        let summary = Summary::of(&Analysis::of(&records));
        expect![[r#"
            threads  writer  time ms  ns/page   GB/s  speed-up  of limit  spread
                  1  limit      1.00     7.63   8.39      1.00     ~1.00    0.0%
                  1  zero       2.00    15.26   4.19      1.00     ~0.50    0.0%
                  1  stream     1.00     7.63   8.39      1.00     ~1.00    0.0%
                  2  limit      0.50     3.81  16.78      2.00     ~1.00    0.0%
                  2  zero       1.00     7.63   8.39      2.00     ~0.50    0.0%
                  2  stream     0.50     3.81  16.78      2.00     ~1.00    0.0%
        "#]]
        .assert_eq(&summary.table().to_string());
    }
}
