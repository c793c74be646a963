//! Matrices of nodes: threads there, memory here.

use std::collections::BTreeSet;

use super::Matrix;
use crate::record::{Record, Role};
use crate::stats;

/// The two matrices of a host, where it has them: what is written in them, and what memory takes.
pub(super) fn matrices(records: &[Record], host: &str) -> Vec<Matrix> {
    let kinds = [
        (Role::MatrixLimit, "write bandwidth", "the streaming fill"),
        (
            Role::Matrix,
            "rate of initialisation",
            "bytes of struct pages",
        ),
    ];
    kinds
        .into_iter()
        .filter_map(|(role, what, note)| matrix(records, role, format!("{host}: {what}"), note))
        .collect()
}

fn matrix(records: &[Record], role: Role, title: String, note: &str) -> Option<Matrix> {
    // threads on one node, memory on one node
    let pair = |record: &Record| {
        let threads = *record.settings.nodes.first()?;
        let memory = record
            .settings
            .placement
            .strip_prefix("node:")?
            .parse()
            .ok()?;
        Some((threads, memory))
    };
    let own: Vec<(u64, u64, &Record)> = records
        .iter()
        .filter(|record| record.role == role)
        .filter_map(|record| pair(record).map(|(threads, memory)| (threads, memory, record)))
        .collect();
    let rows: BTreeSet<u64> = own.iter().map(|run| run.0).collect();
    let columns: BTreeSet<u64> = own.iter().map(|run| run.1).collect();
    let first = own.first()?.2;
    let cell = |row: u64, column: u64| {
        let rates: Vec<f64> = own
            .iter()
            .filter(|run| (run.0, run.1) == (row, column) && run.2.write_ns > 0)
            .map(|run| run.2.gb_a_second())
            .collect();
        stats::median(&rates)
    };
    Some(Matrix {
        title,
        note: format!("{note}; {}", first.settings.writer),
        cells: rows
            .iter()
            .map(|row| columns.iter().map(|column| cell(*row, *column)).collect())
            .collect(),
        rows: rows.into_iter().collect(),
        columns: columns.into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn a_pair_that_was_refused_is_an_empty_cell() {
        let mut records = Vec::new();
        for (threads, memory, ns) in [
            (0, 0, 1_000_000),
            (0, 1, 2_000_000),
            (1, 0, 0),
            (1, 1, 1_000_000),
        ] {
            let mut record = synthetic::record();
            record.role = Role::Matrix;
            record.settings.nodes = vec![threads];
            record.settings.placement = format!("node:{memory}");
            record.write_ns = ns;
            records.push(record);
        }
        let matrices = matrices(&records, "host");
        assert_eq!(matrices.len(), 1, "no limit was measured");
        let here = records[0].gb_a_second();
        assert_eq!(
            matrices[0].cells,
            [[Some(here), Some(here / 2.0)], [None, Some(here)]]
        );
    }
}
