//! Boots by policies, and their curves.

use std::collections::BTreeSet;

use super::super::plot::canvas::Marker;
use super::super::plot::ink::Ink;
use super::super::plot::lines::{Curve, Point, Series};
use super::figures::Figure;
use super::host::{bytes, count};
use crate::analysis::{Against, Analysis};
use crate::boots::{self, Row, Wait};
use crate::judge::MIN_ROUNDS;
use crate::record::Layout;

/// Boots of one machine with one writer.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct BootGroup {
    pub(in crate::report) title: String,
    pub(in crate::report) note: String,
    pub(in crate::report) basis: String,
    /// The eager boot first, then by policy and threads.
    pub(in crate::report) rows: Vec<BootView>,
    /// A plot a wait, in the order of [`Wait::ALL`]: curves by policy.
    pub(in crate::report) plots: [Vec<Series>; 3],
    /// The eager boot through each of them.
    pub(in crate::report) eager: [Vec<Curve>; 3],
}

/// A kind of boot.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct BootView {
    pub(in crate::report) policy: String,
    pub(in crate::report) threads: u64,
    pub(in crate::report) is_reference: bool,
    /// ms, and over the eager boot's; in the order of [`Wait::ALL`].
    pub(in crate::report) waits: [(Option<Figure>, Option<Figure>); 3],
    pub(in crate::report) sections: (u64, u64),
    pub(in crate::report) runs: usize,
}

/// What boots of one group share.
type Family = (u64, Vec<u64>, String, String, String);

fn family(row: &Row) -> Family {
    let settings = &row.settings;
    (
        row.memory,
        settings.nodes.clone(),
        settings.placement.clone(),
        settings.writer.clone(),
        settings.pages.clone(),
    )
}

/// The groups of one host's records; `layouts` has the layout of each machine.
pub(super) fn groups(host: &str, analysis: &Analysis, layouts: &[&Layout]) -> Vec<BootGroup> {
    let rows = boots::rows(analysis);
    let mut families: Vec<Family> = Vec::new();
    for row in &rows {
        if !families.contains(&family(row)) {
            families.push(family(row));
        }
    }
    families
        .iter()
        .map(|of| {
            let own: Vec<&Row> = rows.iter().filter(|row| family(row) == *of).collect();
            group(host, analysis, layouts, of, &own)
        })
        .collect()
}

fn group(
    host: &str,
    analysis: &Analysis,
    layouts: &[&Layout],
    (memory, nodes, placement, writer, pages): &Family,
    rows: &[&Row],
) -> BootGroup {
    let boots = || rows.iter().filter(|row| !row.is_reference);
    let schedulers: BTreeSet<&str> = boots().map(|row| row.settings.scheduler.as_str()).collect();
    let name = |row: &Row| match schedulers.len() > 1 && !row.is_reference {
        true => format!("{}, {}", row.settings.policy, row.settings.scheduler),
        false => row.settings.policy.clone(),
    };
    let nodes: Vec<String> = nodes.iter().map(u64::to_string).collect();
    let on = match nodes.is_empty() {
        true => String::new(),
        false => format!(", threads on node {}", nodes.join("+")),
    };
    let layout = layouts.iter().find(|layout| layout.memory == *memory);
    let machine = match layout {
        Some(layout) => format!(
            "{} on {}: {}, {} of struct pages as {} has them; ",
            layout.source,
            count(layout.nodes, "node"),
            bytes(layout.memory),
            bytes(layout.pages.saturating_mul(layout.page_struct_bytes)),
            layout.profile,
        ),
        None => String::new(),
    };
    let views: Vec<BootView> = rows
        .iter()
        .map(|row| BootView {
            policy: name(row),
            threads: row.settings.threads,
            is_reference: row.is_reference,
            waits: row.waits.map(|waited| {
                let time = waited.map(|waited| Figure {
                    value: waited.ns / 1e6,
                    interval: waited.interval.map(|(low, high)| (low / 1e6, high / 1e6)),
                });
                let of_eager = waited.and_then(|waited| waited.of_eager);
                (time, of_eager.map(|of: Against| Figure::from(of)))
            }),
            sections: row.sections,
            runs: row.runs,
        })
        .collect();
    let waits = [0, 1, 2];
    BootGroup {
        title: format!("{host}: boots by policy, {writer}"),
        note: format!("{machine}{placement} placement, {pages} pages{on}"),
        basis: match analysis.rounds < MIN_ROUNDS as u64 {
            true => format!(
                "{}: indications without intervals, which take {MIN_ROUNDS}",
                count(analysis.rounds, "round")
            ),
            false => format!(
                "{}, 95 % intervals in brackets; of eager: the median of the ratio to the eager boot of the same \
                 round",
                count(analysis.rounds, "round")
            ),
        },
        plots: waits.map(|wait| curves(&views, wait)),
        eager: waits.map(|wait| through(&views, wait)),
        rows: views,
    }
}

/// A curve a policy, and the eager boot as a point.
fn curves(rows: &[BootView], wait: usize) -> Vec<Series> {
    let mut names: Vec<(&str, bool)> = Vec::new();
    for row in rows {
        if !names.contains(&(row.policy.as_str(), row.is_reference)) {
            names.push((&row.policy, row.is_reference));
        }
    }
    let mut place = 0;
    names
        .into_iter()
        .map(|(name, is_reference)| {
            let (ink, marker) = match is_reference {
                // no cross: the style sheet dashes lines of this ink
                true => (Ink::Limit, Marker::Diamond),
                false => {
                    place += 1;
                    (Ink::Series(place - 1), Marker::of(place - 1))
                }
            };
            let own = rows
                .iter()
                .filter(|row| row.policy == name && row.is_reference == is_reference);
            Series {
                name: name.to_owned(),
                ink,
                marker,
                points: own
                    .filter_map(|row| {
                        let figure = row.waits[wait].0?;
                        Some(Point {
                            x: row.threads,
                            y: figure.value,
                            interval: figure.interval,
                        })
                    })
                    .collect(),
            }
        })
        .collect()
}

/// The eager boot, which is one CPU's whatever the others have.
fn through(rows: &[BootView], wait: usize) -> Vec<Curve> {
    let most = rows.iter().map(|row| row.threads).max().unwrap_or(1) as f64;
    let eager = rows.iter().filter(|row| row.is_reference);
    eager
        .filter_map(|row| {
            let y = row.waits[wait].0?.value;
            Some(Curve {
                ink: Ink::Limit,
                points: (0..=64)
                    .map(|at| (most.max(2.0).powf(f64::from(at) / 64.0), y))
                    .filter(|(x, _)| *x <= most)
                    .collect(),
            })
        })
        .collect()
}

/// What the plot of a wait shows, and what a reader should know of it.
pub(in crate::report) const fn about(wait: Wait) -> (&'static str, &'static str) {
    match wait {
        Wait::FirstUsable => (
            "First usable memory",
            "until the first page can be allocated; dashed: the eager boot, one CPU's",
        ),
        Wait::Total => (
            "Total",
            "until every struct page is written; dashed: the eager boot",
        ),
        Wait::WorstStretch => (
            "Worst stretch",
            "the longest that one CPU does nothing else; dashed: the eager boot",
        ),
    }
}
