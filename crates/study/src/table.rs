//! Text tables.
//!
//! Columns as wide as their widest cell, numbers flush right; what a person reads on a terminal
//! and can paste into a mail.

use std::fmt;

/// A table with one line of column names.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    align: Align,
}

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Flush left: words.
    Left,
    /// Flush right: numbers.
    Right,
}

impl Table {
    /// An empty table with these columns.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Align)>) -> Self {
        Self {
            columns: columns
                .into_iter()
                .map(|(name, align)| Column {
                    name: name.to_owned(),
                    align,
                })
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; cells that it lacks are empty, cells beyond the last column are dropped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().take(self.columns.len()).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn widths(&self) -> Vec<usize> {
        (0..self.columns.len())
            .map(|column| {
                let cells = self.rows.iter().map(|row| row[column].chars().count());
                cells
                    .chain([self.columns[column].name.chars().count()])
                    .max()
                    .unwrap_or(0)
            })
            .collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let names: Vec<String> = self.columns.iter().map(|c| c.name.clone()).collect();
        for row in std::iter::once(&names).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, column), &width) in row.iter().zip(&self.columns).zip(&widths) {
                match column.align {
                    Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                    Align::Right => line.push_str(&format!("{cell:>width$}  ")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn numbers_stand_right_and_words_left() {
        let mut table = Table::new([("writer", Align::Left), ("ns", Align::Right)]);
        table.row(["zero".into(), "12.5".into()]);
        table.row(["stream".into(), "4.0".into()]);
        expect![[r#"
            writer    ns
            zero    12.5
            stream   4.0
        "#]]
        .assert_eq(&table.to_string());
    }

    #[test]
    fn a_short_row_is_filled_up() {
        let mut table = Table::new([("a", Align::Left), ("b", Align::Right)]);
        table.row(["x".into()]);
        assert_eq!(table.to_string(), "a  b\nx\n");
    }
}
