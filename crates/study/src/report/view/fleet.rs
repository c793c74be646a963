//! Several hosts beside each other.
//!
//! Hosts are different machines that ran at different times: their runs are no pairs, so figures
//! stand beside each other with their own intervals. Ratios are for [`super::pairs`], which resamples
//! both sides.

use super::super::plot::canvas::Marker;
use super::super::plot::ink::Ink;
use super::super::plot::lines::{Point, Series};
use super::Comparison;
use super::figures::{Figure, Group, Row};
use crate::record::Host;

/// A host with its first group, which is its first way of running.
pub(super) struct Member<'v> {
    pub(super) name: &'v str,
    pub(super) host: &'v Host,
    pub(super) group: &'v Group,
}

/// `None` of fewer than two hosts.
pub(super) fn comparison(members: &[Member<'_>]) -> Option<Comparison> {
    if members.len() < 2 {
        return None;
    }
    // one writer for all, so that hosts differ and not what they ran
    let has = |member: &Member<'_>, writer: &str| {
        let mut rows = member.group.rows.iter();
        rows.any(|row| !row.limit && row.series == writer)
    };
    let writer = members
        .iter()
        .filter_map(|member| best(member.group))
        .find(|writer| members.iter().all(|member| has(member, writer)))
        .or_else(|| {
            let rows = members[0].group.rows.iter().filter(|row| !row.limit);
            let mut names = rows.map(|row| row.series.as_str());
            names.find(|writer| members.iter().all(|member| has(member, writer)))
        })?;
    let rows = |member: &Member<'_>| -> Vec<Row> {
        let rows = member.group.rows.iter();
        rows.filter(|row| !row.limit && row.series == writer)
            .cloned()
            .collect()
    };
    let series = |figure: &dyn Fn(&Row) -> Option<Figure>| -> Vec<Series> {
        members
            .iter()
            .enumerate()
            .map(|(at, member)| Series {
                name: member.name.to_owned(),
                ink: Ink::Series(at),
                marker: Marker::of(at),
                points: rows(member)
                    .iter()
                    .filter_map(|row| {
                        let figure = figure(row)?;
                        Some(Point {
                            x: row.threads,
                            y: figure.value,
                            interval: figure.interval,
                        })
                    })
                    .collect(),
            })
            .collect()
    };
    let shown = |figure: Option<Figure>| match figure {
        None => "–".to_owned(),
        Some(Figure {
            value,
            interval: None,
        }) => format!("{value:.2}"),
        Some(Figure {
            value,
            interval: Some((low, high)),
        }) => format!("{value:.2} [{low:.2}, {high:.2}]"),
    };
    let table = members.iter().filter_map(|member| {
        let rows = rows(member);
        let most = rows.iter().max_by_key(|row| row.threads)?;
        Some(vec![
            member.name.to_owned(),
            member.host.cpu.clone(),
            member.host.kernel.clone(),
            member.host.nodes.len().to_string(),
            most.threads.to_string(),
            shown(Some(most.time)),
            format!("{:.2}", most.rate),
            shown(most.speed_up),
            shown(most.of_limit),
            most.runs.to_string(),
        ])
    });
    Some(Comparison {
        words: vec![format!(
            "{} hosts or studies, page writer {writer}. Their runs are not paired, and what differs between them is \
             everything that differs between the machines.",
            members.len()
        )],
        about: format!("bytes of struct pages, {writer}"),
        rate: series(&|row| {
            Some(Figure {
                value: row.rate,
                interval: row.rate_interval(),
            })
        }),
        of_limit: series(&|row| row.of_limit),
        columns: [
            "host",
            "processor",
            "kernel",
            "nodes",
            "threads",
            "time, ms",
            "GB/s",
            "speed-up",
            "of limit",
            "runs",
        ]
        .map(String::from)
        .to_vec(),
        left: 3,
        rows: table.collect(),
    })
}

/// The writer with the smallest time among those with the most threads.
fn best(group: &Group) -> Option<&str> {
    let rows = || group.rows.iter().filter(|row| !row.limit);
    let most = rows().map(|row| row.threads).max()?;
    let own = rows().filter(|row| row.threads == most);
    let best = own.min_by(|one, other| one.time.value.total_cmp(&other.time.value))?;
    Some(&best.series)
}
