//! What a report shows, as plain values.
//!
//! Made of records once; the page only lays it out.

mod boots;
mod figures;
mod fleet;
mod host;
mod models;
mod nodes;
mod pairs;
mod warnings;
mod work;

pub(super) use boots::{BootGroup, BootView, about};
pub(super) use figures::{Figure, Group, Row};
pub(super) use host::HostView;
pub(super) use models::ModelView;
pub(super) use pairs::{EffectRow, Pair};
pub(super) use work::Work;

use std::collections::HashMap;

use fleet::Member;

use super::Options;
use super::plot::ink::Ink;
use super::plot::lines::Series;
use super::plot::runs::{Dot, thin};
use crate::analysis::Analysis;
use crate::judge::Rule;
use crate::record::{Host, Key, Layout, Record, Role};
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
    pub(super) boots: Vec<BootGroup>,
    pub(super) comparison: Option<Comparison>,
    pub(super) pairs: Vec<Pair>,
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
            view.boots
                .extend(boots::groups(&host.name, analysis, &layouts(&host.records)));
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
        if let Some((first, others)) = hosts.split_first() {
            let named = |host: &HostRecords<'_>| pairs::one(first, host);
            view.pairs = others.iter().map(named).collect();
            let said = view.pairs.iter().map(|pair| {
                let words = &pair.words;
                format!("{} (B) against {} (A): {words}", pair.b, pair.a)
            });
            view.summary.extend(said);
        }
        view.method = method(records);
        view.groups = groups.into_iter().flatten().collect();
        view
    }
}

/// A study on a host, and its records in the order in which they were made.
struct HostRecords<'r> {
    /// The host's name, with the study where the host has several, and a number where it has one study
    /// several times.
    name: String,
    host: &'r Host,
    records: Vec<Record>,
    // where each run's record is
    runs: HashMap<Key, usize>,
}

/// By the order of their first records. A study that was done twice on a host, such as before and after
/// a change, is two: that begins with the first run of which there is another record already.
fn hosts(records: &[Record]) -> Vec<HostRecords<'_>> {
    let mut hosts: Vec<HostRecords<'_>> = Vec::new();
    for record in records {
        let same = |known: &HostRecords<'_>| {
            let study = |record: &Record| {
                (
                    record.host.name.clone(),
                    record.design.clone(),
                    record.study.clone(),
                    record.host.commit.clone(),
                )
            };
            study(&known.records[0]) == study(record)
        };
        let known = hosts.iter_mut().rev().find(|known| same(known));
        let known = known.filter(|known| match known.runs.get(&record.key()) {
            Some(at) => known.records[*at] == *record,
            None => true,
        });
        match known {
            // a file that was given twice adds nothing
            Some(known) if known.runs.contains_key(&record.key()) => {}
            Some(known) => {
                known.runs.insert(record.key(), known.records.len());
                known.records.push(record.clone());
            }
            None => hosts.push(HostRecords {
                runs: HashMap::from([(record.key(), 0)]),
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
    }
    let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
    for (at, host) in hosts.iter_mut().enumerate() {
        let before = names[..at]
            .iter()
            .filter(|name| **name == names[at])
            .count();
        if names.iter().filter(|name| **name == names[at]).count() > 1 {
            host.name = format!("{} #{}", names[at], before + 1);
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
            .map(|at| records[*at].time_ns() as f64)
            .collect();
        let Some(median) = stats::median(&times).filter(|median| *median > 0.0) else {
            continue;
        };
        let far =
            Described::of(&times, &Rule::default()).map_or_else(Vec::new, |told| told.outliers);
        let ink = match records[first].role {
            Role::Limit | Role::MatrixLimit | Role::BootReference => Ink::Limit,
            _ => {
                place += 1;
                Ink::Series(place - 1)
            }
        };
        for (member, at) in members.into_iter().enumerate() {
            seen[at] = true;
            dots[at] = Some(Dot {
                name: format!(
                    "{}{} {}, {}",
                    match records[at].role.is_boot() {
                        true => format!("{} ", records[at].settings.policy),
                        false => String::new(),
                    },
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
             difference only where the whole interval of the ratio lies on one side of 1. Identical code may differ \
             by up to 2 % all the same.",
            crate::judge::MIN_ROUNDS
        ),
        "Efficiency is speed-up over the ratio of threads. GB/s are bytes of struct pages, not traffic: ordinary \
         stores read each line before they write it."
            .to_owned(),
    ];
    if records.iter().any(|record| record.boot.is_some()) {
        method.push(
            "A boot makes a memory map of its own and touches its memory as it writes it, so its times are not to be \
             put beside those of runs on memory that was touched before. It is held against the eager boot of its own \
             round, which one CPU does alone."
                .to_owned(),
        );
    }
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
