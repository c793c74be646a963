//! What a report shows, as plain values.
//!
//! Made of records once; the page only lays it out.

mod figures;
mod fleet;
mod host;
mod models;
mod nodes;
mod warnings;
mod work;

pub(super) use figures::{Figure, Group, Row};
pub(super) use host::HostView;
pub(super) use models::ModelView;
pub(super) use work::Work;

use fleet::Member;

use super::Options;
use super::plot::ink::Ink;
use super::plot::lines::Series;
use super::plot::runs::{Dot, thin};
use crate::analysis::Analysis;
use crate::judge::Rule;
use crate::record::{Host, Layout, Record, Role};
use crate::stats::{self, Described};

/// Everything that a page shows.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) title: String,
    pub(super) subtitle: String,
    /// The name of downloads, without an extension.
    pub(super) stem: String,
    /// Three lines for those who read no further.
    pub(super) summary: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) groups: Vec<Group>,
    pub(super) comparison: Option<Comparison>,
    pub(super) models: Vec<ModelView>,
    pub(super) matrices: Vec<Matrix>,
    pub(super) timelines: Vec<Work>,
    /// By host.
    pub(super) runs: Vec<(String, Vec<Dot>)>,
    pub(super) hosts: Vec<HostView>,
    pub(super) method: Vec<String>,
    /// The files that the records came from.
    pub(super) files: Vec<String>,
}

/// Several hosts beside each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    pub(super) words: Vec<String>,
    /// What the plots are of.
    pub(super) about: String,
    pub(super) rate: Vec<Series>,
    pub(super) of_limit: Vec<Series>,
    pub(super) columns: Vec<String>,
    /// How many columns are words.
    pub(super) left: usize,
    pub(super) rows: Vec<Vec<String>>,
}

/// A matrix of nodes.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    pub(super) title: String,
    pub(super) note: String,
    pub(super) rows: Vec<u64>,
    pub(super) columns: Vec<u64>,
    /// GB/s by row and column.
    pub(super) cells: Vec<Vec<Option<f64>>>,
}

impl View {
    /// Of records in any order; there is at least one.
    pub(super) fn of(records: &[Record], options: &Options) -> Self {
        let hosts = hosts(records);
        let mut studies: Vec<&str> = records.iter().map(|record| record.study.as_str()).collect();
        studies.sort_unstable();
        studies.dedup();
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        let mut view = Self {
            title: options.title.clone().unwrap_or_else(|| studies.join(", ")),
            subtitle: format!(
                "{} on {}",
                host::count(records.len() as u64, "run"),
                names.join(", ")
            ),
            stem: stem(&studies),
            warnings: options.warnings.clone(),
            files: options.files.clone(),
            ..Self::default()
        };
        let analyses: Vec<Analysis> = hosts
            .iter()
            .map(|host| Analysis::of(&host.records))
            .collect();
        let groups: Vec<Vec<Group>> = hosts
            .iter()
            .zip(&analyses)
            .map(|(host, analysis)| figures::groups(&host.name, analysis, &layouts(&host.records)))
            .collect();
        for ((host, analysis), groups) in hosts.iter().zip(&analyses).zip(&groups) {
            let said = crate::words::of(analysis);
            match hosts.len() {
                1 => view.summary = said,
                // a line a host: of many hosts three lines each are read by nobody
                _ => view
                    .summary
                    .extend(said.first().map(|first| format!("{}: {first}", host.name))),
            }
            view.warnings.extend(warnings::warnings(
                &host.name,
                &host.records,
                analysis,
                groups,
            ));
            view.models.extend(ModelView::of(&host.records, &host.name));
            view.timelines.extend(Work::of(&host.records, &host.name));
            let (dots, left) = thin(dots(&host.records));
            let name = match left {
                Some((kept, all)) => format!("{} ({kept} of {all} runs are drawn)", host.name),
                None => host.name.clone(),
            };
            view.runs.push((name, dots));
            view.hosts.push(HostView::of(&host.name, host.host));
            view.matrices
                .extend(nodes::matrices(&host.records, &host.name));
        }
        let members: Vec<Member<'_>> = hosts
            .iter()
            .zip(&groups)
            .filter_map(|(host, groups)| {
                Some(Member {
                    name: &host.name,
                    host: host.host,
                    group: groups.first()?,
                })
            })
            .collect();
        view.comparison = fleet::comparison(&members);
        view.method = method(records);
        view.groups = groups.into_iter().flatten().collect();
        view
    }
}

/// A study on a host, and its records in the order in which they were made.
struct HostRecords<'r> {
    /// The host's name, with the study where the host has several.
    name: String,
    host: &'r Host,
    records: Vec<Record>,
}

/// By the order of their first records.
fn hosts(records: &[Record]) -> Vec<HostRecords<'_>> {
    let mut hosts: Vec<HostRecords<'_>> = Vec::new();
    for record in records {
        let same = |known: &HostRecords<'_>| {
            let key = |record: &Record| {
                (
                    record.host.name.clone(),
                    record.design.clone(),
                    record.study.clone(),
                )
            };
            key(&known.records[0]) == key(record)
        };
        match hosts.iter_mut().rev().find(|known| same(known)) {
            Some(known) => known.records.push(record.clone()),
            None => hosts.push(HostRecords {
                name: match record.host.name.as_str() {
                    "" => "host".to_owned(),
                    name => name.to_owned(),
                },
                host: &record.host,
                records: vec![record.clone()],
            }),
        }
    }
    let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
    for host in &mut hosts {
        if names.iter().filter(|name| **name == host.name).count() > 1 {
            host.name = format!("{} ({})", host.name, host.records[0].study);
        }
        host.records
            .sort_by_key(|record| (record.session, record.round, record.place, record.began_ms));
    }
    hosts
}

/// Each layout once.
fn layouts(records: &[Record]) -> Vec<&Layout> {
    let mut layouts: Vec<&Layout> = Vec::new();
    for record in records {
        if !layouts.contains(&&record.layout) {
            layouts.push(&record.layout);
        }
    }
    layouts
}

/// A name for files, of letters and digits.
fn stem(studies: &[&str]) -> String {
    let name: String = studies
        .join("-")
        .chars()
        .map(|c| match c.is_ascii_alphanumeric() || "-_.".contains(c) {
            true => c,
            false => '-',
        })
        .take(80)
        .collect();
    match name.trim_matches(['.', '-']) {
        "" => "study".to_owned(),
        name => name.to_owned(),
    }
}

fn dots(records: &[Record]) -> Vec<Dot> {
    let mut dots: Vec<Option<Dot>> = vec![None; records.len()];
    let mut seen: Vec<bool> = vec![false; records.len()];
    let mut place = 0;
    for first in 0..records.len() {
        let same = |record: &Record| {
            record.refused.is_none()
                && (record.role, record.layout.memory, &record.settings)
                    == (
                        records[first].role,
                        records[first].layout.memory,
                        &records[first].settings,
                    )
        };
        if seen[first] {
            continue;
        }
        let members: Vec<usize> = (first..records.len())
            .filter(|at| same(&records[*at]))
            .collect();
        let times: Vec<f64> = members
            .iter()
            .map(|at| records[*at].write_ns as f64)
            .collect();
        let Some(median) = stats::median(&times).filter(|median| *median > 0.0) else {
            continue;
        };
        let far =
            Described::of(&times, &Rule::default()).map_or_else(Vec::new, |told| told.outliers);
        let ink = match records[first].role {
            Role::Limit | Role::MatrixLimit => Ink::Limit,
            _ => {
                place += 1;
                Ink::Series(place - 1)
            }
        };
        for (member, at) in members.into_iter().enumerate() {
            seen[at] = true;
            dots[at] = Some(Dot {
                name: format!(
                    "{} {}, {}",
                    records[at].role.name(),
                    records[at].settings.writer,
                    host::count(records[at].settings.threads, "thread")
                ),
                ink,
                order: at,
                round: records[at].round,
                ratio: times[member] / median,
                outlier: far.contains(&member),
            });
        }
    }
    dots.into_iter().flatten().collect()
}

/// How the figures came about.
fn method(records: &[Record]) -> Vec<String> {
    let rounds = records
        .iter()
        .map(|record| record.round + 1)
        .max()
        .unwrap_or(0);
    let sessions = records
        .iter()
        .map(|record| record.session + 1)
        .max()
        .unwrap_or(1);
    let mut method = vec![
        "A run initialises the whole memory map: pinned workers meet at a barrier, and the time is from there to the \
         end of the last one. Reserving address space and the first touch of memory are timed apart."
            .to_owned(),
        format!(
            "In each of {} everything runs once, in an order that is shuffled anew, on memory that was touched \
             before. The limit, a streaming fill of the same memory by the same workers, takes part in every round.",
            host::count(rounds, "round")
        ),
        "Ratios (speed-up, of limit) are taken within a round; the figure is their median, so drift slower than a \
         round cancels and one disturbed run changes nothing. Times and rates are medians over all rounds."
            .to_owned(),
        format!(
            "Intervals are 95 % bootstrap intervals of the median and take at least {} rounds; the summary claims a \
             difference only where the whole interval lies beyond the 2 % by which identical code differs.",
            crate::judge::MIN_ROUNDS
        ),
        "Efficiency is speed-up over the ratio of threads. GB/s are bytes of struct pages, not traffic: ordinary \
         stores read each line before they write it."
            .to_owned(),
    ];
    if sessions > 1 {
        method.push(format!(
            "The study was interrupted and went on; its records are of {}.",
            host::count(sessions, "session")
        ));
    }
    let mut absent: Vec<&str> = records
        .iter()
        .map(|record| record.counters.absent.as_str())
        .collect();
    absent.sort_unstable();
    absent.dedup();
    if let Some(why) = absent.into_iter().find(|why| !why.is_empty()) {
        method.push(format!("Hardware counters are absent: {why}"));
    }
    method
}
