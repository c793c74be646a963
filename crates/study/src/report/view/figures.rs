//! Figures of contestants, and their curves.
//!
//! What is compared is compared within a round, by the judging rule; where there are too few rounds
//! for it, medians stand without intervals.

use std::collections::{BTreeMap, BTreeSet};

use super::super::plot::canvas::Marker;
use super::super::plot::ink::Ink;
use super::super::plot::lines::{Point, Series};
use super::host::bytes;
use crate::judge::{MIN_ROUNDS, Rule, Samples};
use crate::record::{Record, Role, Settings};
use crate::stats;

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
    pub(in crate::report) rows: Vec<Row>,
    pub(in crate::report) time: Vec<Series>,
    pub(in crate::report) speed_up: Vec<Series>,
    pub(in crate::report) efficiency: Vec<Series>,
    /// The limit among them.
    pub(in crate::report) rate: Vec<Series>,
}

/// All but threads and writer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Condition {
    memory: u64,
    nodes: Vec<u64>,
    placement: String,
    scheduler: String,
    policy: String,
    pages: String,
}

impl Condition {
    fn of(record: &Record) -> Self {
        let settings = record.settings.clone();
        Self {
            memory: record.layout.memory,
            nodes: settings.nodes,
            placement: settings.placement,
            scheduler: settings.scheduler,
            policy: settings.policy,
            pages: settings.pages,
        }
    }

    /// Whether a limit under `self` is the limit of cells under `other`: who takes which section
    /// when is no matter of the memory.
    fn is_limit_of(&self, other: &Self) -> bool {
        (self.memory, &self.nodes, &self.placement, &self.pages)
            == (other.memory, &other.nodes, &other.placement, &other.pages)
    }
}

/// Times by round, ns.
pub(super) type Times = BTreeMap<u64, f64>;

/// A contestant's times.
pub(super) struct Contestant<'r> {
    pub(super) threads: u64,
    pub(super) series: String,
    pub(super) limit: bool,
    pub(super) times: Times,
    pub(super) example: &'r Record,
}

/// The groups of one host's records, with the contestants that they are of.
pub(super) fn groups<'r>(host: &str, records: &[&'r Record]) -> Vec<(Group, Vec<Contestant<'r>>)> {
    let cells = || records.iter().filter(|record| record.role == Role::Cell);
    let conditions: BTreeSet<Condition> = cells().map(|record| Condition::of(record)).collect();
    let several = conditions.len() > 1;
    conditions
        .iter()
        .filter_map(|condition| group(host, records, condition, several))
        .collect()
}

fn group<'r>(
    host: &str,
    records: &[&'r Record],
    condition: &Condition,
    several: bool,
) -> Option<(Group, Vec<Contestant<'r>>)> {
    let contestants = contestants(records, condition);
    let example = contestants
        .iter()
        .find(|contestant| !contestant.limit)?
        .example;
    let rows: Vec<Row> = contestants
        .iter()
        .filter_map(|contestant| row(contestant, &contestants))
        .collect();
    let layout = &example.layout;
    let rounds: BTreeSet<u64> = contestants
        .iter()
        .flat_map(|contestant| contestant.times.keys().copied())
        .collect();
    let settings = Settings {
        threads: 0,
        ..example.settings.clone()
    };
    let group = Group {
        title: match several {
            true => format!("{host}: {}", condition_words(condition)),
            false => format!("{host}: time, speed-up, rate"),
        },
        note: format!(
            "{} on {}: {}, {} of struct pages; {} scheduler, {} policy, {} placement, {} pages",
            layout.source,
            super::host::count(layout.nodes, "node"),
            bytes(layout.memory),
            bytes(example.bytes()),
            settings.scheduler,
            settings.policy,
            settings.placement,
            settings.pages,
        ),
        basis: basis(rounds.len()),
        time: curves(&rows, false, |row| Some(row.time)),
        speed_up: curves(&rows, false, |row| row.speed_up),
        efficiency: curves(&rows, false, |row| {
            row.efficiency.map(|value| Figure {
                value,
                interval: row.speed_up.and_then(|figure| {
                    let (low, high) = figure.interval?;
                    let part = value / figure.value;
                    Some((low * part, high * part))
                }),
            })
        }),
        rate: curves(&rows, true, |row| {
            Some(Figure {
                value: row.rate,
                interval: row.rate_interval(),
            })
        }),
        rows,
    };
    Some((group, contestants))
}

impl Row {
    /// The interval of the rate, from that of the time.
    pub(super) fn rate_interval(&self) -> Option<(f64, f64)> {
        let (low, high) = self.time.interval?;
        let bytes = self.rate * self.time.value;
        Some((bytes / high, bytes / low))
    }
}

impl Group {
    /// The row of a contestant.
    pub(super) fn row(&self, of: &Contestant<'_>) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| (row.threads, row.limit, &row.series) == (of.threads, of.limit, &of.series))
    }
}

/// The writer with the smallest median among those with the most threads.
pub(super) fn best<'c, 'r>(contestants: &'c [Contestant<'r>]) -> Option<&'c Contestant<'r>> {
    let writers = || contestants.iter().filter(|contestant| !contestant.limit);
    let most = writers().map(|contestant| contestant.threads).max()?;
    let median = |contestant: &Contestant<'_>| {
        let times: Vec<f64> = contestant.times.values().copied().collect();
        stats::median(&times).unwrap_or(f64::INFINITY)
    };
    writers()
        .filter(|contestant| contestant.threads == most)
        .min_by(|one, other| median(one).total_cmp(&median(other)))
}

fn basis(rounds: usize) -> String {
    let what = "times are medians; speed-up and of limit are medians of ratios within a round";
    match rounds < MIN_ROUNDS {
        true => format!(
            "{rounds} rounds: indications without intervals, which take {MIN_ROUNDS} rounds; {what}"
        ),
        false => format!("{rounds} rounds, 95 % intervals in brackets; {what}"),
    }
}

fn condition_words(condition: &Condition) -> String {
    let nodes: Vec<String> = condition.nodes.iter().map(u64::to_string).collect();
    let place = match nodes.is_empty() {
        true => String::new(),
        false => format!(" on node {}", nodes.join("+")),
    };
    format!(
        "{}, {}{place}, {}, {}, {} pages",
        bytes(condition.memory),
        condition.placement,
        condition.scheduler,
        condition.policy,
        condition.pages
    )
}

/// Those of a condition and their limits, by threads, the limit first, then as they first came.
fn contestants<'r>(records: &[&'r Record], condition: &Condition) -> Vec<Contestant<'r>> {
    let mut contestants: Vec<Contestant<'r>> = Vec::new();
    for record in records {
        let own = Condition::of(record);
        let limit = match record.role {
            Role::Cell if own == *condition => false,
            Role::Limit if own.is_limit_of(condition) => true,
            _ => continue,
        };
        if record.refused.is_some() || record.write_ns == 0 {
            continue;
        }
        let series = match limit {
            true => "limit",
            false => record.settings.writer.as_str(),
        };
        let same = |other: &Contestant<'_>| {
            (other.threads, other.limit, other.series.as_str())
                == (record.settings.threads, limit, series)
        };
        let at = contestants.iter().position(same).unwrap_or_else(|| {
            contestants.push(Contestant {
                threads: record.settings.threads,
                series: series.to_owned(),
                limit,
                times: Times::new(),
                example: record,
            });
            contestants.len() - 1
        });
        contestants[at]
            .times
            .insert(record.round, record.write_ns as f64);
    }
    contestants.sort_by_key(|contestant| {
        (
            contestant.threads,
            !contestant.limit,
            contestant.series.clone(),
        )
    });
    contestants
}

fn row(contestant: &Contestant<'_>, all: &[Contestant<'_>]) -> Option<Row> {
    let times: Vec<f64> = contestant.times.values().copied().collect();
    let of = |threads: u64, limit: bool, series: &str| {
        all.iter().find(|other| {
            other.threads == threads && other.limit == limit && other.series == series
        })
    };
    let fewest = all.iter().map(|other| other.threads).min()?;
    let speed_up = of(fewest, contestant.limit, &contestant.series)
        .and_then(|reference| speed(contestant, reference))
        .map(|figure| unlike(figure, contestant.threads != fewest));
    let median = stats::median(&times)?;
    let ones: Times = contestant.times.keys().map(|round| (*round, 1e6)).collect();
    let pages = contestant.example.layout.pages;
    Some(Row {
        threads: contestant.threads,
        series: contestant.series.clone(),
        limit: contestant.limit,
        time: ratio(&contestant.times, &ones)?,
        ns_a_page: median / pages as f64,
        rate: contestant.example.bytes() as f64 / median,
        efficiency: speed_up.map(|figure| figure.value * fewest as f64 / contestant.threads as f64),
        speed_up,
        of_limit: of(contestant.threads, true, "limit")
            .and_then(|limit| speed(contestant, limit))
            .map(|figure| unlike(figure, !contestant.limit)),
        spread: match times.len() {
            0..4 => None,
            _ => stats::spread(&times),
        },
        runs: times.len(),
        outliers: outliers(&times).count(),
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

/// How many times as fast `own` is as `other`, within rounds.
pub(super) fn speed(own: &Contestant<'_>, other: &Contestant<'_>) -> Option<Figure> {
    ratio(&other.times, &own.times)
}

/// The median of `above` over `below` within the rounds that both have.
fn ratio(above: &Times, below: &Times) -> Option<Figure> {
    let pairs: Vec<(f64, f64)> = above
        .iter()
        .filter_map(|(round, above)| Some((*above, *below.get(round)?)))
        .collect();
    let (above, below): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    if let Ok(samples) = Samples::from_times(&Rule::default(), vec![above, below]) {
        let ratio = samples.cost(0, 1).ok()?;
        return Some(Figure {
            value: ratio.median,
            interval: Some((ratio.low, ratio.high)),
        });
    }
    let ratios: Vec<f64> = pairs.iter().map(|(above, below)| above / below).collect();
    Some(Figure {
        value: stats::median(&ratios)?,
        interval: None,
    })
}

/// The places of times that lie more than three quartile distances outside of the quartiles.
pub(super) fn outliers(times: &[f64]) -> impl Iterator<Item = usize> {
    let low = stats::quantile(times, 0.25).unwrap_or(0.0);
    let high = stats::quantile(times, 0.75).unwrap_or(f64::INFINITY);
    let reach = 3.0 * (high - low);
    let far = move |time: &f64| *time < low - reach || *time > high + reach;
    times
        .iter()
        .enumerate()
        .filter(move |(_, time)| times.len() >= 8 && far(time))
        .map(|(at, _)| at)
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
        let ink = match is_limit {
            true => Ink::Limit,
            false => {
                place += 1;
                Ink::Series(place - 1)
            }
        };
        if is_limit && !limit {
            continue;
        }
        series.push(Series {
            name: name.to_owned(),
            ink,
            marker: match is_limit {
                true => Marker::Cross,
                false => Marker::of(place - 1),
            },
            points: rows
                .iter()
                .filter(|row| row.series == name && row.limit == is_limit)
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
