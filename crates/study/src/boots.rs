//! Boots by policies: for what one has to wait.
//!
//! A policy is judged by three waits: until memory is usable at all, until all of it is, and how long a
//! CPU does nothing else. Each stands beside that of the eager boot of the same round, so that drift
//! and the cost of touching memory anew, which both pay, cancel in the ratio.

use std::collections::BTreeMap;

use crate::analysis::{Against, Analysis, Cell};
use crate::judge::MIN_ROUNDS;
use crate::record::{Booted, Role, Settings};
use crate::stats::Described;
use crate::table::{Align, Table};

/// For what one waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wait {
    /// The first page that can be allocated.
    FirstUsable,
    /// The last struct page.
    Total,
    /// A CPU that does nothing else.
    WorstStretch,
}

impl Wait {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 3] = [Self::FirstUsable, Self::Total, Self::WorstStretch];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstUsable => "first usable",
            Self::Total => "total",
            Self::WorstStretch => "worst stretch",
        }
    }

    /// What a boot made one wait, ns.
    pub const fn of(self, boot: &Booted) -> u64 {
        match self {
            Self::FirstUsable => boot.first_usable_ns,
            Self::Total => boot.total_ns,
            Self::WorstStretch => boot.worst_stretch_ns,
        }
    }

    /// The same of every boot of a cell, by round.
    pub fn times(self, cell: &Cell) -> BTreeMap<u64, f64> {
        let boots = cell.boots.iter();
        boots
            .map(|(round, boot)| (*round, self.of(boot) as f64))
            .filter(|(_, ns)| *ns > 0.0)
            .collect()
    }
}

/// A wait with what it is against the eager boot's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waited {
    /// The median, ns.
    pub ns: f64,
    /// Its 95 % interval, ns; `None` below the rounds of a verdict.
    pub interval: Option<(f64, f64)>,
    /// Over the eager boot's, paired within rounds: below 1 is a shorter wait. `None` for the eager boot
    /// itself, and where it never ran in the same round.
    pub of_eager: Option<Against>,
}

/// A kind of boot.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its settings.
    pub settings: Settings,
    /// Memory of the machine, bytes.
    pub memory: u64,
    /// Whether it is the eager boot beside which the others stand.
    pub is_reference: bool,
    /// How often it ran.
    pub runs: usize,
    /// Sections written before the first page could be allocated, and in all; of the last run.
    pub sections: (u64, u64),
    /// The waits, in the order of [`Wait::ALL`]; none of which nothing is known.
    pub waits: [Option<Waited>; 3],
}

impl Row {
    fn of(analysis: &Analysis, cell: &Cell) -> Self {
        let eager = analysis
            .eager_boot(cell)
            .filter(|eager| eager.role != cell.role);
        Self {
            settings: cell.settings.clone(),
            memory: cell.memory,
            is_reference: cell.role == Role::BootReference,
            runs: cell.boots.len(),
            sections: cell
                .boots
                .values()
                .next_back()
                .map_or((0, 0), |boot| (boot.sections_first, boot.sections)),
            waits: Wait::ALL.map(|wait| {
                let own = wait.times(cell);
                let times: Vec<f64> = own.values().copied().collect();
                let told = Described::of(&times, analysis.rule())?;
                Some(Waited {
                    ns: told.median.median,
                    interval: (times.len() >= MIN_ROUNDS)
                        .then_some((told.median.low, told.median.high)),
                    of_eager: eager.and_then(|eager| analysis.over(&own, &wait.times(eager))),
                })
            }),
        }
    }
}

/// Every kind of boot of a study: each eager one before those that are held against it, by writer and
/// what else differs, then by policy and threads. Empty where there are none.
pub fn rows(analysis: &Analysis) -> Vec<Row> {
    let mut cells: Vec<&Cell> = analysis
        .cells
        .iter()
        .filter(|cell| cell.role.is_boot() && !cell.boots.is_empty())
        .collect();
    cells.sort_by_cached_key(|cell| {
        let settings = &cell.settings;
        let family = (
            cell.memory,
            settings.pages.clone(),
            settings.placement.clone(),
            settings.nodes.clone(),
            crate::summary::writer_rank(&settings.writer),
        );
        (family, policy_rank(&settings.policy), settings.threads)
    });
    cells
        .into_iter()
        .map(|cell| Row::of(analysis, cell))
        .collect()
}

/// The place of a policy in tables.
fn policy_rank(name: &str) -> usize {
    use deferred_init::policy::Policy;
    let mut all = Policy::ALL.iter();
    all.position(|policy| policy.name() == name)
        .unwrap_or(Policy::ALL.len())
}

/// Rows as a table.
pub fn table(rows: &[Row]) -> Table {
    let mut columns = vec![("policy", Align::Left)];
    for wait in Wait::ALL {
        columns.push((wait.name(), Align::Right));
        columns.push(("of eager", Align::Right));
    }
    columns.extend([("runs", Align::Right), ("settings", Align::Left)]);
    let mut table = Table::new(columns);
    for row in rows {
        let dash = || "–".to_owned();
        let mut cells = vec![row.settings.policy.clone()];
        for waited in row.waits {
            cells.push(waited.map_or_else(dash, |waited| format!("{:.3} ms", waited.ns / 1e6)));
            let of_eager = waited.and_then(|waited| waited.of_eager);
            cells.push(of_eager.map_or_else(dash, |of| of.to_string()));
        }
        cells.extend([row.runs.to_string(), row.settings.to_string()]);
        table.row(cells);
    }
    table
}

/// A sentence a policy, of its boot that is done first; it claims what the intervals support.
pub fn words(analysis: &Analysis) -> Vec<String> {
    let rows = rows(analysis);
    let asked: Vec<&Row> = rows.iter().filter(|row| !row.is_reference).collect();
    let total = |row: &Row| {
        let pages = row.sections.1.max(1) as f64;
        row.waits[1].map_or(f64::INFINITY, |waited| waited.ns / pages)
    };
    let mut policies: Vec<&str> = asked
        .iter()
        .map(|row| row.settings.policy.as_str())
        .collect();
    policies.sort_by_key(|policy| policy_rank(policy));
    policies.dedup();
    policies
        .into_iter()
        .filter_map(|policy| {
            let own = asked.iter().filter(|row| row.settings.policy == policy);
            own.min_by(|a, b| total(a).total_cmp(&total(b)))
        })
        .map(|row| sentence(row))
        .collect()
}

fn sentence(row: &Row) -> String {
    let waits = Wait::ALL.into_iter().zip(row.waits);
    let parts: Vec<String> = waits
        .filter_map(|(wait, waited)| Some(part(wait, waited?)))
        .collect();
    format!(
        "Booted by the {} policy ({}, {}), against an eager boot: {}.",
        row.settings.policy,
        row.settings.writer,
        crate::words::threads_of(&row.settings),
        parts.join("; ")
    )
}

fn part(wait: Wait, waited: Waited) -> String {
    let what = match wait {
        Wait::FirstUsable => "the first memory is usable",
        Wait::Total => "all struct pages are written",
        Wait::WorstStretch => "the longest that a CPU does nothing else is",
    };
    let (less, more, same) = match wait {
        Wait::FirstUsable | Wait::Total => (
            "sooner",
            "later",
            "neither sooner nor later, as far as can be told",
        ),
        Wait::WorstStretch => (
            "shorter",
            "longer",
            "neither shorter nor longer, as far as can be told",
        ),
    };
    let ms = waited.ns / 1e6;
    match waited.of_eager {
        Some(of) if of.is_below() => format!("{what} {less} ({ms:.2} ms, {of} x)"),
        Some(of) if of.is_above() => format!("{what} {more} ({ms:.2} ms, {of} x)"),
        Some(of @ Against::Judged(_)) => format!("{what} {same} ({ms:.2} ms, {of} x)"),
        Some(of @ Against::Indicated(_)) => {
            let after = if wait == Wait::WorstStretch {
                ""
            } else {
                "after "
            };
            format!("{what} {after}{ms:.2} ms ({of} x, no verdict)")
        }
        None => {
            let after = if wait == Wait::WorstStretch {
                ""
            } else {
                "after "
            };
            format!("{what} {after}{ms:.2} ms (no eager boot in the same rounds)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::synthetic;
    use expect_test::expect;

    /// ± 1 %, different for every policy and round, the same each time.
    fn wobble(policy: &str, round: u64) -> f64 {
        let seed = policy.len() as u64 * 7919 + round * 104_729;
        1.0 + ((seed * 2_654_435_761) % 1000) as f64 / 50_000.0
    }

    fn boots(rounds: u64, lazy: impl Fn(u64) -> [f64; 3]) -> Vec<Record> {
        synthetic::boots(rounds, |settings, round| {
            let [first, total, worst] = match settings.policy.as_str() {
                "eager" => [20e6, 20e6, 20e6],
                "deferred" => [5e6, 12e6, 5e6],
                _ => lazy(round),
            };
            let with = wobble(&settings.policy, round);
            [first, total, worst].map(|ns| ns * with)
        })
    }

    fn said(records: &[Record]) -> String {
        words(&Analysis::of(records)).join("\n")
    }

    #[test]
    fn clear_differences_are_claimed_with_their_intervals_and_others_are_not() {
        let said = said(&boots(61, |_| [0.2e6, 30e6, 20e6]));
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 2, "a sentence a policy: {said}");
        assert!(lines[0].starts_with("Booted by the deferred policy (stream, 2 threads)"));
        assert!(
            lines[0].contains("the first memory is usable sooner (5.0"),
            "{said}"
        );
        assert!(
            lines[0].contains("all struct pages are written sooner (12."),
            "{said}"
        );
        assert!(
            lines[1].contains("the first memory is usable sooner (0.20 ms, 0.0"),
            "{said}"
        );
        assert!(
            lines[1].contains("all struct pages are written later (30."),
            "{said}"
        );
        assert!(lines[1].contains("is neither shorter nor longer"), "{said}");
    }

    #[test]
    fn too_few_rounds_claim_nothing() {
        let said = said(&boots(60, |_| [0.2e6, 30e6, 20e6]));
        for claim in ["sooner", "later", "shorter", "longer"] {
            assert!(!said.contains(claim), "{claim}: {said}");
        }
        assert!(said.contains("no verdict"), "{said}");
    }

    #[test]
    fn drift_cancels_and_one_outlier_changes_no_word() {
        let strip = |said: &str| -> String {
            let word = |c: &char| c.is_alphabetic() || c.is_whitespace();
            said.chars().filter(word).collect()
        };
        let calm = boots(61, |_| [0.2e6, 30e6, 20e6]);
        let mut drifting = calm.clone();
        let mut hit = calm.clone();
        for record in &mut drifting {
            if let Some(boot) = &mut record.boot {
                let slower = 1.0 + record.round as f64 / 40.0;
                boot.first_usable_ns = (boot.first_usable_ns as f64 * slower) as u64;
                boot.total_ns = (boot.total_ns as f64 * slower) as u64;
                boot.worst_stretch_ns = (boot.worst_stretch_ns as f64 * slower) as u64;
            }
        }
        let one = hit
            .iter_mut()
            .find(|record| record.round == 30 && record.role == Role::Boot);
        one.unwrap().boot.as_mut().unwrap().total_ns *= 1000;
        assert_eq!(strip(&said(&calm)), strip(&said(&drifting)));
        assert_eq!(strip(&said(&calm)), strip(&said(&hit)));
        let drift = Analysis::of(&drifting).drift().unwrap();
        assert!(drift.is_flagged(), "{drift:?}");
        let all = crate::words::words(&drifting).join("\n");
        assert!(all.contains("the machine drifted"), "{all}");
        assert!(!all.contains("Nothing was measured"), "{all}");
    }

    #[test]
    fn a_policy_whose_eager_boot_is_missing_is_not_held_against_anything() {
        let mut records = boots(61, |_| [0.2e6, 30e6, 20e6]);
        records.retain(|record| record.role != Role::BootReference);
        let said = said(&records);
        assert!(said.contains("no eager boot in the same rounds"), "{said}");
        assert!(!said.contains("sooner"), "{said}");
        assert_eq!(
            words(&Analysis::of(&synthetic::study(5, |_, _| Some(1e6)))),
            [""; 0]
        );
    }

    #[test]
    fn a_table_has_the_eager_boot_first_and_every_wait_beside_it() {
        let records = synthetic::boots(3, |settings, _| match settings.policy.as_str() {
            "eager" => [20e6, 20e6, 20e6],
            "deferred" => [5e6, 12e6, 5e6],
            _ => [0.25e6, 30e6, 1e6],
        });
        let rows = rows(&Analysis::of(&records));
        expect![[r#"
            policy    first usable  of eager      total  of eager  worst stretch  of eager  runs  settings
            eager        20.000 ms         –  20.000 ms         –      20.000 ms         –     3  1 thread, first-touch, deque, eager, stream, system pages
            deferred      5.000 ms     ~0.25  12.000 ms     ~0.60       5.000 ms     ~0.25     3  2 threads, first-touch, deque, deferred, stream, system pages
            lazy          0.250 ms   ~0.0125  30.000 ms     ~1.50       1.000 ms   ~0.0500     3  2 threads, first-touch, deque, lazy, stream, system pages
        "#]]
        .assert_eq(&table(&rows).to_string());
    }
}
