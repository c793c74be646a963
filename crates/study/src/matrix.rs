//! Node by node: threads there, memory here.

use crate::analysis::{Analysis, Cell};
use crate::record::Role;
use crate::table::{Align, Table};

/// Rates of every pair of nodes, GB/s by the median time.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Nodes whose threads wrote, ascending: rows.
    pub threads: Vec<u64>,
    /// Nodes whose memory was written, ascending: columns.
    pub memory: Vec<u64>,
    /// A row a node of threads; `None` where the pair was refused or is missing.
    pub rates: Vec<Vec<Option<f64>>>,
}

impl Matrix {
    /// The matrix of a role ([`Role::Matrix`]: rate of initialisation, [`Role::MatrixLimit`]: write
    /// bandwidth); `None` where none was measured.
    pub fn of(analysis: &Analysis, role: Role) -> Option<Self> {
        let pairs: Vec<(u64, u64, &Cell)> = analysis
            .cells
            .iter()
            .filter(|cell| cell.role == role)
            .filter_map(|cell| {
                let memory = cell.settings.placement.strip_prefix("node:")?;
                Some((*cell.settings.nodes.first()?, memory.parse().ok()?, cell))
            })
            .collect();
        let sorted = |of: fn(&(u64, u64, &Cell)) -> u64| {
            let mut nodes: Vec<u64> = pairs.iter().map(of).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        };
        let (threads, memory) = (sorted(|pair| pair.0), sorted(|pair| pair.1));
        let rate = |from: u64, on: u64| {
            let pair = pairs.iter().find(|pair| (pair.0, pair.1) == (from, on))?;
            pair.2.gb_a_second()
        };
        (!pairs.is_empty()).then(|| Self {
            rates: threads
                .iter()
                .map(|from| memory.iter().map(|on| rate(*from, *on)).collect())
                .collect(),
            threads: threads.clone(),
            memory: memory.clone(),
        })
    }

    /// As a table.
    pub fn table(&self) -> Table {
        let names: Vec<String> = self
            .memory
            .iter()
            .map(|node| format!("memory {node}"))
            .collect();
        let columns = names.iter().map(|name| (name.as_str(), Align::Right));
        let mut table = Table::new([("threads of", Align::Left)].into_iter().chain(columns));
        for (from, rates) in self.threads.iter().zip(&self.rates) {
            let mut row = vec![format!("node {from}")];
            row.extend(rates.iter().map(|rate| match rate {
                Some(rate) => format!("{rate:.2}"),
                None => "–".to_owned(),
            }));
            table.row(row);
        }
        table
    }
}

/// Both matrices of a study with their names, where they were measured.
pub fn tables(analysis: &Analysis) -> Vec<(&'static str, Table)> {
    [
        (
            "write bandwidth, GB/s (the limit's fill)",
            Role::MatrixLimit,
        ),
        ("rate of initialisation, GB/s", Role::Matrix),
    ]
    .into_iter()
    .filter_map(|(name, role)| Some((name, Matrix::of(analysis, role)?.table())))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Record, Settings};
    use crate::synthetic;
    use expect_test::expect;

    #[test]
    fn every_pair_has_its_rate_and_a_refused_one_has_none() {
        let mut records = Vec::new();
        for (from, on, ns) in [(0, 0, 1e6), (0, 2, 2e6), (2, 0, 4e6), (2, 2, 0.0)] {
            records.push(Record {
                role: Role::Matrix,
                settings: Settings {
                    nodes: vec![from],
                    placement: format!("node:{on}"),
                    ..synthetic::settings(2, "zero")
                },
                write_ns: ns as u64,
                refused: (ns == 0.0).then(|| "no".to_owned()),
                ..synthetic::record()
            });
        }
        let analysis = Analysis::of(&records);
        let matrix = Matrix::of(&analysis, Role::Matrix).unwrap();
        expect![[r#"
            threads of  memory 0  memory 2
            node 0          8.39      4.19
            node 2          2.10         –
        "#]]
        .assert_eq(&matrix.table().to_string());
        assert_eq!(Matrix::of(&analysis, Role::MatrixLimit), None);
    }
}
