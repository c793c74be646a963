//! The table of faults and outcomes.

use std::fmt;

use sys::{Call, Errno};

/// Outcomes in the order in which they were seen.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

/// Calls that follow each other and end alike.
#[derive(Debug)]
struct Row {
    scenario: &'static str,
    call: Call,
    errno: i32,
    first: u64,
    last: u64,
    outcome: String,
}

impl Table {
    pub(crate) fn add(
        &mut self,
        scenario: &'static str,
        call: Call,
        errno: i32,
        nth: u64,
        outcome: String,
    ) {
        if let Some(row) = self.rows.last_mut()
            && (row.scenario, row.call, row.errno) == (scenario, call, errno)
            && row.outcome == outcome
        {
            row.last = nth;
            return;
        }
        self.rows.push(Row {
            scenario,
            call,
            errno,
            first: nth,
            last: nth,
            outcome,
        });
    }

    /// How many faults ended in such a way.
    pub(crate) fn count(&self, is_such: impl Fn(&str) -> bool) -> u64 {
        let rows = self.rows.iter().filter(|row| is_such(&row.outcome));
        rows.map(|row| row.last - row.first + 1).sum()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Faults and outcomes\n")?;
        writeln!(f, "| scenario | call | n-th | fails with | outcome |")?;
        writeln!(f, "|---|---|---|---|---|")?;
        for row in &self.rows {
            let nth = if row.first == row.last {
                row.first.to_string()
            } else {
                format!("{}-{}", row.first, row.last)
            };
            writeln!(
                f,
                "| {} | {} | {nth} | {} | {} |",
                row.scenario,
                row.call,
                Errno(row.errno),
                row.outcome
            )?;
        }
        Ok(())
    }
}
