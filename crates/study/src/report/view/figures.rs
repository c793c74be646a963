//! Figures of contestants, and their curves.
//!
//! What may be said is the analysis's; here it is put into rows and curves. Where there are too few
//! rounds for intervals, medians stand alone.

use std::collections::BTreeSet;

use super::super::plot::canvas::Marker;
use super::super::plot::ink::Ink;
use super::super::plot::lines::{Point, Series};
use super::host::{bytes, count};
use crate::analysis::{Against, Analysis, Cell};
use crate::judge::MIN_ROUNDS;
use crate::record::{Layout, Role, Settings};
use crate::summary::writer_rank;

/// A figure with its 95 % interval, where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::report) struct Figure {
    pub(in crate::report) value: f64,
    pub(in crate::report) interval: Option<(f64, f64)>,
}

/// A contestant: a writer with so many threads, or the limit.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct Row {
    pub(in crate::report) threads: u64,
    pub(in crate::report) series: String,
    pub(in crate::report) limit: bool,
    /// ms.
    pub(in crate::report) time: Figure,
    pub(in crate::report) ns_a_page: f64,
    /// GB/s.
    pub(in crate::report) rate: f64,
    pub(in crate::report) speed_up: Option<Figure>,
    pub(in crate::report) efficiency: Option<f64>,
    pub(in crate::report) of_limit: Option<Figure>,
    pub(in crate::report) spread: Option<f64>,
    pub(in crate::report) runs: usize,
    pub(in crate::report) outliers: usize,
}

/// Contestants that share a host, a machine and a way of running.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct Group {
    pub(in crate::report) title: String,
    pub(in crate::report) note: String,
    /// What the figures rest on.
    pub(in crate::report) basis: String,
    /// By threads, the limit first.
    pub(in crate::report) rows: Vec<Row>,
    pub(in crate::report) time: Vec<Series>,
    pub(in crate::report) speed_up: Vec<Series>,
    pub(in crate::report) efficiency: Vec<Series>,
    /// The limit among them.
    pub(in crate::report) rate: Vec<Series>,
}

/// A machine and all settings but threads and writer.
type Condition = (u64, Settings);

fn condition(cell: &Cell) -> Condition {
    let settings = Settings {
        threads: 0,
        writer: String::new(),
        ..cell.settings.clone()
    };
    (cell.memory, settings)
}

/// The groups of one host's records; `layouts` has the layout of each machine.
pub(super) fn groups(host: &str, analysis: &Analysis, layouts: &[&Layout]) -> Vec<Group> {
    let conditions: BTreeSet<Condition> = analysis.asked().map(condition).collect();
    conditions
        .iter()
        .map(|of| group(host, analysis, layouts, of, conditions.len() > 1))
        .collect()
}

fn group(
    host: &str,
    analysis: &Analysis,
    layouts: &[&Layout],
    of: &Condition,
    several: bool,
) -> Group {
    let mut cells: Vec<&Cell> = analysis
        .asked()
        .filter(|cell| condition(cell) == *of)
        .collect();
    let limits: Vec<&Cell> = cells
        .iter()
        .filter_map(|cell| analysis.limit(cell))
        .collect();
    for limit in limits {
        if !cells.iter().any(|known| std::ptr::eq(*known, limit)) {
            cells.push(limit);
        }
    }
    let mut rows: Vec<Row> = cells
        .iter()
        .filter_map(|cell| row(analysis, cell))
        .collect();
    rows.sort_by(|one, other| {
        let order = |row: &Row| (row.threads, !row.limit, writer_rank(&row.series));
        (order(one), &one.series).cmp(&(order(other), &other.series))
    });
    let (memory, settings) = of;
    let words = settings_words(settings);
    let layout = layouts.iter().find(|layout| layout.memory == *memory);
    Group {
        title: match several {
            true => format!("{host}: {}, {words}", bytes(*memory)),
            false => format!("{host}: time, speed-up, rate"),
        },
        note: match layout {
            Some(layout) => format!(
                "{} on {}: {}, {} of struct pages as {} has them; {words}",
                layout.source,
                count(layout.nodes, "node"),
                bytes(layout.memory),
                bytes(layout.pages.saturating_mul(layout.page_struct_bytes)),
                layout.profile,
            ),
            None => words,
        },
        basis: basis(analysis),
        time: curves(&rows, false, |row| Some(row.time)),
        speed_up: curves(&rows, false, |row| row.speed_up),
        efficiency: curves(&rows, false, |row| {
            let value = row.efficiency?;
            let part = value / row.speed_up?.value;
            let interval = row.speed_up?.interval;
            Some(Figure {
                value,
                interval: interval.map(|(low, high)| (low * part, high * part)),
            })
        }),
        rate: curves(&rows, true, |row| {
            Some(Figure {
                value: row.rate,
                interval: row.rate_interval(),
            })
        }),
        rows,
    }
}

impl Row {
    /// The interval of the rate, from that of the time.
    pub(super) fn rate_interval(&self) -> Option<(f64, f64)> {
        let (low, high) = self.time.interval?;
        let bytes = self.rate * self.time.value;
        Some((bytes / high, bytes / low))
    }
}

/// `deque scheduler, eager policy, first-touch placement, system pages`.
pub(super) fn settings_words(settings: &Settings) -> String {
    let nodes: Vec<String> = settings.nodes.iter().map(u64::to_string).collect();
    let nodes = match nodes.is_empty() {
        true => String::new(),
        false => format!(", threads on node {}", nodes.join("+")),
    };
    format!(
        "{} scheduler, {} policy, {} placement, {} pages{nodes}",
        settings.scheduler, settings.policy, settings.placement, settings.pages
    )
}

fn basis(analysis: &Analysis) -> String {
    let rounds = count(analysis.rounds, "round");
    let what = "times are medians; speed-up and of limit are medians of ratios within a round";
    match analysis.rounds < MIN_ROUNDS as u64 {
        true => format!("{rounds}: indications without intervals, which take {MIN_ROUNDS}; {what}"),
        false => format!("{rounds}, 95 % intervals in brackets; {what}"),
    }
}

impl From<Against> for Figure {
    fn from(against: Against) -> Self {
        Self {
            value: against.median(),
            interval: match against {
                Against::Judged(ratio) => Some((ratio.low, ratio.high)),
                Against::Indicated(_) => None,
            },
        }
    }
}

fn row(analysis: &Analysis, cell: &Cell) -> Option<Row> {
    let limit = cell.role == Role::Limit;
    let threads = cell.settings.threads;
    let time = cell.time()?;
    let described = cell.described(analysis.rule());
    let enough = cell.times.len() >= MIN_ROUNDS;
    let fewest = analysis
        .cells
        .iter()
        .filter(|other| {
            let settings = Settings {
                threads: other.settings.threads,
                ..cell.settings.clone()
            };
            (other.role, other.memory) == (cell.role, cell.memory)
                && other.settings == settings
                && !other.times.is_empty()
        })
        .map(|other| other.settings.threads)
        .min()?;
    let speed_up = analysis
        .speed_up(cell)
        .map(|against| unlike(against.into(), threads != fewest));
    Some(Row {
        threads,
        series: match limit {
            true => "limit".to_owned(),
            false => cell.settings.writer.clone(),
        },
        limit,
        time: Figure {
            value: time / 1e6,
            interval: described
                .as_ref()
                .filter(|_| enough)
                .map(|described| (described.median.low / 1e6, described.median.high / 1e6)),
        },
        ns_a_page: time / cell.pages.max(1) as f64,
        rate: cell.bytes as f64 / time,
        efficiency: speed_up
            .map(|figure: Figure| figure.value * fewest as f64 / threads.max(1) as f64),
        speed_up,
        of_limit: analysis
            .of_limit(cell)
            .map(|against| unlike(against.into(), !limit)),
        spread: described
            .as_ref()
            .filter(|described| described.runs >= 4)
            .map(|described| described.spread()),
        runs: cell.times.len(),
        outliers: described.map_or(0, |described| described.outliers.len()),
    })
}

/// A ratio to oneself is 1 and has no interval.
fn unlike(figure: Figure, another: bool) -> Figure {
    match another {
        true => figure,
        false => Figure {
            interval: None,
            ..figure
        },
    }
}

/// Curves by series, each with the ink of its place, also where a series has no points of this kind.
fn curves(rows: &[Row], limit: bool, figure: impl Fn(&Row) -> Option<Figure>) -> Vec<Series> {
    let mut names: Vec<(&str, bool)> = Vec::new();
    for row in rows {
        if !names.contains(&(row.series.as_str(), row.limit)) {
            names.push((&row.series, row.limit));
        }
    }
    let mut place = 0;
    let mut series = Vec::new();
    for (name, is_limit) in names {
        let (ink, marker) = match is_limit {
            true => (Ink::Limit, Marker::Cross),
            false => {
                place += 1;
                (Ink::Series(place - 1), Marker::of(place - 1))
            }
        };
        if is_limit && !limit {
            continue;
        }
        let own = rows
            .iter()
            .filter(|row| row.series == name && row.limit == is_limit);
        series.push(Series {
            name: name.to_owned(),
            ink,
            marker,
            points: own
                .filter_map(|row| {
                    let figure = figure(row)?;
                    Some(Point {
                        x: row.threads,
                        y: figure.value,
                        interval: figure.interval,
                    })
                })
                .collect(),
        });
    }
    series
}
